//! The registry of tools: their names, schemas and hints, and how one is called.

use offshoot_core::{Error, ErrorCode, RelPath, Result, WorkspaceId};
use offshoot_engine::Access;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What a caller should know before it calls a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: bool,
    /// It may take something away. What it takes stays in the history.
    pub destructive: bool,
    /// Calling it twice does no more than calling it once.
    pub idempotent: bool,
}

/// The arguments of a call, as HTTP or MCP received them.
pub enum Arguments<'a> {
    /// As text; it begins like an object.
    Json(&'a [u8]),
    /// As a value; null means none.
    Value(&'a Value),
}

impl Arguments<'_> {
    /// The arguments if they are valid; [`Arguments::parse`] reports what is wrong with them.
    fn peek<A: DeserializeOwned>(&self) -> Option<A> {
        match self {
            // Straight from the text: a tree of values between the two would copy every content.
            Arguments::Json(text) => serde_json::from_slice(text).ok(),
            Arguments::Value(value) => A::deserialize(*value).ok(),
        }
    }

    fn parse<A: DeserializeOwned>(self, name: &str) -> Result<A> {
        let parsed;
        let value = match self {
            Arguments::Json(text) => match serde_json::from_slice(text) {
                Ok(arguments) => return Ok(arguments),
                // Parsed again as a value, so that both forms of arguments get one error message.
                Err(_) => {
                    parsed = serde_json::from_slice(text)
                        .map_err(|cause| Error::invalid(format!("the body is refused: {cause}")))?;
                    &parsed
                }
            },
            Arguments::Value(Value::Null) => &Value::Object(Default::default()),
            Arguments::Value(value) => value,
        };
        A::deserialize(value).map_err(|cause| {
            Error::invalid(format!("the arguments of `{name}` are refused: {cause}"))
        })
    }
}

/// The answer of a tool, which HTTP writes as text and MCP as a value.
pub trait ToolAnswer: Send {
    /// As a value.
    fn to_value(&self) -> Result<Value>;
    /// As text.
    fn to_json(&self) -> Result<String>;
}

impl<T: Serialize + Send> ToolAnswer for T {
    fn to_value(&self) -> Result<Value> {
        serde_json::to_value(self).map_err(unwritable)
    }

    fn to_json(&self) -> Result<String> {
        serde_json::to_string(self).map_err(unwritable)
    }
}

fn unwritable(cause: serde_json::Error) -> Error {
    Error::internal("an answer could not be written").with_source(cause)
}

