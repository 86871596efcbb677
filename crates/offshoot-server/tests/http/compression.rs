//! Answers compressed for those who ask for it.

use std::io::Read as _;

use offshoot_testkit::HostDir;

use crate::common::{Running, Stream};

fn plain(gzip: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(gzip);
    decoder.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn long_answers_are_compressed_on_request_and_files_never() {
    let data = HostDir::new();
    let running = Running::start(data.path());
    let client = running.client();
    client.create("w");
    let text = "a line of a text file\n".repeat(200);
    for number in 0..40 {
        client.put(
            &format!("/api/v1/workspaces/w/files/d/{number}.json"),
            text.as_bytes(),
        );
    }
    let ask = |method: &str, target: &str, accept: &str| {
        let headers = [("Accept-Encoding", accept)];
        client.send(method, target.as_bytes(), &headers, b"")
    };
    for target in ["/api/v1/workspaces/w/list?path=d", "/openapi.json", "/docs"] {
        let whole = client.get(target);
        assert_eq!(whole.header("content-encoding"), None);
        assert_eq!(whole.header("vary"), Some("accept-encoding"), "{target}");
        let small = ask("GET", target, "br, gzip");
        assert_eq!(small.header("content-encoding"), Some("gzip"), "{target}");
        assert!(small.body.len() * 2 < whole.body.len(), "{target}");
        assert_eq!(plain(&small.body), whole.body);
        assert_eq!(
            ask("GET", target, "gzip;q=0").header("content-encoding"),
            None
        );
        assert_eq!(ask("HEAD", target, "gzip").header("content-encoding"), None);
    }
    // A short answer stays as it is, an error too if it is short.
    for target in ["/api/v1/workspaces/w", "/api/v1/workspaces/none"] {
        assert_eq!(ask("GET", target, "gzip").header("content-encoding"), None);
    }
    // A file is its bytes: its tag is of them, and parts of it are counted in them.
    let file = ask("GET", "/api/v1/workspaces/w/files/d/0.json", "gzip");
    assert_eq!(file.header("content-encoding"), None);
    assert_eq!(file.body, text.as_bytes());
    let archive = ask("GET", "/api/v1/workspaces/w/archive?format=tar.gz", "gzip");
    assert_eq!(archive.header("content-encoding"), None);
    // A stream comes line by line.
    let mut stream = Stream::open(
        &client,
        "/api/v1/events?since=0",
        &[("Accept-Encoding", "gzip")],
    );
    assert!(stream.next().is_some());
}
