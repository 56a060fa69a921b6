//! The embedded store's file: one redb database, `store.redb`, in a folder of its own. It holds the entries that are under no
//! lease, the store's id, and a revision that was never passed yet.

use std::collections::BTreeMap;
use std::fs::{self, TryLockError};
use std::path::Path;
use std::sync::Arc;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use crate::store::{Entry, StoreError, StoreRevision};

const FILE: &str = "store.redb";
/// A store being created: renamed to [`FILE`] when it is whole, so that a crash leaves none or a whole one.
const NEW_FILE: &str = "store.redb.new";
/// Locked by the process that uses the folder.
const LOCK: &str = "store.lock";

/// Key → revision that last changed it, value.
const ENTRIES: TableDefinition<&str, (u64, &[u8])> = TableDefinition::new("entries");
const TEXTS: TableDefinition<&str, &str> = TableDefinition::new("texts");
const NUMBERS: TableDefinition<&str, u64> = TableDefinition::new("numbers");
const ID: &str = "store_id";
const RESERVED: &str = "reserved_revision";
const FORMAT: &str = "format";
const FORMAT_NOW: u64 = 1;

/// redb's cache; everything is in memory once more anyway.
const CACHE_BYTES: usize = 8 * 1024 * 1024;

/// The open file. Only one process has it open at a time.
pub(super) struct File {
    database: Database,
    /// Held, not read: closing it unlocks the folder. After `database`, so that it is dropped last.
    _lock: fs::File,
}

/// What the file held when it was opened.
pub(super) struct Contents {
    pub(super) id: String,
    pub(super) entries: BTreeMap<String, Arc<Entry>>,
    /// No revision above this one was ever used.
    pub(super) reserved: StoreRevision,
}

impl File {
    /// Opens the folder's store, or creates it.
    pub(super) fn open(dir: &Path) -> Result<(File, Contents), StoreError> {
        create_folder(dir).map_err(|error| cannot(dir, "create the folder", &error))?;
        let lock = lock(dir)?;
        let path = dir.join(FILE);
        if !path.try_exists().map_err(|error| cannot(&path, "look for it", &error))? {
            create(dir)?;
        }
        let database = builder().open(&path).map_err(|error| match error {
            redb::DatabaseError::DatabaseAlreadyOpen => in_use(dir),
            redb::DatabaseError::Storage(redb::StorageError::Io(error)) if error.kind() != std::io::ErrorKind::InvalidData => {
                cannot(&path, "open it", &error)
            }
            error => damaged(&path, error),
        })?;
        let contents = read(&database).map_err(|error| damaged(&path, error))?;
        Ok((File { database, _lock: lock }, contents))
    }

    /// Changes entries (`None` removes) and, if given, the reserved revision; on the disk when it returns.
    pub(super) fn commit(
        &self,
        entries: &BTreeMap<String, Option<Arc<Entry>>>,
        reserved: Option<StoreRevision>,
    ) -> Result<(), redb::Error> {
        let write = self.database.begin_write()?;
        {
            let mut table = write.open_table(ENTRIES)?;
            for (key, entry) in entries {
                match entry {
                    Some(entry) => table.insert(key.as_str(), (entry.modified, entry.value.as_slice()))?,
                    None => table.remove(key.as_str())?,
                };
            }
        }
        if let Some(reserved) = reserved {
            write.open_table(NUMBERS)?.insert(RESERVED, reserved)?;
        }
        Ok(write.commit()?)
    }
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    // The file is small, and a damaged one should be refused here, not met later.
    builder.set_check_integrity_on_open(true);
    builder
}

fn create_folder(dir: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// A new file that only this user can read, whoever else can look into the folder: the store holds forwarding tokens.
fn private_file(path: &Path) -> std::io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn lock(dir: &Path) -> Result<fs::File, StoreError> {
    let path = dir.join(LOCK);
    let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(|error| cannot(&path, "open it", &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(in_use(dir)),
        Err(TryLockError::Error(error)) => Err(cannot(&path, "lock it", &error)),
    }
}

fn create(dir: &Path) -> Result<(), StoreError> {
    let new = dir.join(NEW_FILE);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(cannot(&new, "remove it", &error)),
        _ => {}
    }
    let write = || -> Result<(), redb::Error> {
        let database = builder().create_with_backend(redb::backends::FileBackend::new(private_file(&new)?)?)?;
        let write = database.begin_write()?;
        write.open_table(ENTRIES)?;
        write.open_table(TEXTS)?.insert(ID, uuid::Uuid::new_v4().to_string().as_str())?;
        write.open_table(NUMBERS)?.insert(RESERVED, 1)?;
        write.open_table(NUMBERS)?.insert(FORMAT, FORMAT_NOW)?;
        write.commit()?;
        Ok(database.close()?)
    };
    write().map_err(|error| cannot(&new, "create it", &error))?;
    let publish = || -> std::io::Result<()> {
        fs::rename(&new, dir.join(FILE))?;
        fs::File::open(dir)?.sync_all()
    };
    publish().map_err(|error| cannot(&new, "put it in its place", &error))
}

fn read(database: &Database) -> Result<Contents, redb::Error> {
    let read = database.begin_read()?;
    let damaged = |what: &str| redb::Error::Corrupted(what.to_owned());
    let numbers = read.open_table(NUMBERS)?;
    match numbers.get(FORMAT)?.map(|format| format.value()) {
        Some(FORMAT_NOW) => {}
        format => return Err(damaged(&format!("its format is {format:?}, this program knows {FORMAT_NOW}"))),
    }
    let reserved = numbers.get(RESERVED)?.ok_or_else(|| damaged("it has no revision"))?.value();
    let id = read.open_table(TEXTS)?.get(ID)?.ok_or_else(|| damaged("it has no store id"))?.value().to_owned();
    let mut entries = BTreeMap::new();
    for item in read.open_table(ENTRIES)?.iter()? {
        let (key, value) = item?;
        let (modified, value) = value.value();
        if modified > reserved {
            return Err(damaged("an entry is newer than its revision"));
        }
        let entry = Entry { key: key.value().to_owned(), value: value.to_owned(), modified, lease: 0 };
        entries.insert(entry.key.clone(), Arc::new(entry));
    }
    Ok(Contents { id, entries, reserved })
}

fn cannot(path: &Path, what: &str, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Unusable(format!("{}: cannot {what}: {error}", path.display()))
}

fn damaged(path: &Path, error: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged(format!("{}: {error}; put a copy in its place, or move the file away to begin with an empty store", path.display()))
}

fn in_use(dir: &Path) -> StoreError {
    let dir = dir.display();
    StoreError::Unusable(format!("another process uses the folder {dir}: stop it, or give another data folder (two replicas need etcd)"))
}
