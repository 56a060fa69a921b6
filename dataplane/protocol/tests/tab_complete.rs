//! Tab Complete: the packets, and whose answer a backend's is, against backends that do what they like.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use moonbridge_protocol::frame::{self, MAX_FRAME};
use moonbridge_protocol::play::{
    MAX_COMPLETED, MAX_OWN_WORDS, TabComplete, put_merged_tab_complete, put_tab_complete, put_tab_complete_serverbound,
    read_tab_complete_serverbound,
};
use moonbridge_protocol::tab_complete::{
    Answered, Asked, Completions, Due, FORGIVEN_AFTER, FORGOTTEN_AFTER, MAX_HELD, MAX_HELD_BYTES, PATIENCE, Part,
};
use moonbridge_protocol::version::{Clientbound, Serverbound, Version};
use moonbridge_protocol::wire::{WireError, put_string, put_varint};
use proptest::prelude::*;

/// The id and the payload of the one frame that `write` puts.
fn frame_of(write: impl FnOnce(&mut Vec<u8>)) -> (i32, Vec<u8>) {
    let mut out = Vec::new();
    write(&mut out);
    let first = frame::first(&out, MAX_FRAME).expect("well-formed").expect("whole");
    assert_eq!(first.whole.len(), out.len(), "one frame");
    (first.id, first.payload.to_vec())
}

fn merged<'a>(backend: &[&str], own: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let v = Version::newest();
    let (_, payload) = frame_of(|out| put_tab_complete(out, v, backend));
    let answer = TabComplete::read(&payload).expect("an answer");
    let (id, payload) = frame_of(|out| put_merged_tab_complete(out, v, &answer, own.into_iter()));
    assert_eq!(id, i32::from(v.clientbound_id(Clientbound::TabComplete)));
    TabComplete::read(&payload).expect("an answer").words().map(str::to_owned).collect()
}

#[test]
fn the_nodes_words_come_behind_the_backends_and_each_once() {
    assert_eq!(merged(&["/say", "/seed"], ["/server", "/seed", "/send", "/server"]), ["/say", "/seed", "/server", "/send"]);
    assert_eq!(merged(&[], ["/glist"]), ["/glist"]);
    assert_eq!(merged(&["/say", "/say"], []), ["/say", "/say"], "the backend's are all there, as they are");
    let many: Vec<String> = (0..1_000).map(|number| format!("/{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let all = merged(&many, ["/a"]);
    assert_eq!((all.len(), &*all[1_000]), (1_001, "/a"));
    assert_eq!(merged(&["/a"], many), [vec!["/a".to_owned()], (0..MAX_OWN_WORDS).map(|number| format!("/{number}")).collect()].concat());
}

#[test]
fn a_merged_answer_fits_a_frame() {
    let long = "a".repeat(MAX_COMPLETED);
    let own: Vec<String> = (0..MAX_OWN_WORDS).map(|number| format!("{number}{}", &long[..MAX_COMPLETED - 2])).collect();
    let backend = vec![&long[..]; 60];
    let words = merged(&backend, own.iter().map(String::as_str).chain(["/short"]));
    assert_eq!(words[..60], backend[..]);
    assert!(words.len() > 61 && words.len() < 160, "{}", words.len());
    assert_eq!(merged(&[], [&*"a".repeat(MAX_COMPLETED + 1), "b"]), ["b"], "a client does not read a longer one");
}

#[test]
fn counts_and_lengths_that_lie_are_errors() {
    let payload = |count: i32, words: &[&str]| {
        let mut payload = Vec::new();
        put_varint(&mut payload, count);
        words.iter().for_each(|word| put_string(&mut payload, word));
        payload
    };
    for (count, words, error) in [
        (-1, &["a"][..], WireError::BadLength { length: -1, limit: 2 }),
        (i32::MAX, &["a"], WireError::BadLength { length: i32::MAX.into(), limit: 2 }),
        (2, &["a"], WireError::Truncated),
        (0, &["a"], WireError::Trailing(2)),
        (1, &["a", "b"], WireError::Trailing(2)),
        (1, &[&"a".repeat(MAX_COMPLETED + 1)], WireError::BadLength { length: 32_768, limit: 32_767 }),
    ] {
        assert_eq!(TabComplete::read(&payload(count, words)), Err(error));
    }
    assert!(TabComplete::read(&payload(0, &[])).expect("an answer").is_empty());
}

proptest! {
    #[test]
    fn packets_are_read_as_they_are_put(typed in ".{0,40}", words in prop::collection::vec(".{0,12}", 0..12), junk in prop::collection::vec(any::<u8>(), 0..60)) {
        for v in Version::ALL {
            let (id, payload) = frame_of(|out| put_tab_complete_serverbound(out, v, &typed));
            prop_assert_eq!(v.serverbound(id as u8), Serverbound::TabComplete);
            prop_assert_eq!(read_tab_complete_serverbound(&payload), Ok(&typed[..]));
            let longer = [&payload[..], &[0]].concat();
            prop_assert_eq!(read_tab_complete_serverbound(&longer), Err(WireError::Trailing(1)));
            let sent: Vec<&str> = words.iter().map(String::as_str).collect();
            let (_, payload) = frame_of(|out| put_tab_complete(out, v, &sent));
            let read = TabComplete::read(&payload).expect("an answer");
            prop_assert_eq!(read.words().collect::<Vec<_>>(), sent);
            for end in 0..payload.len() {
                prop_assert!(TabComplete::read(&payload[..end]).is_err());
            }
        }
        if let Ok(answer) = TabComplete::read(&junk) {
            prop_assert!(answer.words().count() <= junk.len());
        }
    }
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Completions, whose own parts are names, and the time.
struct Player {
    completions: Completions<&'static str>,
    now: Instant,
}

impl Player {
    fn new() -> Player {
        Player { completions: Completions::default(), now: Instant::now() }
    }

    fn ask(&mut self, text: &str, part: Part<&'static str>) -> Asked<&'static str> {
        self.completions.request(self.now, text, part)
    }

    fn answer(&mut self, words: &[&str]) -> Answered<&'static str> {
        self.completions.answer(self.now, words.iter().copied())
    }

    fn due(&mut self) -> Vec<Due<&'static str>> {
        std::iter::from_fn(|| self.completions.poll(self.now)).collect()
    }

    fn wait(&mut self, time: Duration) -> Vec<Due<&'static str>> {
        self.now += time;
        self.due()
    }
}

fn send(text: &str) -> Due<&'static str> {
    Due::Send(text.into())
}