/// Runs a short call on the thread of the request; none if the call may block or take long.
type InlineRun = Box<
    dyn Fn(&Access, &WorkspaceId, &Arguments<'_>) -> Result<Option<Box<dyn ToolAnswer>>>
        + Send
        + Sync,
>;
type Run = Box<dyn Fn(&Access, Arguments<'_>) -> Result<Box<dyn ToolAnswer>> + Send + Sync>;

/// A tool.
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// What it does, for a model.
    pub description: &'static str,
    /// The JSON schema of its arguments.
    pub input_schema: Value,
    /// The JSON schema of its answer, which is a result or an error.
    pub output_schema: Value,
    /// What a caller should know.
    pub hints: Hints,
    /// Whether its answer says which files the person shall see; see [`Tool::shown_by`].
    pub shows_files: bool,
    /// Whether a call may keep a core busy for long.
    pub searches: bool,
    /// Whether the tool is only for credentials that reach a project, or all projects.
    for_projects: bool,
    run: Run,
    inline: Option<InlineRun>,
}

impl Tool {
    /// A tool from a function of its arguments, for the workspace that the credential stands for.
    pub(crate) fn new<A, R>(
        name: &'static str,
        description: &'static str,
        hints: Hints,
        run: impl Fn(&Access, &WorkspaceId, A) -> Result<R> + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        R: Serialize + JsonSchema + Send + 'static,
    {
        Tool::without_workspace(name, description, hints, move |access, arguments| {
            run(access, &access.own_workspace()?, arguments)
        })
    }

    /// A tool from a function of its arguments that does not need the workspace of the credential.
    pub(crate) fn without_workspace<A, R>(
        name: &'static str,
        description: &'static str,
        hints: Hints,
        run: impl Fn(&Access, A) -> Result<R> + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        R: Serialize + JsonSchema + Send + 'static,
    {
        Tool {
            name,
            description,
            input_schema: object_schema::<A>(),
            output_schema: answer_schema::<R>(),
            hints,
            shows_files: false,
            searches: false,
            for_projects: false,
            inline: None,
            run: Box::new(move |access, arguments| {
                let answer = run(access, arguments.parse(name)?)?;
                Ok(Box::new(answer))
            }),
        }
    }

    /// Marks a tool whose calls may keep a core busy for long.
    pub(crate) fn searches(mut self) -> Self {
        self.searches = true;
        self
    }

    /// Marks the tool as one whose answer has in `ui.paths` the files to show to the user.
    pub(crate) fn shows_files(mut self) -> Self {
        self.shows_files = true;
        self
    }

    /// The paths that an answer of such a tool shows to the user.
    pub fn shown_by(answer: &dyn ToolAnswer) -> Result<Vec<RelPath>> {
        let answer = answer.to_value()?;
        let paths = answer["ui"]["paths"].as_array().into_iter().flatten();
        let paths = paths.filter_map(Value::as_str);
        paths.map(RelPath::parse_text).collect()
    }

    /// Offers the tool only to credentials that have a project.
    pub(crate) fn for_projects(mut self) -> Self {
        self.for_projects = true;
        self
    }

    /// Whether the tool is listed for this credential. What a call may do is checked by the call.
    pub fn is_offered_to(&self, access: &Access) -> bool {
        !self.for_projects || access.may_fork()
    }

    /// Adds a way to answer short calls on the thread of the request.
    pub(crate) fn with_inline<A: DeserializeOwned, R: Serialize + Send + 'static>(
        mut self,
        inline: impl Fn(&Access, &WorkspaceId, &A) -> Result<Option<R>> + Send + Sync + 'static,
    ) -> Self {
        self.inline = Some(Box::new(move |access, workspace, arguments| {
            // The usual call reports what is wrong with the arguments.
            let Some(arguments) = arguments.peek() else {
                return Ok(None);
            };
            let answer = inline(access, workspace, &arguments)?;
            Ok(answer.map(|answer| Box::new(answer) as Box<dyn ToolAnswer>))
        }));
        self
    }

    /// Calls it on this thread if that takes no longer than a hop to another thread would; none if
    /// it has to be called by [`Tool::call`].
    pub fn call_inline(
        &self,
        access: &Access,
        arguments: &Arguments<'_>,
    ) -> Option<Result<Box<dyn ToolAnswer>>> {
        let inline = self.inline.as_ref()?;
        let workspace = match access.own_workspace() {
            Ok(workspace) => workspace,
            Err(error) => return Some(Err(error)),
        };
        inline(access, &workspace, arguments).transpose()
    }

    /// Calls it on what the credential stands for. It blocks.
    pub fn call(&self, access: &Access, arguments: Arguments<'_>) -> Result<Box<dyn ToolAnswer>> {
        (self.run)(access, arguments)
    }
}

/// The schema of an object, with what clients expect to find in it.
fn object_schema<T: JsonSchema>() -> Value {
    let mut schema = schemars::schema_for!(T).to_value();
    drop_number_formats(&mut schema);
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("$schema");
        schema.remove("title");
        schema
            .entry("properties")
            .or_insert_with(|| Value::Object(Default::default()));
    }
    schema
}

/// Takes out formats such as `uint64`, which JSON Schema does not know: validators warn of each.
fn drop_number_formats(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let is_number = |format: &Value| {
                let text = format.as_str().unwrap_or_default();
                text.trim_start_matches('u').starts_with("int") || text == "double"
            };
            if fields.get("format").is_some_and(is_number) {
                fields.remove("format");
            }
            fields.values_mut().for_each(drop_number_formats);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_number_formats),
        _ => {}
    }
}

/// The schema of an answer. Clients check what they get against it, errors too: so it allows both a
/// result with all of its fields and an error.
fn answer_schema<T: JsonSchema>() -> Value {
    let mut schema = object_schema::<T>();
    let required = schema["required"].take();
    let codes: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    schema["properties"]["error"] = json!({
        "type": "object",
        "description": "Why it was refused; then there is nothing else.",
        "required": ["code", "message"],
        "properties": {
            "code": { "type": "string", "enum": codes },
            "message": { "type": "string" },
            "hint": { "type": "string", "description": "What to do about it." },
            "details": { "description": "For programs." },
        },
    });
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("required");
        schema.insert(
            "anyOf".to_owned(),
            json!([
                { "required": if required.is_array() { required } else { json!([]) } },
                { "required": ["error"] },
            ]),
        );
    }
    schema
}

/// The tools that a server offers.
pub struct Registry(Vec<Tool>);

impl Default for Registry {
    fn default() -> Self {
        Registry(crate::tools::all())
    }
}

impl Registry {
    /// Only these tools, by name; an unknown name is an error.
    pub fn limited(names: &[String]) -> Result<Self> {
        let mut all = Registry::default();
        if let Some(unknown) = names.iter().find(|name| all.get(name).is_err()) {
            return all.get(unknown).map(|_| Registry(Vec::new()));
        }
        all.0
            .retain(|tool| names.iter().any(|name| name == tool.name));
        Ok(all)
    }

    /// The tools in the order in which they are listed.
    pub fn tools(&self) -> &[Tool] {
        &self.0
    }

    /// One tool.
    pub fn get(&self, name: &str) -> Result<&Tool> {
        self.0.iter().find(|tool| tool.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.0.iter().map(|tool| tool.name).collect();
            Error::new(
                ErrorCode::InvalidRequest,
                format!("there is no tool `{}`", name.escape_debug()),
            )
            .with_hint(format!("use one of {}", known.join(", ")))
        })
    }
}
