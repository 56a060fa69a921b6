//! One stream to one replica: the tonic shell around [`Agent`] and [`Presence`].

use std::collections::VecDeque;
use std::error::Error;
use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt};
use moonbridge_proto::connect;
use moonbridge_proto::token::{Bearer, read_token_file};
use moonbridge_proto::v1::node_service_client::NodeServiceClient;
use moonbridge_proto::v1::{self, node_message::Message as Up};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

use super::Pace;
use super::agent::{Agent, Reaction};
use super::presence::Presence;
use crate::config::Config;
use crate::node::Node;
use crate::registry::Outcome;

/// Messages between this loop and the HTTP/2 connection; what does not fit waits in the loop's own queue.
const PIPE: usize = 64;

/// The largest message taken from a replica: a full snapshot of a large network is some MiB.
const MAX_MESSAGE: usize = 64 << 20;

/// With so many messages waiting to be sent no more questions of sessions are taken: those wait where their bytes are counted.
const QUESTIONS: usize = 32;

/// With so many messages waiting to be sent nothing more is read: every command read makes one or two.
const OUTBOX: usize = 4_096;

/// How a stream ended.
pub(super) enum End {
    /// The node is shutting down and everything it had to say was heard, or there was no time left for it.
    Shutdown,
    /// The replica did not take the node in.
    Unreached(String),
    /// The replica had taken the node in, and was lost.
    Lost {
        /// What happened.
        why: String,
        /// How long it had lasted.
        lasted: Duration,
    },
}

/// Connects to the replica, says hello, and stays until the stream breaks or the node shuts down.
pub(super) async fn attach(agent: &mut Agent, url: &str, pace: &Pace) -> End {
    let node = agent.node.clone();
    // Changes are kept for this stream from its Hello on, and for nobody when it is over.
    let watch = Watch(&node);
    let opened = tokio::select! {
        opened = open(agent, url, pace) => opened,
        () = node.shutdown.cancelled() => return End::Shutdown,
    };
    let (outgoing, incoming) = match opened {
        Ok(opened) => opened,
        Err(why) => return End::Unreached(why),
    };
    let now = Instant::now();
    let mut stream = Stream {
        agent,
        pace,
        url,
        incoming,
        outbox: VecDeque::new(),
        presence: Presence::new(pace.gather),
        heard: now,
        sent: now,
        heartbeat: pace.heartbeat,
        next_tick: now + pace.heartbeat,
        welcomed: None,
        closing: None,
    };
    let end = stream.run(&outgoing).await;
    if let End::Shutdown = end {
        // Without room for it, presence ends with the lease.
        let _ = outgoing.try_send(v1::NodeMessage { message: Some(Up::Goodbye(v1::Goodbye {})) });
        // End the stream in good order: a reset would take what is still on its way with it.
        drop(outgoing);
        let until_ended = async { while let Ok(Some(_)) = stream.incoming.message().await {} };
        let _ = crate::timer::timeout(pace.goodbye, until_ended).await;
    }
    drop(watch);
    end
}

type Opened = (mpsc::Sender<v1::NodeMessage>, Streaming<v1::ControlMessage>);

async fn open(agent: &mut Agent, url: &str, pace: &Pace) -> Result<Opened, String> {
    let node = agent.node.clone();
    let bearer = bearer(&node.config)?;
    let endpoint = connect::channel(url, node.config.control_tls.as_ref(), node.config.allow_insecure_control);
    let endpoint =
        endpoint.map_err(|error| error.to_string())?.http2_keep_alive_interval(pace.keep_alive).keep_alive_timeout(pace.keep_alive);
    let connected = crate::timer::timeout(pace.connect, endpoint.connect()).await;
    let channel: Channel = connected.map_err(|_| format!("no connection within {:?}", pace.connect))?.map_err(|error| causes(&error))?;

    let (outgoing, messages) = mpsc::channel(PIPE);
    let sessions = node.registry.subscribe();
    let hello = agent.hello(sessions, Instant::now());
    // The channel is new and empty: there is room.
    let _ = outgoing.try_send(v1::NodeMessage { message: Some(hello) });
    let mut client = NodeServiceClient::with_interceptor(channel, bearer).max_decoding_message_size(MAX_MESSAGE);
    let attached = crate::timer::timeout(pace.silence, client.attach(ReceiverStream::new(messages))).await;
    let answer = attached.map_err(|_| format!("no answer within {:?}", pace.silence))?.map_err(|status| refusal(&status))?;
    Ok((outgoing, answer.into_inner()))
}

/// Read at every attempt, so that a token can be changed in its file.
fn bearer(config: &Config) -> Result<Bearer, String> {
    let token = match (&config.token, &config.token_file) {
        (Some(token), _) => Some(token.clone()),
        (None, Some(path)) => Some(read_token_file(path).map_err(|error| error.to_string())?),
        (None, None) => None,
    };
    Ok(Bearer::maybe(token.as_deref()))
}

