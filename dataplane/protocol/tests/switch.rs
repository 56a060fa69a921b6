//! Moving a client: what it is sent, what is taken off its tab list, what the next backend is told.

use std::collections::BTreeSet;

use moonbridge_protocol::channels::{Channels, MAX_CHANNEL_NAME, MAX_CHANNELS};
use moonbridge_protocol::frame::{self, MAX_FRAME};
use moonbridge_protocol::play::{JoinGame, PluginMessage, Respawn};
use moonbridge_protocol::switch::{put_cleanup, put_enter, put_enter_forge};
use moonbridge_protocol::tab_list::{MAX_NAMES, TabNames, put_player_list_item};
use moonbridge_protocol::version::{Clientbound, Serverbound, Version};
use moonbridge_protocol::wire::Reader;
use proptest::prelude::*;

/// The frames in `out`: ids and payloads.
fn frames(mut out: &[u8]) -> Vec<(u8, &[u8])> {
    let mut frames = Vec::new();
    while let Some(frame) = frame::first(out, MAX_FRAME).expect("well-formed") {
        frames.push((u8::try_from(frame.id).expect("a known id"), frame.payload));
        out = &out[frame.whole.len()..];
    }
    assert!(out.is_empty(), "whole frames only");
    frames
}

fn join(dimension: i32, gamemode: u8) -> JoinGame {
    JoinGame { entity_id: 1_234, gamemode, dimension, difficulty: 2, max_players: 60, level_type: "default".to_owned() }
}

#[test]
fn a_client_in_no_world_gets_the_join_game_as_it_is() {
    for version in Version::ALL {
        let mut out = Vec::new();
        put_enter(&mut out, version, &join(-1, 9), false);
        let frames = frames(&out);
        assert_eq!(frames.len(), 1);
        assert_eq!(version.clientbound(frames[0].0), Clientbound::JoinGame);
        assert_eq!(JoinGame::read(version, frames[0].1), Ok(join(-1, 9)));
    }
}

#[test]
fn a_client_in_a_world_joins_another_dimension_and_respawns_in_the_real_one() {
    for version in Version::ALL {
        for (dimension, other) in [(0, -1), (-1, 0), (1, 0), (7, 0), (-128, 0), (127, 0)] {
            for (gamemode, without_hardcore) in [(0, 0), (1, 1), (2, 2), (8, 0), (9, 1), (10, 2)] {
                let mut out = Vec::new();
                put_enter(&mut out, version, &join(dimension, gamemode), true);
                let frames = frames(&out);
                let kinds: Vec<Clientbound> = frames.iter().map(|(id, _)| version.clientbound(*id)).collect();
                assert_eq!(kinds, [Clientbound::JoinGame, Clientbound::Respawn]);
                assert_eq!(JoinGame::read(version, frames[0].1), Ok(join(other, gamemode)), "hardcore hearts come with the Join Game");
                let respawn = Respawn { dimension, difficulty: 2, gamemode: without_hardcore, level_type: "default".to_owned() };
                assert_eq!(Respawn::read(version, frames[1].1), Ok(respawn));
            }
        }
    }
}

#[test]
fn a_forge_client_joins_as_its_server_says_and_respawns_twice() {
    let version = Version::newest();
    // The real dimension, Join Game's byte, what Server Hello said; what Join Game says then, and where the client is between.
    for (real, byte, hello, joins, between) in [
        (0, 0, 0, 0, -1),
        (-1, -1, -1, -1, 0),
        (7, 7, 7, 7, 0),
        (7, 7, 0, 7, 0),
        (0, 0, 7, 0, -1),
        (1_000, -24, 1_000, -24, 0),
        (-200, 56, -200, 56, 0),
        // It has not been told of a dimension that Join Game cannot say.
        (1_000, -24, 0, 0, 0),
    ] {
        let mut out = Vec::new();
        put_enter_forge(&mut out, version, &join(byte, 9), real, hello);
        let frames = frames(&out);
        assert_eq!(frames.len(), 3);
        assert_eq!(JoinGame::read(version, frames[0].1), Ok(join(joins, 9)));
        for (frame, dimension) in frames[1..].iter().zip([between, real]) {
            let respawn = Respawn { dimension, difficulty: 2, gamemode: 1, level_type: "default".to_owned() };
            assert_eq!(Respawn::read(version, frame.1), Ok(respawn));
        }
    }
}

fn item(name: &str, online: bool, ping: i16) -> Vec<u8> {
    let mut out = Vec::new();
    put_player_list_item(&mut out, Version::newest(), name, online, ping);
    frames(&out)[0].1.to_vec()
}

/// The names taken off by a cleanup.
fn removals(tab_names: &TabNames) -> BTreeSet<String> {
    let version = Version::newest();
    let mut out = Vec::new();
    put_cleanup(&mut out, version, tab_names);
    let names: Vec<String> = frames(&out)
        .iter()
        .map(|(id, payload)| {
            assert_eq!(version.clientbound(*id), Clientbound::PlayerListItem);
            let mut reader = Reader::new(payload);
            let name = reader.string(16).expect("a name").to_owned();
            assert_eq!((reader.bool(), reader.i16(), reader.finish()), (Ok(false), Ok(0), Ok(())));
            name
        })
        .collect();
    let set: BTreeSet<String> = names.iter().cloned().collect();
    assert_eq!(set.len(), names.len(), "each once");
    set
}

