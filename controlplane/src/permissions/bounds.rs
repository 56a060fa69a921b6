//! How much there may be of groups and tracks: every node is sent them in one message, of 64 MiB at most, and holds them in memory.

use moonbridge_proto::v1;
use prost::Message;
use tonic::Status;

use crate::replica::Replica;
use crate::store::Entry;

pub(super) const MAX_RECORDS: usize = 10_000;
pub(super) const MAX_BYTES: usize = 32 << 20;

/// Groups and tracks together.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    records: usize,
    bytes: usize,
}

impl Size {
    pub(super) fn add(&mut self, record: &impl Message) {
        self.records += 1;
        self.bytes += record.encoded_len();
    }

    /// # Errors
    /// If it is too much, in words that say of what.
    pub(super) fn check(self, of: &str) -> Result<(), Status> {
        let Self { records, bytes } = self;
        if records <= MAX_RECORDS && bytes <= MAX_BYTES {
            return Ok(());
        }
        Err(Status::failed_precondition(format!(
            "{of} would come to {records} groups and tracks of {bytes} bytes together; at most {MAX_RECORDS} of {MAX_BYTES} bytes are kept, \
             for every node holds them in memory: remove some first"
        )))
    }
}

/// Refuses a record that there is no room for, in place of what is stored. One that becomes no larger always fits. It goes by what this
/// replica's nodes have: those who change something at the same time may exceed it by as much.
pub(super) fn check(replica: &Replica, target: &str, stored: Option<&Entry>, after: &impl Message) -> Result<(), Status> {
    let before = stored.map(|entry| entry.value.len());
    if before.is_some_and(|before| after.encoded_len() <= before) {
        return Ok(());
    }
    let Some(snapshot) = replica.snapshots.newest() else { return Ok(()) };
    let mut size = Size::default();
    snapshot.groups.values().for_each(|group| size.add(&v1::PermissionGroup::from(&**group)));
    snapshot.tracks.values().for_each(|track| size.add(&v1::PermissionTrack::from(&**track)));
    size.records += usize::from(before.is_none());
    size.bytes += after.encoded_len() - before.unwrap_or_default();
    size.check(&format!("with {target} there"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_how_many_and_how_much_have_an_end() {
        let group = |bytes: usize| v1::PermissionGroup { name: "x".repeat(bytes), nodes: Vec::new() };
        let size_of = |count: usize, group: v1::PermissionGroup| {
            let mut size = Size::default();
            (0..count).for_each(|_| size.add(&group));
            size.check("it").is_ok()
        };
        assert!(size_of(MAX_RECORDS, group(1)) && !size_of(MAX_RECORDS + 1, group(1)));
        assert!(size_of(31, group(1 << 20)) && !size_of(32, group(1 << 20)));
    }
}
