//! Users in the order of their UUIDs, a page in memory at a time.

use std::collections::VecDeque;

use moonbridge_proto::v1;

use super::head::{Head, decode};
use crate::keys;
use crate::store::{Entry, List, Store, StoreError};

/// Users read from the store at once.
const READ: usize = 250;

/// Every stored user of a generation, one by one.
pub(super) struct Users<'a> {
    store: &'a dyn Store,
    list: List,
    page: VecDeque<Entry>,
    more: bool,
}

impl<'a> Users<'a> {
    /// All of them when this head was read.
    pub(super) fn of(store: &'a dyn Store, head: &Head) -> Self {
        let prefix = keys::generation(keys::PERMISSION_USERS, &head.generation);
        Self::after(store, List { prefix, at: Some(head.revision), ..List::default() })
    }

    /// Those of a listing of users.
    pub(super) fn after(store: &'a dyn Store, list: List) -> Self {
        Self { store, list: List { limit: READ, ..list }, page: VecDeque::new(), more: true }
    }

    /// All of this head's generation, each page as of the moment when it is read.
    pub(super) fn now(store: &'a dyn Store, head: &Head) -> Self {
        let prefix = keys::generation(keys::PERMISSION_USERS, &head.generation);
        Self::after(store, List { prefix, ..List::default() })
    }

    /// The next one, with its entry.
    pub(super) async fn next(&mut self) -> Result<Option<(v1::PermissionUser, Entry)>, StoreError> {
        while self.page.is_empty() && self.more {
            let page = self.store.list(self.list.clone()).await?;
            self.more = page.more;
            if let Some(last) = page.entries.last() {
                self.list.after.clone_from(&last.key);
            }
            self.page = page.entries.into();
        }
        let Some(mut entry) = self.page.pop_front() else { return Ok(None) };
        let user = decode(&entry)?;
        entry.value = Vec::new();
        Ok(Some((user, entry)))
    }
}
