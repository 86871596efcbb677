//! One route: what the router and the OpenAPI document are both made from.

use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::app::Shared;
use crate::handlers::forms::FIELDS;

/// Makes the schema of a body.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The media type of bytes that nothing more is said about.
pub(crate) const BYTES: &str = "application/octet-stream";

/// What a request or an answer carries.
#[derive(Clone, Copy)]
pub(crate) enum Payload {
    /// Nothing.
    Empty,
    /// A JSON document.
    Json(SchemaOf),
    /// Something else, of one of these media types.
    Raw(&'static [&'static str]),
    /// A form of files, and of fields that say more about them.
    Form(&'static [Param]),
}

/// A parameter of the query, a header or a field of a form.
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) place: &'static str,
    pub(crate) kind: Kind,
    pub(crate) about: &'static str,
}

/// What a parameter can be.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// The id of a project, a workspace or an agent.
    Id,
    /// A path.
    Path,
    /// The id of a snapshot, or a prefix of it.
    Snapshot,
    /// A key of at most 255 bytes.
    Key,
    /// The id of a message.
    Message,
    /// A time in milliseconds since 1970.
    Millis,
    /// Yes or no.
    Flag,
    /// A number from 1.
    Count,
    /// A number from 0.
    Number,
    /// One of these words.
    Words(&'static [&'static str]),
}

/// One route.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) summary: &'static str,
    pub(crate) tag: &'static str,
    pub(crate) params: Vec<Param>,
    pub(crate) request: Payload,
    /// Whether a request without a body is wrong.
    pub(crate) needs_body: bool,
    pub(crate) answer: Payload,
    pub(crate) status: u16,
    /// What else success can be: nothing new had to be made, or it is only a part.
    pub(crate) also: Vec<u16>,
    /// Whether it answers without a credential.
    pub(crate) open: bool,
    handler: MethodRouter<Shared>,
}

impl Route {
    /// A route that answers 200 with JSON, unless said otherwise.
    fn new<H, T>(method: Method, path: &str, summary: &'static str, handler: H) -> Self
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET);
        // A GET handler also answers HEAD, as axum's own `get` has it.
        let filter = match method {
            Method::GET => filter.or(MethodFilter::HEAD),
            _ => filter,
        };
        Route {
            method,
            path: path.to_owned(),
            summary,
            tag: "",
            params: Vec::new(),
            request: Payload::Empty,
            needs_body: true,
            answer: Payload::Raw(&["application/json"]),
            status: 200,
            also: Vec::new(),
            open: false,
            handler: on(filter, handler),
        }
    }

    /// The shape of its answer.
    pub(crate) fn gives<T: JsonSchema>(mut self) -> Self {
        self.answer = Payload::Json(SchemaGenerator::subschema_for::<T>);
        self
    }

    /// The media types of its answer.
    pub(crate) fn gives_raw(mut self, media: &'static [&'static str]) -> Self {
        self.answer = Payload::Raw(media);
        self
    }

    /// The shape of its request.
    pub(crate) fn takes<T: JsonSchema>(mut self) -> Self {
        self.request = Payload::Json(SchemaGenerator::subschema_for::<T>);
        self
    }

    /// The media types of its request.
    pub(crate) fn takes_raw(mut self, media: &'static [&'static str]) -> Self {
        self.request = Payload::Raw(media);
        self
    }

    /// A parameter of the query.
    pub(crate) fn query(mut self, name: &'static str, kind: Kind, about: &'static str) -> Self {
        let place = "query";
        self.params.push(Param {
            name,
            place,
            kind,
            about,
        });
        self
    }

    /// A header.
    pub(crate) fn header(self, name: &'static str, about: &'static str) -> Self {
        self.header_of(name, Kind::Text, about)
    }

    fn header_of(mut self, name: &'static str, kind: Kind, about: &'static str) -> Self {
        let place = "header";
        self.params.push(Param {
            name,
            place,
            kind,
            about,
        });
        self
    }

    /// The status of success.
    pub(crate) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Another status of success with the same shape.
    pub(crate) fn also(mut self, status: u16) -> Self {
        self.also.push(status);
        self
    }

    /// Something is made: a repetition with the same key finds it.
    pub(crate) fn creates(self) -> Self {
        self.status(201).also(200).once_for_each_key()
    }

    /// A repetition with the same key does nothing more.
    fn once_for_each_key(self) -> Self {
        self.header_of(
            "Idempotency-Key",
            Kind::Key,
            "A repeated request with the same key creates nothing more",
        )
    }

    /// Takes a form with files.
    pub(crate) fn takes_form(mut self) -> Self {
        self.request = Payload::Form(FIELDS);
        self.once_for_each_key()
    }

    /// Answers without a credential.
    pub(crate) fn open(mut self) -> Self {
        self.open = true;
        self
    }

    /// A list that goes on after an id.
    pub(crate) fn paged(self, kind: Kind) -> Self {
        self.query("after", kind, "Only what comes after this id")
            .limited()
    }

    /// A list that ends somewhere.
    pub(crate) fn limited(self) -> Self {
        self.query("limit", Kind::Count, "At most so many")
    }

    /// Can be asked of a snapshot.
    pub(crate) fn at_snapshot(self) -> Self {
        self.query("at", Kind::Snapshot, "As it is in this snapshot")
    }

    /// The raw content of a file, also of snapshots, with everything that HTTP has for that.
    pub(crate) fn serves_file(self) -> Self {
        self.serves_content().at_snapshot()
    }

    /// Raw content, with everything that HTTP has for that.
    pub(crate) fn serves_content(self) -> Self {
        // Generated clients know what to do with bytes, and not with anything.
        self.gives_raw(&[BYTES, "*/*"])
            .also(206)
            .also(304)
            .query(
                "preview",
                Kind::Flag,
                "Show it in a browser instead of saving it",
            )
            .header("If-None-Match", "Answer 304 if the content is still this")
            .header("If-Match", "Answer 412 if the content is not this")
            .header("Range", "A part, such as `bytes=0-99`")
            .header("If-Range", "Heed `Range` only if the content is still this")
    }

    /// Takes the raw content of a file.
    pub(crate) fn takes_file(mut self) -> Self {
        // Without a body the file is empty.
        self.needs_body = false;
        self.takes_raw(&[BYTES])
            .query(
                "executable",
                Kind::Flag,
                "Whether the file can be executed; without it that stays as it was",
            )
            .header("If-Match", "Only if the content is this; `*` means any")
            .header("If-None-Match", "`*`: only if nothing is there")
    }

    /// The handler, for the router.
    pub(crate) fn into_handler(self) -> MethodRouter<Shared> {
        self.handler
    }
}

/// A route that reads.
pub(crate) fn get<H, T>(path: &str, summary: &'static str, handler: H) -> Route
where
    H: Handler<T, Shared>,
    T: 'static,
{
    Route::new(Method::GET, path, summary, handler)
}

/// A route that does something.
pub(crate) fn post<H, T>(path: &str, summary: &'static str, handler: H) -> Route
where
    H: Handler<T, Shared>,
    T: 'static,
{
    Route::new(Method::POST, path, summary, handler)
}

/// A route that puts something in a place.
pub(crate) fn put<H, T>(path: &str, summary: &'static str, handler: H) -> Route
where
    H: Handler<T, Shared>,
    T: 'static,
{
    Route::new(Method::PUT, path, summary, handler)
}

/// A route that takes something away.
pub(crate) fn delete<H, T>(path: &str, summary: &'static str, handler: H) -> Route
where
    H: Handler<T, Shared>,
    T: 'static,
{
    Route::new(Method::DELETE, path, summary, handler)
}
