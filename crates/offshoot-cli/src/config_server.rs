//! The settings of `offshoot serve`, in one table: names, defaults, and what each sets.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use offshoot_core::{Error, Result};
use offshoot_server::ServerOptions;

use crate::bytes;
use crate::config::{Origin, Setting};
use crate::server_args::Serve;

/// One setting of the server.
pub(crate) struct ServerSetting {
    /// Its name in the section `[server]` of the settings file.
    pub(crate) name: &'static str,
    /// The variable of the environment that sets it.
    pub(crate) variable: &'static str,
    /// Its default, as it would be written.
    default: &'static str,
    set: fn(&mut ServerOptions, &str) -> Result<()>,
}

macro_rules! known {
    ($($name:literal, $variable:literal, $default:literal => $set:expr;)*) => {
        &[$(ServerSetting { name: $name, variable: $variable, default: $default, set: $set },)*]
    };
}

/// Every setting. The table in docs/cli.md says what each means.
pub(crate) const SERVER_SETTINGS: &[ServerSetting] = known! {
    "listen", "OFFSHOOT_LISTEN", "127.0.0.1:7420" => |o, v| set(&mut o.listen, address(v));
    "tls_cert", "OFFSHOOT_TLS_CERT", "" => |o, v| set(&mut o.tls_cert, Some(file(v)));
    "tls_key", "OFFSHOOT_TLS_KEY", "" => |o, v| set(&mut o.tls_key, Some(file(v)));
    "allow_plain_http", "OFFSHOOT_ALLOW_PLAIN_HTTP", "false" => |o, v| set(&mut o.allow_plain_http, v.parse().ok());
    "allowed_hosts", "OFFSHOOT_ALLOWED_HOSTS", "" => |o, v| set(&mut o.allowed_hosts, Some(words(v)));
    "allowed_origins", "OFFSHOOT_ALLOWED_ORIGINS", "" => |o, v| set(&mut o.allowed_origins, Some(words(v)));
    "sign_in_ttl", "OFFSHOOT_SIGN_IN_TTL", "30d" => |o, v| set(&mut o.sign_in_ttl, time(v));
    "watch", "OFFSHOOT_WATCH", "true" => |o, v| set(&mut o.watch, v.parse().ok());
    "session_retention", "OFFSHOOT_SESSION_RETENTION", "off" => |o, v| set(&mut o.session_retention, age(v));
    "max_watches", "OFFSHOOT_MAX_WATCHES", "100000" => |o, v| set(&mut o.limits.max_watches, number(v));
    "max_body_bytes", "OFFSHOOT_MAX_BODY_BYTES", "16GiB" => |o, v| set(&mut o.limits.max_body_bytes, amount(v));
    "max_json_bytes", "OFFSHOOT_MAX_JSON_BYTES", "8MiB" => |o, v| set(&mut o.limits.max_json_bytes, amount(v));
    "max_unpacked_bytes", "OFFSHOOT_MAX_UNPACKED_BYTES", "8GiB" => |o, v| set(&mut o.limits.max_unpacked_bytes, amount(v));
    "max_archive_entries", "OFFSHOOT_MAX_ARCHIVE_ENTRIES", "200000" => |o, v| set(&mut o.limits.max_archive_entries, number(v));
    "request_timeout", "OFFSHOOT_REQUEST_TIMEOUT", "60s" => |o, v| set(&mut o.limits.request_timeout, time(v));
    "idle_timeout", "OFFSHOOT_IDLE_TIMEOUT", "30s" => |o, v| set(&mut o.limits.idle_timeout, time(v));
    "max_requests", "OFFSHOOT_MAX_REQUESTS", "512" => |o, v| set(&mut o.limits.max_requests, number(v));
    "max_connections", "OFFSHOOT_MAX_CONNECTIONS", "4096" => |o, v| set(&mut o.limits.max_connections, number(v));
    "max_streams", "OFFSHOOT_MAX_STREAMS", "2048" => |o, v| set(&mut o.limits.max_streams, number(v));
    "token_share", "OFFSHOOT_TOKEN_SHARE", "25%" => |o, v| set(&mut o.limits.token_share, percent(v));
    "workspace_share", "OFFSHOOT_WORKSPACE_SHARE", "50%" => |o, v| set(&mut o.limits.workspace_share, percent(v));
    "max_wait", "OFFSHOOT_MAX_WAIT", "5s" => |o, v| set(&mut o.limits.max_wait, time(v));
    "max_page", "OFFSHOOT_MAX_PAGE", "1000" => |o, v| set(&mut o.limits.max_page, number(v));
    "max_bad_tokens", "OFFSHOOT_MAX_BAD_TOKENS", "30" => |o, v| set(&mut o.limits.max_bad_tokens, number(v));
    "max_event_backlog", "OFFSHOOT_MAX_EVENT_BACKLOG", "1000000" => |o, v| set(&mut o.limits.max_event_backlog, number(v));
    "heartbeat", "OFFSHOOT_HEARTBEAT", "15s" => |o, v| set(&mut o.limits.heartbeat, time(v));
    "stop_timeout", "OFFSHOOT_STOP_TIMEOUT", "4s" => |o, v| set(&mut o.limits.stop_timeout, time(v));
};

