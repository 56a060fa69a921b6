//! Where an export goes: a file that is whole or as it was, a device, or stdout.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::NamedTempFile;

/// Where an export goes.
pub(super) enum Target {
    Plain(BufWriter<Place>),
    Gzip(GzEncoder<BufWriter<Place>>),
}

/// The file, or what stands for it until it is whole.
pub(super) enum Place {
    Stdout(io::Stdout),
    /// A pipe or a device.
    Special(File),
    /// Beside the file that it becomes.
    Temporary(NamedTempFile, PathBuf),
}

impl Target {
    /// Opens it; `-` is stdout. What is written is compressed if its name says so.
    pub(super) fn open(path: &Path) -> io::Result<Target> {
        let place = if path == Path::new("-") { Place::Stdout(io::stdout()) } else { Place::open(path)? };
        let out = BufWriter::with_capacity(1 << 16, place);
        match path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz")) {
            true => Ok(Target::Gzip(GzEncoder::new(out, Compression::default()))),
            false => Ok(Target::Plain(out)),
        }
    }

    /// Puts a file in its place; one that is dropped without this stays as it was.
    pub(super) fn finish(self) -> io::Result<()> {
        let mut out = match self {
            Target::Plain(out) => out,
            Target::Gzip(out) => out.finish()?,
        };
        out.flush()?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.finish()
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Target::Plain(out) => out.write(bytes),
            Target::Gzip(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Target::Plain(out) => out.flush(),
            Target::Gzip(out) => out.flush(),
        }
    }
}

impl Place {
    fn open(path: &Path) -> io::Result<Place> {
        let known = match fs::metadata(path) {
            Ok(known) => known,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Place::beside(path.to_owned(), 0o666),
            Err(error) => return Err(error),
        };
        // What a link leads to is replaced, not the link; and no device is.
        match known.is_file() {
            true => Place::beside(fs::canonicalize(path)?, known.permissions().mode()),
            false => Ok(Place::Special(OpenOptions::new().write(true).open(path)?)),
        }
    }

    fn beside(path: PathBuf, mode: u32) -> io::Result<Place> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".moonbridge-export-").permissions(Permissions::from_mode(mode & 0o777));
        Ok(Place::Temporary(builder.tempfile_in(folder)?, path))
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Place::Stdout(mut out) => out.flush(),
            Place::Special(mut out) => out.flush(),
            Place::Temporary(file, path) => {
                file.as_file().sync_all()?;
                file.persist(path).map(drop).map_err(|error| error.error)
            }
        }
    }
}

impl Write for Place {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Place::Stdout(out) => out.write(bytes),
            Place::Special(out) => out.write(bytes),
            Place::Temporary(out, _) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Place::Stdout(out) => out.flush(),
            Place::Special(out) => out.flush(),
            Place::Temporary(out, _) => out.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        let mut target = Target::open(path).unwrap();
        target.write_all(text.as_bytes()).unwrap();
        target.finish().unwrap();
    }

    #[test]
    fn a_file_is_whole_or_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("out.json"), folder.path().join("link.json"));
        write(&path, "before");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut begun = Target::open(&link).unwrap();
        begun.write_all(&[b'x'; 1 << 17]).unwrap();
        begun.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        drop(begun);
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        write(&link, "after");
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file stays");
    }

    #[test]
    fn a_device_stays_a_device_and_a_folder_is_refused() {
        write(Path::new("/dev/null"), "nothing");
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let folder = tempfile::tempdir().unwrap();
        for bad in [folder.path().to_owned(), folder.path().join("no/such/folder.json")] {
            assert!(Target::open(&bad).is_err(), "{}", bad.display());
        }
    }
}
