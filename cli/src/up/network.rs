//! What `up` enters into the store: the backends it was given, and the route to them.

use std::net::SocketAddr;

use moonbridge_proto::v1;

use crate::admin::route;
use crate::args::UpArgs;
use crate::control::{Admin, Control, refused};
use crate::failure::Outcome;

/// The host of the route that matches all.
const ANY: &str = "*";

/// What there is, once entered.
pub(super) struct Network {
    /// Name and address of each backend that this `up` added or updated.
    pub(super) backends: Vec<(String, String)>,
    /// The backends of the route `*`, in order.
    pub(super) route: Vec<String>,
}

/// Adds or updates the given backends, real ones first, and lets the route `*` list them. Without any, all stays as it is.
/// `told` is how the real ones are told who the player is.
pub(super) async fn enter(control: &Control, args: &UpArgs, told: &v1::Backend, limbos: &[(String, SocketAddr)]) -> Outcome<Network> {
    let mut admin = control.connect().await?.admin;
    let real = args.backends.iter().map(|given| v1::Backend { name: given.name.clone(), address: given.address.clone(), ..told.clone() });
    let limbos =
        limbos.iter().map(|(name, address)| v1::Backend { name: name.clone(), address: address.to_string(), ..v1::Backend::default() });
    let mut backends: Vec<(String, String)> = Vec::new();
    for backend in real.chain(limbos) {
        let entry = (backend.name.clone(), backend.address.clone());
        let request = v1::SetBackendRequest { backend: Some(backend), keep_drained: true };
        admin.set_backend(request).await.map_err(refused)?;
        // Given twice, the last address counts and the first place stays.
        match backends.iter_mut().find(|known| known.0 == entry.0) {
            Some(known) => *known = entry,
            None => backends.push(entry),
        }
    }
    let route = lead(&mut admin, &backends).await?;
    Ok(Network { backends, route })
}

async fn lead(admin: &mut Admin, backends: &[(String, String)]) -> Outcome<Vec<String>> {
    let known = route::all(admin).await?.into_iter().find(|route| route.host == ANY);
    if backends.is_empty() {
        return Ok(known.map_or_else(Vec::new, |route| route.backends));
    }
    let names: Vec<String> = backends.iter().map(|(name, _)| name.clone()).collect();
    let on_kick = known.map_or(v1::OnKick::Fallback.into(), |route| route.on_kick);
    let route = v1::Route { host: ANY.to_owned(), backends: names.clone(), on_kick };
    admin.set_route(v1::SetRouteRequest { route: Some(route) }).await.map_err(refused)?;
    Ok(names)
}
