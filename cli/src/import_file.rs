//! A file of another system's permissions, from the disk or from stdin: compressed or not, of the kind that its content tells.
//!
//! Nothing that is in it makes this take more than [`Limits`] allow: a few kilobytes of gzip can stand for gigabytes.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use moonbridge_permissions::format::{FormatError, Imported, bungeecord, luckperms};

use crate::args::permission::ImportFormat;
use crate::failure::{Failure, Outcome};

/// What the file says.
#[derive(Debug)]
pub(crate) enum Content {
    /// A LuckPerms export, or what its web editor saved.
    LuckPerms(Imported),
    /// BungeeCord's config.yml, whose players are still to be looked up.
    BungeeCord(bungeecord::Config),
}

/// Reads a file; `-` is stdin. What is in it is told from its content, if no format is given.
///
/// # Errors
/// If it cannot be read, is damaged or too large, or is something else.
pub(crate) fn read(path: &Path, format: Option<ImportFormat>) -> Outcome<Content> {
    let failed = |problem: String| Failure::failed(format!("cannot read {}: {problem}", path.display()));
    if path == Path::new("-") {
        return content(io::stdin().lock(), format, &LIMITS).map_err(|problem| Failure::failed(format!("cannot read stdin: {problem}")));
    }
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    content(file, format, &LIMITS).map_err(failed)
}

/// How much of a file is read.
struct Limits {
    /// Bytes, unpacked.
    unpacked: u64,
    /// Bytes of YAML, which is held as a whole.
    yaml: u64,
    /// How many bytes one byte of gzip may stand for, after the first `ratio_from`. No export gets far beyond 100.
    ratio: u64,
    ratio_from: u64,
}

const LIMITS: Limits = Limits { unpacked: 512 << 20, yaml: 16 << 20, ratio: 500, ratio_from: 64 << 20 };

const GZIP: [u8; 2] = [0x1f, 0x8b];
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// How an export begins in UTF-16, which editors on Windows write: with the mark or without.
const UTF_16: [&[u8]; 4] = [b"\xff\xfe", b"\xfe\xff", b"{\0", b"\0{"];
/// So much is looked at for what it is.
const START: u64 = 4096;

fn content(mut source: impl Read, format: Option<ImportFormat>, limits: &Limits) -> Result<Content, String> {
    let magic = beginning(&mut source, 2)?;
    let packed = magic == GZIP;
    let source = Cursor::new(magic).chain(source);
    let mut unpacked: Box<dyn Read> = match packed {
        true => Box::new(Unpacked { decoder: MultiGzDecoder::new(Counted { inner: source, count: 0 }), count: 0, limits }),
        false => Box::new(source),
    };
    let mut bounded = Bounded { inner: &mut unpacked, left: limits.unpacked };
    let mut start = beginning(&mut bounded, START)?;
    if start.starts_with(BYTE_ORDER_MARK) {
        start.drain(..BYTE_ORDER_MARK.len());
    }
    if UTF_16.iter().any(|begins| start.starts_with(begins)) {
        return Err("it is in UTF-16: save it as UTF-8".to_owned());
    }
    let Some(first) = start.iter().copied().find(|byte| !byte.is_ascii_whitespace()) else {
        return Err("it is empty".to_owned());
    };
    let mut text = Cursor::new(start).chain(bounded);
    let content = match (format, first) {
        (Some(ImportFormat::LuckPerms), _) | (None, b'{') => export(&mut text).map(Content::LuckPerms),
        (Some(ImportFormat::BungeeCord), _) => config(&mut text, limits).map(Content::BungeeCord),
        (None, _) => config(&mut text, limits).map(Content::BungeeCord).map_err(|problem| {
            format!("it does not begin like a LuckPerms export, which is JSON, and as BungeeCord's config.yml: {problem}")
        }),
    };
    // Damaged gzip can unpack to what is merely wrong; its checksum, at the end, says which it is.
    if packed && content.is_err() {
        io::copy(&mut text, &mut io::sink()).map_err(why)?;
    }
    content
}

fn beginning(source: &mut impl Read, bytes: u64) -> Result<Vec<u8>, String> {
    let mut beginning = Vec::new();
    source.take(bytes).read_to_end(&mut beginning).map_err(why)?;
    Ok(beginning)
}

fn export(text: impl Read) -> Result<Imported, String> {
    luckperms::read(text).map_err(|error| match error {
        FormatError::Json(error) if error.is_io() => why(error.into()),
        FormatError::Json(error) if error.is_eof() => format!("the export ends too soon ({error}): it is not whole"),
        error => error.to_string(),
    })
}

fn config(text: impl Read, limits: &Limits) -> Result<bungeecord::Config, String> {
    let mut yaml = String::new();
    Bounded { inner: text, left: limits.yaml }.read_to_string(&mut yaml).map_err(why)?;
    let config = bungeecord::read(serde_norway::Deserializer::from_str(&yaml), yaml.len()).map_err(|error| error.to_string())?;
    match config.permissions.is_empty() && config.groups.is_empty() {
        true => Err("neither `permissions` nor `groups` is in it".to_owned()),
        false => Ok(config),
    }
}

/// Why reading failed, to people.
fn why(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the compressed file ends too soon: it is not whole; copy it again".to_owned(),
        io::ErrorKind::InvalidInput => format!("the compressed file is damaged ({error}); copy it again"),
        _ => error.to_string(),
    }
}

/// Gives at most so much, and fails if there is more.
struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let left = self.left.checked_sub(read as u64);
        self.left = left.ok_or_else(|| io::Error::other("it is too large, or unpacks to too much: no network's permissions are"))?;
        Ok(read)
    }
}

/// flate2's words for what is no gzip.
const WRONG_HEADER: &str = "invalid gzip header";

/// What gzip stands for.
struct Unpacked<'a, R> {
    decoder: MultiGzDecoder<Counted<R>>,
    count: u64,
    limits: &'a Limits,
}

impl<R: Read> Read for Unpacked<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // The header that is wrong is of what follows, once something was unpacked.
        let read = self.decoder.read(buffer).map_err(|error| match self.count {
            1.. if error.to_string() == WRONG_HEADER => {
                io::Error::other("after the end of what is compressed there are other bytes; copy it again")
            }
            _ => error,
        })?;
        self.count += read as u64;
        let packed = self.decoder.get_ref().count;
        if self.count > self.limits.ratio_from && self.count / self.limits.ratio > packed {
            return Err(io::Error::other(format!("{packed} bytes of it unpack to more than {}: no export does", self.count)));
        }
        Ok(read)
    }
}

struct Counted<R> {
    inner: R,
    count: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