/// An address to listen on. Of names only `localhost` is known: what another one stands for is
/// not ours to look up.
fn address(text: &str) -> Option<SocketAddr> {
    match text.rsplit_once(':') {
        Some((name, port)) if name.eq_ignore_ascii_case("localhost") => {
            Some((Ipv4Addr::LOCALHOST, port.parse().ok()?).into())
        }
        _ => text.parse().ok(),
    }
}

fn set<T>(place: &mut T, value: Option<T>) -> Result<()> {
    // The caller knows the name of the setting and says it.
    *place = value.ok_or_else(|| Error::invalid("not valid"))?;
    Ok(())
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(',').map(str::trim);
    words
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// A file of the host; nothing is none.
fn file(text: &str) -> Option<PathBuf> {
    Some(text)
        .filter(|text| !text.is_empty())
        .map(PathBuf::from)
}

/// An age after which something goes; `off` is never. Use is noted to the hour, so it is no less
/// than that.
fn age(text: &str) -> Option<Option<Duration>> {
    match text {
        "off" => Some(None),
        _ => time(text)
            .filter(|age| *age >= Duration::from_secs(3600))
            .map(Some),
    }
}

fn time(text: &str) -> Option<Duration> {
    bytes::seconds(text).ok().map(Duration::from_secs)
}

pub(crate) fn amount(text: &str) -> Option<u64> {
    bytes::amount(text)
        .ok()
        .and_then(|bytes| bytes.try_into().ok())
}

/// A part of the whole, from 1 to 100 percent.
fn percent(text: &str) -> Option<u8> {
    let number = text.strip_suffix('%').unwrap_or(text);
    number.parse().ok().filter(|part| (1..=100).contains(part))
}

/// A number that is at least 1: none of these limits makes sense as 0.
fn number<N: std::str::FromStr + PartialOrd + From<u8>>(text: &str) -> Option<N> {
    text.parse().ok().filter(|number| *number >= N::from(1))
}

/// The settings of the server, resolved.
#[derive(Debug)]
pub(crate) struct ServerSettings {
    /// In the order of the table.
    pub(crate) values: Vec<Setting<String>>,
}

impl ServerSettings {
    /// Resolves the environment and the settings file; what does not fit is an error.
    pub(crate) fn resolve(
        file: &toml::Table,
        variable: impl Fn(&str) -> Result<Option<String>>,
    ) -> Result<Self> {
        if let Some(unknown) = file
            .keys()
            .find(|key| SERVER_SETTINGS.iter().all(|known| known.name != **key))
        {
            return Err(Error::invalid(format!(
                "the settings file sets `server.{}`, which does not exist",
                unknown.escape_debug()
            ))
            .with_hint("`offshoot config show` lists the settings"));
        }
        let mut values = Vec::with_capacity(SERVER_SETTINGS.len());
        let mut options = ServerOptions::default();
        for known in SERVER_SETTINGS {
            let setting = match (variable(known.variable)?, file.get(known.name)) {
                (Some(value), _) => Setting {
                    value,
                    origin: Origin::Env,
                },
                (None, Some(value)) => Setting {
                    value: text_of(value),
                    origin: Origin::File,
                },
                (None, None) => Setting {
                    value: known.default.to_owned(),
                    origin: Origin::Default,
                },
            };
            known.apply(&mut options, &setting.value)?;
            values.push(setting);
        }
        Ok(ServerSettings { values })
    }

    /// What the server is run with: these, and above them what was typed.
    pub(crate) fn options(&self, args: &Serve) -> Result<ServerOptions> {
        let mut options = ServerOptions::default();
        for (known, setting) in SERVER_SETTINGS.iter().zip(&self.values) {
            known.apply(&mut options, &setting.value)?;
        }
        if let Some(listen) = &args.listen {
            options.listen = address(listen).ok_or_else(|| {
                Error::invalid(format!(
                    "`{}` is no address to listen on",
                    listen.escape_debug()
                ))
                .with_hint(
                    "write an address and a port, such as `127.0.0.1:7420` or `localhost:7420`",
                )
            })?;
        }
        options.tls_cert = args.tls_cert.clone().or(options.tls_cert);
        options.tls_key = args.tls_key.clone().or(options.tls_key);
        options.allow_plain_http |= args.allow_plain_http;
        options
            .allowed_hosts
            .extend(args.allowed_hosts.iter().cloned());
        Ok(options)
    }
}

impl ServerSetting {
    fn apply(&self, options: &mut ServerOptions, value: &str) -> Result<()> {
        (self.set)(options, value).map_err(|_| {
            Error::invalid(format!(
                "the setting `{}` is `{}`, which is not valid",
                self.name,
                value.escape_debug()
            ))
            .with_hint(format!("write it like its default, `{}`", self.default))
        })
    }
}

/// A value of the settings file as a variable would have it.
pub(crate) fn text_of(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(items) => items.iter().map(text_of).collect::<Vec<_>>().join(","),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Boolean(yes) => yes.to_string(),
        // No setting is of these kinds; the text makes it a wrong one.
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(toml: &str) -> Result<ServerSettings> {
        ServerSettings::resolve(&toml.parse().unwrap(), |_| Ok(None))
    }

    #[test]
    fn defaults_are_those_of_the_server() {
        let mut options = ServerOptions::default();
        let expected = format!("{options:?}");
        options.limits.max_page = 1;
        for known in SERVER_SETTINGS {
            known.apply(&mut options, known.default).unwrap();
        }
        assert_eq!(format!("{options:?}"), expected);
    }

    #[test]
    fn files_are_read_and_checked() {
        let settings = resolve("max_page = 7\nallowed_hosts = [\"a\", \"b\"]\nheartbeat = \"2s\"");
        let values = settings.unwrap().values;
        let find = |name: &str| {
            let index = SERVER_SETTINGS
                .iter()
                .position(|known| known.name == name)
                .unwrap();
            (values[index].value.clone(), values[index].origin)
        };
        assert_eq!(find("max_page"), ("7".to_owned(), Origin::File));
        assert_eq!(find("allowed_hosts").0, "a,b");
        assert!(resolve("max_page = 0").is_err());
        assert!(resolve("nonsense = 1").is_err());
        assert!(resolve("listen = \"x\"").is_err());
        assert!(resolve("token_share = 100").is_ok());
        assert!(resolve("token_share = \"101%\"").is_err());
        assert!(resolve("workspace_share = 0").is_err());
    }

    #[test]
    fn every_setting_is_documented() {
        let docs = include_str!("../../../docs/cli.md");
        for known in SERVER_SETTINGS {
            let line = format!("| `server.{}` | `{}` |", known.name, known.variable);
            assert!(docs.contains(&line), "docs/cli.md lacks {line}");
        }
    }
}
