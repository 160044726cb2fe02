//! The controller is killed at random moments under load, over and over. Its store always opens, no trust record is
//! half-written, every approved gateway comes back, every operation is afterwards terminal or shown as unresolved, and
//! repeating an unresolved one never runs it twice.
//!
//! `GOBLIN_KILL_ROUNDS` sets the number of rounds.

use crate::controlled::{Api, Controller, Killed, controller_command, free_port, gateway};
use aws_lc_rs::rand;
use goblin_ports::{
    GatewayRecord, OperationFilter, OperationState, Operations, Secrets, SettingsExt, TrustMethod, secret, setting,
};
use goblin_store::Store;
use goblin_testkit::eventually;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ROUNDS: u32 = 40;
const GATEWAYS: [&str; 2] = ["host-0", "host-1"];
const NOW: &str = "2026-12-01T00:00:00.000Z";

/// What the clients know: each list grows only.
#[derive(Default)]
struct Known {
    /// Operations that were sent, with their gateway.
    sent: BTreeMap<String, &'static str>,
    /// Those of them that were answered.
    answered: BTreeSet<String>,
    /// Gateways whose enrolment was confirmed.
    enrolled: BTreeSet<String>,
    /// Gateways whose revocation was confirmed.
    revoked: BTreeSet<String>,
}

type Shared = Arc<Mutex<Known>>;

fn random_below(bound: u64) -> u64 {
    let mut bytes = [0; 8];
    rand::fill(&mut bytes).unwrap();
    u64::from_le_bytes(bytes) % bound
}

/// Lets a while pass: the moment of a kill is the one thing here that no event announces.
fn pass(span: Duration) {
    let (_held, never) = channel::<()>();
    assert_eq!(never.recv_timeout(span), Err(RecvTimeoutError::Timeout));
}

struct Scene {
    folder: tempfile::TempDir,
    port: u16,
    known: Shared,
}

impl Scene {
    fn directory(&self) -> PathBuf {
        self.folder.path().join("controller")
    }

    /// Each operation leaves one line with its id here.
    fn marks(&self) -> PathBuf {
        self.folder.path().join("marks")
    }

    fn command(&self, operation_id: &str) -> String {
        format!("echo {operation_id} >> {}", self.marks().display())
    }

    fn runs(&self) -> BTreeMap<String, u32> {
        let mut runs = BTreeMap::new();
        for line in std::fs::read_to_string(self.marks()).unwrap_or_default().lines() {
            *runs.entry(line.to_owned()).or_default() += 1;
        }
        runs
    }

    /// Works until the controller is gone.
    fn load(&self, round: u32, worker: usize, api: Api) {
        let gateway_id = GATEWAYS[worker % GATEWAYS.len()];
        for turn in 0_u32.. {
            let id = format!("op-{round}-{worker}-{turn}");
            self.known.lock().unwrap().sent.insert(id.clone(), gateway_id);
            match api.shell(gateway_id, &id, &self.command(&id)) {
                // The gateway may still be on its way; nothing was sent then.
                Ok((503, _)) => {}
                Ok((200, answer)) => {
                    assert_eq!(answer["dispatch"]["response"]["ok"], true, "{answer}");
                    self.known.lock().unwrap().answered.insert(id);
                }
                Ok((status, answer)) => panic!("{status}: {answer}"),
                Err(_) => return,
            }
        }
    }

    /// Changes trust until the controller is gone.
    fn enrol(&self, round: u32, api: Api) {
        for turn in 0_u32.. {
            let id = format!("extra-{round}-{turn}");
            let path = format!("/gateway-trust/{id}");
            match api.call("PUT", &path, Some(&json!({"secret": id}))) {
                Ok((200, _)) => self.known.lock().unwrap().enrolled.insert(id.clone()),
                Ok((status, answer)) => panic!("{status}: {answer}"),
                Err(_) => return,
            };
            // Half of them are shut out again.
            if turn % 2 == 0 {
                // Not confirmed yet: it may be either.
                self.known.lock().unwrap().enrolled.remove(&id);
                match api.call("DELETE", &path, None) {
                    Ok((200, _)) => self.known.lock().unwrap().revoked.insert(id),
                    Ok((status, answer)) => panic!("{status}: {answer}"),
                    Err(_) => return,
                };
            }
        }
    }

