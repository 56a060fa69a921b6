//! One function for each parser of `moonbridge-protocol`: it takes any bytes, and panics if the parser breaks a promise.
//!
//! `fuzz_targets/` makes a fuzzer of each; `dataplane/protocol/tests/corpus.rs` includes this file and runs each over its
//! corpus, on stable, with every `cargo test`.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use moonbridge_protocol::bungeecord::{self, Request, java};
use moonbridge_protocol::channels::Channels;
use moonbridge_protocol::command::Command;
use moonbridge_protocol::forge::candidate::{Candidate, ClientFacts};
use moonbridge_protocol::forge::dimension::DimensionRegister;
use moonbridge_protocol::forge::ids::{Fingerprint, ModIds};
use moonbridge_protocol::forge::lead::Lead;
use moonbridge_protocol::forge::live::Live;
use moonbridge_protocol::forge::message::Message;
use moonbridge_protocol::forge::mods::{ModList, ModListDifference};
use moonbridge_protocol::forge::phase::ClientPhase;
use moonbridge_protocol::forge::tracker::Tracker;
use moonbridge_protocol::frame::{self, MAX_FRAME};
use moonbridge_protocol::handshake;
use moonbridge_protocol::host::VirtualHost;
use moonbridge_protocol::keep_alive::{Answer, Asker, Ledger, MAX_OUTSTANDING};
use moonbridge_protocol::legacy_ping::{self, Detected};
use moonbridge_protocol::play::{self, ClientSettings, JoinGame, PluginMessage, Respawn, TabComplete};
use moonbridge_protocol::tab_complete::{Answered, Asked, Completions, Due, Part};
use moonbridge_protocol::tab_list::TabNames;
use moonbridge_protocol::text::{MAX_BYTES, MAX_JSON, Text};
use moonbridge_protocol::version::Version;
use moonbridge_protocol::walk::{Empty, HOLD, Verdict, Walker, WatchSet};
use moonbridge_protocol::wire::Reader;
use moonbridge_protocol::{forwarding, login, name, status, switch};

/// What is fuzzed.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also the name of its file in `fuzz_targets/` and of its folder in `corpus/`.
pub const TARGETS: &[(&str, Target)] = &[
    ("bungeecord", bungeecord),
    ("channels", channels),
    ("forge", forge),
    ("frame", frame),
    ("handshake", handshake),
    ("keep_alive", keep_alive),
    ("legacy_ping", legacy_ping),
    ("login", login),
    ("play", play),
    ("plugin_message", plugin_message),
    ("status", status),
    ("tab_complete", tab_complete),
    ("tab_list", tab_list),
    ("text_json", text_json),
    ("text_legacy", text_legacy),
    ("walk", walk),
];

/// The payload of the one frame that `write` puts.
fn payload_of(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    let first = frame::first(&out, MAX_FRAME).expect("what is put is well-formed").expect("and whole");
    assert_eq!(first.whole.len(), out.len(), "one frame");
    first.payload.to_vec()
}

/// A message of a backend's plugin, its first text, and what is said with them.
pub fn bungeecord(data: &[u8]) {
    if let Ok(text) = java::read_text(&mut Reader::new(data)) {
        let mut again = Vec::new();
        if java::put_text(&mut again, &text) {
            assert_eq!(java::read_text(&mut Reader::new(&again)).as_deref(), Ok(&*text));
            assert_eq!(again.len(), 2 + java::text_len(&text));
        }
        let names: Vec<&str> = text.split(' ').collect();
        for answer in [bungeecord::Answer::GetServer { backend: &text }, bungeecord::Answer::PlayerList { on: None, players: &names }] {
            let mut said = Vec::new();
            assert_eq!(answer.write(&mut said), !said.is_empty());
            assert!(said.len() <= play::MAX_SERVERBOUND_DATA);
        }
    }
    if let Ok(Request::Forward { message, .. } | Request::ForwardToPlayer { message, .. }) = Request::read(data) {
        let mut said = Vec::new();
        if message.write(&mut said) {
            assert_eq!(java::read_text(&mut Reader::new(&said)).as_deref(), Ok(&*message.channel));
            assert!(said.ends_with(message.data));
        }
    }
}

