//! Asking the session server whether a login is an account's own.

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::header::{ACCEPT, USER_AGENT};
use hyper::{Request, StatusCode, Uri};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use rustls::crypto::ring;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::profile::Profile;
use super::refusal::Refusal;
use crate::config::{self, HAS_JOINED};
use crate::timer::{sleep, timeout_at};

/// One connect, TLS included: an address that does not answer leaves time for a second try.
const CONNECT: Duration = Duration::from_secs(3);

/// The longest answer that is read; Mojang's have about 2 KiB.
const MAX_ANSWER: usize = 64 * 1024;

/// The longest head of an answer.
const MAX_HEAD: usize = 16 * 1024;

/// How long a connection that nobody uses is kept.
const IDLE: Duration = Duration::from_secs(60);

/// Milliseconds between the two tries: not at once, and not everybody at the same moment.
const PAUSE: std::ops::Range<u64> = 100..300;

/// The longest description of why a connection failed.
const MAX_WHY: usize = 200;

type Connector = TimeoutConnector<HttpsConnector<HttpConnector>>;

/// A client of the session server. No proxy, no redirects, no cookies, HTTP/1.1.
pub(super) struct Client {
    http: legacy::Client<Connector, Empty<Bytes>>,
    /// Requests at a time.
    places: Semaphore,
    url: String,
    timeout: Duration,
    send_client_address: bool,
}

impl Client {
    pub(super) fn new(config: &config::SessionServer) -> Result<Client, rustls::Error> {
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let tls = tls.with_safe_default_protocol_versions()?.with_webpki_roots().with_no_client_auth();
        Ok(Client::trusting(config, tls))
    }

    /// With whatever authorities `tls` trusts.
    pub(super) fn trusting(config: &config::SessionServer, tls: ClientConfig) -> Client {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let tls = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
        let mut connector = TimeoutConnector::new(tls.wrap_connector(tcp));
        connector.set_connect_timeout(Some(CONNECT));
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(config.concurrency)
            .http1_max_buf_size(MAX_HEAD)
            .build(connector);
        Client {
            http,
            places: Semaphore::new(config.concurrency),
            url: format!("{}{HAS_JOINED}", config.url.as_str()),
            timeout: config.timeout,
            send_client_address: config.send_client_address,
        }
    }

    /// Asks whether the account of this name has joined the server with this hash, and whose it is.
    ///
    /// The question changes nothing, so that it may be asked again; but only where that may help, and only once.
    pub(super) async fn has_joined(&self, name: &str, hash: &str, address: IpAddr, deadline: Instant) -> Result<Profile, Refusal> {
        let began = Instant::now();
        let asking = async {
            let uri = self.question(name, hash, address).ok_or_else(|| Refusal::Unreachable("its URL cannot be used".to_owned()))?;
            let gone = || Refusal::Unreachable("the node ends".to_owned());
            let _place = self.places.acquire().await.map_err(|_| gone())?;
            match self.ask(&uri, name).await {
                Err(refusal) if refusal.may_pass() => {
                    sleep(Duration::from_millis(fastrand::u64(PAUSE))).await;
                    self.ask(&uri, name).await
                }
                answered => answered,
            }
        };
        let deadline = deadline.min(began + self.timeout);
        timeout_at(deadline, asking).await.unwrap_or_else(|_| Err(Refusal::Slow(began.elapsed())))
    }

    fn question(&self, name: &str, hash: &str, address: IpAddr) -> Option<Uri> {
        let mut question = format!("{}?username={name}&serverId={hash}", self.url);
        if self.send_client_address {
            question.push_str("&ip=");
            // An address as such has no scope id.
            question.push_str(&address.to_canonical().to_string().replace(':', "%3A"));
        }
        question.parse().ok()
    }

    async fn ask(&self, uri: &Uri, name: &str) -> Result<Profile, Refusal> {
        let request = Request::get(uri)
            .header(USER_AGENT, concat!("MoonBridge/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, "application/json")
            .body(Empty::new())
            .map_err(|error| Refusal::Unreachable(why(&error)))?;
        let answer = self.http.request(request).await.map_err(|error| Refusal::Unreachable(why(&error)))?;
        match answer.status() {
            StatusCode::OK => {}
            status @ (StatusCode::NO_CONTENT | StatusCode::FORBIDDEN) => return Err(Refusal::NotAuthenticated(status)),
            status @ StatusCode::TOO_MANY_REQUESTS => return Err(Refusal::Busy(status)),
            status => return Err(Refusal::Failed(status)),
        }
        let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() { Refusal::TooLong(MAX_ANSWER) } else { Refusal::Unreachable(why(&*error)) }
        })?;
        let body = body.to_bytes();
        if body.is_empty() {
            // Servers of old, and some of today that are not Mojang's, say no like this.
            return Err(Refusal::NotAuthenticated(StatusCode::OK));
        }
        Profile::read(&body, name)
    }
}

/// An error with what caused it; none of it comes from the other side.
fn why(error: &dyn Error) -> String {
    let mut why = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !why.ends_with(&text) {
            why = format!("{why}: {text}");
        }
        cause = error.source();
    }
    why.chars().take(MAX_WHY).collect()
}
