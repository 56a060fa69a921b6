//! The BungeeCord channel against its vectors, and against a `DataOutputStream` written from Java's documentation.

use std::borrow::Cow;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use moonbridge_protocol::bungeecord::java::{MAX_TEXT, put_text, read_text, text_len};
use moonbridge_protocol::bungeecord::{Answer, CHANNEL, Forwarded, Players, Request, RequestError, Servers, Target};
use moonbridge_protocol::play::{MAX_SERVERBOUND_DATA, put_plugin_message_serverbound};
use moonbridge_protocol::version::Version;
use moonbridge_protocol::wire::{Reader, WireError};
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

fn vectors(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/vectors/bungeecord").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("an array")
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("{field} of {value}"))
}

fn bytes(value: &Value) -> Vec<u8> {
    let digits: Vec<u32> =
        value.as_str().expect("hex").chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).expect("hex")).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// Java's `writeUTF`, from the table in the documentation of `java.io.DataOutput`.
fn write_utf(out: &mut Vec<u8>, text: &str) {
    let mut encoded = Vec::new();
    for unit in text.encode_utf16() {
        let bits = |from: u32, count: u32| (unit >> from & ((1 << count) - 1)) as u8;
        match unit {
            0x0001..=0x007f => encoded.push(bits(0, 7)),
            0x0000 | 0x0080..=0x07ff => encoded.extend([0b1100_0000 + bits(6, 5), 0b1000_0000 + bits(0, 6)]),
            0x0800..=0xffff => encoded.extend([0b1110_0000 + bits(12, 4), 0b1000_0000 + bits(6, 6), 0b1000_0000 + bits(0, 6)]),
        }
    }
    out.extend_from_slice(&u16::try_from(encoded.len()).expect("a text that Java writes").to_be_bytes());
    out.extend_from_slice(&encoded);
}

fn utf(texts: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    texts.iter().for_each(|text| write_utf(&mut out, text));
    out
}

/// What a `DataOutputStream` has written after these calls.
fn written(calls: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for call in calls.as_array().expect("calls") {
        let number = || call[1].as_i64().expect("a number");
        match call[0].as_str().expect("a call") {
            "UTF" => write_utf(&mut out, call[1].as_str().expect("a text")),
            "Short" => out.extend_from_slice(&(number() as u16).to_be_bytes()),
            "Int" => out.extend_from_slice(&(number() as i32).to_be_bytes()),
            _ => out.extend(bytes(&call[1])),
        }
    }
    out
}

/// A request as the vectors say what it means.
fn meaning(request: &Request<'_>) -> Value {
    let hex = |data: &[u8]| data.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    let on = |on: &Servers<'_>| match on {
        Servers::All => Value::Null,
        Servers::One(name) => json!(name),
    };
    let whom = |to: &Players<'_>| match to {
        Players::All => Value::Null,
        Players::One(name) => json!(name),
    };
    match request {
        Request::Connect { backend } => json!({ "message": "Connect", "backend": backend }),
        Request::ConnectOther { player, backend } => json!({ "message": "ConnectOther", "player": player, "backend": backend }),
        Request::Ip => json!({ "message": "IP" }),
        Request::IpOther { player } => json!({ "message": "IPOther", "player": player }),
        Request::PlayerCount { on: servers } => json!({ "message": "PlayerCount", "on": on(servers) }),
        Request::PlayerList { on: servers } => json!({ "message": "PlayerList", "on": on(servers) }),
        Request::GetServers => json!({ "message": "GetServers" }),
        Request::GetServer => json!({ "message": "GetServer" }),
        Request::GetPlayerServer { player } => json!({ "message": "GetPlayerServer", "player": player }),
        Request::Message { to, text } => json!({ "message": "Message", "to": whom(to), "text": text }),
        Request::MessageRaw { to, json } => json!({ "message": "MessageRaw", "to": whom(to), "json": json }),
        Request::Forward { to, message: Forwarded { channel, data } } => {
            let to = match to {
                Target::All => json!("ALL"),
                Target::Online => json!("ONLINE"),
                Target::One(name) => json!([name]),
            };
            json!({ "message": "Forward", "to": to, "channel": channel, "data": hex(data) })
        }
        Request::ForwardToPlayer { player, message: Forwarded { channel, data } } => {
            json!({ "message": "ForwardToPlayer", "player": player, "channel": channel, "data": hex(data) })
        }
        Request::Uuid => json!({ "message": "UUID" }),
        Request::UuidOther { player } => json!({ "message": "UUIDOther", "player": player }),
        Request::ServerIp { backend } => json!({ "message": "ServerIP", "backend": backend }),
        Request::KickPlayer { player, reason } => json!({ "message": "KickPlayer", "player": player, "reason": reason }),
        Request::KickPlayerRaw { player, json } => json!({ "message": "KickPlayerRaw", "player": player, "json": json }),
    }
}

