//! Mojang's session server, as far as logging in needs it, on loopback: real HTTP, the accounts a test registers, and every way to fail.
//!
//! A client tells it that it joins (`POST /session/minecraft/join`), a server asks whether that is so
//! (`GET /session/minecraft/hasJoined`); see "Protocol Encryption" and "Mojang API" of the Minecraft wiki.

mod account;
mod answer;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::pending;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use socket2::Socket;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

pub use self::account::{Account, Property};
pub use self::answer::{Answer, CANARY};
use self::answer::{Hung, Response};
use crate::process::SOON;

/// What came, as far as tests look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Path without the query.
    pub path: String,
    /// The query, decoded, in its order.
    pub query: Vec<(String, String)>,
    /// Where it came from; tells connections apart.
    pub from: SocketAddr,
}

impl Request {
    /// The value of this name in the query.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// A running session server; ends when dropped.
pub struct SessionServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Moves with every request.
    grown: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    accounts: Vec<Account>,
    /// Who has joined: name in lower case and server id → the address that said so, if one did.
    joined: HashMap<(String, String), Option<IpAddr>>,
    answer: Answer,
    /// By name in lower case; before `answer`.
    answers: HashMap<String, Answer>,
    requests: Vec<Request>,
    connections: usize,
}

impl SessionServer {
    /// Starts it on a free port.
    pub async fn start() -> SessionServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let shared = Arc::<Shared>::default();
        let accepting = tokio::spawn(accept(listener, shared.clone())).abort_handle();
        SessionServer { address, shared, accepting }
    }

    /// For `--session-server`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Registers an account of this name, with a UUID, an access token and a skin of its own.
    pub fn account(&self, name: &str) -> Account {
        let account = Account::new(name);
        self.state().accounts.push(account.clone());
        account
    }

    /// Options for [`Player::join`](crate::peer::Player::join) with which it logs in as this account.
    pub fn online(&self, account: &Account) -> serde_json::Value {
        serde_json::json!({ "online": { "sessionServer": self.url(), "id": account.undashed(), "accessToken": account.access_token } })
    }

    /// As a client's `join`, for players that are none: this account joins the server with this hash.
    pub fn join(&self, account: &Account, server_hash: &str) {
        self.state().joined.insert((account.name.to_lowercase(), server_hash.to_owned()), None);
    }

    /// How `hasJoined` is answered from now on.
    pub fn answer(&self, answer: Answer) {
        self.state().answer = answer;
    }

    /// How `hasJoined` is answered for this name from now on, whatever it is for others.
    pub fn answer_for(&self, name: &str, answer: Answer) {
        self.state().answers.insert(name.to_lowercase(), answer);
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    /// The questions about this name so far.
    pub fn asked(&self, name: &str) -> Vec<Request> {
        let about = |request: &Request| request.value("username").is_some_and(|asked| asked.eq_ignore_ascii_case(name));
        self.state().requests.iter().filter(|request| about(request)).cloned().collect()
    }

    /// Waits until `wanted` holds for the requests.
    pub async fn until(&self, what: &str, wanted: impl Fn(&[Request]) -> bool) {
        let mut grown = self.shared.grown.subscribe();
        let waited = tokio::time::timeout(SOON, grown.wait_for(|_| wanted(&self.state().requests))).await;
        assert!(waited.is_ok(), "the session server did not get to {what}: {:?}", self.requests());
    }

    /// TCP connections taken so far.
    pub fn connections(&self) -> usize {
        self.state().connections
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Drop for SessionServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, request: Request) {
        let count = {
            let mut state = self.state();
            state.requests.push(request);
            state.requests.len()
        };
        self.grown.send_replace(count);
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, from)) = accepted else { continue };
                shared.state().connections += 1;
                connections.spawn(serve(stream, from, shared.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, from: SocketAddr, shared: Arc<Shared>) {
    use std::os::fd::AsFd as _;
    let Ok(socket) = stream.as_fd().try_clone_to_owned().map(Socket::from) else { return };
    let service = service_fn(|request| handle(request, from, &shared, &socket));
    // Its failures are what the tests want, or the other side's.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn handle(request: hyper::Request<Incoming>, from: SocketAddr, shared: &Shared, socket: &Socket) -> Result<Response, Hung> {
    let query = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
    let query: Vec<(String, String)> = query.map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
    let path = request.uri().path().to_owned();
    let asked = Request { path: path.clone(), query, from };
    shared.record(asked.clone());
    match (request.method(), path.as_str()) {
        (&Method::GET, "/session/minecraft/hasJoined") => {
            let answer = shared.state().next_answer(&asked);
            answer.give(&path, socket, || has_joined(&asked, &shared.state())).await
        }
        (&Method::POST, "/session/minecraft/join") => Ok(join(request, from, shared).await),
        (_, "/session/minecraft/hasJoined" | "/session/minecraft/join") => {
            Ok(answer::failed(StatusCode::METHOD_NOT_ALLOWED, &path, "Method Not Allowed", ""))
        }
        _ => Ok(answer::failed(StatusCode::NOT_FOUND, &path, "Not Found", "The server has not found anything matching the request URI")),
    }
}

impl State {
    fn next_answer(&mut self, asked: &Request) -> Answer {
        let name = asked.value("username").unwrap_or_default().to_lowercase();
        let answer = self.answers.get_mut(&name).unwrap_or(&mut self.answer);
        match answer {
            Answer::Once(first) => {
                let first = (**first).clone();
                *answer = Answer::Truth;
                first
            }
            other => other.clone(),
        }
    }
}

/// Mojang's rule: the account's session for this very server hash, told by that address if one is given, or no content.
fn has_joined(asked: &Request, state: &State) -> Response {
    let (Some(name), Some(server)) = (asked.value("username"), asked.value("serverId")) else {
        return answer::failed(StatusCode::BAD_REQUEST, &asked.path, "ConstraintViolationException", "a parameter is missing");
    };
    let told = state.joined.get(&(name.to_lowercase(), server.to_owned()));
    let account = state.accounts.iter().find(|account| account.name.eq_ignore_ascii_case(name));
    match (told, account) {
        (Some(told), Some(account)) if fits(*told, asked.value("ip")) => answer::json(StatusCode::OK, &account.profile()),
        _ => answer::empty(StatusCode::NO_CONTENT),
    }
}

fn fits(told: Option<IpAddr>, asked: Option<&str>) -> bool {
    match (told, asked) {
        (Some(told), Some(asked)) => asked.parse() == Ok(told),
        _ => true,
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Join {
    access_token: String,
    selected_profile: String,
    server_id: String,
}

async fn join(request: hyper::Request<Incoming>, from: SocketAddr, shared: &Shared) -> Response {
    let path = request.uri().path().to_owned();
    let Ok(body) = Limited::new(request.into_body(), 64 * 1024).collect().await else {
        return answer::failed(StatusCode::PAYLOAD_TOO_LARGE, &path, "Payload Too Large", "");
    };
    let Ok(join) = serde_json::from_slice::<Join>(&body.to_bytes()) else {
        return answer::failed(StatusCode::BAD_REQUEST, &path, "JsonParseException", "Unexpected input");
    };
    let mut state = shared.state();
    let account =
        state.accounts.iter().find(|account| account.access_token == join.access_token && account.undashed() == join.selected_profile);
    let Some(account) = account else {
        return answer::failed(StatusCode::FORBIDDEN, &path, "ForbiddenOperationException", "Invalid token");
    };
    let name = account.name.to_lowercase();
    state.joined.insert((name, join.server_id), Some(from.ip()));
    answer::empty(StatusCode::NO_CONTENT)
}

/// For an answer that never comes; ends with the connection.
async fn for_ever<T>() -> T {
    pending().await
}