/// REGISTER and UNREGISTER in turn, parted by 0xff: what is registered again is what was registered.
pub fn channels(data: &[u8]) {
    let mut channels = Channels::default();
    for (index, names) in data.split(|&byte| byte == 0xff).enumerate() {
        if index % 2 == 0 { channels.register(names) } else { channels.unregister(names) }
    }
    let mut out = Vec::new();
    channels.put_register(&mut out, Version::newest());
    assert_eq!(out.is_empty(), channels.is_empty());
    let mut again = Channels::default();
    let mut rest = &out[..];
    while let Some(frame) = frame::first(rest, MAX_FRAME).expect("what is put is well-formed") {
        again.register(PluginMessage::read_serverbound(frame.payload).expect("and readable").data);
        rest = &rest[frame.whole.len()..];
    }
    assert_eq!(again.len(), channels.len());
}

/// Forge's handshake: a client, its server and a candidate say things, each behind who says it in a byte and its length in
/// another. Whatever is said, a client that is led to a candidate does not throw.
pub fn forge(data: &[u8]) {
    let version = Version::newest();
    let (mut tracker, mut candidate, mut live) = (Tracker::new(false), None, None);
    let (mut held, mut out) = (Vec::new(), Vec::new());
    let join = JoinGame { entity_id: 1, gamemode: 0, dimension: 7, difficulty: 0, max_players: 1, level_type: String::new() };
    let mut rest = data;
    while let [who, length, after @ ..] = rest {
        let (said, after) = after.split_at(after.len().min((*length).into()));
        rest = after;
        forge_message(said);
        out.clear();
        match who % 8 {
            0 => tracker.clientbound(said),
            1 => {
                tracker.serverbound(said);
            }
            2 => tracker.joined(),
            3 => tracker.entered(),
            4 => {
                let facts = || ClientFacts::of(version, &tracker, &Channels::default(), said.len() % 2 == 0);
                candidate = candidate.or_else(|| facts().map(Candidate::new));
                if let Some(candidate) = &mut candidate
                    && candidate.see(said, &mut out).is_ok()
                {
                    held.push(said);
                }
            }
            5 => {
                let Some(candidate) = candidate.take().filter(|candidate| candidate.joined().is_ok()) else { continue };
                let held = std::mem::take(&mut held);
                let Ok(lead) = Lead::plan(&tracker, &candidate, &join, said == [1]) else { continue };
                let before = tracker.client();
                lead.begin(&mut out, version, &mut tracker);
                held.iter().for_each(|said| {
                    lead.see(said, &mut tracker);
                });
                lead.end(&mut out, version, &mut tracker);
                let led = matches!(lead, Lead::Reset | Lead::Onward);
                // What a candidate says after its handshake may begin another, which it has not ended then.
                assert!(!led || tracker.client() != ClientPhase::Error, "a client that was led throws");
                assert!(led || tracker.client() == before);
            }
            6 => tracker.new_server(),
            _ => {
                live = live.or_else(|| Live::new(&tracker, said.len() % 2 == 0).ok());
                if let Some(live) = &mut live {
                    let before = tracker.client();
                    if live.from_candidate(said, &mut out, version, &mut tracker).is_err() {
                        assert!(out.is_empty() && tracker.client() == before);
                        live.failed(&mut out, version, &mut tracker);
                    } else {
                        assert_ne!(tracker.client(), ClientPhase::Error);
                    }
                }
                live = live.filter(|_| tracker.client() != ClientPhase::Error);
            }
        }
        while let Some(frame) = frame::first(&out, MAX_FRAME).expect("what is put is well-formed") {
            out.drain(..frame.whole.len());
        }
        let _ = (tracker.may_reset(), tracker.waits_for(), tracker.is_handshaking(), tracker.watches_clientbound());
    }
}

/// One message on its own: what is read is written so that the same is read again.
fn forge_message(data: &[u8]) {
    if let Ok(Some(register)) = DimensionRegister::read(data) {
        let mut again = Vec::new();
        register.write(&mut again);
        assert_eq!(DimensionRegister::read(&again), Ok(Some(register)));
    }
    let Ok(message) = Message::read(data) else { return };
    let mut again = Vec::new();
    message.write(&mut again);
    assert_eq!(Message::read(&again), Ok(message));
    match message {
        Message::ModList(fields) => {
            let Ok(list) = ModList::read(fields) else { return };
            assert_eq!(list.iter().count(), list.len());
            assert_eq!(ModList::read(list.fields()).as_ref(), Ok(&list));
            assert!(ModListDifference::between(&list, &list).is_empty());
            let text = ModListDifference::between(&list, &ModList::of([])).to_string();
            assert!(text.len() < 4_096 && !text.chars().any(char::is_control));
        }
        Message::ModIdData(fields) => {
            let Ok(ids) = ModIds::read(fields) else { return };
            let mut again = Vec::new();
            ids.write(&mut again);
            assert_eq!(ModIds::read(&again).as_ref(), Ok(&ids));
            assert_eq!(Fingerprint::of(&again), Fingerprint::of(fields));
        }
        _ => {}
    }
}

