//! Values of arguments about permissions, as the control plane will take them.

use moonbridge_permissions::{Contexts, Node, duration as durations, holder};

/// The name of a group or track, in lower case.
pub(super) fn name(text: &str) -> Result<String, String> {
    holder::name(text).map(|name| name.to_string()).map_err(|error| error.to_string())
}

/// The key of a node.
pub(super) fn node(text: &str) -> Result<String, String> {
    Node::new(text, true, Contexts::none(), None).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// KEY=VALUE, in lower case.
pub(super) fn context(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, for example world=lobby")?;
    Contexts::none().add(key, value).map_err(|error| error.to_string())?;
    Ok((key.trim().to_lowercase(), value.trim().to_lowercase()))
}

/// A time, in seconds.
pub(super) fn duration(text: &str) -> Result<u64, String> {
    durations::parse(text).map_err(|error| error.to_string())
}

/// KEY=VALUE of a setting; the value may be empty.
pub(super) fn setting(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = pair.ok_or("expected KEY=VALUE, for example apply-wildcards=true")?;
    Ok((key.to_owned(), value.to_owned()))
}
