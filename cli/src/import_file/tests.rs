use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

const SMALL: Limits = Limits { unpacked: 64 << 10, yaml: 8 << 10, ratio: 20, ratio_from: 16 << 10 };
const EXPORT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testing/vectors/permissions/luckperms-export.json");
const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testing/vectors/permissions/bungeecord-config.yml");

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn users(bytes: &[u8]) -> usize {
    match content(bytes, None, &LIMITS).unwrap() {
        Content::LuckPerms(imported) => imported.users.len(),
        Content::BungeeCord(config) => panic!("{config:?}"),
    }
}

fn problem(bytes: &[u8]) -> String {
    content(bytes, None, &LIMITS).unwrap_err()
}

fn of_path(path: &Path) -> String {
    read(path, None).unwrap_err().message
}

/// Gives a byte at a time, as a slow pipe does.
struct Slow<'a>(&'a [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let end = buffer.len().min(1);
        self.0.read(&mut buffer[..end])
    }
}

#[test]
fn an_export_is_read_compressed_or_not() {
    let export = std::fs::read(EXPORT).unwrap();
    assert_eq!(users(&export), 40);
    assert_eq!(users(&gzip(&export)), 40);
    let (front, back) = export.split_at(1000);
    assert_eq!(users(&[gzip(front), gzip(back)].concat()), 40, "in several members");
    assert!(matches!(content(Slow(&gzip(&export)), None, &LIMITS).unwrap(), Content::LuckPerms(imported) if imported.users.len() == 40));
    assert!(matches!(read(Path::new(EXPORT), None).unwrap(), Content::LuckPerms(_)));
}

#[test]
fn a_byte_order_mark_and_spaces_before_it_do_not_matter() {
    let export = std::fs::read(EXPORT).unwrap();
    assert_eq!(users(&[BYTE_ORDER_MARK, b"\n\n  ", &export].concat()), 40);
    assert_eq!(users(&gzip(&[BYTE_ORDER_MARK, &export].concat())), 40);
}

#[test]
fn a_config_of_bungeecords_is_read_compressed_or_not() {
    let file = std::fs::read(CONFIG).unwrap();
    for bytes in [file.clone(), gzip(&file), [BYTE_ORDER_MARK, &file].concat()] {
        let Content::BungeeCord(config) = content(&*bytes, None, &LIMITS).unwrap() else { panic!("not BungeeCord's") };
        assert_eq!(config.permissions.keys().collect::<Vec<_>>(), ["admin", "default", "empty", "moderator"]);
        assert_eq!(config.groups["Ada"], ["moderator", "Builder"]);
        assert!(config.permissions["empty"].is_empty());
    }
}

#[test]
fn names_in_a_config_may_look_like_numbers() {
    let Content::BungeeCord(config) = content(&b"groups:\n  1234:\n  - admin\n"[..], None, &LIMITS).unwrap() else {
        panic!("not BungeeCord's")
    };
    assert_eq!(config.groups["1234"], ["admin"]);
}

#[test]
fn a_format_that_is_given_is_taken() {
    let flow = b"{permissions: {default: [a.b]}}";
    assert!(content(&flow[..], None, &LIMITS).is_err(), "a brace is JSON, unless told otherwise");
    assert!(matches!(content(&flow[..], Some(ImportFormat::BungeeCord), &LIMITS), Ok(Content::BungeeCord(_))));
    assert!(content(&b"permissions: {}"[..], Some(ImportFormat::LuckPerms), &LIMITS).unwrap_err().starts_with("not a LuckPerms export"));
}

#[test]
fn damaged_gzip_is_told_from_what_it_unpacks_to() {
    let whole = gzip(&std::fs::read(EXPORT).unwrap());
    // In the data, in the data's last byte, in the checksum, behind it, and instead of it.
    for place in [whole.len() / 3, whole.len() / 2, whole.len() - 9, whole.len() - 8] {
        let mut damaged = whole.clone();
        damaged[place] ^= 0x55;
        let problem = problem(&damaged);
        assert!(problem.starts_with("the compressed file is damaged (") || problem.contains("ends too soon"), "{place}: {problem}");
    }
    for more in [&b"more than a header"[..], b"\0\0\0\0\0\0\0\0\0\0\0\0"] {
        assert_eq!(problem(&[&whole[..], more].concat()), "after the end of what is compressed there are other bytes; copy it again");
    }
    assert!(problem(b"\x1f\x8bnothing of gzip").contains("damaged"));
}

#[test]
fn gzip_that_is_not_whole_is_refused_wherever_it_ends() {
    let whole = gzip(&std::fs::read(EXPORT).unwrap());
    for end in (2..whole.len()).step_by(97).chain(whole.len() - 9..whole.len()) {
        assert_eq!(problem(&whole[..end]), "the compressed file ends too soon: it is not whole; copy it again", "{end}");
    }
}

