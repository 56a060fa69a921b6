//! What a caller sends: a header, groups and tracks, then users sorted by UUID. Everything is validated here, and written as it is to be
//! stored.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{Stream, TryStreamExt};
use moonbridge_permissions::{Budget, Group, Node, Track, User, holder};
use moonbridge_proto::v1::{self, import_request::Part, permission_record::Record};
use prost::Message;
use tonic::Status;
use uuid::Uuid;

use super::merge::Mode;
use super::spool::Spool;
use crate::permissions::bounds::{MAX_BYTES as MAX_FEW_BYTES, MAX_RECORDS as MAX_FEW};
use crate::permissions::commit::MAX_RECORD;

/// A caller that sends nothing for so long is gone.
const PATIENCE: Duration = Duration::from_secs(60);
/// So long all of it may take to come.
const LONGEST: Duration = Duration::from_secs(600);
/// The largest import, in bytes as it comes: more than a whole file of any network.
const MAX_BYTES: usize = 512 << 20;
/// Users whose names are left out that are listed.
const MAX_NAMELESS: usize = 1_000;
/// The longest name of a source that the audit keeps.
const MAX_SOURCE: usize = 256;

/// A whole import.
pub(super) struct Received {
    pub(super) dry_run: bool,
    pub(super) mode: Mode,
    pub(super) source: String,
    pub(super) groups: BTreeMap<String, v1::PermissionGroup>,
    pub(super) tracks: BTreeMap<String, v1::PermissionTrack>,
    pub(super) users: Spool,
    pub(super) nameless: Nameless,
    bytes: usize,
    few_bytes: usize,
    budget: Budget,
    last_user: String,
    records: u64,
}

/// Users whose names nobody can have: they come without.
#[derive(Debug, Default)]
pub(super) struct Nameless {
    pub(super) lines: Vec<String>,
    pub(super) more: u64,
}

impl Received {
    /// Reads it to its end.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, naming the record that is wrong.
    pub(super) async fn read(messages: impl Messages) -> Result<Self, Status> {
        Self::read_within(messages, LONGEST).await
    }

    async fn read_within(messages: impl Messages, longest: Duration) -> Result<Self, Status> {
        let late = |_| Status::deadline_exceeded(format!("the import did not come within {longest:?}: nothing was imported"));
        tokio::time::timeout(longest, Self::read_all(messages)).await.map_err(late)?
    }

    async fn read_all(mut messages: impl Messages) -> Result<Self, Status> {
        let Some(Part::Header(header)) = next(&mut messages).await? else {
            return Err(Status::invalid_argument("header: the first message of an import is its header"));
        };
        let mut received = Self::new(header).await?;
        while let Some(part) = next(&mut messages).await? {
            let Part::Batch(batch) = part else {
                return Err(Status::invalid_argument("header: an import has one only"));
            };
            received.count(batch.encoded_len())?;
            for record in batch.records {
                received.take(record).await?;
            }
        }
        Ok(received)
    }

    pub(super) async fn new(header: v1::ImportHeader) -> Result<Self, Status> {
        let mut source = header.source;
        source.truncate(source.floor_char_boundary(MAX_SOURCE));
        Ok(Self {
            dry_run: header.dry_run,
            mode: if header.replace { Mode::Replace } else { Mode::Merge },
            source,
            groups: BTreeMap::new(),
            tracks: BTreeMap::new(),
            users: Spool::new().await?,
            nameless: Nameless::default(),
            bytes: 0,
            few_bytes: 0,
            budget: Budget::of_file(),
            last_user: String::new(),
            records: 0,
        })
    }

    /// What the audit says was imported.
    pub(super) fn target(&self) -> String {
        let source = if self.source.is_empty() { "an import" } else { &self.source };
        match self.mode {
            Mode::Merge => format!("permissions, added from {source}"),
            Mode::Replace => format!("permissions, replaced by {source}"),
        }
    }

    pub(super) async fn take(&mut self, record: v1::PermissionRecord) -> Result<(), Status> {
        let at = format!("records[{}]", self.records);
        self.records += 1;
        let wrong = |field: &str, mistakes: Vec<v1::FieldError>| crate::resources::invalid(&format!("{at}.{field}"), mistakes);
        match record.record {
            None | Some(Record::Unreadable(_)) => Err(Status::invalid_argument(format!("{at}: expected a group, track or user"))),
            Some(Record::Group(raw)) => {
                let group = Group::try_from(&raw).map_err(|mistakes| wrong("group", mistakes))?;
                self.affordable(&at, group.nodes())?;
                let group = v1::PermissionGroup::from(&group);
                let name = group.name.clone();
                self.fits(&at, &format!("group {name}"), &group, true)?;
                self.first(&at, "group", self.groups.contains_key(&name), &name)?;
                self.groups.insert(name, group);
                Ok(())
            }
            Some(Record::Track(raw)) => {
                let track = v1::PermissionTrack::from(&Track::try_from(&raw).map_err(|mistakes| wrong("track", mistakes))?);
                let name = track.name.clone();
                self.fits(&at, &format!("track {name}"), &track, true)?;
                self.first(&at, "track", self.tracks.contains_key(&name), &name)?;
                self.tracks.insert(name, track);
                Ok(())
            }
            Some(Record::User(raw)) => {
                let mut user = User::try_from(&raw).map_err(|mistakes| wrong("user", mistakes))?;
                self.affordable(&at, &user.nodes)?;
                user.username = user.username.filter(|name| self.nameless.is_name(&user.uuid, name));
                let user = v1::PermissionUser::from(&user);
                self.fits(&at, &format!("user {}", user.uuid), &user, false)?;
                match user.uuid.cmp(&self.last_user) {
                    std::cmp::Ordering::Greater => {}
                    std::cmp::Ordering::Equal => return Err(Status::invalid_argument(format!("{at}: the user {} comes twice", user.uuid))),
                    std::cmp::Ordering::Less => {
                        let problem = format!("{at}: the user {} comes after {}: sort users by UUID", user.uuid, self.last_user);
                        return Err(Status::invalid_argument(problem));
                    }
                }
                self.last_user.clone_from(&user.uuid);
                self.users.push(&user).await
            }
        }
    }

