//! Forge's handshake, message by message: what is written is read again, and nothing that is cut short or too long is taken
//! for what it is not.

use moonbridge_protocol::forge::dimension::{DimensionRegister, client_goes_to, needs_override, real};
use moonbridge_protocol::forge::ids::{Fingerprint, ModIds};
use moonbridge_protocol::forge::message::{Message, PROTOCOL, ServerHello};
use moonbridge_protocol::forge::mods::{MAX_BYTES, MAX_MODS, ModList, ModListDifference};
use moonbridge_protocol::forge::{HANDSHAKE, MAX_STRING};
use moonbridge_protocol::frame::{self, MAX_FRAME};
use moonbridge_protocol::play::{JoinGame, MAX_CLIENTBOUND_DATA, PluginMessage};
use moonbridge_protocol::version::Version;
use moonbridge_protocol::wire::{WireError, put_varint};
use proptest::prelude::*;

fn written(message: &Message<'_>) -> Vec<u8> {
    let mut data = Vec::new();
    message.write(&mut data);
    data
}

/// Both ways through a frame.
fn through_frames(message: &Message<'_>) {
    let version = Version::newest();
    let mut out = Vec::new();
    assert!(message.put_clientbound(&mut out, version));
    let frame = frame::first(&out, MAX_FRAME).expect("well-formed").expect("whole");
    let read = PluginMessage::read_clientbound(frame.payload).expect("a plugin message");
    assert_eq!((read.channel, Message::read(read.data)), (HANDSHAKE, Ok(*message)));
    out.clear();
    assert!(message.put_serverbound(&mut out, version));
    let frame = frame::first(&out, MAX_FRAME).expect("well-formed").expect("whole");
    let read = PluginMessage::read_serverbound(frame.payload).expect("a plugin message");
    assert_eq!((read.channel, Message::read(read.data)), (HANDSHAKE, Ok(*message)));
}

fn mods() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec(("[a-zA-Z|_§]{0,12}", "[0-9.@]{0,9}"), 0..20)
}

fn list(mods: &[(String, String)]) -> ModList {
    ModList::of(mods.iter().map(|(id, version)| (id.as_str(), version.as_str())))
}

fn ids(mappings: &[(String, i32)], blocks: &[String], items: &[String]) -> Vec<u8> {
    fn strings(names: &[String]) -> Vec<&str> {
        names.iter().map(String::as_str).collect()
    }
    let mut fields = Vec::new();
    let mappings = mappings.iter().map(|(name, id)| (name.as_str(), *id)).collect();
    ModIds { mappings, block_substitutions: strings(blocks), item_substitutions: strings(items) }.write(&mut fields);
    fields
}

prop_compose! {
    fn message()(which in 0..7, protocol in any::<u8>(), dimension in any::<i32>(), first in 4u8..0xfe, fields in prop::collection::vec(any::<u8>(), 0..50)) -> (i32, u8, i32, u8, Vec<u8>) {
        (which, protocol, dimension, first, fields)
    }
}

fn made((which, protocol, dimension, first, fields): &(i32, u8, i32, u8, Vec<u8>)) -> Message<'_> {
    let dimension = if *protocol as i8 > 1 { *dimension } else { 0 };
    match which {
        0 => Message::ServerHello(ServerHello { protocol: *protocol, dimension }),
        1 => Message::ClientHello { protocol: *protocol },
        2 => Message::ModList(fields),
        3 => Message::ModIdData(fields),
        4 => Message::Ack { phase: *protocol },
        5 => Message::Reset,
        _ => Message::Unknown(*first),
    }
}

