//! The admin verbs: each asks a replica of the control plane and prints the answer.

pub(crate) mod audit;
pub(crate) mod backend;
mod commands;
pub(crate) mod node;
pub(crate) mod permission;
pub(crate) mod player;
pub(crate) mod route;
pub(crate) mod session;
pub(crate) mod token;
pub(crate) mod transfer;

use moonbridge_proto::v1;
use serde_json::Value;

use crate::args::Format;
use crate::failure::Outcome;
use crate::output::Listing;

/// A connected admin.
pub(crate) struct Session {
    /// Where to connect again.
    pub(crate) control: crate::control::Control,
    /// The calls.
    pub(crate) admin: crate::control::Admin,
    /// The calls about permissions.
    pub(crate) permissions: crate::control::Permissions,
    /// How to print.
    pub(crate) output: Format,
}

impl Session {
    /// Finds the control plane and connects.
    pub(crate) async fn open(args: &crate::args::AdminArgs) -> Outcome<Self> {
        let control = crate::control::Control::find(&args.control)?;
        let crate::control::Clients { admin, permissions } = control.connect().await?;
        Ok(Session { control, admin, permissions, output: args.output })
    }

    /// Says what was done: a line for people, or the thing itself.
    fn done(&self, text: &str, thing: &Listing) -> Outcome {
        match self.output {
            Format::Table => crate::output::line(text),
            Format::Json | Format::Yaml => thing.print_one(self.output),
        }
    }
}

/// Who asks, as commands record it.
const ORIGIN: &str = "cli";

fn forwarding_name(forwarding: i32) -> &'static str {
    match v1::Forwarding::try_from(forwarding) {
        Ok(v1::Forwarding::Legacy) => "legacy",
        Ok(v1::Forwarding::Bungeeguard) => "bungeeguard",
        Ok(v1::Forwarding::None | v1::Forwarding::Unspecified) => "none",
        Err(_) => "unknown",
    }
}

fn role_name(role: i32) -> &'static str {
    match v1::Role::try_from(role) {
        Ok(v1::Role::Viewer) => "viewer",
        Ok(v1::Role::Operator) => "operator",
        Ok(v1::Role::Admin) => "admin",
        Ok(v1::Role::Unspecified) => "none",
        Err(_) => "unknown",
    }
}

fn on_kick_name(on_kick: i32) -> &'static str {
    match v1::OnKick::try_from(on_kick) {
        Ok(v1::OnKick::Disconnect) => "disconnect",
        Ok(v1::OnKick::Fallback | v1::OnKick::Unspecified) => "fallback",
        Err(_) => "unknown",
    }
}

/// Text, or null where there is none.
fn text_or_null(text: impl Into<String>) -> Value {
    Some(text.into()).filter(|text| !text.is_empty()).map_or(Value::Null, Value::String)
}
