//! What a key says.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Kind, MAX_KEY, MAX_PERMISSION, NodeError, key, shared, shorthand};
use crate::holder::name;

/// The key in its one spelling, and what it is.
pub(super) struct Parsed {
    pub(super) key: Arc<str>,
    pub(super) kind: Kind,
    /// See [`super::Node::effort`].
    pub(super) effort: u16,
}

pub(super) fn parse(text: &str) -> Result<Parsed, NodeError> {
    if text.trim().is_empty() {
        return Err(NodeError::Empty);
    }
    let length = text.chars().count();
    match special(text)? {
        Some(_) if length > MAX_KEY => Err(NodeError::TextTooLong(length)),
        Some(parsed) => Ok(parsed),
        None if length > MAX_PERMISSION => Err(NodeError::TooLong(length)),
        None => Ok(permission(text)),
    }
}

/// Everything that is not simply a permission. What only looks like something, such as `prefix.x` or `weight.high`, is a permission.
fn special(text: &str) -> Result<Option<Parsed>, NodeError> {
    let parsed = |key: String, kind: Kind| Ok(Some(Parsed { key: key.into(), kind, effort: 0 }));
    if let Some(group) = after("group.", text) {
        let group = name(group).map_err(|_| NodeError::GroupName(group.to_owned()))?;
        return parsed(key::inheritance(&group), Kind::Inheritance(group));
    }
    if let Some((priority, text)) = after("prefix.", text).and_then(prioritised) {
        return parsed(key::prefix(priority, &text), Kind::Prefix(priority, text.into()));
    }
    if let Some((priority, text)) = after("suffix.", text).and_then(prioritised) {
        return parsed(key::suffix(priority, &text), Kind::Suffix(priority, text.into()));
    }
    if let Some((meta, value)) = after("meta.", text).and_then(split_in_two) {
        let (meta, value) = (lower(&unescape(meta)), unescape(value));
        if meta.is_empty() {
            return Err(NodeError::MetaKey(meta));
        }
        return parsed(key::meta(&meta, &value), Kind::Meta(meta.into(), value.into()));
    }
    if let Some(weight) = after("weight.", text).and_then(|number| number.parse().ok()) {
        return parsed(key::weight(weight), Kind::Weight(weight));
    }
    if let Some(display) = after("displayname.", text) {
        let named = if display.is_empty() { Err(NodeError::DisplayName) } else { Ok(Kind::DisplayName(display.into())) };
        return parsed(key::display_name(display), named?);
    }
    if let Some(pattern) = after("r=", text) {
        // A pattern may be as long as any other text; compiling a longer one would be for nothing.
        let shortened: String = pattern.chars().take(MAX_KEY).collect();
        let (regex, effort) = shared::regex(&shortened).map_err(|problem| NodeError::Regex { pattern: shortened, problem })?;
        return Ok(Some(Parsed { key: format!("r={pattern}").into(), kind: Kind::Regex(regex), effort }));
    }
    Ok(None)
}

fn permission(text: &str) -> Parsed {
    let key: Arc<str> = text.into();
    let itself = shared_lower(&key);
    let shorthand::Expanded { results, effort } = shorthand::expand(text);
    let expanded: BTreeSet<String> = results.iter().map(|expanded| lower(expanded)).collect();
    let expanded = expanded.into_iter().map(Arc::from).filter(|expanded| *expanded != itself);
    let all = std::iter::once(Arc::clone(&itself)).chain(expanded).collect();
    Parsed { key, kind: Kind::Permission(all), effort }
}

/// In lower case; the very same if it plainly is already.
pub(super) fn shared_lower(text: &Arc<str>) -> Arc<str> {
    if text.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return Arc::clone(text);
    }
    lower(text).into()
}

/// In lower case letter by letter, which a check can do without knowing what comes next.
pub(crate) fn lower(text: &str) -> String {
    match text.is_ascii() {
        true => text.to_ascii_lowercase(),
        false => text.chars().flat_map(char::to_lowercase).collect(),
    }
}

/// What follows a marker, in whatever case that is.
fn after<'a>(marker: &str, text: &'a str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(marker.len())?;
    start.eq_ignore_ascii_case(marker).then_some(rest)
}

/// A priority and a text.
fn prioritised(text: &str) -> Option<(i32, String)> {
    let (priority, text) = split_in_two(text)?;
    Some((priority.parse().ok()?, unescape(text)))
}

/// The parts before and after the first dot that no backslash precedes.
fn split_in_two(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let dot = (0..bytes.len()).find(|&i| bytes[i] == b'.' && (i == 0 || bytes[i - 1] != b'\\'))?;
    Some((&text[..dot], &text[dot + 1..]))
}

/// Dots get a backslash. So do the other characters that lose one when they are read, if there is one to lose.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut before = ' ';
    for c in text.chars() {
        if c == '.' || (before == '\\' && matches!(c, '/' | '-' | '$')) {
            escaped.push('\\');
        }
        escaped.push(c);
        before = c;
    }
    escaped
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let escaped = if c == '\\' { rest.next_if(|next| matches!(next, '.' | '/' | '-' | '$')) } else { None };
        plain.push(escaped.unwrap_or(c));
    }
    plain
}
