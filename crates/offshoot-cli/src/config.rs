//! Settings: each comes from a flag, the environment, a file or a default, in this order.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use offshoot_core::{Cause, Error, ErrorCode, Operator, Result};
use offshoot_engine::ProviderName;
use serde::Deserialize;

use crate::args::Args;
use crate::config_server::{ServerSettings, amount, text_of};

/// Where a setting comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The command line.
    Flag,
    /// A variable of the environment.
    Env,
    /// The file of `--config`.
    File,
    /// Nobody chose it.
    Default,
}

impl Origin {
    /// The word for people and JSON.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Origin::Flag => "flag",
            Origin::Env => "env",
            Origin::File => "file",
            Origin::Default => "default",
        }
    }
}

/// A value and where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

/// All settings, resolved.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) config: Option<Setting<PathBuf>>,
    pub(crate) data: Setting<PathBuf>,
    pub(crate) database: Setting<String>,
    pub(crate) blobs: Setting<String>,
    pub(crate) operator: Setting<String>,
    pub(crate) message: Option<Setting<String>>,
    pub(crate) lock_timeout_s: Setting<u64>,
    /// The most bytes of one file, as it was written.
    pub(crate) max_file_bytes: Setting<String>,
    /// The provider of every fork.
    pub(crate) provider: Option<Setting<String>>,
    pub(crate) log: Setting<String>,
    pub(crate) server: ServerSettings,
}

/// The settings file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    data: Option<PathBuf>,
    database: Option<String>,
    blobs: Option<String>,
    operator: Option<String>,
    lock_timeout_s: Option<u64>,
    max_file_bytes: Option<toml::Value>,
    provider: Option<String>,
    log: Option<String>,
    #[serde(default)]
    server: toml::Table,
}

impl Settings {
    /// Resolves what was typed with the environment and the settings file.
    pub(crate) fn resolve(args: &Args) -> Result<Settings> {
        let config = pick(
            args.config.clone(),
            variable("OFFSHOOT_CONFIG").map(PathBuf::from),
            None,
        );
        let file = match &config {
            Some(config) => read_file(&config.value)?,
            None => File::default(),
        };
        let data = pick(
            args.data.clone(),
            variable("OFFSHOOT_DATA").map(PathBuf::from),
            file.data,
        );
        let settings = Settings {
            data: match data {
                Some(data) => data,
                None => default(default_data()?),
            },
            database: pick(
                args.database.clone(),
                text("OFFSHOOT_DATABASE")?,
                file.database,
            )
            .unwrap_or_else(|| default("sqlite:".to_owned())),
            blobs: pick(args.blobs.clone(), text("OFFSHOOT_BLOBS")?, file.blobs)
                .unwrap_or_else(|| default("file:".to_owned())),
            operator: pick(
                args.operator.clone(),
                text("OFFSHOOT_OPERATOR")?,
                file.operator,
            )
            .unwrap_or_else(|| default(Operator::user().as_str().to_owned())),
            provider: pick(None, text("OFFSHOOT_PROVIDER")?, file.provider),
            message: pick(args.message.clone(), text("OFFSHOOT_MESSAGE")?, None),
            lock_timeout_s: pick(
                None,
                seconds("OFFSHOOT_LOCK_TIMEOUT_S")?,
                file.lock_timeout_s,
            )
            .unwrap_or_else(|| default(30)),
            max_file_bytes: pick(
                None,
                text("OFFSHOOT_MAX_FILE_BYTES")?,
                file.max_file_bytes.as_ref().map(text_of),
            )
            .unwrap_or_else(|| default("16GiB".to_owned())),
            log: pick(None, text("OFFSHOOT_LOG")?, file.log)
                .unwrap_or_else(|| default("info".to_owned())),
            server: ServerSettings::resolve(&file.server, text)?,
            config,
        };
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<()> {
        if self.data.value.as_os_str().is_empty() {
            return Err(Error::invalid("the data directory is an empty path"));
        }
        only_here("database", &self.database.value, "sqlite:")?;
        self.provider()?;
        self.max_file_bytes()?;
        only_here("blobs", &self.blobs.value, "file:")?;
        let operator = self.operator.value.as_str();
        if Operator::new(operator).as_str() != operator {
            return Err(Error::invalid(format!(
                "`{}` is not a valid operator name",
                operator.escape_debug()
            ))
            .with_hint("use up to 128 characters, no control characters, no `<` or `>`"));
        }
        if [Operator::system().as_str(), Operator::outside().as_str()].contains(&operator) {
            return Err(Error::invalid(format!(
                "the operator name `{operator}` is reserved"
            )));
        }
        Ok(())
    }

    /// Who and why, for the history.
    pub(crate) fn cause(&self) -> Cause {
        let mut cause = Cause::by(Operator::new(&self.operator.value));
        cause.message_id = self.message.as_ref().map(|message| message.value.clone());
        cause
    }

    /// The provider that must make forks; none means the best that works.
    pub(crate) fn provider(&self) -> Result<Option<ProviderName>> {
        let provider = self.provider.as_ref();
        provider.map(|setting| setting.value.parse()).transpose()
    }

    /// The most bytes of one file.
    pub(crate) fn max_file_bytes(&self) -> Result<u64> {
        amount(&self.max_file_bytes.value)
            .filter(|bytes| *bytes > 0)
            .ok_or_else(|| {
                Error::invalid(format!(
                    "the setting `max_file_bytes` is `{}`, which is not valid",
                    self.max_file_bytes.value.escape_debug()
                ))
                .with_hint("write it like its default, `16GiB`")
            })
    }

    /// How long a command waits for a workspace that another one holds.
    pub(crate) fn lock_timeout(&self) -> Duration {
        Duration::from_secs(self.lock_timeout_s.value)
    }
}

/// Other stores come later: until then asking for one is an error, not something to ignore.
fn only_here(what: &str, url: &str, scheme: &str) -> Result<()> {
    if url == scheme {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::Unsupported,
        format!("`{}` is not supported as {what}", url.escape_debug()),
    )
    .with_hint(format!(
        "use `{scheme}`, which keeps everything below the data directory; choose that with `--data DIR`"
    )))
}

