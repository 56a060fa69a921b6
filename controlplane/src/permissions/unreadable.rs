//! What is stored and cannot be read: something else than this wrote it. It is left out wherever much is listed, refused where it is the
//! very thing that is asked for, and can be cleared, deleted or replaced like anything else.

use moonbridge_proto::v1::FieldError;
use prost::Message;
use tonic::Status;

use super::head;
use crate::snapshots::shown;
use crate::store::{Entry, StoreError};

/// What the audit says of it when it goes.
pub(super) const BEFORE: &str = "what could not be read";
const WHAT_TO_DO: &str = "clear it, delete it, or import it anew";

/// What an entry stands for.
///
/// # Errors
/// `DATA_LOSS`, saying what to do.
pub(super) fn read<M, T>(entry: &Entry) -> Result<T, Status>
where
    M: Message + Default,
    T: for<'a> TryFrom<&'a M, Error = Vec<FieldError>>,
{
    let raw: M = head::decode(entry).map_err(refused)?;
    T::try_from(&raw).map_err(|mistakes| lost(&format!("{} cannot be used ({})", entry.key, shown(&mistakes))))
}

/// A failure of the store, or of reading what it has.
pub(super) fn refused(error: StoreError) -> Status {
    match error {
        StoreError::Damaged(what) => lost(&what),
        error => crate::status::store(error),
    }
}

fn lost(what: &str) -> Status {
    Status::data_loss(format!("in the store {what}: {WHAT_TO_DO}"))
}

/// Says that something is left out.
pub(super) fn skipped(key: &str) {
    tracing::error!(key, "this permission record cannot be read and is left out: {WHAT_TO_DO}");
}
