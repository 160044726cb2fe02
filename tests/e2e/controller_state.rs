//! The controller's state as an operator handles it: copied while it serves and brought back, held by one controller at
//! a time, and on a disk that is full.

use crate::PROGRAM;
use crate::controlled::{Controller, Killed, controller_command, free_port, gateway};
use serde_json::json;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a command of the controller's on a state directory.
fn task(words: &[&str], directory: &Path) -> Output {
    Command::new(PROGRAM)
        .arg("controller")
        .args(words)
        .arg("--state-dir")
        .arg(directory)
        .output()
        .unwrap()
}

fn fails(output: &Output, with: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains(with) && output.stdout.is_empty(), "{errors}");
}

/// A controller with an approved gateway.
fn scene(folder: &Path, port: u16) -> (Controller, Killed) {
    let controller = Controller::start(&folder.join("controller"), port);
    let gateway = gateway("host-1", port, &folder.join("gateway"));
    controller.api().approve("host-1");
    controller.api().ready(&["host-1"]);
    (controller, gateway)
}

#[test]
fn a_copy_made_while_it_serves_brings_the_controller_back() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, port) = (folder.path().join("controller"), free_port());
    let (mut controller, _gateway) = scene(folder.path(), port);
    let copy = folder.path().join("copy.db");
    let copy_text = copy.to_str().unwrap();
    std::thread::scope(|scope| {
        let api = controller.api().clone();
        let load = scope.spawn(move || {
            (0..100).for_each(|turn| {
                let (status, answer) = api.shell("host-1", &format!("op-{turn}"), "true").unwrap();
                assert_eq!((status, &answer["dispatch"]["response"]["ok"]), (200, &json!(true)));
            });
        });
        let output = task(&["backup", copy_text], &directory);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("key") && told.contains("not in it"), "{told}");
        load.join().unwrap();
    });
    fails(&task(&["backup", copy_text], &directory), "copy.db");
    fails(
        &task(&["backup", copy_text], &folder.path().join("nothing")),
        "there is no store",
    );
    fails(
        &task(&["restore", copy_text], &directory),
        "in use by another controller",
    );
    controller.process.kill();
    fails(&task(&["restore", copy_text], &directory), "nothing was changed");

    // Elsewhere, under its key, it is the same controller: the gateway comes back without a new approval.
    let other = folder.path().join("other");
    fails(&task(&["restore", copy_text], &other), "secrets.key");
    std::fs::copy(directory.join("secrets.key"), other.join("secrets.key")).unwrap();
    let output = task(&["restore", copy_text], &other);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let controller = Controller::start(&other, port);
    controller.api().ready(&["host-1"]);
    let (status, answer) = controller.api().shell("host-1", "after", "echo back").unwrap();
    assert_eq!(
        (status, &answer["dispatch"]["response"]["result"]["outcome"]["stdout"]),
        (200, &json!("back\n"))
    );
}

#[test]
fn a_second_controller_on_one_directory_is_refused_and_the_first_serves_on() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("controller");
    let controller = Controller::start(&directory, 0);
    let second = controller_command(&directory, 0)
        .env("RUST_LOG", "off")
        .output()
        .unwrap();
    fails(
        &second,
        &format!("in use by another controller (process {})", controller.process.0.id()),
    );
    let (status, _) = controller.api().call("GET", "/gateways", None).unwrap();
    assert_eq!(status, 200);
}

/// Starts a controller whose files may not grow beyond this: writing more fails, as on a full disk.
fn start_limited(directory: &Path, port: u16, half_kib: u32) -> Controller {
    let inner = controller_command(directory, port);
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("trap '' XFSZ; ulimit -f {half_kib}; exec \"$0\" \"$@\"")])
        .arg(inner.get_program())
        .args(inner.get_args());
    Controller::start_by(command, directory)
}

#[test]
fn on_a_full_disk_calls_fail_and_the_controller_lives() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, port) = (folder.path().join("controller"), free_port());
    let (mut controller, _gateway) = scene(folder.path(), port);
    controller.process.kill();
    let mut controller = start_limited(&directory, port, 4000);
    let api = controller.api().clone();
    api.ready(&["host-1"]);
    let enrol = |number: u32| {
        let body = json!({"secret": "x".repeat(500_000)});
        api.call("PUT", &format!("/gateway-trust/big-{number}"), Some(&body))
            .unwrap()
    };
    let listed = |api: &crate::controlled::Api| {
        let (status, listing) = api.call("GET", "/gateway-trust", None).unwrap();
        assert_eq!(status, 200);
        let ids = listing["gateways"].as_array().unwrap().iter();
        ids.map(|it| it["gatewayId"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let mut expected = vec!["host-1".to_owned()];
    // A refusal may make room, since the log is folded into the file then; after three in a row nothing fits any more.
    let mut refused = 0;
    for number in 0.. {
        assert!(number < 40, "the bound is real");
        let (status, answer) = enrol(number);
        if status == 200 {
            expected.push(format!("big-{number}"));
            refused = 0;
        } else {
            assert_eq!(
                (status, &answer["error"]),
                (503, &json!("store_unavailable")),
                "{answer}"
            );
            refused += 1;
        }
        assert_eq!(listed(&api), expected, "nothing half-written");
        if refused == 3 {
            break;
        }
    }
    // Whatever is refused now did not run, and what is answered did.
    let mark = folder.path().join("ran");
    let mut ran = 0;
    for turn in 0..40 {
        let (status, answer) = api
            .shell("host-1", &format!("op-{turn}"), &format!("echo >> {}", mark.display()))
            .unwrap();
        match status {
            200 => ran += 1,
            _ => assert_eq!((status, &answer["error"]), (503, &json!("store_unavailable"))),
        }
    }
    assert_eq!(std::fs::read(&mark).unwrap_or_default().len(), ran);
    controller.process.kill();

    let controller = Controller::start(&directory, port);
    controller.api().ready(&["host-1"]);
    assert_eq!(listed(controller.api()), expected);
    let (status, _) = controller.api().shell("host-1", "after", "true").unwrap();
    assert_eq!(status, 200);
}