struct Stream<'a> {
    agent: &'a mut Agent,
    pace: &'a Pace,
    url: &'a str,
    incoming: Streaming<v1::ControlMessage>,
    /// What is to be sent. Bounded: from [`OUTBOX`] on nothing is read, and presence has its window.
    outbox: VecDeque<Up>,
    presence: Presence,
    /// When the replica last said something.
    heard: Instant,
    /// When something was last taken from the outbox, or it was empty.
    sent: Instant,
    /// Between ticks: a lease shorter than usual is renewed more often.
    heartbeat: Duration,
    next_tick: Instant,
    /// When the replica took this node in.
    welcomed: Option<Instant>,
    /// When to stop waiting for the last acknowledgements.
    closing: Option<Closing>,
}

struct Closing {
    deadline: Instant,
    emptied: bool,
}

impl Stream<'_> {
    async fn run(&mut self, outgoing: &mpsc::Sender<v1::NodeMessage>) -> End {
        let node = self.agent.node.clone();
        loop {
            if let Err(why) = self.timers(Instant::now()) {
                return self.end(why);
            }
            if self.is_done(Instant::now()) {
                return End::Shutdown;
            }
            let wake = self.wake();
            let (reads, takes_changes) = (self.reads(), self.presence.is_open());
            let takes_questions = self.outbox.len() < QUESTIONS;
            tokio::select! {
                message = self.incoming.message(), if reads => match message {
                    Ok(Some(message)) => self.receive(message),
                    Ok(None) => return self.end("the replica ended the stream".to_owned()),
                    Err(status) => return self.end(refusal(&status)),
                },
                permit = outgoing.reserve(), if !self.outbox.is_empty() => match permit {
                    Ok(permit) => {
                        if let Some(message) = self.outbox.pop_front() {
                            permit.send(v1::NodeMessage { message: Some(message) });
                        }
                        self.sent = Instant::now();
                    }
                    // The connection is gone: the next read says why.
                    Err(_) => return self.gone().await,
                },
                () = node.registry.changed(), if takes_changes => self.presence.changed(Instant::now()),
                () = node.registry.asked.notified(), if self.welcomed.is_some() => self.ask(Instant::now()),
                () = node.network.asked(), if self.welcomed.is_some() && takes_questions => {
                    self.ask_network(Instant::now());
                }
                Some((id, outcome)) = self.agent.running.next(), if !self.agent.running.is_empty() => {
                    self.ended(id, outcome, Instant::now());
                }
                () = node.shutdown.cancelled(), if self.closing.is_none() => self.close(Instant::now()),
                () = crate::timer::sleep_until(wake.into()) => {}
            }
        }
    }

    fn reads(&self) -> bool {
        self.outbox.len() < OUTBOX
    }

    fn receive(&mut self, message: v1::ControlMessage) {
        let now = Instant::now();
        self.heard = now;
        // Of a newer protocol: not for us.
        let Some(message) = message.message else { return };
        match self.agent.receive(message, now) {
            Reaction::Send(messages) => messages.into_iter().for_each(|message| self.queue(message)),
            Reaction::EventsAcknowledged(sequence) => self.presence.acknowledged(sequence),
            Reaction::Welcomed(welcome) => {
                self.welcomed.get_or_insert(now);
                if welcome.lease_seconds > 0 {
                    self.heartbeat = self.pace.heartbeat.min(Duration::from_secs(welcome.lease_seconds.into()) / 3);
                    self.next_tick = self.next_tick.min(now + self.heartbeat);
                }
                self.agent.node.registry.set_attached(true);
                self.agent.node.network.set_attached(true);
                tracing::info!(
                    url = self.url,
                    replica = welcome.replica,
                    lease_resumed = welcome.lease_resumed,
                    "attached to the control plane"
                );
            }
        }
    }

    fn queue(&mut self, message: Up) {
        if self.outbox.is_empty() {
            self.sent = Instant::now();
        }
        self.outbox.push_back(message);
    }

    /// Does what is due; the error is why the stream is given up.
    fn timers(&mut self, now: Instant) -> Result<(), String> {
        let silence = self.pace.silence;
        let since = |then: Instant| now.saturating_duration_since(then);
        if !self.outbox.is_empty() && since(self.sent) >= silence {
            return Err(format!("the replica took nothing for {silence:?}"));
        }
        if !self.reads() {
            self.heard = now;
        } else if since(self.heard) >= silence {
            return Err(format!("nothing was heard for {silence:?}"));
        }
        let patience = self.pace.unacknowledged;
        if self.presence.waiting_since().is_some_and(|sent| since(sent) >= patience) {
            return Err(format!("session events were not acknowledged for {patience:?}"));
        }
        if let Some(closing) = &mut self.closing
            && !closing.emptied
            && self.agent.node.registry.is_empty()
        {
            closing.emptied = true;
            closing.deadline = closing.deadline.min(now + self.pace.last_words);
            self.presence.changed(now);
        }
        if self.presence.due().is_some_and(|due| due <= now) {
            self.tell_changes(now);
        }
        if self.next_tick <= now {
            self.next_tick = now + self.heartbeat;
            // A queue that does not move needs no more heartbeats.
            if self.outbox.is_empty() {
                for message in self.agent.tick(now) {
                    self.queue(message);
                }
            }
        }
        Ok(())
    }

    fn tell_changes(&mut self, now: Instant) {
        let changes = self.agent.node.registry.take_changes();
        for batch in self.presence.batches(changes, now) {
            self.queue(Up::Events(batch));
        }
    }

    /// Asks about claims. What is known to have ended goes first: a claim that it held is free then.
    fn ask(&mut self, now: Instant) {
        let asks = self.agent.node.registry.take_asks();
        if self.presence.may_send() {
            self.tell_changes(now);
        }
        for claim in asks {
            self.queue(Up::Claim(claim));
        }
    }

    /// Asks for sessions. What is known here goes first: no answer is to be older than what who asks has seen.
    fn ask_network(&mut self, now: Instant) {
        let asks = self.agent.node.network.take(QUESTIONS);
        if self.presence.may_send() {
            self.tell_changes(now);
        }
        for ask in asks {
            self.queue(Up::Ask(ask));
        }
    }

    /// Commands have ended. What they changed goes before their results, so that whoever waited for a transfer finds the player
    /// where it led.
    fn ended(&mut self, id: String, outcome: Outcome, now: Instant) {
        let mut ended = vec![(id, outcome)];
        while let Some(Some(more)) = self.agent.running.next().now_or_never() {
            ended.push(more);
        }
        if self.presence.may_send() {
            self.tell_changes(now);
        }
        for (id, outcome) in ended {
            let update = self.agent.ended(&id, outcome, now);
            self.queue(update);
        }
    }

    fn wake(&self) -> Instant {
        let silence = self.pace.silence;
        let stuck = (!self.outbox.is_empty()).then(|| self.sent + silence);
        let unacknowledged = self.presence.waiting_since().map(|sent| sent + self.pace.unacknowledged);
        let closing = self.closing.as_ref().map(|closing| closing.deadline);
        [stuck, unacknowledged, closing, self.presence.due()]
            .into_iter()
            .flatten()
            .fold(self.next_tick.min(self.heard + silence), Instant::min)
    }

    /// The node shuts down: its sessions have the drain's time to end, and their ends then a moment to be heard.
    fn close(&mut self, now: Instant) {
        let deadline = now + self.agent.node.config.timeouts.drain + self.pace.last_words;
        self.closing = Some(Closing { deadline, emptied: false });
    }

    fn is_done(&self, now: Instant) -> bool {
        let Some(closing) = &self.closing else { return false };
        let said = closing.emptied && self.outbox.is_empty() && self.presence.is_idle() && self.agent.all_acknowledged();
        said || closing.deadline <= now
    }

    /// Why the connection went.
    async fn gone(&mut self) -> End {
        let why = match crate::timer::timeout(Duration::from_secs(1), self.incoming.message()).await {
            Ok(Err(status)) => refusal(&status),
            _ => "the connection was closed".to_owned(),
        };
        self.end(why)
    }

    fn end(&self, why: String) -> End {
        match (&self.closing, self.welcomed) {
            (Some(_), _) => End::Shutdown,
            (None, Some(since)) => End::Lost { why, lasted: since.elapsed() },
            (None, None) => End::Unreached(why),
        }
    }
}

/// Ends the keeping of changes and the taking of questions, however the stream ends.
struct Watch<'a>(&'a Node);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.network.set_attached(false);
        self.0.registry.set_attached(false);
        self.0.registry.unsubscribe();
    }
}

/// A status in few words; of one that tonic made of a broken connection its causes, too ("transport error" tells nothing).
fn refusal(status: &tonic::Status) -> String {
    let mut text = format!("{:?}", status.code());
    if !status.message().is_empty() {
        text = format!("{text}: {}", status.message());
    }
    match status.source() {
        Some(source) => {
            let causes = causes(source);
            let causes = causes.strip_prefix(status.message()).map_or(causes.as_str(), |rest| rest.trim_start_matches(": "));
            if causes.is_empty() { text } else { format!("{text}: {causes}") }
        }
        None => text,
    }
}

/// An error with its causes: tonic's own text is only "transport error".
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
