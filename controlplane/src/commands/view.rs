//! The commands as this replica knows them: every change of one wakes those who wait for it, and a new one its node's stream.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use moonbridge_proto::v1;
use tokio::sync::{Notify, broadcast};

use super::{decode, is_terminal};
use crate::follow::View;
use crate::keys;
use crate::store::{Batch, Entry, Event, StoreRevision};

/// Changes that a waiter may lag behind; one that lags more looks everything up again.
const CHANGES: usize = 4096;

/// A command, and the revision that last changed it.
#[derive(Debug, Clone)]
pub(crate) struct Tracked {
    pub(crate) command: Arc<v1::Command>,
    pub(crate) modified: StoreRevision,
}

impl Tracked {
    pub(crate) fn new(command: v1::Command, modified: StoreRevision) -> Self {
        Self { command: Arc::new(command), modified }
    }
}

/// The commands as this replica knows them: a little behind the store. Bounded as the records are.
pub(crate) struct Commands {
    state: Mutex<State>,
    changes: broadcast::Sender<Tracked>,
}

#[derive(Default)]
struct State {
    /// By id, and so by age.
    all: BTreeMap<String, Tracked>,
    /// Those that have not ended, by node.
    open: HashMap<String, BTreeSet<String>>,
    /// What the view has been brought to by the store's watch.
    revision: StoreRevision,
    /// The streams of this replica's nodes.
    wakers: HashMap<String, Arc<Notify>>,
}

impl Commands {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changes: broadcast::Sender::new(CHANGES) })
    }

    pub(crate) fn get(&self, id: &str) -> Option<Tracked> {
        self.lock().all.get(id).cloned()
    }

    /// Every change from here on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Tracked> {
        self.changes.subscribe()
    }

    /// The commands of a node that have not ended, oldest first.
    pub(crate) fn open_of(&self, node: &str) -> Vec<Tracked> {
        let state = self.lock();
        let ids = state.open.get(node).into_iter().flatten();
        ids.filter_map(|id| state.all.get(id)).cloned().collect()
    }

    /// All that have not ended.
    pub(crate) fn open(&self) -> Vec<Tracked> {
        let state = self.lock();
        state.open.values().flatten().filter_map(|id| state.all.get(id)).cloned().collect()
    }

    /// How many have not ended.
    pub(crate) fn open_count(&self) -> usize {
        self.lock().open.values().map(BTreeSet::len).sum()
    }

    /// Those that have ended and were last changed before `old`, or before `settled` and are more than `most`; oldest first.
    pub(crate) fn outdated(&self, old: i64, settled: i64, most: usize) -> Vec<String> {
        let state = self.lock();
        let ended: Vec<_> = state.all.values().filter(|tracked| is_terminal(&tracked.command)).collect();
        let over = ended.len().saturating_sub(most);
        let outdated = ended.into_iter().enumerate().filter(|(index, tracked)| {
            let changed = tracked.command.updated_unix_ms;
            changed < old || (*index < over && changed < settled)
        });
        outdated.map(|(_, tracked)| tracked.command.id.clone()).collect()
    }

    /// Has `waker` notified when there is a new command for the node.
    pub(crate) fn wake(&self, node: &str, waker: Arc<Notify>) {
        self.lock().wakers.insert(node.to_owned(), waker);
    }

    /// Ends what [`Commands::wake`] began, unless somebody else has begun since.
    pub(crate) fn stop_waking(&self, node: &str, waker: &Arc<Notify>) {
        let mut state = self.lock();
        if state.wakers.get(node).is_some_and(|current| Arc::ptr_eq(current, waker)) {
            state.wakers.remove(node);
        }
    }

    /// Enters what this replica has itself just written or read, before the watch brings it.
    pub(crate) fn note(&self, changed: impl IntoIterator<Item = Tracked>) {
        let mut state = self.lock();
        for tracked in changed {
            // What the watch has passed already may be gone again.
            if tracked.modified > state.revision {
                self.enter(&mut state, tracked);
            }
        }
    }

    fn enter(&self, state: &mut State, tracked: Tracked) {
        let id = &tracked.command.id;
        if state.all.get(id).is_some_and(|known| known.modified >= tracked.modified) {
            return;
        }
        let node = &tracked.command.node_id;
        if is_terminal(&tracked.command) {
            state.close(node, id);
        } else if state.open.entry(node.clone()).or_default().insert(id.clone())
            && let Some(waker) = state.wakers.get(node)
        {
            waker.notify_one();
        }
        state.all.insert(id.clone(), tracked.clone());
        // Nobody waits: fine.
        let _ = self.changes.send(tracked);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn close(&mut self, node: &str, id: &str) {
        if let Some(open) = self.open.get_mut(node) {
            open.remove(id);
            if open.is_empty() {
                self.open.remove(node);
            }
        }
    }

    fn remove(&mut self, id: &str) {
        if let Some(tracked) = self.all.remove(id) {
            self.close(&tracked.command.node_id, id);
        }
    }
}

