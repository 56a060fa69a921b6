//! Two backends, two nodes and two replicas, and players that come to either.

use std::net::SocketAddr;

use moonbridge_testing::network::{Net, Nodes, Plane};
use moonbridge_testing::peer::{Backend, Kind, Player, Seen, Served};
use moonbridge_testing::process::SOON;
use serde_json::{Value, json};

/// Everybody may use every command.
pub(crate) const EVERYTHING: &str = "moonbridge.command.*";

/// The network, with its backends `lobby` and `arena`.
pub(crate) struct Stage {
    pub(crate) net: Net,
    pub(crate) lobby: Backend,
    pub(crate) arena: Backend,
    pub(crate) arena_port: u16,
}

impl Stage {
    /// Players come to the lobby, or by the host of the arena to the arena; each may use what is for everybody.
    pub(crate) async fn start() -> Stage {
        Stage::start_with("", json!({})).await
    }

    /// The same, and everybody may use all commands.
    pub(crate) async fn permitted() -> Stage {
        let stage = Stage::start().await;
        stage.permit_all().await;
        stage
    }

    /// The same with something more in the nodes' configuration, and of the lobby's options.
    pub(crate) async fn start_with(config: &str, mut options: Value) -> Stage {
        options["dimension"] = json!(0);
        let (lobby, lobby_port) = Backend::serve(Kind::Npm, "lobby", options).await;
        let (arena, arena_port) = Backend::serve(Kind::Npm, "arena", json!({ "dimension": -1, "entityId": 1000 })).await;
        let backends = [("lobby", loopback(lobby_port)), ("arena", loopback(arena_port))];
        let net = Net::start_with(&backends, Nodes { config, ..Nodes::default() }).await;
        net.a.cli().ok(&["route", "set", &host("arena"), "--backends", "arena,lobby"]).await;
        net.in_force().await;
        Stage { net, lobby, arena, arena_port }
    }

    pub(crate) async fn permit_all(&self) {
        self.net.b.cli().ok(&["permission", "group", "set", "default", EVERYTHING]).await;
        self.net.in_force().await;
    }

    /// Alice on the first node, on the lobby; Bob on the second node, on the arena. Both replicas know of both.
    pub(crate) async fn alice_and_bob(&mut self) -> (Player, Player) {
        let alice = self.alice().await;
        let mut bob = Player::join(Kind::Npm, self.net.second.listen.port(), "Bob", json!({ "virtualHost": host("arena") }));
        assert_eq!(bob.in_world().await, -1);
        self.arena.joined("Bob").await;
        self.net.known(&["Alice", "Bob"]).await;
        (alice, bob)
    }

    /// Alice, on the first node and on the lobby, known to both replicas.
    pub(crate) async fn alice(&mut self) -> Player {
        let mut alice = join(&self.net.first, "Alice").await;
        assert_eq!(alice.in_world().await, 0);
        self.lobby.joined("Alice").await;
        self.net.known(&["Alice"]).await;
        alice
    }

    /// Waits until both replicas have this player on this backend.
    pub(crate) async fn is_on(&self, player: &str, backend: &str) {
        for replica in [&self.net.a, &self.net.b] {
            let there = |rows: &[Value]| rows.iter().any(|row| row["name"] == player && row["backend"] == backend);
            replica.cli().until(&["player", "list"], there).await;
        }
    }

    /// By the command, at a replica: the permission is set, and at the player's session.
    pub(crate) async fn grant(&self, replica: &Plane, player: &str, permission: &str, value: &str) {
        replica.cli().ok(&["permission", "user", player, "set", permission, value]).await;
        self.holds(player, permission, value).await;
    }

    /// Waits until the player's session gives this answer, as the command shows it.
    pub(crate) async fn holds(&self, player: &str, permission: &str, answer: &str) {
        let asked = tokio::time::timeout(SOON, async {
            let cli = self.net.a.cli();
            while cli.run(&["permission", "check", player, permission, "--live", "-o", "json"]).await.json()["answer"] != answer {}
        });
        asked.await.unwrap_or_else(|_| panic!("{permission} of {player} does not come to be {answer}"));
    }

