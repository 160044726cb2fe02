//! Any line as a request, its params as an execution: read or refused, no panic, canonical text stable.

#![no_main]

use goblin_protocol::canonical::canonical;
use goblin_protocol::request::{Execution, Method, Request};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|line: &[u8]| {
    if let Ok(request) = Request::read(line) {
        let text = canonical(&Value::from(request.params.clone()));
        let again: Value = serde_json::from_str(&text).expect("canonical text is JSON");
        assert_eq!(canonical(&again), text);
        let _ = Execution::read(Method::ProcessExec, &request.params);
        let _ = Execution::read(Method::FilesystemExecute, &request.params);
    }
});
