//! Changing resources: each change is one transaction that compares what it was decided on, so that none is ever half made and two
//! at once never undo each other. Every one writes the resources' revision key as well (see [`keys`]).

use std::collections::BTreeSet;

use moonbridge_proto::snapshot::{Backend, MAX_ROUTE_BACKENDS, Route, Settings, Snapshot};
use moonbridge_proto::v1;
use prost::Message;
use tonic::Status;

use crate::attempts::Attempts;
use crate::audit::{self, describe};
use crate::auth::Caller;
use crate::follow::list_all;
use crate::keys;
use crate::replica::Replica;
use crate::snapshots::{self, snapshot_of};
use crate::status;
use crate::store::{Change, Compare, Entry, MAX_OPERATIONS, Store};

// Each backend of a route is a compare of the transaction that sets it, beside those of the route and the revision.
const _: () = assert!(MAX_ROUTE_BACKENDS + 2 <= MAX_OPERATIONS);

/// A change, decided on something that may have changed meanwhile.
struct Plan<T> {
    compares: Vec<Compare>,
    changes: Vec<Change>,
    /// What the audit says of it.
    entry: audit::Entry,
    value: T,
}

impl Attempts<'_> {
    /// Makes the planned change; `None` if somebody got in between and it has to be planned anew.
    async fn make<T>(&mut self, plan: Plan<T>) -> Result<Option<T>, Status> {
        let Plan { compares, mut changes, entry, value } = plan;
        if changes.is_empty() {
            return Ok(Some(value));
        }
        changes.push(Change::Put { key: keys::RESOURCES_REVISION.to_owned(), value: Vec::new(), lease: 0 });
        Ok(self.attempt(compares, changes, entry).await?.map(|_| value))
    }
}

/// All resources, as of one revision.
pub(crate) async fn read(store: &dyn Store) -> Result<Snapshot, Status> {
    let (entries, _) = list_all(store, keys::RESOURCES).await.map_err(status::store)?;
    Ok(snapshot_of(store.id(), &entries))
}

/// A backend as it is stored.
pub(crate) async fn backend(store: &dyn Store, name: &str) -> Result<Option<v1::Backend>, Status> {
    match store.get(&keys::backend(name)).await.map_err(status::store)? {
        Some(entry) => decode(&entry).map(Some),
        None => Ok(None),
    }
}

/// Adds or replaces a backend; with `keep_marks` one that is there stays drained and restricted, and its plugin channel on or off, as it
/// is. Where it is to have a token and none is given, the one it has stays.
pub(crate) async fn set_backend(replica: &Replica, caller: &Caller, given: &v1::Backend, keep_marks: bool) -> Result<v1::Backend, Status> {
    let keeps_token = given.forwarding() == v1::Forwarding::Bungeeguard && given.forwarding_token.is_empty();
    let valid = |backend: v1::Backend| Backend::try_from(backend).map_err(|mistakes| invalid("backend", mistakes));
    // What is wrong apart from the token is said before the store is asked.
    let mut backend = valid(match keeps_token {
        true => v1::Backend { forwarding: v1::Forwarding::Legacy.into(), ..given.clone() },
        false => given.clone(),
    })?;
    let key = keys::backend(&backend.name);
    let mut attempts = Attempts::new(replica, caller, "resources");
    loop {
        let old = replica.store.get(&key).await.map_err(status::store)?;
        // One that cannot be read is replaced.
        let known = old.as_ref().and_then(|old| decode::<v1::Backend>(old).ok());
        if keeps_token {
            let forwarding_token = known.as_ref().map(|known| known.forwarding_token.clone()).unwrap_or_default();
            backend = valid(v1::Backend { forwarding_token, ..given.clone() })?;
        }
        let mut new = v1::Backend::from(&backend);
        if let (true, Some(known)) = (keep_marks, &known) {
            (new.drained, new.restricted, new.plugin_channel_off) = (known.drained, known.restricted, known.plugin_channel_off);
        }
        let entry = describe::backend("backend.set", &new.name, known.as_ref(), Some(&new));
        if let Some(value) = attempts.make(replace(&key, old.as_ref(), new, entry)).await? {
            return Ok(value);
        }
    }
}