proptest! {
    #[test]
    fn exactly_what_is_on_the_tab_list_is_taken_off(items in prop::collection::vec(("[a-c§4 ]{0,3}", any::<bool>(), any::<i16>()), 0..60)) {
        let mut tab_names = TabNames::default();
        let mut model = BTreeSet::new();
        for (name, online, ping) in items {
            tab_names.note(&item(&name, online, ping));
            if online { model.insert(name); } else { model.remove(&name); }
            prop_assert_eq!(tab_names.len(), model.len());
        }
        prop_assert_eq!(removals(&tab_names), model);
        tab_names.clear();
        prop_assert!(tab_names.is_empty() && removals(&tab_names).is_empty());
    }

    #[test]
    fn exactly_the_registered_channels_are_registered_again(steps in prop::collection::vec((any::<bool>(), "[ab\0|]{0,6}"), 0..40)) {
        let mut channels = Channels::default();
        let mut model: BTreeSet<Vec<u8>> = BTreeSet::new();
        for (register, data) in steps {
            let names = data.split('\0').filter(|name| !name.is_empty()).map(|name| name.as_bytes().to_vec());
            if register {
                channels.register(data.as_bytes());
                model.extend(names);
            } else {
                channels.unregister(data.as_bytes());
                names.for_each(|name| { model.remove(&name); });
            }
        }
        prop_assert_eq!(channels.len(), model.len());
        prop_assert_eq!(channels.is_empty(), model.is_empty());
        prop_assert_eq!(registered(&channels).0, model);
    }
}

#[test]
fn a_name_is_kept_raw_and_a_ping_update_is_no_second_name() {
    let mut tab_names = TabNames::default();
    for ping in 0..3 {
        tab_names.note(&item("§4[Admin] §rBob", true, ping));
    }
    assert_eq!(removals(&tab_names), BTreeSet::from(["§4[Admin] §rBob".to_owned()]));
    tab_names.note(&item("Bob", false, 0));
    assert_eq!(tab_names.len(), 1, "another name");
    tab_names.note(&[]);
    tab_names.note(&item("x", true, 0)[1..]);
    assert_eq!(tab_names.len(), 1, "what cannot be read changes nothing");
}

#[test]
fn the_tab_list_is_bounded() {
    let mut tab_names = TabNames::default();
    for number in 0..MAX_NAMES + 10 {
        tab_names.note(&item(&format!("p{number}"), true, 0));
    }
    assert_eq!((tab_names.len(), tab_names.left_out()), (MAX_NAMES, 10));
}

/// The channels a REGISTER names, and the sizes of its messages.
fn registered(channels: &Channels) -> (BTreeSet<Vec<u8>>, Vec<usize>) {
    let version = Version::newest();
    let mut out = Vec::new();
    channels.put_register(&mut out, version);
    let mut names = BTreeSet::new();
    let mut sizes = Vec::new();
    for (id, payload) in frames(&out) {
        assert_eq!(version.serverbound(id), Serverbound::PluginMessage);
        let message = PluginMessage::read_serverbound(payload).expect("readable");
        assert_eq!(message.channel, "REGISTER");
        sizes.push(message.data.len());
        for name in message.data.split(|&byte| byte == 0) {
            assert!(names.insert(name.to_vec()), "named twice");
        }
    }
    (names, sizes)
}

#[test]
fn many_channels_are_split_into_messages_of_at_most_32767_bytes() {
    let mut channels = Channels::default();
    let names: BTreeSet<Vec<u8>> =
        (0..MAX_CHANNELS).map(|number| format!("{number:0width$}", width = MAX_CHANNEL_NAME).into_bytes()).collect();
    for name in &names {
        channels.register(name);
    }
    let (read, sizes) = registered(&channels);
    assert_eq!(read, names);
    assert!(sizes.len() == 9 && sizes.iter().all(|&size| size <= 32_766), "{sizes:?}");
}

#[test]
fn too_many_and_too_long_channels_are_left_out_and_counted() {
    let mut channels = Channels::default();
    channels.register(&[b'a'; MAX_CHANNEL_NAME + 1]);
    assert_eq!((channels.len(), channels.left_out()), (0, 1));
    for number in 0..MAX_CHANNELS + 5 {
        channels.register(format!("c{number}").as_bytes());
    }
    assert_eq!((channels.len(), channels.left_out()), (MAX_CHANNELS, 6));
    channels.unregister(b"c0\0c1");
    channels.register(b"new");
    assert_eq!(channels.len(), MAX_CHANNELS - 1);
}

#[test]
fn the_number_of_channels_is_the_configurations_affair() {
    let mut channels = Channels::bounded(2);
    channels.register(b"a\0b\0c\0b");
    assert_eq!((channels.len(), channels.left_out()), (2, 1));
    assert!(channels.has("a") && channels.has("b") && !channels.has("c"));
    channels.unregister(b"a");
    channels.register(b"c");
    assert!(channels.has("c") && !channels.has("a"));
    let mut many = Channels::default();
    let names: Vec<String> = (0..10_000).map(|number| format!("mod:{number}")).collect();
    many.register(names.join("\0").as_bytes());
    assert_eq!((many.len(), many.left_out()), (MAX_CHANNELS, 10_000 - MAX_CHANNELS as u64));
}
