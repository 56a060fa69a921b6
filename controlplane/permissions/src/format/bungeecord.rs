//! BungeeCord's `config.yml`: `permissions` and `groups`.

use std::collections::BTreeMap;

use serde::Deserialize;
use uuid::Uuid;

use super::Imported;

/// The part of `config.yml` that is about permissions; read it with a YAML reader.
#[derive(Debug, Default, Deserialize)]
pub struct Config {
    /// Permissions by group.
    #[serde(default)]
    pub permissions: BTreeMap<String, Vec<String>>,
    /// Groups by player's name or UUID.
    #[serde(default)]
    pub groups: BTreeMap<String, Vec<String>>,
}

/// What it says. Players by name are looked up with `uuid`; those it does not know are left out and named.
pub fn convert(config: &Config, uuid: impl Fn(&str) -> Option<Uuid>) -> Imported {
    let _ = (config, &uuid);
    todo!("helper B")
}