/// Marks a backend as drained, or not.
pub(crate) async fn drain_backend(replica: &Replica, caller: &Caller, name: &str, drained: bool) -> Result<v1::Backend, Status> {
    let what = if drained { "backend.drain" } else { "backend.undrain" };
    mark_backend(replica, caller, what, name, |backend| backend.drained = drained).await
}

/// Marks a backend as restricted, or not.
pub(crate) async fn restrict_backend(replica: &Replica, caller: &Caller, name: &str, restricted: bool) -> Result<v1::Backend, Status> {
    let what = if restricted { "backend.restrict" } else { "backend.unrestrict" };
    mark_backend(replica, caller, what, name, |backend| backend.restricted = restricted).await
}

/// Lets a backend's plugins be obeyed on the channel `BungeeCord`, or not.
pub(crate) async fn set_plugin_channel(replica: &Replica, caller: &Caller, name: &str, off: bool) -> Result<v1::Backend, Status> {
    mark_backend(replica, caller, "backend.plugin-channel", name, |backend| backend.plugin_channel_off = off).await
}

async fn mark_backend(
    replica: &Replica,
    caller: &Caller,
    what: &'static str,
    name: &str,
    mark: impl Fn(&mut v1::Backend),
) -> Result<v1::Backend, Status> {
    let key = keys::backend(name);
    let mut attempts = Attempts::new(replica, caller, "resources");
    loop {
        let old = replica.store.get(&key).await.map_err(status::store)?.ok_or_else(|| no_backend(name))?;
        let known: v1::Backend = decode(&old)?;
        let mut new = known.clone();
        mark(&mut new);
        let entry = describe::backend(what, name, Some(&known), Some(&new));
        if let Some(value) = attempts.make(replace(&key, Some(&old), new, entry)).await? {
            return Ok(value);
        }
    }
}

/// Removes a backend; with `force` from the routes too, without it only if no route names it.
pub(crate) async fn remove_backend(replica: &Replica, caller: &Caller, name: &str, force: bool) -> Result<(), Status> {
    let mut attempts = Attempts::new(replica, caller, "resources");
    loop {
        let (entries, _) = list_all(&*replica.store, keys::RESOURCES).await.map_err(status::store)?;
        let key = keys::backend(name);
        let Some(old) = entries.iter().find(|entry| entry.key == key) else { return Err(no_backend(name)) };
        let mut record = describe::backend("backend.remove", name, decode(old).ok().as_ref(), None);
        let mut changes = vec![Change::Delete(key)];
        let mut hosts = Vec::new();
        for entry in entries.iter().filter(|entry| entry.key.starts_with(keys::ROUTES)) {
            let mut route: v1::Route = decode(entry)?;
            if route.backends.iter().any(|backend| backend == name) {
                let before = route.clone();
                route.backends.retain(|backend| backend != name);
                describe::also_route(&mut record, &before, &route);
                changes.push(Change::Put { key: entry.key.clone(), value: route.encode_to_vec(), lease: 0 });
                hosts.push((route.host, route.backends.is_empty()));
            }
        }
        if !force && !hosts.is_empty() {
            let hosts: Vec<_> = hosts.iter().map(|(host, _)| host.as_str()).take(10).collect();
            return Err(Status::failed_precondition(format!(
                "routes name the backend {name}: {}. Change them first (`moonbridge route set`), or use --force to take it out of them",
                hosts.join(", ")
            )));
        }
        // A route without backends is none.
        if let Some((host, _)) = hosts.iter().find(|(_, empty)| *empty) {
            return Err(Status::failed_precondition(format!(
                "the backend {name} is the only one of the route {host}: give the route another (`moonbridge route set`) or remove it \
                 (`moonbridge route remove`) first"
            )));
        }
        // The revision and the record of the audit come on top.
        if changes.len() + 2 > MAX_OPERATIONS {
            return Err(Status::failed_precondition(format!(
                "{} routes name the backend {name}, too many for one step: change some of them first (`moonbridge route set`)",
                hosts.len()
            )));
        }
        // No resource at all has changed since the listing.
        let revision = entries.iter().find(|entry| entry.key == keys::RESOURCES_REVISION);
        let compares = vec![Compare::unchanged(keys::RESOURCES_REVISION, revision)];
        if let Some(value) = attempts.make(Plan { compares, changes, entry: record, value: () }).await? {
            return Ok(value);
        }
    }
}