proptest! {
    #[test]
    fn messages_are_read_as_they_were_written(made_of in message()) {
        through_frames(&made(&made_of));
    }

    #[test]
    fn mod_lists_are_read_as_they_were_written(mods in mods(), trailing in prop::collection::vec(any::<u8>(), 0..4)) {
        let list = list(&mods);
        let mut fields = list.fields().to_vec();
        prop_assert_eq!(ModList::read(&fields), Ok(list.clone()));
        let read: Vec<(String, String)> = list.iter().map(|(id, version)| (id.to_owned(), version.to_owned())).collect();
        prop_assert_eq!((list.len(), &read), (mods.len(), &mods));
        for (id, _) in &mods {
            let last = mods.iter().rev().find(|(other, _)| other == id).map(|(_, version)| version.as_str());
            prop_assert_eq!(list.version(id), last, "the last one counts, as in the map that Forge makes of it");
        }
        for end in 0..fields.len() {
            prop_assert!(ModList::read(&fields[..end]).is_err(), "cut at {}", end);
        }
        fields.extend(trailing);
        prop_assert_eq!(ModList::read(&fields), Ok(list));
    }

    #[test]
    fn differences_are_those_of_maps(client in mods(), server in mods(), before in mods()) {
        use std::collections::BTreeMap;
        let maps: Vec<BTreeMap<&str, &str>> = [&client, &server, &before].map(|mods| mods.iter().map(|(id, version)| (id.as_str(), version.as_str())).collect()).into();
        let difference = ModListDifference::between(&list(&client), &list(&server));
        let missing: Vec<&str> = maps[0].keys().filter(|id| !maps[1].contains_key(*id)).copied().collect();
        let extra: Vec<&str> = maps[1].keys().filter(|id| !maps[0].contains_key(*id)).copied().collect();
        let other: Vec<&str> = maps[0].iter().filter(|(id, version)| maps[1].get(*id).is_some_and(|other| other != *version)).map(|(id, _)| *id).collect();
        prop_assert_eq!(difference.missing.iter().map(|id| &**id).collect::<Vec<_>>(), missing.clone());
        prop_assert_eq!(difference.extra.iter().map(|id| &**id).collect::<Vec<_>>(), extra);
        prop_assert_eq!(difference.other_version.iter().map(|other| &*other.id).collect::<Vec<_>>(), other);
        prop_assert!(ModListDifference::between(&list(&client), &list(&client)).is_empty());
        prop_assert!(difference.beyond(&difference).is_empty(), "what was taken once is taken again");
        let accepted = ModListDifference::between(&list(&client), &list(&before));
        for id in &difference.beyond(&accepted).missing {
            prop_assert!(missing.contains(&&**id) && maps[2].contains_key(&**id));
        }
        prop_assert!(difference.to_string().len() < 4_096);
    }

    #[test]
    fn ids_are_read_as_they_were_written(
        mappings in prop::collection::vec(("[\u{1}\u{2}][a-z:]{0,8}", 0i32..2_097_152), 0..20),
        blocks in prop::collection::vec("[a-z:]{0,8}", 0..4),
        items in prop::collection::vec("[a-z:]{0,8}", 0..4),
    ) {
        let fields = ids(&mappings, &blocks, &items);
        let read = ModIds::read(&fields).expect("what was written");
        prop_assert_eq!(read.mappings.len(), mappings.len());
        prop_assert!(read.mappings.iter().zip(&mappings).all(|(read, made)| read.0 == made.0 && read.1 == made.1));
        prop_assert_eq!((read.block_substitutions.len(), read.item_substitutions.len()), (blocks.len(), items.len()));
        let mut again = Vec::new();
        read.write(&mut again);
        prop_assert_eq!(&again, &fields);
        let fingerprint = Fingerprint::of(&fields).expect("what was written");
        for end in 0..fields.len() {
            // Lists may be left out from the end on: then it says something else, unless what was left out was empty.
            if let Ok(cut) = Fingerprint::of(&fields[..end]) {
                prop_assert!(cut != fingerprint || items.is_empty(), "cut at {}", end);
            }
        }
        let mut shuffled = mappings.clone();
        shuffled.reverse();
        prop_assert_eq!(Fingerprint::of(&ids(&shuffled, &blocks, &items)), Ok(fingerprint), "order does not matter");
        if let Some((name, id)) = mappings.first() {
            let mut other = mappings.clone();
            other[0] = (name.clone(), id ^ 1);
            let other = Fingerprint::of(&ids(&other, &blocks, &items)).expect("what was written");
            prop_assert!(other != fingerprint);
            let fewer = Fingerprint::of(&ids(&mappings[1..], &blocks, &items)).expect("what was written");
            prop_assert!(fewer != fingerprint);
        }
    }

    #[test]
    fn nothing_minds_arbitrary_bytes(data in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Message::read(&data);
        let _ = ModList::read(&data);
        let _ = Fingerprint::of(&data);
        let _ = DimensionRegister::read(&data);
    }

    #[test]
    fn the_real_dimension_ends_in_join_games_byte(dimension in any::<i32>(), said in any::<i32>()) {
        let join = |dimension: i32| JoinGame { entity_id: 1, gamemode: 0, dimension: (dimension as i8).into(), difficulty: 0, max_players: 1, level_type: String::new() };
        prop_assert_eq!(real(&join(dimension), dimension), dimension, "a server that says both");
        prop_assert_eq!(real(&join(dimension), said) as i8, dimension as i8);
        prop_assert_eq!(needs_override(dimension), !(-128..128).contains(&dimension));
        prop_assert_eq!(client_goes_to(&join(dimension), said), if said == 0 { (dimension as i8).into() } else { said });
    }
}

