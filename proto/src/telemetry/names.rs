//! The names of spans, metrics and attributes.

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

/// Sessions of this node now.
pub const SESSIONS: &str = "moonbridge.sessions";
/// Counter: sessions that came to play.
pub const SESSIONS_BEGAN: &str = "moonbridge.sessions.began";
/// Counter: connections that ended by trouble, with [`PHASE`], [`SIDE`] and [`KIND`]; a peer's hanging up is a kind too.
pub const CONNECTIONS_FAILED: &str = "moonbridge.connections.failed";
/// Players on the whole network, as shown in the server list.
pub const NETWORK_PLAYERS: &str = "moonbridge.network.players";
/// Counter: sets of permissions that were worked out, each for one or more players of a worker.
pub const PERMISSIONS_RESOLVED: &str = "moonbridge.permissions.resolved";
/// Counter, bytes: what was encrypted for players.
pub const CIPHER_BYTES: &str = "moonbridge.cipher.bytes";
/// Counter, nanoseconds: the time that encrypting them took.
pub const CIPHER_TIME: &str = "moonbridge.cipher.time";
/// Counter: how often the cipher was run, with [`STREAMS`].
pub const CIPHER_BATCHES: &str = "moonbridge.cipher.batches";
/// Counter: streams that it was run for; over [`CIPHER_BATCHES`], how many it had side by side on average.
pub const CIPHER_STREAMS: &str = "moonbridge.cipher.streams";

/// Attribute: where in a session's life; one of a bounded set.
pub const PHASE: &str = "moonbridge.phase";
/// Attribute: whose fault; one of a bounded set.
pub const SIDE: &str = "moonbridge.side";
/// Attribute: which kind of trouble; one of a bounded set.
pub const KIND: &str = "moonbridge.kind";
/// Attribute: how many streams were encrypted side by side: `1`, `2`, `3-4`, `5-8`, `9-16` or `17+`.
pub const STREAMS: &str = "moonbridge.streams";

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
