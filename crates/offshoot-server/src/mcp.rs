//! The tools over MCP: streamable HTTP at `/mcp`, and stdio for clients that start a program.
//!
//! The protocol is rmcp's; which tools there are, and what they do, is the registry's. Over HTTP each
//! request carries its own credential, so nothing is kept between two of them.

use std::sync::Arc;

use axum::http::request::Parts;
use offshoot_agent::{Access, Registry, Tool};
use offshoot_core::{Error, Result};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler, ServiceExt as _};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::auth::Caller;
use crate::body::blocking;

const INSTRUCTIONS: &str = "Files of one workspace that remembers every change. Paths are relative \
    to it. Take a snapshot before larger changes; restore brings any of them back.";

/// The tools as an MCP server.
#[derive(Clone)]
pub(crate) struct Mcp {
    tools: Arc<Registry>,
    /// For stdio: whoever started the program. Over HTTP each request says who it is.
    owner: Option<Access>,
}

impl Mcp {
    fn access(&self, context: &RequestContext<RoleServer>) -> Result<Access> {
        if let Some(owner) = &self.owner {
            return Ok(owner.clone());
        }
        let caller = context
            .extensions
            .get::<Parts>()
            .and_then(|parts| parts.extensions.get::<Caller>());
        caller
            .map(|caller| caller.access.clone())
            .ok_or_else(|| Error::internal("a protected route has no check before it"))
    }
}

/// A tool as the protocol describes it.
fn describe(tool: &Tool) -> rmcp::model::Tool {
    let schema: JsonObject = tool.input_schema.as_object().cloned().unwrap_or_default();
    let hints = tool.hints;
    rmcp::model::Tool::new(tool.name, tool.description, schema).with_annotations(
        ToolAnnotations::from_raw(
            None,
            Some(hints.read_only),
            Some(hints.destructive),
            Some(hints.idempotent),
            Some(false),
        ),
    )
}

impl ServerHandler for Mcp {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("offshoot", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.tools.tools().iter().map(describe).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    fn get_tool(&self, name: &str) -> Option<rmcp::model::Tool> {
        self.tools.get(name).ok().map(describe)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.to_string();
        if let Err(error) = self.tools.get(&name) {
            return Err(ErrorData::invalid_params(error.message().to_owned(), None));
        }
        let message = context
            .meta
            .0
            .get("message_id")
            .and_then(Value::as_str)
            .map(str::to_owned);
        let tools = self.tools.clone();
        let arguments = request.arguments.map_or(Value::Null, Value::Object);
        let outcome = match self.access(&context) {
            Ok(access) => {
                let access = match message {
                    Some(message) => access.for_message(message),
                    None => access,
                };
                blocking(move || tools.get(&name)?.call(&access, arguments)).await
            }
            Err(error) => Err(error),
        };
        // A model can act on an error of a tool, so it gets code, message and hint as an answer.
        let result = match outcome {
            Ok(value) => CallToolResult::structured(value),
            Err(error) => {
                if error.code().http_status() == 500 {
                    tracing::error!(?error, "a tool failed");
                }
                CallToolResult::structured_error(error.to_json())
            }
        };
        Ok(result.into())
    }
}

/// The service behind `/mcp`. Host and origin were checked before it, as for every route.
pub(crate) fn service(
    tools: Arc<Registry>,
    stopping: CancellationToken,
) -> StreamableHttpService<Mcp, LocalSessionManager> {
    let mut config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_legacy_session_mode(false)
        .with_json_response(true);
    config.cancellation_token = stopping;
    let make = move || {
        Ok(Mcp {
            tools: tools.clone(),
            owner: None,
        })
    };
    StreamableHttpService::new(make, Arc::default(), config)
}

/// Answers over stdin and stdout until the client closes them.
pub fn serve_stdio(access: Access, tools: Registry) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(1)
        .build()
        .map_err(failed)?;
    runtime.block_on(async {
        let mcp = Mcp {
            tools: Arc::new(tools),
            owner: Some(access),
        };
        let running = mcp
            .serve(rmcp::transport::io::stdio_pipes())
            .await
            .map_err(failed)?;
        running.waiting().await.map_err(failed)?;
        Ok(())
    })
}

fn failed(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::internal("the MCP server ended").with_source(cause)
}
