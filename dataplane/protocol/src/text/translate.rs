//! The few translations that a proxy meets where it cannot leave them to the client: in reasons for a disconnect, and in
//! chat that a tool prints. In English, as the game's `en_US.lang` has them.

/// The pattern of a key; each `%s` takes one argument, in order.
pub(super) fn english(key: &str) -> Option<&'static str> {
    TRANSLATIONS.iter().find(|(known, _)| *known == key).map(|(_, pattern)| *pattern)
}

const TRANSLATIONS: &[(&str, &str)] = &[
    ("chat.type.text", "<%s> %s"),
    ("chat.type.emote", "* %s %s"),
    ("chat.type.announcement", "[%s] %s"),
    ("chat.type.admin", "[%s: %s]"),
    ("commands.message.display.incoming", "%s whispers to you: %s"),
    ("multiplayer.player.joined", "%s joined the game"),
    ("multiplayer.player.left", "%s left the game"),
    ("disconnect.genericReason", "%s"),
    ("disconnect.kicked", "Was kicked from the game"),
    ("disconnect.timeout", "Timed out"),
    ("disconnect.closed", "Connection closed"),
    ("disconnect.endOfStream", "End of stream"),
    ("disconnect.overflow", "Buffer overflow"),
    ("disconnect.spam", "Kicked for spamming"),
    ("disconnect.lost", "Connection Lost"),
    ("disconnect.disconnected", "Disconnected by Server"),
    ("disconnect.loginFailed", "Failed to login"),
    ("disconnect.loginFailedInfo", "Failed to login: %s"),
];
