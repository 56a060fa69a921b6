//! The players: the tests' own client model, thousands of them.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use futures::future::try_join_all;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use moonbridge_protocol::frame;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Kind;
use super::backend::pack;
use crate::bench::frames;
use crate::model::client::{Install, Model};
use crate::session_server::SessionServer;
use crate::wire::{self, Wire, online};

/// Logins under way at a time.
const AT_ONCE: usize = 32;

/// An echo that has not come by then never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is echoed.
const ECHO: [u8; 1024] = [0x5a; 1024];

/// Players who have come and stay.
pub(super) struct Crowd {
    address: SocketAddr,
    kind: Kind,
    server: Option<SessionServer>,
    /// Names are not used twice.
    next: usize,
    players: JoinSet<()>,
    shared: Rc<Shared>,
    /// Moves when each player is to say something.
    say: watch::Sender<()>,
}

#[derive(Default)]
struct Shared {
    echoed: Cell<usize>,
    moved: Notify,
    /// Why the first that lost its session did.
    failed: RefCell<Option<anyhow::Error>>,
}

impl Crowd {
    pub(super) fn new(address: SocketAddr, kind: Kind, server: Option<SessionServer>) -> Crowd {
        Crowd { address, kind, server, next: 0, players: JoinSet::new(), shared: Rc::default(), say: watch::Sender::new(()) }
    }

    /// More of them come, until there are so many.
    pub(super) async fn grow_to(&mut self, sessions: usize) -> anyhow::Result<()> {
        let names = self.next..self.next + sessions.saturating_sub(self.players.len());
        self.next = names.end;
        let mut players = std::mem::take(&mut self.players);
        let mut come = stream::iter(names).map(|number| self.come(number)).buffer_unordered(AT_ONCE);
        // Each lives from when it has come: whoever answers no keep-alives is not kept for long.
        while let Some((wire, model)) = come.try_next().await? {
            let (shared, said) = (self.shared.clone(), self.say.subscribe());
            players.spawn_local(async move {
                if let Err(error) = stay(wire, model, said, &shared).await {
                    shared.failed.borrow_mut().get_or_insert(error);
                    shared.moved.notify_one();
                }
            });
        }
        drop(come);
        self.players = players;
        self.check()
    }

    /// One comes into its world.
    async fn come(&self, number: usize) -> anyhow::Result<(Wire, Model)> {
        let name = format!("player_{number}");
        let install = match self.kind {
            Kind::Vanilla => Install::vanilla(&name),
            Kind::Forge => Install::forge(&name, pack()),
        };
        let host = if install.marked { "localhost\0FML\0" } else { "localhost" };
        let mut wire = match &self.server {
            None => {
                let mut wire = Wire::connect(self.address).await?;
                wire.handshake(5, host, 2).await?;
                wire.send(0, &wire::string(&name)).await?;
                wire
            }
            Some(server) => {
                let (mut wire, request) = Wire::begin_online(self.address, host, &name).await?;
                let secret = online::new_secret();
                server.join(&server.account(&name), &request.hash(&secret));
                wire.answer(&request, &secret).await?;
                wire
            }
        };
        let mut model = Model::new(install, Instant::now());
        while !model.is_in_world() {
            let (id, payload) = wire.receive().await.with_context(|| format!("{name}, on its way in"))?;
            live(&mut wire, &mut model, id, &payload).await.with_context(|| format!("{name}, on its way in"))?;
        }
        Ok((wire, model))
    }

    /// Each has a frame echoed.
    pub(super) async fn echo(&mut self) -> anyhow::Result<()> {
        self.shared.echoed.set(0);
        self.say.send_replace(());
        let all = async {
            while self.shared.echoed.get() < self.players.len() && self.shared.failed.borrow().is_none() {
                self.shared.moved.notified().await;
            }
        };
        timeout(PATIENCE, all).await.with_context(|| format!("{} of {} echoes came", self.shared.echoed.get(), self.players.len()))?;
        self.check()
    }

    /// Fails if any has lost its session.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        match self.shared.failed.borrow_mut().take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// All leave.
    pub(super) async fn leave(&mut self) {
        self.players.shutdown().await;
    }
}

async fn stay(mut wire: Wire, mut model: Model, mut said: watch::Receiver<()>, shared: &Shared) -> anyhow::Result<()> {
    let name = model.install().name.clone();
    loop {
        let received = tokio::select! {
            received = wire.receive() => Some(received.with_context(|| name.clone())?),
            Ok(()) = said.changed() => None,
        };
        match received {
            None => wire.send(frames::ID.into(), &ECHO).await?,
            Some((id, payload)) if id == i32::from(frames::ID) => {
                ensure!(payload == ECHO, "{name}'s echo is another than was said");
                shared.echoed.set(shared.echoed.get() + 1);
                shared.moved.notify_one();
            }
            Some((id, payload)) => live(&mut wire, &mut model, id, &payload).await.with_context(|| name.clone())?,
        }
    }
}

/// The client takes a frame, and says what it has to say to it.
async fn live(wire: &mut Wire, model: &mut Model, id: i32, payload: &[u8]) -> anyhow::Result<()> {
    let (mut whole, mut out) = (Vec::new(), Vec::new());
    frame::put(&mut whole, id, |out| out.extend_from_slice(payload));
    let now = Instant::now();
    let lives = model.receive(now, &whole, &mut out).and_then(|()| model.turn(now, &mut out));
    if let Err(broken) = lives {
        bail!("a client would not play on: {broken:?}");
    }
    if let Some(reason) = model.kicked() {
        bail!("disconnected: {reason}");
    }
    if !out.is_empty() {
        wire.write(&out).await?;
    }
    Ok(())
}

/// Players who read for a moment, and then nothing more.
pub(super) struct Deaf(Vec<Wire>);

/// Frames that each reads: by then the kernel has opened all windows, and the node takes as much as it can at a time.
const READ: usize = 500;

/// Lets them come.
pub(super) async fn deaf(address: SocketAddr, players: usize) -> anyhow::Result<Deaf> {
    let come = |number| async move { anyhow::Ok(Wire::join(address, "localhost", &format!("deaf_{number}")).await?.0) };
    Ok(Deaf(stream::iter(0..players).map(come).buffer_unordered(AT_ONCE).try_collect().await?))
}

impl Deaf {
    /// Each says its first word, upon which its backend begins, and soon listens no more.
    pub(super) async fn begin(&mut self) -> anyhow::Result<()> {
        let begin = self.0.iter_mut().map(|wire| async move {
            wire.send(frames::ID.into(), b"go").await?;
            for _ in 0..READ {
                wire.receive_id(frames::ID.into()).await?;
            }
            anyhow::Ok(())
        });
        try_join_all(begin).await?;
        Ok(())
    }
}