    /// Panics if a peer met something that a real one would have thrown at.
    #[track_caller]
    pub(crate) fn assert_well(&self, players: &[&Player]) {
        for player in players {
            player.assert_well();
        }
        for backend in [&self.lobby, &self.arena] {
            let errors: Vec<_> = backend.all().into_iter().filter(|served| matches!(served, Served::Error { .. })).collect();
            assert!(errors.is_empty(), "{errors:?}\n{}", backend.log());
        }
    }
}

/// A player who comes to the lobby.
pub(crate) async fn join(node: &Plane, name: &str) -> Player {
    Player::join(Kind::Npm, node.listen.port(), name, json!({ "virtualHost": host("lobby") }))
}

/// The name in the handshakes of players who want to come to a backend.
pub(crate) fn host(backend: &str) -> String {
    format!("{backend}.example.net")
}

pub(crate) fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Types a line, and waits for each of these in turn.
pub(crate) async fn says(player: &mut Player, line: &str, answers: &[&str]) {
    player.say(line).await;
    for answer in answers {
        player.chat(answer).await;
    }
}

/// Waits for Join Game and Respawn into another world: this dimension.
pub(crate) async fn goes_to(player: &mut Player, backend: &mut Backend, name: &str, dimension: i32) {
    backend.joined(name).await;
    let wanted = |seen: &Seen| match seen {
        Seen::Respawn { dimension: seen } => (*seen == dimension).then_some(()),
        _ => None,
    };
    player.expect(&format!("dimension {dimension}"), wanted).await;
}

/// The lines that this player has heard so far.
pub(crate) fn heard(player: &Player) -> Vec<String> {
    player.all().into_iter().filter_map(|seen| if let Seen::Chat { text, .. } = seen { Some(text) } else { None }).collect()
}

/// The lines with a slash that have come to a backend.
pub(crate) fn commands(backend: &Backend) -> Vec<String> {
    let command = |served| match served {
        Served::Chat { text, .. } if text.starts_with('/') => Some(text),
        _ => None,
    };
    backend.all().into_iter().filter_map(command).collect()
}

/// A plugin on this backend sends over this player's connection what a `DataOutputStream` makes of these calls.
pub(crate) async fn plugin_calls(backend: &mut Backend, player: &str, calls: Value) {
    backend.command("bungee_cord", json!({ "player": player, "calls": calls })).await;
}

/// The same of a message that is texts only.
pub(crate) async fn plugin_says(backend: &mut Backend, player: &str, texts: &[&str]) {
    plugin_calls(backend, player, texts.iter().map(|text| json!(["UTF", text])).collect()).await;
}

/// Waits for the next message that a plugin reads over this player's connection.
pub(crate) async fn plugin_reads(backend: &mut Backend, player: &str) -> Value {
    let message = |served: &Served| match served {
        Served::BungeeCord { name, values, .. } if name == player => Some(Value::from(values.clone())),
        _ => None,
    };
    backend.expect(&format!("a message over {player}'s connection"), message).await
}

/// Asks, and waits for what is answered: it has to be the next message.
#[track_caller]
pub(crate) fn plugin_asks<'a>(
    backend: &'a mut Backend,
    player: &'a str,
    texts: &'a [&str],
    answer: Value,
) -> impl Future<Output = ()> + 'a {
    let asked_at = std::panic::Location::caller();
    async move {
        plugin_says(backend, player, texts).await;
        assert_eq!(plugin_reads(backend, player).await, answer, "{texts:?} at {asked_at}");
    }
}

/// How many messages plugins have read on a backend, but for answers about where they are themselves.
pub(crate) fn messages(backend: &Backend) -> Vec<Value> {
    let message = |served| match served {
        Served::BungeeCord { values, .. } if values[0] != "GetServer" => Some(Value::from(values)),
        _ => None,
    };
    backend.all().into_iter().filter_map(message).collect()
}