#[test]
fn a_backend_that_answers_is_merged_with() {
    let mut player = Player::new();
    for words in [&["/seed"][..], &[], &["/SAY", "/seed", "/s"]] {
        assert_eq!(player.ask("/s", Part::Both("ours")), Asked::Pass);
        assert_eq!(player.completions.deadline(), Some(player.now + PATIENCE));
        assert_eq!(player.wait(PATIENCE - ms(1)), []);
        assert_eq!(player.answer(words), Answered::Merge("ours"));
        assert_eq!((player.completions.deadline(), player.due()), (None, vec![]));
    }
    assert_eq!(player.ask("hello Al", Part::Backend), Asked::Pass);
    assert_eq!(player.answer(&["Alice"]), Answered::Pass);
    assert_eq!(player.ask("/server lo", Part::Node("lobby")), Asked::Answer("lobby"));
    assert_eq!(player.ask("/s", Part::Both("ours")), Asked::Pass, "nothing is awaited of what the node answers");
}

#[test]
fn what_is_held_leaves_in_order_as_soon_as_it_may() {
    let mut player = Player::new();
    player.ask("/s", Part::Both("1"));
    assert_eq!(player.ask("/server l", Part::Node("2")), Asked::Held);
    assert_eq!(player.ask("/se", Part::Both("3")), Asked::Held);
    assert_eq!(player.ask("/server l", Part::Node("4")), Asked::Held);
    assert_eq!(player.due(), []);
    assert_eq!(player.answer(&["/seed"]), Answered::Merge("1"));
    assert_eq!(player.due(), [Due::Answer("2"), send("/se")]);
    assert_eq!(player.answer(&["/seed"]), Answered::Merge("3"));
    assert_eq!(player.due(), [Due::Answer("4")]);
}

