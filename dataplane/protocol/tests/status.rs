//! The server list, for clients of today and of before 1.7.

use moonbridge_protocol::frame::{self, MAX_FRAME};
use moonbridge_protocol::handshake::{self, Handshake, Next};
use moonbridge_protocol::legacy_ping::{Client, Detected, Kind, LegacyPing, MAX_PING, detect, detect_silent, response};
use moonbridge_protocol::name::offline_uuid;
use moonbridge_protocol::status::{AnswerError, ModInfo, SamplePlayer, Status, read_response};
use moonbridge_protocol::wire::{Reader, put_string};
use proptest::prelude::*;
use serde_json::{Value, json};

const STATUS: Status<'_> = Status {
    version_name: "MoonBridge 1.7.10",
    protocol: 5,
    max: 1_000,
    online: 3,
    sample: &[],
    description: "§aA network",
    favicon: None,
};

fn answer(status: &Status<'_>) -> Value {
    answer_with(status, None)
}

fn answer_with(status: &Status<'_>, modinfo: Option<&ModInfo>) -> Value {
    let mut out = Vec::new();
    status.put_response_with(&mut out, modinfo);
    let frame = frame::first(&out, MAX_FRAME).expect("well-formed").expect("whole");
    let mut reader = Reader::new(frame.payload);
    let value = serde_json::from_str(reader.string(32_767).expect("a string a client takes")).expect("JSON");
    reader.finish().expect("nothing else");
    let read = read_response(frame.payload).expect("our own answer");
    assert_eq!(read.protocol, Some(status.protocol.into()));
    assert_eq!(read.modinfo.is_some(), modinfo.is_some());
    value
}

#[test]
fn a_status_has_what_a_client_shows() {
    assert_eq!(
        answer(&STATUS),
        json!({
            "version": { "name": "MoonBridge 1.7.10", "protocol": 5 },
            "players": { "max": 1000, "online": 3 },
            "description": "§aA network",
        })
    );
    let sample = [SamplePlayer { name: "Notch", id: offline_uuid("Notch") }];
    let full = Status { sample: &sample, favicon: Some(&[1, 2, 3]), ..STATUS };
    assert_eq!(answer(&full)["players"]["sample"], json!([{ "name": "Notch", "id": "b50ad385-829d-3141-a216-7e7d7539ba7f" }]));
    assert_eq!(answer(&full)["favicon"], "data:image/png;base64,AQID");
    let older = Status { protocol: 4, ..full };
    assert_eq!(answer(&older)["players"]["sample"][0]["id"], "b50ad385829d3141a2167e7d7539ba7f");
}

#[test]
fn a_status_always_fits() {
    let png = vec![7; 30_000];
    let sample: Vec<SamplePlayer<'_>> = (0..1_000).map(|_| SamplePlayer { name: "somebody", id: offline_uuid("somebody") }).collect();
    let description = "\"".repeat(40_000);
    let large = answer(&Status { favicon: Some(&png), ..STATUS });
    assert_eq!((large.get("favicon"), &large["description"]), (None, &json!("§aA network")));
    let large = answer(&Status { sample: &sample, ..STATUS });
    assert_eq!(large["players"], json!({ "max": 1000, "online": 3 }));
    let large = answer(&Status { favicon: Some(&png), sample: &sample, description: &description, ..STATUS });
    assert!(large["description"].as_str().expect("a string").len() > 1_000);
    answer(&Status { version_name: &description, ..STATUS });
}

fn read(json: Value) -> moonbridge_protocol::status::Answer {
    let mut payload = Vec::new();
    put_string(&mut payload, &json.to_string());
    read_response(&payload).expect("an answer")
}

