//! The calls that an admin or a plugin makes.

use std::time::{Duration, Instant, SystemTime};

use moonbridge_proto::v1::admin_service_client::AdminServiceClient;
use moonbridge_proto::v1::permission_edit::Edit;
use moonbridge_proto::v1::permission_service_client::PermissionServiceClient;
use moonbridge_proto::v1::{self, CommandState, PermissionAnswer};
use moonbridge_testing::model::client::Install;
use moonbridge_testing::model::drive::{Host, Player};
use moonbridge_testing::model::server::Setup;
use moonbridge_testing::network::Plane;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// What the issue gives a change to be in force everywhere.
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A server that is told apart by its name and entity id.
pub(crate) async fn host(name: &str, entity_id: i32) -> Host {
    Host::start(Setup { entity_id, ..Setup::vanilla(name, 0) }).await
}

/// A player that comes by this host name.
pub(crate) async fn join(node: &Plane, host: &str, name: &str) -> Player {
    Player::join(node.listen, host, Install::vanilla(name)).await
}

/// A node of a user or group, everywhere and for ever.
pub(crate) fn node(key: &str, value: bool) -> v1::PermissionNode {
    v1::PermissionNode { key: key.into(), value, ..v1::PermissionNode::default() }
}

/// The same on one backend only.
pub(crate) fn node_on(world: &str, key: &str, value: bool) -> v1::PermissionNode {
    v1::PermissionNode { contexts: vec![v1::PermissionContext { key: "world".into(), value: world.into() }], ..node(key, value) }
}

/// The same until then, in seconds since 1970.
pub(crate) fn node_until(expiry: i64, key: &str, value: bool) -> v1::PermissionNode {
    v1::PermissionNode { expiry, ..node(key, value) }
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_secs()).expect("not so far ahead")
}

/// Waits for a moment of the clock.
pub(crate) async fn clock_says(second: i64) {
    let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(second).expect("after 1970"));
    while let Ok(rest) = moment.duration_since(SystemTime::now()) {
        tokio::time::sleep(rest.max(Duration::from_millis(1))).await;
    }
}

/// Tries again until something comes of it, without a pause; says when the try began that it came of. Panics if that was too late: how long
/// the try itself takes is this machine's affair.
pub(crate) async fn within<T, F: Future<Output = Result<T, String>>>(
    limit: Duration,
    what: &str,
    mut attempt: impl FnMut() -> F,
) -> (T, Duration) {
    let (began, mut last) = (Instant::now(), String::new());
    loop {
        let tried_at = began.elapsed();
        assert!(tried_at <= limit, "{what}: not within {limit:?}: {last}");
        match attempt().await {
            Ok(done) => return (done, tried_at),
            Err(why) => last = why,
        }
    }
}

/// Whoever asks a replica that wants no token.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) permissions: PermissionServiceClient<Channel>,
    pub(crate) admin: AdminServiceClient<Channel>,
}

impl Client {
    pub(crate) async fn at(replica: &Plane) -> Client {
        let endpoint = Channel::from_shared(replica.url()).expect("a URL").tcp_nodelay(true);
        let channel = endpoint.connect().await.expect("a replica");
        Client { permissions: PermissionServiceClient::new(channel.clone()), admin: AdminServiceClient::new(channel) }
    }

    /// Makes these edits of a user, at this revision of it if one is given.
    pub(crate) async fn change_user(
        &self,
        player: &str,
        edits: Vec<Edit>,
        expected: Option<u64>,
    ) -> Result<v1::PermissionUserState, Status> {
        let edits = edits.into_iter().map(|edit| v1::PermissionEdit { edit: Some(edit) }).collect();
        let request = v1::ChangeUserRequest { player: player.into(), edits, expected_revision: expected };
        self.permissions.clone().change_user(request).await.map(tonic::Response::into_inner)
    }

    /// Sets a node of a user; returns the user's revision.
    pub(crate) async fn set(&self, player: &str, node: v1::PermissionNode) -> u64 {
        let changed = self.change_user(player, vec![set(node)], None).await;
        changed.unwrap_or_else(|status| panic!("{player}: {status:?}")).revision
    }

    /// Creates a group of these nodes.
    pub(crate) async fn group(&self, name: &str, nodes: Vec<v1::PermissionNode>) {
        self.permissions.clone().create_group(v1::CreateGroupRequest { name: name.into() }).await.expect("a new group");
        if !nodes.is_empty() {
            self.change_group(name, nodes).await;
        }
    }

