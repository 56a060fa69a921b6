//! `moonbridge backend`.

use moonbridge_proto::snapshot::ForwardingToken;
use moonbridge_proto::token::read_token_file;
use moonbridge_proto::v1;
use serde_json::{Value, json};

use super::{Session, forwarding_name};
use crate::args::{BackendVerb, ForwardingArg, ForwardingArgs, Switch};
use crate::control::{PAGE, pages, refused};
use crate::failure::{Failure, Outcome};
use crate::output::Listing;

const COLUMNS: &[&str] = &["name", "address", "forwarding", "drained", "restricted", "plugin_channel", "players"];
const ONE: &[&str] = &["name", "address", "forwarding", "drained", "restricted", "plugin_channel"];

/// Runs a verb.
pub(crate) async fn run(session: Session, verb: BackendVerb) -> Outcome {
    match verb {
        BackendVerb::List { drained } => list(session, drained).await,
        BackendVerb::Set { name, address, forwarding } => set(session, name, address, forwarding).await,
        BackendVerb::Remove { name, force } => remove(session, name, force).await,
        BackendVerb::Drain { name } => drain(session, name, true).await,
        BackendVerb::Undrain { name } => drain(session, name, false).await,
        BackendVerb::Restrict { name } => restrict(session, name, true).await,
        BackendVerb::Unrestrict { name } => restrict(session, name, false).await,
        BackendVerb::PluginChannel { name, switch } => plugin_channel(session, name, switch == Switch::Off).await,
    }
}

async fn list(session: Session, only_drained: bool) -> Outcome {
    let admin = session.admin.clone();
    let backends = pages(async |page_token| {
        let request = v1::ListBackendsRequest { page_size: PAGE, page_token };
        let page = admin.clone().list_backends(request).await?.into_inner();
        Ok((page.backends, page.next_page_token))
    })
    .await?;
    let mut listing = Listing::new(COLUMNS);
    for status in backends {
        let backend = status.backend.unwrap_or_default();
        if backend.drained || !only_drained {
            let [name, address, forwarding, drained, restricted, plugin_channel] = row(&backend);
            listing.push([name, address, forwarding, drained, restricted, plugin_channel, json!(status.players)]);
        }
    }
    listing.print(session.output, "no backends; add one with `moonbridge backend set NAME --address HOST:PORT`")
}

async fn set(mut session: Session, name: String, address: String, forwarding: ForwardingArgs) -> Outcome {
    let backend = v1::Backend { name, address, ..told(&forwarding)? };
    let request = v1::SetBackendRequest { backend: Some(backend), keep_drained: true };
    let backend = session.admin.set_backend(request).await.map_err(refused)?.into_inner();
    let text = format!("backend {} is at {}, forwarding {}", backend.name, backend.address, forwarding_name(backend.forwarding));
    session.done(&text, &one(&backend))
}

/// A backend without name and address that is told who the player is as the arguments say. Without a token it keeps the one it has.
pub(crate) fn told(args: &ForwardingArgs) -> Outcome<v1::Backend> {
    let wrong = |why: String| Failure::usage(format!("--forwarding-token-file: {why}"));
    let forwarding = match args.forwarding {
        ForwardingArg::None => v1::Forwarding::None,
        ForwardingArg::Legacy => v1::Forwarding::Legacy,
        ForwardingArg::BungeeGuard => v1::Forwarding::Bungeeguard,
    };
    let forwarding_token = match &args.forwarding_token_file {
        None => String::new(),
        Some(_) if args.forwarding != ForwardingArg::BungeeGuard => {
            return Err(wrong("only --forwarding bungeeguard has a token".to_owned()));
        }
        Some(path) => {
            let token = read_token_file(path).map_err(|error| wrong(error.to_string()))?;
            ForwardingToken::new(&token).map_err(|error| wrong(format!("{}: {error}", path.display())))?;
            token
        }
    };
    Ok(v1::Backend { forwarding: forwarding.into(), forwarding_token, ..v1::Backend::default() })
}

async fn remove(mut session: Session, name: String, force: bool) -> Outcome {
    let request = v1::RemoveBackendRequest { name: name.clone(), force };
    session.admin.remove_backend(request).await.map_err(refused)?;
    let mut thing = Listing::new(&["name", "removed"]);
    thing.push([json!(name), json!(true)]);
    session.done(&format!("backend {name} is removed"), &thing)
}

async fn drain(mut session: Session, name: String, drained: bool) -> Outcome {
    let request = v1::DrainBackendRequest { name, drained };
    let backend = session.admin.drain_backend(request).await.map_err(refused)?.into_inner();
    let what = if backend.drained { "takes no new players" } else { "takes players" };
    session.done(&format!("backend {} {what}", backend.name), &one(&backend))
}

async fn restrict(mut session: Session, name: String, restricted: bool) -> Outcome {
    let request = v1::RestrictBackendRequest { name, restricted };
    let backend = session.admin.restrict_backend(request).await.map_err(refused)?.into_inner();
    let text = match backend.restricted {
        true => format!("backend {0} takes only players who have the permission moonbridge.server.{0}", backend.name),
        false => format!("backend {} takes every player", backend.name),
    };
    session.done(&text, &one(&backend))
}

async fn plugin_channel(mut session: Session, name: String, off: bool) -> Outcome {
    let request = v1::SetPluginChannelRequest { name, off };
    let backend = session.admin.set_plugin_channel(request).await.map_err(refused)?.into_inner();
    let what = if backend.plugin_channel_off { "passed on to players and not done" } else { "done" };
    session.done(&format!("what the plugins of backend {} ask on the channel BungeeCord is {what}", backend.name), &one(&backend))
}

fn row(backend: &v1::Backend) -> [Value; 6] {
    [
        json!(backend.name),
        json!(backend.address),
        json!(forwarding_name(backend.forwarding)),
        json!(backend.drained),
        json!(backend.restricted),
        json!(!backend.plugin_channel_off),
    ]
}

fn one(backend: &v1::Backend) -> Listing {
    let mut thing = Listing::new(ONE);
    thing.push(row(backend));
    thing
}
