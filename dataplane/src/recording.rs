//! Recordings: the sizes and times of a session's frames, for an operator who asks. No contents, not even packet ids.
//!
//! [`record`] is the whole of one. Each socket of the session has a [`Tap`] meanwhile, which follows the length prefixes of what is
//! read and puts a line's worth of every frame into a bounded queue, from which a blocking thread writes the file ([`file`] has its
//! form). The relay never waits for it: what the queue has no room for is counted. A session that is not recorded has no tap.

mod file;
mod tap;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use moonbridge_proto::v1;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::spawn_blocking;
use uuid::Uuid;

use self::file::{Draft, Ended, Origin};
pub(crate) use self::tap::Tap;
use crate::node::Node;
use crate::registry::{Outcome, Registry, SessionCommand, Undeliverable};

/// Recordings of a node at a time.
const AT_A_TIME: usize = 4;

/// Frames that wait to be written: more than a read of the smallest ones brings, and than a busy session has in a second.
const QUEUE: usize = 65_536;

/// How long a node that ends waits for its files.
const TO_FINISH: Duration = Duration::from_secs(5);

/// Which way a frame went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Clientbound,
    Serverbound,
}

/// A frame that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame {
    /// When its last byte was read, from the beginning of the recording.
    micros: u32,
    direction: Direction,
    /// Bytes of the packet id and what follows.
    length: u32,
}

/// Places for a node's recordings.
pub(crate) struct Places(Arc<Semaphore>);

impl Default for Places {
    fn default() -> Self {
        Places(Arc::new(Semaphore::new(AT_A_TIME)))
    }
}

impl Places {
    fn take(&self) -> Option<OwnedSemaphorePermit> {
        self.0.clone().try_acquire_owned().ok()
    }

    /// Waits until every file is whole, but not for ever. Their sessions have ended.
    pub(crate) async fn empty(&self) {
        let all = self.0.acquire_many(AT_A_TIME as u32);
        if crate::timer::timeout(TO_FINISH, all).await.is_err() {
            tracing::warn!("recordings could not be written to their end in time");
        }
    }
}

/// A recording as its session has it, which ends when all of these are dropped.
#[derive(Debug, Clone)]
pub struct Recording {
    frames: SyncSender<Frame>,
    began: Instant,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    missed: AtomicU64,
    /// Nothing more is written.
    over: AtomicBool,
}

impl Recording {
    fn begin() -> (Recording, Receiver<Frame>) {
        let (frames, received) = mpsc::sync_channel(QUEUE);
        (Recording { frames, began: Instant::now(), state: Arc::default() }, received)
    }

    /// What goes onto a socket of the session.
    pub(crate) fn tap(&self, direction: Direction) -> Tap {
        Tap::new(self.clone(), direction)
    }

    /// Whether nothing more is written.
    fn is_over(&self) -> bool {
        self.state.over.load(Ordering::Relaxed)
    }
}

/// Records a session's frames for so long, or to its end, and tells what has become of the file.
pub(crate) fn record(node: &Node, session: Uuid, time: Duration) -> Result<impl Future<Output = Outcome> + Send + use<>, Outcome> {
    let name = &node.config.name;
    let Some(folder) = node.config.recordings.clone() else {
        let detail = format!(
            "The node {name} does not record: give it a folder, by `recordings` in dataplane.toml or `moonbridge up --recordings DIR`, and restart it."
        );
        return Err(Outcome::failed("recordings_off", detail));
    };
    let Some(place) = node.recordings.take() else {
        let detail = format!("The node {name} records {AT_A_TIME} sessions already. Try again when one has ended.");
        return Err(Outcome::failed("too_many_recordings", detail));
    };
    let order = Order { origin: Origin { session, node: name.clone() }, time, folder, registry: node.registry.clone(), place };
    Ok(async move { order.carry_out().await.unwrap_or_else(|failed| failed) })
}

/// A recording that was asked for.
struct Order {
    origin: Origin,
    time: Duration,
    folder: PathBuf,
    registry: Arc<Registry>,
    place: OwnedSemaphorePermit,
}

impl Order {
    async fn carry_out(self) -> Result<Outcome, Outcome> {
        let Order { origin, time, folder, registry, place } = self;
        let (session, node) = (origin.session, origin.node.clone());
        let into = folder.clone();
        let draft = apart(&folder, move || match Draft::create(&into, origin) {
            // Begun in the same millisecond.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
            created => created.map(Some),
        });
        let draft = draft.await?.ok_or_else(already_recording)?;

        let (recording, frames) = Recording::begin();
        let (began, state) = (recording.began, recording.state.clone());
        let (reply, begun) = oneshot::channel();
        registry.command(&session, SessionCommand::Record { recording, reply }).map_err(|(why, _)| Outcome::from(why))?;
        let begun = begun.await.unwrap_or_else(|_| Undeliverable::Gone.into());
        if !begun.succeeded {
            return Err(begun);
        }
        tracing::info!(%session, ?time, "the session's frame sizes and times are recorded");

        let written = apart(&folder, move || {
            let _place = place;
            let written = write(draft, &frames, began, time, &state);
            state.over.store(true, Ordering::Relaxed);
            written
        });
        let recording = v1::Recording { node, ..written.await? };
        tracing::info!(%session, file = recording.file, ended = recording.ended, "the recording has ended");
        Ok(succeeded(recording))
    }
}

