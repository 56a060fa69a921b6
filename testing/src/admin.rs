//! The admin API without the command line: for tests that ask for thousands of transfers.

use std::time::Duration;

use moonbridge_proto::v1::admin_service_client::AdminServiceClient;
use moonbridge_proto::v1::{self, CommandState};
use tonic::transport::Channel;

/// How long a transfer may take before its asker gives it up.
const PATIENCE: Duration = Duration::from_secs(60);

/// An admin of a replica that wants no token.
#[derive(Debug, Clone)]
pub struct Admin {
    client: AdminServiceClient<Channel>,
}

/// How a transfer ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Moved {
    /// Whether the player was moved.
    pub succeeded: bool,
    /// One of a bounded set of words; that of the refusal where no command was made.
    pub reason: String,
    /// For people.
    pub detail: String,
    /// What it took, phase by phase, in microseconds.
    pub phases: Vec<(String, u64)>,
}

impl Admin {
    /// Connects to a replica at this URL.
    pub async fn connect(url: &str) -> Admin {
        let endpoint = Channel::from_shared(url.to_owned()).expect("a URL").tcp_nodelay(true);
        Admin { client: AdminServiceClient::new(endpoint.connect().await.expect("a replica")) }
    }

    /// Asks for a transfer and waits for its end.
    pub async fn transfer(&mut self, player: &str, to: &str) -> Moved {
        let asked = v1::StartTransfersRequest { players: vec![player.into()], to: to.into(), ..v1::StartTransfersRequest::default() };
        let answer = self.client.start_transfers(asked).await.expect("an answer").into_inner();
        if let Some(refused) = answer.refused.into_iter().next() {
            return Moved { succeeded: false, reason: refused.reason, detail: refused.detail, phases: Vec::new() };
        }
        let ids = answer.commands.into_iter().map(|command| command.id).collect();
        let watch = self.client.watch_commands(v1::WatchCommandsRequest { ids }).await.expect("a stream").into_inner();
        let ended = tokio::time::timeout(PATIENCE, last(watch)).await;
        let command = ended.unwrap_or_else(|_| panic!("the transfer of {player} to {to} does not end"));
        let result = command.result.unwrap_or_default();
        Moved {
            succeeded: command.state == CommandState::Succeeded as i32,
            reason: result.reason,
            detail: result.detail,
            phases: result.phases.into_iter().map(|phase| (phase.phase, phase.micros)).collect(),
        }
    }
}

/// The last of a stream that ends when its one command has.
async fn last(mut stream: tonic::Streaming<v1::Command>) -> v1::Command {
    let mut command = None;
    while let Some(next) = stream.message().await.expect("a command") {
        command = Some(next);
    }
    command.expect("at least as it is")
}
