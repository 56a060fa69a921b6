//! The server list: the line a client shows before anybody plays. Source: minecraft.wiki, "Java Edition protocol/Server List
//! Ping".

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::frame;
use crate::text::{MAX_JSON, Text};
use crate::version::{self, Version};
use crate::wire::{Reader, WireError, put_string};

/// What stands before a favicon's base64.
const FAVICON_PREFIX: &str = "data:image/png;base64,";

/// What a client is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status<'a> {
    /// The version's name, shown where the client's is another.
    pub version_name: &'a str,
    /// The protocol number; a client whose own is another shows the server as not playable.
    pub protocol: i32,
    /// Most players.
    pub max: u32,
    /// Players now.
    pub online: u32,
    /// Names shown when the mouse rests on the count.
    pub sample: &'a [SamplePlayer<'a>],
    /// The MOTD, with `§` codes.
    pub description: &'a str,
    /// A PNG of 64 × 64 pixels.
    pub favicon: Option<&'a [u8]>,
}

/// The `modinfo` of a Forge server's status answer, as JSON: an object with a `type` (`FML`) and a `modList` of `modid` and
/// `version`. Some Forge clients join as such only if there is one. Whatever else is in it stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModInfo(Box<str>);

/// What an answer that has no room for a list of mods says: that it is a Forge server.
const NO_ROOM: &str = r#"{"type":"FML","modList":[]}"#;

impl ModInfo {
    /// Takes it from JSON, as a configuration has it.
    ///
    /// # Errors
    /// If it is no JSON object, has no `type`, or is longer than a status answer may be.
    pub fn from_json(json: &str) -> Result<ModInfo, AnswerError> {
        let value = serde_json::from_str(json).map_err(|error| AnswerError::Json(error.to_string()))?;
        ModInfo::from_value(&value).ok_or_else(|| AnswerError::Json("no modinfo of at most 32,767 bytes with a type".to_owned()))
    }

    /// Takes it from a status answer.
    fn from_value(value: &Value) -> Option<ModInfo> {
        value.get("type")?.as_str()?;
        let json = value.to_string();
        (json.len() <= MAX_JSON).then(|| ModInfo(json.into()))
    }

    /// The JSON.
    pub fn json(&self) -> &str {
        &self.0
    }
}

/// A player of the sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplePlayer<'a> {
    /// The name.
    pub name: &'a str,
    /// The UUID.
    pub id: Uuid,
}

impl Status<'_> {
    /// Appends the answer to a status request. It has 32,767 characters at most: a favicon that is too large for that is
    /// left out, then the sample, then the end of the description.
    pub fn put_response(&self, out: &mut Vec<u8>) {
        self.put_response_with(out, None);
    }

    /// Appends the answer with a Forge server's mods. If it is too long, the list of mods is left out after the sample.
    pub fn put_response_with(&self, out: &mut Vec<u8>, modinfo: Option<&ModInfo>) {
        let mut status = *self;
        let mut modinfo = modinfo.map(ModInfo::json);
        let mut json = status.json(modinfo);
        if json.len() > MAX_JSON {
            status.favicon = None;
            json = status.json(modinfo);
        }
        if json.len() > MAX_JSON {
            status.sample = &[];
            json = status.json(modinfo);
        }
        if json.len() > MAX_JSON && modinfo.is_some() {
            modinfo = Some(NO_ROOM);
            json = status.json(modinfo);
        }
        while json.len() > MAX_JSON {
            status.description = halved(status.description);
            status.version_name = halved(status.version_name);
            json = status.json(modinfo);
        }
        frame::put(out, version::STATUS, |out| put_string(out, &json));
    }

    fn json(&self, modinfo: Option<&str>) -> String {
        let id = |id: Uuid| Version::of(self.protocol).map_or_else(|| id.hyphenated().to_string(), |version| version.uuid_text(id));
        let sample: Vec<Value> = self.sample.iter().map(|player| json!({ "name": player.name, "id": id(player.id) })).collect();
        let mut status = json!({
            "version": { "name": self.version_name, "protocol": self.protocol },
            "players": { "max": self.max, "online": self.online },
            // A plain string: 1.7 may crash on a component here.
            "description": self.description,
        });
        if !sample.is_empty() {
            status["players"]["sample"] = sample.into();
        }
        if let Some(png) = self.favicon {
            status["favicon"] = format!("{FAVICON_PREFIX}{}", STANDARD.encode(png)).into();
        }
        let mut json = status.to_string();
        if let Some(modinfo) = modinfo {
            // It is an object, and not an empty one.
            json.truncate(json.len() - 1);
            json.push_str(",\"modinfo\":");
            json.push_str(modinfo);
            json.push('}');
        }
        json
    }
}

