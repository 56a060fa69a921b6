//! The first bytes that a backend gets.

use std::borrow::Cow;

use moonbridge_proto::snapshot::Forwarding;
use moonbridge_protocol::forwarding::Property;
use moonbridge_protocol::handshake::{self, Handshake, Next};
use moonbridge_protocol::host::VirtualHost;
use moonbridge_protocol::{forwarding, login};

use super::{Player, Refusal};

/// The handshake, which says who the player is as the backend expects it, and Login Start.
pub(super) fn hello(forwarding: &Forwarding, player: &Player) -> Result<Vec<u8>, Refusal> {
    let Player { host, uuid, .. } = player;
    let properties = &*properties(player);
    let address = player.address.ip();
    let mut host = match forwarding {
        Forwarding::None => Ok(host.clone()),
        Forwarding::Legacy => forwarding::legacy_host(host, address, *uuid, properties),
        Forwarding::BungeeGuard(token) => forwarding::bungeeguard_host(host, address, *uuid, properties, token.reveal()),
    }
    .map_err(|error| Refusal::new("forwarding_too_long", error.to_string()))?;
    let mut hello = Vec::with_capacity(2048);
    put_handshake(&mut hello, player, &host);
    // Some servers take whatever begins so for an old client's ping. A blank behind the properties makes the frame longer.
    if hello.starts_with(&[0xfe]) && host.ends_with(']') && host.len() < forwarding::MAX_HOST {
        host.push(' ');
        hello.clear();
        put_handshake(&mut hello, player, &host);
    }
    login::put_login_start(&mut hello, &player.name);
    Ok(hello)
}

/// The profile's properties. The mark of a Forge client's host has no place beside what is forwarded, and some backends refuse
/// a client without it: so it goes among the properties, as Waterfall writes it (`ForgeConstants`, `ServerConnector`).
fn properties(player: &Player) -> Cow<'_, [Property]> {
    let Player { host, properties, .. } = player;
    if !VirtualHost::of(host).forge_marker {
        return Cow::Borrowed(properties);
    }
    let mark = host.find('\0').map_or("", |at| &host[at..]).replace('\0', "\u{1}");
    // With a signature, though an empty one: not every reader takes a property without.
    let property = |name: &str, value| Property { name: name.to_owned(), value, signature: Some(String::new()) };
    let forge = [property("forgeClient", "true".to_owned()), property("extraData", mark)];
    Cow::Owned(properties.iter().cloned().chain(forge).collect())
}

fn put_handshake(out: &mut Vec<u8>, player: &Player, host: &str) {
    handshake::put(out, &Handshake { protocol: player.version.protocol, host, port: player.port, next: Next::Login });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use moonbridge_proto::snapshot::ForwardingToken;
    use moonbridge_protocol::frame::{self, MAX_FRAME};
    use moonbridge_protocol::version::Version;
    use moonbridge_protocol::wire::Reader;

    use super::*;

    const FML: &str = "play.example.net\0FML\0";

    /// A player with a texture of this many bytes.
    fn player(host: &str, texture: usize) -> Player {
        let texture = Property { name: "textures".into(), value: "x".repeat(texture), signature: Some("s".into()) };
        Player {
            name: "Alice".into(),
            uuid: uuid::Uuid::from_u128(7),
            properties: Arc::new([texture]),
            address: "[::ffff:192.0.2.1]:50000".parse().expect("an address"),
            version: Version::newest(),
            host: host.into(),
            port: 25565,
        }
    }

    /// The handshake's host, with Login Start behind it.
    fn host(hello: &[u8]) -> String {
        let first = frame::first(hello, MAX_FRAME).expect("a frame").expect("whole");
        let mut reader = Reader::new(first.payload);
        assert_eq!(reader.varint(), Ok(5));
        let host = reader.string(forwarding::MAX_HOST).expect("a host").to_owned();
        let start = frame::first(&hello[first.whole.len()..], MAX_FRAME).expect("a frame").expect("whole");
        assert_eq!(login::read_login_start(start.payload), Ok("Alice"));
        host
    }

    #[test]
    fn each_forwarding_has_its_host() {
        let player = player(FML, 1);
        let guard = Forwarding::BungeeGuard(ForwardingToken::new("a-fine-token").expect("a token"));
        let sent = |forwarding| host(&hello(forwarding, &player).expect("short"));
        assert_eq!(sent(&Forwarding::None), FML);
        let legacy = sent(&Forwarding::Legacy);
        let uuid = "00000000000000000000000000000007";
        assert!(legacy.starts_with(&["play.example.net", "192.0.2.1", uuid, "[{"].join("\0")), "{legacy:?}");
        assert!(sent(&guard).starts_with(legacy.strip_suffix(']').expect("JSON")) && sent(&guard).contains("a-fine-token"));
    }

    #[test]
    fn a_forge_clients_mark_goes_among_the_properties() {
        let sent = host(&hello(&Forwarding::Legacy, &player(FML, 1)).expect("short"));
        let json = sent.rsplit('\0').next().expect("a part");
        let properties: serde_json::Value = serde_json::from_str(json).expect("JSON");
        assert_eq!(properties[1], serde_json::json!({ "name": "forgeClient", "value": "true", "signature": "" }));
        assert_eq!(properties[2], serde_json::json!({ "name": "extraData", "value": "\u{1}FML\u{1}", "signature": "" }));
        let vanilla = host(&hello(&Forwarding::Legacy, &player("play.example.net", 1)).expect("short"));
        assert!(!vanilla.contains("forgeClient"));
    }

    /// Whatever the length of a player's skin.
    #[test]
    fn no_handshake_with_a_profile_looks_like_an_old_ping() {
        let mut blanks = 0;
        for texture in 0..600 {
            let hello = hello(&Forwarding::Legacy, &player("h", texture)).expect("short");
            assert_ne!(hello[0], 0xfe);
            let host = host(&hello);
            blanks += usize::from(host.ends_with("] "));
            let json: serde_json::Value = serde_json::from_str(host.rsplit('\0').next().expect("a part")).expect("JSON all the same");
            assert_eq!(json[0]["value"].as_str().map(str::len), Some(texture));
        }
        assert!((4..=5).contains(&blanks), "one length of 128 needs it: {blanks}");
    }

    #[test]
    fn a_profile_too_large_is_refused_with_a_reason() {
        let refusal = hello(&Forwarding::Legacy, &player("h", 40_000)).expect_err("too long");
        assert_eq!(refusal.reason, "forwarding_too_long");
        assert!(refusal.detail.contains("32767"), "{}", refusal.detail);
        assert!(hello(&Forwarding::None, &player("h", 40_000)).is_ok(), "nothing of it is sent");
    }
}
