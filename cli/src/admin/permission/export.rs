//! `moonbridge permission export`: LuckPerms' form, written as it comes.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use moonbridge_permissions::format::luckperms::Writer;
use moonbridge_permissions::{Group, Track, User};
use moonbridge_proto::v1::{self, permission_record::Record};
use serde_json::json;
use tempfile::NamedTempFile;

use super::super::Session;
use crate::control::refused;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Listing};
use crate::time;

/// Runs the verb.
pub(super) async fn run(mut session: Session, path: &Path) -> Outcome {
    let target = Target::open(path)?;
    let failed = target.failed(path);
    let mut records = session.permissions.export(v1::ExportRequest {}).await.map_err(refused)?.into_inner();
    let mut export = Export::new(target);
    while let Some(record) = records.message().await.map_err(refused)? {
        let Some(record) = record.record else { continue };
        export.add(&record).map_err(|problem| problem.told(&failed))?;
    }
    let (groups, tracks, users) = (export.groups.len(), export.tracks.len(), export.users);
    export.finish().map_err(|problem| problem.told(&failed))?;
    let text = format!("{groups} groups, {tracks} tracks and {users} users are in {}", path.display());
    if path == Path::new("-") {
        output::note(&text.replace(" are in -", " written"));
        return Ok(());
    }
    let mut thing = Listing::new(&["file", "groups", "tracks", "users"]);
    thing.push([json!(path.display().to_string()), json!(groups), json!(tracks), json!(users)]);
    session.done(&text, &thing)
}

/// Why an export ends too soon.
#[derive(Debug)]
enum Problem {
    Output(io::Error),
    /// Something that this version cannot read.
    Record(String),
}

impl Problem {
    fn told(self, output: &impl Fn(io::Error) -> Failure) -> Failure {
        match self {
            Problem::Output(error) => output(error),
            Problem::Record(what) => Failure::failed(format!("cannot export {what}: is the control plane of another version?")),
        }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Problem::Output(error)
    }
}

/// An export on its way: groups and tracks come first and are few, users go through one by one.
struct Export {
    groups: Vec<Group>,
    tracks: Vec<Track>,
    users: u64,
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
        Export { groups: Vec::new(), tracks: Vec::new(), users: 0, state: State::Begun(target) }
    }

    fn add(&mut self, record: &Record) -> Result<(), Problem> {
        let unreadable = |what: &str, name: &str| Problem::Record(format!("the {what} {name:?}"));
        match record {
            Record::Group(raw) => self.groups.push(Group::try_from(raw).map_err(|_| unreadable("group", &raw.name))?),
            Record::Track(raw) => self.tracks.push(Track::try_from(raw).map_err(|_| unreadable("track", &raw.name))?),
            Record::User(raw) => {
                let user = User::try_from(raw).map_err(|_| unreadable("user", &raw.uuid))?;
                let mut writer = self.writer()?;
                writer.user(&user)?;
                self.state = State::Users(writer);
                self.users += 1;
            }
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

/// Where an export goes.
enum Target {
    Plain(BufWriter<Place>),
    Gzip(GzEncoder<BufWriter<Place>>),
}

/// The file, or what stands for it until it is whole.
enum Place {
    Stdout(io::Stdout),
    /// A pipe or a device.
    Special(File),
    /// Beside the file that it becomes.
    Temporary(NamedTempFile, PathBuf),
}

impl Target {
    fn open(path: &Path) -> Outcome<Target> {
        let place = match path == Path::new("-") {
            true => Place::Stdout(io::stdout()),
            false => Place::open(path).map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?,
        };
        let out = BufWriter::with_capacity(1 << 16, place);
        Ok(match path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz")) {
            true => Target::Gzip(GzEncoder::new(out, Compression::default())),
            false => Target::Plain(out),
        })
    }

    /// What a failure to write is for people. A reader that has gone ends the command quietly.
    fn failed(&self, path: &Path) -> impl Fn(io::Error) -> Failure + use<> {
        let path = path.display().to_string();
        move |error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::output_closed(),
            _ => Failure::failed(format!("cannot write {path}: {error}")),
        }
    }

    fn finish(self) -> io::Result<()> {
        let mut out = match self {
            Target::Plain(out) => out,
            Target::Gzip(out) => out.finish()?,
        };
        out.flush()?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.finish()
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Target::Plain(out) => out.write(bytes),
            Target::Gzip(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Target::Plain(out) => out.flush(),
            Target::Gzip(out) => out.flush(),
        }
    }
}

impl Place {
    fn open(path: &Path) -> io::Result<Place> {
        let known = match fs::metadata(path) {
            Ok(known) => known,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Place::beside(path.to_owned(), 0o666),
            Err(error) => return Err(error),
        };
        // What a link leads to is replaced, not the link; and no device is.
        match known.is_file() {
            true => Place::beside(fs::canonicalize(path)?, known.permissions().mode()),
            false => Ok(Place::Special(OpenOptions::new().write(true).open(path)?)),
        }
    }

    fn beside(path: PathBuf, mode: u32) -> io::Result<Place> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".moonbridge-export-").permissions(Permissions::from_mode(mode & 0o777));
        Ok(Place::Temporary(builder.tempfile_in(folder)?, path))
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Place::Stdout(mut out) => out.flush(),
            Place::Special(mut out) => out.flush(),
            Place::Temporary(file, path) => {
                file.as_file().sync_all()?;
                file.persist(path).map(drop).map_err(|error| error.error)
            }
        }
    }
}

impl Write for Place {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Place::Stdout(out) => out.write(bytes),
            Place::Special(out) => out.write(bytes),
            Place::Temporary(out, _) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Place::Stdout(out) => out.flush(),
            Place::Special(out) => out.flush(),
            Place::Temporary(out, _) => out.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
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
            export.add(record).unwrap();
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
    fn a_file_is_whole_or_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("out.json"), folder.path().join("link.json"));
        fs::write(&path, "before").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut begun = Export::new(Target::open(&link).unwrap());
        for record in records() {
            begun.add(&record).unwrap();
        }
        drop(begun);
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        export(&link, &records());
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&path).unwrap().contains("staff"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_device_stays_a_device_and_a_folder_is_refused() {
        export(Path::new("/dev/null"), &records());
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let folder = tempfile::tempdir().unwrap();
        for bad in [folder.path().to_owned(), folder.path().join("no/such/folder.json")] {
            let failure = Target::open(&bad).err().unwrap();
            assert!(failure.code == 1 && failure.message.contains(&bad.display().to_string()), "{failure}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        let mut export = Export::new(Target::open(&path).unwrap());
        let bad = Record::User(v1::PermissionUser { uuid: "nobody".to_owned(), ..Default::default() });
        assert!(matches!(export.add(&bad), Err(Problem::Record(what)) if what.contains("nobody")));
    }
}