#[test]
fn every_message_is_refused_at_every_byte_that_it_is_cut_at() {
    let hello = written(&Message::ServerHello(ServerHello { protocol: PROTOCOL, dimension: -7 }));
    assert_eq!(hello, [0, 2, 0xff, 0xff, 0xff, 0xf9]);
    for whole in [hello, written(&Message::ClientHello { protocol: 2 }), written(&Message::Ack { phase: 3 })] {
        for end in 0..whole.len() {
            assert_eq!(Message::read(&whole[..end]), Err(WireError::Truncated), "{whole:?} cut at {end}");
        }
        assert!(Message::read(&[&whole[..], &[9]].concat()).is_ok(), "what follows is ignored, as Forge does");
    }
    assert_eq!(Message::read(&[0, 1]), Ok(Message::ServerHello(ServerHello { protocol: 1, dimension: 0 })));
    assert_eq!(written(&Message::Reset), [0xfe, 0]);
    assert_eq!(Message::read(&[0xfe]), Ok(Message::Reset));
    assert_eq!(Message::read(&[]), Err(WireError::Truncated));
    let mut register = Vec::new();
    DimensionRegister { dimension: 1_000, provider: -3 }.write(&mut register);
    assert_eq!(DimensionRegister::read(&register), Ok(Some(DimensionRegister { dimension: 1_000, provider: -3 })));
    for end in 0..register.len() {
        assert!(DimensionRegister::read(&register[..end]).is_err());
    }
    assert_eq!(DimensionRegister::read(&[2, 0, 0]), Ok(None), "fluids");
}

#[test]
fn five_thousand_mods_are_taken_and_what_is_too_much_is_not() {
    let many: Vec<(String, String)> = (0..5_000).map(|number| (format!("somebodys_mod_{number}"), format!("1.7.10-{number}.0"))).collect();
    let five_thousand = list(&many);
    assert_eq!(ModList::read(five_thousand.fields()).expect("5,000 mods").len(), 5_000);
    through_frames(&Message::ModList(five_thousand.fields()));

    let mut fields = Vec::new();
    put_varint(&mut fields, MAX_MODS as i32 + 1);
    fields.resize(fields.len() + 2 * (MAX_MODS + 1), 0);
    assert_eq!(ModList::read(&fields), Err(WireError::VarintTooLong), "more mods than two bytes can say");
    let most = ModList::of((0..MAX_MODS + 10).map(|_| ("", "")));
    assert_eq!((most.len(), ModList::read(most.fields())), (MAX_MODS, Ok(most.clone())));

    let long = "x".repeat(MAX_STRING);
    let few = ModList::of((0..20).map(|_| (long.as_str(), "1")));
    assert!(few.len() < 20 && few.fields().len() <= MAX_BYTES);
    let mut fields = vec![20];
    for _ in 0..20 {
        fields.extend([0xff, 0x7f]);
        fields.extend(long.as_bytes());
        fields.extend([1, b'1']);
    }
    assert!(matches!(ModList::read(&fields), Err(WireError::BadLength { .. })));
    // A number of mods that is not there reserves nothing.
    assert_eq!(ModList::read(&[0xff, 0x7f]), Err(WireError::Truncated));
    assert_eq!(ModIds::read(&[0xff, 0xff, 0x7f]), Err(WireError::Truncated));
    assert_eq!(ModIds::read(&[0xff, 0xff, 0xff, 0x7f]), Err(WireError::VarintTooLong));
}

