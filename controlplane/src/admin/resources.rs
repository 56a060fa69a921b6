//! Backends, routes and settings.

use moonbridge_permissions::Answer;
use moonbridge_proto::routing::normalise_host;
use moonbridge_proto::snapshot::{Backend, Route, Settings};
use moonbridge_proto::v1;
use tonic::Status;

use super::page::page;
use crate::auth::Caller;
use crate::keys;
use crate::permissions::ask;
use crate::replica::Replica;
use crate::resources::{self, invalid};

pub(super) async fn list_backends(replica: &Replica, request: v1::ListBackendsRequest) -> Result<v1::ListBackendsResponse, Status> {
    let at = (request.page_size, request.page_token.as_str());
    let (backends, next_page_token) = page::<v1::Backend>(&*replica.store, keys::BACKENDS, at, |_| true).await?;
    let backends = backends.into_iter().map(|backend| {
        let players = replica.presence.players_on(&backend.name);
        v1::BackendStatus { backend: Some(without_token(backend)), players }
    });
    Ok(v1::ListBackendsResponse { backends: backends.collect(), next_page_token })
}

pub(super) async fn set_backend(replica: &Replica, caller: &Caller, request: v1::SetBackendRequest) -> Result<v1::Backend, Status> {
    let raw = request.backend.ok_or_else(|| missing("backend"))?;
    let backend = resources::set_backend(replica, caller, &raw, request.keep_drained).await?;
    tracing::info!(by = %caller.name, backend = backend.name, address = backend.address, "backend set");
    Ok(without_token(backend))
}

pub(super) async fn remove_backend(
    replica: &Replica,
    caller: &Caller,
    request: v1::RemoveBackendRequest,
) -> Result<v1::RemoveBackendResponse, Status> {
    resources::remove_backend(replica, caller, &request.name, request.force).await?;
    tracing::info!(by = %caller.name, backend = request.name, force = request.force, "backend removed");
    Ok(v1::RemoveBackendResponse {})
}

pub(super) async fn drain_backend(replica: &Replica, caller: &Caller, request: v1::DrainBackendRequest) -> Result<v1::Backend, Status> {
    let backend = resources::drain_backend(replica, caller, &request.name, request.drained).await?;
    tracing::info!(by = %caller.name, backend = backend.name, drained = backend.drained, "backend drained or undrained");
    Ok(without_token(backend))
}

pub(super) async fn set_plugin_channel(
    replica: &Replica,
    caller: &Caller,
    request: v1::SetPluginChannelRequest,
) -> Result<v1::Backend, Status> {
    let backend = resources::set_plugin_channel(replica, caller, &request.name, request.off).await?;
    tracing::info!(by = %caller.name, backend = backend.name, off = backend.plugin_channel_off, "plugin channel switched");
    Ok(without_token(backend))
}

pub(super) async fn restrict_backend(
    replica: &Replica,
    caller: &Caller,
    request: v1::RestrictBackendRequest,
) -> Result<v1::Backend, Status> {
    let backend = resources::restrict_backend(replica, caller, &request.name, request.restricted).await?;
    tracing::info!(by = %caller.name, backend = backend.name, restricted = backend.restricted, "backend restricted or unrestricted");
    Ok(without_token(backend))
}

pub(super) async fn list_routes(replica: &Replica, request: v1::ListRoutesRequest) -> Result<v1::ListRoutesResponse, Status> {
    let at = (request.page_size, request.page_token.as_str());
    let (routes, next_page_token) = page(&*replica.store, keys::ROUTES, at, |_| true).await?;
    Ok(v1::ListRoutesResponse { routes, next_page_token })
}

pub(super) async fn set_route(replica: &Replica, caller: &Caller, request: v1::SetRouteRequest) -> Result<v1::Route, Status> {
    let raw = request.route.ok_or_else(|| missing("route"))?;
    if names_port(&raw.host) {
        let problem = format!("route.host: expected a host name without a port, got {:?}: players are routed by the name alone", raw.host);
        return Err(Status::invalid_argument(problem));
    }
    let route = Route::try_from(raw).map_err(|mistakes| invalid("route", mistakes))?;
    let route = resources::set_route(replica, caller, &route).await?;
    tracing::info!(by = %caller.name, host = route.host, backends = route.backends.join(","), "route set");
    Ok(route)
}

pub(super) async fn remove_route(
    replica: &Replica,
    caller: &Caller,
    request: v1::RemoveRouteRequest,
) -> Result<v1::RemoveRouteResponse, Status> {
    let host = normalise_host(&request.host);
    resources::remove_route(replica, caller, &host).await?;
    tracing::info!(by = %caller.name, host, "route removed");
    Ok(v1::RemoveRouteResponse {})
}

/// Decided on what the store has now, not on what this replica's nodes were sent last; restricted backends as at a login of the player.
pub(super) async fn test_route(replica: &Replica, request: v1::TestRouteRequest) -> Result<v1::TestRouteResponse, Status> {
    let permissions = match request.player.as_str() {
        "" => None,
        player => Some(ask::at_login(replica, player).await?),
    };
    let may_enter = |backend: &Backend| permissions.as_ref().is_some_and(|own| own.check(&backend.permission()) == Answer::True);
    let snapshot = resources::read(&*replica.store).await?;
    Ok((&snapshot.route(&request.host, may_enter)).into())
}

pub(super) async fn set_settings(replica: &Replica, caller: &Caller, request: v1::SetSettingsRequest) -> Result<v1::Settings, Status> {
    let raw = request.settings.ok_or_else(|| missing("settings"))?;
    let settings = Settings::try_from(raw).map_err(|mistakes| invalid("settings", mistakes))?;
    let settings = v1::Settings::from(&settings);
    let settings = resources::change_settings(replica, caller, |current| current.clone_from(&settings)).await?;
    tracing::info!(by = %caller.name, max_players = settings.max_players, "settings set");
    Ok(settings)
}

/// A backend as answers show it: that it has a token is said by its forwarding.
fn without_token(backend: v1::Backend) -> v1::Backend {
    v1::Backend { forwarding_token: String::new(), ..backend }
}

/// Whether a host has a port behind it, which routes would cut off in silence.
fn names_port(host: &str) -> bool {
    match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').is_some_and(|(_, port)| !port.is_empty()),
        // Several colons are an IPv6 address.
        None => host.matches(':').count() == 1,
    }
}

fn missing(field: &str) -> Status {
    Status::invalid_argument(format!("{field}: missing"))
}
