//! The OpenAPI document and the page that shows it, both made from the table of routes.

use std::fmt::Write as _;

use axum::http::Method;
use offshoot_core::ErrorCode;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::auth::MAX_MESSAGE_ID;
use crate::handlers::forms::MAX_MODIFIED;
use crate::route::{BYTES, Kind, Param, Payload, Route};
use crate::routes::table;
use offshoot_wire as wire;

/// The document, in OpenAPI 3.1.
pub(crate) fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for route in table() {
        let item = paths.entry(route.path.clone()).or_insert_with(|| json!({}));
        item[route.method.as_str().to_ascii_lowercase()] = operation(&route, &mut generator);
    }
    let mut schemas = generator.take_definitions(true);
    for schema in schemas.values_mut() {
        leave_out_defaults(schema);
    }
    schemas.insert("Error".to_owned(), error_schema());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Offshoot",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Workspaces for agents and people that remember every change",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{ "token": [] }],
    })
}

/// Generators take a field with a default for one that must be there, in requests too.
fn leave_out_defaults(schema: &mut Value) {
    if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for field in fields.values_mut().filter_map(Value::as_object_mut) {
            field.remove("default");
        }
    }
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let mut answers = Map::new();
    let text = match route.status {
        201 => "Created",
        204 => "Done, and there is nothing to say",
        _ => "Done",
    };
    answers.insert(
        route.status.to_string(),
        body(route.answer, text, generator),
    );
    for &status in &route.also {
        let answer = match status {
            304 => json!({ "description": "The caller has it already" }),
            206 => body(route.answer, "The part that was asked for", generator),
            201 => body(route.answer, "Created", generator),
            _ => body(
                route.answer,
                "It was there already, and nothing new was made",
                generator,
            ),
        };
        answers.insert(status.to_string(), answer);
    }
    answers.insert(
        "default".to_owned(),
        json!({
            "description": "An error",
            "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } },
        }),
    );
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": parameters(route),
        "responses": answers,
    });
    if !matches!(route.request, Payload::Empty) {
        let mut request = body(route.request, "", generator);
        request["required"] = json!(match route.request {
            Payload::Empty => false,
            Payload::Form(_) => true,
            Payload::Raw(_) => route.needs_body,
            // Where every field may be left out, so may the body.
            Payload::Json(_) => needs_fields(&request, generator),
        });
        operation["requestBody"] = request;
    }
    if route.open {
        operation["security"] = json!([]);
    }
    operation
}

/// Whether the shape of a body has fields that must be there.
fn needs_fields(body: &Value, generator: &SchemaGenerator) -> bool {
    let schema = &body["content"]["application/json"]["schema"];
    let named = schema["$ref"]
        .as_str()
        .and_then(|name| name.rsplit('/').next());
    let schema = match named {
        Some(name) => generator.definitions().get(name).unwrap_or(schema),
        None => schema,
    };
    schema["required"]
        .as_array()
        .is_some_and(|fields| !fields.is_empty())
}

/// A name for generated clients: the method and the fixed parts of the path.
fn operation_id(route: &Route) -> String {
    let words = route.path.trim_start_matches("/api/v1").split('/');
    let fixed: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(|word| word.trim_matches(['{', '}']).replace(['.', '-'], "_"))
        .collect();
    let place = if fixed.is_empty() {
        "home".to_owned()
    } else {
        fixed.join("_")
    };
    format!("{}_{place}", route.method.as_str().to_ascii_lowercase())
}

fn parameters(route: &Route) -> Vec<Value> {
    let in_path = route.path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        let about = match name {
            "path" => "A path in the workspace; its slashes are written as they are",
            "workspace" => "The workspace",
            "project" => "The project",
            "agent" => "The agent",
            "merge" => "The id of a merge",
            "review" => "The id of a review",
            "token" => "The id of a token",
            "tool" => "The name of a tool",
            "side" => "Which of the texts",
            _ => name,
        };
        let kind = match name {
            "path" => Kind::Path,
            "workspace" | "project" | "agent" => Kind::Id,
            _ => Kind::Text,
        };
        Some(json!({
            "name": name, "in": "path", "required": true,
            "description": about, "schema": schema_of(kind),
        }))
    });
    let others = route.params.iter().map(|param| {
        json!({
            "name": param.name, "in": param.place, "required": false,
            "description": param.about, "schema": schema_of(param.kind),
        })
    });
    let message = (route.method != Method::GET && !route.open).then(|| {
        json!({
            "name": "Offshoot-Message-Id", "in": "header", "required": false,
            "description": "The message that led to this; it is kept in the history",
            "schema": schema_of(Kind::Message),
        })
    });
    in_path.chain(others).chain(message).collect()
}

