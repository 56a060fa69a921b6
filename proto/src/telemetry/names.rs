//! The names of spans and attributes.

/// Root: a player's session, from the accept to the moment play begins.
pub const SESSION: &str = "session";
/// Child of [`SESSION`]: reading the handshake.
pub const HANDSHAKE: &str = "handshake";
/// Child of [`SESSION`]: the player's login up to the name and UUID.
pub const AUTHENTICATE: &str = "authenticate";
/// Child of [`SESSION`]: routing and admission.
pub const ADMIT: &str = "admit";
/// Child of [`SESSION`]: finding a backend and logging in there.
pub const CONNECT: &str = "connect";
/// Root, linked to [`SESSION`]: the end of a session.
pub const SESSION_END: &str = "session.end";

/// Root: what the CLI asked for.
pub const TRANSFER_COMMAND: &str = "transfer.command";
/// Child of [`TRANSFER_COMMAND`]: a replica gives the command to the node.
pub const DISPATCH: &str = "dispatch";
/// Child of [`DISPATCH`], linked to [`SESSION`]: the node moves the player.
pub const TRANSFER: &str = "transfer";
/// Child of [`TRANSFER`]: the TCP connect to the candidate.
pub const DIAL: &str = "dial";
/// Child of [`TRANSFER`]: the login at the candidate, up to its confirmation point.
pub const LOGIN: &str = "login";
/// Child of [`TRANSFER`]: the wait for a frame boundary in both directions.
pub const PAUSE: &str = "pause";
/// Child of [`TRANSFER`]: the player's world switches.
pub const CUTOVER: &str = "cutover";
/// Child of [`TRANSFER`]: what was held is released, up to the fence.
pub const REPLAY: &str = "replay";

/// Attribute: the session's id.
pub const SESSION_ID: &str = "moonbridge.session.id";
/// Attribute: the player's name.
pub const PLAYER: &str = "moonbridge.player.name";
/// Attribute: the player's UUID.
pub const PLAYER_UUID: &str = "moonbridge.player.uuid";
/// Attribute: the Minecraft protocol version.
pub const PROTOCOL: &str = "moonbridge.protocol.version";
/// Attribute: the host the player asked for.
pub const HOST: &str = "moonbridge.host";
/// Attribute: a backend's name.
pub const BACKEND: &str = "moonbridge.backend";
/// Attribute: the backend the player comes from.
pub const FROM: &str = "moonbridge.transfer.from";
/// Attribute: the backend the player goes to.
pub const TO: &str = "moonbridge.transfer.to";
/// Attribute: the reason an operation ended with; one of a bounded set.
pub const REASON: &str = "moonbridge.reason";
/// Attribute: a command's id.
pub const COMMAND_ID: &str = "moonbridge.command.id";
/// Attribute: the node's name.
pub const NODE: &str = "moonbridge.node";
/// Attribute: the replica's name.
pub const REPLICA: &str = "moonbridge.replica";