/// The first frame of the bytes.
pub fn frame(data: &[u8]) {
    if let Ok(Some(first)) = frame::first(data, MAX_FRAME) {
        assert_eq!(data[..first.whole.len()], *first.whole);
        if !first.is_empty() {
            let put = payload_of(|out| frame::put(out, first.id, |out| out.extend_from_slice(first.payload)));
            assert_eq!(put, first.payload);
        }
    }
}

/// A handshake, its host, and what is forwarded of it.
pub fn handshake(data: &[u8]) {
    let Ok(read) = handshake::read(data) else { return };
    let put = payload_of(|out| handshake::put(out, &read));
    assert_eq!(handshake::read(&put), Ok(read));
    assert!(!VirtualHost::of(read.host).route_host.contains('\0'));
    let (address, uuid) = (IpAddr::V4(Ipv4Addr::LOCALHOST), name::offline_uuid("a"));
    let forwarded = forwarding::legacy_host(read.host, address, uuid, &[]);
    assert_eq!(forwarded.map(|host| host.split('\0').count()), Ok(3));
    let guarded = forwarding::bungeeguard_host(read.host, address, uuid, &[], "a token");
    assert_eq!(guarded.map(|host| host.split('\0').count()), Ok(4));
}

/// Questions (even bytes) and answers (odd bytes): no answer is given twice, and the bound holds.
pub fn keep_alive(data: &[u8]) {
    let mut ledger = Ledger::default();
    for &byte in data {
        let asker = if byte & 2 == 0 { Asker::Node } else { Asker::Backend(u32::from(byte >> 6)) };
        if byte == 0xfe {
            ledger.take_over(Asker::Backend(1)).for_each(drop);
        } else if byte % 2 == 0 {
            let id = ledger.ask(asker, byte.into());
            assert!((1..=i64::from(i32::MAX)).contains(&id));
        } else if let Answer::To(_, id) = ledger.answer(i64::from(byte >> 1)) {
            assert!(id < 256);
            assert_eq!(ledger.answer(i64::from(byte >> 1)), Answer::Unasked);
        }
        assert!(ledger.outstanding() <= MAX_OUTSTANDING);
    }
}

/// A connection's first bytes, however many have come: once it is known what they are, more bytes change nothing.
pub fn legacy_ping(data: &[u8]) {
    let whole = legacy_ping::detect(data);
    for end in 0..data.len().min(legacy_ping::MAX_PING) {
        let part = legacy_ping::detect(&data[..end]);
        assert!(part == Detected::Need || part == whole);
        assert_ne!(legacy_ping::detect_silent(&data[..end]), Detected::Need);
    }
    assert!(whole != Detected::Need || data.len() < legacy_ping::MAX_PING);
    if let Detected::Ping(ping) = whole {
        let motd = ping.client.map(|client| client.host).unwrap_or_default();
        assert!(legacy_ping::response(ping.kind, 127, "1.7.10", &motd, 1, 2).len() <= 3 + 2 * 256);
    }
}

/// The packets of the login phase, and names.
pub fn login(data: &[u8]) {
    if let Ok(read) = login::read_login_start(data) {
        let put = payload_of(|out| login::put_login_start(out, read));
        assert_eq!(login::read_login_start(&put), Ok(read));
        if name::valid_name(read).is_ok() {
            assert_eq!(name::offline_uuid(read).get_version_num(), 3);
        }
    }
    let _ = login::read_login_success(data);
    if let Ok(read @ (server_id, key, token)) = login::read_encryption_request(data) {
        let put = payload_of(|out| login::put_encryption_request(out, server_id, key, token));
        assert_eq!(login::read_encryption_request(&put), Ok(read));
    }
    if let Ok(response) = login::read_encryption_response(data) {
        assert!(response.secret.len() <= login::MAX_ENCRYPTED && response.token.len() <= login::MAX_ENCRYPTED);
        assert_eq!(payload_of(|out| login::put_encryption_response(out, response)), data);
    }
    if let Ok(reason) = login::read_disconnect(data) {
        let put = payload_of(|out| login::put_disconnect(out, &reason));
        assert!(login::read_disconnect(&put).is_ok());
    }
}

