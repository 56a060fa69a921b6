//! How large a session is: memory that every player costs.
#![cfg(target_arch = "x86_64")]

use crate::session::play::Play;
use crate::session::{before_play, serve};

/// Bytes: of a session's task, of what it keeps beside that while the player logs in, and of both halves of what it keeps in play.
const TASK: usize = 64;
const LOGIN: usize = 5368;
const PLAY_RUN: usize = 32;
const PLAY: usize = 1648;

#[test]
fn a_session_is_as_large_as_it_is_known_to_be() {
    let sizes = [
        ("a session's task", of_future_of_two(serve), TASK),
        ("its login", of_future_of_two(before_play), LOGIN),
        ("its future in play", of_future(Play::run), PLAY_RUN),
        ("its state in play", size_of::<Play>(), PLAY),
    ];
    let changed: Vec<_> = sizes.iter().filter(|(_, now, known)| now != known).collect();
    let told = changed.iter().map(|(what, now, known)| format!("{what} has {now} bytes, not {known}"));
    let told: Vec<_> = told.collect();
    assert!(told.is_empty(), "{}: if that is as it should be, note it in this file", told.join("; "));
}

fn of_future<A, F: Future>(_: impl FnOnce(A) -> F) -> usize {
    size_of::<F>()
}

fn of_future_of_two<A, B, F: Future>(_: impl FnOnce(A, B) -> F) -> usize {
    size_of::<F>()
}
