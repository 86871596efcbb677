//! What handlers take from a request: parameters of the path as bytes, the query, JSON bodies.

use axum::extract::{FromRequest, FromRequestParts, MatchedPath, Request};
use axum::http::request::Parts;
use bytes::Bytes;
use offshoot_core::{
    AgentId, Error, ProjectId, RelPath, Result, WorkspaceId, escape_bytes, percent_decode,
};
use serde::de::DeserializeOwned;

use crate::app::Shared;
use crate::body;
use crate::error::Problem;

/// The parameters of the path, decoded once. They are bytes: names of files are.
pub(crate) struct Params(Vec<(String, Vec<u8>)>);

impl Params {
    fn of(template: &str, path: &str) -> Result<Self> {
        let mut found = Vec::new();
        let mut rest = path;
        for part in template.split('/') {
            if let Some(name) = part
                .strip_prefix("{*")
                .and_then(|part| part.strip_suffix('}'))
            {
                found.push((name.to_owned(), percent_decode(rest)?));
                break;
            }
            let (segment, after) = rest.split_once('/').unwrap_or((rest, ""));
            rest = after;
            if let Some(name) = part
                .strip_prefix('{')
                .and_then(|part| part.strip_suffix('}'))
            {
                found.push((name.to_owned(), percent_decode(segment)?));
            }
        }
        Ok(Params(found))
    }

    /// A parameter as it is.
    pub(crate) fn bytes(&self, name: &str) -> &[u8] {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or(&[], |(_, value)| value)
    }

    /// A parameter as text.
    pub(crate) fn text(&self, name: &str) -> Result<&str> {
        std::str::from_utf8(self.bytes(name))
            .map_err(|_| Error::invalid(format!("`{name}` in the URL is not UTF-8")))
    }

    /// The workspace that the URL names.
    pub(crate) fn workspace(&self) -> Result<WorkspaceId> {
        self.text("workspace")?.parse()
    }

    /// The project that the URL names.
    pub(crate) fn project(&self) -> Result<ProjectId> {
        self.text("project")?.parse()
    }

    /// The agent that the URL names.
    pub(crate) fn agent(&self) -> Result<AgentId> {
        self.text("agent")?.parse()
    }

    /// The path that the URL names.
    pub(crate) fn path(&self) -> Result<RelPath> {
        RelPath::parse(self.bytes("path"))
    }
}

/// The part of the path that stands where the route has this parameter, as it was sent.
pub(crate) fn segment_of<'r>(request: &'r Request, parameter: &str) -> Option<&'r str> {
    let route = request.extensions().get::<MatchedPath>()?.as_str();
    let place = route.split('/').position(|part| part == parameter)?;
    request.uri().path().split('/').nth(place)
}

impl FromRequestParts<Shared> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Problem> {
        let template = parts
            .extensions
            .get::<MatchedPath>()
            .map_or("", MatchedPath::as_str)
            .to_owned();
        Ok(Params::of(&template, parts.uri.path())?)
    }
}

/// The query of the URL.
pub(crate) struct Query(Vec<(Vec<u8>, Vec<u8>)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let decode = |text: &str| percent_decode(&text.replace('+', " "));
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name)?;
            // Programs differ in which of the two counts, and attacks rely on that.
            if found.iter().any(|(known, _)| *known == name) {
                return Err(Error::invalid(format!(
                    "the parameter `{}` is given twice",
                    escape_bytes(&name)
                )));
            }
            found.push((name, decode(value)?));
        }
        Ok(Query(found))
    }

    /// A parameter as it is.
    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        let found = self.0.iter().find(|(known, _)| known == name.as_bytes());
        found.map(|(_, value)| value.as_slice())
    }

    /// A text.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>> {
        let text = |bytes| {
            std::str::from_utf8(bytes)
                .map_err(|_| Error::invalid(format!("the parameter `{name}` is not UTF-8")))
        };
        self.bytes(name).map(text).transpose()
    }

    /// A number.
    pub(crate) fn number<N: std::str::FromStr>(&self, name: &str) -> Result<Option<N>> {
        let number = |text: &str| {
            let bad = |_| Error::invalid(format!("the parameter `{name}` is no valid number"));
            text.parse().map_err(bad)
        };
        self.text(name)?.map(number).transpose()
    }

    /// Yes or no; a parameter without a value means yes.
    pub(crate) fn flag(&self, name: &str) -> Result<bool> {
        match self.text(name)? {
            None | Some("false" | "0") => Ok(false),
            Some("" | "true" | "1") => Ok(true),
            Some(_) => Err(Error::invalid(format!(
                "the parameter `{name}` is neither `true` nor `false`"
            ))),
        }
    }

    /// Something that has a form of its own, such as an id.
    pub(crate) fn parsed<T: std::str::FromStr<Err = Error>>(
        &self,
        name: &str,
    ) -> Result<Option<T>> {
        self.text(name)?.map(str::parse).transpose()
    }

    /// The id of a snapshot, or a prefix of it.
    pub(crate) fn snapshot(&self, name: &str) -> Result<Option<String>> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex || !(4..=40).contains(&text.len()) {
            let message = format!("the parameter `{name}` is no id of a snapshot");
            return Err(Error::invalid(message).with_hint("give 4 to 40 digits of it"));
        }
        Ok(Some(text.to_ascii_lowercase()))
    }

    /// A text to keep.
    pub(crate) fn owned(&self, name: &str) -> Result<Option<String>> {
        Ok(self.text(name)?.map(str::to_owned))
    }

    /// Yes or no, or nothing said.
    pub(crate) fn choice(&self, name: &str) -> Result<Option<bool>> {
        match self.text(name)? {
            None => Ok(None),
            Some(_) => self.flag(name).map(Some),
        }
    }

    /// A path; without it the workspace itself.
    pub(crate) fn path_or_root(&self, name: &str) -> Result<RelPath> {
        self.path(name).map(Option::unwrap_or_default)
    }

    /// A path, if there is one.
    pub(crate) fn path(&self, name: &str) -> Result<Option<RelPath>> {
        self.bytes(name).map(RelPath::parse).transpose()
    }

    /// The number of items on a page: what was asked for, within the limit.
    pub(crate) fn limit(&self, usual: usize, most: usize) -> Result<usize> {
        match self.number::<usize>("limit")? {
            None => Ok(usual.min(most)),
            Some(0) => Err(Error::invalid("the parameter `limit` must be at least 1")),
            Some(asked) => Ok(asked.min(most)),
        }
    }

    /// Like [`limit`](Self::limit) for lists that need no page: without the parameter an answer has
    /// up to `unasked` items.
    pub(crate) fn limit_if_given(&self, unasked: usize, most: usize) -> Result<usize> {
        match self.number::<usize>("limit")? {
            None => Ok(unasked),
            Some(_) => self.limit(most, most),
        }
    }
}

