//! `moonbridge status`: a server's entry in the server list, and the latency.

use std::io;
use std::time::Duration;

use moonbridge_protocol::frame::MAX_FRAME;
use moonbridge_protocol::handshake::{self, Handshake, Next};
use moonbridge_protocol::status::{self, Answer};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::args::StatusArgs;
use crate::failure::{Failure, Outcome};
use crate::framed::{Framed, OwnedFrame};
use crate::output::Listing;

/// For the whole exchange.
const PATIENCE: Duration = Duration::from_secs(10);

const COLUMNS: &[&str] = &["server", "version", "protocol", "online", "max", "sample", "description", "favicon", "latency_ms"];

/// Asks, pings, and prints.
pub(crate) async fn run(args: StatusArgs) -> Outcome {
    let deadline = Instant::now() + PATIENCE;
    let asked = timeout_at(deadline, ask(&args, deadline)).await;
    let (answer, latency) = match asked {
        Ok(Ok(asked)) => asked,
        Ok(Err(error)) => return Err(Failure::failed(format!("no status from {}: {error}", args.server))),
        Err(_) => return Err(Failure::failed(format!("no status from {} in {} s", args.server, PATIENCE.as_secs()))),
    };
    let favicon = answer.favicon.map(|png| format!("PNG, {} bytes", png.len()));
    let mut thing = Listing::new(COLUMNS);
    thing.push([
        json!(args.server.to_string()),
        json!(answer.version_name),
        json!(answer.protocol),
        json!(answer.online),
        json!(answer.max),
        json!(answer.sample),
        json!(answer.description.plain()),
        json!(favicon),
        json!(latency.map(|latency| latency.as_micros() as f64 / 1_000.0)),
    ]);
    thing.print_one(args.output)
}

/// The answer, and the latency if the server answers pings.
async fn ask(args: &StatusArgs, deadline: Instant) -> io::Result<(Answer, Option<Duration>)> {
    let stream = crate::probe::connect(&args.server, deadline).await?;
    let mut framed = Framed::new(stream);
    let mut out = Vec::new();
    let (host, port) = (args.server.host.as_str(), args.server.port);
    handshake::put(&mut out, &Handshake { protocol: args.protocol, host, port, next: Next::Status });
    status::put_request(&mut out);
    framed.send(&out).await?;
    let answer = status::read_response(&next(&mut framed).await?.payload).map_err(invalid)?;
    // The number is ours to choose; a server sends it back.
    let number = 0x6d6f_6f6e;
    let mut out = Vec::new();
    status::put_ping(&mut out, number);
    let asked = Instant::now();
    let pong = async {
        framed.send(&out).await?;
        next(&mut framed).await
    };
    let latency = match pong.await {
        Ok(frame) if status::read_ping(&frame.payload) == Ok(number) => Some(asked.elapsed()),
        // Some servers answer no pings, which is no reason to withhold the rest.
        _ => None,
    };
    Ok((answer, latency))
}

async fn next(framed: &mut Framed) -> io::Result<OwnedFrame> {
    framed.next(MAX_FRAME).await?.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection without an answer"))
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
