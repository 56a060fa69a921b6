//! How a question is answered: truly, or in one of the ways in which a service on the Internet fails.

use std::convert::Infallible;
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::StatusCode;
use hyper::body::{Bytes, Frame};
use hyper::header::{CONTENT_TYPE, LOCATION};
use serde_json::{Value, json};
use socket2::Socket;

use super::for_ever;

/// In every body that is no good answer: must show up nowhere else.
pub const CANARY: &str = "canary-of-the-session-server";

/// How `hasJoined` is answered.
#[derive(Debug, Clone, Default)]
pub enum Answer {
    /// As Mojang does.
    #[default]
    Truth,
    /// With this status: 204 without a body, others with JSON or a web page.
    Status(u16),
    /// With 200 and this body.
    Body(String),
    /// With 200 and a body of good JSON that never ends.
    Endless,
    /// With 200 and a body of which a byte comes now and then.
    Drip,
    /// Not at all, on a connection that stays open.
    Silence,
    /// With a redirect to here.
    Redirect(String),
    /// Not at all: the connection is closed.
    Close,
    /// Not at all: the connection is reset.
    Reset,
    /// The first time like this, then truly.
    Once(Box<Answer>),
}

/// Ends the connection without an answer.
#[derive(Debug)]
pub(super) struct Hung;

impl std::fmt::Display for Hung {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("told to hang up")
    }
}

impl std::error::Error for Hung {}

pub(super) type Response = hyper::Response<UnsyncBoxBody<Bytes, Infallible>>;

impl Answer {
    pub(super) async fn give(self, path: &str, socket: &Socket, truth: impl FnOnce() -> Response) -> Result<Response, Hung> {
        let text = |text: String| response(StatusCode::OK, "application/json", Full::from(text).boxed_unsync());
        Ok(match self {
            Answer::Truth | Answer::Once(_) => truth(),
            Answer::Status(204) => empty(StatusCode::NO_CONTENT),
            Answer::Status(status) => {
                let status = StatusCode::from_u16(status).expect("a status that a test names");
                if status.is_server_error() {
                    response(status, "text/html", Full::from(format!("<html><body>{CANARY}</body></html>")).boxed_unsync())
                } else {
                    failed(status, path, "ForbiddenOperationException", CANARY)
                }
            }
            Answer::Body(body) => text(body),
            Answer::Endless => endless(stream::repeat("[0],".repeat(16 * 1024))),
            Answer::Drip => endless(stream::repeat("[0],".to_owned()).then(async |bytes| {
                tokio::time::sleep(Duration::from_millis(100)).await;
                bytes
            })),
            Answer::Silence => for_ever().await,
            Answer::Redirect(to) => {
                let mut redirect = empty(StatusCode::FOUND);
                redirect.headers_mut().insert(LOCATION, to.parse().expect("a URL that a test names"));
                redirect
            }
            Answer::Close => return Err(Hung),
            Answer::Reset => {
                socket.set_linger(Some(Duration::ZERO)).expect("an open socket");
                return Err(Hung);
            }
        })
    }
}

/// As Mojang's pages of errors are.
pub(super) fn failed(status: StatusCode, path: &str, error: &str, message: &str) -> Response {
    json(status, &json!({ "path": path, "error": error, "errorMessage": message }))
}

pub(super) fn json(status: StatusCode, body: &Value) -> Response {
    let body = serde_json::to_string_pretty(body).expect("plain JSON");
    response(status, "application/json", Full::from(body).boxed_unsync())
}

pub(super) fn empty(status: StatusCode) -> Response {
    let mut response = hyper::Response::new(Empty::new().boxed_unsync());
    *response.status_mut() = status;
    response
}

fn endless(parts: impl Stream<Item = String> + Send + 'static) -> Response {
    let all = stream::iter([format!("{{\"{CANARY}\":[")]).chain(parts);
    let body = StreamBody::new(all.map(|part| Ok(Frame::data(Bytes::from(part)))));
    response(StatusCode::OK, "application/json", body.boxed_unsync())
}

fn response(status: StatusCode, kind: &'static str, body: UnsyncBoxBody<Bytes, Infallible>) -> Response {
    let mut response = hyper::Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}
