//! Pages of listings, each listing of one revision.

use prost::Message;
use tonic::Status;

use crate::status;
use crate::store::{List, Store, StoreRevision};

const DEFAULT: usize = 500;
const MOST: usize = 1_000;
/// Entries read from the store at once, at least, however few are wanted.
const LEAST_READ: usize = 100;
/// A page ends when it has so many bytes: records of the audit may be long.
const MOST_BYTES: usize = 4 << 20;

/// A page of the values below `prefix` that `keep` wants, and the token of the next one.
pub(super) async fn page<T: Message + Default>(
    store: &dyn Store,
    prefix: &str,
    at: (u32, &str),
    keep: impl Fn(&T) -> bool,
) -> Result<(Vec<T>, String), Status> {
    page_while(store, prefix, at, |_| true, keep).await
}

/// The same of a listing that is over with the first value that is not `within`.
pub(super) async fn page_while<T: Message + Default>(
    store: &dyn Store,
    prefix: &str,
    (size, token): (u32, &str),
    within: impl Fn(&T) -> bool,
    keep: impl Fn(&T) -> bool,
) -> Result<(Vec<T>, String), Status> {
    let size = match usize::try_from(size).unwrap_or(MOST) {
        0 => DEFAULT,
        size => size.min(MOST),
    };
    let (at, after) = read_token(token, prefix)?;
    let mut list = List { prefix: prefix.to_owned(), after, limit: size.max(LEAST_READ), at };
    let (mut values, mut bytes) = (Vec::new(), 0);
    loop {
        let read = store.list(list.clone()).await.map_err(status::page)?;
        list.at = Some(read.revision);
        let mut left = read.entries.len();
        for entry in read.entries {
            left -= 1;
            match T::decode(&*entry.value) {
                Ok(value) if !within(&value) => return Ok((values, String::new())),
                Ok(value) if keep(&value) => {
                    bytes += entry.value.len();
                    values.push(value);
                }
                Ok(_) => {}
                Err(error) => tracing::error!(key = entry.key, %error, "this record in the store cannot be read"),
            }
            list.after = entry.key;
            if values.len() == size || bytes >= MOST_BYTES {
                let more = left > 0 || read.more;
                return Ok((values, if more { format!("{}/{}", read.revision, list.after) } else { String::new() }));
            }
        }
        if !read.more {
            return Ok((values, String::new()));
        }
    }
}

fn read_token(token: &str, prefix: &str) -> Result<(Option<StoreRevision>, String), Status> {
    if token.is_empty() {
        return Ok((None, String::new()));
    }
    let read = token.split_once('/').and_then(|(revision, after)| Some((revision.parse().ok()?, after)));
    match read {
        Some((revision, after)) if after.starts_with(prefix) => Ok((Some(revision), after.to_owned())),
        _ => Err(status::wrong_page_token()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_of_the_same_listing_or_refused() {
        assert_eq!(read_token("", "a/").expect("none"), (None, String::new()));
        assert_eq!(read_token("7/a/b", "a/").expect("a token"), (Some(7), "a/b".to_owned()));
        for wrong in ["7", "x/a/b", "7/c/b", "/a/b", "-1/a/b"] {
            assert!(read_token(wrong, "a/").is_err(), "{wrong}");
        }
    }
}
