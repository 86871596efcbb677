//! TLS: the certificate of the server, and the handshake that comes before a request.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use offshoot_core::{Error, Result};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

/// The longest that a client may take for the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// What a server needs to speak TLS.
#[derive(Clone)]
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    timeout: Duration,
}

impl Tls {
    /// Reads a chain of certificates, the server's own first, and its key, both PEM.
    pub(crate) fn load(cert: &Path, key: &Path, request_timeout: Duration) -> Result<Tls> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(cert)
            .and_then(Iterator::collect)
            .map_err(|cause| unreadable("certificate", "tls-cert", cause))?;
        if chain.is_empty() {
            return Err(
                Error::invalid("the TLS certificate file holds no certificate").with_hint(
                    "`--tls-cert` names a PEM file with the whole chain, the server's own first",
                ),
            );
        }
        let key = PrivateKeyDer::from_pem_file(key)
            .map_err(|cause| unreadable("key", "tls-key", cause))?;
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|cause| Error::internal("TLS cannot be set up").with_source(cause))?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(refused)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            timeout: request_timeout.min(HANDSHAKE_TIMEOUT),
        })
    }

    /// The handshake with a client; none if it does not answer in time, or not in TLS.
    pub(crate) async fn handshake(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        match tokio::time::timeout(self.timeout, self.acceptor.accept(stream)).await {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(cause)) => {
                tracing::debug!(%cause, "a handshake failed");
                None
            }
            Err(_) => {
                tracing::debug!("a handshake took too long");
                None
            }
        }
    }
}

fn unreadable(
    what: &str,
    flag: &str,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::invalid(format!("the TLS {what} cannot be read"))
        .with_hint(format!(
            "`--{flag}` names a PEM file that the server may read"
        ))
        .with_source(cause)
}

fn refused(cause: rustls::Error) -> Error {
    let error = match &cause {
        rustls::Error::InconsistentKeys(_) => {
            Error::invalid("the TLS key does not belong to the certificate")
                .with_hint("`--tls-key` is the key of the first certificate in `--tls-cert`")
        }
        _ => Error::invalid("the TLS certificate or key cannot be used")
            .with_hint("use an RSA, ECDSA or Ed25519 key and an X.509 certificate, both PEM"),
    };
    error.with_source(cause)
}
