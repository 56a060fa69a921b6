//! Reading an export: node by node, so that no more than what comes of it is held.

mod file;
mod node;

use std::collections::HashSet;
use std::io::{BufReader, Read};
use std::sync::Arc;

use uuid::Uuid;

use self::file::{File, Holder, Nodes};
use crate::format::{FormatError, Gathered, Imported, LeftOut, shown};
use crate::holder::{self, DEFAULT_GROUP, Group, User};
use crate::track::Track;

/// Reads an export, uncompressed; how much is for the caller to limit. What of it alone cannot be used is left out and named.
///
/// # Errors
/// If it is none, or names a user, group or track twice, in whatever spelling.
pub fn read(json: impl Read) -> Result<Imported, FormatError> {
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(json));
    let file = File::read(&mut json)?;
    json.end()?;
    let mut gathered = Gathered::default();
    for (name, group) in file.groups.0 {
        gathered.group(format!("groups.{}", shown(&name)), &name, group)?;
    }
    for (name, track) in file.tracks.0 {
        gathered.track(format!("tracks.{}", shown(&name)), &name, &track.groups.0)?;
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
        let Nodes { taken, left_out, more_left_out } = holder.nodes;
        match Group::new(name, taken) {
            Ok(group) => {
                self.nodes_left_out(&path, left_out, more_left_out);
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
        let (mut names, mut seen): (Vec<Arc<str>>, HashSet<Arc<str>>) = Default::default();
        for (index, group) in groups.iter().enumerate() {
            match holder::name(group) {
                Ok(group) if !seen.insert(Arc::clone(&group)) => {
                    self.leave_out(format!("{path}.groups[{index}]"), format!("{group} twice"))
                }
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
        self.nodes_left_out(&path, nodes.left_out, nodes.more_left_out);
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
        match &*holder.kind.to_lowercase() {
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

    fn nodes_left_out(&mut self, holder: &str, nodes: Vec<LeftOut>, more: usize) {
        for LeftOut { path, problem } in nodes {
            self.leave_out(format!("{holder}.{path}"), problem);
        }
        self.more_left_out += more;
    }
}

fn twice(path: String, what: &str, name: &str) -> FormatError {
    FormatError::Invalid { path, problem: format!("the {what} {name} is there twice; take one of them out") }
}
