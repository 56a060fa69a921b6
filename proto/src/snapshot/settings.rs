//! Network-wide settings of what a node shows and does.

use super::mistakes::{At, Mistakes};
use crate::v1;

/// The longest MOTD, in bytes. Clients show two lines; this only keeps a status answer small.
pub const MAX_MOTD: usize = 2_048;

/// The largest favicon, in bytes: in base64 and with the rest of the status JSON it stays below the 32,767 characters of a
/// protocol string. (64 x 64 pixels of four bytes are 16 KiB before compression.)
pub const MAX_FAVICON: usize = 20 * 1024;

/// Width and height of a favicon, in pixels: clients refuse any other.
pub const FAVICON_SIDE: u32 = 64;

/// Network-wide settings of what a node shows and does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Shown in the server list; legacy colour codes are allowed.
    pub motd: String,
    /// Shown in the server list; logins beyond it are not refused by it.
    pub max_players: u32,
    /// PNG, 64 x 64.
    pub favicon: Option<Vec<u8>>,
    /// What becomes of a login of a player who has a session already.
    pub duplicate_login: DuplicateLogin,
}

/// What becomes of a login of a player who has a session already, on whatever node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DuplicateLogin {
    /// The older session is closed, then the login goes on.
    #[default]
    Newest,
    /// The login is refused.
    Refuse,
}

impl DuplicateLogin {
    /// As configurations and the command line call it.
    pub const NAMES: [(&'static str, DuplicateLogin); 2] = [("newest", DuplicateLogin::Newest), ("refuse", DuplicateLogin::Refuse)];
}

impl From<DuplicateLogin> for v1::DuplicateLogin {
    fn from(policy: DuplicateLogin) -> Self {
        match policy {
            DuplicateLogin::Newest => v1::DuplicateLogin::Newest,
            DuplicateLogin::Refuse => v1::DuplicateLogin::Refuse,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self { motd: "A MoonBridge network".to_owned(), max_players: 1_000, favicon: None, duplicate_login: DuplicateLogin::Newest }
    }
}

pub(super) fn validate(raw: v1::Settings, at: &At, mistakes: &mut Mistakes) -> Settings {
    if raw.motd.len() > MAX_MOTD {
        mistakes.add(&at.field("motd"), format!("expected at most {MAX_MOTD} bytes, got {}", raw.motd.len()));
    }
    if raw.motd.chars().any(|c| c.is_control() && c != '\n') {
        mistakes.add(&at.field("motd"), "expected text without control characters (a line break is allowed)");
    }
    // The 1.7 status and its legacy form both write the number as a signed 32-bit integer.
    if i32::try_from(raw.max_players).is_err() {
        mistakes.add(&at.field("max_players"), format!("expected 0 to {}, got {}", i32::MAX, raw.max_players));
    }
    if let Err(problem) = check_favicon(&raw.favicon) {
        mistakes.add(&at.field("favicon"), problem);
    }
    let duplicate_login = match v1::DuplicateLogin::try_from(raw.duplicate_login) {
        Ok(v1::DuplicateLogin::Unspecified | v1::DuplicateLogin::Newest) => DuplicateLogin::Newest,
        Ok(v1::DuplicateLogin::Refuse) => DuplicateLogin::Refuse,
        Err(_) => {
            mistakes.add(&at.field("duplicate_login"), format!("expected a known policy, got {}", raw.duplicate_login));
            DuplicateLogin::Newest
        }
    };
    let favicon = (!raw.favicon.is_empty()).then_some(raw.favicon);
    Settings { motd: raw.motd, max_players: raw.max_players, favicon, duplicate_login }
}

/// Empty, or a PNG of the right size by its header (PNG specification, 5.2 and 11.2.2): the pixels are the client's matter.
fn check_favicon(bytes: &[u8]) -> Result<(), String> {
    if bytes.is_empty() {
        return Ok(());
    }
    if bytes.len() > MAX_FAVICON {
        return Err(format!("expected at most {MAX_FAVICON} bytes, got {}", bytes.len()));
    }
    let Some((head, size)) = bytes.split_at_checked(16) else { return Err("expected a PNG image".to_owned()) };
    if head != b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" {
        return Err("expected a PNG image".to_owned());
    }
    let side = FAVICON_SIDE.to_be_bytes();
    match size.split_at_checked(8) {
        Some((size, _)) if size[..4] == side && size[4..] == side => Ok(()),
        _ => Err(format!("expected a PNG image of {FAVICON_SIDE} x {FAVICON_SIDE} pixels")),
    }
}

impl TryFrom<v1::Settings> for Settings {
    type Error = Vec<v1::FieldError>;

    fn try_from(raw: v1::Settings) -> Result<Self, Self::Error> {
        let mut mistakes = Mistakes::default();
        let settings = validate(raw, &At::root(), &mut mistakes);
        mistakes.into_result(settings)
    }
}

impl From<&Settings> for v1::Settings {
    fn from(settings: &Settings) -> Self {
        Self {
            motd: settings.motd.clone(),
            max_players: settings.max_players,
            favicon: settings.favicon.clone().unwrap_or_default(),
            duplicate_login: v1::DuplicateLogin::from(settings.duplicate_login).into(),
        }
    }
}