#[test]
fn an_export_that_is_not_whole_is_refused_with_where() {
    let export = std::fs::read(EXPORT).unwrap();
    let truncated = problem(&export[..export.len() / 2]);
    assert!(truncated.starts_with("the export ends too soon (EOF while parsing"), "{truncated}");
    assert!(truncated.contains(" at line ") && truncated.ends_with("): it is not whole"), "{truncated}");
    assert_eq!(problem(&gzip(&export[..export.len() / 2])), truncated, "whole gzip of half an export");
}

#[test]
fn a_bomb_is_refused_before_it_is_unpacked() {
    let spaces = |count| gzip(&[b"{".as_slice(), &vec![b' '; count], b"}"].concat());
    // Few bytes are no bomb, whatever they are of.
    assert!(content(&*spaces(10 << 10), None, &SMALL).is_ok());
    let by_ratio = content(&*spaces(60 << 10), None, &SMALL).unwrap_err();
    assert!(by_ratio.ends_with("no export does"), "{by_ratio}");
    let loose = Limits { ratio: 10_000, ..SMALL };
    assert!(content(&*spaces(60 << 10), None, &loose).is_ok());
    for bytes in [spaces(70 << 10), [b"{".as_slice(), &vec![b' '; 70 << 10]].concat()] {
        let by_size = content(&*bytes, None, &loose).unwrap_err();
        assert!(by_size.starts_with("it is too large"), "{by_size}");
    }
    let long = format!("permissions:\n  default:\n{}", "  - a.b\n".repeat(2000));
    assert!(content(long.as_bytes(), None, &SMALL).unwrap_err().contains("it is too large"));
}

#[test]
fn aliases_in_yaml_do_not_multiply() {
    let mut yaml = "a: &a [x, x, x, x, x, x, x, x]\n".to_owned();
    for (letter, before) in ('b'..='j').zip('a'..) {
        yaml += &format!("{letter}: &{letter} [{}]\n", vec![format!("*{before}"); 8].join(", "));
    }
    yaml += "permissions:\n  default: *j\n";
    assert!(problem(yaml.as_bytes()).contains("config.yml"));
    // Fewer than the reader itself has anything against.
    let item = "x".repeat(100);
    let long = format!("a: &a [{}]\npermissions:\n{}", "x, ".repeat(1_000), (0..50).map(|n| format!("  g{n}: *a\n")).collect::<String>());
    let large = format!("a: &a {item}\npermissions:\n  default: [{}]\n", "*a, ".repeat(1_000));
    for yaml in [long, large] {
        assert!(problem(yaml.as_bytes()).contains("aliases repeat what is in it"), "{}", problem(yaml.as_bytes()));
    }
    let some = "permissions:\n  a: &a\n  - moonbridge.command.list\n  b: *a\n";
    assert!(matches!(content(some.as_bytes(), None, &LIMITS).unwrap(), Content::BungeeCord(config) if config.permissions["b"].len() == 1));
}

#[test]
fn what_is_something_else_is_refused() {
    for (bytes, says) in [
        (&b""[..], "it is empty"),
        (b" \n\t", "it is empty"),
        (b"just text", "it does not begin like a LuckPerms export"),
        (b"\x00\xff\xfe\x01", "it does not begin like a LuckPerms export"),
        (b"listeners: []\n", "neither `permissions` nor `groups` is in it"),
        (b"permissions: 5\n", "permissions: invalid type"),
        (b"[1, 2]", "it does not begin like a LuckPerms export"),
        (b"{\"groups\": 5}", "not a LuckPerms export: invalid type"),
    ] {
        let problem = problem(bytes);
        assert!(problem.contains(says), "{problem}");
    }
    assert_eq!(problem(&gzip(b"")), "it is empty");
}

#[test]
fn utf_16_is_told() {
    for mark in ["\u{feff}", ""] {
        let units = || mark.encode_utf16().chain("{}".encode_utf16());
        let little: Vec<u8> = units().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = units().flat_map(u16::to_be_bytes).collect();
        for bytes in [&little, &big, &gzip(&little)] {
            assert_eq!(problem(bytes), "it is in UTF-16: save it as UTF-8", "{bytes:?}");
        }
    }
}

#[test]
fn a_path_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.json.gz");
    assert_eq!(of_path(&missing), format!("cannot read {}: No such file or directory (os error 2)", missing.display()));
    assert_eq!(of_path(folder.path()), format!("cannot read {}: Is a directory (os error 21)", folder.path().display()));
    let empty = folder.path().join("empty");
    File::create(&empty).unwrap();
    assert_eq!(of_path(&empty), format!("cannot read {}: it is empty", empty.display()));
}
