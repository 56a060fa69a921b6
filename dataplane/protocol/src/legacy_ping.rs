//! Server-list pings of clients before 1.7. Source: minecraft.wiki, "Java Edition protocol/Server List Ping", 1.6 and older.
//!
//! All begin with `FE`, and so may a modern client: the frame of a handshake with a host of 247 bytes is 254 bytes long, which
//! as a varint is `FE 01`, just as a ping of 1.4. The third byte decides: `FA` follows in 1.6's ping, the packet id 0 in a
//! handshake, and nothing in 1.4's. So bytes that may be a whole ping already are [`Detected::Need`] until the client has
//! been silent for a moment; then [`detect_silent`] says what they are.

use crate::text::Text;

/// What the first bytes of a connection are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detected {
    /// More bytes are needed, or silence ([`detect_silent`]).
    Need,
    /// No legacy ping: a modern client.
    No,
    /// A legacy ping.
    Ping(LegacyPing),
}

/// A legacy ping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyPing {
    /// Which form it has; the answer goes by it.
    pub kind: Kind,
    /// What a 1.6 client says of itself; `None` also if it could not be read.
    pub client: Option<Client>,
}

/// The forms of legacy pings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `FE`: Beta 1.8 to 1.3.
    Beta,
    /// `FE 01`: 1.4 and 1.5.
    V1_4,
    /// `FE 01 FA` and a plugin message on `MC|PingHost`: 1.6.
    V1_6,
}

/// What a 1.6 client says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Its protocol version (of the numbering before 1.7).
    pub protocol: u8,
    /// The host it was told.
    pub host: String,
    /// The port it was told.
    pub port: i32,
}

/// The longest host that is read, in UTF-16 units.
const MAX_HOST: usize = 255;

/// The most bytes that [`detect`] ever asks for: further ones are not looked at.
pub const MAX_PING: usize = BODY + 3 + 2 * MAX_HOST + 4;

/// Where 1.6's rest (after its own length) begins: FE 01 FA, the channel's length, the channel, the rest's length.
const BODY: usize = 3 + 2 + 2 * CHANNEL.len() + 2;
const CHANNEL: &str = "MC|PingHost";

/// Says what a connection that begins with `bytes` is.
pub fn detect(bytes: &[u8]) -> Detected {
    match bytes {
        [] | [0xfe] | [0xfe, 0x01] => Detected::Need,
        [0xfe, 0x01, 0xfa, ..] => match client(bytes) {
            Parsed::Need => Detected::Need,
            Parsed::Client(client) => ping(Kind::V1_6, Some(client)),
            Parsed::Unreadable => ping(Kind::V1_6, None),
        },
        _ => Detected::No,
    }
}

/// Says what a connection is that began with `bytes` and then was silent (or closed): never [`Detected::Need`].
pub fn detect_silent(bytes: &[u8]) -> Detected {
    match (bytes, detect(bytes)) {
        ([0xfe], _) => ping(Kind::Beta, None),
        ([0xfe, 0x01], _) => ping(Kind::V1_4, None),
        ([0xfe, 0x01, 0xfa, ..], Detected::Need) => ping(Kind::V1_6, None),
        (_, Detected::Need) => Detected::No,
        (_, known) => known,
    }
}

/// The answer: a kick (`FF`) whose reason, in UTF-16BE, holds the fields. `protocol` and `version` are what the server speaks
/// (clients that speak another protocol show the version's name); `motd` may have `§` codes, which Beta cannot show. A client
/// reads at most 256 characters: the MOTD is cut to fit.
pub fn response(kind: Kind, protocol: i32, version: &str, motd: &str, online: u32, max: u32) -> Vec<u8> {
    const MAX_REASON: usize = 256;
    let motd = Text::legacy(motd);
    let (before, motd, after) = match kind {
        // `§` parts the fields here.
        Kind::Beta => (String::new(), motd.plain(), format!("§{online}§{max}")),
        // NUL parts them here; a text never has one.
        Kind::V1_4 | Kind::V1_6 => {
            (format!("§1\0{protocol}\0{}\0", Text::legacy(version).plain()), motd.to_legacy(), format!("\0{online}\0{max}"))
        }
    };
    let units = |text: &str| text.encode_utf16().count();
    let mut room = MAX_REASON.saturating_sub(units(&before) + units(&after));
    let motd = motd.chars().map(|c| if c == '\n' { ' ' } else { c }).take_while(|c| {
        let fits = c.len_utf16() <= room;
        room = room.saturating_sub(c.len_utf16());
        fits
    });
    let reason: String = before.chars().chain(motd).chain(after.chars()).collect();
    let mut out = vec![0xff];
    out.extend_from_slice(&(units(&reason) as u16).to_be_bytes());
    reason.encode_utf16().for_each(|unit| out.extend_from_slice(&unit.to_be_bytes()));
    out
}

fn ping(kind: Kind, client: Option<Client>) -> Detected {
    Detected::Ping(LegacyPing { kind, client })
}

enum Parsed {
    Need,
    Unreadable,
    Client(Client),
}

/// Reads what follows `FE 01 FA`. What is not as expected is unreadable, but a ping all the same: nothing else begins so.
fn client(bytes: &[u8]) -> Parsed {
    let mut expected = vec![0xfe, 0x01, 0xfa, 0x00, CHANNEL.len() as u8];
    CHANNEL.encode_utf16().for_each(|unit| expected.extend_from_slice(&unit.to_be_bytes()));
    let there = bytes.len().min(expected.len());
    if bytes[..there] != expected[..there] {
        return Parsed::Unreadable;
    }
    // The rest: its length (2), the protocol (1), the host's length (2), the host, the port (4).
    let Some(&[rest_high, rest_low, protocol, host_high, host_low]) = bytes.get(BODY - 2..BODY + 3) else { return Parsed::Need };
    let units = usize::from(u16::from_be_bytes([host_high, host_low]));
    let rest = usize::from(u16::from_be_bytes([rest_high, rest_low]));
    if units > MAX_HOST || rest != 3 + 2 * units + 4 {
        return Parsed::Unreadable;
    }
    let Some(Ok::<[u8; 4], _>(port)) = bytes.get(BODY + 3 + 2 * units..BODY + rest).map(<[u8; 4]>::try_from) else {
        return Parsed::Need;
    };
    let host = bytes[BODY + 3..BODY + 3 + 2 * units].chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    let host = char::decode_utf16(host).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    Parsed::Client(Client { protocol, host, port: i32::from_be_bytes(port) })
}
