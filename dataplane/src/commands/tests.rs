//! Commands on a large network, and lines that nobody would type.

use std::sync::Arc;

use moonbridge_permissions::{Contexts, Node as Entry, User};
use moonbridge_proto::snapshot::{Backend, Forwarding, Revision, Snapshot};
use moonbridge_proto::v1;
use moonbridge_protocol::command::Command;
use moonbridge_protocol::name::offline_uuid;
use moonbridge_protocol::text::MAX_JSON;
use moonbridge_protocol::version::Version;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::config::Config;
use crate::permissions::Known;

fn ada() -> Player {
    Player {
        name: "Ada".into(),
        uuid: offline_uuid("Ada"),
        properties: Arc::from([]),
        address: ([127, 0, 0, 1], 1).into(),
        version: Version::newest(),
        host: "play.example.net".into(),
        port: 25565,
    }
}

/// A node with so many backends.
fn node(backends: usize) -> Node {
    let node = Node::new(Config::default(), CancellationToken::new());
    let backends = (0..backends).map(|number| {
        let name = format!("backend-{number:04}");
        let address = "127.0.0.1:1".parse().expect("an address");
        let (drained, restricted, plugin_channel_off) = (false, false, false);
        (name.clone(), Arc::new(Backend { name, address, forwarding: Forwarding::None, drained, restricted, plugin_channel_off }))
    });
    node.put_in_force(Snapshot { backends: backends.collect(), ..Snapshot::default() });
    node
}

