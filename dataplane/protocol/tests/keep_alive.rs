//! The keep-alive ledger, against a plain list.

use moonbridge_protocol::keep_alive::{Answer, Asker, Ledger, MAX_OUTSTANDING};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Ask(Asker, i64),
    /// The answer to one of the outstanding questions, in any order.
    Answer(prop::sample::Index),
    /// An answer to nothing that was asked, or asked long ago.
    AnswerUnasked(i64),
    TakeOver(Asker),
}

fn asker() -> impl Strategy<Value = Asker> {
    prop_oneof![(0..3u32).prop_map(Asker::Backend), Just(Asker::Node)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        // Few ids, so that backends often ask with equal ones.
        8 => (asker(), prop_oneof![0..3i64, any::<i64>()]).prop_map(|(asker, id)| Step::Ask(asker, id)),
        4 => any::<prop::sample::Index>().prop_map(Step::Answer),
        1 => prop_oneof![Just(0), -5..200i64, any::<i64>()].prop_map(Step::AnswerUnasked),
        1 => asker().prop_map(Step::TakeOver),
    ]
}

proptest! {
    #[test]
    fn every_answer_reaches_the_asker_with_the_id_it_asked_with(steps in prop::collection::vec(step(), 0..400)) {
        let mut ledger = Ledger::default();
        let mut model: Vec<(i64, Asker, i64)> = Vec::new();
        let mut last = 0;
        for step in steps {
            match step {
                Step::Ask(asker, id) => {
                    let asked_as = ledger.ask(asker, id);
                    last = asked_as;
                    prop_assert!((1..=i64::from(i32::MAX)).contains(&asked_as));
                    prop_assert!(model.iter().all(|(outstanding, ..)| *outstanding != asked_as));
                    if model.len() == MAX_OUTSTANDING {
                        model.remove(0);
                    }
                    model.push((asked_as, asker, id));
                }
                Step::Answer(index) if !model.is_empty() => {
                    let (asked_as, asker, id) = model.remove(index.index(model.len()));
                    prop_assert_eq!(ledger.answer(asked_as), Answer::To(asker, id));
                    prop_assert_eq!(ledger.answer(asked_as), Answer::Late, "answered twice");
                }
                Step::Answer(_) => prop_assert_eq!(ledger.answer(1), Answer::Unasked),
                Step::AnswerUnasked(id) => {
                    if model.iter().all(|(outstanding, ..)| *outstanding != id) {
                        let ours = (i64::from(1 << 30)..=last).contains(&id);
                        prop_assert_eq!(ledger.answer(id), if ours { Answer::Late } else { Answer::Unasked });
                    }
                }
                Step::TakeOver(asker) => {
                    let waiting: Vec<i64> = ledger.take_over(asker).collect();
                    let expected: Vec<i64> = model.iter().filter(|question| question.1 == asker).map(|question| question.2).collect();
                    prop_assert_eq!(waiting, expected);
                    model.iter_mut().filter(|question| question.1 == asker).for_each(|question| question.1 = Asker::Node);
                }
            }
            prop_assert_eq!(ledger.outstanding(), model.len());
        }
    }
}

#[test]
fn the_oldest_question_beyond_the_bound_is_forgotten() {
    let mut ledger = Ledger::default();
    let asked: Vec<i64> = (0..MAX_OUTSTANDING as i64 + 1).map(|id| ledger.ask(Asker::Backend(1), id)).collect();
    assert_eq!(ledger.outstanding(), MAX_OUTSTANDING);
    assert_eq!(ledger.answer(asked[0]), Answer::Late);
    assert_eq!(ledger.answer(asked[1]), Answer::To(Asker::Backend(1), 1));
}

#[test]
fn a_sign_of_life_is_nobodys_answer() {
    let mut ledger = Ledger::default();
    assert_eq!(ledger.answer(0), Answer::Unasked);
    ledger.ask(Asker::Backend(7), 0);
    assert_eq!(ledger.answer(0), Answer::Unasked, "0 is never asked with");
}
