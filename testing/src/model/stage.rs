//! A node between [`Player`]s and [`Host`]s, and a replica that orders it about.

use std::net::SocketAddr;

use tempfile::TempDir;

use super::client::Install;
use super::drive::{Host, Pace, Player};
use crate::admin::{Admin, Moved};
use crate::network::{Cli, Plane, folder};

/// The name in the handshakes of players.
pub const DOMAIN: &str = "play.example.net";

/// A network of one replica and one node, each a process.
pub struct Stage {
    /// The replica.
    pub replica: Plane,
    /// The node.
    pub node: Plane,
    admin: Admin,
    _data: TempDir,
}

impl Stage {
    /// Starts it with these servers; players come to the first, and fall back to the others in turn. `config` is the node's, beside what makes
    /// it find the replica.
    pub async fn start(hosts: &[&Host], config: &str) -> Stage {
        let data = folder();
        let store = data.path().join("store");
        let replica = Plane::replica("replica", &format!("[store.embedded]\ndata_dir = {store:?}\n")).await;
        let cli = replica.cli();
        for host in hosts {
            cli.ok(&["backend", "set", &host.setup().name, "--address", &host.address.to_string()]).await;
        }
        let names: Vec<_> = hosts.iter().map(|host| host.setup().name.clone()).collect();
        cli.ok(&["route", "set", "*", "--backends", &names.join(",")]).await;
        let node = Plane::node("node", &format!("control = [{:?}]\nworkers = 2\n{config}", replica.url())).await;
        let admin = Admin::connect(&replica.url()).await;
        Stage { replica, node, admin, _data: data }
    }

    /// Where players connect.
    pub fn listen(&self) -> SocketAddr {
        self.node.listen
    }

    /// The admin's verbs.
    pub fn cli(&self) -> Cli {
        self.replica.cli()
    }

    /// The admin's calls, for a task of its own.
    pub fn admin(&self) -> Admin {
        self.admin.clone()
    }

    /// A player who sees the world of `host`, and whom the replica knows.
    pub async fn join(&self, install: Install, host: &Host) -> Player {
        let name = install.name.clone();
        let player = Player::join_at(Pace::AtOnce, self.listen(), DOMAIN, install).await;
        player.is_on(&host.setup()).await;
        self.known(&name).await;
        player
    }

    /// Waits until the replica knows this player.
    pub async fn known(&self, name: &str) {
        self.cli().until(&["player", "list"], |rows| rows.iter().any(|row| row["name"] == name)).await;
    }

    /// Asks for a transfer and waits for its end.
    pub async fn transfer(&self, player: &Player, to: &Host) -> Moved {
        let name = player.with(|model| model.install().name.clone());
        self.admin.clone().transfer(&name, &to.setup().name).await
    }

    /// Moves a player, who then sees nothing but the new world, and can talk both ways.
    pub async fn moves(&self, player: &Player, to: &Host) {
        let moved = self.transfer(player, to).await;
        assert!(moved.succeeded, "{moved:?}\n{}{}{}", player.log(), to.log(), self.node.process.log());
        self.plays(player, to, &format!("on {}", to.setup().name)).await;
    }

    /// Does not move a player for this reason; the player stays on `on` and plays. Says how the transfer ended.
    pub async fn refuses(&self, player: &Player, to: &Host, reason: &str, on: &Host) -> Moved {
        let joins = player.with(|model| model.joins());
        let moved = self.transfer(player, to).await;
        assert!(!moved.succeeded && moved.reason == reason, "{moved:?} is not {reason:?}\n{}{}", player.log(), to.log());
        self.plays(player, on, &format!("not on {}: {reason}", to.setup().name)).await;
        assert_eq!(player.with(|model| model.joins()), joins, "the player's world was switched\n{}", player.log());
        moved
    }

    /// The player sees this server's world and nothing else's, and talks with it, both ways.
    pub async fn plays(&self, player: &Player, on: &Host, line: &str) {
        player.is_on(&on.setup()).await;
        // A line that nobody has said before.
        let line = format!("{line} {}", player.with(|model| model.events().len()));
        let line = &line[..line.len().min(100)];
        player.say(line);
        on.chat(line).await;
        on.say(line);
        let heard = super::client::Event::Chat(line.to_owned());
        player.until("its line", |model| model.events().contains(&heard).then_some(())).await;
        player.assert_well();
        on.assert_well();
    }
}