/// Writes the answer that means this.
fn write(meaning: &Value) -> (bool, Vec<u8>) {
    let mut out = Vec::new();
    let at = |field| text(meaning, field);
    let address = || at("address").parse::<IpAddr>().expect("an address");
    let number = |field: &str| meaning[field].as_i64().expect("a number");
    let uuid = || at("uuid").parse::<Uuid>().expect("a UUID");
    let names: Vec<&str> = meaning["names"].as_array().into_iter().flatten().map(|name| name.as_str().expect("a name")).collect();
    let answer = match at("message") {
        "IP" => Answer::Ip { address: address(), port: number("port") as u16 },
        "IPOther" => Answer::IpOther { player: at("player"), address: address(), port: number("port") as u16 },
        "PlayerCount" => Answer::PlayerCount { on: meaning["on"].as_str(), count: number("count") as i32 },
        "PlayerList" => Answer::PlayerList { on: meaning["on"].as_str(), players: &names },
        "GetServers" => Answer::GetServers { backends: &names },
        "GetServer" => Answer::GetServer { backend: at("backend") },
        "GetPlayerServer" => Answer::GetPlayerServer { player: at("player"), backend: meaning["backend"].as_str() },
        "UUID" => Answer::Uuid { uuid: uuid() },
        "UUIDOther" => Answer::UuidOther { player: at("player"), uuid: uuid() },
        "ServerIP" => Answer::ServerIp { backend: at("backend"), address: address(), port: number("port") as u16 },
        "forwarded" => {
            let data = bytes(&meaning["data"]);
            let said = Forwarded { channel: at("channel").into(), data: &data }.write(&mut out);
            return (said, out);
        }
        other => panic!("no answer {other}"),
    };
    (answer.write(&mut out), out)
}

#[test]
fn texts_are_those_of_java() {
    for vector in vectors("texts.json") {
        let (what, text, bytes) = (&vector["what"], text(&vector, "text"), bytes(&vector["bytes"]));
        assert_eq!(utf(&[text]), bytes, "{what}: the vector");
        let mut out = Vec::new();
        assert!(put_text(&mut out, text));
        assert_eq!(out, bytes, "{what}");
        assert_eq!(text_len(text), bytes.len() - 2, "{what}");
        let mut reader = Reader::new(&bytes);
        let read = read_text(&mut reader).expect("a text");
        assert_eq!((&*read, reader.rest().len()), (text, 0), "{what}");
        assert_eq!(matches!(read, Cow::Borrowed(_)), text.len() + 2 == bytes.len(), "{what}: copied only where it must be");
    }
    for vector in vectors("texts_read_only.json") {
        let bytes = bytes(&vector["bytes"]);
        let read = read_text(&mut Reader::new(&bytes)).ok();
        assert_eq!(read.as_deref(), vector["text"].as_str(), "{}", vector["what"]);
    }
}

#[test]
fn requests_mean_what_the_vectors_say() {
    for vector in vectors("requests.json") {
        let (what, bytes) = (&vector["what"], bytes(&vector["bytes"]));
        assert_eq!(written(&vector["calls"]), bytes, "{what}: the vector");
        assert_eq!(meaning(&Request::read(&bytes).expect("a request")), vector["meaning"], "{what}");
    }
}

