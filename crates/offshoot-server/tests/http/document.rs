//! The OpenAPI document and the pages: complete, and true.

use serde_json::{Value, json};

use crate::common::{Client, Running};

#[test]
fn the_document_describes_the_routes() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    let nobody = Client::new(running.address, "");
    let document = nobody.get("/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 55, "{}", paths.len());
    let mut ids = std::collections::BTreeSet::new();
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id.to_owned()), "{id} twice");
            assert!(!operation["summary"].as_str().unwrap().is_empty());
            // Every operation exists: it answers something other than "no route".
            let target = concrete(path);
            let reply = nobody.send(&method.to_uppercase(), target.as_bytes(), &[], b"");
            assert!(
                ![404, 405].contains(&reply.status),
                "{method} {path} {}",
                reply.status
            );
            if operation.get("security").is_none() {
                assert!(
                    [401, 429].contains(&reply.status),
                    "{method} {path} is open: {}",
                    reply.status
                );
            }
        }
    }
    // Every reference leads somewhere.
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"").skip(1) {
        let reference = reference.split('"').next().unwrap();
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

/// Calls a function for every schema in a value, with the place where it stands.
fn each_schema(value: &Value, place: &str, see: &mut dyn FnMut(&str, &Value)) {
    see(place, value);
    for (key, below) in value.as_object().into_iter().flatten() {
        let at = format!("{place}/{key}");
        match key.as_str() {
            "properties" | "$defs" | "patternProperties" => {
                for (name, one) in below.as_object().unwrap() {
                    each_schema(one, &format!("{at}/{name}"), see);
                }
            }
            "items" | "not" => each_schema(below, &at, see),
            // `false` here is what every generator knows: no further fields.
            "additionalProperties" if !below.is_boolean() => each_schema(below, &at, see),
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                for (index, one) in below.as_array().unwrap().iter().enumerate() {
                    each_schema(one, &format!("{at}/{index}"), see);
                }
            }
            _ => {}
        }
    }
}

/// Every schema of a document.
fn every_schema(document: &Value, see: &mut dyn FnMut(&str, &Value)) {
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        each_schema(schema, name, see);
    }
    for (route, operation) in operations(document) {
        for parameter in operation["parameters"].as_array().unwrap() {
            each_schema(&parameter["schema"], &route, see);
        }
        let answers = operation["responses"].as_object().unwrap().values();
        for body in answers.chain(operation.get("requestBody")) {
            for (media, content) in body["content"].as_object().into_iter().flatten() {
                each_schema(&content["schema"], &format!("{route} {media}"), see);
            }
        }
    }
}

/// Every operation with its method and path.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            all.push((format!("{} {path}", method.to_uppercase()), operation));
        }
    }
    all
}

/// What generators stumble over, or take for something else than is meant.
#[test]
fn the_document_says_what_generators_need() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    let document = running.client().get("/openapi.json").json();
    let (mut schemas, mut times) = (0, 0);
    every_schema(&document, &mut |place, schema| {
        schemas += 1;
        assert!(schema.is_object(), "{place} is {schema}");
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let is_time = name == "at" || name.ends_with("_at");
            // Why it was not looked at is a text.
            if is_time && name != "not_looked_at" {
                times += 1;
                let text = field.to_string() + &resolved(&document, field).to_string();
                assert!(text.contains("\"date-time\""), "{place} {name}: {text}");
            }
        }
    });
    assert!(schemas > 300 && times > 15, "{schemas} {times}");
    let mut raw = 0;
    for (route, operation) in operations(&document) {
        let answers = operation["responses"].as_object().unwrap().values();
        for body in answers.chain(operation.get("requestBody")) {
            for (media, content) in body["content"].as_object().into_iter().flatten() {
                let (schema, place) = (&content["schema"], format!("{route} {media}"));
                match media.as_str() {
                    "application/json" => {}
                    text if text.starts_with("text/") => assert_eq!(schema["type"], "string"),
                    "multipart/form-data" => {
                        raw += 1;
                        let fields = &schema["properties"];
                        assert_eq!(fields["file"]["format"], "binary", "{place}");
                        for (name, kind) in [
                            ("workspaceId", "string"),
                            ("messageId", "string"),
                            ("lastModified", "integer"),
                        ] {
                            assert_eq!(fields[name]["type"], kind, "{place} {name}");
                        }
                        assert_eq!(schema["required"], json!(["file"]), "{place}");
                    }
                    _ => {
                        raw += 1;
                        assert_eq!(schema["type"], "string", "{place}");
                        assert_eq!(schema["format"], "binary", "{place}");
                    }
                }
            }
        }
    }
    assert!(raw > 10, "{raw}");
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let found = schema["$ref"]
        .as_str()
        .and_then(|text| text.strip_prefix('#'));
    found.map_or(schema, |pointer| document.pointer(pointer).unwrap())
}

