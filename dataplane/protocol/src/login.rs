//! The login phase, offline mode. Source: minecraft.wiki, "Protocol version 5", Login.

use uuid::Uuid;

use crate::frame;
use crate::text::{MAX_JSON, Text};
use crate::version::{self, Version};
use crate::wire::{Reader, WireError, put_string};

/// The longest name, in UTF-16 units.
pub const MAX_NAME: usize = 16;

/// The longest text of a UUID: with dashes.
const MAX_UUID: usize = 36;

/// What a backend's packet of the login phase is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginClientbound {
    /// The login is refused.
    Disconnect,
    /// The backend wants online-mode authentication, which cannot work behind a proxy.
    EncryptionRequest,
    /// The login is done; play follows.
    LoginSuccess,
    /// From 1.8 on; below it, a backend gone wrong.
    SetCompression,
    /// None of the protocol's.
    Unknown(i32),
}

impl LoginClientbound {
    /// What the packet with this id is.
    pub fn of(id: i32) -> LoginClientbound {
        match id {
            version::LOGIN_DISCONNECT => LoginClientbound::Disconnect,
            version::ENCRYPTION_REQUEST => LoginClientbound::EncryptionRequest,
            version::LOGIN_SUCCESS => LoginClientbound::LoginSuccess,
            version::SET_COMPRESSION => LoginClientbound::SetCompression,
            other => LoginClientbound::Unknown(other),
        }
    }
}

/// Reads Login Start: the name, as it came, of at most [`MAX_NAME`] characters; whether it is a name at all is for
/// [`crate::name::valid_name`] to say.
pub fn read_login_start(payload: &[u8]) -> Result<&str, WireError> {
    let mut reader = Reader::new(payload);
    let name = reader.string(MAX_NAME)?;
    reader.finish()?;
    Ok(name)
}

/// Appends Login Start.
pub fn put_login_start(out: &mut Vec<u8>, name: &str) {
    frame::put(out, version::LOGIN_START, |out| put_string(out, name));
}

/// Reads Login Success: the UUID as it is written (dashed or not), and the name.
pub fn read_login_success(payload: &[u8]) -> Result<(&str, &str), WireError> {
    let mut reader = Reader::new(payload);
    let uuid = reader.string(MAX_UUID)?;
    let name = reader.string(MAX_NAME)?;
    reader.finish()?;
    Ok((uuid, name))
}

/// Appends Login Success, with the UUID as `version` writes it.
pub fn put_login_success(out: &mut Vec<u8>, version: &Version, uuid: Uuid, name: &str) {
    frame::put(out, version::LOGIN_SUCCESS, |out| {
        put_string(out, &version.uuid_text(uuid));
        put_string(out, name);
    });
}

/// Reads the reason of a Disconnect; one that is not JSON is taken as it stands.
///
/// # Errors
/// If there is no readable string.
pub fn read_disconnect(payload: &[u8]) -> Result<Text, WireError> {
    let mut reader = Reader::new(payload);
    let reason = reader.string(MAX_JSON)?;
    reader.finish()?;
    Ok(Text::from_json(reason).unwrap_or_else(|_| Text::legacy(reason)))
}

/// Appends Disconnect.
pub fn put_disconnect(out: &mut Vec<u8>, reason: &Text) {
    frame::put(out, version::LOGIN_DISCONNECT, |out| put_string(out, &reason.to_json()));
}
