//! `moonbridge permission export`: LuckPerms' form, written as it comes. What cannot be read is left out, and named.

mod target;

use std::io;
use std::path::Path;

use moonbridge_permissions::format::luckperms::Writer;
use moonbridge_permissions::{Group, Track, User};
use moonbridge_proto::v1::{self, permission_record::Record};
use serde_json::json;

use self::target::Target;
use super::super::Session;
use crate::control::refused;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Listing};
use crate::time;

/// Runs the verb.
pub(super) async fn run(mut session: Session, path: &Path) -> Outcome {
    let failed = |problem: Problem| problem.told(path);
    let target = Target::open(path).map_err(|error| failed(error.into()))?;
    let mut records = session.permissions.export(v1::ExportRequest {}).await.map_err(refused)?.into_inner();
    let mut export = Export::new(target);
    while let Some(record) = records.message().await.map_err(refused)? {
        if let Some(record) = record.record {
            export.add(record).map_err(failed)?;
        }
    }
    let (groups, tracks, users) = (export.groups.len(), export.tracks.len(), export.users);
    let left_out = std::mem::take(&mut export.left_out);
    export.finish().map_err(failed)?;
    for what in &left_out {
        output::note(&format!("left out, since it cannot be read: {what}"));
    }
    let what = format!("groups: {groups}, tracks: {tracks}, users: {users}");
    if path == Path::new("-") {
        output::note(&format!("exported {what}"));
        return Ok(());
    }
    let mut thing = Listing::new(&["file", "groups", "tracks", "users", "left_out"]);
    thing.push([json!(path.display().to_string()), json!(groups), json!(tracks), json!(users), json!(left_out)]);
    session.done(&format!("exported to {}; {what}", path.display()), &thing)
}

/// Why an export ends too soon.
#[derive(Debug)]
struct Problem(io::Error);

impl Problem {
    /// For people. A reader that has gone ends the command quietly.
    fn told(self, path: &Path) -> Failure {
        match self.0.kind() {
            io::ErrorKind::BrokenPipe => Failure::output_closed(),
            _ => Failure::failed(format!("cannot write {}: {}", path.display(), self.0)),
        }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Problem(error)
    }
}

/// An export on its way: groups and tracks come first and are few, users go through one by one.
struct Export {
    groups: Vec<Group>,
    tracks: Vec<Track>,
    users: u64,
    left_out: Vec<String>,
    state: State,
}

enum State {
    Begun(Target),
    Users(Writer<Target>),
    /// Something could not be written.
    Broken,
}

impl Export {
    fn new(target: Target) -> Self {
        Export { groups: Vec::new(), tracks: Vec::new(), users: 0, left_out: Vec::new(), state: State::Begun(target) }
    }

    fn add(&mut self, record: Record) -> Result<(), Problem> {
        match record {
            Record::Group(raw) => match Group::try_from(&raw) {
                Ok(group) => self.groups.push(group),
                Err(_) => self.left_out.push(format!("group {}", raw.name)),
            },
            Record::Track(raw) => match Track::try_from(&raw) {
                Ok(track) => self.tracks.push(track),
                Err(_) => self.left_out.push(format!("track {}", raw.name)),
            },
            Record::User(raw) => match User::try_from(&raw) {
                Ok(user) => {
                    let mut writer = self.writer()?;
                    writer.user(&user)?;
                    self.state = State::Users(writer);
                    self.users += 1;
                }
                Err(_) => self.left_out.push(format!("user {}", raw.uuid)),
            },
            Record::Unreadable(key) => self.left_out.push(key),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), Problem> {
        Ok(self.writer()?.finish()?.finish()?)
    }

    fn writer(&mut self) -> Result<Writer<Target>, Problem> {
        match std::mem::replace(&mut self.state, State::Broken) {
            State::Users(writer) => Ok(writer),
            State::Begun(target) => Ok(Writer::new(target, &moment(), &self.groups, &self.tracks)?),
            State::Broken => Err(io::Error::other("it could not be written before").into()),
        }
    }
}

/// Now, as LuckPerms writes it: `2026-01-02 03:04:05 UTC`.
fn moment() -> String {
    let now = time::rfc3339(time::now().saturating_mul(1_000)).unwrap_or_default();
    now.replace('T', " ").replace('Z', " UTC")
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Read;

    use flate2::read::GzDecoder;
    use moonbridge_permissions::format::luckperms;

    use super::*;

    fn records() -> Vec<Record> {
        let node = |key: &str| v1::PermissionNode { key: key.to_owned(), value: true, contexts: Vec::new(), expiry: 0 };
        let user = |uuid: &str| v1::PermissionUser { uuid: uuid.to_owned(), nodes: vec![node("a.b")], ..Default::default() };
        vec![
            Record::Group(v1::PermissionGroup { name: "mod".to_owned(), nodes: vec![node("weight.5")] }),
            Record::Track(v1::PermissionTrack { name: "staff".to_owned(), groups: vec!["mod".to_owned()] }),
            Record::User(user("00000000-0000-0000-0000-000000000001")),
            Record::User(user("00000000-0000-0000-0000-000000000002")),
        ]
    }

    fn export(path: &Path, records: &[Record]) {
        let mut export = Export::new(Target::open(path).unwrap());
        for record in records {
            export.add(record.clone()).unwrap();
        }
        export.finish().unwrap();
    }

    #[test]
    fn what_is_written_is_read_again_compressed_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, gzip) = (folder.path().join("out.json"), folder.path().join("out.json.gz"));
        for path in [&plain, &gzip, &plain] {
            export(path, &records());
        }
        let mut unpacked = String::new();
        GzDecoder::new(File::open(&gzip).unwrap()).read_to_string(&mut unpacked).unwrap();
        for text in [fs::read_to_string(&plain).unwrap(), unpacked] {
            let read = luckperms::read(text.as_bytes()).unwrap();
            assert_eq!((read.groups.len(), read.tracks.len(), read.users.len(), read.left_out.len()), (1, 1, 2, 0), "{text}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file stays");
        export(&plain, &[]);
        assert!(luckperms::read(File::open(&plain).unwrap()).unwrap().users.is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_left_out_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        let mut export = Export::new(Target::open(&path).unwrap());
        let bad = Record::User(v1::PermissionUser { uuid: "nobody".to_owned(), ..Default::default() });
        for record in records().into_iter().chain([bad, Record::Unreadable("permissions/users/0/x".to_owned())]) {
            export.add(record).unwrap();
        }
        assert_eq!((export.users, export.left_out.as_slice()), (2, &["user nobody".to_owned(), "permissions/users/0/x".to_owned()][..]));
        export.finish().unwrap();
        assert_eq!(luckperms::read(File::open(&path).unwrap()).unwrap().users.len(), 2);
    }
}
