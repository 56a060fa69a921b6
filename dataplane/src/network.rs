//! What sessions ask of the whole network: their questions go to the replica that the node is attached to, and its answers come back.
//!
//! A question that cannot be asked, or is not answered in time, is answered as *unavailable*: whoever asks never waits for long.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use moonbridge_proto::v1::{self, ask::Question, player_text::Text as Written};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::timer::timeout_at;

/// Questions that are not answered yet.
const PENDING: usize = 4_096;
/// Bytes of questions that wait to be sent.
const UNSENT: usize = 8 << 20;
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// The problem of an answer that did not come from the network.
pub(crate) const UNAVAILABLE: &str = "unavailable";

/// The way from this node's sessions to the network.
pub(crate) struct Network {
    shared: Arc<Shared>,
    patience: Duration,
}

impl Default for Network {
    fn default() -> Self {
        Self { shared: Arc::default(), patience: PATIENCE }
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    asked: Notify,
}

#[derive(Default)]
struct State {
    attached: bool,
    /// The newest question's.
    id: u64,
    /// Who waits, by the question's id.
    waiting: HashMap<u64, oneshot::Sender<v1::AskAnswer>>,
    unsent: VecDeque<v1::Ask>,
    unsent_bytes: usize,
}

impl Network {
    /// Asks a question in the name of `origin` ("player Ada", "backend lobby"). Questions are asked in the order of these calls, and
    /// whether or not the answer is waited for.
    pub(crate) fn ask(&self, origin: String, question: Question) -> impl Future<Output = v1::AskAnswer> + Send + use<> {
        let (deadline, asked) = (Instant::now() + self.patience, self.begin(origin, question));
        async move {
            match asked {
                Some(mut asked) => timeout_at(deadline, &mut asked.answer).await.ok().and_then(Result::ok).unwrap_or_else(unavailable),
                None => unavailable(),
            }
        }
    }

