//! The tools and files of a workspace over MCP: streamable HTTP at `/mcp`, and stdio for clients that
//! start a program.
//!
//! The protocol is rmcp's, 2026-07-28 and those before it; which tools there are, and what they do,
//! is the registry's. Over HTTP each request carries its own credential, so nothing is kept between
//! two of them.

use std::sync::Arc;

use axum::http::request::Parts;
use offshoot_agent::resources::{self, ResourceWindow};
use offshoot_agent::{Access, Registry, Tool};
use offshoot_core::{Error, ErrorCode, Result};
use offshoot_engine::WindowContent;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, Implementation, JsonObject, ListPromptsRequestMethod,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    MetaObject, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, Resource, ResourceContents, ResourceTemplate, ServerCapabilities,
    ServerConfig, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler, ServiceExt as _};
use serde_json::{Value, json};

use crate::app::App;
use crate::auth::Caller;
use crate::body::blocking;
use crate::in_flight::InFlight;
use crate::tool_dispatch::{CallArguments, ToolDispatcher};

const INSTRUCTIONS: &str = "Files of one workspace that remembers every change. Paths are relative \
    to it. Take a snapshot before larger changes; restore brings any of them back.";
/// Where it is.
pub(crate) const ROUTE: &str = "/mcp";
/// Resources on one page of their list.
const PAGE: usize = 500;

/// The tools as an MCP server.
#[derive(Clone)]
pub(crate) struct Mcp {
    tools: Arc<Registry>,
    dispatcher: Arc<ToolDispatcher>,
    /// The tools as the protocol describes them, in the same order.
    described: Arc<[rmcp::model::Tool]>,
    /// The access of the person who started the program, for stdio. Over HTTP each request has its
    /// own credential.
    owner: Option<Access>,
}

impl Mcp {
    fn new(tools: Arc<Registry>, dispatcher: Arc<ToolDispatcher>, owner: Option<Access>) -> Self {
        let described = tools.tools().iter().map(describe).collect();
        Mcp {
            tools,
            dispatcher,
            described,
            owner,
        }
    }

    /// Files can be read as resources wherever they can be read by a tool.
    fn has_resources(&self) -> bool {
        self.tools.get("read_file").is_ok()
    }

    fn refuse_without_resources(&self) -> Result<(), ErrorData> {
        match self.has_resources() {
            true => Ok(()),
            false => Err(refused(&Error::new(
                ErrorCode::PermissionDenied,
                "reading files is not among the tools that are allowed here",
            ))),
        }
    }

    fn access(&self, context: &RequestContext<RoleServer>) -> Result<Access> {
        if let Some(owner) = &self.owner {
            return Ok(owner.clone());
        }
        let caller = part_of::<Caller>(context);
        caller
            .map(|caller| caller.access.clone())
            .ok_or_else(|| Error::internal("a protected route has no check before it"))
    }
}

/// Something that the HTTP request carries; nothing over stdio.
fn part_of<T: Send + Sync + 'static>(context: &RequestContext<RoleServer>) -> Option<&T> {
    let parts = context.extensions.get::<Parts>();
    parts.and_then(|parts| parts.extensions.get::<T>())
}

/// Works for the request that a message came with. The protocol answers on a task of its own, which
/// does not know it.
async fn on_behalf<F: Future>(context: &RequestContext<RoleServer>, work: F) -> F::Output {
    match part_of::<Arc<InFlight>>(context) {
        Some(in_flight) => in_flight.clone().scope(work).await,
        None => work.await,
    }
}

/// A tool as the protocol describes it.
fn describe(tool: &Tool) -> rmcp::model::Tool {
    let object = |schema: &Value| -> JsonObject { schema.as_object().cloned().unwrap_or_default() };
    let hints = tool.hints;
    let mut described =
        rmcp::model::Tool::new(tool.name, tool.description, object(&tool.input_schema));
    described.output_schema = Some(Arc::new(object(&tool.output_schema)));
    described.with_annotations(ToolAnnotations::from_raw(
        None,
        Some(hints.read_only),
        Some(hints.destructive),
        Some(hints.idempotent),
        Some(false),
    ))
}

/// An error of ours as one of the protocol; its code, message and hint come as data.
fn refused(error: &Error) -> ErrorData {
    let (message, data) = (error.message().to_owned(), Some(error.to_json()));
    match error.code() {
        ErrorCode::FileNotFound => ErrorData::resource_not_found(message, data),
        code if code.http_status() == 500 => {
            tracing::error!(?error, "a resource could not be given");
            ErrorData::internal_error(message, data)
        }
        _ => ErrorData::invalid_params(message, data),
    }
}

fn resource(listed: resources::Resource) -> Resource {
    let mut resource = Resource::new(resources::uri_of(&listed.path), listed.path.to_text());
    resource.mime_type = listed.mime;
    resource.size = Some(listed.size);
    resource
}

