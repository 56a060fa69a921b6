//! Where players connect, and whether they must prove who they are.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use moonbridge_proto::config::Fields;

use super::set;

/// The most listeners beside the first.
const MAX_MORE: usize = 64;

/// One address that players connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Where players connect.
    pub listen: SocketAddr,
    /// Whether they must prove who they are.
    pub authentication: Authentication,
    /// Whether players of other machines may come in without a proof.
    pub allow_offline_public: bool,
}

/// Whether players must prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authentication {
    /// Whoever comes is who it says.
    Offline,
    /// The session server says who it is, and the connection is encrypted.
    Online,
}

/// An offline listener that other machines reach: anybody could take any name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("\"offline\" on {0}, which other machines may reach: anybody could take any player's name")]
pub struct OpenToAll(SocketAddr);

impl Listener {
    /// Whether it lets strangers in as whoever they say.
    ///
    /// # Errors
    /// If it does, and that was not asked for.
    pub fn check(&self) -> Result<(), OpenToAll> {
        let public = !self.listen.ip().to_canonical().is_loopback();
        if self.authentication == Authentication::Offline && public && !self.allow_offline_public {
            return Err(OpenToAll(self.listen));
        }
        Ok(())
    }

    /// Reads the three fields, here or in a table of `[[listeners]]`.
    pub(super) fn read(fields: &mut Fields) -> Listener {
        let mut listener = Listener::default();
        set(&mut listener.listen, fields.socket_address("listen"));
        let modes = [("offline", Authentication::Offline), ("online", Authentication::Online)];
        // What is wrong already is not complained about twice.
        let is_known = !fields.has("authentication") || {
            let given = fields.one_of("authentication", &modes);
            set(&mut listener.authentication, given);
            given.is_some()
        };
        set(&mut listener.allow_offline_public, fields.bool("allow_offline_public"));
        if is_known && let Err(error) = listener.check() {
            fields.wrong(
                "authentication",
                format!("{error}: set \"online\", or allow_offline_public = true if something else keeps strangers out"),
            );
        }
        listener
    }

    /// Reads `[[listeners]]`, which come beside `first`.
    pub(super) fn read_more(fields: &mut Fields, first: &Listener) -> Vec<Listener> {
        let more = fields.tables("listeners", |fields| {
            fields.require("listen", "an IP address and a port, such as \"127.0.0.1:25565\"");
            (fields.has("listen"), Listener::read(fields))
        });
        let more = more.unwrap_or_default();
        if more.len() > MAX_MORE {
            fields.wrong("listeners", format!("expected at most {MAX_MORE}"));
        }
        let mut taken = vec![first.listen];
        for (index, (is_given, listener)) in more.iter().enumerate() {
            if *is_given && listener.listen.port() != 0 && taken.contains(&listener.listen) {
                fields.wrong(&format!("listeners[{index}].listen"), format!("{} is listened on already", listener.listen));
            }
            taken.push(listener.listen);
        }
        more.into_iter().map(|(_, listener)| listener).collect()
    }
}

impl Default for Listener {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 25565),
            authentication: Authentication::Offline,
            allow_offline_public: false,
        }
    }
}
