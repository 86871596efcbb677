//! TLS: with a certificate made for the test, a client that checks it, and clients that do not
//! finish their greeting.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use offshoot_engine::{Engine, EngineOptions};
use offshoot_server::{Server, ServerOptions};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::common::{self, Running};

/// A certificate for this machine with its key, in files.
struct Identity {
    cert: PathBuf,
    key: PathBuf,
    der: CertificateDer<'static>,
}

fn identity(dir: &Path, name: &str) -> Identity {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let (cert, key) = (
        dir.join(format!("{name}.pem")),
        dir.join(format!("{name}.key")),
    );
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    Identity {
        cert,
        key,
        der: made.cert.der().clone(),
    }
}

fn options(identity: &Identity) -> ServerOptions {
    ServerOptions {
        tls_cert: Some(identity.cert.clone()),
        tls_key: Some(identity.key.clone()),
        ..common::options()
    }
}

type Connection = StreamOwned<ClientConnection, TcpStream>;

/// A connection that trusts one certificate.
fn connect(running: &Running, trusted: &CertificateDer<'static>) -> Connection {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(running.address).unwrap();
    let limit = Some(Duration::from_secs(20));
    stream.set_read_timeout(limit).unwrap();
    StreamOwned::new(client, stream)
}

/// One request on a connection of its own, and all of the answer.
fn get(
    running: &Running,
    trusted: &CertificateDer<'static>,
    target: &str,
) -> std::io::Result<String> {
    let mut connection = connect(running, trusted);
    let mut request = running.client().head("GET", target.as_bytes(), &[]);
    request.extend_from_slice(b"Connection: close\r\n\r\n");
    connection.write_all(&request)?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[test]
fn requests_and_sign_in_over_tls() {
    let data = offshoot_testkit::HostDir::new();
    let identity_of_server = identity(data.path(), "server");
    let (running, url) =
        Running::start_with_url(&data.path().join("data"), options(&identity_of_server));
    let trusted = &identity_of_server.der;
    let place = format!("https://{}", running.address);
    let path = url.strip_prefix(&place).unwrap_or_else(|| panic!("{url}"));
    let listed = get(&running, trusted, "/api/v1/workspaces").unwrap();
    assert!(listed.starts_with("HTTP/1.1 200"), "{listed}");
    let signed_in = get(&running, trusted, path).unwrap();
    let cookie = signed_in
        .lines()
        .find(|line| line.to_ascii_lowercase().starts_with("set-cookie"))
        .unwrap_or_else(|| panic!("{signed_in}"));
    for part in ["; Secure", "; HttpOnly", "; SameSite=Strict"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    // A client that trusts another certificate learns nothing, and neither does one that speaks
    // plain HTTP.
    let other = identity(data.path(), "other");
    assert!(get(&running, &other.der, "/healthz").is_err());
    let mut plain = TcpStream::connect(running.address).unwrap();
    plain
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1"));
}

#[test]
fn curl_trusts_the_certificate() {
    let curl = |args: &[&str]| std::process::Command::new("curl").args(args).output();
    if curl(&["--version"]).is_err() {
        offshoot_testkit::skip("curl is not installed");
        return;
    }
    let data = offshoot_testkit::HostDir::new();
    let identity = identity(data.path(), "server");
    let running = Running::start_with(&data.path().join("data"), options(&identity));
    let url = format!("https://localhost:{}/healthz", running.address.port());
    let trusting = curl(&["-sS", "--cacert", identity.cert.to_str().unwrap(), &url]).unwrap();
    let text = String::from_utf8_lossy(&trusting.stdout);
    assert!(
        trusting.status.success() && text.contains("ok"),
        "{trusting:?}"
    );
    assert!(!curl(&["-sS", &url]).unwrap().status.success());
}

#[test]
fn a_slow_greeting_holds_nobody_up() {
    let data = offshoot_testkit::HostDir::new();
    let identity = identity(data.path(), "server");
    let mut options = options(&identity);
    options.limits.request_timeout = Duration::from_secs(2);
    let mut running = Running::start_with(&data.path().join("data"), options);
    let mut silent: Vec<TcpStream> = (0..50)
        .map(|_| TcpStream::connect(running.address).unwrap())
        .collect();
    // Some begin and stop in the middle.
    for stream in silent.iter_mut().step_by(2) {
        stream.write_all(b"\x16\x03\x01\x02\x00\x01").unwrap();
    }
    let began = Instant::now();
    let answer = get(&running, &identity.der, "/healthz").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(began.elapsed() < Duration::from_secs(1), "{began:?}");
    // They do not stay forever.
    for stream in &mut silent {
        let limit = Some(Duration::from_secs(10));
        stream.set_read_timeout(limit).unwrap();
        let closed = stream.read(&mut [0; 64]);
        assert!(
            !matches!(&closed, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock),
            "{closed:?}"
        );
    }
    // A stop waits neither for greetings nor for idle clients and streams.
    let _silent = TcpStream::connect(running.address).unwrap();
    let mut stream = connect(&running, &identity.der);
    let mut request = running.client().head("GET", b"/api/v1/events", &[]);
    request.extend_from_slice(b"\r\n");
    stream.write_all(&request).unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    let began = Instant::now();
    running.stop();
    assert!(began.elapsed() < Duration::from_secs(5), "{began:?}");
}

#[test]
fn wrong_files_are_told_before_anything_listens() {
    let data = offshoot_testkit::HostDir::new();
    let good = identity(data.path(), "good");
    let other = identity(data.path(), "other");
    let empty = data.path().join("empty.pem");
    std::fs::write(&empty, "nothing here\n").unwrap();
    let missing = data.path().join("missing.pem");
    let bind = |cert: Option<&PathBuf>, key: Option<&PathBuf>, listen: &str| {
        let engine = Engine::open(EngineOptions::new(data.path().join("data"))).unwrap();
        let options = ServerOptions {
            tls_cert: cert.cloned(),
            tls_key: key.cloned(),
            listen: listen.parse().unwrap(),
            ..common::options()
        };
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(Server::bind(engine, options)).map(drop)
    };
    let local = "127.0.0.1:0";
    for (cert, key, says) in [
        (
            Some(&missing),
            Some(&good.key),
            "certificate cannot be read",
        ),
        (Some(&good.cert), Some(&missing), "key cannot be read"),
        (Some(&empty), Some(&good.key), "no certificate"),
        (Some(&good.cert), Some(&empty), "key cannot be read"),
        (Some(&good.cert), Some(&other.key), "does not belong"),
        (Some(&good.cert), None, "--tls-key"),
        (None, Some(&good.key), "--tls-cert"),
    ] {
        let error = bind(cert, key, local).unwrap_err();
        let told = error.to_json().to_string();
        assert_eq!(error.code().as_str(), "invalid_request");
        assert!(
            told.contains(says) && told.contains("hint"),
            "{says}: {told}"
        );
        assert!(!told.contains("/tmp/"), "a host path: {told}");
    }
    // Other machines may come where it is encrypted, and only there.
    let everywhere = "0.0.0.0:0";
    bind(Some(&good.cert), Some(&good.key), everywhere).unwrap();
    let error = bind(None, None, everywhere)
        .unwrap_err()
        .to_json()
        .to_string();
    assert!(
        error.contains("--tls-cert") && error.contains("--allow-plain-http"),
        "{error}"
    );
}
