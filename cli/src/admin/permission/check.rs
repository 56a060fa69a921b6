//! `moonbridge permission check` and `search`.

use moonbridge_proto::v1::{self, PermissionAnswer};
use serde::Serialize;
use serde_json::{Value, json};

use super::super::commands::{self, Ended};
use super::super::{Session, text_or_null};
use super::{contexts, words};
use crate::args::Format;
use crate::args::permission::CheckArgs;
use crate::control::refused;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Listing};
use crate::time::rfc3339;

const CHECK: &[&str] = &["player", "uuid", "permission", "answer", "contexts", "valid_until", "primary_group", "prefix", "suffix", "meta"];
const LIVE: &[&str] = &["player", "permission", "answer", "contexts"];
const EXPLAIN: &[&str] =
    &["player", "uuid", "permission", "answer", "contexts", "matched_by", "key", "value", "node_contexts", "expiry", "path", "holders"];
const OTHERS: &[&str] = &["key", "value", "contexts", "expiry", "path", "why"];
const SEARCH: &[&str] = &["holder", "key", "value", "contexts", "expiry", "matched_by"];

/// Runs `check`. Fails, having said the answer, unless it is true, so that a script can ask.
pub(super) async fn run(session: Session, args: CheckArgs) -> Outcome {
    let answer = match (args.live, args.explain) {
        (true, _) => live(session, args).await?,
        (false, true) => explain(session, args).await?,
        (false, false) => check(session, args).await?,
    };
    if answer == PermissionAnswer::True { Ok(()) } else { Err(Failure::said()) }
}

async fn check(mut session: Session, args: CheckArgs) -> Outcome<PermissionAnswer> {
    let request = v1::CheckRequest {
        player: args.player.clone(),
        permissions: vec![args.node.clone()],
        contexts: contexts(&args.contexts)?,
        exact_contexts: args.exact,
    };
    let checked = session.permissions.check(request).await.map_err(refused)?.into_inner();
    let answer = checked.answers().next().unwrap_or(PermissionAnswer::Unavailable);
    if session.output == Format::Table {
        output::line(&told(answer, &checked.contexts))?;
        return Ok(answer);
    }
    let mut thing = Listing::new(CHECK);
    thing.push([
        json!(args.player),
        json!(checked.player_uuid),
        json!(args.node),
        json!(name(answer)),
        words::pairs(&checked.contexts),
        json!(rfc3339(checked.valid_until.saturating_mul(1_000))),
        json!(checked.primary_group),
        text_or_null(checked.prefix),
        text_or_null(checked.suffix),
        json!(checked.meta.into_iter().collect::<std::collections::BTreeMap<_, _>>()),
    ]);
    thing.print_one(session.output)?;
    Ok(answer)
}

/// What the player's session answers, which runs on the node's snapshot and not on the store.
async fn live(mut session: Session, args: CheckArgs) -> Outcome<PermissionAnswer> {
    let request = v1::CheckSessionRequest { player: args.player.clone(), permission: args.node.clone() };
    let command = session.permissions.check_session(request).await.map_err(refused)?.into_inner();
    let command = commands::outcome(&mut session, command).await?;
    if Ended::of(&command) != Some(Ended::Succeeded) {
        return Err(Failure::failed(format!("{}: {}", args.player, commands::why(&command))));
    }
    let result = command.result.unwrap_or_default();
    let answer = result.answer();
    let contexts: Vec<&str> = result.detail.split_whitespace().collect();
    match session.output {
        Format::Table if contexts.is_empty() => output::line(&format!("{} (in no context)", name(answer)))?,
        Format::Table => output::line(&output::printable(&format!("{} ({})", name(answer), contexts.join(", "))))?,
        Format::Json | Format::Yaml => {
            let mut thing = Listing::new(LIVE);
            thing.push([json!(args.player), json!(args.node), json!(name(answer)), json!(contexts)]);
            thing.print_one(session.output)?;
        }
    }
    Ok(answer)
}

/// An explanation as JSON and YAML have it.
#[derive(Serialize)]
struct Explanation<H, N> {
    #[serde(flatten)]
    head: H,
    others: Vec<N>,
}

async fn explain(mut session: Session, args: CheckArgs) -> Outcome<PermissionAnswer> {
    let request = v1::ExplainRequest {
        player: args.player.clone(),
        permission: args.node.clone(),
        contexts: contexts(&args.contexts)?,
        exact_contexts: args.exact,
    };
    let explained = session.permissions.explain(request).await.map_err(refused)?.into_inner();
    let (answer, format) = (explained.answer(), session.output);
    let others = others(&explained, format);
    if format == Format::Table {
        for line in explanation(&explained) {
            output::line(&output::printable(&line))?;
        }
        if !explained.others.is_empty() {
            output::line("\nAlso speak of it:")?;
            others.print(format, "")?;
        }
        return Ok(answer);
    }
    let mut thing = Listing::new(EXPLAIN);
    let node = explained.node.as_ref();
    thing.push([
        json!(args.player),
        json!(explained.player_uuid),
        json!(args.node),
        json!(name(answer)),
        words::pairs(&explained.contexts),
        json!(explained.matched_by),
        json!(node.map(|node| &node.key)),
        json!(node.map(|node| node.value)),
        node.map_or(Value::Null, |node| words::pairs(&node.contexts)),
        node.map_or(Value::Null, words::ends),
        json!(explained.path),
        json!(explained.holders),
    ]);
    if let Some(head) = thing.records().pop() {
        output::document(format, &Explanation { head, others: others.records() })?;
    }
    Ok(answer)
}