#[test]
fn two_mebibytes_of_ids_pass_through_a_frame() {
    let mappings: Vec<(String, i32)> = (0..80_000).map(|number| (format!("\u{1}somebodysmod:block_{number:06}"), number)).collect();
    let mut fields = ids(&mappings[..60_000], &[], &[]);
    assert!(fields.len() > 1_500_000);
    // Forge's writer gives the number of the block substitutions twice.
    fields.truncate(fields.len() - 2);
    assert_eq!(ModIds::read(&fields).expect("no lists").mappings.len(), 60_000);
    fields.extend([1, 1, b'b', 1, 1, b'i', 1, b'j']);
    assert_eq!(ModIds::read(&fields).expect("three items behind a 1").item_substitutions, ["i", "j"]);
    through_frames(&Message::ModIdData(&fields));

    let most = vec![7; MAX_CLIENTBOUND_DATA - 1];
    through_frames(&Message::ModIdData(&most));
    let mut out = Vec::new();
    let beyond = vec![7; MAX_CLIENTBOUND_DATA];
    assert!(!Message::ModIdData(&beyond).put_clientbound(&mut out, Version::newest()));
    assert!(out.is_empty());
    let started = std::time::Instant::now();
    let fields = ids(&mappings, &[], &[]);
    let fingerprint = Fingerprint::of(&fields).expect("80,000 blocks");
    println!("{} bytes of ids: fingerprint in {:?}", fields.len(), started.elapsed());
    assert_eq!(Fingerprint::of(&fields), Ok(fingerprint));
}

#[test]
fn the_build_is_in_the_fourth_part_of_forges_version() {
    let of = |mods: &[(&str, &str)]| ModList::of(mods.iter().copied());
    for (mods, build, resets) in [
        (&[("Forge", "10.13.4.1614"), ("FML", "7.10.99.99")][..], Some(1614), true),
        (&[("Forge", "10.13.0.1208"), ("FML", "7.10.2.1208")][..], Some(1208), false),
        (&[("Forge", "10.13.0.1209")][..], Some(1209), true),
        (&[("FML", "7.10.99.99")][..], None, true),
        (&[("FML", "7.10.0.1151")][..], None, false),
        (&[("Forge", "10.13")][..], None, false),
        (&[("Forge", "10.13.4.99999999999")][..], None, false),
        (&[("Forge", "10.13"), ("FML", "7.10.99.99")][..], None, true),
        (&[("A", "1")][..], None, true),
        (&[][..], None, true),
    ] {
        assert_eq!((of(mods).forge_build(), of(mods).knows_reset()), (build, resets), "{mods:?}");
    }
}

#[test]
fn a_difference_is_told_in_bounded_text() {
    let client = ModList::of([("a", "1"), ("b", "1"), ("c\u{1b}[31m", "1"), ("d", "1")]);
    let server = ModList::of([("a", "1"), ("b", "2"), ("e", "1")]);
    let difference = ModListDifference::between(&client, &server);
    assert_eq!(difference.to_string(), "not on the server: c[31m, d; in another version: b (client 1, server 2); not on the client: e");
    assert_eq!(ModListDifference::default().to_string(), "the same mods");
    let many: Vec<String> = (0..1_000).map(|number| format!("{number}{}", "x".repeat(500))).collect();
    let text = ModListDifference::between(&ModList::of(many.iter().take(400).map(|id| (id.as_str(), ""))), &client).to_string();
    assert!(text.len() < 1_000 && text.contains("and 392 more"), "{text}");
}