#[test]
fn other_servers_answers_are_read_as_far_as_they_go() {
    let full = read(json!({
        "version": { "name": "§4Spigot", "protocol": 47 },
        "players": { "max": 20, "online": 1, "sample": [{ "name": "§aBob", "id": "x" }, { "id": "y" }, 4] },
        "description": { "text": "a", "extra": [{ "text": "b", "color": "red" }] },
        "favicon": "data:image/png;base64,AQ\nID",
        "modinfo": { "type": "FML", "modList": [] },
    }));
    assert_eq!((full.version_name.as_str(), full.protocol, full.max, full.online), ("Spigot", Some(47), Some(20), Some(1)));
    assert_eq!((full.sample, full.favicon), (vec!["Bob".to_owned()], Some(vec![1, 2, 3])));
    assert_eq!(full.description.to_legacy(), "a§cb");
    for odd in
        [json!({}), json!({ "version": 3, "players": [], "description": null, "favicon": "x" }), json!({ "players": { "max": "many" } })]
    {
        assert_eq!(read(odd), moonbridge_protocol::status::Answer::default());
    }
    for (no_object, is_wire) in [(&b"\x02[]"[..], false), (b"\x01{", false), (b"\x05{}", true), (b"", true)] {
        assert_eq!(matches!(read_response(no_object), Err(AnswerError::Wire(_))), is_wire);
    }
}

/// The ping of a 1.6 client, as minecraft.wiki writes it out.
fn ping_1_6(protocol: u8, host: &str, port: i32) -> Vec<u8> {
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>();
    let units = host.encode_utf16().count() as u16;
    let mut out = vec![0xfe, 0x01, 0xfa, 0x00, 0x0b];
    out.extend(utf16("MC|PingHost"));
    out.extend((7 + 2 * units).to_be_bytes());
    out.push(protocol);
    out.extend(units.to_be_bytes());
    out.extend(utf16(host));
    out.extend(port.to_be_bytes());
    out
}

#[test]
fn each_legacy_ping_is_known() {
    let known = |kind| Detected::Ping(LegacyPing { kind, client: None });
    assert_eq!((detect(&[]), detect_silent(&[])), (Detected::Need, Detected::No));
    assert_eq!((detect(&[0xfe]), detect_silent(&[0xfe])), (Detected::Need, known(Kind::Beta)));
    assert_eq!((detect(&[0xfe, 1]), detect_silent(&[0xfe, 1])), (Detected::Need, known(Kind::V1_4)));
    let ping = ping_1_6(74, "play.example.org", 25_565);
    let client = Client { protocol: 74, host: "play.example.org".to_owned(), port: 25_565 };
    let whole = Detected::Ping(LegacyPing { kind: Kind::V1_6, client: Some(client) });
    assert_eq!((detect(&ping), detect_silent(&ping)), (whole.clone(), whole.clone()));
    assert_eq!(detect(&[&ping[..], &[1, 2, 3]].concat()), whole, "what follows is not looked at");
    for end in 3..ping.len() {
        assert_eq!((detect(&ping[..end]), detect_silent(&ping[..end])), (Detected::Need, known(Kind::V1_6)), "{end}");
    }
}

#[test]
fn a_1_6_ping_that_goes_wrong_is_a_ping_of_bounded_length() {
    let known = Detected::Ping(LegacyPing { kind: Kind::V1_6, client: None });
    let longest = ping_1_6(74, &"h".repeat(255), 1);
    assert_eq!(longest.len(), MAX_PING);
    assert!(matches!(detect(&longest), Detected::Ping(LegacyPing { client: Some(_), .. })));
    assert_eq!(detect(&ping_1_6(74, &"h".repeat(256), 1)), known);
    for index in 3..32 {
        let mut ping = ping_1_6(74, "play.example.org", 25_565);
        if index != 29 {
            // 29 is the protocol.
            ping[index] ^= 0x40;
            assert_eq!(detect(&ping), known, "{index}");
        }
    }
}

#[test]
fn no_handshake_is_taken_for_a_legacy_ping() {
    let mut of_254_bytes = 0;
    for length in 1..=255 {
        for character in ["a", "é", "語"] {
            let host = character.repeat(length);
            let mut out = Vec::new();
            handshake::put(&mut out, &Handshake { protocol: 5, host: &host, port: 25_565, next: Next::Status });
            of_254_bytes += usize::from(out.starts_with(&[0xfe, 0x01]));
            assert_eq!(detect(&out), Detected::No, "{length} of {character}");
        }
    }
    assert!(of_254_bytes > 0, "some of them begin like a ping");
}

