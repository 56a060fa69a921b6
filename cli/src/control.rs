//! The connection to the control plane: how it is found, and what its errors mean to whoever typed the command.

use std::path::PathBuf;
use std::time::Duration;

use moonbridge_proto::connect;
use moonbridge_proto::tls::ClientTls;
use moonbridge_proto::token::{Bearer, bearer, read_token_file};
use moonbridge_proto::v1::admin_service_client::AdminServiceClient;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::args::admin::ControlArgs;
use crate::failure::{Failure, Outcome};
use crate::state;

/// The longest answer taken: a transfer of everybody on a backend answers with a command a player.
const MAX_ANSWER: usize = 64 << 20;

/// One replica's time to answer the connection.
const CONNECT: Duration = Duration::from_secs(5);

/// A page of a list, and the token of the next (empty: there is none).
pub(crate) type Page<T> = (Vec<T>, String);

/// How many rows a page has.
pub(crate) const PAGE: u32 = 500;

/// The admin calls, with the token in each.
pub(crate) type Admin = AdminServiceClient<InterceptedService<Channel, Bearer>>;

/// Where the control plane is and how to speak to it.
#[derive(Debug)]
pub(crate) struct Control {
    endpoints: Vec<(String, Endpoint)>,
    bearer: Bearer,
    /// What to say when none of them answers.
    advice: String,
}

impl Control {
    /// From the arguments, or else from the `up` that runs here.
    pub(crate) fn find(args: &ControlArgs) -> Outcome<Self> {
        let up = state::directory().and_then(|directory| state::read_up_file(&directory).transpose()).transpose();
        let (urls, found_token, advice) = if args.control.is_empty() {
            match up.map_err(Failure::failed)? {
                Some(up) => {
                    let advice = stale_advice(up.pid);
                    (vec![up.control], Some(up.token_file), advice)
                }
                None => return Err(Failure::unreachable(NOWHERE)),
            }
        } else {
            // A token goes only to the control plane it is of.
            let token = up.ok().flatten().filter(|up| args.control.iter().all(|url| url.trim_end_matches('/') == up.control));
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

    /// Connects to the first replica that answers.
    pub(crate) async fn connect(&self) -> Outcome<Admin> {
        let mut tried = Vec::new();
        for (url, endpoint) in &self.endpoints {
            let error = match tokio::time::timeout(CONNECT, endpoint.connect()).await {
                Ok(Ok(channel)) => {
                    let client = AdminServiceClient::with_interceptor(channel, self.bearer.clone());
                    return Ok(client.max_decoding_message_size(MAX_ANSWER));
                }
                Ok(Err(error)) => innermost(&error),
                Err(_) => format!("no answer in {} s", CONNECT.as_secs()),
            };
            tried.push(format!("{url} ({error})"));
        }
        Err(Failure::unreachable(format!("the control plane is unreachable: tried {}; {}", tried.join(", "), self.advice)))
    }
}

const NOWHERE: &str = "no control plane given and no `moonbridge up` runs here: start one with `moonbridge up`, or give --control URL (or MOONBRIDGE_CONTROL) and --token-file F (or MOONBRIDGE_TOKEN_FILE)";

/// What to do when the `up` named in up.json does not answer.
fn stale_advice(pid: u32) -> String {
    let file = state::directory().map_or_else(|| "up.json".to_owned(), |directory| directory.join("up.json").display().to_string());
    if state::is_alive(pid) {
        format!("{file} says that `moonbridge up` (process {pid}) serves it: look at its log, or give another with --control")
    } else {
        format!("{file} is left over from a `moonbridge up` (process {pid}) that has ended: start it again, or give --control URL")
    }
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

/// What a refused call means to whoever typed the command.
pub(crate) fn refused(status: Status) -> Failure {
    let message = match status.message() {
        "" => status.code().description(),
        message => message,
    };
    // Made by the transport, not by the control plane. With TLS 1.3 a server refuses a client's certificate only after the
    // client has taken the connection for made.
    if let Some(cause) = std::error::Error::source(&status) {
        return Failure::unreachable(format!(
            "the connection to the control plane failed: {}; with TLS, check --control-ca, --control-cert and --control-key",
            innermost(cause)
        ));
    }
    match status.code() {
        Code::Unavailable => Failure::unreachable(format!(
            "the control plane cannot answer now: {message}; try again, or try another replica with --control"
        )),
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
        assert!(refused(Status::unauthenticated("no token")).message.contains("--token-file"));
    }
}