#[test]
fn answers_are_the_bytes_of_the_vectors() {
    for vector in vectors("answers.json") {
        let (what, bytes) = (&vector["what"], bytes(&vector["bytes"]));
        assert_eq!(written(&vector["calls"]), bytes, "{what}: the vector");
        assert_eq!(write(&vector["meaning"]), (true, bytes), "{what}");
    }
}

#[test]
fn what_is_no_request_is_an_error() {
    for vector in vectors("refused.json") {
        assert!(Request::read(&bytes(&vector["bytes"])).is_err(), "{}", vector["what"]);
    }
    assert_eq!(Request::read(&utf(&["Kill"])), Err(RequestError::Unknown("Kill".to_owned())));
    assert_eq!(Request::read(&utf(&[&"é".repeat(30_000)])), Err(RequestError::Unknown("é".repeat(32))), "an error is short");
    let negative = [&utf(&["Forward", "ALL", ""])[..], &[0xff, 0xfe]].concat();
    assert_eq!(Request::read(&negative), Err(RequestError::Field(WireError::BadLength { length: -2, limit: 32_767 })));
}

#[test]
fn a_request_cut_anywhere_is_an_error_and_none_that_lies_is_a_panic() {
    for vector in vectors("requests.json") {
        let whole = bytes(&vector["bytes"]);
        // Those with bytes beyond the last field are whole before their end.
        let needed = (0..=whole.len()).rev().take_while(|&end| Request::read(&whole[..end]).is_ok()).last().expect("the whole one");
        assert_eq!(
            needed == whole.len(),
            !["Connect, and more behind it", "Forward to one, with bytes beyond its length"].contains(&text(&vector, "what"))
        );
        for end in 0..needed {
            Request::read(&whole[..end]).expect_err("cut short");
        }
        for index in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff, whole[index].wrapping_add(1), whole[index].wrapping_sub(1)] {
                let mut lying = whole.clone();
                lying[index] = byte;
                let _ = Request::read(&lying);
            }
        }
    }
}

