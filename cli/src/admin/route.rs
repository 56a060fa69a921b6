//! `moonbridge route`.

use moonbridge_proto::v1;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Session, on_kick_name};
use crate::args::{Format, OnKickArg, RouteVerb};
use crate::control::{PAGE, pages, refused};
use crate::failure::{Failure, Outcome};
use crate::output::{self, Listing};

const COLUMNS: &[&str] = &["host", "backends", "on_kick"];

/// Runs a verb.
pub(crate) async fn run(session: Session, verb: RouteVerb) -> Outcome {
    match verb {
        RouteVerb::List { backend } => list(session, backend).await,
        RouteVerb::Set { host, backends, on_kick } => set(session, host, backends, on_kick).await,
        RouteVerb::Remove { host } => remove(session, host).await,
        RouteVerb::Test { host, player } => test(session, host, player).await,
    }
}

/// Every route there is.
pub(crate) async fn all(admin: &crate::control::Admin) -> Outcome<Vec<v1::Route>> {
    pages(async |page_token| {
        let request = v1::ListRoutesRequest { page_size: PAGE, page_token };
        let page = admin.clone().list_routes(request).await?.into_inner();
        Ok((page.routes, page.next_page_token))
    })
    .await
}

async fn list(session: Session, backend: Option<String>) -> Outcome {
    let mut listing = Listing::new(COLUMNS);
    for route in all(&session.admin).await? {
        if backend.as_ref().is_none_or(|backend| route.backends.contains(backend)) {
            listing.push(row(&route));
        }
    }
    listing.print(session.output, "no routes; add one with `moonbridge route set '*' --backends A,B`")
}

async fn set(mut session: Session, host: String, backends: Vec<String>, on_kick: OnKickArg) -> Outcome {
    let on_kick = match on_kick {
        OnKickArg::Fallback => v1::OnKick::Fallback,
        OnKickArg::Disconnect => v1::OnKick::Disconnect,
    };
    let route = v1::Route { host, backends, on_kick: on_kick.into() };
    if let Err(mistakes) = moonbridge_proto::snapshot::Route::try_from(route.clone()) {
        let mistakes: Vec<String> = mistakes.into_iter().map(|mistake| format!("--{}: {}", mistake.path, mistake.problem)).collect();
        return Err(Failure::usage(mistakes.join("\n")));
    }
    let route = session.admin.set_route(v1::SetRouteRequest { route: Some(route) }).await.map_err(refused)?.into_inner();
    let mut thing = Listing::new(COLUMNS);
    thing.push(row(&route));
    let text = format!("{} leads to {}; on kick: {}", route.host, route.backends.join(", "), on_kick_name(route.on_kick));
    session.done(&text, &thing)
}

async fn remove(mut session: Session, host: String) -> Outcome {
    session.admin.remove_route(v1::RemoveRouteRequest { host: host.clone() }).await.map_err(refused)?;
    let mut thing = Listing::new(&["host", "removed"]);
    thing.push([json!(host), json!(true)]);
    session.done(&format!("route {host} is removed"), &thing)
}

/// The decision as JSON and YAML have it.
#[derive(Serialize)]
struct Decision<C> {
    host: String,
    route: Option<String>,
    matched_by: String,
    on_kick: Option<&'static str>,
    candidates: Vec<C>,
    /// Where a player would go now, if every usable backend is up.
    first: Option<String>,
}

/// Says where a host leads; fails, having said so, if a player would be refused, so that a script can ask.
async fn test(mut session: Session, host: String, player: Option<String>) -> Outcome {
    let request = v1::TestRouteRequest { host, player: player.unwrap_or_default() };
    let answer = session.admin.test_route(request).await.map_err(refused)?.into_inner();
    let first = answer.candidates.iter().find(|candidate| candidate.usable).map(|candidate| candidate.backend.clone());
    let mut candidates = Listing::new(&["backend", "address", "usable", "why"]);
    for candidate in answer.candidates {
        candidates.push([json!(candidate.backend), super::text_or_null(candidate.address), json!(candidate.usable), json!(candidate.why)]);
    }
    if session.output != Format::Table {
        let decision = Decision {
            host: answer.host,
            route: answer.route.as_ref().map(|route| route.host.clone()),
            matched_by: answer.matched_by,
            on_kick: answer.route.as_ref().map(|route| on_kick_name(route.on_kick)),
            candidates: candidates.records(),
            first,
        };
        output::document(session.output, &decision)?;
        return if decision.first.is_some() { Ok(()) } else { Err(Failure::said()) };
    }
    let Some(route) = answer.route else {
        output::line(&format!(
            "host {}: no route matches; a player is refused.\nAdd one with `moonbridge route set HOST --backends A,B` ('*' matches all)",
            output::printable(&answer.host)
        ))?;
        return Err(Failure::said());
    };
    let how = match answer.matched_by.as_str() {
        "exact" => "the host itself",
        "suffix" => "the longest suffix that fits",
        "any" => "no other route fits",
        other => other,
    };
    output::line(&format!(
        "host {}: route {} ({}: {how}); on kick: {}",
        answer.host,
        route.host,
        answer.matched_by,
        on_kick_name(route.on_kick)
    ))?;
    candidates.print(Format::Table, "the route names no backend")?;
    match first {
        Some(first) => output::line(&format!("a player goes to {first} first")),
        None => {
            output::line("no candidate is usable: a player is refused")?;
            Err(Failure::said())
        }
    }
}

fn row(route: &v1::Route) -> [Value; 3] {
    [json!(route.host), json!(route.backends), json!(on_kick_name(route.on_kick))]
}
