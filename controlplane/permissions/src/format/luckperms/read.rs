//! Reading an export: node by node, so that no more than what comes of it is held.

use std::fmt;
use std::io::{BufReader, Read};
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use uuid::Uuid;

use crate::context::Contexts;
use crate::format::{FormatError, Gathered, Imported, LeftOut, shown};
use crate::holder::{self, DEFAULT_GROUP, Group, User};
use crate::node::Node;
use crate::track::Track;

/// Reads an export, uncompressed; how much is for the caller to limit. What of it alone cannot be used is left out and named.
///
/// # Errors
/// If it is none, or names a user, group or track twice, in whatever spelling.
pub fn read(json: impl Read) -> Result<Imported, FormatError> {
    let file: File = serde_json::from_reader(BufReader::new(json))?;
    let mut gathered = Gathered::default();
    for (name, group) in file.groups.0 {
        gathered.group(format!("groups.{}", shown(&name)), &name, group)?;
    }
    for (name, track) in file.tracks.0 {
        gathered.track(format!("tracks.{}", shown(&name)), &name, &track.groups)?;
    }
    for (uuid, user) in file.users.0 {
        gathered.user(format!("users.{}", shown(&uuid)), &uuid, user)?;
    }
    for (index, (id, holder)) in file.permission_holders.0.into_iter().enumerate() {
        gathered.editors(format!("permissionHolders[{index}] ({})", shown(&id)), &id, holder)?;
    }
    Ok(gathered.into())
}

impl Gathered {
    fn group(&mut self, path: String, name: &str, holder: Holder) -> Result<(), FormatError> {
        match Group::new(name, holder.nodes.taken) {
            Ok(group) => {
                self.nodes_left_out(&path, holder.nodes.left_out);
                let name = Arc::clone(group.name());
                if let Some(group) = self.groups.insert(name, group) {
                    return Err(twice(path, "group", group.name()));
                }
            }
            Err(error) => self.leave_out(path, error),
        }
        Ok(())
    }

    fn track(&mut self, path: String, name: &str, groups: &[String]) -> Result<(), FormatError> {
        let mut names: Vec<Arc<str>> = Vec::new();
        for (index, group) in groups.iter().enumerate() {
            match holder::name(group) {
                Ok(group) if names.contains(&group) => self.leave_out(format!("{path}.groups[{index}]"), format!("{group} twice")),
                Ok(group) => names.push(group),
                Err(error) => self.leave_out(format!("{path}.groups[{index}]"), error),
            }
        }
        match Track::new(name, names.iter().map(|name| &**name)) {
            Ok(track) => {
                let name = Arc::clone(track.name());
                if let Some(track) = self.tracks.insert(name, track) {
                    return Err(twice(path, "track", track.name()));
                }
            }
            Err(error) => self.leave_out(path, error),
        }
        Ok(())
    }

    fn user(&mut self, path: String, uuid: &str, holder: Holder) -> Result<(), FormatError> {
        let Ok(uuid) = Uuid::parse_str(uuid) else {
            self.leave_out(path, "expected a UUID");
            return Ok(());
        };
        let Holder { username, primary_group, nodes, .. } = holder;
        self.nodes_left_out(&path, nodes.left_out);
        let username = username.filter(|name| match holder::name(name) {
            Ok(_) => true,
            Err(error) => {
                self.leave_out(format!("{path}.username"), error);
                false
            }
        });
        let primary_group = match primary_group.as_deref().map(holder::name) {
            Some(Ok(group)) => (&*group != DEFAULT_GROUP).then_some(group),
            Some(Err(error)) => {
                self.leave_out(format!("{path}.primaryGroup"), error);
                None
            }
            None => None,
        };
        match self.users.insert(uuid, User { uuid, username, primary_group, nodes: nodes.taken }) {
            Some(user) => Err(twice(path, "user", &user.uuid.to_string())),
            None => Ok(()),
        }
    }

    /// The web editor names users by what it shows of them: the name, or the UUID if that is all there is.
    fn editors(&mut self, path: String, id: &str, mut holder: Holder) -> Result<(), FormatError> {
        match &*holder.r#type.to_lowercase() {
            "group" => self.group(path, id, holder),
            "user" => {
                holder.username = holder.display_name.take().filter(|name| Uuid::parse_str(name).is_err());
                self.user(path, id, holder)
            }
            other => {
                self.leave_out(path, format!("expected type group or user, got {:?}", shown(other)));
                Ok(())
            }
        }
    }

    fn nodes_left_out(&mut self, holder: &str, nodes: Vec<LeftOut>) {
        self.left_out.extend(nodes.into_iter().map(|LeftOut { path, problem }| LeftOut { path: format!("{holder}.{path}"), problem }));
    }
}

