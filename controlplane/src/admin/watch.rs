//! Looking at commands.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use moonbridge_proto::v1::{self, command::Action};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::page::page;
use crate::commands::{self, Tracked, is_terminal, now_ms};
use crate::replica::Replica;
use crate::store::StoreRevision;
use crate::{keys, status};

/// Commands that one watch may name.
const MAX_IDS: usize = 100_000;
/// Commands that one listing may name.
const MAX_LISTED: usize = 1_000;
/// A command that has not ended so long after its deadline: the store is away.
const OVERDUE: Duration = Duration::from_secs(5);
/// A watcher that takes nothing for so long is gone.
const PATIENCE: Duration = Duration::from_secs(30);
/// The wait to tell a watcher why its watch ends.
const LAST_WORD: Duration = Duration::from_secs(1);

pub(super) async fn list(replica: &Replica, request: v1::ListCommandsRequest) -> Result<v1::ListCommandsResponse, Status> {
    let kind = |command: &v1::Command| match &command.action {
        Some(Action::Transfer(_)) => "transfer",
        Some(Action::Kick(_)) => "kick",
        Some(Action::Message(_)) => "message",
        Some(Action::Drain(_)) => "drain",
        Some(Action::Check(_)) => "check",
        Some(Action::Record(_)) => "record",
        None => "",
    };
    if !["", "transfer", "kick", "message", "drain", "check", "record"].contains(&request.kind.as_str()) {
        let problem = format!("kind: expected transfer, kick, message, drain, check, record or nothing, got {:?}", request.kind);
        return Err(Status::invalid_argument(problem));
    }
    let keep = |command: &v1::Command| request.kind.is_empty() || kind(command) == request.kind;
    if request.ids.is_empty() {
        let at = (request.page_size, request.page_token.as_str());
        let (commands, next_page_token) = page(&*replica.store, keys::COMMANDS, at, keep).await?;
        return Ok(v1::ListCommandsResponse { commands, next_page_token });
    }
    if request.ids.len() > MAX_LISTED {
        return Err(Status::invalid_argument(format!("ids: expected at most {MAX_LISTED}, got {}", request.ids.len())));
    }
    let mut found = Vec::new();
    for id in &request.ids {
        let command = commands::get(&*replica.store, id).await.map_err(status::store)?.ok_or_else(|| unknown(id))?;
        if keep(&command.command) {
            found.push((*command.command).clone());
        }
    }
    Ok(v1::ListCommandsResponse { commands: found, next_page_token: String::new() })
}

pub(super) async fn watch(
    replica: Arc<Replica>,
    request: v1::WatchCommandsRequest,
) -> Result<ReceiverStream<Result<v1::Command, Status>>, Status> {
    match request.ids.len() {
        0 => return Err(Status::invalid_argument("ids: expected at least one")),
        1..=MAX_IDS => {}
        count => return Err(Status::invalid_argument(format!("ids: expected at most {MAX_IDS}, got {count}"))),
    }
    // From here on no change is missed; then how things are.
    let changes = replica.commands.subscribe();
    let mut watched = Vec::with_capacity(request.ids.len());
    for id in request.ids {
        let known = match replica.commands.get(&id) {
            Some(known) => Some(known),
            None => commands::get(&*replica.store, &id).await.map_err(status::store)?,
        };
        watched.push(known.ok_or_else(|| unknown(&id))?);
    }
    let (sender, receiver) = mpsc::channel(64);
    tokio::spawn(async move {
        let shutdown = replica.shutdown.clone();
        let ended = tokio::select! {
            ended = Watcher { sender: sender.clone(), open: HashMap::new() }.run(&replica, watched, changes) => ended,
            () = sender.closed() => Ok(()),
            () = shutdown.cancelled() => Err(Status::unavailable("this replica is shutting down: ask another")),
        };
        if let Err(status) = ended {
            let _ = sender.send_timeout(Err(status), LAST_WORD).await;
        }
    });
    Ok(ReceiverStream::new(receiver))
}

fn unknown(id: &str) -> Status {
    Status::not_found(format!("there is no command {id:?}: records are kept for an hour, see `moonbridge transfer list`"))
}

struct Watcher {
    sender: mpsc::Sender<Result<v1::Command, Status>>,
    /// Those that have not ended: what was sent of each.
    open: HashMap<String, StoreRevision>,
}

impl Watcher {
    async fn run(
        mut self,
        replica: &Replica,
        watched: Vec<Tracked>,
        mut changes: tokio::sync::broadcast::Receiver<Tracked>,
    ) -> Result<(), Status> {
        let latest = watched.iter().map(|tracked| tracked.command.deadline_unix_ms).max().unwrap_or(0);
        let left = Duration::from_millis(u64::try_from(latest.saturating_sub(now_ms())).unwrap_or(0));
        let deadline = Instant::now() + left + OVERDUE;
        for tracked in &watched {
            self.open.insert(tracked.command.id.clone(), 0);
        }
        for tracked in watched {
            self.changed(tracked).await?;
        }
        while !self.open.is_empty() {
            match tokio::time::timeout_at(deadline, changes.recv()).await {
                Ok(Ok(tracked)) => self.changed(tracked).await?,
                Ok(Err(RecvError::Lagged(_))) => {
                    let ids: Vec<_> = self.open.keys().cloned().collect();
                    for id in ids {
                        match replica.commands.get(&id) {
                            Some(tracked) => self.changed(tracked).await?,
                            // It has ended, and its record was removed since (or has only just been made: then its change comes).
                            None => {
                                if commands::get(&*replica.store, &id).await.map_err(status::store)?.is_none() {
                                    self.open.remove(&id);
                                }
                            }
                        }
                    }
                }
                Ok(Err(RecvError::Closed)) => return Err(Status::unavailable("this replica is shutting down: ask another")),
                Err(_) => {
                    return Err(Status::unavailable(
                        "the deadline of the commands has passed, and the store does not say what became of them: ask again later \
                         (`moonbridge transfer show`)",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Sends a command that is watched, if it is newer than what was sent.
    async fn changed(&mut self, tracked: Tracked) -> Result<(), Status> {
        let id = &tracked.command.id;
        match self.open.get_mut(id) {
            Some(sent) if *sent < tracked.modified => *sent = tracked.modified,
            _ => return Ok(()),
        }
        if is_terminal(&tracked.command) {
            self.open.remove(id);
        }
        let gone = |_| Status::cancelled("the caller takes no messages any more");
        self.sender.send_timeout(Ok((*tracked.command).clone()), PATIENCE).await.map_err(gone)
    }
}