#[test]
fn a_list_is_cut_after_a_name() {
    let names: Vec<String> = (0..10_000).map(|number| format!("Player_{number:05}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (answer, start) in [
        (Answer::PlayerList { on: None, players: &names }, utf(&["PlayerList", "ALL"])),
        (Answer::PlayerList { on: Some("lobby"), players: &names }, utf(&["PlayerList", "lobby"])),
        (Answer::GetServers { backends: &names }, utf(&["GetServers"])),
    ] {
        let mut out = b"before".to_vec();
        assert!(answer.write(&mut out));
        let data = &out[b"before".len()..];
        assert!(data.len() <= MAX_SERVERBOUND_DATA && data.len() + "Player_00000, ".len() > MAX_SERVERBOUND_DATA, "{}", data.len());
        assert!(put_plugin_message_serverbound(&mut Vec::new(), Version::newest(), CHANNEL, data));
        let mut reader = Reader::new(data.strip_prefix(&start[..]).expect("what it is about"));
        let list = read_text(&mut reader).expect("a list");
        reader.finish().expect("nothing else");
        let listed: Vec<&str> = list.split(", ").collect();
        assert_eq!(listed, names[..listed.len()]);
    }
    // What takes more bytes in Java than here is counted as it is there.
    let names = vec!["😀\0"; 10_000];
    let mut out = Vec::new();
    assert!(Answer::GetServers { backends: &names }.write(&mut out));
    assert!(out.len() <= MAX_SERVERBOUND_DATA && out.len() + 10 > MAX_SERVERBOUND_DATA);
}

#[test]
fn what_is_too_long_is_not_said() {
    let long = "a".repeat(MAX_TEXT + 1);
    let mut out = b"before".to_vec();
    assert!(!put_text(&mut out, &long));
    assert!(!put_text(&mut out, &"\0".repeat(MAX_TEXT / 2 + 1)), "as long as it is in Java");
    for name in [&long[..], &long[..MAX_TEXT], &long[..MAX_SERVERBOUND_DATA]] {
        assert!(!Answer::GetPlayerServer { player: name, backend: None }.write(&mut out));
        assert!(!Answer::PlayerList { on: Some(name), players: &["Bob"] }.write(&mut out));
        assert!(!Answer::ServerIp { backend: name, address: [127, 0, 0, 1].into(), port: 1 }.write(&mut out));
        assert!(!Forwarded { channel: name.into(), data: &[] }.write(&mut out));
    }
    let data = vec![7; 40_000];
    // The text "A" and the length take five bytes.
    for (length, good) in
        [(MAX_SERVERBOUND_DATA - 5, true), (MAX_SERVERBOUND_DATA - 4, false), (32_767, false), (32_768, false), (40_000, false)]
    {
        let mut out = b"before".to_vec();
        assert_eq!(Forwarded { channel: "A".into(), data: &data[..length] }.write(&mut out), good, "{length}");
        assert_eq!(out.len(), if good { b"before".len() + 5 + length } else { b"before".len() });
    }
    assert_eq!(out, b"before");
    assert!(put_text(&mut Vec::new(), &long[..MAX_TEXT]));
}

proptest! {
    #[test]
    fn any_text_there_and_back(text in any::<String>(), more in prop::collection::vec(any::<u8>(), 0..4)) {
        let mut out = Vec::new();
        prop_assert!(put_text(&mut out, &text));
        prop_assert_eq!(&out, &utf(&[&text]));
        for end in 0..out.len() {
            prop_assert_eq!(read_text(&mut Reader::new(&out[..end])), Err(WireError::Truncated));
        }
        out.extend_from_slice(&more);
        let mut reader = Reader::new(&out);
        let read = read_text(&mut reader);
        prop_assert_eq!(read.as_deref(), Ok(&text[..]));
        prop_assert_eq!(reader.rest(), &more[..]);
    }

    #[test]
    fn any_fields_are_read(a in ".{0,12}", b in any::<String>(), data in prop::collection::vec(any::<u8>(), 0..60)) {
        let (player, backend): (Cow<'_, str>, Cow<'_, str>) = ((&a[..]).into(), (&b[..]).into());
        let is = |bytes: &[u8], request: Request<'_>| {
            prop_assert_eq!(Request::read(bytes), Ok(request));
            for end in 0..bytes.len() {
                prop_assert!(Request::read(&bytes[..end]).is_err(), "cut at {}", end);
            }
            Ok(())
        };
        // Never one of the names that mean all.
        let place: String = format!("{a}.");
        is(&utf(&["ConnectOther", &a, &b]), Request::ConnectOther { player: player.clone(), backend: backend.clone() })?;
        is(&utf(&["KickPlayer", &a, &b]), Request::KickPlayer { player: player.clone(), reason: backend.clone() })?;
        is(&utf(&["Message", &place, &b]), Request::Message { to: Players::One((&place[..]).into()), text: backend.clone() })?;
        is(&utf(&["PlayerList", &place]), Request::PlayerList { on: Servers::One((&place[..]).into()) })?;
        let end = [&(data.len() as u16).to_be_bytes()[..], &data].concat();
        let message = Forwarded { channel: backend, data: &data };
        let mut forwarded = Vec::new();
        prop_assert!(message.write(&mut forwarded));
        prop_assert_eq!(&forwarded, &[utf(&[&b]), end.clone()].concat());
        is(&[utf(&["ForwardToPlayer", &a, &b]), end.clone()].concat(), Request::ForwardToPlayer { player, message: message.clone() })?;
        is(&[utf(&["Forward", &place, &b]), end].concat(), Request::Forward { to: Target::One((&place[..]).into()), message })?;
    }

    #[test]
    fn arbitrary_bytes_never_panic(name in prop::sample::select(vec!["Connect", "Message", "Forward", "ForwardToPlayer", "IP", "?"]), data in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = Request::read(&data);
        let _ = Request::read(&[utf(&[name]), data.clone()].concat());
        if let Ok(text) = read_text(&mut Reader::new(&data)) {
            prop_assert!(text.len() <= data.len() * 3);
        }
    }
}