fn twice(path: String, what: &str, name: &str) -> FormatError {
    FormatError::Invalid { path, problem: format!("the {what} {name} is there twice; take one of them out") }
}

#[derive(serde::Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct File {
    groups: Entries<Holder>,
    tracks: Entries<Steps>,
    users: Entries<Holder>,
    permission_holders: Entries<Holder>,
}

#[derive(serde::Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Holder {
    r#type: String,
    id: String,
    display_name: Option<String>,
    username: Option<String>,
    primary_group: Option<String>,
    nodes: Nodes,
}

#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct Steps {
    id: String,
    groups: Vec<String>,
}

/// Holders or tracks with their names: a map's keys, each as often as it comes, or what each of a list says it is.
struct Entries<T>(Vec<(String, T)>);

/// Nodes of one holder. Paths of what is left out begin at the holder.
#[derive(Default)]
struct Nodes {
    taken: Vec<Node>,
    left_out: Vec<LeftOut>,
}

/// A node as it comes: whatever is wrong with one is no reason to refuse the file.
#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct Raw {
    key: Value,
    value: Value,
    expiry: Value,
    context: Value,
}

impl Raw {
    fn node(&self) -> Result<Node, String> {
        let key = self.key.as_str().ok_or("expected a key")?;
        Node::new(key, self.truth()?, self.contexts()?, self.expires()?).map_err(|error| error.to_string())
    }

    fn truth(&self) -> Result<bool, String> {
        match &self.value {
            Value::Null => Ok(true),
            Value::Bool(value) => Ok(*value),
            Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            other => Err(format!("value: expected true or false, got {}", shown(&other.to_string()))),
        }
    }

    /// Seconds since 1970; 0 is LuckPerms' word for never. Before 1970 it has been over ever since, and must not become "never".
    fn expires(&self) -> Result<Option<i64>, String> {
        let seconds = match &self.expiry {
            Value::Null => return Ok(None),
            Value::Number(number) => number.as_i64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        match seconds {
            Some(0) => Ok(None),
            Some(seconds) if seconds > 0 => Ok(Some(seconds)),
            _ => Err(format!("expiry: expected seconds since 1970, got {}", shown(&self.expiry.to_string()))),
        }
    }

    fn contexts(&self) -> Result<Contexts, String> {
        let mut contexts = Contexts::none();
        let by_key = match &self.context {
            Value::Null => return Ok(contexts),
            Value::Object(by_key) => by_key,
            other => return Err(format!("context: expected keys and values, got {}", shown(&other.to_string()))),
        };
        for (key, values) in by_key {
            for value in values.as_array().map_or(std::slice::from_ref(values), |values| values) {
                let value = match value {
                    Value::String(text) => text.clone(),
                    Value::Number(_) | Value::Bool(_) => value.to_string(),
                    other => return Err(format!("context {}: expected text, got {}", shown(key), shown(&other.to_string()))),
                };
                contexts.add(key, &value).map_err(|error| error.to_string())?;
            }
        }
        Ok(contexts)
    }
}

impl<'de> Deserialize<'de> for Nodes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;

        impl<'de> Visitor<'de> for Each {
            type Value = Nodes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of nodes")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Nodes, A::Error> {
                let mut nodes = Nodes::default();
                let mut index = 0_usize;
                while let Some(raw) = list.next_element::<Raw>()? {
                    match raw.node() {
                        Ok(node) => nodes.taken.push(node),
                        Err(problem) => {
                            let path = format!("nodes[{index}] ({})", shown(raw.key.as_str().unwrap_or_default()));
                            nodes.left_out.push(LeftOut { path, problem });
                        }
                    }
                    index += 1;
                }
                Ok(nodes)
            }
        }

        deserializer.deserialize_seq(Each)
    }
}

/// What says itself what it is called.
trait Identified {
    fn id(&self) -> &str;
}

impl Identified for Holder {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Identified for Steps {
    fn id(&self) -> &str {
        &self.id
    }
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de> + Identified> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de> + Identified> Visitor<'de> for Each<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("entries by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Entries<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = list.next_element::<T>()? {
                    entries.push((entry.id().to_owned(), entry));
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_any(Each(PhantomData))
    }
}
