//! The connection to the control plane: how it is found, and what its errors mean to whoever typed the command.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use moonbridge_proto::connect;
use moonbridge_proto::tls::ClientTls;
use moonbridge_proto::token::{Bearer, bearer, read_token_file};
use moonbridge_proto::v1;
use moonbridge_proto::v1::admin_service_client::AdminServiceClient;
use moonbridge_proto::v1::permission_service_client::PermissionServiceClient;
use tokio::task::JoinSet;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::args::admin::ControlArgs;
use crate::failure::{Failure, Outcome};
use crate::state::{self, Found, UpFile};

/// The longest answer taken: a transfer of everybody on a backend answers with a command a player.
const MAX_ANSWER: usize = 64 << 20;

/// One replica's time to answer its first call, connecting included.
const ANSWER: Duration = Duration::from_secs(5);

/// How long a replica may be silent before the next is asked too.
const HEAD_START: Duration = Duration::from_secs(1);

/// A page of a list, and the token of the next (empty: there is none).
pub(crate) type Page<T> = (Vec<T>, String);

/// How many rows a page has.
pub(crate) const PAGE: u32 = 500;

/// The admin calls, with the token in each.
pub(crate) type Admin = AdminServiceClient<InterceptedService<Channel, Bearer>>;

/// The calls about permissions, with the token in each.
pub(crate) type Permissions = PermissionServiceClient<InterceptedService<Channel, Bearer>>;

/// The calls, all over one connection to one replica.
pub(crate) struct Clients {
    pub(crate) admin: Admin,
    pub(crate) permissions: Permissions,
}

/// Where the control plane is and how to speak to it.
#[derive(Debug)]
pub(crate) struct Control {
    endpoints: Vec<(String, Endpoint)>,
    bearer: Bearer,
    /// What to say when none of them answers.
    advice: String,
}

impl Control {
    /// From the arguments, else from the environment, else from the `up` that runs here.
    pub(crate) fn find(args: &ControlArgs) -> Outcome<Self> {
        let args = &args.or_environment(|name| env::var_os(name));
        let ups = state::directory().map_or_else(Vec::new, |directory| state::find_ups(&directory));
        let (urls, found_token, advice) = if args.control.is_empty() {
            let (up, advice) = the_only(ups)?;
            (vec![up.control], Some(up.token_file), advice)
        } else {
            // A token goes only to the control plane it is of.
            let of = |up: &UpFile| args.control.iter().all(|url| url.trim_end_matches('/') == up.control);
            let token = ups.into_iter().filter(|found| found.alive).map(|found| found.up).find(of);
            (args.control.clone(), token.map(|up| up.token_file), "check that it runs there, or give another with --control".to_owned())
        };
        let tls = client_tls(args);
        let mut endpoints = Vec::new();
        for url in urls {
            let endpoint = connect::channel(&url, tls.as_ref(), args.allow_insecure_control)
                .map_err(|error| Failure::usage(format!("--control: {error}{}", hint(&error))))?;
            endpoints.push((url, endpoint));
        }
        let token = match (&args.token_file, found_token) {
            (Some(path), _) => Some(read_token_file(path).map_err(|error| Failure::usage(format!("--token-file: {error}")))?),
            (None, Some(path)) => found(path, args.control.is_empty(), &advice)?,
            (None, None) => None,
        };
        let bearer = token.map_or_else(Bearer::default, |token| bearer(&token));
        Ok(Control { endpoints, bearer, advice })
    }

    /// A control plane at this URL of this process's own, for `up`.
    pub(crate) fn own(url: String, token: &str) -> Outcome<Self> {
        let endpoint = connect::channel(&url, None, false).map_err(|error| Failure::failed(error.to_string()))?;
        Ok(Control { endpoints: vec![(url, endpoint)], bearer: bearer(token), advice: String::new() })
    }

