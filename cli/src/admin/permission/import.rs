//! `moonbridge permission import`.

mod progress;
mod records;

use std::collections::HashMap;
use std::path::Path;

use moonbridge_permissions::format::{Imported, LeftOut, bungeecord};
use moonbridge_proto::v1::{self, import_request::Part};
use serde::Serialize;
use serde_json::json;
use tonic::Code;
use uuid::Uuid;

use self::progress::Progress;
use super::super::Session;
use crate::args::Format;
use crate::args::permission::ImportArgs;
use crate::control::refused;
use crate::failure::{Failure, Outcome};
use crate::import_file::{self, Content};
use crate::output::{self, Listing};

/// Runs the verb.
pub(super) async fn run(mut session: Session, args: ImportArgs) -> Outcome {
    let (path, format) = (args.file.clone(), args.format);
    let content = tokio::task::spawn_blocking(move || import_file::read(&path, format)).await;
    let content = content.map_err(|error| Failure::failed(format!("cannot read {}: {error}", args.file.display())))??;
    let (imported, kind) = match content {
        Content::LuckPerms(imported) => (imported, "luckperms"),
        Content::BungeeCord(config) => (with_uuids(&mut session, &config).await?, "bungeecord"),
    };
    for left_out in &imported.left_out {
        output::note(&output::printable(&format!("cannot be taken over: {}: {}", left_out.path, left_out.problem)));
    }
    if imported.groups.is_empty() && imported.tracks.is_empty() && imported.users.is_empty() {
        return Err(Failure::failed(format!("{} has nothing that can be taken over: nothing was changed", args.file.display())));
    }
    let left_out = imported.left_out.clone();
    let header = v1::ImportHeader { dry_run: args.dry_run, replace: args.replace, source: source(&args.file, kind) };
    let answer = send(&mut session, header, imported).await?;
    Report { answer, left_out }.print(session.output, &args)
}

/// What the file says, with the UUIDs of the players that it names and the control plane knows, and with their names as they are spelt
/// there.
async fn with_uuids(session: &mut Session, config: &bungeecord::Config) -> Outcome<Imported> {
    let (mut uuids, mut spelt) = (HashMap::new(), HashMap::new());
    for name in config.groups.keys().filter(|name| Uuid::parse_str(name).is_err()) {
        match session.permissions.get_user(v1::GetUserRequest { player: name.clone() }).await {
            Ok(state) => {
                let user = state.into_inner().user.unwrap_or_default();
                if let Ok(uuid) = Uuid::parse_str(&user.uuid) {
                    uuids.insert(name.clone(), uuid);
                    spelt.insert(uuid, user.username);
                }
            }
            // Never seen here, or no name that a player can have: it is left out by name.
            Err(status) if matches!(status.code(), Code::NotFound | Code::InvalidArgument) => {}
            Err(status) => return Err(refused(status)),
        }
    }
    let imported = bungeecord::convert(config, |name| uuids.get(name).copied());
    let mut imported = imported.map_err(|error| Failure::failed(error.to_string()))?;
    for user in &mut imported.users {
        if let Some(name) = spelt.get(&user.uuid).filter(|name| !name.is_empty()) {
            user.username = Some(name.clone());
        }
    }
    Ok(imported)
}

async fn send(session: &mut Session, header: v1::ImportHeader, imported: Imported) -> Outcome<v1::ImportResponse> {
    let total = imported.groups.len() + imported.tracks.len() + imported.users.len();
    let progress = Progress::new(total, session.output == Format::Table);
    let batches = records::batches(imported).map({
        let progress = progress.clone();
        move |records| {
            progress.sent(records.len());
            Part::Batch(v1::ImportBatch { records })
        }
    });
    let parts = std::iter::once(Part::Header(header)).chain(batches);
    let requests = tokio_stream::iter(parts.map(|part| v1::ImportRequest { part: Some(part) }));
    let answer = session.permissions.import(requests).await;
    progress.end();
    Ok(answer.map_err(refused)?.into_inner())
}

/// What the audit calls the file.
fn source(path: &Path, kind: &str) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    match path == Path::new("-") {
        true => format!("stdin ({kind})"),
        false => format!("{name} ({kind})"),
    }
}

/// How it went.
struct Report {
    answer: v1::ImportResponse,
    left_out: Vec<LeftOut>,
}