#[test]
fn an_answer_that_lacks_is_owed_and_forgiven() {
    let mut player = Player::new();
    player.ask("/s", Part::Both("1"));
    player.ask("/se", Part::Both("2"));
    player.ask("/server l", Part::Node("3"));
    assert_eq!(player.wait(PATIENCE), [Due::Answer("1"), send("/se"), Due::Answer("3")], "its own part, and nothing is held");
    assert_eq!(player.ask("/x", Part::Both("4")), Asked::Pass);
    assert_eq!(player.ask("/server l", Part::Node("5")), Asked::Answer("5"));
    for words in [&["/say"][..], &["/seed"], &["/xp"]] {
        assert_eq!(player.answer(words), Answered::Pass, "owed");
    }
    assert_eq!(player.ask("/s", Part::Both("6")), Asked::Pass);
    assert_eq!(player.answer(&["/say"]), Answered::Merge("6"), "nothing is owed any more");

    player.ask("/s", Part::Both("7"));
    assert_eq!(player.wait(PATIENCE), [Due::Answer("7")]);
    player.wait(FORGIVEN_AFTER - PATIENCE - ms(1));
    assert_eq!(player.answer(&["zzz"]), Answered::Pass, "somebody's answer, so that it is waited on");
    assert_eq!(player.wait(FORGIVEN_AFTER - ms(1)), []);
    assert_eq!(player.completions.deadline(), Some(player.now + ms(1)));
    player.wait(ms(1));
    assert_eq!(player.completions.deadline(), None);
    assert_eq!(player.ask("/s", Part::Both("8")), Asked::Pass);
    assert_eq!(player.answer(&["/say"]), Answered::Merge("8"), "or that of the same text");
}

#[test]
fn a_forgiven_answer_that_comes_after_all_is_not_merged() {
    let mut player = Player::new();
    let forgive = |player: &mut Player| player.wait(FORGIVEN_AFTER);
    player.ask("/s", Part::Both("1"));
    forgive(&mut player);
    player.ask("/se", Part::Both("2"));
    // To either of them, or so it may be.
    assert_eq!(player.answer(&["/seed"]), Answered::Pass);
    assert_eq!(player.answer(&["/seed"]), Answered::Merge("2"));

    player.ask("/se", Part::Both("3"));
    forgive(&mut player);
    player.ask("/s", Part::Both("4"));
    assert_eq!(player.answer(&["/say", "/seed"]), Answered::Merge("4"), "it is no answer to the other");

    player.ask("hello", Part::Backend);
    forgive(&mut player);
    player.ask("/s", Part::Both("5"));
    assert_eq!(player.answer(&["Bob"]), Answered::Pass, "it is no answer to this one");
    assert_eq!(player.answer(&["/seed"]), Answered::Merge("5"));

    player.ask("/s", Part::Both("6"));
    forgive(&mut player);
    player.completions.new_backend();
    player.ask("/se", Part::Both("7"));
    assert_eq!(player.answer(&["/seed"]), Answered::Merge("7"), "another backend owes nothing");
}

#[test]
fn a_player_who_has_been_answered_perhaps_is_not_answered_again() {
    let mut player = Player::new();
    player.ask("/s", Part::Both("1"));
    player.wait(FORGIVEN_AFTER);
    player.ask("/se", Part::Both("2"));
    assert_eq!(player.answer(&["/seed"]), Answered::Pass);
    assert_eq!(player.wait(PATIENCE), []);
    assert_eq!(player.answer(&["/seed"]), Answered::Pass);
    player.ask("/s", Part::Both("3"));
    assert_eq!(player.answer(&["zzz"]), Answered::Pass);
    assert_eq!(player.wait(PATIENCE), [Due::Answer("3")], "that was no answer");
}

#[test]
fn more_than_can_be_held_is_not_held() {
    let mut player = Player::new();
    player.ask("/s", Part::Both("1"));
    let texts: Vec<String> = (0..=MAX_HELD).map(|number| format!("/{number}")).collect();
    for text in &texts[..MAX_HELD] {
        player.ask(text, Part::Both("more"));
        assert_eq!(player.due(), []);
    }
    assert_eq!(player.ask(&texts[MAX_HELD], Part::Both("more")), Asked::Held);
    assert_eq!(player.due(), texts.iter().map(|text| send(text)).collect::<Vec<_>>());
    assert_eq!(player.answer(&["/s"]), Answered::Pass);

    let mut player = Player::new();
    player.ask("/s", Part::Both("1"));
    let long = "a".repeat(MAX_HELD_BYTES);
    player.ask(&long, Part::Backend);
    assert_eq!(player.due(), []);
    player.ask("b", Part::Backend);
    assert_eq!(player.due(), [send(&long), send("b")]);

    // Somebody who never polls.
    let mut player = Player::new();
    for _ in 0..1_000 {
        player.ask("/s", Part::Both("1"));
    }
    assert_eq!(player.due().len(), MAX_HELD + 1);
}