    fn begin(&self, origin: String, question: Question) -> Option<Asked> {
        let mut state = self.shared.lock();
        let ask = v1::Ask { id: state.id + 1, origin, question: Some(question) };
        let bytes = bytes(&ask);
        if !state.attached || state.waiting.len() >= PENDING || state.unsent_bytes + bytes > UNSENT {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        state.id = ask.id;
        state.waiting.insert(ask.id, sender);
        state.unsent_bytes += bytes;
        let asked = Asked { shared: self.shared.clone(), id: ask.id, answer };
        state.unsent.push_back(ask);
        drop(state);
        self.shared.asked.notify_one();
        Some(asked)
    }

    /// Waits until there may be questions to take. One caller at a time.
    pub(crate) async fn asked(&self) {
        self.shared.asked.notified().await;
    }

    /// The oldest questions, at most so many.
    pub(crate) fn take(&self, most: usize) -> Vec<v1::Ask> {
        let mut state = self.shared.lock();
        let count = state.unsent.len().min(most);
        let taken: Vec<_> = state.unsent.drain(..count).collect();
        state.unsent_bytes -= taken.iter().map(bytes).sum::<usize>();
        if !state.unsent.is_empty() {
            self.shared.asked.notify_one();
        }
        taken
    }

    /// The replica has answered; it may come too late.
    pub(crate) fn answered(&self, answer: v1::AskAnswer) {
        let waiting = self.shared.lock().waiting.remove(&answer.id);
        if let Some(waiting) = waiting {
            let _ = waiting.send(answer);
        }
    }

    /// Whether a replica takes questions. Without one, those that are not answered yet never will be.
    pub(crate) fn set_attached(&self, attached: bool) {
        let mut state = self.shared.lock();
        state.attached = attached;
        if !attached {
            state.unsent = VecDeque::new();
            state.unsent_bytes = 0;
            // Those who wait are told by the drop.
            let unanswered = std::mem::take(&mut state.waiting);
            drop(state);
            drop(unanswered);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question whose answer is waited for; dropped, nobody waits any more.
struct Asked {
    shared: Arc<Shared>,
    id: u64,
    answer: oneshot::Receiver<v1::AskAnswer>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.shared.lock().waiting.remove(&self.id);
    }
}

/// What a question is counted as: its longest parts, and something for the rest.
fn bytes(ask: &v1::Ask) -> usize {
    let longest = match &ask.question {
        Some(Question::Forward(forward)) => forward.data.len(),
        Some(Question::Kick(v1::AskKick { text, .. }) | Question::Tell(v1::AskTell { text, .. })) => {
            text.iter().flat_map(|text| &text.text).map(|(Written::Legacy(text) | Written::Json(text))| text.len()).sum()
        }
        _ => 0,
    };
    longest + 256
}

fn unavailable() -> v1::AskAnswer {
    v1::AskAnswer { problem: UNAVAILABLE.to_owned(), ..v1::AskAnswer::default() }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn find(network: &Network, player: &str) -> impl Future<Output = v1::AskAnswer> + use<> {
        network.ask("player Ada".to_owned(), Question::Find(v1::AskFind { player: player.to_owned() }))
    }

    fn attached(patience: Duration) -> Network {
        let network = Network { patience, ..Network::default() };
        network.set_attached(true);
        network
    }

    #[tokio::test]
    async fn each_gets_the_answer_to_its_own_question_and_an_unasked_one_goes_nowhere() {
        let network = attached(PATIENCE);
        let (one, two) = (find(&network, "one"), find(&network, "two"));
        network.asked().await;
        let asks = network.take(10);
        let players = |ask: &v1::Ask| match &ask.question {
            Some(Question::Find(find)) => find.player.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(asks.iter().map(players).collect::<Vec<_>>(), ["one", "two"]);
        network.answered(v1::AskAnswer { id: 99, ..v1::AskAnswer::default() });
        network.answered(v1::AskAnswer { id: asks[1].id, reached: 2, ..v1::AskAnswer::default() });
        network.answered(v1::AskAnswer { id: asks[0].id, reached: 1, ..v1::AskAnswer::default() });
        assert_eq!((one.await.reached, two.await.reached), (1, 2));
    }

    #[tokio::test]
    async fn without_a_replica_or_an_answer_in_time_it_is_unavailable() {
        let network = Network::default();
        assert_eq!(find(&network, "a").now_or_never().map(|answer| answer.problem).as_deref(), Some(UNAVAILABLE));
        assert!(network.take(10).is_empty(), "nothing is left behind");

        let network = attached(Duration::from_millis(5));
        assert_eq!(find(&network, "a").await.problem, UNAVAILABLE);
        network.answered(v1::AskAnswer { id: 1, ..v1::AskAnswer::default() });

        let network = attached(PATIENCE);
        let lost = find(&network, "a");
        network.set_attached(false);
        network.set_attached(true);
        assert_eq!(lost.now_or_never().map(|answer| answer.problem).as_deref(), Some(UNAVAILABLE), "its stream has broken");
        assert!(network.shared.lock().waiting.is_empty());
    }

    #[tokio::test]
    async fn only_so_many_questions_wait_and_one_that_is_given_up_makes_room() {
        let network = attached(PATIENCE);
        let mut waiting: Vec<_> = (0..PENDING).map(|_| find(&network, "a")).collect();
        assert_eq!(find(&network, "a").now_or_never().map(|answer| answer.problem).as_deref(), Some(UNAVAILABLE));
        waiting.pop();
        assert_eq!(find(&network, "a").now_or_never(), None);
    }

    #[tokio::test]
    async fn only_so_many_bytes_wait_to_be_sent_and_they_are_taken_in_pieces() {
        let network = attached(PATIENCE);
        let large = || {
            let forward = v1::AskForward { data: vec![0; 1 << 20], ..v1::AskForward::default() };
            network.ask(String::new(), Question::Forward(forward))
        };
        let mut waiting: Vec<_> = (0..7).map(|_| large()).collect();
        assert_eq!(large().now_or_never().map(|answer| answer.problem).as_deref(), Some(UNAVAILABLE));
        network.asked().await;
        assert_eq!(network.take(4).len(), 4);
        network.asked().await;
        waiting.push(large());
        assert_eq!(network.take(10).len(), 4);
        assert_eq!(network.shared.lock().unsent_bytes, 0);
    }
}