fn halved(text: &str) -> &str {
    &text[..text.floor_char_boundary(text.len() / 2)]
}

/// What a server answered, as far as it could be understood: for tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The version's name; empty if there is none.
    pub version_name: String,
    /// The protocol number.
    pub protocol: Option<i64>,
    /// Most players.
    pub max: Option<i64>,
    /// Players now.
    pub online: Option<i64>,
    /// Names of some players.
    pub sample: Vec<String>,
    /// The MOTD.
    pub description: Text,
    /// The favicon's PNG, if there is one that can be decoded.
    pub favicon: Option<Vec<u8>>,
    /// The mods, if it is a Forge server.
    pub modinfo: Option<ModInfo>,
}

/// Why a status answer could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The packet is malformed.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// It holds no JSON object.
    #[error("the status answer is not a JSON object: {0}")]
    Json(String),
}

/// Reads a status answer. Whatever is missing or of another type than expected is left empty.
///
/// # Errors
/// If there is no string in it, or no JSON object in the string.
pub fn read_response(payload: &[u8]) -> Result<Answer, AnswerError> {
    let text = Reader::new(payload).string(MAX_JSON)?;
    let status: Value = serde_json::from_str(text).map_err(|error| AnswerError::Json(error.to_string()))?;
    if !status.is_object() {
        return Err(AnswerError::Json("something else".to_owned()));
    }
    let plain = |value: &Value| value.as_str().map(|text| Text::legacy(text).plain());
    Ok(Answer {
        version_name: plain(&status["version"]["name"]).unwrap_or_default(),
        protocol: status["version"]["protocol"].as_i64(),
        max: status["players"]["max"].as_i64(),
        online: status["players"]["online"].as_i64(),
        sample: status["players"]["sample"]
            .as_array()
            .map(|players| players.iter().filter_map(|player| plain(&player["name"])).collect())
            .unwrap_or_default(),
        description: Text::from_value(&status["description"]),
        favicon: status["favicon"].as_str().and_then(decode_favicon),
        modinfo: ModInfo::from_value(&status["modinfo"]),
    })
}

fn decode_favicon(text: &str) -> Option<Vec<u8>> {
    // Some servers break the base64 into lines.
    let base64: Vec<u8> = text.strip_prefix(FAVICON_PREFIX)?.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    STANDARD.decode(base64).ok()
}

/// Appends a status request.
pub fn put_request(out: &mut Vec<u8>) {
    frame::put(out, version::STATUS, |_| {});
}

/// Reads a ping (or a pong): a number of the client's choice, to be sent back.
pub fn read_ping(payload: &[u8]) -> Result<i64, WireError> {
    let mut reader = Reader::new(payload);
    let number = reader.i64()?;
    reader.finish()?;
    Ok(number)
}

/// Appends a ping.
pub fn put_ping(out: &mut Vec<u8>, number: i64) {
    frame::put(out, version::PING, |out| out.extend_from_slice(&number.to_be_bytes()));
}

/// Appends a pong: the ping, sent back.
pub fn put_pong(out: &mut Vec<u8>, number: i64) {
    put_ping(out, number);
}
