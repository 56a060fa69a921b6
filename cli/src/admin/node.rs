//! `moonbridge node`.

use moonbridge_proto::v1;
use serde_json::{Value, json};

use super::commands::{self, Ended};
use super::{Session, text_or_null};
use crate::args::NodeVerb;
use crate::control::{PAGE, pages, refused};
use crate::failure::{Failure, Outcome};
use crate::output::Listing;
use crate::time::rfc3339;

const COLUMNS: &[&str] = &["name", "id", "version", "listen", "drained", "players", "replica", "revision", "started"];

/// Runs a verb.
pub(crate) async fn run(session: Session, verb: NodeVerb) -> Outcome {
    match verb {
        NodeVerb::List { drained } => list(session, drained).await,
        NodeVerb::Drain { node } => drain(session, node, true).await,
        NodeVerb::Undrain { node } => drain(session, node, false).await,
    }
}

async fn list(session: Session, only_drained: bool) -> Outcome {
    let admin = session.admin.clone();
    let nodes = pages(async |page_token| {
        let request = v1::ListNodesRequest { page_size: PAGE, page_token };
        let page = admin.clone().list_nodes(request).await?.into_inner();
        Ok((page.nodes, page.next_page_token))
    })
    .await?;
    let mut listing = Listing::new(COLUMNS);
    for node in nodes.into_iter().filter(|node| node.drained || !only_drained) {
        let revision = node.revision.map_or(Value::Null, |revision| revision.number.into());
        let started = rfc3339(node.started_unix_ms);
        listing.push([
            json!(node.name),
            json!(node.id),
            json!(node.version),
            json!(node.listen),
            json!(node.drained),
            json!(node.sessions),
            text_or_null(node.replica),
            revision,
            json!(started),
        ]);
    }
    listing.print(session.output, "no node is connected to the control plane")
}

async fn drain(mut session: Session, node: String, drained: bool) -> Outcome {
    let request = v1::DrainNodeRequest { node: node.clone(), drained };
    let command = session.admin.drain_node(request).await.map_err(refused)?.into_inner();
    let command = commands::outcome(&mut session, command).await?;
    let mut thing = Listing::new(commands::COLUMNS);
    thing.push(commands::row(&command));
    let what = if drained { "takes no new players" } else { "takes players" };
    match Ended::of(&command) {
        Some(Ended::Succeeded) => session.done(&format!("node {node} {what}"), &thing),
        _ => {
            thing.print_if_program(session.output)?;
            Err(Failure::failed(format!("node {node}: {}", commands::why(&command))))
        }
    }
}