#[test]
fn a_new_backend_is_not_asked_what_the_old_one_was() {
    let mut player = Player::new();
    player.ask("/s", Part::Both("1"));
    player.ask("/se", Part::Both("2"));
    player.ask("/server l", Part::Node("3"));
    player.ask("hello", Part::Backend);
    player.completions.new_backend();
    assert_eq!(player.due(), [Due::Answer("3")]);
    assert_eq!(player.completions.deadline(), None);
}

#[test]
fn where_too_many_go_unanswered_nothing_is_merged() {
    let mut player = Player::new();
    for number in 0..200 {
        player.ask(&format!("/{number}"), Part::Both("lost"));
    }
    player.due();
    for number in 200..400 {
        assert_eq!(player.ask(&format!("/{number}"), Part::Both("lost")), Asked::Pass);
    }
    player.wait(FORGIVEN_AFTER);
    player.ask("/s", Part::Both("1"));
    assert_eq!(player.answer(&["/seed"]), Answered::Pass);
    assert_eq!(player.due(), []);
    let mut later = Player { completions: player.completions.clone(), now: player.now };
    later.wait(FORGOTTEN_AFTER);
    player.completions.new_backend();
    for player in [&mut player, &mut later] {
        player.ask("/s", Part::Both("2"));
        assert_eq!(player.answer(&["/seed"]), Answered::Merge("2"));
    }
}

#[test]
fn an_answer_without_words_is_never_wrong_to_add_to() {
    let mut player = Player::new();
    player.ask("/s", Part::Both("1"));
    player.wait(FORGIVEN_AFTER);
    player.ask("/gl", Part::Both("2"));
    assert_eq!(player.answer(&[]), Answered::Merge("2"), "whosoever's it is");
    player.ask("/se", Part::Both("3"));
    // The next one may still be that for `/gl`, but has words.
    assert_eq!(player.answer(&["/seed"]), Answered::Merge("3"));
}

/// Many plugins complete a word with all that they know.
#[test]
fn words_that_do_not_begin_like_what_was_typed_cost_no_merges() {
    let mut player = Player::new();
    for _ in 0..25 {
        assert_eq!(player.ask("/warp ho", Part::Backend), Asked::Pass);
        assert_eq!(player.answer(&["spawn", "home"]), Answered::Pass);
        assert_eq!(player.ask("/s", Part::Both("1")), Asked::Pass);
        assert_eq!(player.answer(&["/say", "/seed"]), Answered::Merge("1"));
        assert_eq!(player.ask("/gli", Part::Both("2")), Asked::Pass);
        assert_eq!(player.answer(&[]), Answered::Merge("2"));
        assert_eq!(player.completions.deadline(), None);
    }
}

#[test]
fn an_answer_that_was_taken_for_anothers_is_still_to_come() {
    let mut player = Player::new();
    player.ask("/msg B", Part::Backend);
    player.wait(PATIENCE);
    player.ask("/x", Part::Both("1"));
    player.ask("hello Al", Part::Backend);
    player.wait(FORGIVEN_AFTER);
    player.ask("/x", Part::Both("2"));
    assert_eq!(player.answer(&["Alice"]), Answered::Pass, "to the first, if the truth were known");
    assert_eq!(player.answer(&["/xp"]), Answered::Merge("2"));
    player.ask("/", Part::Both("3"));
    assert_eq!(player.answer(&[]), Answered::Merge("3"), "to the third");
    player.ask("/s", Part::Both("4"));
    assert_eq!(player.answer(&["/s"]), Answered::Pass, "to the fourth, as it may be");
}

/// What happens in a simulation.
#[derive(Debug, Clone)]
enum Step {
    /// The player asks how a text may go on.
    Ask(String, Part<()>),
    /// The backend answers the oldest requests that it has: with those of the words that fit which have their bit set.
    Answer { requests: usize, which: u8 },
    /// The backend forgets the oldest request that it has.
    Forget,
    /// The backend says what nobody asked for.
    Unasked,
    /// Time passes; a node that is busy does not look at its clock within it.
    Wait { time: Duration, busy: bool },
    /// The player moves to another backend.
    Transfer,
}

