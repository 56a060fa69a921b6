//! What a backend is answered.

use std::net::IpAddr;

use uuid::Uuid;

use super::java::{put_text, text_len};
use super::{ALL, whole_or_nothing};
use crate::play::MAX_SERVERBOUND_DATA;

/// What stands between the names of a list.
const BETWEEN: &str = ", ";

/// An answer. The messages that do something are answered nothing, and so is one about a player or a backend that is not there
/// (but for [`Answer::GetPlayerServer`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    /// The player's address.
    Ip {
        /// As the proxy sees it.
        address: IpAddr,
        /// The port it comes from.
        port: u16,
    },
    /// Another player's address.
    IpOther {
        /// Whose, as that player spells it.
        player: &'a str,
        /// As the proxy sees it.
        address: IpAddr,
        /// The port it comes from.
        port: u16,
    },
    /// How many players there are.
    PlayerCount {
        /// Where; `None` is the whole network.
        on: Option<&'a str>,
        /// How many.
        count: i32,
    },
    /// Who the players are.
    PlayerList {
        /// Where; `None` is the whole network.
        on: Option<&'a str>,
        /// Their names; as many as fit are said.
        players: &'a [&'a str],
    },
    /// What backends there are.
    GetServers {
        /// Their names; as many as fit are said.
        backends: &'a [&'a str],
    },
    /// What the backend that asked is called.
    GetServer {
        /// Its name.
        backend: &'a str,
    },
    /// On which backend a player is.
    GetPlayerServer {
        /// Who, as it was asked.
        player: &'a str,
        /// `None` if the player is not there, or on no backend.
        backend: Option<&'a str>,
    },
    /// The player's UUID.
    Uuid {
        /// The same as the backend was told at the player's login.
        uuid: Uuid,
    },
    /// Another player's UUID.
    UuidOther {
        /// Whose, as that player spells it.
        player: &'a str,
        /// The UUID.
        uuid: Uuid,
    },
    /// A backend's address.
    ServerIp {
        /// Which one's.
        backend: &'a str,
        /// What its host resolves to.
        address: IpAddr,
        /// Its port: an unsigned short, though plugins read a signed one.
        port: u16,
    },
}

impl Answer<'_> {
    /// Appends what a plugin message to the backend carries; says whether it could be said, which it cannot with a name of tens
    /// of thousands of bytes.
    pub fn write(&self, data: &mut Vec<u8>) -> bool {
        whole_or_nothing(data, |data| match *self {
            Answer::Ip { address, port } => put_texts(data, &["IP", &java_address(address)]) && put_i32(data, port.into()),
            Answer::IpOther { player, address, port } => {
                put_texts(data, &["IPOther", player, &java_address(address)]) && put_i32(data, port.into())
            }
            Answer::PlayerCount { on, count } => put_texts(data, &["PlayerCount", on.unwrap_or(ALL)]) && put_i32(data, count),
            Answer::PlayerList { on, players } => put_list(data, &["PlayerList", on.unwrap_or(ALL)], players),
            Answer::GetServers { backends } => put_list(data, &["GetServers"], backends),
            Answer::GetServer { backend } => put_texts(data, &["GetServer", backend]),
            Answer::GetPlayerServer { player, backend } => put_texts(data, &["GetPlayerServer", player, backend.unwrap_or_default()]),
            Answer::Uuid { uuid } => put_texts(data, &["UUID", &uuid.simple().to_string()]),
            Answer::UuidOther { player, uuid } => put_texts(data, &["UUIDOther", player, &uuid.simple().to_string()]),
            Answer::ServerIp { backend, address, port } => {
                let named = put_texts(data, &["ServerIP", backend, &java_address(address)]);
                data.extend_from_slice(&port.to_be_bytes());
                named
            }
        })
    }
}

fn put_texts(data: &mut Vec<u8>, texts: &[&str]) -> bool {
    texts.iter().all(|text| put_text(data, text))
}

fn put_i32(data: &mut Vec<u8>, number: i32) -> bool {
    data.extend_from_slice(&number.to_be_bytes());
    true
}

/// Appends texts and then a list, cut after the last name with which all of it still fits.
fn put_list(data: &mut Vec<u8>, texts: &[&str], names: &[&str]) -> bool {
    let before = data.len();
    if !put_texts(data, texts) {
        return false;
    }
    let room = MAX_SERVERBOUND_DATA.saturating_sub(data.len() - before + 2);
    let mut taken = 0;
    let fitting = names.iter().enumerate().take_while(|(index, name)| {
        taken += text_len(name) + if *index == 0 { 0 } else { BETWEEN.len() };
        taken <= room
    });
    let fitting = fitting.count();
    put_text(data, &names[..fitting].join(BETWEEN))
}

/// An address as Java writes it: an IPv6 address in eight groups, none left out; an IPv4 address that came through an IPv6
/// socket as IPv4.
fn java_address(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => address.segments().map(|group| format!("{group:x}")).join(":"),
    }
}
