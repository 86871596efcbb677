//! The path table through every door there is: the routes, their parameters, headers and bodies come
//! from the OpenAPI document, so that none is forgotten, and clones and events beside them (INV-7).

use std::io::Write as _;
use std::net::TcpStream;

use serde_json::{Map, Value, json};

use crate::common::{Client, Running, encode, read_body, read_reply};
use crate::paths::{SECRET, check, contents, table};

/// Where an input goes.
#[derive(Clone, Debug)]
struct Door {
    method: String,
    /// The route with its parameters.
    route: String,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    Path(String),
    Query(String),
    Header(String),
    /// A field of the body, with the others that are needed beside it.
    Field(String, Map<String, Value>),
}

/// What stands for a parameter that is not the one under test.
fn usual(name: &str) -> &'static str {
    match name {
        "workspace" => "w",
        "project" => "p",
        "agent" | "agent_id" => "a",
        "path" => "inside/a.txt",
        "tool" => "read_file",
        _ => "none",
    }
}

fn strings<'a>(value: &'a Value, name: &str) -> Vec<&'a str> {
    let list = value[name]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    list.iter().filter_map(Value::as_str).collect()
}

/// The fields of a body that take text, alone or in a list.
fn fields(document: &Value, schema: &Value) -> Vec<(String, Map<String, Value>)> {
    let schema = match schema["$ref"].as_str() {
        Some(place) => &document
            .pointer(place.trim_start_matches('#'))
            .unwrap()
            .clone(),
        None => schema,
    };
    let Some(known) = schema["properties"].as_object() else {
        return Vec::new();
    };
    let needed = strings(schema, "required");
    let takes_text = |field: &Value| {
        let kind = &field["type"];
        kind == "string" || strings(field, "type").contains(&"string")
    };
    let mut found = Vec::new();
    for (name, field) in known {
        let is_list = field["items"]["type"] == "string";
        if !takes_text(field) && !is_list {
            continue;
        }
        let mut others = Map::new();
        for other in needed.iter().filter(|other| **other != name) {
            others.insert((*other).to_owned(), json!(usual(other)));
        }
        if is_list {
            others.insert(name.clone(), json!([]));
        }
        found.push((name.clone(), others));
    }
    found
}

/// Every place of the document that an input can go to.
fn doors(document: &Value) -> Vec<Door> {
    let mut doors = Vec::new();
    for (route, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let mut add = |place: Place| {
                doors.push(Door {
                    method: method.to_ascii_uppercase(),
                    route: route.clone(),
                    place,
                });
            };
            for parameter in operation["parameters"].as_array().unwrap() {
                let name = parameter["name"].as_str().unwrap().to_owned();
                // It names a request and nothing else, and each new one makes what was asked for.
                if name == "Idempotency-Key" {
                    continue;
                }
                add(match parameter["in"].as_str().unwrap() {
                    "path" => Place::Path(name),
                    "query" => Place::Query(name),
                    _ => Place::Header(name),
                });
            }
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            for (name, mut others) in fields(document, schema) {
                if route.ends_with("/{project}/workspaces") && name != "base" {
                    // A fork is not what this is about: it is refused after all names were read.
                    others.insert("base".to_owned(), json!("none"));
                }
                // A directory of the host is what admins name there, and others may not.
                if name != "from" || !route.ends_with("/projects") && !route.ends_with("/sync") {
                    add(Place::Field(name, others));
                }
            }
        }
    }
    doors
}

impl Door {
    /// The request that carries an input through this door; none if HTTP itself cannot.
    fn request(&self, input: &[u8]) -> Option<(Vec<u8>, Vec<(String, String)>, Vec<u8>)> {
        let mut target = self.route.clone();
        let (mut headers, mut body) = (Vec::new(), Vec::new());
        if let Place::Path(name) = &self.place {
            target = target.replace(&format!("{{{name}}}"), &encode(input));
        }
        let mut usual_target = String::new();
        for part in target.split_inclusive('/') {
            let (text, slash) = part
                .strip_suffix('/')
                .map_or((part, ""), |text| (text, "/"));
            let name = text
                .strip_prefix('{')
                .and_then(|text| text.strip_suffix('}'));
            match name {
                Some(name) => usual_target.push_str(usual(name)),
                None => usual_target.push_str(text),
            }
            usual_target.push_str(slash);
        }
        match &self.place {
            Place::Path(_) => {}
            Place::Query(name) => {
                usual_target.push_str(&format!("?{name}={}", encode(input)));
            }
            Place::Header(name) => {
                let text = String::from_utf8(input.to_vec()).ok()?;
                if text.contains(['\r', '\n', '\0']) {
                    return None;
                }
                headers.push((name.clone(), text));
            }
            Place::Field(name, others) => {
                let mut fields = others.clone();
                let text = String::from_utf8_lossy(input).into_owned();
                let value = match fields.contains_key(name) {
                    true => json!([text]),
                    false => json!(text),
                };
                fields.insert(name.clone(), value);
                body = Value::Object(fields).to_string().into_bytes();
            }
        }
        Some((usual_target.into_bytes(), headers, body))
    }
}

