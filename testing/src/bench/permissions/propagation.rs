//! How soon a change is in force for the players that it concerns: two replicas on an etcd, a node on each, players on both.
//!
//! What is seen is what a session itself answers (`CheckSession`), asked at the replica of its node, again and again, from the moment
//! the change was acknowledged. A time is from the sending of the change to the receipt of the first answer that has it: the change's
//! own write and a whole question and answer are in it, so it is never too short.

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use moonbridge_proto::v1::admin_service_client::AdminServiceClient;
use moonbridge_proto::v1::permission_edit::Edit;
use moonbridge_proto::v1::permission_service_client::PermissionServiceClient;
use moonbridge_proto::v1::{self, CommandState, PermissionAnswer};
use tonic::transport::Channel;

use super::Row;
use super::crowd::{self, Task};
use crate::collector::Collector;
use crate::etcd::Etcd;
use crate::network::Plane;

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Players, half of them on each node.
    pub sessions: usize,
    /// Changes of single users, in turn at either replica.
    pub user_changes: usize,
    /// Changes of a group that a quarter of the players inherits.
    pub group_changes: usize,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Propagated {
    /// The times.
    pub rows: Vec<Row>,
    /// Players that inherit the group.
    pub inheriting: usize,
    /// What the nodes worked out anew, a change of the group; all players were asked after each.
    pub resolved: Vec<f64>,
}

/// A change that is not in force by then never will be.
const GIVEN_UP: Duration = Duration::from_secs(30);
/// Sessions asked at a time.
const AT_ONCE: usize = 16;
const GROUP: &str = "measured";
const OF_USER: &str = "bench.of.user";
const OF_GROUP: &str = "bench.of.group";

/// Measures both kinds of changes.
///
/// # Errors
/// If any of it fails, or a change is not in force after 30 s.
pub async fn measure(load: Load) -> anyhow::Result<Propagated> {
    let stage = Stage::start(load.sessions).await?;
    let mut rows = stage.change_users(load.user_changes).await?;
    let (of_group, resolved) = stage.change_group(load.group_changes).await?;
    rows.extend(of_group);
    Ok(Propagated { rows, inheriting: stage.inheriting().count(), resolved })
}

struct Stage {
    /// A side is a replica and its node.
    sides: [Side; 2],
    players: Vec<Player>,
    _backend: Task,
    _crowd: Vec<Task>,
    _etcd: Etcd,
}

struct Side {
    permissions: PermissionServiceClient<Channel>,
    admin: AdminServiceClient<Channel>,
    collector: Collector,
    node: Plane,
    _replica: Plane,
}

#[derive(Clone)]
struct Player {
    name: String,
    side: usize,
    inherits: bool,
}

impl Stage {
    async fn start(sessions: usize) -> anyhow::Result<Stage> {
        let etcd = Etcd::start().await?;
        let config = format!("[store.etcd]\nendpoints = [\"{}\"]\nprefix = \"/bench/\"\n", etcd.url());
        let (backend, address) = crowd::backend().await?;
        let first = Plane::replica("a", &config).await;
        configure(&first, address).await?;
        let sides = [Side::start(first).await?, Side::start(Plane::replica("b", &config).await).await?];
        let player = |index: usize| Player { name: format!("bench_{index}"), side: index % 2, inherits: index % 8 < 2 };
        let players: Vec<_> = (0..sessions).map(player).collect();
        let mut crowd = Vec::new();
        for (index, side) in sides.iter().enumerate() {
            let names: Vec<_> = players.iter().filter(|player| player.side == index).map(|player| player.name.clone()).collect();
            side.in_force().await?;
            crowd.extend(crowd::join(side.node.listen, &names).await?);
        }
        let stage = Stage { sides, players, _backend: backend, _crowd: crowd, _etcd: etcd };
        stage.prepare().await?;
        Ok(stage)
    }

