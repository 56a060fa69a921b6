//! An export as a large network has it.

use std::io::{BufWriter, Write as _};
use std::path::Path;

use uuid::Uuid;

/// Writes a LuckPerms export. A user has three to five nodes, of which one is a parent; a group has twenty and up to two parents.
///
/// # Errors
/// If the file cannot be written.
pub fn write(path: &Path, users: u32, groups: u32) -> std::io::Result<()> {
    let mut out = BufWriter::new(std::fs::File::create(path)?);
    out.write_all(b"{\"metadata\":{\"generatedBy\":\"permission-bench\"},\"groups\":{")?;
    for group in 0..groups {
        let comma = if group == 0 { "" } else { "," };
        write!(out, "{comma}\"g{group}\":{{\"nodes\":[{{\"key\":\"weight.{group}\",\"value\":true}}")?;
        for parent in [group / 2, group / 3].into_iter().filter(|parent| *parent < group) {
            write!(out, ",{{\"key\":\"group.g{parent}\",\"value\":true}}")?;
        }
        for node in 0..18 {
            write!(
                out,
                ",{{\"key\":\"plugin{node}.group{group}.{}\",\"value\":{}}}",
                if node % 6 == 0 { "*" } else { "use" },
                node % 5 != 0
            )?;
        }
        out.write_all(b"]}")?;
    }
    out.write_all(b"},\"tracks\":{\"staff\":{\"groups\":[\"g0\",\"g1\",\"g2\"]}},\"users\":{")?;
    for user in 0..users {
        let comma = if user == 0 { "" } else { "," };
        let (uuid, group) = (uuid(user), user % groups.max(1));
        write!(out, "{comma}\"{uuid}\":{{\"username\":\"Player_{user}\",\"primaryGroup\":\"g{group}\",\"nodes\":[")?;
        write!(out, "{{\"key\":\"group.g{group}\",\"value\":true}},{{\"key\":\"home.of.{user}\",\"value\":true}},")?;
        write!(out, "{{\"key\":\"moonbridge.server.arena\",\"value\":{},\"context\":{{\"world\":\"lobby\"}}}}", user % 2 == 0)?;
        if user % 4 == 0 {
            write!(out, ",{{\"key\":\"kit.vip\",\"value\":true,\"expiry\":4102444800}}")?;
        }
        if user % 8 == 0 {
            write!(out, ",{{\"key\":\"prefix.100.&6[{user}] \",\"value\":true}}")?;
        }
        out.write_all(b"]}")?;
    }
    out.write_all(b"}}")?;
    out.flush()
}

/// The UUID of a user, spread as real ones are.
fn uuid(user: u32) -> Uuid {
    let spread = u128::from(user).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834);
    uuid::Builder::from_random_bytes((spread ^ u128::from(user)).to_be_bytes()).into_uuid()
}

#[cfg(test)]
mod tests {
    use moonbridge_permissions::format::luckperms;

    #[test]
    fn the_file_is_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.json");
        super::write(&path, 1000, 20).unwrap();
        let imported = luckperms::read(std::fs::File::open(&path).unwrap()).unwrap();
        assert_eq!((imported.users.len(), imported.groups.len(), imported.tracks.len()), (1000, 20, 1));
        assert_eq!(imported.left_out, []);
    }
}