/// What players type, and whose it is. (The long ones are past a bound.)
fn texts() -> Vec<(String, Part<()>)> {
    let both = ["/", "/s", "/S", "/se", "/sen", "/x"].map(|text| (text.to_owned(), Part::Both(())));
    let backend = ["hel", "hello Al", "/msg ", "/msg B", "/help /s"].map(|text| (text.to_owned(), Part::Backend));
    let long = [(format!("/{}", "s".repeat(300)), Part::Both(())), ("a".repeat(2_500), Part::Backend)];
    let node = [("/server l".to_owned(), Part::Node(()))];
    both.into_iter().chain(backend).chain(long).chain(node).collect()
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => prop::sample::select(texts()).prop_map(|(text, part)| Step::Ask(text, part)),
        8 => (prop_oneof![4 => Just(1usize), 1 => 2..5usize], any::<u8>()).prop_map(|(requests, which)| Step::Answer { requests, which }),
        2 => Just(Step::Forget),
        1 => Just(Step::Unasked),
        5 => (prop::sample::select(vec![10, 400, 1_000, 2_500, 9_000, 11_000]), any::<bool>()).prop_map(|(time, busy)| Step::Wait { time: ms(time), busy }),
        1 => Just(Step::Transfer),
    ]
}

fn last_word(text: &str) -> &str {
    text.rsplit(' ').next().unwrap_or_default()
}

/// A player, a backend and what is known of every request, which is numbered.
struct World {
    completions: Completions<usize>,
    now: Instant,
    requests: Vec<(String, Part<()>)>,
    /// What the backend has yet to answer, and since when.
    asked: VecDeque<(usize, Instant)>,
    /// What has been taken off and not come out.
    held: BTreeSet<usize>,
    /// How often each was answered with the node's part.
    own: BTreeMap<usize, u32>,
    /// The last request that left, to the backend or answered by the node.
    left: Option<usize>,
    merges: usize,
}

impl World {
    fn new() -> World {
        let (requests, asked, held, own) = Default::default();
        World { completions: Completions::default(), now: Instant::now(), requests, asked, held, own, left: None, merges: 0 }
    }

    fn ask(&mut self, text: String, part: Part<()>) {
        let number = self.requests.len();
        let asked = match part {
            Part::Backend => self.completions.request(self.now, &text, Part::Backend),
            Part::Both(()) => self.completions.request(self.now, &text, Part::Both(number)),
            Part::Node(()) => self.completions.request(self.now, &text, Part::Node(number)),
        };
        self.requests.push((text, part));
        match asked {
            Asked::Pass => self.goes_to_the_backend(number),
            Asked::Answer(own) => {
                assert_eq!(own, number);
                self.is_answered(number);
            }
            Asked::Held => drop(self.held.insert(number)),
        }
        self.poll();
    }

    fn goes_to_the_backend(&mut self, number: usize) {
        assert!(!matches!(self.requests[number].1, Part::Node(())), "the node's alone");
        self.leaves(number);
        self.asked.push_back((number, self.now));
    }

    /// With the node's part alone.
    fn is_answered(&mut self, number: usize) {
        match self.requests[number].1 {
            Part::Node(()) => self.leaves(number),
            Part::Both(()) => assert!(self.left >= Some(number), "asked of the backend first"),
            Part::Backend => panic!("the node has no part in {number}"),
        }
        *self.own.entry(number).or_default() += 1;
    }

    fn leaves(&mut self, number: usize) {
        assert!(self.left < Some(number), "{number} leaves after {:?}", self.left);
        assert!(self.held.first().is_none_or(|&first| first >= number), "an earlier one is held");
        self.held.remove(&number);
        self.left = Some(number);
    }

    fn poll(&mut self) {
        while let Some(due) = self.completions.poll(self.now) {
            match due {
                Due::Answer(number) => self.is_answered(number),
                Due::Send(text) => {
                    let number = *self.held.first().expect("something is held");
                    assert_eq!(*text, *self.requests[number].0);
                    self.goes_to_the_backend(number);
                }
            }
        }
        assert!(self.held.len() <= MAX_HELD);
        assert!(self.held.iter().map(|&number| self.requests[number].0.len()).sum::<usize>() <= MAX_HELD_BYTES);
        let deadline = self.completions.deadline();
        assert!(deadline.is_none_or(|deadline| deadline > self.now && deadline <= self.now + FORGIVEN_AFTER));
        assert!(self.held.is_empty() || deadline.is_some_and(|deadline| deadline <= self.now + PATIENCE), "held for ever");
    }