/// Writes what comes, until something ends it.
fn write(mut draft: Draft, frames: &Receiver<Frame>, began: Instant, time: Duration, state: &State) -> std::io::Result<v1::Recording> {
    let ended = loop {
        match frames.recv_timeout(time.saturating_sub(began.elapsed())) {
            // What came in time is still taken from the queue; its own time says whether it did.
            Ok(frame) if Duration::from_micros(frame.micros.into()) > time => break Ended::Time,
            Ok(frame) => {
                if !draft.put(frame)? {
                    break Ended::Size;
                }
            }
            Err(RecvTimeoutError::Timeout) => break Ended::Time,
            Err(RecvTimeoutError::Disconnected) => break Ended::Session,
        }
    };
    draft.finish(ended, began.elapsed().min(time), state.missed.load(Ordering::Relaxed))
}

/// Does what may block; a failure is told with the folder that it is about.
async fn apart<T: Send + 'static>(folder: &Path, work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> Result<T, Outcome> {
    let failed = |error: &dyn std::fmt::Display| {
        let folder = folder.display();
        let detail = format!(
            "The recording cannot be written to {folder} on the node: {error}. Let the node's user write there, and see that there is room."
        );
        Outcome::failed("recording_failed", detail)
    };
    match spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| failed(&error)),
        Err(error) => Err(failed(&error)),
    }
}

/// One recording of a session at a time.
pub(crate) fn already_recording() -> Outcome {
    Outcome::failed("already_recording", "This session is being recorded already. Try again when that has ended.")
}

fn succeeded(recording: v1::Recording) -> Outcome {
    let v1::Recording { node, file, frames, missed, micros, ended } = &recording;
    let why = Ended::told(ended);
    let detail = format!("The node {node} has written {file}: {frames} frames in {:.1} s ({why}), {missed} missed.", *micros as f64 / 1e6);
    let mut outcome = Outcome::ok();
    outcome.result.detail = detail;
    outcome.result.recording = Some(Box::new(recording));
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(folder: &Path) -> Vec<String> {
        let mut files = std::fs::read_dir(folder).unwrap();
        let text = std::fs::read_to_string(files.next().unwrap().unwrap().path()).unwrap();
        assert!(files.next().is_none(), "one file");
        text.lines().map(str::to_owned).collect()
    }

    fn draft(folder: &Path) -> Draft {
        Draft::create(folder, Origin { session: Uuid::nil(), node: "edge".into() }).unwrap()
    }

    #[test]
    fn what_the_queue_has_no_room_for_is_counted_and_nobody_waits() {
        let folder = tempfile::tempdir().unwrap();
        let (recording, frames) = Recording::begin();
        let mut tap = recording.tap(Direction::Clientbound);
        let two: Vec<u8> = [1, 0].repeat(QUEUE + 7);
        assert!(tap.read(&two));
        drop(tap);
        let state = recording.state.clone();
        let began = recording.began;
        drop(recording);
        let recorded = write(draft(folder.path()), &frames, began, Duration::from_secs(600), &state).unwrap();
        assert_eq!((recorded.frames, recorded.missed, recorded.ended.as_str()), (QUEUE as u64, 7, "session"));
        assert_eq!(lines(folder.path()).len(), QUEUE + 2);
    }

    #[test]
    fn a_frame_that_came_after_the_time_is_not_written_and_taps_hear_of_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let (recording, frames) = Recording::begin();
        for micros in [0, 5_000, 5_001, 0] {
            recording.frames.try_send(Frame { micros, direction: Direction::Serverbound, length: 3 }).unwrap();
        }
        let recorded = write(draft(folder.path()), &frames, recording.began, Duration::from_millis(5), &recording.state).unwrap();
        drop(frames);
        assert_eq!((recorded.frames, recorded.ended.as_str()), (2, "time"));
        assert_eq!(lines(folder.path())[1..3], ["0 s 3", "5000 s 3"]);
        assert!(!recording.tap(Direction::Serverbound).read(&[1, 0]), "there is nobody to tell");
    }

    #[tokio::test]
    async fn so_many_at_a_time() {
        let places = Places::default();
        let taken: Vec<_> = (0..AT_A_TIME).map(|_| places.take().unwrap()).collect();
        assert!(places.take().is_none());
        drop(taken);
        places.empty().await;
        assert!(places.take().is_some());
    }
}
