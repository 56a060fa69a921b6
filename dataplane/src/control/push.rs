//! Snapshots and deltas: validated whole, then in force or refused; what is refused changes nothing.

use moonbridge_proto::snapshot::{Revision, Snapshot};
use moonbridge_proto::v1;

/// What the replica wants to be in force.
#[derive(Debug, Clone)]
pub(super) enum Push {
    /// All of it.
    Snapshot(v1::Snapshot),
    /// The way from a revision to a later one.
    Delta(v1::SnapshotDelta),
}

impl Push {
    /// The snapshot to put in force, or the refusal to answer with.
    pub(super) fn validate(self, held: Option<&Snapshot>) -> Result<Snapshot, v1::Nack> {
        let revision = match &self {
            Self::Snapshot(snapshot) => snapshot.revision.clone(),
            Self::Delta(delta) => delta.to.clone(),
        };
        let validated = match self {
            Self::Snapshot(snapshot) => Snapshot::try_from(snapshot),
            Self::Delta(delta) => follow(held, &delta),
        };
        validated.map_err(|errors| v1::Nack { revision, errors })
    }
}

fn follow(held: Option<&Snapshot>, delta: &v1::SnapshotDelta) -> Result<Snapshot, Vec<v1::FieldError>> {
    let from = delta.from.clone().map(Revision::from);
    match held {
        Some(held) if from.as_ref() == Some(&held.revision) => held.apply(delta),
        Some(held) => Err(vec![wrong_base(format!("this node holds {}: send it a full snapshot", held.revision))]),
        None => Err(vec![wrong_base("this node holds no snapshot: send it a full one".to_owned())]),
    }
}

fn wrong_base(problem: String) -> v1::FieldError {
    v1::FieldError { path: "from".to_owned(), problem }
}
