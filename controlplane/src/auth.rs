//! Who may call: every call shows a token, where one is configured, and its role must allow the call ([`roles`]).
//!
//! The token of the replica's own configuration is an admin's; the others are in the store ([`crate::tokens`]). A stored token that is
//! revoked or expires ends the streams that are open with it, too.

mod open;
pub(crate) mod roles;

use std::convert::Infallible;
use std::sync::Arc;

use moonbridge_proto::v1::Role;
use subtle::ConstantTimeEq;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::codegen::{BoxFuture, Context, Poll, Service};
use tonic::server::NamedService;

use self::open::WhileHeld;
use crate::tokens::{Holder, Tokens};

/// Who calls, as the audit names it, and what it may do. Every request that reaches a service has one among its extensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) name: Arc<str>,
    pub(crate) role: Role,
}

/// The names of callers that no stored token may have.
pub(crate) const RESERVED: [&str; 3] = [CONFIGURED, ANYONE, CONFIGURATION];
/// Whoever has the token of the replica's configuration.
const CONFIGURED: &str = "configured";
/// Whoever calls a replica that asks for no token.
const ANYONE: &str = "anyone";
/// The replica itself, which enters what its configuration says.
const CONFIGURATION: &str = "configuration";

impl Caller {
    fn admin(name: &str) -> Self {
        Self { name: name.into(), role: Role::Admin }
    }

    /// Whether this is a replica that asks nobody for a token.
    pub(crate) fn is_anyone(&self) -> bool {
        // No stored token has this name.
        &*self.name == ANYONE
    }

    /// The replica itself, at its start.
    pub(crate) fn configuration() -> Self {
        Self::admin(CONFIGURATION)
    }
}

/// Who sent this request.
pub(crate) fn caller<T>(request: &tonic::Request<T>) -> Caller {
    let caller = request.extensions().get::<Caller>();
    // None comes by without one; if it did, it should be able to do nothing in anybody's name.
    caller.cloned().unwrap_or_else(|| Caller { name: "unknown".into(), role: Role::Unspecified })
}

/// Who sent a request, and whether it still may: what takes long asks again before it changes anything.
pub(crate) struct Access {
    pub(crate) caller: Caller,
    /// Of a token of the store.
    holder: Option<Holder>,
}

impl Access {
    pub(crate) fn of<T>(request: &tonic::Request<T>) -> Self {
        Self { caller: caller(request), holder: request.extensions().get().cloned() }
    }

    /// # Errors
    /// If the token was revoked or has expired meanwhile.
    pub(crate) fn still_holds(&self) -> Result<(), Status> {
        self.holder.as_ref().and_then(Holder::refusal).map_or(Ok(()), Err)
    }
}

/// Lets calls pass that show a token whose role allows them; all, if no token is configured.
#[derive(Clone)]
pub(crate) struct Auth {
    configured: Option<Arc<str>>,
    tokens: Arc<Tokens>,
}

impl Auth {
    pub(crate) fn new(configured: Option<Arc<str>>, tokens: Arc<Tokens>) -> Self {
        Self { configured, tokens }
    }

    /// Who calls, and, with a token of the store, its holder.
    fn admit(&self, path: &str, headers: &HeaderMap) -> Result<(Caller, Option<Holder>), Status> {
        let (caller, holder) = self.identify(headers)?;
        let Some(needed) = roles::needed(path) else {
            return Err(Status::unimplemented(format!("this control plane knows no call {path}")));
        };
        if caller.role < needed {
            let (name, has, needed) = (&caller.name, roles::name(caller.role), roles::name(needed));
            return Err(Status::permission_denied(format!(
                "the token {name} has the role {has}, and this call needs {needed}: ask an admin for another (`moonbridge token create`)"
            )));
        }
        Ok((caller, holder))
    }

    fn identify(&self, headers: &HeaderMap) -> Result<(Caller, Option<Holder>), Status> {
        let Some(configured) = &self.configured else { return Ok((Caller::admin(ANYONE), None)) };
        let Some(given) = headers.get("authorization") else {
            return Err(Status::unauthenticated(
                "this control plane asks for a token: give it with --token-file FILE or MOONBRIDGE_TOKEN_FILE (nodes: token_file)",
            ));
        };
        let given = given.as_bytes();
        let given = match given.get(..7) {
            Some(scheme) if scheme.eq_ignore_ascii_case(b"bearer ") => &given[7..],
            _ => return Err(Status::unauthenticated("authorization: expected \"Bearer TOKEN\"")),
        };
        if bool::from(given.ct_eq(configured.as_bytes())) {
            return Ok((Caller::admin(CONFIGURED), None));
        }
        let Some(holder) = self.tokens.holder(given) else {
            return Err(Status::unauthenticated(
                "the token is none of this control plane's, or was revoked: check --token-file or MOONBRIDGE_TOKEN_FILE (nodes: token_file)",
            ));
        };
        match holder.refusal() {
            Some(refusal) => Err(refusal),
            None => Ok((holder.caller().clone(), Some(holder))),
        }
    }
}

/// A service whose every call passes [`Auth`] first. An interceptor would not do: it does not see which call it is.
#[derive(Clone)]
pub(crate) struct Guarded<S> {
    service: S,
    auth: Auth,
}

impl<S> Guarded<S> {
    pub(crate) fn new(service: S, auth: Auth) -> Self {
        Self { service, auth }
    }
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        match self.auth.admit(request.uri().path(), request.headers()) {
            Ok((caller, holder)) => {
                request.extensions_mut().insert(caller);
                holder.clone().map(|holder| request.extensions_mut().insert(holder));
                let answer = self.service.call(request);
                Box::pin(async move {
                    let answer = answer.await?;
                    Ok(match holder {
                        Some(holder) => answer.map(|body| Body::new(WhileHeld::new(body, holder))),
                        None => answer,
                    })
                })
            }
            Err(refusal) => Box::pin(std::future::ready(Ok(refusal.into_http()))),
        }
    }
}

#[cfg(test)]
mod tests;
