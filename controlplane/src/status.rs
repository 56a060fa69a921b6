//! Errors as gRPC statuses, as the header of `admin.proto` says.

use tonic::Status;

use crate::store::StoreError;

/// A failure of the store while something was changed.
pub(crate) fn change(error: StoreError) -> Status {
    match error {
        StoreError::Unavailable(why) => Status::unavailable(format!(
            "the store is away ({why}); a change asked for may or may not have been made: look, then try again"
        )),
        error => store(error),
    }
}

/// A failure of the store while nothing was changed.
pub(crate) fn store(error: StoreError) -> Status {
    match error {
        StoreError::Unavailable(why) => Status::unavailable(format!("the store is away ({why}): try again later")),
        StoreError::Unusable(why) => Status::unavailable(why),
        StoreError::Compacted(_) => Status::aborted("the listing took so long that the store has forgotten its revision: list again"),
        StoreError::NoLease(_) => Status::aborted("the node's lease ended meanwhile: try again"),
        StoreError::Invalid(why) => Status::invalid_argument(format!("the store refuses it: {why}")),
        StoreError::Damaged(why) => Status::data_loss(format!("the store is damaged: {why}")),
    }
}

/// A failure of the store while a page was listed: what it refuses is what the caller's token says, such as a revision to come.
pub(crate) fn page(error: StoreError) -> Status {
    match error {
        StoreError::Invalid(_) => wrong_page_token(),
        error => store(error),
    }
}

/// What was given as a page's token is none of this call.
pub(crate) fn wrong_page_token() -> Status {
    Status::invalid_argument("page_token: expected what an answer to the same call gave as next_page_token")
}

/// Something that is to be 1 to `most` bytes long.
pub(crate) fn bounded(field: &str, value: &str, most: usize) -> Result<(), Status> {
    match value.len() {
        0 => Err(Status::invalid_argument(format!("{field}: missing"))),
        length if length > most => Err(Status::invalid_argument(format!("{field}: expected at most {most} bytes, got {length}"))),
        _ => Ok(()),
    }
}
