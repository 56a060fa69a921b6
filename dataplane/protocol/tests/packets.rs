//! Each packet read back as it was put, and the bytes of some as the documents have them.

use moonbridge_protocol::frame::{self, Frame, MAX_FRAME};
use moonbridge_protocol::handshake::{self, Handshake, Next};
use moonbridge_protocol::host::VirtualHost;
use moonbridge_protocol::login::{self, EncryptionResponse, LoginClientbound};
use moonbridge_protocol::name::{NameError, offline_uuid, valid_name};
use moonbridge_protocol::play::{self, ClientSettings, JoinGame, PluginMessage, Position, Respawn};
use moonbridge_protocol::status;
use moonbridge_protocol::text::Text;
use moonbridge_protocol::version::{self, Clientbound, Serverbound, Version, World};
use moonbridge_protocol::wire::{Reader, WireError, put_string, put_varint};
use proptest::prelude::*;
use uuid::Uuid;

/// The one frame in `out`.
#[track_caller]
fn only(out: &[u8]) -> Frame<'_> {
    let frame = frame::first(out, MAX_FRAME).expect("well-formed").expect("whole");
    assert_eq!(frame.whole.len(), out.len(), "one frame and nothing else");
    frame
}

fn put(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

fn version() -> impl Strategy<Value = &'static Version> {
    prop::sample::select(Version::ALL.iter().collect::<Vec<_>>())
}

/// Each packet cut short anywhere, and with a byte too many, is refused.
fn strict<T: std::fmt::Debug>(payload: &[u8], read: impl Fn(&[u8]) -> Result<T, WireError>) {
    for end in 0..payload.len() {
        read(&payload[..end]).expect_err("cut short");
    }
    assert_eq!(read(&[payload, &[0]].concat()).expect_err("a byte too many"), WireError::Trailing(1));
}

