//! Writing an export.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::holder::{Group, User};
use crate::node::{Kind, Node};
use crate::track::Track;

/// Writes an export, uncompressed, as it is told: groups and tracks at once, users as they come, a holder a line.
pub struct Writer<W: Write> {
    out: W,
    users: u64,
}

impl<W: Write> Writer<W> {
    /// Begins. `generated_at` is `yyyy-MM-dd HH:mm:ss z`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new<'a>(
        mut out: W,
        generated_at: &str,
        groups: impl IntoIterator<Item = &'a Group>,
        tracks: impl IntoIterator<Item = &'a Track>,
    ) -> io::Result<Self> {
        out.write_all(b"{\n\"metadata\": ")?;
        serde_json::to_writer(&mut out, &Metadata { generated_by: "moonbridge", generated_at })?;
        out.write_all(b",\n\"groups\": {")?;
        for (index, group) in groups.into_iter().enumerate() {
            entry(&mut out, index == 0, group.name(), &Holder { username: None, primary_group: None, nodes: nodes(group.nodes()) })?;
        }
        out.write_all(b"\n},\n\"tracks\": {")?;
        for (index, track) in tracks.into_iter().enumerate() {
            entry(&mut out, index == 0, track.name(), &Steps { groups: track.groups().iter().map(|group| &**group).collect() })?;
        }
        out.write_all(b"\n},\n\"users\": {")?;
        Ok(Self { out, users: 0 })
    }

    /// Writes a user.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn user(&mut self, user: &User) -> io::Result<()> {
        let holder = Holder { username: user.username.as_deref(), primary_group: user.primary_group.as_deref(), nodes: nodes(&user.nodes) };
        entry(&mut self.out, self.users == 0, &user.uuid.to_string(), &holder)?;
        self.users += 1;
        Ok(())
    }

    /// Ends.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(b"\n}\n}\n")?;
        self.out.flush()?;
        Ok(self.out)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    generated_by: &'a str,
    generated_at: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Holder<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    username: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    primary_group: Option<&'a str>,
    nodes: Vec<Written<'a>>,
}

#[derive(Serialize)]
struct Steps<'a> {
    groups: Vec<&'a str>,
}

#[derive(Serialize)]
struct Written<'a> {
    r#type: &'static str,
    key: &'a str,
    value: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiry: Option<i64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    context: BTreeMap<&'a str, Values<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Values<'a> {
    One(&'a str),
    Several(Vec<&'a str>),
}

fn entry(out: &mut impl Write, first: bool, name: &str, value: &impl Serialize) -> io::Result<()> {
    out.write_all(if first { b"\n" } else { b",\n" })?;
    serde_json::to_writer(&mut *out, name)?;
    out.write_all(b": ")?;
    Ok(serde_json::to_writer(out, value)?)
}

fn nodes(nodes: &[Node]) -> Vec<Written<'_>> {
    nodes
        .iter()
        .map(|node| Written {
            r#type: type_of(node.kind()),
            key: node.key(),
            value: node.value(),
            expiry: node.expiry(),
            context: context(node),
        })
        .collect()
}

fn type_of(kind: &Kind) -> &'static str {
    match kind {
        Kind::Inheritance(_) => "inheritance",
        Kind::Prefix(..) => "prefix",
        Kind::Suffix(..) => "suffix",
        Kind::Meta(..) => "meta",
        Kind::Weight(_) => "weight",
        Kind::DisplayName(_) => "display_name",
        Kind::Regex(_) => "regex_permission",
        Kind::Permission(_) => "permission",
    }
}

fn context(node: &Node) -> BTreeMap<&str, Values<'_>> {
    let mut by_key: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, value) in node.contexts().iter() {
        by_key.entry(key).or_default().push(value);
    }
    let values = |values: Vec<_>| if let [one] = values[..] { Values::One(one) } else { Values::Several(values) };
    by_key.into_iter().map(|(key, several)| (key, values(several))).collect()
}