    /// Looks at what the killed controller left; gives the operations that are shown as unresolved.
    async fn look(&self) -> Vec<String> {
        let store = Store::open(&self.directory(), None, NOW)
            .await
            .expect("the store opens");
        let records: Vec<GatewayRecord> = store.get_as(setting::GATEWAYS).await.unwrap().unwrap();
        let by_id: BTreeMap<_, _> = records.iter().map(|it| (it.gateway_id.as_str(), it)).collect();
        assert_eq!(by_id.len(), records.len(), "one record a gateway");
        for record in &records {
            assert_ne!(record.approved, record.revoked, "{record:?}");
            match record.method {
                Some(TrustMethod::Hmac) => {
                    let stored = Secrets::get(&store, &secret::gateway(&record.gateway_id))
                        .await
                        .unwrap();
                    assert_eq!(stored.unwrap().expose(), record.gateway_id);
                }
                Some(TrustMethod::Ed25519) => {
                    let stored = Secrets::get(&store, &secret::gateway_public_key(&record.gateway_id)).await;
                    assert!(stored.unwrap().unwrap().expose().contains("PUBLIC KEY"));
                }
                None => assert!(record.revoked),
            }
        }
        let unresolved = OperationFilter::newest(usize::MAX).in_state(OperationState::Dispatching);
        let unresolved = store.list(unresolved).await.unwrap();
        let settled = OperationFilter::newest(usize::MAX).in_state(OperationState::Terminal);
        let settled = store.list(settled).await.unwrap();
        store.close().await;

        let known = self.known.lock().unwrap();
        assert!(known.enrolled.iter().all(|id| by_id[id.as_str()].trusted()));
        assert!(known.revoked.iter().all(|id| by_id[id.as_str()].revoked));
        assert!(GATEWAYS.iter().all(|id| by_id[id].trusted()));
        for record in &unresolved {
            assert!(known.sent.contains_key(&record.operation_id));
            assert!(
                !known.answered.contains(&record.operation_id),
                "an end that a client saw is on record: {record:?}"
            );
        }
        for record in &settled {
            assert!(record.terminal_reference.is_some(), "{record:?}");
        }
        unresolved.into_iter().map(|record| record.operation_id).collect()
    }
}

/// Repeats what was left open, and sees each settled.
fn settle(scene: &Scene, api: &Api, unresolved: &[String]) {
    for id in unresolved {
        let gateway_id = scene.known.lock().unwrap().sent[id];
        eventually("the operation is settled", || {
            let (status, answer) = api.shell(gateway_id, id, &scene.command(id)).unwrap();
            assert_eq!(status, 200, "{answer}");
            let response = &answer["dispatch"]["response"];
            // It may still run.
            (response["error"]["code"] != "operation_in_progress").then(|| assert_eq!(response["ok"], true, "{answer}"))
        });
    }
}

fn start_and_kill_early(scene: &Scene) {
    let mut command = controller_command(&scene.directory(), scene.port);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut starting = Killed(child);
    pass(Duration::from_millis(random_below(60)));
    starting.kill();
}

fn rounds() -> u32 {
    let given = std::env::var("GOBLIN_KILL_ROUNDS").ok();
    given.map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"))
}

fn connect(scene: &Scene) -> [Killed; 2] {
    let mut controller = Controller::start(&scene.directory(), scene.port);
    let gateways = GATEWAYS.map(|id| gateway(id, scene.port, &scene.folder.path().join(id)));
    for id in GATEWAYS {
        controller.api().approve(id);
    }
    controller.api().ready(&GATEWAYS);
    controller.process.kill();
    gateways
}

#[test]
fn killed_at_random_moments_it_forgets_nothing_it_promised() {
    let scene = Scene {
        folder: tempfile::tempdir().unwrap(),
        port: free_port(),
        known: Shared::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let _gateways = connect(&scene);
    let (mut unresolved, mut repeated) = (Vec::new(), BTreeSet::new());
    for round in 0..rounds() {
        if round % 4 == 3 {
            start_and_kill_early(&scene);
            runtime.block_on(scene.look());
        }
        let mut controller = Controller::start(&scene.directory(), scene.port);
        let api = controller.api().clone();
        api.ready(&GATEWAYS);
        settle(&scene, &api, &unresolved);
        repeated.extend(unresolved);
        std::thread::scope(|scope| {
            for worker in 0..3 {
                let (scene, api) = (&scene, api.clone());
                scope.spawn(move || scene.load(round, worker, api));
            }
            let (scene, api) = (&scene, api.clone());
            scope.spawn(move || scene.enrol(round, api));
            pass(Duration::from_millis(5 + random_below(200)));
            controller.process.kill();
        });
        unresolved = runtime.block_on(scene.look());
    }
    let controller = Controller::start(&scene.directory(), scene.port);
    controller.api().ready(&GATEWAYS);
    settle(&scene, controller.api(), &unresolved);
    repeated.extend(unresolved);
    drop(controller);
    assert_eq!(runtime.block_on(scene.look()), Vec::<String>::new());

    let (known, runs) = (scene.known.lock().unwrap(), scene.runs());
    assert!(runs.values().all(|runs| *runs == 1), "nothing ran twice");
    for id in known.answered.iter().chain(&repeated) {
        assert_eq!(runs.get(id), Some(&1), "{id}");
    }
    assert!(
        !repeated.is_empty() && known.answered.len() > repeated.len(),
        "there was load"
    );
    println!(
        "{} operations answered, {} left open and settled by a repetition, {} enrolments",
        known.answered.len(),
        repeated.len(),
        known.enrolled.len() + known.revoked.len()
    );
}