    fn count(&mut self, bytes: usize) -> Result<(), Status> {
        self.bytes = self.bytes.saturating_add(bytes);
        match self.bytes {
            0..=MAX_BYTES => Ok(()),
            _ => Err(Status::invalid_argument(format!("expected at most {MAX_BYTES} bytes in one import: import it in parts"))),
        }
    }

    fn affordable(&mut self, at: &str, nodes: &[Node]) -> Result<(), Status> {
        self.budget.take_all(nodes).map_err(|exhausted| Status::invalid_argument(format!("{at}: {exhausted}. Nothing was imported")))
    }

    /// Groups and tracks come before users, and each once.
    fn first(&self, at: &str, kind: &str, is_known: bool, name: &str) -> Result<(), Status> {
        if is_known {
            return Err(Status::invalid_argument(format!("{at}: the {kind} {name} comes twice")));
        }
        match self.last_user.is_empty() {
            true => Ok(()),
            false => Err(Status::invalid_argument(format!("{at}: the {kind} {name} comes after users: send groups and tracks first"))),
        }
    }

    fn fits(&mut self, at: &str, target: &str, record: &impl Message, is_few: bool) -> Result<(), Status> {
        let bytes = record.encoded_len();
        if bytes > MAX_RECORD {
            return Err(Status::invalid_argument(format!("{at}: the {target} has {bytes} bytes; at most {MAX_RECORD} are kept of one")));
        }
        if is_few {
            self.few_bytes += bytes;
        }
        if self.groups.len() + self.tracks.len() >= MAX_FEW || self.few_bytes > MAX_FEW_BYTES {
            return Err(Status::invalid_argument(format!(
                "{at}: expected at most {MAX_FEW} groups and tracks of {MAX_FEW_BYTES} bytes together: every node holds them in memory"
            )));
        }
        Ok(())
    }
}

impl Nameless {
    /// Notes a name that is none: of another length, or with spaces or what is not seen.
    fn is_name(&mut self, uuid: &Uuid, name: &str) -> bool {
        let Err(error) = holder::name(name) else { return true };
        match self.lines.len() {
            0..MAX_NAMELESS => self.lines.push(format!("user {uuid}: its name is left out: {error}")),
            _ => self.more += 1,
        }
        false
    }
}

/// What a caller sends, as it comes.
pub(super) trait Messages: Stream<Item = Result<v1::ImportRequest, Status>> + Unpin {}

impl<M: Stream<Item = Result<v1::ImportRequest, Status>> + Unpin> Messages for M {}

async fn next(messages: &mut impl Messages) -> Result<Option<Part>, Status> {
    let message = tokio::time::timeout(PATIENCE, messages.try_next()).await;
    let late = |_| Status::deadline_exceeded(format!("the import sent nothing for {} s: nothing was imported", PATIENCE.as_secs()));
    match message.map_err(late)?? {
        Some(message) => message.part.map(Some).ok_or_else(|| Status::invalid_argument("part: missing")),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, stream};
    use tonic::Code;

    use super::*;

    fn header() -> v1::ImportRequest {
        v1::ImportRequest { part: Some(Part::Header(v1::ImportHeader::default())) }
    }

    #[tokio::test]
    async fn an_import_that_comes_without_an_end_is_ended() {
        let batch = async |_| {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(v1::ImportRequest { part: Some(Part::Batch(v1::ImportBatch::default())) })
        };
        let drops = stream::iter([Ok(header())]).chain(stream::iter(0..usize::MAX).then(batch));
        let late = Received::read_within(Box::pin(drops), Duration::from_millis(50)).await.err().expect("too late");
        assert_eq!(late.code(), Code::DeadlineExceeded);
        assert!(late.message().contains("nothing was imported"), "{late:?}");
        Received::read(stream::iter([Ok(header())])).await.expect("in time");
    }

    #[tokio::test]
    async fn an_import_has_an_end_in_bytes() {
        let mut received = Received::new(v1::ImportHeader::default()).await.expect("a file");
        received.count(MAX_BYTES - 1).expect("room");
        received.count(1).expect("room");
        assert_eq!(received.count(1).expect_err("too much").code(), Code::InvalidArgument);
    }

    #[tokio::test]
    async fn a_name_that_is_none_is_left_out_and_its_user_is_not() {
        let mut received = Received::new(v1::ImportHeader::default()).await.expect("a file");
        let long = "x".repeat(37);
        let names = ["Ada", "two words", "\u{7}", &long, "", "a\u{200b}"];
        for (index, name) in names.iter().enumerate() {
            let uuid = Uuid::from_u128(index as u128).to_string();
            let user = v1::PermissionUser { uuid, username: (*name).to_owned(), ..v1::PermissionUser::default() };
            received.take(v1::PermissionRecord { record: Some(Record::User(user)) }).await.expect("taken");
        }
        let mut users = received.users.read().await.expect("a pass");
        let mut kept = Vec::new();
        while let Some(user) = users.next().await.expect("read") {
            kept.push(user.username);
        }
        assert_eq!(kept, ["Ada", "", "", "", "", ""]);
        assert_eq!((received.nameless.lines.len(), received.nameless.more), (4, 0));
        assert!(received.nameless.lines[0].starts_with(&format!("user {}: its name is left out", Uuid::from_u128(1))));
    }
}
