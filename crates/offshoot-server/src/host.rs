//! Checks the host and the origin of a request: only names of this server, and only its own pages.
//!
//! A page of another site may have pointed its own name at this machine (DNS rebinding), and the
//! browser would then take us for that site. So the name is compared whole, and a request that
//! names two hosts is refused: a proxy in front of the server may have checked the other one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};
use offshoot_core::{Error, ErrorCode, Result};

use crate::options::ServerOptions;

/// Refuses hosts that are not ours. Returns the one that is, as the request has it.
pub(crate) fn check(options: &ServerOptions, headers: &HeaderMap, target: &Uri) -> Result<String> {
    let mut given = headers.get_all(header::HOST).iter();
    let host = match (given.next().map(|host| host.to_str()), given.next()) {
        (Some(Ok(host)), None) => host,
        (Some(Ok(_)), Some(_)) => return Err(refused("the request has more than one `Host`")),
        (Some(Err(_)), _) | (None, _) => return Err(not_ours()),
    };
    // A target may name a host too, and then that is the one which counts.
    let in_target = target.authority().map(Authority::as_str);
    for name in [Some(host), in_target].into_iter().flatten() {
        if !is_own(options, name) {
            return Err(not_ours());
        }
    }
    Ok(host.to_owned())
}

/// Refuses requests of pages that are not ours.
pub(crate) fn check_origin(options: &ServerOptions, headers: &HeaderMap, host: &str) -> Result<()> {
    for origin in headers.get_all(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or_default();
        let is_own = ["http://", "https://"]
            .iter()
            .filter_map(|scheme| origin.strip_prefix(scheme))
            .any(|name| name.eq_ignore_ascii_case(host));
        let is_allowed = options
            .allowed_origins
            .iter()
            .any(|allowed| allowed == origin);
        if !is_own && !is_allowed {
            return Err(refused("the `Origin` of the request is another site")
                .with_hint("add it to the setting `allowed_origins`"));
        }
    }
    Ok(())
}

fn refused(message: &str) -> Error {
    Error::new(ErrorCode::PermissionDenied, message)
}

fn not_ours() -> Error {
    refused("the `Host` of the request is none of this server's")
        .with_hint("add the name to the setting `allowed_hosts`")
}

/// Whether `name`, `name:port`, `address:port` or `[address]:port` is one of ours, whole.
fn is_own(options: &ServerOptions, host: &str) -> bool {
    let own_address = |ip: IpAddr| {
        // An address cannot be pointed elsewhere, but a loopback server has only loopback ones.
        !options.listen.ip().is_loopback() || ip.is_loopback()
    };
    if let Some(rest) = host.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else {
            return false;
        };
        return is_port(port)
            && address
                .parse::<Ipv6Addr>()
                .is_ok_and(|ip| own_address(ip.into()));
    }
    let (name, port) = match host.find(':') {
        Some(colon) => host.split_at(colon),
        None => (host, ""),
    };
    if !is_port(port) {
        return false;
    }
    if let Ok(ip) = name.parse::<Ipv4Addr>() {
        return own_address(ip.into());
    }
    let ours = options.allowed_hosts.iter().map(String::as_str);
    ours.chain(["localhost"])
        .any(|allowed| name.eq_ignore_ascii_case(allowed))
}

/// Nothing, or a colon and a number.
fn is_port(text: &str) -> bool {
    let digits = match text.strip_prefix(':') {
        None => return text.is_empty(),
        Some(digits) => digits,
    };
    digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> ServerOptions {
        let mut options = ServerOptions::default();
        options.allowed_hosts.push("box.example".into());
        options
    }

    fn headers(hosts: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, host.parse().unwrap());
        }
        headers
    }

    fn accepts(hosts: &[&str], target: &str) -> bool {
        check(&options(), &headers(hosts), &target.parse().unwrap()).is_ok()
    }

    #[test]
    fn hosts() {
        for good in [
            "localhost",
            "LOCALHOST:7420",
            "localhost:7420",
            "127.0.0.1",
            "127.0.0.1:7420",
            "[::1]",
            "[::1]:7420",
            "BOX.example:1",
        ] {
            assert!(accepts(&[good], "/"), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "localhost.evil.example",
            "localhost.",
            "box.example.",
            "127.0.0.1.",
            "192.0.2.1",
            "127.0.0.1.evil",
            "127.1",
            "2130706433",
            "0.0.0.0",
            "[::1].evil.example",
            "[::1].evil.example:7420",
            "[::1]evil",
            "[::1%25lo]",
            "[::1%lo]:7420",
            "[127.0.0.1]",
            "[localhost]",
            "[::1",
            "::1",
            "::1:7420",
            "localhost:",
            "localhost:x",
            "localhost:+1",
            "localhost:65536",
            "localhost:80:80",
            "user@localhost",
            "evil.example:80@localhost",
            "localhost,evil.example",
            "localhost evil.example",
            "localhost/evil",
        ] {
            assert!(!accepts(&[bad], "/"), "{bad}");
        }
    }

    #[test]
    fn one_host_alone() {
        assert!(!accepts(&[], "/"));
        assert!(!accepts(&[], "http://localhost/"));
        assert!(!accepts(&["localhost", "localhost"], "/"));
        assert!(!accepts(&["localhost", "evil.example"], "/"));
        assert!(accepts(&["localhost"], "http://localhost:7420/"));
        assert!(!accepts(&["localhost"], "http://evil.example/"));
        assert!(!accepts(&["localhost"], "http://user@localhost/"));
        assert!(!accepts(&["evil.example"], "http://localhost/"));
    }

    #[test]
    fn origins() {
        let check = |origins: &[&str]| {
            let mut headers = HeaderMap::new();
            for origin in origins {
                headers.append(header::ORIGIN, origin.parse().unwrap());
            }
            check_origin(&options(), &headers, "localhost:7420").is_ok()
        };
        assert!(check(&[]));
        assert!(check(&["http://localhost:7420"]));
        for bad in [
            "http://evil.example",
            "null",
            "http://localhost:7421",
            "localhost:7420",
        ] {
            assert!(!check(&[bad]), "{bad}");
            assert!(!check(&["http://localhost:7420", bad]), "{bad}");
        }
    }
}
