//! The host a client says it connects to.

/// A handshake's host, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VirtualHost<'a> {
    /// What stands before the first NUL: the host to route by (not normalised).
    pub route_host: &'a str,
    /// Whether a Forge client's mark, `\0FML\0`, follows. Its absence says nothing: not every build sends it.
    pub forge_marker: bool,
}

impl<'a> VirtualHost<'a> {
    /// Takes the raw host of a handshake apart.
    pub fn of(raw: &'a str) -> VirtualHost<'a> {
        match raw.split_once('\0') {
            Some((route_host, marks)) => VirtualHost { route_host, forge_marker: marks.split('\0').any(|mark| mark == "FML") },
            None => VirtualHost { route_host: raw, forge_marker: false },
        }
    }
}
