//! Random transactions against a model: what they answer, what is there afterwards, and what a watch told of it.

use std::collections::BTreeMap;

use moonbridge_controlplane::store::{Change, Committed, Compare, Event, List, StoreRevision, Txn};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};

use crate::support::*;

const CASES: usize = 12;

type Model = BTreeMap<String, (Vec<u8>, StoreRevision)>;

#[derive(Debug, Clone)]
struct Step {
    /// Key, kind, and whether a compare of revisions is of the right one.
    compares: Vec<(u8, u8, bool)>,
    /// Key, and what is put there.
    changes: BTreeMap<u8, Option<Vec<u8>>>,
}

fn step() -> impl Strategy<Value = Step> {
    let compares = vec((0..6_u8, 0..3_u8, prop::bool::weighted(0.8)), 0..3);
    let changes = prop::collection::btree_map(0..6_u8, prop::option::weighted(0.7, vec(any::<u8>(), 0..20)), 0..5);
    (compares, changes).prop_map(|(compares, changes)| Step { compares, changes })
}

/// Deterministic: the same cases in every run. A failure prints the case's steps.
pub(crate) async fn random_transactions_match_a_model(fixture: &impl Fixture) {
    let store = &*fixture.store();
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    for case in 0..CASES {
        let prefix = format!("case-{case}/");
        let steps = vec(step(), 1..40).new_tree(&mut runner).unwrap().current();
        let context = format!("case {case}: {steps:?}");
        let from = newest(store).await + 1;
        let mut model = Model::new();
        let mut past: Vec<(StoreRevision, Model)> = Vec::new();
        let mut told = Vec::new();
        for step in steps {
            let txn = step.txn(&prefix, &model);
            let holds = txn.compares.iter().all(|compare| match compare {
                Compare::Absent(key) => !model.contains_key(key),
                Compare::Present(key) => model.contains_key(key),
                Compare::Modified(key, revision) => model.get(key).is_some_and(|(_, modified)| modified == revision),
            });
            let committed = soon(store.txn(txn.clone())).await.unwrap();
            let Committed::Yes(revision) = committed else {
                assert!(!holds, "{txn:?} in {context}");
                continue;
            };
            assert!(holds, "{txn:?} in {context}");
            for change in txn.changes {
                match change {
                    Change::Put { key, value, .. } => {
                        told.push(Event::Put(entry(&key, &value, revision)));
                        model.insert(key, (value, revision));
                    }
                    Change::Delete(key) => {
                        if model.remove(&key).is_some() {
                            told.push(Event::Delete { key, modified: revision });
                        }
                    }
                }
            }
            past.push((revision, model.clone()));
        }
        let entries = |model: &Model| model.iter().map(|(key, (value, modified))| entry(key, value, *modified)).collect::<Vec<_>>();
        assert_eq!(all(store, &prefix, 2).await, entries(&model), "{context}");
        for (at, model) in past {
            let page = soon(store.list(List { prefix: prefix.clone(), at: Some(at), ..List::default() })).await.unwrap();
            assert_eq!((page.entries, page.revision), (entries(&model), at), "{context}");
        }
        let seen = events(&mut watch(store, &prefix, from).await, told.len()).await;
        // Within a revision the order is the store's own affair (etcd: that of the changes).
        let ordered = |mut events: Vec<Event>| {
            events.sort_by_key(|event| (revision(event), format!("{event:?}")));
            events
        };
        assert_eq!(ordered(seen), ordered(told), "{context}");
    }
}

impl Step {
    fn txn(&self, prefix: &str, model: &Model) -> Txn {
        let key = |key: &u8| format!("{prefix}{key}");
        let compare = |(number, kind, right): &(u8, u8, bool)| match (kind, model.get(&key(number))) {
            (0, _) => Compare::Absent(key(number)),
            (1, _) => Compare::Present(key(number)),
            (_, Some((_, modified))) => Compare::Modified(key(number), modified - u64::from(!right)),
            (_, None) => Compare::Modified(key(number), u64::from(*right)),
        };
        let change = |(number, value): (&u8, &Option<Vec<u8>>)| match value {
            Some(value) => put_change(&key(number), value, 0),
            None => Change::Delete(key(number)),
        };
        Txn { compares: self.compares.iter().map(compare).collect(), changes: self.changes.iter().map(change).collect() }
    }
}