fn schema_of(kind: Kind) -> Value {
    match kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Path => json!({ "type": "string", "minLength": 1 }),
        Kind::Id => json!({ "type": "string", "pattern": wire::ID_PATTERN }),
        Kind::Snapshot => json!({ "type": "string", "pattern": wire::SNAPSHOT_PATTERN }),
        Kind::Message => json!({ "type": "string", "minLength": 1, "maxLength": MAX_MESSAGE_ID }),
        Kind::Millis => json!({ "type": "integer", "minimum": 0, "maximum": MAX_MODIFIED }),
        Kind::Key => json!({ "type": "string", "minLength": 1, "maxLength": 255 }),
        // Without a value it means yes, as people write it by hand.
        Kind::Flag => json!({
            "anyOf": [{ "type": "boolean" }, { "type": "string", "enum": ["", "1", "0"] }]
        }),
        Kind::Count => json!({ "type": "integer", "minimum": 1 }),
        Kind::Number => json!({ "type": "integer", "minimum": 0 }),
        Kind::Words(words) => json!({ "type": "string", "enum": words }),
    }
}

fn body(payload: Payload, description: &str, generator: &mut SchemaGenerator) -> Value {
    let mut body = match payload {
        Payload::Empty => json!({}),
        Payload::Json(schema) => {
            let schema = match schema(generator).to_value() {
                // Generators of clients do not know the schemas `true` and `false`.
                Value::Bool(_) => json!({ "type": "object", "additionalProperties": {} }),
                schema => schema,
            };
            json!({ "content": { "application/json": { "schema": schema } } })
        }
        Payload::Raw(media) => {
            let content: Map<String, Value> = media
                .iter()
                .map(|media| ((*media).to_owned(), json!({ "schema": raw_schema(media) })))
                .collect();
            json!({ "content": content })
        }
        Payload::Form(fields) => {
            json!({ "content": { "multipart/form-data": { "schema": form_schema(fields) } } })
        }
    };
    if !description.is_empty() {
        body["description"] = json!(description);
    }
    body
}

/// What a body that is no JSON document is for a generated client.
fn raw_schema(media: &str) -> Value {
    match media {
        "application/json" => json!({}),
        text if text.starts_with("text/") => json!({ "type": "string" }),
        _ => json!({ "type": "string", "format": "binary" }),
    }
}

/// The schema of a form with a file and fields.
fn form_schema(fields: &[Param]) -> Value {
    let mut properties = Map::new();
    properties.insert("file".to_owned(), raw_schema(BYTES));
    for field in fields {
        let mut schema = schema_of(field.kind);
        schema["description"] = json!(field.about);
        properties.insert(field.name.to_owned(), schema);
    }
    json!({ "type": "object", "required": ["file"], "properties": properties })
}

fn error_schema() -> Value {
    let codes: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    json!({
        "type": "object",
        "required": ["error"],
        "properties": { "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": { "type": "string", "enum": codes },
                "message": { "type": "string" },
                "hint": { "type": "string", "description": "What to do about it" },
                "details": { "description": "For programs" },
            },
        } },
    })
}

/// The document for people: one page without scripts.
pub(crate) fn page() -> String {
    let mut html = String::from(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Offshoot API</title>\
         <meta name=viewport content=\"width=device-width\"><style>\
         body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
         code{font:14px ui-monospace,monospace}h2{margin-top:2.5rem;text-transform:capitalize}\
         article{border-top:1px solid #ccc;padding:.5rem 0}b{display:inline-block;min-width:4.5em}\
         ul{margin:.2rem 0}</style>\
         <h1>Offshoot API</h1><p>Send <code>Authorization: Bearer TOKEN</code>; \
         <code>offshoot token issue</code> makes one. Errors are \
         <code>{\"error\": {code, message, hint?, details?}}</code>. The same for programs: \
         <a href=\"/openapi.json\">openapi.json</a>.</p>",
    );
    let mut tag = "";
    for route in table() {
        if route.tag != tag {
            tag = route.tag;
            let _ = write!(html, "<h2>{tag}</h2>");
        }
        let _ = write!(
            html,
            "<article><code><b>{}</b> {}</code><br>{}",
            route.method,
            escape(&route.path),
            escape(route.summary)
        );
        let fields = match route.request {
            Payload::Form(fields) => fields,
            _ => &[],
        };
        if !route.params.is_empty() || !fields.is_empty() {
            html.push_str("<ul>");
            for param in route.params.iter().chain(fields) {
                let _ = write!(
                    html,
                    "<li><code>{}</code> ({}): {}</li>",
                    param.name,
                    param.place,
                    escape(param.about)
                );
            }
            html.push_str("</ul>");
        }
        html.push_str("</article>");
    }
    html.push_str("</html>");
    html
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