impl FromRequestParts<Shared> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Problem> {
        Ok(Query::parse(parts.uri.query().unwrap_or_default())?)
    }
}

/// The header `Idempotency-Key`, if there is one.
pub(crate) struct RequestKey(pub(crate) Option<Vec<u8>>);

impl FromRequestParts<Shared> for RequestKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Problem> {
        let key = parts.headers.get("idempotency-key");
        Ok(RequestKey(key.map(|key| key.as_bytes().to_vec())))
    }
}

/// The most items of an answer for which no page was asked.
pub(crate) const UNASKED: usize = 10_000;

/// A JSON body. An empty body is taken for an empty object.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Shared> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Problem> {
        let JsonText(text) = JsonText::from_request(request, app).await?;
        Ok(Json(parse_json(&text)?))
    }
}

/// The text of a JSON body that begins like an object, not parsed yet. An empty body is taken for an
/// empty object.
pub(crate) struct JsonText(pub(crate) Bytes);

impl FromRequest<Shared> for JsonText {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Problem> {
        let limits = &app.options.limits;
        let bytes = body::collect(
            request.into_body(),
            limits.max_json_bytes,
            limits.idle_timeout,
        )
        .await?;
        if bytes.is_empty() {
            return Ok(JsonText(Bytes::from_static(b"{}")));
        }
        check_object(&bytes)?;
        Ok(JsonText(bytes))
    }
}

/// Refuses everything but an object: a list of values would be taken for the fields of a struct in
/// their order.
fn check_object(text: &[u8]) -> Result<()> {
    match text.trim_ascii_start().first() {
        Some(b'{') => Ok(()),
        _ => Err(Error::invalid("the body is refused: it is no JSON object")),
    }
}

/// Parses a JSON object and says which field is wrong.
pub(crate) fn parse_json<T: DeserializeOwned>(text: &[u8]) -> Result<T> {
    check_object(text)?;
    // The words of the parser name the field and hold no host path.
    serde_json::from_slice(text)
        .map_err(|cause| Error::invalid(format!("the body is refused: {cause}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_once() {
        let template = "/api/v1/workspaces/{workspace}/files/{*path}";
        let params = Params::of(template, "/api/v1/workspaces/a/files/x%2Fy/%252e%ff").unwrap();
        assert_eq!(params.workspace().unwrap().as_str(), "a");
        assert_eq!(params.path().unwrap().as_bytes(), b"x/y/%2e\xff");
        let params = Params::of(template, "/api/v1/workspaces/a/files//etc").unwrap();
        assert!(params.path().is_err());
        assert!(Params::of(template, "/api/v1/workspaces/a/files/%").is_err());
        assert!(Params::of(template, "/api/v1/workspaces/a/files/%4").is_err());
    }

    #[test]
    fn queries() {
        let query = Query::parse("path=a+b%2Fc&limit=5000&x&recursive=true").unwrap();
        assert_eq!(query.path_or_root("path").unwrap().as_bytes(), b"a b/c");
        assert_eq!(query.limit(100, 1000).unwrap(), 1000);
        assert!(query.flag("recursive").unwrap() && query.flag("x").unwrap());
        assert!(Query::parse("limit=0").unwrap().limit(1, 2).is_err());
        assert!(Query::parse("limit=-1").unwrap().limit(1, 2).is_err());
        assert!(Query::parse("path=").unwrap().path("path").is_err());
        assert!(Query::parse("path=a&pat%68=b").is_err());
    }
}
