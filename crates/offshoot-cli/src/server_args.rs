//! What can be typed after `serve`, `mcp` and `token`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

/// `serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Where to listen, such as `localhost:8080` [env: OFFSHOOT_LISTEN] [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Speak TLS with this certificate: a PEM file, with the whole chain [env: OFFSHOOT_TLS_CERT]
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of the certificate: a PEM file [env: OFFSHOOT_TLS_KEY]
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Listen where other machines can reach it although nothing is encrypted
    #[arg(long)]
    pub(crate) allow_plain_http: bool,
    /// A name under which it is reached, beside addresses and `localhost`; may be repeated
    #[arg(long = "allowed-host", value_name = "NAME")]
    pub(crate) allowed_hosts: Vec<String>,
    /// Write the log as one JSON document a line
    #[arg(long)]
    pub(crate) log_json: bool,
}

/// `mcp`.
#[derive(Debug, clap::Args)]
pub(crate) struct Mcp {
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
    #[command(flatten)]
    pub(crate) target: McpTarget,
}

/// What an MCP client works on.
#[derive(Debug, clap::Args)]
pub(crate) struct McpTarget {
    /// As this agent, in its workspace
    #[arg(long, value_name = "ID", conflicts_with = "workspace")]
    pub(crate) agent: Option<String>,
    /// In this workspace
    #[arg(long, value_name = "WS")]
    pub(crate) workspace: Option<String>,
    /// Only these tools
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) tools: Vec<String>,
}

/// What else `mcp` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Print the block to paste into the settings of a client
    Config {
        /// The client
        client: McpClient,
        #[command(flatten)]
        target: McpTarget,
    },
}

/// The clients whose settings are known.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum McpClient {
    /// Claude Desktop and Claude Code
    Claude,
    /// Cursor
    Cursor,
    /// Codex
    Codex,
}

/// What can be done with tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Issue a token; its secret is printed once and kept nowhere
    #[command(group = clap::ArgGroup::new("reach").required(true))]
    Issue {
        /// For everything
        #[arg(long, group = "reach")]
        admin: bool,
        /// For the one workspace that this agent works in
        #[arg(long, value_name = "ID", group = "reach")]
        agent: Option<String>,
        /// For this workspace
        #[arg(long, value_name = "WS", group = "reach")]
        workspace: Option<String>,
        /// For this project and the workspaces forked from it
        #[arg(long, value_name = "NAME", group = "reach")]
        project: Option<String>,
        /// Only these paths and operations, such as `src/**:read,write`; may be repeated
        #[arg(long, value_name = "PATTERN:OPS")]
        allow: Vec<String>,
        /// How long it is valid, such as `90s`, `1h` or `30d` [default: until revoked]
        #[arg(long, value_name = "TIME")]
        ttl: Option<String>,
        /// What it is for; also the name of its holder in the history
        #[arg(long, value_name = "TEXT")]
        label: Option<String>,
    },
    /// List tokens, without their secrets
    List,
    /// Take a token back
    Revoke {
        /// Its id, as `token list` shows it
        id: String,
    },
}