fn default<T>(value: T) -> Setting<T> {
    Setting {
        value,
        origin: Origin::Default,
    }
}

fn pick<T>(flag: Option<T>, env: Option<T>, file: Option<T>) -> Option<Setting<T>> {
    let found = |value: Option<T>, origin| value.map(|value| Setting { value, origin });
    found(flag, Origin::Flag)
        .or(found(env, Origin::Env))
        .or(found(file, Origin::File))
}

/// A variable that is set but empty counts as not set.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn text(name: &str) -> Result<Option<String>> {
    variable(name)
        .map(|value| {
            value
                .into_string()
                .map_err(|_| Error::invalid(format!("the variable `{name}` is not UTF-8")))
        })
        .transpose()
}

fn seconds(name: &str) -> Result<Option<u64>> {
    text(name)?
        .map(|value| {
            value.parse().map_err(|_| {
                Error::invalid(format!(
                    "the variable `{name}` is `{}`, not a number of seconds",
                    value.escape_debug()
                ))
            })
        })
        .transpose()
}

fn read_file(path: &Path) -> Result<File> {
    let text = std::fs::read_to_string(path).map_err(|cause| {
        Error::invalid(format!(
            "the settings file `{}` cannot be read",
            path.display()
        ))
        .with_hint("name another one with `--config FILE`")
        .with_source(cause)
    })?;
    toml::from_str(&text).map_err(|cause| {
        Error::invalid(format!("the settings file `{}` is wrong", path.display()))
            .with_hint("it may set `data`, `database`, `blobs`, `operator`, `lock_timeout_s`, `max_file_bytes`, `provider`, `log` and the section `[server]`")
            .with_source(cause)
    })
}

/// `$XDG_DATA_HOME/offshoot`, or `~/.local/share/offshoot`.
fn default_data() -> Result<PathBuf> {
    let base = variable("XDG_DATA_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(".local/share")));
    base.map(|base| base.join("offshoot")).ok_or_else(|| {
        Error::invalid("this user has no home directory, so there is no default data directory")
            .with_hint("choose one with `--data DIR` or `OFFSHOOT_DATA`")
    })
}