    /// Connects to the first replica that answers a call. They are asked in order: the next when one fails, or too when one is
    /// silent for a second, since a connection that is taken says nothing about the process behind it.
    pub(crate) async fn connect(&self) -> Outcome<Clients> {
        let mut asked = JoinSet::new();
        let mut reasons = vec![None; self.endpoints.len()];
        let mut waiting = self.endpoints.iter().enumerate();
        loop {
            let next = waiting.next();
            if let Some((index, (url, endpoint))) = next {
                let (url, endpoint, bearer) = (url.clone(), endpoint.clone(), self.bearer.clone());
                asked.spawn(async move { (index, ask(&url, endpoint, bearer).await) });
            }
            let answer = match next.is_some() && waiting.len() > 0 {
                true => match tokio::time::timeout(HEAD_START, asked.join_next()).await {
                    Ok(answer) => answer,
                    Err(_) => continue,
                },
                false => asked.join_next().await,
            };
            match answer {
                Some(Ok((_, Ok(clients)))) => return Ok(clients),
                Some(Ok((index, Err(reason)))) => reasons[index] = Some(reason),
                // A task that panicked has no reason to tell.
                Some(Err(_)) => {}
                None if waiting.len() == 0 => break,
                None => {}
            }
        }
        let tried = self.endpoints.iter().zip(reasons).map(|((url, _), reason)| match reason {
            Some(reason) => format!("{url} ({reason})"),
            None => url.clone(),
        });
        let tried = tried.collect::<Vec<_>>().join(", ");
        Err(Failure::unreachable(format!("the control plane is unreachable: tried {tried}; {}", self.advice)))
    }
}

/// Makes the cheapest call there is. A refusal is an answer too; a replica that cannot answer (its store is away) is none.
async fn ask(url: &str, endpoint: Endpoint, bearer: Bearer) -> Result<Clients, String> {
    let with_tls = |reason: String| match url.starts_with("https:") {
        true => format!("{reason}; check --control-ca, --control-cert and --control-key"),
        false => reason,
    };
    let mut connected = false;
    let asked = async {
        let channel = endpoint.connect().await.map_err(|error| with_tls(innermost(&error)))?;
        connected = true;
        let permissions = PermissionServiceClient::with_interceptor(channel.clone(), bearer.clone()).max_decoding_message_size(MAX_ANSWER);
        let mut admin = AdminServiceClient::with_interceptor(channel, bearer).max_decoding_message_size(MAX_ANSWER);
        match admin.get_settings(v1::GetSettingsRequest {}).await {
            // Made by the transport, not by the control plane. With TLS 1.3 a server refuses a client's certificate only after
            // the client has taken the connection for made.
            Err(status) if std::error::Error::source(&status).is_some() => Err(with_tls(innermost(&status))),
            Err(status) if matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled) => {
                Err(format!("cannot answer now: {}", text(&status)))
            }
            Ok(_) | Err(_) => Ok(Clients { admin, permissions }),
        }
    };
    let answer = tokio::time::timeout(ANSWER, asked).await;
    answer.unwrap_or_else(|_| {
        let what = if connected { "connected, but no answer" } else { "no answer" };
        Err(format!("{what} in {} s", ANSWER.as_secs()))
    })
}

impl ControlArgs {
    /// The same with what the environment adds where no argument says it; an empty variable is as none. clap could read them
    /// itself, but then takes them for arguments that were typed: in its usage lines, and when they are empty.
    fn or_environment(&self, variable: impl Fn(&str) -> Option<OsString>) -> ControlArgs {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let words = |name: &str| given(name).map(|value| value.to_string_lossy().into_owned());
        let file = |argument: &Option<PathBuf>, name: &str| argument.clone().or_else(|| given(name).map(PathBuf::from));
        let urls = |text: String| text.split(',').map(str::trim).filter(|url| !url.is_empty()).map(str::to_owned).collect();
        ControlArgs {
            control: match self.control.iter().any(|url| !url.is_empty()) {
                true => self.control.clone(),
                false => words("MOONBRIDGE_CONTROL").map_or_else(Vec::new, urls),
            },
            token_file: file(&self.token_file, "MOONBRIDGE_TOKEN_FILE"),
            control_ca: file(&self.control_ca, "MOONBRIDGE_CONTROL_CA"),
            control_cert: file(&self.control_cert, "MOONBRIDGE_CONTROL_CERT"),
            control_key: file(&self.control_key, "MOONBRIDGE_CONTROL_KEY"),
            control_domain: self.control_domain.clone().or_else(|| words("MOONBRIDGE_CONTROL_DOMAIN")),
            allow_insecure_control: self.allow_insecure_control,
        }
    }
}

