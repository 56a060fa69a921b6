//! `moonbridge permission settings`: by the names that the settings have in LuckPerms' `config.yml`.

use moonbridge_permissions::Settings;
use moonbridge_proto::permission_settings::{pairs, set};
use moonbridge_proto::v1;
use serde_json::{Map, Value};
use tonic::{Code, Status};

use super::super::Session;
use crate::args::Format;
use crate::args::permission::SettingsVerb;
use crate::control::refused;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Listing};

/// So often settings are set that others get in the way of.
const TRIES: usize = 10;

/// Runs a verb.
pub(super) async fn run(mut session: Session, verb: SettingsVerb) -> Outcome {
    let settings = match verb {
        SettingsVerb::Show => stored(&mut session).await.map_err(refused)?,
        SettingsVerb::Set { settings: changes } => set_on_what_is_there(&mut session, &changes).await?,
    };
    print(&settings, session.output)
}

async fn stored(session: &mut Session) -> Result<v1::PermissionSettings, Status> {
    Ok(session.permissions.get_permission_settings(v1::GetPermissionSettingsRequest {}).await?.into_inner())
}

/// Sets these keys and leaves the others as they are, also if somebody else sets one of them at the same moment.
async fn set_on_what_is_there(session: &mut Session, changes: &[(String, String)]) -> Outcome<v1::PermissionSettings> {
    let mut tries = 1;
    loop {
        let (expected, settings) = match stored(session).await {
            Ok(stored) => (Some(stored.clone()), stored),
            Err(status) if status.code() == Code::DataLoss => {
                output::note("the settings that are stored cannot be read: those that are not set now are the defaults again");
                (None, (&Settings::default()).into())
            }
            Err(status) => return Err(refused(status)),
        };
        let settings = Some(changed(settings, changes).map_err(Failure::usage)?);
        let request = v1::SetPermissionSettingsRequest { settings, expected };
        match session.permissions.set_permission_settings(request).await {
            Err(status) if status.code() == Code::Aborted && tries < TRIES => tries += 1,
            answer => return Ok(answer.map_err(refused)?.into_inner()),
        }
    }
}

fn print(settings: &v1::PermissionSettings, format: Format) -> Outcome {
    let pairs = pairs(settings);
    if format != Format::Table {
        let object: Map<String, Value> = pairs.into_iter().map(|(key, value)| (key, Value::String(value))).collect();
        return output::document(format, &object);
    }
    let mut listing = Listing::new(&["key", "value"]);
    for (key, value) in pairs {
        // Spaces are to be seen.
        let value = if value != value.trim() { format!("{value:?}") } else { value };
        listing.push([Value::String(key), Value::String(value)]);
    }
    listing.print(format, "")
}