/// A client that keeps its connection as long as the server does.
struct Sender<'a> {
    client: &'a Client,
    stream: TcpStream,
    sent: usize,
}

impl Sender<'_> {
    /// Sends one request and looks at the answer, of a stream only at the head.
    fn send(&mut self, door: &Door, input: &[u8]) {
        let Some((target, headers, body)) = door.request(input) else {
            return;
        };
        let headers: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let mut request = self.client.head(&door.method, &target, &headers);
        request.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        request.extend_from_slice(&body);
        let _ = self.stream.write_all(&request);
        let mut reply = read_reply(&mut self.stream, true);
        let is_stream = reply.header("content-type") == Some("text/event-stream");
        let ends = is_stream || reply.status == 0 || reply.header("connection") == Some("close");
        if !is_stream && door.method != "HEAD" {
            read_body(&mut self.stream, &mut reply);
        }
        if ends {
            self.stream = self.client.connect();
        }
        let shown = format!("{door:?} {}", offshoot_core::escape_bytes(input));
        check(&shown, input, &reply);
        assert!(reply.status > 0, "no answer: {shown}");
        self.sent += 1;
    }
}

#[test]
fn no_input_through_any_door_of_the_document_leads_outside() {
    let all = table();
    // Several servers at once, because each change waits for the disk.
    let sent: usize = std::thread::scope(|scope| {
        let parts = all.chunks(all.len().div_ceil(4));
        let runs: Vec<_> = parts.map(|part| scope.spawn(|| try_doors(part))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).sum()
    });
    println!("soak: inputs {} requests {sent}", all.len());
}

fn try_doors(inputs: &[Vec<u8>]) -> usize {
    let data = offshoot_testkit::HostDir::new();
    let outside = data.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret.txt"), SECRET).unwrap();
    let before = contents(&outside);
    let running = Running::start(&data.path().join("data"));
    let client = running.client();
    client.create("w");
    client.create("neighbour");
    client.create_project("p", &[("inside/a.txt", "inside")]);
    client.put("/api/v1/workspaces/w/files/inside/a.txt", b"inside");
    client.put(
        "/api/v1/workspaces/neighbour/files/n.txt",
        SECRET.as_bytes(),
    );
    let document = client.get("/openapi.json").json();
    let doors = doors(&document);
    assert!(doors.len() > 100, "{}", doors.len());
    let mut sender = Sender {
        client: &client,
        stream: client.connect(),
        sent: 0,
    };
    let clones = clone_doors();
    for input in inputs {
        for door in doors.iter().chain(&clones) {
            sender.send(door, input);
        }
        // Some doors take away what the others need.
        client.put("/api/v1/workspaces/w/files/inside/a.txt", b"inside");
    }
    assert_eq!(contents(&outside), before, "something outside changed");
    let neighbour = client.get("/api/v1/workspaces/neighbour/files/n.txt");
    assert_eq!(neighbour.text(), SECRET);
    sender.sent
}

/// The names of repositories and of files in them, which the document does not describe.
fn clone_doors() -> Vec<Door> {
    let door = |route: &str, place: Place| Door {
        method: "GET".to_owned(),
        route: route.to_owned(),
        place,
    };
    let path = || Place::Path("input".to_owned());
    vec![
        door("/git/{input}.git/info/refs?service=git-upload-pack", path()),
        door(
            "/git/workspaces/{input}.git/info/refs?service=git-upload-pack",
            path(),
        ),
        door("/git/p.git/{input}", path()),
        door("/git/workspaces/w.git/{input}", path()),
        door("/git/{input}", path()),
        door("/git/p.git/info/refs", Place::Query("service".to_owned())),
    ]
}
