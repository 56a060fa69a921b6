//! What an import changes: counts, and a line for each change as far as there is room.

use moonbridge_permissions::edit::difference;
use moonbridge_permissions::{Group, Node, User};
use moonbridge_proto::v1;

use super::missing::Missing;
use super::received::Received;
use crate::permissions::changes::track_line;
use crate::permissions::unreadable;

/// Lines of an answer, and their bytes: it must fit what clients take by default.
const MAX_LINES: usize = 10_000;
const MAX_BYTES: usize = 2 << 20;

#[derive(Debug, Default)]
pub(super) struct Report {
    groups: v1::ImportCount,
    tracks: v1::ImportCount,
    users: v1::ImportCount,
    lines: Lines,
    /// Whether there is something that cannot be read, and goes.
    clears: bool,
    /// What has come names these.
    pub(super) missing: Missing,
}

#[derive(Debug, Default)]
struct Lines {
    lines: Vec<String>,
    bytes: usize,
    more: u64,
}

impl Report {
    /// What is stored under this key cannot be read, and is replaced or goes.
    pub(super) fn unreadable(&mut self, key: &str) {
        unreadable::skipped(key);
        self.clears = true;
    }

    pub(super) fn group(&mut self, old: Option<&v1::PermissionGroup>, new: Option<&v1::PermissionGroup>) {
        let shown = |group: &v1::PermissionGroup| format!("group {}", group.name);
        let nodes = |group: &v1::PermissionGroup| Group::try_from(group).map(|group| group.nodes().to_vec()).unwrap_or_default();
        if count(&mut self.groups, old, new)
            && let Some(group) = new.or(old)
        {
            self.lines.holder(&shown(group), old.map(|old| move || nodes(old)), new.map(|new| move || nodes(new)));
        }
    }

    pub(super) fn track(&mut self, old: Option<&v1::PermissionTrack>, new: Option<&v1::PermissionTrack>) {
        if !count(&mut self.tracks, old, new) {
            return;
        }
        if let Some(old) = old {
            self.lines.push(|| format!("- {}", track_line(old)));
        }
        if let Some(new) = new {
            self.lines.push(|| format!("+ {}", track_line(new)));
        }
    }

    pub(super) fn user(&mut self, old: Option<&v1::PermissionUser>, new: Option<&v1::PermissionUser>) {
        let nodes = |user: &v1::PermissionUser| User::try_from(user).map(|user| user.nodes).unwrap_or_default();
        if !count(&mut self.users, old, new) {
            return;
        }
        let Some(user) = new.or(old) else { return };
        let shown = self::user(user);
        self.lines.holder(&shown, old.map(|old| move || nodes(old)), new.map(|new| move || nodes(new)));
        if let (Some(old), Some(new)) = (old, new) {
            for (what, old, new) in [("name", &old.username, &new.username), ("primary group", &old.primary_group, &new.primary_group)] {
                if old != new {
                    self.lines.push(|| format!("{shown}: {what} = {new:?}, was {old:?}"));
                }
            }
        }
    }

    /// "groups: 2 added, 1 changed, 0 removed, 7 unchanged"
    pub(super) fn counts(&self) -> impl Iterator<Item = String> {
        [("groups", self.groups), ("tracks", self.tracks), ("users", self.users)].into_iter().map(|(what, count)| {
            let v1::ImportCount { added, changed, removed, unchanged } = count;
            format!("{what}: {added} added, {changed} changed, {removed} removed, {unchanged} unchanged")
        })
    }

    pub(super) fn changes_something(&self) -> bool {
        let changes = |count: &v1::ImportCount| count.added + count.changed + count.removed > 0;
        self.clears || [self.groups, self.tracks, self.users].iter().any(changes)
    }

