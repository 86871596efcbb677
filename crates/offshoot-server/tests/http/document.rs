//! The OpenAPI document and the pages: complete, and true.

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
            let target = path
                .split('/')
                .map(|part| if part.starts_with('{') { "none" } else { part })
                .collect::<Vec<_>>()
                .join("/");
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
