//! `moonbridge permission`.

mod change;
mod check;
mod export;
mod group;
mod import;
mod settings;
mod track;
mod user;
mod words;

use moonbridge_permissions::{Contexts, Node};
use moonbridge_proto::snapshot::write_contexts;
use moonbridge_proto::v1;
use serde::Serialize;

use super::Session;
use crate::args::Format;
use crate::args::permission::PermissionVerb;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Listing};

/// Runs a verb.
pub(crate) async fn run(session: Session, verb: PermissionVerb) -> Outcome {
    match verb {
        PermissionVerb::User { player, verb } => user::run(session, player, verb).await,
        PermissionVerb::Group { verb } => group::run(session, verb).await,
        PermissionVerb::Track { verb } => track::run(session, verb).await,
        PermissionVerb::Check(args) => check::run(session, args).await,
        PermissionVerb::Search { node } => check::search(session, node).await,
        PermissionVerb::Import(args) => import::run(session, args).await,
        PermissionVerb::Export { file } => export::run(session, &file).await,
        PermissionVerb::Settings { verb } => settings::run(session, verb).await,
    }
}

/// A user or group: what there is to say of it, then its nodes.
struct Holder {
    head: Listing,
    nodes: Vec<v1::PermissionNode>,
}

/// The same as JSON and YAML have it.
#[derive(Serialize)]
struct Document<H, N> {
    #[serde(flatten)]
    head: H,
    nodes: Vec<N>,
}

impl Holder {
    /// Prints all of it; `empty` is said instead of a table of no nodes.
    fn print(&self, format: Format, empty: &str) -> Outcome {
        let nodes = words::nodes(&self.nodes, format);
        if format == Format::Table {
            self.head.print_one(format)?;
            output::line("")?;
            return nodes.print(format, empty);
        }
        match self.head.records().pop() {
            Some(head) => output::document(format, &Document { head, nodes: nodes.records() }),
            None => Ok(()),
        }
    }

    /// Says what was done: a line for people, or the whole holder.
    fn done(&self, format: Format, text: &str) -> Outcome {
        match format {
            Format::Table => output::line(&output::printable(text)),
            Format::Json | Format::Yaml => self.print(format, ""),
        }
    }
}

/// Contexts as they are sent.
fn contexts(pairs: &[(String, String)]) -> Outcome<Vec<v1::PermissionContext>> {
    let contexts = Contexts::of(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    contexts.map(|contexts| write_contexts(&contexts)).map_err(|error| Failure::usage(format!("--context: {error}")))
}

/// What a node is, if it is one.
fn parsed(node: &v1::PermissionNode) -> Option<Node> {
    Node::try_from(node).ok()
}

/// The revision of a holder in words.
fn at(revision: u64) -> String {
    match revision {
        0 => "nothing is stored".to_owned(),
        revision => format!("revision {revision}"),
    }
}