fn reason(kick: &[u8]) -> String {
    assert_eq!(kick[0], 0xff);
    let units: Vec<u16> = kick[3..].chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    assert_eq!(usize::from(u16::from_be_bytes([kick[1], kick[2]])), units.len());
    assert!(units.len() <= 256);
    String::from_utf16(&units).expect("UTF-16")
}

#[test]
fn each_legacy_ping_is_answered_in_its_form() {
    for kind in [Kind::V1_4, Kind::V1_6] {
        assert_eq!(
            reason(&response(kind, 127, "1.7.2 to 1.7.10", "§aA network", 3, 1_000)),
            "§1\x00127\x001.7.2 to 1.7.10\0§aA network\x003\x001000"
        );
    }
    assert_eq!(reason(&response(Kind::Beta, 127, "1.7.10", "§aA §lnetwork\nof two lines", 3, 1_000)), "A network of two lines§3§1000");
    assert_eq!(response(Kind::Beta, 0, "", "é", 0, 1), [0xff, 0, 5, 0, 0xe9, 0, 0xa7, 0, b'0', 0, 0xa7, 0, b'1']);
}

proptest! {
    #[test]
    fn answers_keep_their_fields_whatever_the_motd_is(motd in "[a§b\0语😀\n]{0,400}", online in any::<u32>(), max in any::<u32>()) {
        let modern = reason(&response(Kind::V1_6, 127, "1.7.10", &motd, online, max));
        let fields: Vec<&str> = modern.split('\0').collect();
        prop_assert_eq!(fields.len(), 6);
        prop_assert_eq!((fields[0], fields[4].parse(), fields[5].parse()), ("§1", Ok(online), Ok(max)));
        let beta = reason(&response(Kind::Beta, 127, "1.7.10", &motd, online, max));
        let fields: Vec<&str> = beta.split('§').collect();
        prop_assert_eq!(fields.len(), 3);
        prop_assert_eq!((fields[1].parse(), fields[2].parse()), (Ok(online), Ok(max)));
    }
}

#[test]
fn the_mods_of_a_forge_server_are_passed_on_as_they_are() {
    let json = r#"{"modList":[{"modid":"Forge","version":"10.13.4.1614"}],"other":[1,null],"type":"FML"}"#;
    let modinfo = ModInfo::from_json(json).expect("a modinfo");
    assert_eq!(modinfo.json(), json);
    assert_eq!(answer_with(&STATUS, Some(&modinfo))["modinfo"], serde_json::from_str::<Value>(json).expect("JSON"));
    let mut out = Vec::new();
    STATUS.put_response_with(&mut out, Some(&modinfo));
    let frame = frame::first(&out, MAX_FRAME).expect("well-formed").expect("whole");
    assert_eq!(read_response(frame.payload).expect("our own answer").modinfo, Some(modinfo));
    for bad in ["", "[]", "{}", r#"{"type":1}"#, r#"{"type":"FML""#, &format!(r#"{{"type":"FML","x":"{}"}}"#, "x".repeat(32_767))] {
        assert!(matches!(ModInfo::from_json(bad), Err(AnswerError::Json(_))), "{bad:.20}");
    }
}

#[test]
fn a_list_of_mods_that_does_not_fit_leaves_its_type() {
    let list: Vec<String> = (0..500).map(|number| format!(r#"{{"modid":"mod{number}","version":"1.7.10-{number}"}}"#)).collect();
    let modinfo = ModInfo::from_json(&format!(r#"{{"type":"FML","modList":[{}]}}"#, list.join(","))).expect("a modinfo");
    let png = vec![7; 20_000];
    let with_favicon = answer_with(&Status { favicon: Some(&png), ..STATUS }, Some(&modinfo));
    assert_eq!(with_favicon["modinfo"]["modList"].as_array().map(Vec::len), Some(500), "mods matter more than a favicon");
    assert_eq!(with_favicon.get("favicon"), None);
    let description = "x".repeat(20_000);
    let long = answer_with(&Status { description: &description, ..STATUS }, Some(&modinfo));
    assert_eq!(long["modinfo"], json!({ "type": "FML", "modList": [] }));
    assert_eq!(long["description"].as_str().map(str::len), Some(20_000));
}
