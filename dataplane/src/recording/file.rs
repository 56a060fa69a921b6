//! The file of a recording, version 1: text, a line each.
//!
//! ```text
//! {"moonbridge_frames":1,"session":"0197…","node":"edge-1","began_unix_ms":1796080000000}
//! 1520 c 34
//! 1520 c 1200
//! 2043 s 12
//! {"ended":"time","micros":60000000,"frames":3,"missed":0}
//! ```
//! Between the two objects each line is a frame: microseconds from the beginning to the read that brought its last byte, never less
//! than in the line before; `c` from the backend to the player or `s` from the player to the backend; and what its length prefix
//! says, the bytes of its packet id and what follows.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use moonbridge_proto::v1;
use serde::Serialize;
use uuid::Uuid;

use super::{Direction, Frame};

/// The longest file.
const MAX_BYTES: usize = 64 << 20;

/// Room that is kept for the last line.
const TRAILER: usize = 256;

/// Whose frames they are.
pub(super) struct Origin {
    pub(super) session: Uuid,
    pub(super) node: String,
}

/// What ended a recording.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ended {
    Time,
    Size,
    Session,
}

impl Ended {
    fn name(self) -> &'static str {
        match self {
            Ended::Time => "time",
            Ended::Size => "size",
            Ended::Session => "session",
        }
    }

    /// A name in words.
    pub(super) fn told(name: &str) -> &'static str {
        match name {
            "size" => "until the file was full",
            "session" => "until the session ended",
            _ => "for all of the time",
        }
    }
}

#[derive(Serialize)]
struct Header<'a> {
    moonbridge_frames: u32,
    session: String,
    node: &'a str,
    began_unix_ms: u128,
}

#[derive(Serialize)]
struct Trailer {
    ended: &'static str,
    micros: u64,
    frames: u64,
    missed: u64,
}

/// A file that is being written, under a name that says so; it goes unless it is finished.
pub(super) struct Draft {
    out: BufWriter<File>,
    bytes: usize,
    frames: u64,
    path: PathBuf,
    part: Part,
}

/// The draft's own name.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Draft {
    pub(super) fn create(folder: &Path, origin: Origin) -> io::Result<Draft> {
        let began_unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let path = std::path::absolute(folder)?.join(format!("{}-{began_unix_ms}.frames", origin.session));
        let part = path.with_extension("frames.part");
        let out = BufWriter::new(OpenOptions::new().write(true).create_new(true).open(&part)?);
        let mut draft = Draft { out, bytes: 0, frames: 0, path, part: Part(part) };
        let header = Header { moonbridge_frames: 1, session: origin.session.to_string(), node: &origin.node, began_unix_ms };
        draft.line(&serde_json::to_string(&header)?)?;
        Ok(draft)
    }

    /// False: there is no room for it.
    pub(super) fn put(&mut self, frame: Frame) -> io::Result<bool> {
        if self.bytes >= MAX_BYTES - TRAILER {
            return Ok(false);
        }
        let direction = match frame.direction {
            Direction::Clientbound => 'c',
            Direction::Serverbound => 's',
        };
        self.line(&format!("{} {direction} {}", frame.micros, frame.length))?;
        self.frames += 1;
        Ok(true)
    }

    /// Gives the file its own name, once all of it is on the disk.
    pub(super) fn finish(mut self, ended: Ended, lasted: Duration, missed: u64) -> io::Result<v1::Recording> {
        let (ended, frames) = (ended.name(), self.frames);
        let micros = u64::try_from(lasted.as_micros()).unwrap_or(u64::MAX);
        self.line(&serde_json::to_string(&Trailer { ended, micros, frames, missed })?)?;
        self.out.flush()?;
        self.out.get_ref().sync_all()?;
        fs::rename(&self.part.0, &self.path)?;
        let file = self.path.display().to_string();
        Ok(v1::Recording { node: String::new(), file, frames, missed, micros, ended: ended.to_owned() })
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        self.bytes += text.len() + 1;
        writeln!(self.out, "{text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn origin() -> Origin {
        Origin { session: Uuid::nil(), node: "a \"node\"".into() }
    }

    #[test]
    fn a_file_has_its_name_only_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let mut draft = Draft::create(folder.path(), origin()).unwrap();
        assert!(draft.put(Frame { micros: 7, direction: Direction::Clientbound, length: 2_097_151 }).unwrap());
        assert!(matches!(&names(folder.path())[..], [part] if part.ends_with(".frames.part")));
        let recorded = draft.finish(Ended::Time, Duration::from_secs(1), 4).unwrap();
        let [name] = &names(folder.path())[..] else { panic!("one file") };
        assert!(name.starts_with(&format!("{}-", Uuid::nil())) && name.ends_with(".frames") && recorded.file.ends_with(name));
        let text = fs::read_to_string(&recorded.file).unwrap();
        let lines: Vec<_> = text.lines().collect();
        let head: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
        assert_eq!((&head["moonbridge_frames"], &head["node"]), (&1.into(), &"a \"node\"".into()));
        assert_eq!(lines[1..], ["7 c 2097151", r#"{"ended":"time","micros":1000000,"frames":1,"missed":4}"#]);
    }

    #[test]
    fn what_is_not_finished_goes() {
        let folder = tempfile::tempdir().unwrap();
        drop(Draft::create(folder.path(), origin()).unwrap());
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_file_has_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let mut draft = Draft::create(folder.path(), origin()).unwrap();
        let frame = Frame { micros: 599_999_999, direction: Direction::Serverbound, length: 2_000_000 };
        while draft.put(frame).unwrap() {}
        let recorded = draft.finish(Ended::Size, Duration::from_secs(1), 0).unwrap();
        let bytes = fs::metadata(&recorded.file).unwrap().len() as usize;
        assert!(bytes <= MAX_BYTES && bytes > MAX_BYTES - 2 * TRAILER, "{bytes}");
        assert_eq!(recorded.ended, "size");
    }
}