/// Keeps [`Commands`] equal to the store.
pub(crate) struct Follower(pub(crate) Arc<Commands>);

impl View for Follower {
    fn reset(&mut self, entries: Vec<Entry>, revision: StoreRevision) {
        let mut state = self.0.lock();
        let listed: BTreeSet<&str> = entries.iter().filter_map(|entry| keys::command_id(&entry.key)).collect();
        let old = state.all.iter().filter(|(_, tracked)| tracked.modified <= revision).map(|(id, _)| id);
        let gone: Vec<String> = old.filter(|id| !listed.contains(id.as_str())).cloned().collect();
        for id in gone {
            state.remove(&id);
        }
        for tracked in entries.iter().filter_map(decode) {
            self.0.enter(&mut state, tracked);
        }
        state.revision = revision;
    }

    fn apply(&mut self, batch: Batch) {
        let mut state = self.0.lock();
        for event in batch.events {
            match event {
                Event::Put(entry) => {
                    if let Some(tracked) = decode(&entry) {
                        self.0.enter(&mut state, tracked);
                    }
                }
                Event::Delete { key, .. } => {
                    if let Some(id) = keys::command_id(&key) {
                        state.remove(id);
                    }
                }
            }
        }
        state.revision = batch.revision;
    }
}

#[cfg(test)]
mod tests {
    use moonbridge_proto::v1::CommandState;
    use prost::Message;

    use super::*;

    fn command(id: &str, state: CommandState, updated: i64) -> v1::Command {
        v1::Command { id: id.to_owned(), node_id: "n".to_owned(), state: state.into(), updated_unix_ms: updated, ..v1::Command::default() }
    }

    fn put(command: &v1::Command, modified: StoreRevision) -> Event {
        Event::Put(Entry { key: keys::command(&command.id), value: command.encode_to_vec(), modified, lease: 0 })
    }

    #[test]
    fn an_older_change_does_not_undo_a_noted_one_and_a_noted_one_does_not_undo_a_removal() {
        let commands = Commands::new();
        let mut view = Follower(commands.clone());
        commands.note([Tracked::new(command("c", CommandState::Succeeded, 0), 5)]);
        view.apply(Batch { revision: 4, events: vec![put(&command("c", CommandState::Pending, 0), 4)] });
        assert_eq!(commands.get("c").map(|at| at.command.state()), Some(CommandState::Succeeded));
        assert!(commands.open_of("n").is_empty());
        view.apply(Batch { revision: 6, events: vec![Event::Delete { key: keys::command("c"), modified: 6 }] });
        commands.note([Tracked::new(command("c", CommandState::Succeeded, 0), 5)]);
        assert!(commands.get("c").is_none());
    }

    #[tokio::test]
    async fn a_new_command_wakes_its_node_and_an_end_closes_it() {
        let commands = Commands::new();
        let waker = Arc::new(Notify::new());
        commands.wake("n", waker.clone());
        let mut changes = commands.subscribe();
        let mut view = Follower(commands.clone());
        view.apply(Batch { revision: 1, events: vec![put(&command("c", CommandState::Pending, 0), 1)] });
        waker.notified().await;
        assert_eq!((commands.open_of("n").len(), commands.open_count()), (1, 1));
        view.apply(Batch { revision: 2, events: vec![put(&command("c", CommandState::Failed, 0), 2)] });
        assert_eq!(commands.open_count(), 0);
        assert_eq!(changes.recv().await.expect("first").command.state(), CommandState::Pending);
        assert_eq!(changes.recv().await.expect("second").command.state(), CommandState::Failed);
    }

    #[test]
    fn records_are_outdated_by_age_and_by_number_but_never_while_open() {
        let commands = Commands::new();
        let all = [
            command("a", CommandState::Running, 1),
            command("b", CommandState::Succeeded, 10),
            command("c", CommandState::Failed, 20),
            command("d", CommandState::Expired, 30),
        ];
        let events = all.iter().map(|command| put(command, 1)).collect();
        Follower(commands.clone()).apply(Batch { revision: 1, events });
        assert_eq!(commands.outdated(0, 100, 10), Vec::<String>::new());
        assert_eq!(commands.outdated(11, 100, 10), ["b"]);
        assert_eq!(commands.outdated(0, 100, 1), ["b", "c"]);
        assert_eq!(commands.outdated(0, 11, 1), ["b"], "one that has just ended stays, however many there are");
        assert_eq!(commands.outdated(0, 0, 0), Vec::<String>::new());
    }

    #[test]
    fn a_listing_removes_what_it_lacks_but_not_what_is_newer() {
        let commands = Commands::new();
        let mut view = Follower(commands.clone());
        commands
            .note([Tracked::new(command("old", CommandState::Pending, 0), 3), Tracked::new(command("new", CommandState::Pending, 0), 9)]);
        view.reset(Vec::new(), 5);
        assert!(commands.get("old").is_none() && commands.get("new").is_some());
        assert_eq!(commands.open_count(), 1);
    }
}
