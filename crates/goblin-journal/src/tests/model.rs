//! Random lives agree with a model that keeps everything in plain lists.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const CAPACITY: usize = 4;

#[derive(Clone, Debug)]
enum Act {
    Start(u8),
    Complete(u8, usize),
    Withdraw(u8),
    Wait(u64),
    Expire,
    Reopen { clean: bool },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..8u8).prop_map(Act::Start),
        6 => ((0..8u8), 0..1_500usize).prop_map(|(id, length)| Act::Complete(id, length)),
        1 => (0..8u8).prop_map(Act::Withdraw),
        3 => (0..120_000u64).prop_map(Act::Wait),
        2 => Just(Act::Expire),
        1 => any::<bool>().prop_map(|clean| Act::Reopen { clean }),
    ]
}

#[derive(Default)]
struct Model {
    completed: Vec<(String, String, u64)>,
    active: BTreeMap<String, u64>,
    unknown: BTreeMap<String, (u64, u64)>,
}

impl Model {
    fn look(&self, id: &str, now: u64) -> Lookup {
        if let Some((_, outcome, _)) = self.completed.iter().find(|it| it.0 == id && it.2 > now) {
            return Lookup::Completed {
                outcome: outcome.as_str().into(),
            };
        }
        match self.unknown.get(id) {
            Some((started_at_ms, until)) if *until > now => Lookup::Unknown {
                started_at_ms: *started_at_ms,
            },
            _ => Lookup::Free,
        }
    }
}

fn live(acts: Vec<Act>) {
    let mut place = Place::new();
    place.tuning = SMALL;
    place.options.capacity = CAPACITY;
    let mut journal = place.open(T0);
    let mut model = Model::default();
    let mut now = T0;
    for (step, act) in acts.into_iter().enumerate() {
        match act {
            Act::Start(id) => {
                let id = id.to_string();
                // The gateway starts only what is free and not active.
                if model.look(&id, now) == Lookup::Free && !model.active.contains_key(&id) {
                    journal.start(&started(&id, now), now).unwrap();
                    model.unknown.remove(&id);
                    model.active.insert(id, now);
                }
            }
            Act::Complete(id, length) => {
                let id = id.to_string();
                if model.look(&id, now) == Lookup::Free {
                    let outcome = format!("\"{step} {}\"", "x".repeat(length));
                    journal.complete(&id, &digest(&id), outcome.clone(), now).unwrap();
                    model.active.remove(&id);
                    model.unknown.remove(&id);
                    model.completed.retain(|it| it.0 != id);
                    model.completed.push((id, outcome, now + RETENTION));
                    let excess = model.completed.len().saturating_sub(CAPACITY);
                    model.completed.drain(..excess);
                }
            }
            Act::Withdraw(id) => {
                let id = id.to_string();
                if model.active.remove(&id).is_some() {
                    journal.withdraw(&id, now).unwrap();
                }
            }
            Act::Wait(time) => now += time,
            Act::Expire => {
                journal.expire(now);
                journal.settle();
            }
            Act::Reopen { clean } => {
                if clean {
                    journal.close(now).unwrap();
                }
                drop(journal);
                let opened = place.open_all(now);
                assert_eq!(opened.notices, Vec::<String>::new());
                journal = opened.journal;
                journal.settle();
                for (id, at) in std::mem::take(&mut model.active) {
                    model.unknown.insert(id, (at, now + RETENTION));
                }
                model.unknown.retain(|_, (_, until)| *until > now);
                let unfinished: Vec<String> = opened.unfinished.into_iter().map(|it| it.id).collect();
                let mut sorted = unfinished.clone();
                sorted.sort();
                assert_eq!(sorted, model.unknown.keys().cloned().collect::<Vec<_>>());
            }
        }
        for id in 0..8u8 {
            let id = id.to_string();
            assert_eq!(look(&journal, &id, now), model.look(&id, now), "{id} after step {step}");
        }
        let alive: Vec<&String> = model.completed.iter().filter(|it| it.2 > now).map(|it| &it.0).collect();
        let kept = journal.ids();
        assert_eq!(
            kept.iter()
                .filter(|id| journal.contains_completed(id, now))
                .collect::<Vec<_>>(),
            alive
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_lives_agree_with_the_model(acts in prop::collection::vec(act(), 1..80)) {
        live(acts);
    }
}