    /// Sets nodes of a group.
    pub(crate) async fn change_group(&self, name: &str, nodes: Vec<v1::PermissionNode>) {
        let edits = nodes.into_iter().map(|node| v1::PermissionEdit { edit: Some(set(node)) }).collect();
        let request = v1::ChangeGroupRequest { name: name.into(), edits, expected_revision: None };
        self.permissions.clone().change_group(request).await.expect("a group");
    }

    /// What is stored of a user.
    pub(crate) async fn user(&self, player: &str) -> v1::PermissionUserState {
        let request = v1::GetUserRequest { player: player.into() };
        self.permissions.clone().get_user(request).await.unwrap_or_else(|status| panic!("{player}: {status:?}")).into_inner()
    }

    /// What the control plane answers, in the player's contexts.
    pub(crate) async fn check(&self, player: &str, permissions: &[&str]) -> v1::CheckResponse {
        let permissions = permissions.iter().map(|permission| (*permission).to_owned()).collect();
        let request = v1::CheckRequest { player: player.into(), permissions, ..v1::CheckRequest::default() };
        self.permissions.clone().check(request).await.unwrap_or_else(|status| panic!("{player}: {status:?}")).into_inner()
    }

    /// What the player's session answers, on its node; and in which contexts.
    pub(crate) async fn live(&self, player: &str, permission: &str) -> (PermissionAnswer, String) {
        let request = v1::CheckSessionRequest { player: player.into(), permission: permission.into() };
        let answered = self.permissions.clone().check_session(request).await.unwrap_or_else(|status| panic!("{player}: {status:?}"));
        let command = answered.into_inner();
        assert_eq!(command.state(), CommandState::Succeeded, "{command:?}");
        let result = command.result.expect("it has ended");
        (result.answer(), result.detail)
    }

    /// Waits until the player's session answers so; says how long that took.
    pub(crate) async fn live_within(&self, limit: Duration, player: &str, permission: &str, wanted: PermissionAnswer) -> Duration {
        let what = format!("{permission} of {player} is {wanted:?}");
        let asked = within(limit, &what, || async {
            let (answer, contexts) = self.live(player, permission).await;
            if answer == wanted { Ok(()) } else { Err(format!("{answer:?} in {contexts}")) }
        });
        asked.await.1
    }

    /// Asks to be moved, as the player; waits for the outcome.
    pub(crate) async fn go(&self, player: &str, to: &str) -> v1::CommandResult {
        self.transfer(player, to, true).await
    }

    /// Moves a player, as an admin.
    pub(crate) async fn moves(&self, player: &str, to: &str) {
        let moved = self.transfer(player, to, false).await;
        assert_eq!(moved.reason, "ok", "{moved:?}");
    }

    async fn transfer(&self, player: &str, to: &str, as_player: bool) -> v1::CommandResult {
        let ids = self.start(player, to, as_player).await;
        let mut watch = self.admin.clone().watch_commands(v1::WatchCommandsRequest { ids }).await.expect("a stream").into_inner();
        let mut last = None;
        while let Some(command) = watch.message().await.expect("a command") {
            last = Some(command);
        }
        last.and_then(|command| command.result).expect("it has ended")
    }

    /// Begins a transfer; the ids of its commands.
    pub(crate) async fn start(&self, player: &str, to: &str, as_player: bool) -> Vec<String> {
        let request =
            v1::StartTransfersRequest { players: vec![player.into()], to: to.into(), as_player, ..v1::StartTransfersRequest::default() };
        let answer = self.admin.clone().start_transfers(request).await.expect("an answer").into_inner();
        assert_eq!(answer.refused, [], "{player} to {to}");
        answer.commands.into_iter().map(|command| command.id).collect()
    }

    /// Everything, as of one revision.
    pub(crate) async fn export(&self) -> Vec<v1::permission_record::Record> {
        let mut stream = self.permissions.clone().export(v1::ExportRequest {}).await.expect("an export").into_inner();
        let mut records = Vec::new();
        while let Some(record) = stream.message().await.expect("the whole export") {
            records.push(record.record.expect("a record"));
        }
        records
    }
}

/// The edit that sets a node.
pub(crate) fn set(node: v1::PermissionNode) -> Edit {
    Edit::Set(v1::SetNode { node: Some(node), temporary: 0 })
}

/// The edit that takes a node away, wherever it holds.
pub(crate) fn unset(key: &str) -> Edit {
    Edit::Unset(v1::UnsetNode { key: key.into(), ..v1::UnsetNode::default() })
}

/// Panics unless a call was refused as this.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(answer: Result<T, Status>, code: Code) -> Status {
    let status = answer.expect_err("refused");
    assert_eq!(status.code(), code, "{status:?}");
    status
}