const NOWHERE: &str = "no control plane given and no `moonbridge up` runs here: start one with `moonbridge up`, or give --control URL (or MOONBRIDGE_CONTROL) and --token-file F (or MOONBRIDGE_TOKEN_FILE)";

/// The one `up` that runs here, and what to do when it does not answer. One that was killed leaves its file behind, which is
/// worth naming if it is all there is.
fn the_only(ups: Vec<Found>) -> Outcome<(UpFile, String)> {
    let (mut alive, mut dead): (Vec<Found>, Vec<Found>) = ups.into_iter().partition(|found| found.alive);
    if alive.len() > 1 {
        let list: Vec<String> = alive.iter().map(|Found { up, .. }| format!("\n  --control {} (process {})", up.control, up.pid)).collect();
        return Err(Failure::usage(format!(
            "several `moonbridge up` run here: say which is meant (its token is found)\n{}",
            list.concat().trim_start_matches('\n')
        )));
    }
    if let Some(Found { path, up, .. }) = alive.pop() {
        let advice = format!(
            "{} says that `moonbridge up` (process {}) serves it: look at its log, or give another with --control",
            path.display(),
            up.pid
        );
        return Ok((up, advice));
    }
    let Some(Found { path, up, .. }) = dead.pop() else { return Err(Failure::unreachable(NOWHERE)) };
    Err(Failure::unreachable(format!(
        "no control plane at {}: {} is left over from a `moonbridge up` (process {}) that has ended: start it again, or give --control URL",
        up.control,
        path.display(),
        up.pid
    )))
}

/// The token beside a local `up`. With its own URL it must be there: without it, every call would be refused.
fn found(path: PathBuf, needed: bool, advice: &str) -> Outcome<Option<String>> {
    match read_token_file(&path) {
        Ok(token) => Ok(Some(token)),
        Err(error) if needed => Err(Failure::unreachable(format!("{error}; {advice}"))),
        Err(_) => Ok(None),
    }
}

fn client_tls(args: &ControlArgs) -> Option<ClientTls> {
    let tls = ClientTls {
        ca: args.control_ca.clone(),
        cert: args.control_cert.clone(),
        key: args.control_key.clone(),
        domain: args.control_domain.clone(),
    };
    (tls != ClientTls::default()).then_some(tls)
}

/// The options' names, where the error speaks of the configuration's.
fn hint(error: &connect::ConnectError) -> &'static str {
    match error {
        connect::ConnectError::Url(_) => "",
        connect::ConnectError::Plaintext(_) => " (options: --control-ca FILE, --allow-insecure-control)",
        connect::ConnectError::NoTls(_) | connect::ConnectError::Tls { .. } => {
            " (options: --control-ca FILE, --control-cert FILE, --control-key FILE, --control-domain NAME)"
        }
    }
}

/// The cause at the bottom of an error: tonic's own text is only "transport error".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// What a status says.
fn text(status: &Status) -> &str {
    match status.message() {
        "" => status.code().description(),
        message => message,
    }
}

