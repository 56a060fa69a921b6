//! What the audit says of resources: a line a field, only those that differ, and no secret.

use moonbridge_proto::v1;

use super::Entry;
use crate::tokens;

/// The name of a field and its value.
type Field = (&'static str, String);

/// A backend that was added, changed or removed.
pub(crate) fn backend(what: &'static str, name: &str, before: Option<&v1::Backend>, after: Option<&v1::Backend>) -> Entry {
    let (old, mut new) = (before.map_or_else(Vec::new, of_backend), after.map_or_else(Vec::new, of_backend));
    if let (Some(before), Some(after)) = (before, after)
        && !before.forwarding_token.is_empty()
        && before.forwarding_token != after.forwarding_token
        && let Some((_, token)) = new.iter_mut().find(|(field, _)| *field == TOKEN)
    {
        *token = "(changed)".to_owned();
    }
    entry(what, format!("backend {name}"), &old, &new)
}

/// A route that was added, changed or removed.
pub(crate) fn route(what: &'static str, host: &str, before: Option<&v1::Route>, after: Option<&v1::Route>) -> Entry {
    entry(what, format!("route {host}"), &before.map_or_else(Vec::new, of_route), &after.map_or_else(Vec::new, of_route))
}

/// A route that something else was changed with.
pub(crate) fn also_route(entry: &mut Entry, before: &v1::Route, after: &v1::Route) {
    let also = route("", &before.host, Some(before), Some(after));
    let named = |lines: Vec<String>| lines.into_iter().map(|line| format!("{} {line}", also.target)).collect::<Vec<_>>();
    entry.before.extend(named(also.before));
    entry.after.extend(named(also.after));
}

/// The settings, changed.
pub(crate) fn settings(before: &v1::Settings, after: &v1::Settings) -> Entry {
    entry("settings.set", "settings".to_owned(), &of_settings(before), &of_settings(after))
}

fn entry(what: &'static str, target: String, before: &[Field], after: &[Field]) -> Entry {
    Entry { what, target, before: without(before, after), after: without(after, before) }
}

/// The lines of the fields that the others have not, or not with this value.
fn without(fields: &[Field], others: &[Field]) -> Vec<String> {
    let differs = fields.iter().filter(|field| !others.contains(field));
    // One line a field, whatever is in it.
    differs.map(|(name, value)| format!("{name} = {}", value.replace('\n', "\\n"))).collect()
}

const TOKEN: &str = "forwarding_token";

fn of_backend(backend: &v1::Backend) -> Vec<Field> {
    let forwarding = match backend.forwarding() {
        v1::Forwarding::Unspecified | v1::Forwarding::None => "none",
        v1::Forwarding::Legacy => "legacy",
        v1::Forwarding::Bungeeguard => "bungeeguard",
    };
    let mut fields = vec![
        ("address", backend.address.clone()),
        ("forwarding", forwarding.to_owned()),
        ("drained", backend.drained.to_string()),
        ("restricted", backend.restricted.to_string()),
        ("plugin_channel", if backend.plugin_channel_off { "off" } else { "on" }.to_owned()),
    ];
    if !backend.forwarding_token.is_empty() {
        fields.push((TOKEN, "(set)".to_owned()));
    }
    fields
}

fn of_route(route: &v1::Route) -> Vec<Field> {
    let on_kick = match route.on_kick() {
        v1::OnKick::Unspecified | v1::OnKick::Fallback => "fallback",
        v1::OnKick::Disconnect => "disconnect",
    };
    vec![("backends", route.backends.join(", ")), ("on_kick", on_kick.to_owned())]
}

fn of_settings(settings: &v1::Settings) -> Vec<Field> {
    let duplicate_login = match settings.duplicate_login() {
        v1::DuplicateLogin::Unspecified | v1::DuplicateLogin::Newest => "newest",
        v1::DuplicateLogin::Refuse => "refuse",
    };
    let favicon = match &*settings.favicon {
        [] => "none".to_owned(),
        // Enough to see that it is another.
        icon => format!("{} bytes, SHA-256 {}", icon.len(), hex(&tokens::hash(icon)[..4])),
    };
    vec![
        ("motd", settings.motd.clone()),
        ("max_players", settings.max_players.to_string()),
        ("favicon", favicon),
        ("duplicate_login", duplicate_login.to_owned()),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lobby(token: &str) -> v1::Backend {
        v1::Backend { name: "lobby".to_owned(), address: "a:1".to_owned(), forwarding_token: token.to_owned(), ..v1::Backend::default() }
    }

    #[test]
    fn only_what_differs_is_said_and_never_a_token() {
        let added = backend("backend.set", "lobby", None, Some(&lobby("secret-1")));
        assert_eq!(added.target, "backend lobby");
        assert_eq!(added.before, Vec::<String>::new());
        assert_eq!(
            added.after,
            [
                "address = a:1",
                "forwarding = none",
                "drained = false",
                "restricted = false",
                "plugin_channel = on",
                "forwarding_token = (set)"
            ]
        );
        let changed = backend("backend.set", "lobby", Some(&lobby("secret-1")), Some(&v1::Backend { drained: true, ..lobby("secret-2") }));
        assert_eq!(changed.before, ["drained = false", "forwarding_token = (set)"]);
        assert_eq!(changed.after, ["drained = true", "forwarding_token = (changed)"]);
        let dropped = backend("backend.set", "lobby", Some(&lobby("secret-1")), Some(&lobby("")));
        assert_eq!((dropped.before, dropped.after), (vec!["forwarding_token = (set)".to_owned()], Vec::new()));
        let same = backend("backend.set", "lobby", Some(&lobby("secret-1")), Some(&lobby("secret-1")));
        assert_eq!((same.before, same.after), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_field_is_a_line_and_an_icon_a_short_one() {
        let old = v1::Settings { motd: "one\ntwo".to_owned(), favicon: vec![1; 9_000], ..v1::Settings::default() };
        let new = v1::Settings { motd: "three".to_owned(), favicon: vec![2; 9_000], ..v1::Settings::default() };
        let entry = settings(&old, &new);
        assert_eq!((entry.before.len(), &*entry.before[0]), (2, "motd = one\\ntwo"));
        assert!(entry.after[1].starts_with("favicon = 9000 bytes") && entry.after[1] != entry.before[1], "{entry:?}");
    }

    #[test]
    fn routes_that_change_with_a_backend_are_said_by_name() {
        let mut entry = backend("backend.remove", "lobby", Some(&lobby("")), None);
        let route = |backends: &[&str]| v1::Route {
            host: "*".to_owned(),
            backends: backends.iter().map(|name| (*name).to_owned()).collect(),
            ..v1::Route::default()
        };
        also_route(&mut entry, &route(&["lobby", "hub"]), &route(&["hub"]));
        assert_eq!(entry.before.last().map(String::as_str), Some("route * backends = lobby, hub"));
        assert_eq!(entry.after, ["route * backends = hub"]);
    }
}
