//! Ends what nobody else ends: commands that are overdue, commands whose node is gone, and records that are old.
//!
//! Every replica sweeps; compare-and-put makes that safe, jitter makes it cheap.

use std::time::Duration;

use moonbridge_proto::v1::{self, CommandState};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Commands, Step, is_terminal, now_ms, take};
use crate::keys;
use crate::presence::Presence;
use crate::store::{Change, MAX_OPERATIONS, Store, StoreError, Txn};

/// How long a record is kept after its command has ended.
const KEPT: Duration = Duration::from_secs(3600);
/// How many records of commands that have ended are kept, beside those younger than [`SETTLED`].
const MOST: usize = 10_000;
/// A record is kept so long however many there are: whoever made many commands at once can still look at (and watch) each of them.
const SETTLED: Duration = Duration::from_secs(120);
/// Records are looked through this often.
const PRUNE_EVERY: Duration = Duration::from_secs(10);
const SWEEP_EVERY: Duration = Duration::from_millis(500);

/// Sweeps until `shutdown`. For `grace` from now, a node without presence is taken for one that has not come back yet, unless it
/// was seen going.
pub(crate) async fn run(store: &dyn Store, commands: &Commands, presence: &Presence, grace: Duration, shutdown: CancellationToken) {
    let _ = shutdown.run_until_cancelled(sweep_for_ever(store, commands, presence, grace)).await;
}

async fn sweep_for_ever(store: &dyn Store, commands: &Commands, presence: &Presence, grace: Duration) {
    let grace_ends = Instant::now() + grace;
    let mut pruned = Instant::now();
    loop {
        let in_grace = Instant::now() < grace_ends;
        if !in_grace {
            presence.forget_gone();
        }
        if let Err(error) = sweep(store, commands, presence, in_grace).await {
            tracing::warn!(%error, "cannot end overdue commands, trying again");
        }
        if pruned.elapsed() > PRUNE_EVERY {
            pruned = Instant::now();
            if let Err(error) = prune(store, commands).await {
                tracing::warn!(%error, "cannot remove old commands, trying again");
            }
        }
        let pause = SWEEP_EVERY.mul_f64(0.75 + fastrand::f64() / 2.0);
        // A node that went must not keep its commands waiting; at most so often all the same.
        let _ = tokio::time::timeout(pause, presence.node_gone.notified()).await;
    }
}

async fn sweep(store: &dyn Store, commands: &Commands, presence: &Presence, in_grace: bool) -> Result<(), StoreError> {
    let now = now_ms();
    let (mut lost, mut overdue) = (Vec::new(), Vec::new());
    for tracked in commands.open() {
        let command = &tracked.command;
        let gone = if in_grace { presence.saw_going(&command.node_id) } else { !presence.has_node(&command.node_id) };
        if gone && *presence.synced().borrow() {
            lost.push((command.id.clone(), node_lost(command)));
        } else if command.deadline_unix_ms <= now {
            overdue.push((command.id.clone(), expired(command)));
        }
    }
    // That the node is gone is asked of the store in the same transaction: this replica's view may be behind.
    take(store, commands, &lost, true).await?;
    take(store, commands, &overdue, false).await
}

/// The end of a command whose deadline has passed.
pub(crate) fn expired(command: &v1::Command) -> Step {
    let detail = match command.state() {
        CommandState::Pending => "no replica could hand it to the node in time: see `moonbridge node list`, then try again",
        CommandState::Dispatched => "the node was sent it and did not begin in time: see `moonbridge node list`, then try again",
        _ => "the node began and did not report an end in time; it may still have happened: see `moonbridge player show`",
    };
    let result = v1::CommandResult { reason: "expired".to_owned(), detail: detail.to_owned(), ..v1::CommandResult::default() };
    Step::Ended { state: CommandState::Expired, result }
}

fn node_lost(command: &v1::Command) -> Step {
    let detail = format!(
        "the node {} was lost before it reported an end: it died, or only its link to the control plane did, and its players play on; \
         see `moonbridge node list`, then `moonbridge player show`",
        command.node_id
    );
    let result = v1::CommandResult { reason: "node_lost".to_owned(), detail, ..v1::CommandResult::default() };
    Step::Ended { state: CommandState::Failed, result }
}

async fn prune(store: &dyn Store, commands: &Commands) -> Result<(), StoreError> {
    let now = now_ms();
    let ago = |time: Duration| now.saturating_sub(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    let outdated = commands.outdated(ago(KEPT), ago(SETTLED), MOST);
    // They have ended, so that nothing changes them any more; another replica may have removed them, which is as well.
    for ids in outdated.chunks(MAX_OPERATIONS) {
        let changes = ids.iter().map(|id| Change::Delete(keys::command(id))).collect();
        store.txn(Txn { compares: Vec::new(), changes }).await?;
    }
    Ok(())
}

/// Waits until the command has ended; if its deadline passes first, ends it as expired. Gives it as it is then.
pub(crate) async fn outcome(store: &dyn Store, commands: &Commands, command: v1::Command) -> Result<v1::Command, StoreError> {
    let mut changes = commands.subscribe();
    let left = u64::try_from(command.deadline_unix_ms.saturating_sub(now_ms())).unwrap_or(0);
    let deadline = Instant::now() + Duration::from_millis(left);
    loop {
        if let Some(tracked) = commands.get(&command.id)
            && is_terminal(&tracked.command)
        {
            return Ok((*tracked.command).clone());
        }
        // Lagging behind is fine: the look-up above sees the newest.
        if tokio::time::timeout_at(deadline, changes.recv()).await.is_err() {
            break;
        }
    }
    let current = super::get(store, &command.id).await?.map_or(command, |tracked| (*tracked.command).clone());
    take(store, commands, &[(current.id.clone(), expired(&current))], false).await?;
    let ended = super::get(store, &current.id).await?;
    Ok(ended.map_or(current, |tracked| (*tracked.command).clone()))
}
