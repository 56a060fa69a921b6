//! All that players are told by commands, and which values each has a place for.

/// Defines the phrases: the name, the key in a file, the places that must be in the text, and those that may be.
macro_rules! phrases {
    ($($phrase:ident = $key:literal [$($needed:literal)*] [$($allowed:literal)*];)*) => {
        /// Something that players are told.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Phrase {
            $(#[doc = concat!("`", $key, "`")] $phrase,)*
        }

        impl Phrase {
            /// Every phrase, in the order of the files.
            pub const ALL: &'static [Phrase] = &[$(Phrase::$phrase,)*];

            /// Its key in a file.
            pub fn key(self) -> &'static str {
                match self { $(Phrase::$phrase => $key,)* }
            }

            /// The places without which it says nothing.
            pub(super) fn needed(self) -> &'static [&'static str] {
                match self { $(Phrase::$phrase => &[$($needed,)*],)* }
            }

            /// All places that it may have.
            pub(super) fn places(self) -> &'static [&'static str] {
                match self { $(Phrase::$phrase => &[$($needed,)* $($allowed,)*],)* }
            }
        }
    };
}

phrases! {
    // Of any command.
    NotPermitted = "not_permitted" [] ["command" "permission"];
    PermissionsUnknown = "permissions_unknown" [] ["command" "permission"];
    TooFast = "too_fast" [] [];
    TooMany = "too_many" [] [];
    Unavailable = "unavailable" [] [];
    Failed = "failed" [] [];
    PlayerOffline = "player_offline" [] ["player"];
    UnknownBackend = "unknown_backend" [] ["backend"];
    BackendDrained = "backend_drained" [] ["backend"];
    Separator = "separator" [] [];
    More = "more" ["more"] [];

    // Of a player that wants to go somewhere.
    BackendNotPermitted = "backend_not_permitted" [] ["backend"];
    AlreadyThere = "already_there" [] ["backend"];
    MovingAlready = "moving_already" [] ["backend"];
    BackendRefused = "backend_refused" ["reason"] ["backend"];
    ModsDiffer = "mods_differ" [] ["backend"];
    NotMoved = "not_moved" [] ["backend"];

    // Of one command each.
    ServerCurrent = "server_current" ["backend"] [];
    ServerList = "server_list" [] [];
    ServerItem = "server_item" ["backend"] [];
    ServerHover = "server_hover" [] ["backend"];
    ServerNone = "server_none" [] [];
    HubNone = "hub_none" [] [];
    GlistBackend = "glist_backend" ["backend" "players"] [];
    GlistNames = "glist_names" ["backend" "players" "names"] [];
    GlistTotal = "glist_total" ["players"] [];
    FindUsage = "find_usage" ["command"] [];
    Found = "found" ["player" "backend"] ["node"];
    SendUsage = "send_usage" ["command"] [];
    SentPlayer = "sent_player" ["player" "backend"] [];
    SentPlayers = "sent_players" ["players" "backend"] [];
    SentAlready = "sent_already" [] ["player" "backend"];
    SentNobody = "sent_nobody" [] ["backend"];
    AlertUsage = "alert_usage" ["command"] [];
    Alert = "alert" ["message"] ["player"];
    KickUsage = "kick_usage" ["command"] [];
    KickReason = "kick_reason" ["reason"] ["player"];
    KickNoReason = "kick_no_reason" [] ["player"];
    Kicked = "kicked" ["player"] [];
    Ping = "ping" ["ping"] [];
    MoonBridgeUsage = "moonbridge_usage" ["command"] [];
    MoonBridgeVersion = "moonbridge_version" ["version"] [];
    MoonBridgeNode = "moonbridge_node" ["node"] ["players"];
    MoonBridgeSession = "moonbridge_session" [] ["player" "backend" "session"];
    MoonBridgeAttached = "moonbridge_attached" [] [];
    MoonBridgeDetached = "moonbridge_detached" [] [];
    MoonBridgePermission = "moonbridge_permission" ["permission" "answer"] ["contexts"];
    AnswerTrue = "answer_true" [] [];
    AnswerFalse = "answer_false" [] [];
    AnswerUndefined = "answer_undefined" [] [];
    AnswerUnavailable = "answer_unavailable" [] [];
}