/// Adds or replaces a route. Its backends must exist.
pub(crate) async fn set_route(replica: &Replica, caller: &Caller, route: &Route) -> Result<v1::Route, Status> {
    let names: BTreeSet<&str> = route.backends.iter().map(String::as_str).collect();
    let key = keys::route(&route.host);
    let mut attempts = Attempts::new(replica, caller, "resources");
    loop {
        for name in &names {
            if replica.store.get(&keys::backend(name)).await.map_err(status::store)?.is_none() {
                return Err(Status::failed_precondition(format!(
                    "the route {} names the backend {name}, which does not exist: add it with `moonbridge backend set {name} --address \
                     HOST:PORT`",
                    route.host
                )));
            }
        }
        let old = replica.store.get(&key).await.map_err(status::store)?;
        let known = old.as_ref().and_then(|old| decode(old).ok());
        let new = v1::Route::from(route);
        let entry = describe::route("route.set", &route.host, known.as_ref(), Some(&new));
        let mut plan = replace(&key, old.as_ref(), new, entry);
        plan.compares.extend(names.iter().map(|name| Compare::Present(keys::backend(name))));
        if let Some(value) = attempts.make(plan).await? {
            return Ok(value);
        }
    }
}

/// Removes a route.
pub(crate) async fn remove_route(replica: &Replica, caller: &Caller, host: &str) -> Result<(), Status> {
    let key = keys::route(host);
    let mut attempts = Attempts::new(replica, caller, "resources");
    loop {
        let old = replica.store.get(&key).await.map_err(status::store)?;
        let old = old.ok_or_else(|| Status::not_found(format!("there is no route {host:?}: see `moonbridge route list`")))?;
        let entry = describe::route("route.remove", host, decode(&old).ok().as_ref(), None);
        let (compares, changes) = (vec![Compare::unchanged(&key, Some(&old))], vec![Change::Delete(key.clone())]);
        if let Some(value) = attempts.make(Plan { compares, changes, entry, value: () }).await? {
            return Ok(value);
        }
    }
}

/// The settings; the defaults if none were set.
pub(crate) async fn settings(store: &dyn Store) -> Result<v1::Settings, Status> {
    let entry = store.get(keys::SETTINGS).await.map_err(status::store)?;
    entry.as_ref().map_or_else(|| Ok(v1::Settings::from(&Settings::default())), decode)
}

/// Changes the settings: `edit` gets them as they are.
pub(crate) async fn change_settings(replica: &Replica, caller: &Caller, edit: impl Fn(&mut v1::Settings)) -> Result<v1::Settings, Status> {
    let mut attempts = Attempts::new(replica, caller, "resources");
    loop {
        let old = replica.store.get(keys::SETTINGS).await.map_err(status::store)?;
        let known = old.as_ref().map_or_else(|| Ok(v1::Settings::from(&Settings::default())), decode)?;
        let mut new = known.clone();
        edit(&mut new);
        let entry = describe::settings(&known, &new);
        if let Some(value) = attempts.make(replace(keys::SETTINGS, old.as_ref(), new, entry)).await? {
            return Ok(value);
        }
    }
}

/// The plan that makes a key's value this one; empty if it is.
fn replace<T: Message>(key: &str, old: Option<&Entry>, new: T, entry: audit::Entry) -> Plan<T> {
    let value = new.encode_to_vec();
    let changes = match old {
        Some(old) if old.value == value => Vec::new(),
        _ => vec![Change::Put { key: key.to_owned(), value, lease: 0 }],
    };
    Plan { compares: vec![Compare::unchanged(key, old)], changes, entry, value: new }
}

fn decode<T: Message + Default>(entry: &Entry) -> Result<T, Status> {
    T::decode(&*entry.value).map_err(|error| Status::data_loss(format!("{} in the store cannot be read ({error}): set it anew", entry.key)))
}

/// What is wrong with a resource that a call gave in this field.
pub(crate) fn invalid(field: &str, mistakes: Vec<v1::FieldError>) -> Status {
    let below = mistakes.into_iter().map(|mistake| v1::FieldError { path: format!("{field}.{}", mistake.path), ..mistake });
    Status::invalid_argument(snapshots::shown(&below.collect::<Vec<_>>()))
}

fn no_backend(name: &str) -> Status {
    Status::not_found(format!("there is no backend {name:?}: see `moonbridge backend list`"))
}