    /// The backend says these words, in answer to a request or to none.
    fn says(&mut self, words: &[&str], to: Option<usize>) {
        if let Answered::Merge(number) = self.completions.answer(self.now, words.iter().copied()) {
            let answered = to.map(|to| &*self.requests[to].0);
            // The node's words alone are right in any case.
            assert!(words.is_empty() || answered == Some(&*self.requests[number].0), "{number}: {answered:?}");
            *self.own.entry(number).or_default() += 1;
            self.merges += 1;
        }
        self.poll();
    }

    fn answer(&mut self, which: u8) {
        let Some((number, since)) = self.asked.pop_front() else { return };
        if self.now >= since + FORGOTTEN_AFTER {
            return;
        }
        let typed = self.requests[number].0.to_ascii_lowercase();
        let all: &[&str] = if typed.contains(' ') || !typed.starts_with('/') {
            &["Alice", "Bob"]
        } else {
            &["/s", "/say", "/SEED", "/send", "/xp", "/help"]
        };
        // Some plugins complete a word with others that do not begin with it.
        let loose = all.len() == 2 && which >= 0xe0;
        let words: Vec<&str> = all
            .iter()
            .enumerate()
            .filter(|(index, word)| which >> index & 1 == 1 && (loose || word.to_ascii_lowercase().starts_with(last_word(&typed))))
            .map(|(_, word)| *word)
            .collect();
        self.says(&words, Some(number));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Ask(text, part) => self.ask(text, part),
            Step::Answer { requests, which } => (0..requests).for_each(|_| self.answer(which)),
            Step::Forget => drop(self.asked.pop_front()),
            // It could be the answer to what may be answered with anything.
            Step::Unasked if self.asked.iter().any(|&(number, _)| !(1..=256).contains(&last_word(&self.requests[number].0).len())) => {}
            Step::Unasked => self.says(&["nobody", "asked"], None),
            Step::Wait { time, busy } => {
                let end = self.now + time;
                while let Some(deadline) = self.completions.deadline().filter(|&deadline| !busy && deadline <= end) {
                    self.now = deadline;
                    self.poll();
                }
                self.now = end;
                if !busy {
                    self.poll();
                }
            }
            Step::Transfer => {
                self.completions.new_backend();
                self.asked.clear();
                self.held.retain(|&number| matches!(self.requests[number].1, Part::Node(())));
                self.poll();
            }
        }
    }

    /// After the last step: everything has left, once.
    fn end(mut self) {
        self.step(Step::Wait { time: FORGIVEN_AFTER * 2, busy: false });
        assert!(self.held.is_empty() && self.completions.deadline().is_none());
        for (number, (_, part)) in self.requests.iter().enumerate() {
            let own = self.own.get(&number).copied().unwrap_or_default();
            assert!(own <= 1, "{number} has the node's part {own} times");
            assert!(own == 1 || !matches!(part, Part::Node(())), "{number} is not answered");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_answer_is_merged_with_another_requests_words(steps in prop::collection::vec(step(), 0..200)) {
        let mut world = World::new();
        steps.into_iter().for_each(|step| world.step(step));
        world.end();
    }

    #[test]
    fn a_backend_that_answers_in_time_is_always_merged_with(
        asked in prop::collection::vec((prop::sample::select(texts()), 1..999u64, 0..0xe0u8), 0..60)
    ) {
        let mut world = World::new();
        for ((text, part), time, which) in asked {
            if text.len() <= 256 {
                world.ask(text, part);
                world.step(Step::Wait { time: ms(time), busy: false });
                world.answer(which);
            }
        }
        let both = world.requests.iter().filter(|(_, part)| matches!(part, Part::Both(()))).count();
        prop_assert_eq!(world.merges, both);
    }
}

/// As many as it takes for a backend's debts to be too many to remember.
#[test]
fn a_long_silence_and_then_everything_at_once() {
    for silent in [1, 5, 31, 32, 33, 64, 200] {
        let mut world = World::new();
        for number in 0..silent {
            let (text, part) = texts()[number % 4].clone();
            world.ask(text, part);
            world.step(Step::Wait { time: ms(300), busy: false });
        }
        world.step(Step::Wait { time: ms(11_000), busy: false });
        for _ in 0..silent + 10 {
            world.ask("/se".to_owned(), Part::Both(()));
            world.answer(0xff);
            world.answer(0x04);
        }
        world.end();
    }
}
