//! The registry: which tools there are, what they take, and how one is called.

use offshoot_core::{Error, ErrorCode, Result, WorkspaceId};
use offshoot_engine::Access;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

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

type Run = Box<dyn Fn(&Access, &WorkspaceId, Value) -> Result<Value> + Send + Sync>;

/// A tool.
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// What it does, for a model.
    pub description: &'static str,
    /// The JSON schema of its arguments.
    pub input_schema: Value,
    /// What a caller should know.
    pub hints: Hints,
    run: Run,
}

impl Tool {
    /// A tool from a function of its arguments.
    pub(crate) fn new<A: DeserializeOwned + JsonSchema>(
        name: &'static str,
        description: &'static str,
        hints: Hints,
        run: impl Fn(&Access, &WorkspaceId, A) -> Result<Value> + Send + Sync + 'static,
    ) -> Self {
        let mut input_schema = schemars::schema_for!(A).to_value();
        if let Some(schema) = input_schema.as_object_mut() {
            schema.remove("$schema");
            schema.remove("title");
            schema
                .entry("properties")
                .or_insert_with(|| Value::Object(Default::default()));
        }
        Tool {
            name,
            description,
            input_schema,
            hints,
            run: Box::new(move |access, workspace, arguments| {
                let arguments = serde_json::from_value(arguments).map_err(|cause| {
                    Error::invalid(format!("the arguments of `{name}` are refused: {cause}"))
                })?;
                run(access, workspace, arguments)
            }),
        }
    }

    /// Calls it on the workspace that the credential stands for. It blocks.
    pub fn call(&self, access: &Access, arguments: Value) -> Result<Value> {
        let workspace = access.own_workspace()?;
        let arguments = match arguments {
            Value::Null => Value::Object(Default::default()),
            given => given,
        };
        (self.run)(access, &workspace, arguments)
    }
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
