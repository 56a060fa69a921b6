//! Changing how permissions are resolved.

use moonbridge_permissions::Settings;
use moonbridge_proto::v1;
use tonic::Status;

use crate::auth::Caller;
use crate::permissions::commit::{Attempts, Plan, put_record, record};
use crate::permissions::head::{Head, unchanged};
use crate::replica::Replica;
use crate::resources::invalid;
use crate::{audit, keys, status};

pub(in crate::permissions) async fn set_settings(
    replica: &Replica,
    caller: &Caller,
    request: v1::SetPermissionSettingsRequest,
) -> Result<v1::PermissionSettings, Status> {
    let raw = request.settings.clone().ok_or_else(|| Status::invalid_argument("settings: missing"))?;
    let settings = Settings::try_from(&raw).map_err(|mistakes| invalid("settings", mistakes))?;
    let raw = v1::PermissionSettings::from(&settings);
    let (key, target) = (keys::PERMISSION_SETTINGS, "permission settings");
    let mut attempts = Attempts::new(replica, caller);
    loop {
        let head = Head::read(&*replica.store).await.map_err(status::store)?;
        let (stored, entry) = record::<v1::PermissionSettings>(replica, &head, key).await?;
        let before = stored.unwrap_or_else(|| v1::PermissionSettings::from(&Settings::default()));
        if request.expected.as_ref().is_some_and(|expected| *expected != before) {
            return Err(Status::aborted("the permission settings are others now than those that were expected: look at them, then decide anew"));
        }
        if before == raw {
            return Ok(raw);
        }
        let (was, is) = difference(&before, &raw);
        let changes = vec![put_record(key, &raw, target, 0)?];
        let entry_now = audit::Entry { what: "permission.settings.set", target: target.to_owned(), before: was, after: is };
        let compares = vec![unchanged(key, entry.as_ref())];
        if attempts.commit(&head, Plan { compares, changes, moves_snapshot: true, entry: entry_now }).await?.is_some() {
            return Ok(raw);
        }
    }
}

/// A line for every field that differs.
fn difference(before: &v1::PermissionSettings, after: &v1::PermissionSettings) -> (Vec<String>, Vec<String>) {
    let lines = |settings: &v1::PermissionSettings| -> Vec<String> {
        let shown = format!("{settings:#?}");
        shown.lines().map(|line| line.trim().trim_end_matches(',').to_owned()).collect()
    };
    let (before, after) = (lines(before), lines(after));
    let only = |lines: &[String], others: &[String]| lines.iter().filter(|line| !others.contains(line)).cloned().collect();
    (only(&before, &after), only(&after, &before))
}
