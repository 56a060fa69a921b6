//! An import in pieces that fit into messages.

use moonbridge_permissions::format::Imported;
use moonbridge_proto::v1::{PermissionNode, PermissionRecord, permission_record::Record};

/// The most records in a message.
const RECORDS: usize = 500;

/// The most bytes, but for a single record that is longer.
const BYTES: usize = 1 << 20;

/// Groups, then tracks, then users, in messages of a bounded size.
pub(super) fn batches(imported: Imported) -> impl Iterator<Item = Vec<PermissionRecord>> {
    let groups = imported.groups.into_iter().map(|group| Record::Group((&group).into()));
    let tracks = imported.tracks.into_iter().map(|track| Record::Track((&track).into()));
    let users = imported.users.into_iter().map(|user| Record::User((&user).into()));
    Batches { records: groups.chain(tracks).chain(users), next: None, most: (RECORDS, BYTES) }
}

struct Batches<R> {
    records: R,
    /// Did not fit into the one before.
    next: Option<Record>,
    most: (usize, usize),
}

impl<R: Iterator<Item = Record>> Iterator for Batches<R> {
    type Item = Vec<PermissionRecord>;

    fn next(&mut self) -> Option<Vec<PermissionRecord>> {
        let (most_records, most_bytes) = self.most;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < most_records {
            let Some(record) = self.next.take().or_else(|| self.records.next()) else { break };
            bytes += size(&record);
            if bytes > most_bytes && !batch.is_empty() {
                self.next = Some(record);
                break;
            }
            batch.push(PermissionRecord { record: Some(record) });
        }
        (!batch.is_empty()).then_some(batch)
    }
}

/// About how many bytes a record takes; rather too many.
fn size(record: &Record) -> usize {
    const FIELD: usize = 8;
    let text = |text: &str| text.len() + FIELD;
    let node = |node: &PermissionNode| {
        let contexts = node.contexts.iter().map(|context| FIELD + text(&context.key) + text(&context.value)).sum::<usize>();
        4 * FIELD + text(&node.key) + contexts
    };
    match record {
        Record::Group(group) => text(&group.name) + group.nodes.iter().map(node).sum::<usize>(),
        Record::Track(track) => text(&track.name) + track.groups.iter().map(|group| text(group)).sum::<usize>(),
        Record::Unreadable(key) => text(key),
        Record::User(user) => {
            text(&user.uuid) + text(&user.username) + text(&user.primary_group) + user.nodes.iter().map(node).sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use moonbridge_proto::v1::PermissionTrack;

    use super::*;

    fn cut(names: &[&str], most: (usize, usize)) -> Vec<Vec<String>> {
        let records = names.iter().map(|name| Record::Track(PermissionTrack { name: (*name).to_owned(), groups: Vec::new() }));
        let name = |record: PermissionRecord| match record.record {
            Some(Record::Track(track)) => track.name,
            other => panic!("{other:?}"),
        };
        Batches { records, next: None, most }.map(|batch| batch.into_iter().map(name).collect()).collect()
    }

    #[test]
    fn messages_are_bounded_and_nothing_is_lost() {
        assert_eq!(cut(&[], (2, 100)), Vec::<Vec<String>>::new());
        assert_eq!(cut(&["a", "b", "c", "d", "e"], (2, 100)), [vec!["a", "b"], vec!["c", "d"], vec!["e"]]);
        let long = "l".repeat(200);
        // One that is longer than a message goes alone.
        assert_eq!(cut(&["a", &long, "b", "c"], (10, 30)), [vec!["a"], vec![long.as_str()], vec!["b", "c"]]);
    }
}
