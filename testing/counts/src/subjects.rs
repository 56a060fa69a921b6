//! What is counted.

mod cipher;
mod permissions;
mod relay;
mod route;
mod session;
mod walk;

use moonbridge_dataplane::measure::{Past, Session};
use moonbridge_permissions::Answer;
use moonbridge_proto::routing::MatchedBy;

use self::session::{Kind, Part};

/// Something that is counted.
pub(crate) struct Subject {
    /// What it is called.
    pub(crate) name: &'static str,
    /// What the figure is of.
    pub(crate) unit: &'static str,
    /// Does it, what is to be counted under [`crate::callgrind::counted_by_callgrind`]; gives how many units that was.
    pub(crate) run: fn() -> anyhow::Result<u64>,
}

const fn subject(name: &'static str, unit: &'static str, run: fn() -> anyhow::Result<u64>) -> Subject {
    Subject { name, unit, run }
}

/// All of it.
#[rustfmt::skip]
pub(crate) const SUBJECTS: &[Subject] = &[
    subject("session: w1", ECHO, || session::echo(Part::Session, Kind::Initial, 1, 1024)),
    subject("session: burst32", ECHO, || session::echo(Part::Session, Kind::Initial, 32, 32)),
    subject("session: burst32, keep-alives", ECHO, || session::echo(Part::Session, Kind::KeptAlive, 32, 32)),
    subject("session: burst32, moved", ECHO, || session::echo(Part::Session, Kind::Moved, 32, 32)),
    subject("session: burst32, plain", ECHO, || session::echo(Part::Session, Kind::Plain, 32, 32)),
    subject("worker: w1", ECHO, || session::echo(Part::Worker, Kind::Initial, 1, 1024)),
    subject("worker: burst32", ECHO, || session::echo(Part::Worker, Kind::Initial, 32, 32)),

    subject("relay: vanilla", FRAME, || relay::ticks(Session::new(Past::Vanilla))),
    subject("relay: vanilla, keep-alives", FRAME, || relay::ticks_with_keep_alives(Session::new(Past::Vanilla))),
    subject("relay: vanilla, moved", FRAME, || relay::ticks(Session::new(Past::VanillaMoved))),
    subject("relay: vanilla, plain", FRAME, || relay::ticks(Session::without_commands(Past::Vanilla))),
    subject("relay: forge", FRAME, || relay::ticks(Session::new(Past::Forge))),
    subject("relay: forge, moved", FRAME, || relay::ticks(Session::new(Past::ForgeMoved))),
    subject("relay: forge, moved, plain", FRAME, || relay::ticks(Session::without_commands(Past::ForgeMoved))),

    subject("walk: 33 bytes", FRAME, || walk::frames(0x50, 32)),
    subject("walk: 1 KiB", FRAME, || walk::frames(0x50, 1024)),
    subject("walk: watched", FRAME, || walk::frames(0x00, 32)),

    subject("route: exact", "decision", || route::decide("server42.example.net:25565", MatchedBy::Exact)),
    subject("route: suffix", "decision", || route::decide("eu.server7.region7.example.net", MatchedBy::Suffix)),
    subject("route: any", "decision", || route::decide("play.example.org", MatchedBy::Any)),

    subject("cipher: encrypt 33 bytes", BYTE, || cipher::encrypt(33)),
    subject("cipher: encrypt 1500 bytes", BYTE, || cipher::encrypt(1500)),
    subject("cipher: encrypt 16 streams", BYTE, || cipher::encrypt_many(16, 1500)),
    subject("cipher: decrypt 33 bytes", BYTE, || cipher::decrypt(33)),
    subject("cipher: decrypt 1500 bytes", BYTE, || cipher::decrypt(1500)),

    subject("permission: exact", CHECK, || permissions::check(200, permissions::exact, Answer::True)),
    subject("permission: exact in many", CHECK, || permissions::check(2000, permissions::exact, Answer::True)),
    subject("permission: wildcard", CHECK, || permissions::check(200, permissions::by_wildcard, Answer::True)),
    subject("permission: undefined", CHECK, || permissions::check(200, permissions::undefined, Answer::Undefined)),
    subject("permission: resolve", "user with 1,000 nodes", permissions::resolving),
];

/// A frame that goes through the session and comes back through it.
const ECHO: &str = "frame and its echo";
const FRAME: &str = "frame";
const BYTE: &str = "byte";
const CHECK: &str = "check";