/// What the document says of requests is what the server does.
#[test]
fn the_document_says_what_a_request_needs_and_what_success_means() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    let client = running.client();
    let document = client.get("/openapi.json").json();
    let mut needed = 0;
    for (route, operation) in operations(&document) {
        let is_open = operation.get("security").is_some();
        let parameters = operation["parameters"].as_array().unwrap();
        let header = |name: &str| {
            let is_it = |one: &&Value| one["name"] == name && one["in"] == "header";
            parameters.iter().filter(is_it).count()
        };
        let expected = usize::from(!route.starts_with("GET ") && !is_open);
        assert_eq!(header("Offshoot-Message-Id"), expected, "{route}");
        let text = |status: &str| operation["responses"][status]["description"].as_str();
        let there = "It was there already, and nothing new was made";
        let both = (text("200"), text("201"));
        assert!(
            match header("Idempotency-Key") > 0 && text("201").is_some() {
                true => both == (Some(there), Some("Created")),
                false =>
                    [None, Some("Done")].contains(&both.0)
                        && [None, Some("Created")].contains(&both.1),
            },
            "{route} {both:?}"
        );
        let Some(body) = operation.get("requestBody") else {
            continue;
        };
        let json = &body["content"]["application/json"]["schema"];
        let fields = resolved(&document, json)["required"].as_array();
        let is_form = body["content"].get("multipart/form-data").is_some();
        let is_import = route.ends_with("/import");
        let must = is_form || is_import || fields.is_some_and(|fields| !fields.is_empty());
        assert_eq!(body["required"], must, "{route}");
        // And so it is: without a body such a request is wrong.
        if must {
            needed += 1;
            let (method, path) = route.split_once(' ').unwrap();
            let refused = client.send(method, concrete(path).as_bytes(), &[], b"");
            assert_eq!(refused.status / 100, 4, "{route} {}", refused.status);
        }
    }
    assert!(needed > 10, "{needed}");
}

/// A path of the document with something in each place.
fn concrete(path: &str) -> String {
    let parts = path.split('/');
    let parts = parts.map(|part| if part.starts_with('{') { "none" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

#[test]
fn pages_and_metrics_answer_without_a_token() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    let nobody = Client::new(running.address, "");
    assert!(
        nobody
            .get("/docs")
            .text()
            .contains("/api/v1/workspaces/{workspace}/files/{path}")
    );
    assert_eq!(nobody.get("/healthz").json()["status"], "ok");
    running.client().create("w");
    let metrics = nobody.get("/metrics").text();
    assert!(
        metrics.contains(
            "offshoot_requests_total{method=\"POST\",route=\"/api/v1/workspaces\",status=\"201\"} 1"
        ),
        "{metrics}"
    );
    let none = nobody.get("/nothing/here");
    assert_eq!(
        (none.status, none.code().as_str()),
        (404, "invalid_request")
    );
    let wrong = running
        .client()
        .send("PATCH", b"/api/v1/workspaces", &[], b"");
    assert_eq!(
        (wrong.status, wrong.code().as_str()),
        (405, "invalid_request")
    );
    assert!(wrong.header("allow").is_some());
}

/// A scanner for leaked secrets must not take a page for one.
#[test]
fn every_page_has_a_nonce_of_its_own_that_is_no_token() {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    let nobody = Client::new(running.address, "");
    let nonce = || {
        let page = nobody.send("GET", b"/", &[("Accept", "text/html")], b"");
        let policy = page.header("content-security-policy").unwrap();
        let nonce = policy.split("'nonce-").nth(1).unwrap();
        let nonce = nonce.split('\'').next().unwrap().to_owned();
        assert!(page.text().contains(&format!("nonce=\"{nonce}\"")));
        assert!(nonce.len() == 64 && nonce.bytes().all(|byte| byte.is_ascii_hexdigit()));
        nonce
    };
    assert_ne!(nonce(), nonce());
}
