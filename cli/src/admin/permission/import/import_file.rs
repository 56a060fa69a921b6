//! Stands in for `crate::import_file` until that is there.
use std::path::Path;

use moonbridge_permissions::format::{Imported, bungeecord, luckperms};

use crate::args::permission::ImportFormat;
use crate::failure::{Failure, Outcome};

#[allow(dead_code)]
pub(super) enum Content {
    LuckPerms(Imported),
    BungeeCord(bungeecord::Config),
}

pub(super) fn read(path: &Path, _: Option<ImportFormat>) -> Outcome<Content> {
    let failed = |error: String| Failure::failed(format!("{}: {error}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    luckperms::read(file).map(Content::LuckPerms).map_err(|error| failed(error.to_string()))
}
