//! `moonbridge probe`: logs in as a scripted 1.7.10 player, to see a network as its players do.

mod player;
mod report;

use std::io;
use std::time::Duration;

use moonbridge_protocol::version::Version;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::args::{HostPort, ProbeArgs};
use crate::failure::{Failure, Outcome};
use player::Player;
use report::{Event, Report};

/// A 1.7.10 client gives up after 20 s: on a login as on a connection that has fallen silent.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a probe; `Ok` only if the player got into the world and stayed for the whole hold.
pub(crate) async fn run(args: ProbeArgs) -> Outcome {
    let version = Version::of(args.protocol).ok_or_else(|| Failure::usage(format!("protocol {} is not supported", args.protocol)))?;
    let name = match args.name {
        Some(name) => name,
        None => random_name()?,
    };
    let mut report = Report::new(args.output);
    let deadline = Instant::now() + PATIENCE;
    let stream = match connect(&args.server, deadline).await {
        Ok(stream) => stream,
        Err(error) => {
            report.event(Event::failed("unreachable", "reason", &error.to_string()))?;
            return Err(Failure::failed(format!("cannot connect to {}: {error}", args.server)));
        }
    };
    let address = stream.peer_addr().map_or_else(|_| args.server.to_string(), |address| address.to_string());
    report.event(Event::new("tcp", format!("connected to {address}")).with("address", address))?;
    let host = args.virtual_host.unwrap_or_else(|| args.server.host.clone());
    Player::new(stream, version, name, report).run(&host, args.server.port, deadline, args.hold).await
}

/// Connects to the first address that takes the connection before the deadline.
pub(crate) async fn connect(server: &HostPort, deadline: Instant) -> io::Result<TcpStream> {
    let connect = TcpStream::connect((server.host.as_str(), server.port));
    timeout_at(deadline, connect).await.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")))
}

fn random_name() -> Outcome<String> {
    let random = getrandom::u32().map_err(|error| Failure::failed(format!("no random numbers: {error}; give --name")))?;
    Ok(format!("probe_{:04}", random % 10_000))
}
