//! A client and a server of 1.7.10 of our own, with Forge or without, which fail a test the moment the real ones would throw or hang.
//!
//! [`client::Model`] and [`server::Server`] are pure: bytes and the time in, bytes and events out. [`drive`] puts them on TCP
//! connections. They share no packet code with what they test, but for frames and fields ([`moonbridge_protocol::frame`], `wire`).
//!
//! What they do was read (for facts) in Forge 10.13.4.1614 for 1.7.10 and forks of it: packages `cpw.mods.fml.common.network`
//! (`handshake.FMLHandshakeClientState`, `FMLHandshakeServerState`, `FMLHandshakeMessage`, `NetworkDispatcher`,
//! `internal.FMLNetworkHandler`), `net.minecraftforge.common.network`, and, by MCP's names, `net.minecraft.network.NetworkManager`,
//! `net.minecraft.client.network.NetHandlerPlayClient`, `net.minecraft.scoreboard.Scoreboard`.

pub mod client;
pub mod drive;
mod forge_client;
pub mod messages;
mod scoreboard;
pub mod server;
pub mod stage;

use std::time::Duration;

/// What a real client would do now, in place of playing on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// An exception on its main thread: the game ends with a crash report.
    #[error("the client crashes: {0}")]
    Crash(String),
    /// It closes the connection, and shows this.
    #[error("the client disconnects: {0}")]
    Disconnect(String),
    /// It shows the same screen for ever.
    #[error("the client hangs: {0}")]
    Hang(String),
}

/// How long a client waits for a byte: the vanilla one 20 s (`NetworkManager.provideLanClient`), Forge's 30 s (`FMLNetworkHandler.READ_TIMEOUT`). The
/// stricter one for both.
pub const READ_TIMEOUT: Duration = Duration::from_secs(20);
