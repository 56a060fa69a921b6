//! Changing how permissions are resolved.

use moonbridge_permissions::Settings;
use moonbridge_proto::permission_settings::pairs;
use moonbridge_proto::v1;
use tonic::Status;

use crate::auth::Caller;
use crate::permissions::commit::{Plan, attempts, put_record};
use crate::permissions::head::{Head, entry_at};
use crate::permissions::unreadable;
use crate::replica::Replica;
use crate::resources::invalid;
use crate::store::{Compare, Entry};
use crate::{audit, keys, status};

pub(in crate::permissions) async fn set_settings(
    replica: &Replica,
    caller: &Caller,
    request: v1::SetPermissionSettingsRequest,
) -> Result<v1::PermissionSettings, Status> {
    let raw = request.settings.clone().ok_or_else(|| Status::invalid_argument("settings: missing"))?;
    let settings = Settings::try_from(&raw).map_err(|mistakes| invalid("settings", mistakes))?;
    let expected = request.expected.as_ref().map(Settings::try_from).transpose().map_err(|mistakes| invalid("expected", mistakes))?;
    let raw = v1::PermissionSettings::from(&settings);
    let (key, target) = (keys::PERMISSION_SETTINGS, "permission settings");
    let mut attempts = attempts(replica, caller);
    loop {
        let head = Head::read(&*replica.store).await.map_err(status::store)?;
        let (before, entry) = stored(replica, &head, key).await?;
        if expected.as_ref().is_some_and(|expected| before.as_ref() != Some(expected)) {
            return Err(Status::aborted(
                "the permission settings are others now than those that were expected: look at them, then decide anew",
            ));
        }
        if before.as_ref() == Some(&settings) {
            return Ok(raw);
        }
        let (was, is) = difference(before.as_ref(), &settings);
        let changes = vec![put_record(key, &raw, target, 0)?];
        let entry_now = audit::Entry { what: "permission.settings.set", target: target.to_owned(), before: was, after: is };
        let compares = vec![Compare::unchanged(key, entry.as_ref())];
        if attempts.commit(&head, Plan { compares, changes, moves_snapshot: true, entry: entry_now }).await?.is_some() {
            return Ok(raw);
        }
    }
}

/// The settings as they are, the defaults if none are stored; `None` if what is stored cannot be read: it can be set anew.
async fn stored(replica: &Replica, head: &Head, key: &str) -> Result<(Option<Settings>, Option<Entry>), Status> {
    let (entry, _) = entry_at(&*replica.store, key, Some(head.revision)).await.map_err(status::store)?;
    let settings = match &entry {
        Some(entry) => unreadable::read::<v1::PermissionSettings, _>(entry).ok(),
        None => Some(Settings::default()),
    };
    Ok((settings, entry))
}

/// A line for every setting that differs: `apply-regex = true`.
fn difference(before: Option<&Settings>, after: &Settings) -> (Vec<String>, Vec<String>) {
    let after = lines(after);
    let Some(before) = before else { return (vec![unreadable::BEFORE.to_owned()], after) };
    let before = lines(before);
    let only = |lines: &[String], others: &[String]| lines.iter().filter(|line| !others.contains(line)).cloned().collect();
    (only(&before, &after), only(&after, &before))
}

fn lines(settings: &Settings) -> Vec<String> {
    // Spaces are to be seen.
    let shown = |value: String| if value.is_empty() || value != value.trim() { format!("{value:?}") } else { value };
    pairs(&settings.into()).into_iter().map(|(key, value)| format!("{key} = {}", shown(value))).collect()
}

#[cfg(test)]
mod tests {
    use moonbridge_permissions::settings::Stack;

    use super::*;

    fn of(prefix: &str, suffix: &str) -> Settings {
        let stack = |spacer: &str| Stack { start_spacer: spacer.to_owned(), ..Stack::default() };
        Settings { prefix: stack(prefix), suffix: stack(suffix), ..Settings::default() }
    }

    #[test]
    fn settings_that_change_places_are_told_as_what_they_are() {
        let (before, after) = difference(Some(&of("[", "")), &of("", "["));
        assert_eq!(before, ["meta-formatting.prefix.start-spacer = [", "meta-formatting.suffix.start-spacer = \"\""]);
        assert_eq!(after, ["meta-formatting.prefix.start-spacer = \"\"", "meta-formatting.suffix.start-spacer = ["]);
        let (before, after) = difference(None, &of("", ""));
        assert_eq!((before.len(), after.len()), (1, pairs(&v1::PermissionSettings::from(&of("", ""))).len()));
    }

    #[test]
    fn one_value_with_a_comma_is_not_told_like_two() {
        let of = |values: &[&str]| {
            let mut settings = Settings::default();
            for value in values {
                settings.static_contexts.add("region", value).expect("a context");
            }
            settings
        };
        let (before, after) = difference(Some(&of(&["eu", "us"])), &of(&["eu,us"]));
        assert_eq!(
            (before, after),
            (vec!["static-contexts.region = eu,us".to_owned()], vec!["static-contexts.region = \"eu,us\"".to_owned()])
        );
    }
}