proptest! {
    #[test]
    fn varints(value in any::<i32>()) {
        let out = put(|out| put_varint(out, value));
        prop_assert!(out.len() <= 5);
        let mut reader = Reader::new(&out);
        prop_assert_eq!(reader.varint(), Ok(value));
        prop_assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn strings(text in any::<String>(), limit in 0..40usize) {
        let out = put(|out| put_string(out, &text));
        let read = Reader::new(&out).string(limit);
        if text.encode_utf16().count() <= limit { prop_assert_eq!(read, Ok(&text[..])) } else { prop_assert!(read.is_err()) }
    }

    #[test]
    fn handshakes(protocol in any::<i32>(), host in ".{0,120}", port in any::<u16>(), login in any::<bool>()) {
        let next = if login { Next::Login } else { Next::Status };
        let sent = Handshake { protocol, host: &host, port, next };
        let out = put(|out| handshake::put(out, &sent));
        prop_assert_eq!(only(&out).id, handshake::ID);
        prop_assert_eq!(handshake::read(only(&out).payload), Ok(sent));
        strict(only(&out).payload, |payload| handshake::read(payload).map(|_| ()));
    }

    #[test]
    fn logins(version in version(), uuid in any::<u128>(), name in ".{0,8}", reason in any::<String>()) {
        let out = put(|out| login::put_login_start(out, &name));
        prop_assert_eq!(login::read_login_start(only(&out).payload), Ok(&name[..]));
        strict(only(&out).payload, |payload| login::read_login_start(payload).map(|_| ()));

        let uuid = Uuid::from_u128(uuid);
        let out = put(|out| login::put_login_success(out, version, uuid, &name));
        prop_assert_eq!(LoginClientbound::of(only(&out).id), LoginClientbound::LoginSuccess);
        let (text, read) = login::read_login_success(only(&out).payload).expect("readable");
        prop_assert_eq!((text.parse(), read), (Ok(uuid), &name[..]));
        prop_assert_eq!(text.len(), if version.protocol == 4 { 32 } else { 36 });
        strict(only(&out).payload, |payload| login::read_login_success(payload).map(|_| ()));

        let reason = Text::legacy(&reason);
        let out = put(|out| login::put_disconnect(out, &reason));
        prop_assert_eq!(LoginClientbound::of(only(&out).id), LoginClientbound::Disconnect);
        prop_assert_eq!(login::read_disconnect(only(&out).payload), Ok(reason));
    }

    #[test]
    fn encryption(
        server_id in "[0-9a-f]{0,20}",
        key in prop::collection::vec(any::<u8>(), 0..300),
        secret in prop::collection::vec(any::<u8>(), 0..=login::MAX_ENCRYPTED),
        token in prop::collection::vec(any::<u8>(), 0..=login::MAX_ENCRYPTED),
    ) {
        let out = put(|out| login::put_encryption_request(out, &server_id, &key, &token));
        prop_assert_eq!(LoginClientbound::of(only(&out).id), LoginClientbound::EncryptionRequest);
        prop_assert_eq!(login::read_encryption_request(only(&out).payload), Ok((&server_id[..], &key[..], &token[..])));
        strict(only(&out).payload, |payload| login::read_encryption_request(payload).map(|_| ()));

        let response = EncryptionResponse { secret: &secret, token: &token };
        let out = put(|out| login::put_encryption_response(out, response));
        prop_assert_eq!(only(&out).id, version::ENCRYPTION_RESPONSE);
        prop_assert_eq!(login::read_encryption_response(only(&out).payload), Ok(response));
        strict(only(&out).payload, |payload| login::read_encryption_response(payload).map(|_| ()));
    }

    #[test]
    fn keep_alives(version in version(), id in any::<i32>(), other in any::<i32>()) {
        for (out, expected) in [
            (put(|out| play::put_keep_alive_clientbound(out, version, id.into())), version.clientbound_id(Clientbound::KeepAlive)),
            (put(|out| play::put_keep_alive_serverbound(out, version, id.into())), version.serverbound_id(Serverbound::KeepAlive)),
        ] {
            prop_assert_eq!(only(&out).id, i32::from(expected));
            let mut payload = only(&out).payload.to_vec();
            prop_assert_eq!(play::read_keep_alive(version, &payload), Ok(id.into()));
            strict(&payload, |payload| play::read_keep_alive(version, payload));
            play::write_keep_alive(version, &mut payload, other.into());
            prop_assert_eq!(play::read_keep_alive(version, &payload), Ok(other.into()));
        }
        let mut no_keep_alive = [1, 2, 3];
        play::write_keep_alive(version, &mut no_keep_alive, 9);
        prop_assert_eq!(no_keep_alive, [1, 2, 3]);
    }

    #[test]
    fn worlds(
        version in version(),
        entity_id in any::<i32>(),
        dimension in any::<i8>(),
        far in any::<i32>(),
        [gamemode, difficulty, max_players] in any::<[u8; 3]>(),
        level_type in ".{0,8}",
    ) {
        let join = JoinGame { entity_id, gamemode, dimension: dimension.into(), difficulty, max_players, level_type: level_type.clone() };
        let out = put(|out| join.put(out, version));
        prop_assert_eq!(only(&out).id, i32::from(version.clientbound_id(Clientbound::JoinGame)));
        prop_assert_eq!(JoinGame::read(version, only(&out).payload), Ok(join));
        // What mods append is no reason to refuse a world.
        let payload = only(&out).payload;
        prop_assert_eq!(JoinGame::read(version, &[payload, &[0]].concat()), JoinGame::read(version, payload));
        for end in 0..payload.len() {
            JoinGame::read(version, &payload[..end]).expect_err("cut short");
        }

        let out = put(|out| play::put_respawn(out, version, far, difficulty, gamemode, &level_type));
        prop_assert_eq!(only(&out).id, i32::from(version.clientbound_id(Clientbound::Respawn)));
        prop_assert_eq!(Respawn::read(version, only(&out).payload), Ok(Respawn { dimension: far, difficulty, gamemode, level_type }));
        strict(only(&out).payload, |payload| Respawn::read(version, payload));
    }

    #[test]
    fn chat_and_disconnects(version in version(), text in any::<String>(), typed in ".{0,100}") {
        let text = Text::legacy(&text);
        let out = put(|out| play::put_chat(out, version, &text));
        prop_assert_eq!(version.clientbound(only(&out).id as u8), Clientbound::Chat);
        prop_assert_eq!(play::read_chat(only(&out).payload), Ok(text.clone()));

        let out = put(|out| play::put_disconnect(out, version, &text));
        prop_assert_eq!(version.clientbound(only(&out).id as u8), Clientbound::Disconnect);
        let read = play::read_disconnect(only(&out).payload);
        if text.is_empty() { prop_assert!(!read.is_empty()) } else { prop_assert_eq!(read, text) }

        let out = put(|out| play::put_chat_serverbound(out, version, &typed));
        prop_assert_eq!(version.serverbound(only(&out).id as u8), Serverbound::Chat);
        prop_assert_eq!(play::read_chat_serverbound(only(&out).payload), Ok(&typed[..]));
        strict(only(&out).payload, |payload| play::read_chat_serverbound(payload).map(|_| ()));
    }

    #[test]
    fn plugin_messages(version in version(), channel in ".{0,20}", data in prop::collection::vec(any::<u8>(), 0..300)) {
        let sent = PluginMessage { channel: &channel, data: &data };
        let out = put(|out| assert!(play::put_plugin_message_serverbound(out, version, &channel, &data)));
        prop_assert_eq!(version.serverbound(only(&out).id as u8), Serverbound::PluginMessage);
        prop_assert_eq!(PluginMessage::read_serverbound(only(&out).payload), Ok(sent));
        strict(only(&out).payload, |payload| PluginMessage::read_serverbound(payload).map(|_| ()));

        let out = put(|out| assert!(play::put_plugin_message_clientbound(out, version, &channel, &data)));
        prop_assert_eq!(version.clientbound(only(&out).id as u8), Clientbound::PluginMessage);
        prop_assert_eq!(PluginMessage::read_clientbound(only(&out).payload), Ok(sent));
        strict(only(&out).payload, |payload| PluginMessage::read_clientbound(payload).map(|_| ()));
    }

    #[test]
    fn client_settings(version in version(), locale in ".{0,8}", [view, chat] in any::<[i8; 2]>(), flags in any::<[bool; 2]>(), difficulty in any::<u8>()) {
        let sent = ClientSettings { locale: &locale, view_distance: view, chat, chat_colours: flags[0], difficulty, cape: flags[1] };
        let out = put(|out| sent.put(out, version));
        prop_assert_eq!(version.serverbound(only(&out).id as u8), Serverbound::ClientSettings);
        prop_assert_eq!(ClientSettings::read(version, only(&out).payload), Ok(sent));
        strict(only(&out).payload, |payload| ClientSettings::read(version, payload).map(|_| ()));
        let again = put(|again| play::put_client_settings(again, version, only(&out).payload));
        prop_assert_eq!(again, out);
    }

    #[test]
    fn positions(version in version(), [x, y, z] in prop::array::uniform3(-3e7..3e7), [yaw, pitch] in prop::array::uniform2(-360f32..360.), on_ground in any::<bool>()) {
        let sent = Position { x, y, z, yaw, pitch, on_ground };
        let near = |read: Position| (read.y - y).abs() < 1e-6 && Position { y, ..read } == sent;
        let out = put(|out| play::put_position_and_look(out, version, sent));
        prop_assert_eq!(only(&out).id, i32::from(version.world_id(World::PositionAndLook)));
        prop_assert!(near(play::read_position_and_look(only(&out).payload).expect("readable")));
        strict(only(&out).payload, play::read_position_and_look);
        let out = put(|out| play::put_position_and_look_serverbound(out, version, sent));
        prop_assert_eq!(only(&out).id, i32::from(version.world_id(World::PositionAndLookServerbound)));
        prop_assert!(near(play::read_position_and_look_serverbound(only(&out).payload).expect("readable")));
        strict(only(&out).payload, play::read_position_and_look_serverbound);
    }

    #[test]
    fn pings(number in any::<i64>()) {
        let out = put(|out| status::put_ping(out, number));
        prop_assert_eq!(status::read_ping(only(&out).payload), Ok(number));
        strict(only(&out).payload, status::read_ping);
        prop_assert_eq!(put(|out| status::put_pong(out, number)), out);
    }
}

#[test]
fn the_bytes_are_the_documents() {
    let version = Version::newest();
    let sent = Handshake { protocol: 5, host: "localhost", port: 25565, next: Next::Login };
    assert_eq!(put(|out| handshake::put(out, &sent)), b"\x0f\x00\x05\x09localhost\x63\xdd\x02");
    assert_eq!(put(|out| play::put_keep_alive_clientbound(out, version, 0x0102_0304)), b"\x05\x00\x01\x02\x03\x04");
    let join = JoinGame { entity_id: 7, gamemode: 9, dimension: -1, difficulty: 2, max_players: 60, level_type: "flat".to_owned() };
    assert_eq!(put(|out| join.put(out, version)), b"\x0e\x01\x00\x00\x00\x07\x09\xff\x02\x3c\x04flat");
    assert_eq!(put(|out| play::put_respawn(out, version, -1, 2, 1, "flat")), b"\x0c\x07\xff\xff\xff\xff\x02\x01\x04flat");
    assert_eq!(put(|out| play::put_chat(out, version, &Text::legacy("hi"))), b"\x0f\x02\x0d{\"text\":\"hi\"}");
    assert_eq!(put(|out| play::put_chat_serverbound(out, version, "hi")), b"\x04\x01\x02hi");
    assert!(play::put_plugin_message_serverbound(&mut Vec::new(), version, "A", &[]));
    assert_eq!(put(|out| assert!(play::put_plugin_message_serverbound(out, version, "A", b"b"))), b"\x06\x17\x01A\x00\x01b");
    assert_eq!(put(|out| play::put_spawn_position(out, version, 1, 64, -1)), b"\x0d\x05\0\0\0\x01\0\0\0\x40\xff\xff\xff\xff");
    assert_eq!(put(|out| play::put_abilities(out, version, 4, 0.05, 0.1)).len(), 11);
    assert_eq!(put(|out| play::put_tab_complete(out, version, &[])), b"\x02\x3a\x00");
    assert_eq!(put(|out| play::put_tab_complete(out, version, &["Bob"])), b"\x06\x3a\x01\x03Bob");
    assert_eq!(put(status::put_request), b"\x01\x00");
}

#[test]
fn a_host_of_255_characters_is_read_and_one_of_256_is_not() {
    for (length, good) in [(255, true), (256, false)] {
        for character in ["a", "é", "語"] {
            let host = character.repeat(length);
            let out = put(|out| handshake::put(out, &Handshake { protocol: 5, host: &host, port: 1, next: Next::Login }));
            assert_eq!(handshake::read(only(&out).payload).is_ok(), good, "{length} of {character}");
        }
    }
}

#[test]
fn an_unknown_next_state_is_refused() {
    for next in [0u8, 3, 0x7f] {
        let payload = [&[5, 1, b'a', 0, 1][..], &[next]].concat();
        assert!(matches!(handshake::read(&payload), Err(WireError::BadValue { value, .. }) if value == i64::from(next)));
    }
}

#[test]
fn a_login_start_of_a_long_name_is_refused_before_it_is_kept() {
    let out = put(|out| login::put_login_start(out, &"a".repeat(10_000)));
    let error = login::read_login_start(only(&out).payload).expect_err("too long");
    assert_eq!(error, WireError::BadLength { length: 10_000, limit: 16 });
    assert!(login::read_login_start(&[0xff, 0xff, 0xff, 0xff, 0x0f]).is_err(), "a negative length");
}

#[test]
fn the_arrays_of_an_encryption_response_have_two_bytes_of_length_and_a_bound() {
    let out = put(|out| login::put_encryption_response(out, EncryptionResponse { secret: &[7; 128], token: &[9; 128] }));
    assert_eq!((out.len(), &out[..6]), (263, &[0x85, 0x02, 0x01, 0x00, 0x80, 7][..]));
    for (length, rest) in [([0x01, 0x01], 257), ([0x7f, 0xff], 0x7fff), ([0x80, 0x00], 0), ([0xff, 0xff], 0)] {
        let payload = [&length[..], &vec![0; rest], &[0, 0]].concat();
        let error = login::read_encryption_response(&payload).expect_err("not from 0 to 256");
        assert!(matches!(error, WireError::BadLength { limit: 256, .. }), "{error}");
    }
}

#[test]
fn what_a_backend_says_in_login_is_told_apart() {
    let kinds = [0, 1, 2, 3, 4, -1].map(LoginClientbound::of);
    assert_eq!(
        kinds,
        [
            LoginClientbound::Disconnect,
            LoginClientbound::EncryptionRequest,
            LoginClientbound::LoginSuccess,
            LoginClientbound::SetCompression,
            LoginClientbound::Unknown(4),
            LoginClientbound::Unknown(-1),
        ]
    );
}

#[test]
fn a_reason_that_is_not_json_is_shown_as_it_stands() {
    for (reason, shown) in [
        ("You are banned", "You are banned"),
        ("\"quoted\"", "quoted"),
        ("{\"text\":", "{\"text\":"),
        ("", "Disconnected by the server"),
        ("{\"text\":\"\"}", "Disconnected by the server"),
        ("{\"translate\":\"disconnect.spam\"}", "Kicked for spamming"),
    ] {
        assert_eq!(play::read_disconnect(&put(|out| put_string(out, reason))).plain(), shown);
    }
    assert_eq!(play::read_disconnect(&[9, 1]).plain(), "Disconnected by the server");
}

#[test]
fn long_plugin_messages_use_forges_extended_short() {
    let version = Version::newest();
    for length in [32_767, 32_768, 65_536, 1_000_000, play::MAX_CLIENTBOUND_DATA] {
        let data = vec![7; length];
        let out = put(|out| assert!(play::put_plugin_message_clientbound(out, version, "FML|HS", &data)));
        assert_eq!(PluginMessage::read_clientbound(only(&out).payload), Ok(PluginMessage { channel: "FML|HS", data: &data }));
    }
    let data = vec![7; play::MAX_CLIENTBOUND_DATA + 1];
    let mut out = Vec::new();
    assert!(!play::put_plugin_message_clientbound(&mut out, version, "A", &data));
    // A vanilla server takes less than 32,767 bytes: in such a message 32,768 would be negative.
    assert!(!play::put_plugin_message_serverbound(&mut out, version, "A", &data[..32_767]));
    assert!(!play::put_long_plugin_message_serverbound(&mut out, version, "A", &data));
    assert!(out.is_empty());
    assert!(play::put_plugin_message_serverbound(&mut out, version, "A", &data[..32_766]));
    assert!(PluginMessage::read_serverbound(&[1, b'A', 0x80, 0x00]).is_err());
    for length in [0, 32_767, 32_768, 65_536, play::MAX_CLIENTBOUND_DATA] {
        let long = put(|out| assert!(play::put_long_plugin_message_serverbound(out, version, "A", &data[..length])));
        assert_eq!(only(&long).id, i32::from(version.serverbound_id(Serverbound::PluginMessage)));
        assert_eq!(PluginMessage::read_serverbound(only(&long).payload), Ok(PluginMessage { channel: "A", data: &data[..length] }));
    }
}

/// The names' UUIDs as a server in offline mode writes them into its log.
#[test]
fn offline_uuids_are_those_of_java() {
    for (name, uuid) in [("Notch", "b50ad385-829d-3141-a216-7e7d7539ba7f"), ("jeb_", "a762f560-4fce-3236-812a-b80efff0b62b")] {
        assert_eq!(offline_uuid(name).to_string(), uuid);
    }
    assert_eq!(offline_uuid("Alice").get_version_num(), 3);
}

#[test]
fn names_are_1_to_16_of_letters_digits_and_underscores() {
    for good in ["a", "_", "Notch", "a234567890123456"] {
        assert_eq!(valid_name(good), Ok(()));
    }
    assert_eq!(valid_name(""), Err(NameError::Length(0)));
    assert_eq!(valid_name("a2345678901234567"), Err(NameError::Length(17)));
    for (bad, character) in [("a b", ' '), ("é", 'é'), ("§4red", '§'), ("a\0", '\0'), ("a-b", '-')] {
        assert_eq!(valid_name(bad), Err(NameError::Character(character)));
    }
}

#[test]
fn hosts_are_cut_at_the_first_nul() {
    for (raw, route_host, forge_marker) in [
        ("play.example.org", "play.example.org", false),
        ("play.example.org\0FML\0", "play.example.org", true),
        ("play.example.org\0", "play.example.org", false),
        ("\0FML\0", "", true),
        ("a\x001.2.3.4\x00uuid", "a", false),
        ("FML", "FML", false),
        ("", "", false),
    ] {
        assert_eq!(VirtualHost::of(raw), VirtualHost { route_host, forge_marker });
    }
}

#[test]
fn the_platform_chunk_is_zlib_of_the_right_size() {
    let version = Version::newest();
    for (sky, size) in [(true, 4_096 + 3 * 2_048 + 256), (false, 4_096 + 2 * 2_048 + 256)] {
        let out = put(|out| play::put_platform_chunk(out, version, -1, 2, sky));
        let mut reader = Reader::new(only(&out).payload);
        assert_eq!((reader.i32(), reader.i32(), reader.bool(), reader.u16(), reader.u16()), (Ok(-1), Ok(2), Ok(true), Ok(16), Ok(0)));
        let length = reader.i32().expect("a length") as usize;
        let compressed = reader.bytes(length).expect("the data");
        reader.finish().expect("nothing else");
        let mut data = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(compressed), &mut data).expect("zlib");
        assert_eq!(data.len(), size);
        assert!(data[..256].iter().all(|&block| block == 1) && data[256..4_096].iter().all(|&block| block == 0));
    }
}