/// What a refused call means to whoever typed the command.
pub(crate) fn refused(status: Status) -> Failure {
    let message = text(&status);
    // Made by the transport, not by the control plane.
    if let Some(cause) = std::error::Error::source(&status) {
        return Failure::unreachable(format!("the connection to the control plane failed: {}; try again", innermost(cause)));
    }
    match status.code() {
        Code::Unavailable => Failure::unreachable(format!(
            "the control plane cannot answer now: {message}; try again, or try another replica with --control"
        )),
        // Ours says itself which option to give.
        Code::Unauthenticated if message.contains("--token-file") => {
            Failure::failed(format!("the control plane refused the call: {message}"))
        }
        Code::Unauthenticated => {
            Failure::failed(format!("the control plane refused the call: {message} (give the token with --token-file F)"))
        }
        Code::PermissionDenied => Failure::failed(format!("not allowed: {message}")),
        Code::Aborted => Failure::failed(format!("somebody else changed it at the same time: {message}; try again")),
        Code::DeadlineExceeded | Code::Cancelled => {
            Failure::unreachable(format!("the control plane did not answer in time: {message}; try again"))
        }
        Code::Unimplemented => Failure::failed(format!("the control plane does not know this call: {message}; is it of another version?")),
        _ => Failure::failed(message.to_owned()),
    }
}

/// Everything of a list, page by page; begun anew when the store no longer has the revision of the first page.
pub(crate) async fn pages<T>(mut fetch: impl AsyncFnMut(String) -> Result<Page<T>, Status>) -> Outcome<Vec<T>> {
    let mut tries = 0;
    loop {
        match all_pages(&mut fetch).await {
            Ok(all) => return Ok(all),
            Err(status) if status.code() == Code::Aborted && tries < 3 => tries += 1,
            Err(status) => return Err(refused(status)),
        }
    }
}

async fn all_pages<T>(fetch: &mut impl AsyncFnMut(String) -> Result<Page<T>, Status>) -> Result<Vec<T>, Status> {
    let mut all = Vec::new();
    let mut token = String::new();
    loop {
        let (page, next) = fetch(token.clone()).await?;
        all.extend(page);
        if next.is_empty() {
            return Ok(all);
        }
        if next == token {
            return Err(Status::internal("the control plane sent the same page token twice"));
        }
        token = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_pages_are_fetched_and_begun_anew_when_aborted() {
        let mut calls = Vec::new();
        let all = pages(async |token: String| {
            calls.push(token.clone());
            match (calls.len(), token.as_str()) {
                (2, _) => Err(Status::aborted("compacted")),
                (_, "") => Ok((vec![1, 2], "next".to_owned())),
                _ => Ok((vec![3], String::new())),
            }
        })
        .await
        .unwrap();
        assert_eq!(all, [1, 2, 3]);
        assert_eq!(calls, ["", "next", "", "next"]);
    }

    #[test]
    fn codes_of_refusals() {
        assert_eq!(refused(Status::unavailable("store away")).code, 3);
        assert_eq!(refused(Status::not_found("no backend x")).code, 1);
        for told in ["no token", "a token is missing: give it with --token-file FILE"] {
            assert_eq!(refused(Status::unauthenticated(told)).message.matches("--token-file").count(), 1, "{told}");
        }
    }

    #[test]
    fn arguments_come_before_the_environment_and_empty_is_none() {
        let args = |control: &[&str]| ControlArgs {
            control: control.iter().map(|url| (*url).to_owned()).collect(),
            token_file: Some("/argument".into()),
            control_ca: None,
            control_cert: None,
            control_key: None,
            control_domain: None,
            allow_insecure_control: false,
        };
        let with = |name: &str| match name {
            "MOONBRIDGE_CONTROL" => Some("http://a:1,http://b:2".into()),
            "MOONBRIDGE_TOKEN_FILE" => Some("/environment".into()),
            "MOONBRIDGE_CONTROL_CA" => Some(OsString::new()),
            _ => None,
        };
        let found = args(&[]).or_environment(with);
        assert_eq!(found.control, ["http://a:1", "http://b:2"]);
        assert_eq!((found.token_file, found.control_ca), (Some("/argument".into()), None));
        assert_eq!(args(&["http://c:3"]).or_environment(with).control, ["http://c:3"]);
        assert!(args(&[]).or_environment(|_| Some(OsString::new())).control.is_empty());
    }
}
