//! The audit: who changed what, and when. A change's record is put by the very transaction that makes the change, so that there is none
//! without the other.

pub(crate) mod describe;
mod retention;

use moonbridge_proto::v1;
use prost::Message;
use uuid::Uuid;

use crate::auth::Caller;
use crate::commands::now_ms;
use crate::keys;
use crate::store::Change;

pub(crate) use retention::keep;

/// What changes are of: the first words of what an [`Entry`] says was done.
pub(crate) const KINDS: [&str; 5] = ["backend", "permission", "route", "settings", "token"];

/// Lines that a record keeps of each side, and their bytes: what a transaction holds is bounded, too.
const MAX_LINES: usize = 200;
const MAX_BYTES: usize = 64 << 10;

/// A change to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// "backend.set", "permission.user.change", ...
    pub(crate) what: &'static str,
    /// "backend lobby", "group mod", ...
    pub(crate) target: String,
    /// How it was, and how it is now: only what differs, a line each. Never a secret.
    pub(crate) before: Vec<String>,
    pub(crate) after: Vec<String>,
}

impl Entry {
    /// What the transaction that makes the change puts beside it.
    pub(crate) fn change(self, caller: &Caller, replica: &str) -> Change {
        let id = Uuid::now_v7();
        let record = v1::AuditRecord {
            id: id.to_string(),
            unix_ms: now_ms(),
            who: caller.name.to_string(),
            role: caller.role.into(),
            replica: replica.to_owned(),
            what: self.what.to_owned(),
            target: self.target,
            before: bounded(self.before),
            after: bounded(self.after),
        };
        Change::Put { key: keys::audit(id), value: record.encode_to_vec(), lease: 0 }
    }
}

/// As many lines as a record keeps; the last then says how many more there are.
fn bounded(mut lines: Vec<String>) -> Vec<String> {
    let mut bytes = 0;
    let fits = lines.iter().take_while(|line| {
        bytes += line.len();
        bytes <= MAX_BYTES
    });
    let fits = fits.count().min(MAX_LINES);
    if fits < lines.len() {
        // The line that says so has a place, too.
        let kept = fits.min(MAX_LINES - 1);
        let more = lines.len() - kept;
        lines.truncate(kept);
        lines.push(format!("... and {more} more"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_list_stays_and_a_long_one_says_how_much_is_missing() {
        let lines = |count: usize, length: usize| vec!["x".repeat(length); count];
        assert_eq!(bounded(lines(MAX_LINES, 10)), lines(MAX_LINES, 10));
        for (count, length) in [(MAX_LINES + 1, 10), (10_000, 10), (150, 1_000), (3, MAX_BYTES), (1, MAX_BYTES + 1)] {
            let short = bounded(lines(count, length));
            let kept = short.len() - 1;
            assert!(short.len() <= MAX_LINES, "{count} of {length}");
            assert_eq!(short.last().map(String::as_str), Some(&*format!("... and {} more", count - kept)));
            assert!(kept * length <= MAX_BYTES, "{count} of {length}");
        }
    }

    #[test]
    fn a_record_says_who_and_where() {
        let caller = Caller { name: "ada".into(), role: v1::Role::Operator };
        let entry =
            Entry { what: "backend.drain", target: "backend lobby".to_owned(), before: vec!["a".to_owned()], after: vec!["b".to_owned()] };
        let Change::Put { key, value, lease: 0 } = entry.change(&caller, "replica-1") else { panic!("a put") };
        let record = v1::AuditRecord::decode(&*value).expect("a record");
        assert_eq!(key, keys::audit(Uuid::try_parse(&record.id).expect("a UUID")));
        assert_eq!((&*record.who, record.role(), &*record.replica), ("ada", v1::Role::Operator, "replica-1"));
        assert_eq!((&*record.what, &*record.target), ("backend.drain", "backend lobby"));
        assert_eq!((record.before, record.after), (vec!["a".to_owned()], vec!["b".to_owned()]));
        assert!((now_ms() - record.unix_ms).abs() < 60_000);
    }
}
