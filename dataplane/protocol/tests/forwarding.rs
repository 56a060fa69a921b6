//! What is forwarded is read back as Spigot and BungeeGuard read it, and nothing that a player or a profile says changes a field.

use std::net::{IpAddr, Ipv4Addr};

use moonbridge_protocol::forwarding::{HostTooLong, MAX_HOST, Property, TOKEN_PROPERTY, bungeeguard_host, legacy_host};
use moonbridge_protocol::handshake::{self, Handshake, Next};
use moonbridge_protocol::host::VirtualHost;
use moonbridge_protocol::name::offline_uuid;
use moonbridge_protocol::{frame, wire};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use uuid::Uuid;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Spigot 1.7.10's `HandshakeListener`.
struct Spigot {
    hostname: String,
    address: IpAddr,
    uuid: Uuid,
    profile: Option<Vec<Property>>,
}

impl Spigot {
    fn read(host: &str) -> Spigot {
        // Java's split leaves out empty strings at the end.
        let split: Vec<&str> = host.trim_end_matches('\0').split('\0').collect();
        assert!(
            split.len() == 3 || split.len() == 4,
            "If you wish to use IP forwarding, please enable it in your BungeeCord config as well!"
        );
        assert_eq!(split[2].len(), 32, "UUIDTypeAdapter puts the dashes in");
        Spigot {
            hostname: split[0].to_owned(),
            address: split[1].parse().expect("no scope id, no brackets"),
            uuid: split[2].parse().expect("a UUID"),
            profile: split.get(3).map(|json| properties(json)),
        }
    }
}

/// Gson's `fromJson(…, Property[].class)`.
fn properties(json: &str) -> Vec<Property> {
    let list: Vec<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(json).expect("a JSON array of objects");
    let read = |mut object: serde_json::Map<String, serde_json::Value>| {
        let mut text = |field: &str| object.remove(field).map(|value| value.as_str().expect("a string").to_owned());
        let property =
            Property { name: text("name").expect("a name"), value: text("value").expect("a value"), signature: text("signature") };
        assert!(object.is_empty(), "nothing else: {object:?}");
        property
    };
    list.into_iter().map(read).collect()
}

/// BungeeGuard's `BungeeCordHandshake`: the token, and what it hands on to Spigot.
fn bungeeguard(host: &str) -> (String, Spigot) {
    let mut spigot = Spigot::read(host);
    let (tokens, others): (Vec<_>, Vec<_>) =
        spigot.profile.take().expect("four parts").into_iter().partition(|property| property.name == TOKEN_PROPERTY);
    let [token] = &tokens[..] else { panic!("expected one token: {tokens:?}") };
    spigot.profile = Some(others);
    (token.value.clone(), spigot)
}

fn property() -> impl Strategy<Value = Property> {
    let name = prop_oneof![Just("textures".to_owned()), Just(TOKEN_PROPERTY.to_owned()), any::<String>()];
    let text = prop_oneof!["[A-Za-z0-9+/=]{0,700}", any::<String>(), "[\0\"\\\\\\]},\u{2028}\u{10ffff}]{0,9}"];
    (name, text.clone(), option::of(text)).prop_map(|(name, value, signature)| Property { name, value, signature })
}

fn host() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[a-z.]{0,9}(\0[a-z0-9.:]{0,9}){0,5}", Just("play.example.net\0FML\0".to_owned())]
}

proptest! {
    #[test]
    fn a_backend_reads_what_was_forwarded(
        host in host(),
        address in any::<IpAddr>(),
        uuid in any::<u128>(),
        profile in vec(property(), 0..4),
        token in "[!-~]{8,256}",
    ) {
        let uuid = Uuid::from_u128(uuid);
        let legacy = Spigot::read(&legacy_host(&host, address, uuid, &profile).expect("short"));
        // Three parts without properties, as BungeeCord does in offline mode.
        prop_assert_eq!(legacy.profile, (!profile.is_empty()).then(|| profile.clone()));
        let (sent, guarded) = bungeeguard(&bungeeguard_host(&host, address, uuid, &profile, &token).expect("short"));
        prop_assert_eq!(sent, token);
        let others: Vec<_> = profile.into_iter().filter(|property| property.name != TOKEN_PROPERTY).collect();
        prop_assert_eq!(guarded.profile, Some(others));
        for read in [(legacy.hostname, legacy.address, legacy.uuid), (guarded.hostname, guarded.address, guarded.uuid)] {
            prop_assert_eq!(read, (VirtualHost::of(&host).route_host.to_owned(), address.to_canonical(), uuid));
        }
    }
}

#[test]
fn the_text_is_bungeecords() {
    let uuid = offline_uuid("Notch");
    let forwarded = |address: &str| legacy_host("h\0FML\0", address.parse().expect("an address"), uuid, &[]).expect("short");
    assert_eq!(forwarded("192.0.2.1"), "h\x00192.0.2.1\x00b50ad385829d3141a2167e7d7539ba7f");
    assert_eq!(forwarded("::ffff:192.0.2.1"), forwarded("192.0.2.1"));
    assert_eq!(forwarded("fe80::1"), "h\0fe80::1\0b50ad385829d3141a2167e7d7539ba7f");
    let property = |name: &str, value: &str, signature: Option<&str>| Property {
        name: name.to_owned(),
        value: value.to_owned(),
        signature: signature.map(str::to_owned),
    };
    let profile = [property("textures", "dGV4dHVyZXM=", Some("c2lnbmVk")), property("a\"b", "c\0d", None)];
    let id = "b50ad385829d3141a2167e7d7539ba7f";
    let textures = r#"{"name":"textures","value":"dGV4dHVyZXM=","signature":"c2lnbmVk"},{"name":"a\"b","value":"c\u0000d"}"#;
    let token = r#"{"name":"bungeeguard-token","value":"a-token","signature":""}"#;
    assert_eq!(legacy_host("h", HERE, uuid, &profile), Ok(["h", "127.0.0.1", id, &format!("[{textures}]")].join("\0")));
    assert_eq!(bungeeguard_host("h", HERE, uuid, &[], "a-token"), Ok(["h", "127.0.0.1", id, &format!("[{token}]")].join("\0")));
    assert_eq!(
        bungeeguard_host("h", HERE, uuid, &profile, "a-token"),
        Ok(["h", "127.0.0.1", id, &format!("[{textures},{token}]")].join("\0"))
    );
}

#[test]
fn a_host_is_as_long_as_backends_read_and_no_longer() {
    let uuid = offline_uuid("Notch");
    let with = |length: usize| {
        let property = Property { name: "textures".to_owned(), value: "x".repeat(length), signature: None };
        legacy_host("ä😀", HERE, uuid, &[property])
    };
    // The game counts UTF-16 units.
    let others = with(0).expect("short").encode_utf16().count();
    let longest = with(MAX_HOST - others).expect("just short enough");
    assert_eq!(longest.encode_utf16().count(), MAX_HOST);
    assert_eq!(with(MAX_HOST - others + 1), Err(HostTooLong(MAX_HOST + 1)));
    // It goes through a handshake, which a backend reads as the game does: a length in bytes of up to four times the bound.
    let mut out = Vec::new();
    handshake::put(&mut out, &Handshake { protocol: 5, host: &longest, port: 25565, next: Next::Login });
    let payload = frame::first(&out, frame::MAX_FRAME).expect("a frame").expect("a whole one").payload;
    let mut reader = wire::Reader::new(payload);
    assert_eq!((reader.varint(), reader.string(MAX_HOST)), (Ok(5), Ok(longest.as_str())));
    assert!(handshake::read(payload).is_err(), "but no player may send it");
}
