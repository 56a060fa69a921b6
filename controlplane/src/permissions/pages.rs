//! Records in the order of their keys, so users by UUID and groups by name, a page in memory at a time.

use std::collections::VecDeque;
use std::marker::PhantomData;

use moonbridge_proto::v1;
use prost::Message;

use super::head::{Head, decode};
use super::unreadable;
use crate::keys;
use crate::store::{Entry, List, Store, StoreError};

/// Records read from the store at once.
const READ: usize = 250;

/// Every stored user of a generation, one by one.
pub(super) type Users<'a> = Records<'a, v1::PermissionUser>;

/// Records of one kind, one by one.
pub(super) struct Records<'a, T> {
    store: &'a dyn Store,
    list: List,
    page: VecDeque<Entry>,
    more: bool,
    last: String,
    kind: PhantomData<T>,
}

impl<'a> Users<'a> {
    /// All of them when this head was read.
    pub(super) fn of(store: &'a dyn Store, head: &Head) -> Self {
        let prefix = keys::generation(keys::PERMISSION_USERS, &head.generation);
        Self::after(store, List { prefix, at: Some(head.revision), ..List::default() })
    }

    /// All of this head's generation, each page as of the moment when it is read.
    pub(super) fn now(store: &'a dyn Store, head: &Head) -> Self {
        let prefix = keys::generation(keys::PERMISSION_USERS, &head.generation);
        Self::after(store, List { prefix, ..List::default() })
    }
}

impl<'a, T: Message + Default> Records<'a, T> {
    /// Those of a listing.
    pub(super) fn after(store: &'a dyn Store, list: List) -> Self {
        Self { store, list: List { limit: READ, ..list }, page: VecDeque::new(), more: true, last: String::new(), kind: PhantomData }
    }

    /// The next one, with its entry.
    ///
    /// # Errors
    /// When the store fails, or this one cannot be read.
    pub(super) async fn next(&mut self) -> Result<Option<(T, Entry)>, StoreError> {
        let Some(mut entry) = self.next_entry().await? else { return Ok(None) };
        let record = decode(&entry)?;
        entry.value = Vec::new();
        Ok(Some((record, entry)))
    }

    /// The next one that can be read.
    pub(super) async fn next_readable(&mut self) -> Result<Option<(T, Entry)>, StoreError> {
        loop {
            match self.next().await {
                Err(StoreError::Damaged(_)) => unreadable::skipped(&self.last),
                next => return next,
            }
        }
    }

    /// The key of what came last, readable or not.
    pub(super) fn last(&self) -> &str {
        &self.last
    }

    /// The next one as it is stored.
    async fn next_entry(&mut self) -> Result<Option<Entry>, StoreError> {
        while self.page.is_empty() && self.more {
            let page = self.store.list(self.list.clone()).await?;
            self.more = page.more;
            if let Some(last) = page.entries.last() {
                self.list.after.clone_from(&last.key);
            }
            self.page = page.entries.into();
        }
        let entry = self.page.pop_front();
        if let Some(entry) = &entry {
            self.last.clone_from(&entry.key);
        }
        Ok(entry)
    }
}
