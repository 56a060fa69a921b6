//! Packets of protocol 5 and messages of Forge's handshake, as they are written; and what it takes to read the handshake's.

use moonbridge_protocol::frame;
use moonbridge_protocol::wire::{Reader, put_string, put_varint};

/// The channel of Forge's handshake.
pub const HANDSHAKE: &str = "FML|HS";

/// First bytes of the messages there.
pub const SERVER_HELLO: u8 = 0;
/// The client's first.
pub const CLIENT_HELLO: u8 = 1;
/// Mods of whoever says it.
pub const MOD_LIST: u8 = 2;
/// Numbers of blocks and items.
pub const MOD_IDS: u8 = 3;
/// Back to the start.
pub const RESET: u8 = 0xfe;
/// On to the next phase.
pub const ACK: u8 = 0xff;

/// A mod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mod {
    /// Its id.
    pub id: String,
    /// Its version.
    pub version: String,
    /// Whether the other side must have it in the same version (`NetworkModHolder`; the default of a mod).
    pub required: bool,
}

/// Required mods, by id and version.
pub fn mods(list: &[(&str, &str)]) -> Vec<Mod> {
    list.iter().map(|(id, version)| Mod { id: (*id).into(), version: (*version).into(), required: true }).collect()
}

/// Mods of `own` that are missing on the other side or there in another version (`FMLNetworkHandler.checkModList`).
pub fn rejected(own: &[Mod], others: &[(String, String)]) -> Option<String> {
    let bad: Vec<_> =
        own.iter().filter(|own| own.required && !others.iter().any(|(id, version)| *id == own.id && *version == own.version)).collect();
    (!bad.is_empty()).then(|| format!("Mod rejections [{}]", bad.iter().map(|own| own.id.as_str()).collect::<Vec<_>>().join(", ")))
}

/// Numbers of blocks, as a server has them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ids {
    /// How many there are.
    pub count: u32,
    /// The number of the first.
    pub first: i32,
    /// The mod whose blocks they are; `minecraft` if empty.
    pub domain: String,
}

impl Ids {
    /// So many of vanilla's, with which any client can do.
    pub fn of(count: u32, first: i32) -> Ids {
        Ids { count, first, domain: String::new() }
    }

    /// About so many bytes of them: a pack of some size.
    pub fn of_bytes(bytes: u32, first: i32) -> Ids {
        // 2 bytes of length, 29 of name, 3 of number.
        Ids::of(bytes / 34, first)
    }

    /// The message.
    pub fn message(&self) -> Vec<u8> {
        let domain = if self.domain.is_empty() { "minecraft" } else { &self.domain };
        let mut out = vec![MOD_IDS];
        put_varint(&mut out, self.count as i32);
        for index in 0..self.count {
            put_string(&mut out, &format!("\u{1}{domain}:block_of_mod_{index:05}"));
            put_varint(&mut out, self.first + (index % 30_000) as i32);
        }
        // No substitutions.
        out.extend_from_slice(&[0, 0]);
        out
    }
}

/// Server Hello; without a dimension in FML's protocol 1.
pub fn server_hello(dimension: Option<i32>) -> Vec<u8> {
    match dimension {
        Some(dimension) => [&[SERVER_HELLO, 2][..], &dimension.to_be_bytes()].concat(),
        None => vec![SERVER_HELLO, 1],
    }
}

/// A Mod List.
pub fn mod_list(mods: &[Mod]) -> Vec<u8> {
    let mut out = vec![MOD_LIST];
    put_varint(&mut out, mods.len() as i32);
    for Mod { id, version, .. } in mods {
        put_string(&mut out, id);
        put_string(&mut out, version);
    }
    out
}

/// What a REGISTER carries: Forge's own channels and these.
pub fn register(channels: &[String]) -> Vec<u8> {
    let mut all = vec![HANDSHAKE, "FML", "FML|MP", "FML", "FORGE"];
    all.extend(channels.iter().map(String::as_str));
    all.join("\0").into_bytes()
}

/// What says on `FORGE` that there is a dimension of the overworld's kind.
pub fn dimension_register(dimension: i32) -> Vec<u8> {
    [&[1][..], &dimension.to_be_bytes(), &0i32.to_be_bytes()].concat()
}

/// Appends a plugin message of either direction; longer ones than 32,767 bytes in Forge's form (`ByteBufUtils.writeVarShort`).
pub fn put_plugin(out: &mut Vec<u8>, id: i32, channel: &str, data: &[u8]) {
    frame::put(out, id, |out| {
        put_string(out, channel);
        let low = (data.len() & 0x7fff) as u16;
        match (data.len() >> 15) as u8 {
            0 => out.extend_from_slice(&low.to_be_bytes()),
            high => {
                out.extend_from_slice(&(low | 0x8000).to_be_bytes());
                out.push(high);
            }
        }
        out.extend_from_slice(data);
    });
}

/// The channel and data of a plugin message. `extended`: whether a length in Forge's form is understood.
pub fn read_plugin(payload: &[u8], extended: bool) -> Option<(&str, &[u8])> {
    let mut reader = Reader::new(payload);
    let channel = reader.string(20).ok()?;
    let short = reader.u16().ok()?;
    let mut length = usize::from(short & 0x7fff);
    if short & 0x8000 != 0 {
        if !extended {
            return None;
        }
        length |= usize::from(reader.u8().ok()?) << 15;
    }
    (reader.rest().len() == length).then(|| (channel, reader.rest()))
}

/// The mods in the rest of a Mod List.
pub fn read_mods(reader: &mut Reader<'_>) -> Option<Vec<(String, String)>> {
    let count = reader.varint().ok()?;
    (0..count).map(|_| Some((text(reader)?, text(reader)?))).collect()
}

/// The names in the rest of Mod Id Data: of the first block or item of whose mod `knows` says no; `None` if it cannot be read.
pub fn read_ids(reader: &mut Reader<'_>, knows: impl Fn(&str) -> bool) -> Option<Result<(), String>> {
    let count = reader.varint().ok()?;
    let mut last = "";
    for _ in 0..count {
        let length = reader.varint().ok()?;
        let name = std::str::from_utf8(reader.bytes(length.try_into().ok()?).ok()?).ok()?;
        reader.varint().ok()?;
        // The first character says what it is. Those of a mod stand together: asked about once.
        let domain = name.get(1..)?.split(':').next()?;
        if domain != last {
            if !knows(domain) {
                return Some(Err(name.to_owned()));
            }
            last = domain;
        }
    }
    Some(Ok(()))
}

fn text(reader: &mut Reader<'_>) -> Option<String> {
    let length = reader.varint().ok()?;
    Some(std::str::from_utf8(reader.bytes(length.try_into().ok()?).ok()?).ok()?.to_owned())
}
