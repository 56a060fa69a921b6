//! The login phase. Source: minecraft.wiki, "Protocol version 5", Login; "Protocol encryption".

use uuid::Uuid;

use crate::frame;
use crate::text::{MAX_JSON, Text};
use crate::version::{self, Version};
use crate::wire::{Reader, WireError, put_string};

/// The longest name, in UTF-16 units.
pub const MAX_NAME: usize = 16;

/// The longest text of a UUID: with dashes.
const MAX_UUID: usize = 36;

/// The longest id of a server, in UTF-16 units; vanilla's has been empty since 1.7.
const MAX_SERVER_ID: usize = 20;

/// The longest key or token of an Encryption Request: RSA of 4096 bits.
const MAX_KEY: usize = 1024;

/// The longest byte array of an Encryption Response: RSA of 2048 bits; a key of 1024 makes 128 bytes.
pub const MAX_ENCRYPTED: usize = 256;

/// What a client answers to an Encryption Request: both encrypted with the server's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncryptionResponse<'a> {
    /// The secret that the connection is to be encrypted with.
    pub secret: &'a [u8],
    /// The token of the request.
    pub token: &'a [u8],
}

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

/// Appends Encryption Request. Below 1.8 the lengths of its byte arrays have two bytes.
pub fn put_encryption_request(out: &mut Vec<u8>, server_id: &str, public_der: &[u8], token: &[u8]) {
    frame::put(out, version::ENCRYPTION_REQUEST, |out| {
        put_string(out, server_id);
        put_array(out, public_der);
        put_array(out, token);
    });
}

/// Reads Encryption Request: the server's id, its public key and the token.
pub fn read_encryption_request(payload: &[u8]) -> Result<(&str, &[u8], &[u8]), WireError> {
    let mut reader = Reader::new(payload);
    let request = (reader.string(MAX_SERVER_ID)?, read_array(&mut reader, MAX_KEY)?, read_array(&mut reader, MAX_KEY)?);
    reader.finish()?;
    Ok(request)
}

/// Appends Encryption Response.
pub fn put_encryption_response(out: &mut Vec<u8>, response: EncryptionResponse<'_>) {
    frame::put(out, version::ENCRYPTION_RESPONSE, |out| {
        put_array(out, response.secret);
        put_array(out, response.token);
    });
}

/// Reads Encryption Response, with arrays of at most [`MAX_ENCRYPTED`] bytes.
pub fn read_encryption_response(payload: &[u8]) -> Result<EncryptionResponse<'_>, WireError> {
    let mut reader = Reader::new(payload);
    let response = EncryptionResponse { secret: read_array(&mut reader, MAX_ENCRYPTED)?, token: read_array(&mut reader, MAX_ENCRYPTED)? };
    reader.finish()?;
    Ok(response)
}

fn put_array(out: &mut Vec<u8>, array: &[u8]) {
    out.extend_from_slice(&(array.len() as i16).to_be_bytes());
    out.extend_from_slice(array);
}

fn read_array<'a>(reader: &mut Reader<'a>, limit: usize) -> Result<&'a [u8], WireError> {
    let length = reader.i16()?;
    let bytes = usize::try_from(length).ok().filter(|&length| length <= limit);
    reader.bytes(bytes.ok_or(WireError::BadLength { length: length.into(), limit })?)
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