    /// The answer of an import that became visible at this revision; 0: it did not.
    pub(super) fn answer(self, received: &Received, revision: u64) -> v1::ImportResponse {
        let (mut notes, mut more_notes) = self.missing.notes();
        notes.extend_from_slice(&received.nameless.lines);
        more_notes += received.nameless.more;
        v1::ImportResponse {
            dry_run: received.dry_run,
            revision,
            groups: Some(self.groups),
            tracks: Some(self.tracks),
            users: Some(self.users),
            changes: self.lines.lines,
            more_changes: self.lines.more,
            notes,
            more_notes,
        }
    }
}

/// "user UUID (NAME)"
pub(super) fn user(user: &v1::PermissionUser) -> String {
    match user.username.as_str() {
        "" => format!("user {}", user.uuid),
        name => format!("user {} ({name})", user.uuid),
    }
}

/// Counts a record; true if it changes.
fn count<T: PartialEq>(count: &mut v1::ImportCount, old: Option<&T>, new: Option<&T>) -> bool {
    let kind = match (old, new) {
        (None, None) => return false,
        (None, Some(_)) => &mut count.added,
        (Some(_), None) => &mut count.removed,
        (Some(old), Some(new)) if old == new => &mut count.unchanged,
        (Some(_), Some(_)) => &mut count.changed,
    };
    *kind += 1;
    old != new
}

impl Lines {
    /// What becomes of a holder. One that comes or goes is one line; of one that changes, each node is.
    fn holder<F: FnOnce() -> Vec<Node>>(&mut self, shown: &str, old: Option<F>, new: Option<impl FnOnce() -> Vec<Node>>) {
        // Beyond the limit nodes are not read any more, and a holder counts as one.
        if self.is_full() {
            self.more += 1;
            return;
        }
        match (old, new) {
            (None, Some(new)) => self.push(|| format!("+ {shown}, {}", nodes(new().len()))),
            (Some(old), None) => self.push(|| format!("- {shown}, {}", nodes(old().len()))),
            (Some(old), Some(new)) => {
                let (gone, come) = difference(&old(), &new());
                for line in gone {
                    self.push(|| format!("{shown}: - {line}"));
                }
                for line in come {
                    self.push(|| format!("{shown}: + {line}"));
                }
            }
            (None, None) => {}
        }
    }

    fn push(&mut self, line: impl FnOnce() -> String) {
        if self.is_full() {
            self.more += 1;
            return;
        }
        let line = line();
        self.bytes += line.len();
        self.lines.push(line);
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= MAX_LINES || self.bytes >= MAX_BYTES
    }
}

fn nodes(count: usize) -> String {
    format!("{count} node{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn changes_are_counted_and_listed_up_to_a_limit() {
        let node = |key: &str| v1::PermissionNode { key: key.to_owned(), value: true, ..v1::PermissionNode::default() };
        let group =
            |name: &str, keys: &[&str]| v1::PermissionGroup { name: name.to_owned(), nodes: keys.iter().map(|key| node(key)).collect() };
        let mut report = Report::default();
        report.group(Some(&group("same", &["a"])), Some(&group("same", &["a"])));
        assert!(!report.changes_something());
        report.group(None, Some(&group("new", &["a"])));
        assert!(report.changes_something());
        report.group(Some(&group("other", &["a", "b"])), Some(&group("other", &["b", "c"])));
        report.group(Some(&group("gone", &[])), None);
        for index in 0..MAX_LINES {
            report.group(None, Some(&group(&index.to_string(), &[])));
        }
        let counts: Vec<_> = report.counts().collect();
        assert_eq!(counts[0], "groups: 10001 added, 1 changed, 1 removed, 1 unchanged");
        let received = Received::new(v1::ImportHeader { dry_run: true, ..v1::ImportHeader::default() }).await.expect("a file");
        let answer = report.answer(&received, 0);
        assert_eq!(
            answer.changes[..4],
            ["+ group new, 1 node", "group other: - a = true", "group other: + c = true", "- group gone, 0 nodes"]
        );
        assert_eq!((answer.changes.len(), answer.more_changes, answer.dry_run), (MAX_LINES, 4, true));
    }
}