/// The same as JSON and YAML have it.
#[derive(Serialize)]
struct Document<'a, C, L> {
    dry_run: bool,
    revision: Option<u64>,
    counts: Vec<C>,
    changes: &'a [String],
    more_changes: u64,
    notes: &'a [String],
    more_notes: u64,
    left_out: Vec<L>,
}

impl Report {
    fn print(&self, format: Format, args: &ImportArgs) -> Outcome {
        let answer = &self.answer;
        let mut counts = Listing::new(&["what", "added", "changed", "removed", "unchanged"]);
        for (what, count) in [("groups", answer.groups), ("tracks", answer.tracks), ("users", answer.users)] {
            let count = count.unwrap_or_default();
            counts.push([json!(what), json!(count.added), json!(count.changed), json!(count.removed), json!(count.unchanged)]);
        }
        if format != Format::Table {
            let mut left_out = Listing::new(&["path", "problem"]);
            for left in &self.left_out {
                left_out.push([json!(left.path), json!(left.problem)]);
            }
            let document = Document {
                dry_run: answer.dry_run,
                revision: (answer.revision > 0).then_some(answer.revision),
                counts: counts.records(),
                changes: &answer.changes,
                more_changes: answer.more_changes,
                notes: &answer.notes,
                more_notes: answer.more_notes,
                left_out: left_out.records(),
            };
            return output::document(format, &document);
        }
        for change in self.changes() {
            output::line(&output::printable(&change))?;
        }
        counts.print(format, "")?;
        for line in self.summary(&args.file) {
            output::line(&output::printable(&line))?;
        }
        Ok(())
    }

    /// What a dry run would change, a line each.
    fn changes(&self) -> Vec<String> {
        if !self.answer.dry_run {
            return Vec::new();
        }
        let mut lines = self.answer.changes.clone();
        if self.answer.more_changes > 0 {
            lines.push(format!("and {} changes more", self.answer.more_changes));
        }
        lines
    }

    fn summary(&self, file: &Path) -> Vec<String> {
        let what = match (self.answer.dry_run, self.answer.revision) {
            (true, _) => "a dry run: nothing was changed".to_owned(),
            (false, 0) => format!("all of {} is there already: nothing was changed", file.display()),
            (false, revision) => format!("{} is taken over and in force, revision {revision}", file.display()),
        };
        let mut lines = vec![what];
        lines.extend(self.answer.notes.iter().map(|note| format!("note: {note}")));
        if self.answer.more_notes > 0 {
            lines.push(format!("and {} notes more", self.answer.more_notes));
        }
        if !self.left_out.is_empty() {
            lines.push(format!("NOT taken over: {}", self.left_out.len()));
            lines.extend(self.left_out.iter().map(|left| format!("  {}: {}", left.path, left.problem)));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_names_what_is_left_out_and_a_dry_run_what_would_change() {
        let left_out = vec![LeftOut { path: "groups.mod.nodes[1] (r=[)".to_owned(), problem: "no expression".to_owned() }];
        let changes = vec!["group mod: + a.b = true".to_owned()];
        let mut report = Report { answer: v1::ImportResponse { dry_run: true, changes, more_changes: 3, ..Default::default() }, left_out };
        let summary = |report: &Report| report.summary(Path::new("in.json"));
        assert_eq!(report.changes(), ["group mod: + a.b = true", "and 3 changes more"]);
        assert_eq!(summary(&report), ["a dry run: nothing was changed", "NOT taken over: 1", "  groups.mod.nodes[1] (r=[): no expression"]);
        report.answer = v1::ImportResponse { revision: 42, ..report.answer };
        report.answer.dry_run = false;
        report.left_out.clear();
        assert_eq!(summary(&report), ["in.json is taken over and in force, revision 42"]);
        let nothing = Report { answer: v1::ImportResponse::default(), left_out: Vec::new() };
        assert_eq!(summary(&nothing), ["all of in.json is there already: nothing was changed"]);
        report.answer.notes = vec!["there is no group gone: named by group mod".to_owned()];
        report.answer.more_notes = 7;
        let notes = ["note: there is no group gone: named by group mod", "and 7 notes more"];
        assert_eq!(summary(&report)[1..], notes);
        assert!(report.changes().is_empty());
    }

    #[test]
    fn the_audit_knows_the_file() {
        assert_eq!(source(Path::new("/backups/lp.json.gz"), "luckperms"), "lp.json.gz (luckperms)");
        assert_eq!(source(Path::new("-"), "bungeecord"), "stdin (bungeecord)");
    }
}
