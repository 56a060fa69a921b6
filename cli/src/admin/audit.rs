//! `moonbridge audit`.

use moonbridge_proto::v1;
use serde_json::{Value, json};

use super::{Session, role_name};
use crate::args::{AuditArgs, Format};
use crate::control::{PAGE, pages};
use crate::failure::Outcome;
use crate::output::Listing;
use crate::time::rfc3339;

const COLUMNS: &[&str] = &["time", "who", "role", "what", "target", "before", "after"];

/// Lists changes, the newest first.
pub(crate) async fn run(session: Session, args: AuditArgs) -> Outcome {
    let admin = session.admin.clone();
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let mut fetched = 0;
    let mut records = pages(async |page_token| {
        if page_token.is_empty() {
            fetched = 0;
        }
        let request = v1::ListAuditRequest {
            page_size: args.limit.min(PAGE),
            page_token,
            who: args.who.clone().unwrap_or_default(),
            what: args.what.clone().unwrap_or_default(),
            target: args.target.clone().unwrap_or_default(),
            since_unix_ms: args.since.unwrap_or(0),
        };
        let page = admin.clone().list_audit(request).await?.into_inner();
        fetched += page.records.len();
        let next = if fetched < limit { page.next_page_token } else { String::new() };
        Ok((page.records, next))
    })
    .await?;
    records.truncate(limit);
    let mut listing = Listing::new(COLUMNS);
    for record in &records {
        listing.push(row(record, session.output));
    }
    listing.print(session.output, "no such changes")
}

fn row(record: &v1::AuditRecord, format: Format) -> [Value; 7] {
    let lines = |lines: &[String]| match format {
        Format::Table if lines.is_empty() => Value::Null,
        Format::Table => json!(lines.join("; ")),
        Format::Json | Format::Yaml => json!(lines),
    };
    [
        json!(rfc3339(record.unix_ms)),
        json!(record.who),
        json!(role_name(record.role)),
        json!(record.what),
        json!(record.target),
        lines(&record.before),
        lines(&record.after),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_get_the_lines_and_people_one_line() {
        let record = v1::AuditRecord {
            unix_ms: 1_709_209_845_999,
            who: "ada".to_owned(),
            role: v1::Role::Admin.into(),
            what: "backend.set".to_owned(),
            target: "backend lobby".to_owned(),
            after: vec!["address = a:1".to_owned(), "drained = false".to_owned()],
            ..v1::AuditRecord::default()
        };
        let said = ["2024-02-29T12:30:45Z", "ada", "admin", "backend.set", "backend lobby"].map(|text| json!(text));
        assert_eq!(row(&record, Format::Json)[..5], said);
        assert_eq!(row(&record, Format::Json)[5..], [json!([]), json!(["address = a:1", "drained = false"])]);
        assert_eq!(row(&record, Format::Table)[5..], [Value::Null, json!("address = a:1; drained = false")]);
    }
}