/// The packets of the play phase.
pub fn play(data: &[u8]) {
    for version in Version::ALL {
        if let Ok(join) = JoinGame::read(version, data) {
            assert_eq!(JoinGame::read(version, &payload_of(|out| join.put(out, version))), Ok(join.clone()));
            let mut out = Vec::new();
            switch::put_enter(&mut out, version, &join, true);
        }
        if let Ok(respawn) = Respawn::read(version, data) {
            let Respawn { dimension, difficulty, gamemode, level_type } = &respawn;
            let put = payload_of(|out| play::put_respawn(out, version, *dimension, *difficulty, *gamemode, level_type));
            assert_eq!(Respawn::read(version, &put), Ok(respawn));
        }
        if let Ok(id) = play::read_keep_alive(version, data) {
            let mut payload = vec![0; data.len()];
            play::write_keep_alive(version, &mut payload, id);
            assert_eq!(payload, data);
        }
        if let Ok(settings) = ClientSettings::read(version, data) {
            assert_eq!(ClientSettings::read(version, &payload_of(|out| settings.put(out, version))), Ok(settings));
        }
        if let Ok(line) = play::read_chat(data) {
            assert!(play::read_chat(&payload_of(|out| play::put_chat(out, version, &line))).is_ok());
        }
    }
    assert!(!play::read_disconnect(data).is_empty());
    if let Ok(line) = play::read_chat_serverbound(data)
        && let Some(command) = Command::of(line)
    {
        assert!(command.is(command.root) && command.words().count() == line.matches(' ').count());
    }
    let _ = play::read_position_and_look(data);
    let _ = play::read_position_and_look_serverbound(data);
}

/// Plugin messages of both directions.
pub fn plugin_message(data: &[u8]) {
    let version = Version::newest();
    if let Ok(read) = PluginMessage::read_serverbound(data)
        && read.data.len() <= play::MAX_CLIENTBOUND_DATA
    {
        let put = payload_of(|out| assert!(play::put_long_plugin_message_serverbound(out, version, read.channel, read.data)));
        assert_eq!(PluginMessage::read_serverbound(&put), Ok(read));
    }
    if let Ok(read) = PluginMessage::read_clientbound(data)
        && read.data.len() <= play::MAX_CLIENTBOUND_DATA
    {
        let put = payload_of(|out| assert!(play::put_plugin_message_clientbound(out, version, read.channel, read.data)));
        assert_eq!(PluginMessage::read_clientbound(&put), Ok(read));
    }
}

/// Status answers and pings.
pub fn status(data: &[u8]) {
    if let Ok(answer) = status::read_response(data) {
        assert!(answer.description.plain().len() <= MAX_BYTES);
        let description = answer.description.to_legacy();
        let put = payload_of(|out| {
            let favicon = answer.favicon.as_deref();
            let (version_name, description) = (answer.version_name.as_str(), description.as_str());
            status::Status { version_name, protocol: 5, max: 1, online: 0, sample: &[], description, favicon }
                .put_response_with(out, answer.modinfo.as_ref());
        });
        let again = status::read_response(&put).expect("our own answer");
        assert_eq!(again.modinfo.is_some(), answer.modinfo.is_some());
    }
    if let Ok(number) = status::read_ping(data) {
        assert_eq!(payload_of(|out| status::put_pong(out, number)), data);
    }
}

/// The packets; and requests, answers, time and transfers, each a byte: what is held comes out, and nothing twice.
pub fn tab_complete(data: &[u8]) {
    let version = Version::newest();
    if let Ok(typed) = play::read_tab_complete_serverbound(data) {
        let put = payload_of(|out| play::put_tab_complete_serverbound(out, version, typed));
        assert_eq!(play::read_tab_complete_serverbound(&put), Ok(typed));
    }
    if let Ok(answer) = TabComplete::read(data) {
        let own = ["/server", "/send"];
        let put = payload_of(|out| play::put_merged_tab_complete(out, version, &answer, own.into_iter()));
        let merged = TabComplete::read(&put).expect("our own answer");
        assert!(merged.words().count() <= answer.words().count() + own.len());
        assert!(own.iter().all(|own| merged.words().any(|word| word == *own)));
    }
    let (mut completions, mut now) = (Completions::default(), Instant::now());
    let mut answered = vec![0; data.len()];
    for (number, &byte) in data.iter().enumerate() {
        let text = ["/", "/s", "/se", "hello"][usize::from(byte >> 6)];
        let mut answer = |number: usize| answered[number] += 1;
        match byte % 6 {
            0 | 1 => {
                let part = [Part::Backend, Part::Both(number), Part::Node(number)][usize::from(byte >> 3 & 1) + usize::from(byte % 6)];
                if let Asked::Answer(own) = completions.request(now, text, part) {
                    answer(own);
                }
            }
            2 | 3 => {
                if let Answered::Merge(own) = completions.answer(now, [text, "/seed"].into_iter().take(usize::from(byte >> 3 & 3))) {
                    answer(own);
                }
            }
            4 => now += Duration::from_millis(u64::from(byte) * 40),
            _ => completions.new_backend(),
        }
        while let Some(due) = completions.poll(now) {
            if let Due::Answer(own) = due {
                answer(own);
            }
        }
        assert!(completions.deadline().is_none_or(|deadline| deadline > now));
    }
    assert!(answered.iter().all(|&times| times <= 1));
}