/// The answer, what decided it, and who was looked at.
fn explanation(explained: &v1::ExplainResponse) -> Vec<String> {
    let decided = match &explained.node {
        Some(node) => format!("decided by  {} ({}) of {}", words::node(node), explained.matched_by, explained.path.join(" > ")),
        None => "decided by  nothing: no node that applies speaks of it".to_owned(),
    };
    let answer = told(explained.answer(), &explained.contexts);
    vec![answer, decided, format!("looked at   {}", explained.holders.join(", "))]
}

fn others(explained: &v1::ExplainResponse, format: Format) -> Listing {
    let mut listing = Listing::new(OTHERS);
    for other in &explained.others {
        let node = other.node.clone().unwrap_or_default();
        let path = match format {
            Format::Table => json!(other.path.join(" > ")),
            Format::Json | Format::Yaml => json!(other.path),
        };
        let value = words::value(node.value, format);
        listing.push([json!(node.key), value, words::pairs(&node.contexts), words::ends(&node), path, json!(other.why)]);
    }
    listing
}

/// An answer with the contexts that it was asked in.
fn told(answer: PermissionAnswer, contexts: &[v1::PermissionContext]) -> String {
    let places = words::places(contexts);
    let places = if places.is_empty() { " (in no context)" } else { &places };
    output::printable(&format!("{}{places}", name(answer)))
}

fn name(answer: PermissionAnswer) -> &'static str {
    match answer {
        PermissionAnswer::True => "true",
        PermissionAnswer::False => "false",
        PermissionAnswer::Undefined => "undefined",
        PermissionAnswer::Unavailable | PermissionAnswer::Unspecified => "unavailable",
    }
}

/// Runs `search`.
pub(super) async fn search(mut session: Session, permission: String) -> Outcome {
    let mut found = session.permissions.search(v1::SearchRequest { permission }).await.map_err(refused)?.into_inner();
    let mut listing = Listing::new(SEARCH);
    while let Some(result) = found.message().await.map_err(refused)? {
        let node = result.node.unwrap_or_default();
        let value = words::value(node.value, session.output);
        let (contexts, ends) = (words::pairs(&node.contexts), words::ends(&node));
        listing.push([json!(result.holder), json!(node.key), value, contexts, ends, json!(result.matched_by)]);
    }
    listing.print(session.output, "nobody has a node of their own that decides on it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_names_the_node_its_holder_and_the_others() {
        let context = |key: &str, value: &str| v1::PermissionContext { key: key.to_owned(), value: value.to_owned() };
        let node = |key: &str, value: bool| v1::PermissionNode { key: key.to_owned(), value, contexts: Vec::new(), expiry: 0 };
        let path = vec!["user Ada".to_owned(), "group mod".to_owned()];
        let explained = v1::ExplainResponse {
            answer: PermissionAnswer::False.into(),
            contexts: vec![context("server", "proxy"), context("world", "lobby")],
            matched_by: "wildcard".to_owned(),
            node: Some(node("a.*", false)),
            path: path.clone(),
            others: vec![v1::ExplainedNode { node: Some(node("*", true)), path, why: "later".to_owned() }],
            holders: vec!["user Ada".to_owned(), "group mod".to_owned(), "group default".to_owned()],
            ..Default::default()
        };
        assert_eq!(
            explanation(&explained),
            [
                "false (server=proxy, world=lobby)",
                "decided by  a.* = false (wildcard) of user Ada > group mod",
                "looked at   user Ada, group mod, group default",
            ]
        );
        let rows = serde_json::to_value(others(&explained, Format::Table).records()).unwrap();
        assert_eq!((&rows[0]["path"], &rows[0]["why"]), (&json!("user Ada > group mod"), &json!("later")));
    }

    /// An answer that a newer control plane may give is none that allows anything.
    #[test]
    fn only_true_is_true() {
        let answer = |answer: i32| v1::ExplainResponse { answer, ..Default::default() }.answer();
        assert_eq!(told(answer(1), &[]), "true (in no context)");
        for (other, expected) in [(0, "unavailable"), (2, "false"), (3, "undefined"), (4, "unavailable"), (99, "unavailable")] {
            assert_eq!(name(answer(other)), expected);
        }
    }
}
