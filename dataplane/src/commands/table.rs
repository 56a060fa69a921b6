//! Which commands are the node's, and what players call them.

use moonbridge_protocol::command::Command;

/// A command of the node's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Shows the backends, or goes to one.
    Server,
    /// Goes to the hub.
    Hub,
    /// Shows who is where on the network.
    Glist,
    /// Shows where a player is.
    Find,
    /// Sends players to a backend.
    Send,
    /// Tells everybody something.
    Alert,
    /// Disconnects a player.
    Kick,
    /// Shows how far the player is from the node.
    Ping,
    /// Shows what the node is, and what the player may do.
    MoonBridge,
}

impl Kind {
    /// Every command there is, in the order of the manual.
    pub const ALL: [Kind; 9] =
        [Kind::Server, Kind::Hub, Kind::Glist, Kind::Find, Kind::Send, Kind::Alert, Kind::Kick, Kind::Ping, Kind::MoonBridge];

    /// Its own name, whatever players call it: that of its permission and of its table in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Server => "server",
            Kind::Hub => "hub",
            Kind::Glist => "glist",
            Kind::Find => "find",
            Kind::Send => "send",
            Kind::Alert => "alert",
            Kind::Kick => "kick",
            Kind::Ping => "ping",
            Kind::MoonBridge => "moonbridge",
        }
    }

    /// The permission that it wants.
    pub fn permission(self) -> &'static str {
        match self {
            Kind::Server => "moonbridge.command.server",
            Kind::Hub => "moonbridge.command.hub",
            Kind::Glist => "moonbridge.command.glist",
            Kind::Find => "moonbridge.command.find",
            Kind::Send => "moonbridge.command.send",
            Kind::Alert => "moonbridge.command.alert",
            Kind::Kick => "moonbridge.command.kick",
            Kind::Ping => "moonbridge.command.ping",
            Kind::MoonBridge => "moonbridge.command.moonbridge",
        }
    }

    /// Whether everybody may use it unless that is taken away.
    pub fn is_for_everybody(self) -> bool {
        matches!(self, Kind::Server | Kind::Hub | Kind::Ping)
    }
}

/// The names of the commands that are on. A name is one of them in any case of its letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    names: Vec<(Box<str>, Kind)>,
}

impl Table {
    /// No commands at all.
    pub const EMPTY: Table = Table { names: Vec::new() };

    /// A command is called this, too.
    ///
    /// # Errors
    /// If a command is called so already: that one.
    pub fn add(&mut self, name: &str, kind: Kind) -> Result<(), Kind> {
        match self.get(&Command { root: name, rest: None }) {
            Some(taken) => Err(taken),
            None => {
                self.names.push((name.into(), kind));
                Ok(())
            }
        }
    }

    /// The node's command that a line is, if it is one.
    pub fn get(&self, command: &Command<'_>) -> Option<Kind> {
        self.names.iter().find(|(name, _)| command.is(name)).map(|(_, kind)| *kind)
    }

    /// What players call a command: its first name. `None` if it is off.
    pub fn name_of(&self, kind: Kind) -> Option<&str> {
        self.names().find(|(_, other)| *other == kind).map(|(name, _)| name)
    }

    /// Every name, those of one command together and its first name first.
    pub fn names(&self) -> impl Iterator<Item = (&str, Kind)> {
        self.names.iter().map(|(name, kind)| (&**name, *kind))
    }

    /// Whether no command is on.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// Every command, under its own name.
impl Default for Table {
    fn default() -> Self {
        Table { names: Kind::ALL.map(|kind| (kind.name().into(), kind)).into() }
    }
}
