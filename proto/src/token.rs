//! The token that nodes and admins show to the control plane.

use std::io::Read;
use std::path::{Path, PathBuf};

use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::v1;

/// As derived, except that the token is not shown.
impl std::fmt::Debug for v1::CreateTokenResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { token, secret: _ } = self;
        f.debug_struct("CreateTokenResponse").field("token", token).field("secret", &"(set)").finish()
    }
}

/// A longer file is no token.
const MAX_FILE: u64 = 4096;

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
#[error("token file {}: {reason}", path.display())]
pub struct TokenError {
    /// The file.
    pub path: PathBuf,
    /// Why not. Never holds any of the file's text.
    pub reason: String,
}

/// The token in a file, without the white space around it.
///
/// # Errors
/// The file cannot be read, is empty, longer than 4 KiB, or holds anything but visible ASCII.
pub fn read_token_file(path: &Path) -> Result<String, TokenError> {
    let wrong = |reason: String| TokenError { path: path.to_owned(), reason };
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    // Limited while reading, not by the size: the path may be a pipe (systemd credentials, process substitution).
    file.take(MAX_FILE + 1).read_to_end(&mut text).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    if text.len() as u64 > MAX_FILE {
        return Err(wrong(format!("expected a token of at most {MAX_FILE} bytes")));
    }
    let token = text.trim_ascii();
    if token.is_empty() {
        return Err(wrong("is empty; expected a token".to_owned()));
    }
    match std::str::from_utf8(token) {
        Ok(token) if token.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(token.to_owned()),
        _ => Err(wrong("expected one token of visible ASCII characters".to_owned())),
    }
}

/// What is wrong with a token's (or password's) file, if anything. A pipe can be read only once: it is not looked into.
pub fn check_token_file(path: &Path) -> Option<String> {
    if std::fs::metadata(path).is_ok_and(|file| !file.is_file() && !file.is_dir()) {
        return None;
    }
    read_token_file(path).err().map(|error| format!("{} {}", path.display(), error.reason))
}

/// Adds `authorization: Bearer …` to every call, or nothing if there is no token.
#[derive(Debug, Clone, Default)]
pub struct Bearer {
    /// The value is marked as sensitive, which keeps it out of `Debug`.
    value: Option<AsciiMetadataValue>,
    unusable: bool,
}

/// An interceptor that shows this token. One that no header can carry fails every call.
pub fn bearer(token: &str) -> Bearer {
    match format!("Bearer {token}").parse::<AsciiMetadataValue>() {
        Ok(mut value) => {
            value.set_sensitive(true);
            Bearer { value: Some(value), unusable: false }
        }
        Err(_) => Bearer { value: None, unusable: true },
    }
}

impl Bearer {
    /// Shows the token if there is one: the same type of client either way.
    pub fn maybe(token: Option<&str>) -> Self {
        token.map(bearer).unwrap_or_default()
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if self.unusable {
            return Err(Status::unauthenticated("the token holds characters that a header cannot carry"));
        }
        if let Some(value) = &self.value {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}
