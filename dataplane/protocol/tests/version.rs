//! The table of packet numbers, against one that nobody here wrote: npm's `minecraft-data`.

use moonbridge_protocol::version::{self, Clientbound, NO_ID, Serverbound, Version, World};
use moonbridge_protocol::walk::WatchSet;
use serde_json::Value;

/// The packets' numbers by name, for a phase and a direction.
fn numbers(phase: &str, direction: &str) -> Vec<(u8, String)> {
    let data: Value = serde_json::from_str(include_str!("data/minecraft-data-1.7.json")).expect("the data is JSON");
    let mappings = data[phase][direction].as_object().expect("a phase and direction of the data");
    let number = |id: &str| u8::from_str_radix(id.strip_prefix("0x").expect("a hexadecimal id"), 16).expect("an id");
    mappings.iter().map(|(id, name)| (number(id), name.as_str().expect("a name").to_owned())).collect()
}

#[test]
fn every_clientbound_number_means_what_minecraft_data_says() {
    for version in Version::ALL {
        let mut seen = 0;
        for (id, name) in numbers("play", "toClient") {
            let expected = match name.as_str() {
                "keep_alive" => Clientbound::KeepAlive,
                "login" => Clientbound::JoinGame,
                "chat" => Clientbound::Chat,
                "respawn" => Clientbound::Respawn,
                "player_info" => Clientbound::PlayerListItem,
                "tab_complete" => Clientbound::TabComplete,
                "custom_payload" => Clientbound::PluginMessage,
                "kick_disconnect" => Clientbound::Disconnect,
                _ => Clientbound::Other,
            };
            assert_eq!(version.clientbound(id), expected, "{version:?}: {id:#04x} {name}");
            if expected != Clientbound::Other {
                assert_eq!(version.clientbound_id(expected), id);
                seen += 1;
            }
        }
        assert_eq!(seen, 8);
        assert_eq!(version.clientbound_id(Clientbound::Other), NO_ID);
    }
}

#[test]
fn every_serverbound_number_means_what_minecraft_data_says() {
    for version in Version::ALL {
        let mut seen = 0;
        for (id, name) in numbers("play", "toServer") {
            let expected = match name.as_str() {
                "keep_alive" => Serverbound::KeepAlive,
                "chat" => Serverbound::Chat,
                "tab_complete" => Serverbound::TabComplete,
                "settings" => Serverbound::ClientSettings,
                "custom_payload" => Serverbound::PluginMessage,
                // All others are about the world.
                _ => Serverbound::OldWorld,
            };
            assert_eq!(version.serverbound(id), expected, "{version:?}: {id:#04x} {name}");
            if expected != Serverbound::OldWorld {
                assert_eq!(version.serverbound_id(expected), id);
            }
            seen += 1;
        }
        assert_eq!(seen, 0x18);
        assert_eq!(version.serverbound(0x18), Serverbound::Other, "ids beyond the protocol's are the mods'");
        assert_eq!(version.serverbound_id(Serverbound::OldWorld), NO_ID);
    }
}

#[test]
fn the_worlds_and_the_early_phases_numbers_are_minecraft_datas() {
    let has = |phase: &str, direction: &str, id: i32, name: &str| {
        let id = u8::try_from(id).expect("a small id");
        assert!(numbers(phase, direction).contains(&(id, name.to_owned())), "{phase} {direction}: {id:#04x} is not {name}");
    };
    for version in Version::ALL {
        let world = |kind| i32::from(version.world_id(kind));
        has("play", "toClient", world(World::SpawnPosition), "spawn_position");
        has("play", "toClient", world(World::PositionAndLook), "position");
        has("play", "toClient", world(World::MapChunk), "map_chunk");
        has("play", "toClient", world(World::MapChunkBulk), "map_chunk_bulk");
        has("play", "toClient", world(World::Abilities), "abilities");
        has("play", "toServer", world(World::PositionAndLookServerbound), "position_look");
    }
    has("status", "toServer", version::STATUS, "ping_start");
    has("status", "toClient", version::STATUS, "server_info");
    has("status", "toServer", version::PING, "ping");
    has("status", "toClient", version::PING, "ping");
    has("login", "toServer", version::LOGIN_START, "login_start");
    has("login", "toServer", version::ENCRYPTION_RESPONSE, "encryption_begin");
    has("login", "toClient", version::LOGIN_DISCONNECT, "disconnect");
    has("login", "toClient", version::ENCRYPTION_REQUEST, "encryption_begin");
    has("login", "toClient", version::LOGIN_SUCCESS, "success");
}

#[test]
fn versions_are_found_by_their_number_only() {
    assert_eq!(Version::of(4).map(|version| version.name), Some("1.7.2–1.7.5"));
    assert_eq!(Version::of(5).map(|version| version.name), Some("1.7.6–1.7.10"));
    assert_eq!(Version::newest().protocol, 5);
    for unsupported in [-1, 0, 3, 6, 47, i32::MIN, i32::MAX] {
        assert_eq!(Version::of(unsupported), None);
    }
    assert!(Version::ALL.is_sorted_by(|one, next| one.protocol < next.protocol));
}

#[test]
fn watch_sets_hold_every_id_of_their_kinds() {
    let version = Version::newest();
    let set = version.watch_clientbound(&[Clientbound::KeepAlive, Clientbound::Disconnect]);
    assert_eq!(set, WatchSet::of(&[0x00, 0x40]));
    let old_world = (0x02..=0x13).chain([0x16]).fold(WatchSet::default(), WatchSet::with);
    assert_eq!(version.watch_serverbound(&[Serverbound::OldWorld]), old_world);
    let all = [
        Serverbound::KeepAlive,
        Serverbound::Chat,
        Serverbound::TabComplete,
        Serverbound::ClientSettings,
        Serverbound::PluginMessage,
        Serverbound::OldWorld,
        Serverbound::Other,
    ];
    assert_eq!(version.watch_serverbound(&all), WatchSet::ALL);
    assert_eq!(version.watch_serverbound(&[]), WatchSet::default());
    assert_eq!(version.clientbound(0x80), Clientbound::Other);
    assert_eq!(version.serverbound(0xff), Serverbound::Other);
}
