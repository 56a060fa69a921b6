//! What either side of the handshake does with a message, as Forge 10.13.4.1614 does it: a client advances with the server's
//! messages alone, a server with the client's.

use super::message::Message;

/// Where a client is. The numbers are what it puts into its acks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum ClientPhase {
    /// Before the connection is up; no message finds a client here.
    Start = 0,
    /// Waits for Server Hello (or for a Join Game, which makes the server a vanilla one).
    #[default]
    Hello = 1,
    /// Has said what mods it has; waits for the server's.
    WaitingServerData = 2,
    /// Waits for the ids.
    WaitingServerComplete = 3,
    /// Has taken the ids; waits for the server's first ack.
    PendingComplete = 4,
    /// Waits for the server's second ack.
    Complete = 5,
    /// Plays.
    Done = 6,
    /// Has been told something that it does not take: it disconnects.
    Error = 7,
}

/// What a client says to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// Nothing.
    Nothing,
    /// Its channels (REGISTER), Client Hello and its Mod List.
    Introduction,
    /// An ack with this phase.
    Ack(u8),
}

impl ClientPhase {
    /// Where a client that is told `message` goes from here, and what it says; [`ClientPhase::Error`] if it throws, which
    /// costs the connection. Whether it likes the mods and ids is another matter.
    pub fn told(self, message: &Message<'_>) -> (ClientPhase, Reply) {
        use ClientPhase::*;
        let ack = Reply::Ack(self as u8);
        match (self, message) {
            (Hello, Message::ServerHello(_)) => (WaitingServerData, Reply::Introduction),
            (WaitingServerData, Message::ModList(_)) => (WaitingServerComplete, ack),
            (WaitingServerComplete, Message::ModIdData(_)) => (PendingComplete, ack),
            // From here on it looks at nothing but that there is a message; one that it does not know throws, however.
            (PendingComplete | Complete | Done, Message::Unknown(_)) => (Error, Reply::Nothing),
            (PendingComplete, _) => (Complete, ack),
            (Complete, _) => (Done, ack),
            (Done, Message::Reset) => (Hello, Reply::Nothing),
            (Done, _) => (Done, Reply::Nothing),
            _ => (Error, Reply::Nothing),
        }
    }

    /// Where a client that has never been done goes from here on a Join Game.
    pub fn joined(self) -> ClientPhase {
        use ClientPhase::*;
        match self {
            Hello | Complete | Done => Done,
            PendingComplete => Complete,
            _ => Error,
        }
    }

    /// What it is called in outcomes and logs.
    pub fn name(self) -> &'static str {
        match self {
            ClientPhase::Start => "start",
            ClientPhase::Hello => "hello",
            ClientPhase::WaitingServerData => "waiting_server_data",
            ClientPhase::WaitingServerComplete => "waiting_server_complete",
            ClientPhase::PendingComplete => "pending_complete",
            ClientPhase::Complete => "complete",
            ClientPhase::Done => "done",
            ClientPhase::Error => "error",
        }
    }
}

/// Where a server is. The numbers are what it puts into its acks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum ServerPhase {
    /// Has said nothing yet.
    #[default]
    Start = 0,
    /// Has said Server Hello; waits for the client's mods.
    Hello = 1,
    /// Has said its mods; waits for an ack.
    WaitingCAck = 2,
    /// Has said its ids and its first ack; waits for an ack.
    Complete = 3,
    /// Has said its second ack: Join Game follows.
    Done = 4,
    /// Has refused the client.
    Error = 5,
}

impl ServerPhase {
    /// Where a server goes that says `message`; an observer's view, so whatever does not fit changes nothing.
    pub fn said(self, message: &Message<'_>) -> ServerPhase {
        use ServerPhase::*;
        match (self, message) {
            (_, Message::ServerHello(_)) => Hello,
            (Hello, Message::ModList(_)) => WaitingCAck,
            (WaitingCAck, Message::ModIdData(_)) => Complete,
            (WaitingCAck, Message::Ack { phase }) if *phase == WaitingCAck as u8 => Complete,
            (Complete, Message::Ack { phase }) if *phase == Complete as u8 => Done,
            _ => self,
        }
    }

    /// What it is called in outcomes and logs.
    pub fn name(self) -> &'static str {
        match self {
            ServerPhase::Start => "start",
            ServerPhase::Hello => "hello",
            ServerPhase::WaitingCAck => "waiting_ack",
            ServerPhase::Complete => "complete",
            ServerPhase::Done => "done",
            ServerPhase::Error => "error",
        }
    }
}