/// Ada, who may do everything, types on backend-0001.
fn scene<T>(node: &Node, play: impl FnOnce(Scene<'_>) -> T) -> T {
    let mut permissions = Permissions::default();
    let all = Entry::new("moonbridge.command.*", true, Contexts::default(), None).expect("a node");
    let user = User { nodes: vec![all], ..User::unknown(offline_uuid("Ada")) };
    let revision = Some((&Revision { store_id: "test".into(), number: 1 }).into());
    let told = v1::UserPermissions { player_uuid: user.uuid.to_string(), revision, user: Some((&user).into()), ..Default::default() };
    Known::read(told).expect("of a player").1.put_into(permissions.slot());
    let texts = node.config.commands.languages.of(None).clone();
    play(Scene { node, permissions: &mut permissions, texts: &texts, player: &ada(), backend: Some("backend-0001"), session: "-" })
}

#[test]
fn lists_of_a_large_network_are_cut_and_counted() {
    let node = node(150);
    let Action::Say(list) = scene(&node, |mut scene| scene.run(Kind::Server, "/server")).pop().expect("a list") else { panic!("a text") };
    assert!(list.plain().ends_with("backend-0048, backend-0049 and 100 more"), "{list}");
    let json = list.to_json();
    assert!(json.len() <= MAX_JSON && json.contains("/server backend-0049") && !json.contains("/server backend-0001"), "{json}");

    let names: Vec<String> = (0..300).map(|number| format!("Player_{number:09}")).collect();
    let on = |number: u32, players| v1::BackendPlayers { backend: format!("backend-{number:04}"), players, names: names.clone() };
    let backends: Vec<_> = (0..150).map(|number| on(number, if number % 2 == 0 { 300 } else { 0 })).collect();
    let answer = v1::AskAnswer { backends, ..v1::AskAnswer::default() };
    let listing = |names| scene(&node, |scene| scene.answered(&Then::Glist { names }, &answer));
    let (short, long) = (listing(false), listing(true));
    assert_eq!((short.len(), short[0].plain().as_str(), short[1].plain().as_str()), (76, "[backend-0000] (300)", "[backend-0002] (300)"));
    assert!(long[0].plain().ends_with("Player_000000199 and 100 more"), "{}", long[0]);
    assert_eq!((long.len(), long[100].plain().as_str(), long[101].plain().as_str()), (102, " and 50 more", "Players online: 22500"));
    assert!(long.iter().all(|line| line.to_json().len() <= MAX_JSON));
}

/// What there is of players is told whole; where the player may not go, and where nobody is, less is.
#[test]
fn a_listing_has_clicks_for_where_the_player_may_go() {
    let node = node(4);
    let mut snapshot = Snapshot::clone(&node.snapshot.load_full().expect("some"));
    let closed = |backend: &Arc<Backend>, drained, restricted| Arc::new(Backend { drained, restricted, ..Backend::clone(backend) });
    for (name, drained, restricted) in [("backend-0002", false, true), ("backend-0003", true, false)] {
        let backend = snapshot.backends.get_mut(name).expect("some");
        *backend = closed(backend, drained, restricted);
    }
    node.put_in_force(snapshot);
    let on = |number: u32, names: &[&str]| v1::BackendPlayers {
        backend: format!("backend-{number:04}"),
        players: names.len() as u32,
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    let backends = vec![on(0, &[]), on(1, &["Ada"]), on(2, &["Bob", "Cy"]), on(3, &["Di"]), on(4, &["Ed"])];
    let answer = v1::AskAnswer { backends, ..v1::AskAnswer::default() };
    for names in [true, false] {
        let lines = scene(&node, |scene| scene.answered(&Then::Glist { names }, &answer));
        let clicks: Vec<String> = lines.iter().filter(|line| line.to_json().contains("/server")).map(Text::plain).collect();
        let expected: &[&str] = if names { &["[backend-0000] (0)"] } else { &[] };
        assert_eq!(clicks, expected);
        assert_eq!(lines.last().expect("a total").plain(), "Players online: 5");
        assert_eq!(lines.iter().any(|line| line.plain() == "[backend-0002] (2): Bob, Cy"), names);
    }
}

/// Whatever is typed, little comes of it, and what is asked of the network is what can be a player or a backend.
#[test]
fn any_line_comes_to_little() {
    use v1::ask::Question;
    use v1::ask_transfer::Who;
    let node = node(3);
    let mut random = fastrand::Rng::with_seed(7);
    let pieces = [
        " ",
        "  ",
        "all",
        "current",
        "backend-0001",
        "Ada",
        "--",
        "-",
        "§c",
        "&k",
        "{player}",
        "\u{0}",
        "\u{202e}",
        "😀",
        "é",
        "/",
        "\n",
        "permission",
    ];
    for _ in 0..20_000 {
        let kind = random.choice(Kind::ALL).expect("some");
        let mut line = format!("/{}", kind.name());
        for _ in 0..random.usize(..8) {
            line.push_str(random.choice(pieces).expect("some"));
        }
        if random.u8(..) == 0 {
            line.push_str(&"long".repeat(8_000));
        }
        // What is not this command any more does not come here.
        if !Command::of(&line).is_some_and(|command| command.is(kind.name())) {
            continue;
        }
        let actions = scene(&node, |mut scene| scene.run(kind, &line));
        assert!((1..=3).contains(&actions.len()), "{line:?}");
        for action in actions {
            match action {
                Action::Say(text) => assert!(text.plain().chars().count() < 400 && !text.plain().contains('§'), "{line:?}: {text}"),
                Action::Go(to) => assert!(node.snapshot.load_full().expect("some").backends.contains_key(&to), "{line:?}"),
                Action::Ask(Question::Transfer(transfer), _) => {
                    assert_eq!(transfer.to, "backend-0001", "{line:?}");
                    if let Some(Who::Player(name)) = transfer.who {
                        assert!(moonbridge_protocol::name::valid_name(&name).is_ok(), "{line:?}");
                    }
                }
                Action::Ask(Question::Find(v1::AskFind { player }) | Question::Kick(v1::AskKick { player, .. }), _) => {
                    assert!(moonbridge_protocol::name::valid_name(&player).is_ok(), "{line:?}");
                }
                Action::Ask(Question::Tell(tell), _) => {
                    let text = tell.text.and_then(|text| text.text);
                    let Some(v1::player_text::Text::Legacy(text)) = text else { panic!("{line:?}") };
                    assert!(text.chars().count() < 600, "{line:?}");
                }
                Action::Ask(..) | Action::Ping => {}
            }
        }
    }
}