    /// Everybody has something of its own, so that no two share what was worked out; some inherit the group.
    async fn prepare(&self) -> anyhow::Result<()> {
        let side = &self.sides[0];
        side.permissions.clone().create_group(v1::CreateGroupRequest { name: GROUP.into() }).await?;
        futures::stream::iter(&self.players)
            .map(|player| async move {
                self.known(player).await?;
                let mut nodes = vec![node(&format!("own.{}", player.name), true), node(OF_USER, false)];
                nodes.extend(player.inherits.then(|| node(&format!("group.{GROUP}"), true)));
                self.sides[player.side].change_user(player, nodes).await?;
                self.until(player, OF_USER, PermissionAnswer::False).await.map(drop)
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<_>>()
            .await?;
        Ok(())
    }

    /// Waits until the replica that is asked about a player knows it.
    async fn known(&self, player: &Player) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            let request = v1::ListPlayersRequest { player: player.name.clone(), ..v1::ListPlayersRequest::default() };
            if !self.sides[player.side].admin.clone().list_players(request).await?.into_inner().players.is_empty() {
                return Ok(());
            }
            ensure!(began.elapsed() < GIVEN_UP, "{} is not online", player.name);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn change_users(&self, changes: usize) -> anyhow::Result<Vec<Row>> {
        let mut rows = [
            "a user's change, acknowledged",
            "in force, at the same replica",
            "in force, at the other replica",
            "a question and its answer",
        ]
        .map(|what| Row { what, micros: Vec::new() });
        for index in 0..changes {
            let player = &self.players[index % self.players.len()];
            // In turn at either replica, for players of both.
            let at = index / 2 % 2;
            let value = (index / self.players.len()).is_multiple_of(2);
            let began = Instant::now();
            self.sides[at].change_user(player, vec![node(OF_USER, value)]).await?;
            rows[0].micros.push(micros(began));
            let asked = self.until(player, OF_USER, answer(value)).await?;
            rows[if at == player.side { 1 } else { 2 }].micros.push(micros(began));
            rows[3].micros.extend(asked);
        }
        Ok(rows.into())
    }

    async fn change_group(&self, changes: usize) -> anyhow::Result<(Vec<Row>, Vec<f64>)> {
        let mut rows = ["a group's change, acknowledged", "in force, for the first asked of a node", "in force, for every player"]
            .map(|what| Row { what, micros: Vec::new() });
        let mut resolved = Vec::new();
        self.ask_all(PermissionAnswer::Undefined).await?;
        for index in 0..changes {
            let value = index % 2 == 0;
            let before = self.resolved().await;
            let began = Instant::now();
            self.sides[index / 2 % 2].change_group(value).await?;
            rows[0].micros.push(micros(began));
            let firsts = (0..2).filter_map(|side| self.inheriting().find(|player| player.side == side));
            let firsts = futures::future::try_join_all(firsts.map(|player| async move {
                self.until(player, OF_GROUP, answer(value)).await?;
                anyhow::Ok(micros(began))
            }));
            rows[1].micros.extend(firsts.await?);
            // The others one after the other: what is seen of the last is as late as the asking of all before it.
            let all = futures::stream::iter(self.inheriting()).map(|player| async move {
                self.until(player, OF_GROUP, answer(value)).await?;
                anyhow::Ok(micros(began))
            });
            rows[2].micros.extend(all.buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await?);
            self.ask_all(answer(value)).await?;
            resolved.push(self.resolved().await - before);
        }
        Ok((rows.into(), resolved))
    }

    fn inheriting(&self) -> impl Iterator<Item = &Player> {
        self.players.iter().filter(|player| player.inherits)
    }

    /// Asks every session once; those that inherit the group have to answer so.
    async fn ask_all(&self, wanted: PermissionAnswer) -> anyhow::Result<()> {
        let asking = futures::stream::iter(&self.players).map(|player| async move {
            let answer = self.ask(player, OF_GROUP).await?;
            let wanted = if player.inherits { wanted } else { PermissionAnswer::Undefined };
            ensure!(answer == wanted, "{} answers {answer:?} where {wanted:?} is in force", player.name);
            Ok(())
        });
        asking.buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await.map(drop)
    }

    /// Asks a session until it answers so; how long each question took, in microseconds.
    async fn until(&self, player: &Player, permission: &str, wanted: PermissionAnswer) -> anyhow::Result<Vec<u64>> {
        let (began, mut asked) = (Instant::now(), Vec::new());
        loop {
            let question = Instant::now();
            let answer = self.ask(player, permission).await?;
            asked.push(micros(question));
            if answer == wanted {
                return Ok(asked);
            }
            ensure!(began.elapsed() < GIVEN_UP, "{permission} of {} is still {answer:?}", player.name);
        }
    }

    async fn ask(&self, player: &Player, permission: &str) -> anyhow::Result<PermissionAnswer> {
        let request = v1::CheckSessionRequest { player: player.name.clone(), permission: permission.into() };
        let command = self.sides[player.side].permissions.clone().check_session(request).await?.into_inner();
        ensure!(command.state() == CommandState::Succeeded, "{command:?}");
        Ok(command.result.context("it has ended")?.answer())
    }

    /// How often the nodes have worked out what a player has, up to now.
    async fn resolved(&self) -> f64 {
        let now = SystemTime::now();
        let mut sum = 0.0;
        for side in &self.sides {
            sum += side.collector.point("moonbridge.permissions.resolved", |point| point.at > now).await.value;
        }
        sum
    }
}

impl Side {
    async fn start(replica: Plane) -> anyhow::Result<Side> {
        let collector = Collector::start().await;
        let endpoint = collector.endpoint();
        let environment = [("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", endpoint.as_str()), ("OTEL_METRIC_EXPORT_INTERVAL", "200")];
        let node = Plane::start("dataplane", "node", &format!("control = [\"{}\"]\n", replica.url()), &environment).await;
        let channel = Channel::from_shared(replica.url())?.tcp_nodelay(true).connect().await?;
        let (permissions, admin) = (PermissionServiceClient::new(channel.clone()), AdminServiceClient::new(channel));
        Ok(Side { permissions, admin, collector, node, _replica: replica })
    }

    /// Waits until the node lets players in.
    async fn in_force(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        while let Err(error) = crowd::join(self.node.listen, &["bench_start".to_owned()]).await {
            ensure!(began.elapsed() < GIVEN_UP, "nobody can log in: {error:#}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    async fn change_user(&self, player: &Player, nodes: Vec<v1::PermissionNode>) -> anyhow::Result<()> {
        let edits = nodes.into_iter().map(set).collect();
        let request = v1::ChangeUserRequest { player: player.name.clone(), edits, expected_revision: None };
        self.permissions.clone().change_user(request).await?;
        Ok(())
    }

    async fn change_group(&self, value: bool) -> anyhow::Result<()> {
        let request = v1::ChangeGroupRequest { name: GROUP.into(), edits: vec![set(node(OF_GROUP, value))], expected_revision: None };
        self.permissions.clone().change_group(request).await?;
        Ok(())
    }
}

async fn configure(replica: &Plane, backend: SocketAddr) -> anyhow::Result<()> {
    let mut admin = AdminServiceClient::connect(replica.url()).await?;
    let backend = v1::Backend { name: "lobby".into(), address: backend.to_string(), ..v1::Backend::default() };
    admin.set_backend(v1::SetBackendRequest { backend: Some(backend), keep_drained: false }).await?;
    let route = v1::Route { host: "*".into(), backends: vec!["lobby".into()], on_kick: v1::OnKick::Disconnect.into() };
    admin.set_route(v1::SetRouteRequest { route: Some(route) }).await?;
    Ok(())
}

fn node(key: &str, value: bool) -> v1::PermissionNode {
    v1::PermissionNode { key: key.into(), value, ..v1::PermissionNode::default() }
}

fn set(node: v1::PermissionNode) -> v1::PermissionEdit {
    v1::PermissionEdit { edit: Some(Edit::Set(v1::SetNode { node: Some(node), temporary: 0 })) }
}

fn answer(value: bool) -> PermissionAnswer {
    if value { PermissionAnswer::True } else { PermissionAnswer::False }
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}
