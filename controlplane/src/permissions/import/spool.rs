//! Users that have come, in a temporary file without a name: it is gone with whoever has it open.

use std::io::{self, SeekFrom};

use moonbridge_proto::v1;
use prost::Message;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt, BufReader, BufWriter};
use tonic::Status;

/// Bytes read and written at once.
const BUFFER: usize = 256 << 10;

/// The users, in the order in which they came.
pub(super) struct Spool {
    file: BufWriter<File>,
    bytes: u64,
}

impl Spool {
    pub(super) async fn new() -> Result<Self, Status> {
        let made = tokio::task::spawn_blocking(tempfile::tempfile).await.map_err(|error| Status::internal(error.to_string()))?;
        Ok(Self { file: BufWriter::with_capacity(BUFFER, File::from_std(made.map_err(failed)?)), bytes: 0 })
    }

    pub(super) async fn push(&mut self, user: &v1::PermissionUser) -> Result<(), Status> {
        let record = user.encode_length_delimited_to_vec();
        self.bytes += record.len() as u64;
        self.file.write_all(&record).await.map_err(failed)
    }

    /// All of them from the first one on.
    pub(super) async fn read(&mut self) -> Result<Users, Status> {
        self.file.flush().await.map_err(failed)?;
        // It shares its place in the file with the writer, and with the pass before, which are both done.
        let mut file = self.file.get_ref().try_clone().await.map_err(failed)?;
        file.seek(SeekFrom::Start(0)).await.map_err(failed)?;
        Ok(Users { file: BufReader::with_capacity(BUFFER, file), left: self.bytes, record: Vec::new() })
    }
}

/// A pass over a spool.
pub(super) struct Users {
    file: BufReader<File>,
    left: u64,
    record: Vec<u8>,
}

impl Users {
    pub(super) async fn next(&mut self) -> Result<Option<v1::PermissionUser>, Status> {
        if self.left == 0 {
            return Ok(None);
        }
        let (mut length, mut shift) = (0_u64, 0);
        loop {
            let byte = self.file.read_u8().await.map_err(failed)?;
            self.left = self.left.saturating_sub(1);
            length |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                break;
            }
            if shift > 28 {
                return Err(failed(io::ErrorKind::InvalidData.into()));
            }
        }
        self.left = self.left.checked_sub(length).ok_or_else(|| failed(io::ErrorKind::UnexpectedEof.into()))?;
        let length = usize::try_from(length).map_err(|_| failed(io::ErrorKind::InvalidData.into()))?;
        self.record.resize(length, 0);
        self.file.read_exact(&mut self.record).await.map_err(failed)?;
        v1::PermissionUser::decode(&*self.record).map(Some).map_err(|_| failed(io::ErrorKind::InvalidData.into()))
    }
}

fn failed(error: io::Error) -> Status {
    Status::resource_exhausted(format!(
        "the import cannot be kept in a temporary file of the replica ({error}): see to the disk that {} is on, or set TMPDIR",
        std::env::temp_dir().display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_goes_in_comes_out_in_order_and_again() {
        let mut spool = Spool::new().await.expect("a file");
        let node = |index: usize| v1::PermissionNode { key: format!("a.{index}"), value: true, ..v1::PermissionNode::default() };
        let user = |index: usize| v1::PermissionUser {
            uuid: format!("{index:08}"),
            nodes: (0..index * 100).map(node).collect(),
            ..v1::PermissionUser::default()
        };
        for index in 0..40 {
            spool.push(&user(index)).await.expect("written");
        }
        for _ in 0..2 {
            let mut users = spool.read().await.expect("a pass");
            for index in 0..40 {
                assert_eq!(users.next().await.expect("read"), Some(user(index)));
            }
            assert_eq!(users.next().await.expect("read"), None);
        }
        assert!(Spool::new().await.expect("a file").read().await.expect("a pass").next().await.expect("read").is_none());
    }
}