/// Player List Items, each behind its length in a byte: what is taken off is what is there.
pub fn tab_list(data: &[u8]) {
    let version = Version::newest();
    let mut names = TabNames::default();
    let mut rest = data;
    while let Some((&length, after)) = rest.split_first() {
        let (payload, after) = after.split_at(after.len().min(length.into()));
        names.note(payload);
        rest = after;
    }
    let mut out = Vec::new();
    names.put_removals(&mut out, version);
    let mut rest = &out[..];
    let mut count = names.len();
    while let Some(frame) = frame::first(rest, MAX_FRAME).expect("what is put is well-formed") {
        names.note(frame.payload);
        count -= 1;
        assert_eq!(names.len(), count, "each removal takes off one");
        rest = &rest[frame.whole.len()..];
    }
    assert!(names.is_empty());
}

/// Text as a JSON component.
pub fn text_json(data: &[u8]) {
    let Ok(json) = std::str::from_utf8(data) else { return };
    if let Ok(text) = Text::from_json(json) {
        written(&text);
    }
}

/// Text with `§` codes.
pub fn text_legacy(data: &[u8]) {
    let text = Text::legacy(&String::from_utf8_lossy(data));
    written(&text);
    assert_eq!(Text::legacy(&text.to_legacy()), text);
}

fn written(text: &Text) {
    let (plain, json) = (text.plain(), text.to_json());
    assert!(plain.len() <= MAX_BYTES && json.len() <= MAX_JSON);
    assert!(plain.chars().all(|c| c == '\n' || !c.is_control()));
    let read = Text::from_json(&json).expect("our own JSON");
    assert!(plain.starts_with(&read.plain()), "at most the end is cut off");
}

/// A stream, whose first byte says in what pieces the rest is read: the pieces make no difference.
pub fn walk(data: &[u8]) {
    let Some((&size, stream)) = data.split_first() else { return };
    assert_eq!(walked(stream, usize::from(size) + 1), walked(stream, stream.len().max(1)));
}

/// What is forwarded, what is visited, frames and empty frames counted, and whether the stream turned out malformed.
type Walked = (Vec<u8>, Vec<(u8, Vec<u8>)>, u32, u32, bool);

fn walked(stream: &[u8], size: usize) -> Walked {
    let mut walker = Walker::default();
    let mut buffer = Vec::new();
    let (mut out, mut visited, mut frames, mut empty) = (Vec::new(), Vec::new(), 0, 0);
    let mut stopped = false;
    for read in stream.chunks(size) {
        buffer.extend_from_slice(read);
        loop {
            let result = walker.walk(&mut buffer, WatchSet::of(&[0, 1, 2, 3, 0x3f]), Empty::Drop, |frame| {
                visited.push((frame.id, frame.payload.to_vec()));
                match frame.payload.first().map_or(0, |byte| byte % 4) {
                    0 => Verdict::Pass,
                    1 => Verdict::Drop,
                    2 => {
                        frame.payload.iter_mut().for_each(|byte| *byte ^= 0x55);
                        Verdict::Pass
                    }
                    _ => {
                        stopped = !stopped;
                        if stopped { Verdict::Stop } else { Verdict::Pass }
                    }
                }
            });
            let Ok(walked) = result else { return (out, visited, frames, empty, true) };
            out.extend_from_slice(&buffer[..walked.forward]);
            buffer.drain(..walked.consumed);
            frames += walked.frames;
            empty += walked.empty;
            if !walked.stopped && !walked.malformed {
                assert!(buffer.len() <= HOLD);
                break;
            }
        }
    }
    (out, visited, frames, empty, false)
}