/// The settings with changes, checked whole.
fn changed(mut settings: v1::PermissionSettings, changes: &[(String, String)]) -> Result<v1::PermissionSettings, String> {
    let mut mistakes = Vec::new();
    for (key, value) in changes {
        if let Err(problem) = set(&mut settings, key, value) {
            mistakes.push(format!("{key}: {problem}"));
        }
    }
    if mistakes.is_empty()
        && let Err(invalid) = Settings::try_from(&settings)
    {
        mistakes.extend(invalid.into_iter().map(|mistake| format!("{}: {}", mistake.path, mistake.problem)));
    }
    if mistakes.is_empty() { Ok(settings) } else { Err(mistakes.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default() -> v1::PermissionSettings {
        (&Settings::default()).into()
    }

    fn with(changes: &[(&str, &str)]) -> Result<v1::PermissionSettings, String> {
        let changes: Vec<(String, String)> = changes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        changed(default(), &changes)
    }

    #[test]
    fn the_defaults_are_those_of_luckperms() {
        let pairs = pairs(&default());
        let expected = [
            ("server", "proxy"),
            ("context-satisfy-mode", "at-least-one-value-per-key"),
            ("inheritance-traversal-algorithm", "depth-first-pre-order"),
            ("post-traversal-inheritance-sort", "false"),
            ("primary-group-calculation", "parents-by-weight"),
            ("temporary-add-behaviour", "deny"),
            ("apply-wildcards", "true"),
            ("apply-regex", "true"),
            ("apply-shorthand", "true"),
            ("apply-sponge-implicit-wildcards", "false"),
            ("meta-formatting.prefix.format", "highest"),
            ("meta-formatting.prefix.start-spacer", ""),
            ("meta-formatting.prefix.middle-spacer", " "),
            ("meta-formatting.prefix.end-spacer", ""),
            ("meta-formatting.prefix.duplicates", "first-only"),
            ("meta-formatting.suffix.format", "highest"),
            ("meta-formatting.suffix.start-spacer", ""),
            ("meta-formatting.suffix.middle-spacer", " "),
            ("meta-formatting.suffix.end-spacer", ""),
            ("meta-formatting.suffix.duplicates", "first-only"),
            ("meta-value-selection-default", "inheritance"),
        ];
        assert_eq!(pairs, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    /// What is shown can be set: every setting, to something else than its default.
    #[test]
    fn what_is_shown_can_be_set() {
        let settings = with(&[
            ("server", "hub"),
            ("context-satisfy-mode", "all-values-per-key"),
            ("inheritance-traversal-algorithm", "breadth-first"),
            ("post-traversal-inheritance-sort", "true"),
            ("primary-group-calculation", "stored"),
            ("temporary-add-behaviour", "accumulate"),
            ("apply-wildcards", "false"),
            ("apply-regex", "false"),
            ("apply-shorthand", "false"),
            ("apply-sponge-implicit-wildcards", "true"),
            ("meta-formatting.prefix.format", "highest_on_track_staff, lowest_own"),
            ("meta-formatting.prefix.start-spacer", "["),
            ("meta-formatting.prefix.middle-spacer", "="),
            ("meta-formatting.prefix.end-spacer", "] "),
            ("meta-formatting.prefix.duplicates", "last-only"),
            ("meta-formatting.suffix.format", "lowest"),
            ("meta-formatting.suffix.start-spacer", "<"),
            ("meta-formatting.suffix.middle-spacer", ""),
            ("meta-formatting.suffix.end-spacer", ">"),
            ("meta-formatting.suffix.duplicates", "retain-all"),
            ("meta-value-selection-default", "highest-number"),
            ("meta-value-selection.Home-Limit", "lowest-number"),
            ("static-contexts.Region", "EU,Us"),
        ])
        .unwrap();
        let shown = pairs(&settings);
        let of = |key: &str| shown.iter().find(|(shown, _)| shown == key).map(|(_, value)| value.as_str());
        assert_eq!(of("static-contexts.region"), Some("eu,us"));
        assert_eq!(of("meta-value-selection.home-limit"), Some("lowest-number"));
        assert_eq!(of("meta-formatting.prefix.format"), Some("highest_on_track_staff,lowest_own"));
        for (key, value) in pairs(&default()) {
            assert_ne!(of(&key), Some(value.as_str()), "{key}");
        }
        assert_eq!(changed(default(), &shown).unwrap(), settings);
    }

    #[test]
    fn an_empty_value_takes_away() {
        let settings = with(&[("static-contexts.a", "b"), ("meta-value-selection.k", "lowest-number"), ("server", "")]).unwrap();
        assert_eq!(settings.server, "");
        let gone = [("static-contexts.a".to_owned(), String::new()), ("meta-value-selection.k".to_owned(), String::new())];
        let settings = changed(settings, &gone).unwrap();
        assert!(settings.static_contexts.is_empty() && settings.meta_selection_of.is_empty());
    }

    #[test]
    fn every_mistake_is_named() {
        for (key, value, expected) in [
            ("apply-regex", "yes", "true or false"),
            ("applyregex", "true", "settings show"),
            ("meta-formatting.prefix.color", "red", "settings show"),
            ("temporary-add-behaviour", "ask", "deny, replace or accumulate"),
            ("context-satisfy-mode", "all", "all-values-per-key"),
            ("meta-formatting.prefix.format", "highest,middle", "middle"),
            ("meta-formatting.suffix.duplicates", "some", "retain-all"),
            ("static-contexts.", "x", "settings show"),
            ("meta-value-selection.k", "average", "highest-number"),
        ] {
            let problem = with(&[(key, value)]).unwrap_err();
            assert!(problem.contains(expected), "{key}={value}: {problem}");
        }
        let both = with(&[("apply-regex", "yes"), ("nonsense", "1")]).unwrap_err();
        assert!(both.contains("apply-regex:") && both.contains("nonsense:"), "{both}");
    }
}