/// A part of a file and, if there is more, how to read on: for programs as data of the part, for
/// models as a text after it.
fn contents_of(part: ResourceWindow, uri: String) -> Vec<ResourceContents> {
    let how = part.continuation_hint();
    let window = part.window;
    let mut about = json!({
        "start": window.start, "total": window.total, "readLength": window.read_length,
    });
    let contents = match window.content {
        WindowContent::Text(text) => ResourceContents::text(text, uri),
        WindowContent::Bytes(bytes) => ResourceContents::blob(offshoot_wire::base64(&bytes), uri),
    };
    let mut all = vec![contents.with_mime_type(window.mime)];
    if let (Some(next), Some(how)) = (part.next, how) {
        about["next"] = next.clone().into();
        all.push(ResourceContents::text(how, next));
    }
    if let (Value::Object(about), Some(first)) = (about, all.first_mut()) {
        *first = first.clone().with_meta(MetaObject(about));
    }
    all
}

impl ServerHandler for Mcp {
    fn get_info(&self) -> ServerConfig {
        let capabilities = match self.has_resources() {
            true => ServerCapabilities::builder()
                .enable_tools()
                .enable_resources()
                .build(),
            false => ServerCapabilities::builder().enable_tools().build(),
        };
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("offshoot", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let access = self.access(&context).map_err(|error| refused(&error))?;
        let tools = self.tools.tools().iter().zip(&*self.described);
        let offered = tools.filter(|(tool, _)| tool.is_offered_to(&access));
        let described = offered.map(|(_, described)| described.clone()).collect();
        let mut listed = ListToolsResult::with_all_items(described);
        // The set is the credential's, and stays while the server runs.
        (listed.ttl_ms, listed.cache_scope) = (Some(60_000), Some(CacheScope::Private));
        Ok(listed)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.refuse_without_resources()?;
        let access = self.access(&context).map_err(|error| refused(&error))?;
        let cursor = request.and_then(|request| request.cursor);
        let found = on_behalf(&context, async {
            blocking(move || {
                let after = cursor.as_deref().map(resources::path_of).transpose()?;
                resources::list(&access, after.as_ref(), PAGE)
            })
            .await
        });
        let (files, more) = found.await.map_err(|error| refused(&error))?;
        let last = files.last().map(|listed| resources::uri_of(&listed.path));
        let mut listed =
            ListResourcesResult::with_all_items(files.into_iter().map(resource).collect());
        listed.next_cursor = last.filter(|_| more);
        (listed.ttl_ms, listed.cache_scope) = (Some(0), Some(CacheScope::Private));
        Ok(listed)
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.refuse_without_resources()?;
        let whole = ResourceTemplate::new(resources::TEMPLATE, "file")
            .with_description("A file of the workspace, by its path: its first 5000 characters");
        let part = ResourceTemplate::new(resources::PART_TEMPLATE, "part").with_description(
            "A part of a file: at most 5000 characters of text, or bytes of anything else",
        );
        let mut listed = ListResourceTemplatesResult::with_all_items(vec![whole, part]);
        (listed.ttl_ms, listed.cache_scope) = (Some(60_000), Some(CacheScope::Public));
        Ok(listed)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.refuse_without_resources()?;
        let access = self.access(&context).map_err(|error| refused(&error))?;
        let uri = request.uri.clone();
        let read = on_behalf(&context, async {
            blocking(move || resources::read(&access, &uri)).await
        });
        let part = read.await.map_err(|error| {
            let mut refusal = refused(&error);
            if let Some(data) = &mut refusal.data {
                data["uri"] = request.uri.clone().into();
            }
            refusal
        })?;
        let mut result = ReadResourceResult::new(contents_of(part, request.uri));
        (result.ttl_ms, result.cache_scope) = (Some(0), Some(CacheScope::Private));
        Ok(result.into())
    }

    /// There are no prompts, and asking for them is not answered with an empty list: clients would
    /// take that for an ability.
    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    /// There are no completions of arguments either.
    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    fn get_tool(&self, name: &str) -> Option<rmcp::model::Tool> {
        let found = self.described.iter().find(|tool| tool.name == name);
        found.cloned()
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
        let arguments = CallArguments::Value(request.arguments.map_or(Value::Null, Value::Object));
        let outcome = match self.access(&context) {
            Ok(access) => {
                let access = match message {
                    Some(message) => access.for_message(message),
                    None => access,
                };
                let answer = self.dispatcher.call(&self.tools, &name, access, arguments);
                let answer = on_behalf(&context, answer).await;
                answer.and_then(|answer| answer.to_value())
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
pub(crate) fn service(app: &App) -> StreamableHttpService<Mcp, LocalSessionManager> {
    let mut config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(app.options.limits.max_json_bytes as usize);
    config.cancellation_token = app.stopping.clone();
    let mcp = Mcp::new(app.tools.clone(), app.dispatcher.clone(), None);
    let make = move || Ok(mcp.clone());
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
        let running = Mcp::new(Arc::new(tools), Arc::default(), Some(access))
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
