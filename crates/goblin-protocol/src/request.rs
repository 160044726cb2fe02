//! Requests: one frame read into a typed request, or into the protocol error that answers it.

use crate::code::Code;
use crate::id::{self, Params, RequestId};
use crate::json;
use crate::process::ProcessRequest;
use crate::trace::TraceContext;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, value::RawValue};
use zeroize::Zeroizing;

/// The methods of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Name, version, protocol, transport.
    Hello,
    /// Status and active operations.
    Health,
    /// Run-time configuration of telemetry.
    TelemetryConfigure,
    /// Runs a process.
    ProcessExec,
    /// Runs a filesystem tool.
    FilesystemExecute,
    /// Cancels an operation.
    Cancel,
    /// Ends the daemon.
    Shutdown,
}

impl Method {
    const ALL: [Method; 7] = [
        Self::Hello,
        Self::Health,
        Self::TelemetryConfigure,
        Self::ProcessExec,
        Self::FilesystemExecute,
        Self::Cancel,
        Self::Shutdown,
    ];

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::Health => "health",
            Self::TelemetryConfigure => "telemetry.configure",
            Self::ProcessExec => "process.exec",
            Self::FilesystemExecute => "filesystem.execute",
            Self::Cancel => "cancel",
            Self::Shutdown => "shutdown",
        }
    }

    /// The method of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }
}

/// A well-formed request.
#[derive(Debug)]
pub struct Request {
    /// What the answer repeats as `requestId`.
    pub id: RequestId,
    /// What is asked for.
    pub method: Method,
    /// Its parameters; empty when there are none.
    pub params: Params,
}

/// A frame that is no request: what the protocol error says.
#[derive(Debug, PartialEq, Eq)]
pub struct NotARequest {
    /// The id, as far as it could be recognised.
    pub id: RequestId,
    /// Why.
    pub code: Code,
}

impl Request {
    /// Reads one frame.
    pub fn read(frame: &[u8]) -> Result<Self, NotARequest> {
        let invalid = |text: &str| {
            let id = json::salvage_id(text)
                .and_then(RequestId::from_json)
                .filter(|id| !id.as_json().contains('\u{fffd}'));
            NotARequest {
                id: id.unwrap_or_else(RequestId::null),
                code: Code::InvalidJson,
            }
        };
        let text = std::str::from_utf8(frame).map_err(|_| invalid(&String::from_utf8_lossy(frame)))?;
        if json::too_deep(frame) {
            return Err(invalid(text));
        }
        // Two readings at most: as it is, and repaired.
        let repaired;
        let envelope = match serde_json::from_str::<Envelope>(text) {
            Ok(envelope) => envelope,
            Err(_) => {
                repaired = json::repair(text);
                serde_json::from_str::<Envelope>(&repaired).map_err(|_| invalid(text))?
            }
        };
        let message = |id| NotARequest {
            id,
            code: Code::InvalidMessage,
        };
        let Envelope::Object { id, method, params } = envelope else {
            return Err(message(RequestId::null()));
        };
        let id = match id {
            None => RequestId::null(),
            Some(raw) => RequestId::from_json(raw.get()).ok_or_else(|| message(RequestId::null()))?,
        };
        let params = match params.map(|raw| json::from_text::<Value>(raw.get())) {
            None | Some(Ok(Value::Null)) => Params::new(),
            Some(Ok(Value::Object(params))) => params,
            Some(_) => return Err(message(id)),
        };
        let method = method
            .and_then(|raw| json::from_text::<String>(raw.get()).ok())
            .and_then(|name| Method::parse(&name));
        match method {
            Some(method) => Ok(Self { id, method, params }),
            None => Err(NotARequest {
                id,
                code: Code::UnknownMethod,
            }),
        }
    }
}

/// The members of a request as they stand in the text; the last of duplicates counts.
enum Envelope<'a> {
    Object {
        id: Option<&'a RawValue>,
        method: Option<&'a RawValue>,
        params: Option<&'a RawValue>,
    },
    Other,
}

impl<'de> Deserialize<'de> for Envelope<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EnvelopeVisitor;

        impl<'de> Visitor<'de> for EnvelopeVisitor {
            type Value = Envelope<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a request")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope<'de>, A::Error> {
                let (mut id, mut method, mut params) = (None, None, None);
                while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
                    match key.as_ref() {
                        "id" => id = Some(map.next_value()?),
                        "method" => method = Some(map.next_value()?),
                        "params" => params = Some(map.next_value()?),
                        _ => _ = map.next_value::<IgnoredAny>()?,
                    }
                }
                Ok(Envelope::Object { id, method, params })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Envelope<'de>, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Envelope::Other)
            }

            fn visit_unit<E>(self) -> Result<Envelope<'de>, E> {
                Ok(Envelope::Other)
            }

            fn visit_bool<E>(self, _: bool) -> Result<Envelope<'de>, E> {
                Ok(Envelope::Other)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Envelope<'de>, E> {
                Ok(Envelope::Other)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Envelope<'de>, E> {
                Ok(Envelope::Other)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Envelope<'de>, E> {
                Ok(Envelope::Other)
            }

            fn visit_str<E>(self, _: &str) -> Result<Envelope<'de>, E> {
                Ok(Envelope::Other)
            }
        }
        deserializer.deserialize_any(EnvelopeVisitor)
    }
}

/// Why an execution request is refused before it is accepted: a response with `ok:false`.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason.
    pub code: Code,
    /// The operation, as far as it has a valid id.
    pub operation_id: Option<String>,
}

/// What an execution request asks for.
#[derive(Debug, PartialEq)]
pub enum Work {
    /// `process.exec`.
    Process(Box<ProcessRequest>),
    /// `filesystem.execute`.
    Filesystem {
        /// The tool's name, known or not.
        tool: String,
        /// The tool's arguments, unchecked.
        arguments: Params,
    },
}

/// An execution request whose params keep every rule but that of protected values.
#[derive(Debug)]
pub struct Execution {
    /// The operation.
    pub operation_id: String,
    /// Tells equal requests from others, see [`id::request_digest`].
    pub digest: String,
    /// What to run.
    pub work: Work,
    /// Trace context, for spans alone.
    pub trace: Option<TraceContext>,
}

impl Execution {
    /// Reads the params of an execution method, in the documented order of checks.
    pub fn read(method: Method, params: &Params) -> Result<Self, Refusal> {
        let operation_id = id::operation_id(method.name(), params).map_err(|code| Refusal {
            code,
            operation_id: None,
        })?;
        let refuse = |code| Refusal {
            code,
            operation_id: Some(operation_id.clone()),
        };
        let work = match method {
            Method::FilesystemExecute => Work::Filesystem {
                tool: params
                    .get("tool")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned(),
                arguments: params
                    .get("arguments")
                    .and_then(Value::as_object)
                    .cloned()
                    .unwrap_or_default(),
            },
            _ => Work::Process(Box::new(ProcessRequest::from_params(params).map_err(refuse)?)),
        };
        let trace = match params.get("traceContext") {
            None | Some(Value::Null) => None,
            Some(value) => Some(TraceContext::from_value(value).ok_or_else(|| refuse(Code::TraceContextInvalid))?),
        };
        let digest = id::request_digest(method.name(), params);
        Ok(Self {
            operation_id,
            digest,
            work,
            trace,
        })
    }
}

/// What binds protected values to one request of one authenticated connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryBinding {
    /// The gateway's id.
    pub gateway_id: String,
    /// The connection, as `auth.ok` named it.
    pub connection_id: String,
    /// The request's id, as plain text.
    pub request_id: String,
    /// The operation.
    pub operation_id: String,
}

/// One-shot secrets for a process's environment. They print nothing and are wiped when dropped.
pub type ProtectedValues = Vec<(String, Zeroizing<String>)>;

/// Takes the protected values out of a request's params; `None` when it brings none.
/// `binding` is that of the connection, absent where none may be delivered (stdio, filesystem tools).
pub fn take_protected_values(
    params: &mut Params,
    binding: Option<&DeliveryBinding>,
) -> Result<Option<ProtectedValues>, Code> {
    let values = params.remove("protectedValues").filter(|value| !value.is_null());
    let delivery = params.remove("protectedDelivery").filter(|value| !value.is_null());
    if values.is_none() && delivery.is_none() {
        return Ok(None);
    }
    let taken = match values {
        Some(Value::Object(members)) => members
            .into_iter()
            .map(|(name, value)| match value {
                Value::String(text) => (name, Zeroizing::new(text)),
                _ => (name, Zeroizing::default()),
            })
            .collect(),
        _ => Vec::new(),
    };
    let names_and_values_hold = !taken.is_empty()
        && taken
            .iter()
            .all(|(name, value)| valid_name(name) && !value.is_empty() && !value.contains('\0'));
    let bound = match (binding, &delivery) {
        (Some(binding), Some(delivery)) => serde_json::to_value(binding).is_ok_and(|expected| expected == *delivery),
        _ => false,
    };
    if names_and_values_hold && bound {
        Ok(Some(taken))
    } else {
        Err(Code::ProtectedDeliveryBindingInvalid)
    }
}

/// `[A-Za-z_][A-Za-z0-9_]*`
fn valid_name(name: &str) -> bool {
    name.bytes()
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn error(frame: &str) -> (String, Code) {
        let error = Request::read(frame.as_bytes()).unwrap_err();
        (error.id.as_json().to_owned(), error.code)
    }

    #[test]
    fn a_request_is_read_whatever_surrounds_it() {
        let request = Request::read(
            br#" { "x" : [1], "params" : {"a":1,"a":2} , "method":"no", "method" : "health", "id": 1.0 } "#,
        )
        .unwrap();
        assert_eq!((request.id.as_json(), request.method), ("1", Method::Health));
        assert_eq!(Value::from(request.params), json!({"a": 2}));
        assert!(Request::read(br#"{"method":"hello"}"#).unwrap().params.is_empty());
        assert!(Request::read(br#"{"method":"hello","params":null}"#).is_ok());
        let odd = Request::read(
            br#"{"id":"\ud83d","method":"process.exec","params":{"command":"\udc00","n":1E400,"\ud800":1}}"#,
        )
        .unwrap();
        assert_eq!(
            Value::from(odd.params),
            json!({"command": "\u{fffd}", "n": null, "\u{fffd}": 1})
        );
        assert_eq!(odd.id.plain(), "\u{fffd}");
    }

    #[test]
    fn what_is_no_request_gets_its_documented_code() {
        for (frame, id, code) in [
            ("not json at all", "null", Code::InvalidJson),
            (r#"{"id":"x1","meth"#, "\"x1\"", Code::InvalidJson),
            (r#"{"id":7,"method":"health"} x"#, "7", Code::InvalidJson),
            ("42", "null", Code::InvalidMessage),
            ("1E400", "null", Code::InvalidMessage),
            ("-1.5", "null", Code::InvalidMessage),
            ("null", "null", Code::InvalidMessage),
            ("true", "null", Code::InvalidMessage),
            (r#""hello\ud800""#, "null", Code::InvalidMessage),
            ("[1,[2]]", "null", Code::InvalidMessage),
            (r#"{"id":[],"method":"health"}"#, "null", Code::InvalidMessage),
            (r#"{"id":{},"method":"health"}"#, "null", Code::InvalidMessage),
            (r#"{"id":1,"method":"health","params":[]}"#, "1", Code::InvalidMessage),
            (r#"{"id":1,"method":"health","params":"x"}"#, "1", Code::InvalidMessage),
            (r#"{"id":1}"#, "1", Code::UnknownMethod),
            (r#"{"id":1,"method":5}"#, "1", Code::UnknownMethod),
            (r#"{"id":1,"method":"Health"}"#, "1", Code::UnknownMethod),
        ] {
            assert_eq!(error(frame), (id.to_owned(), code), "{frame}");
        }
        let long = format!(r#"{{"id":"{}","method":"health"}}"#, "x".repeat(1025));
        assert_eq!(error(&long), ("null".to_owned(), Code::InvalidMessage));
        let not_utf8 = Request::read(b"{\"id\":\"a\",\"method\":\"\xff\"}").unwrap_err();
        assert_eq!((not_utf8.id.as_json(), not_utf8.code), ("\"a\"", Code::InvalidJson));
        assert_eq!(Request::read(b"{\"id\":\"\xff\"}").unwrap_err().id, RequestId::null());
    }

    #[test]
    fn nesting_is_bounded_at_128() {
        let nested = |n: usize| {
            format!(
                r#"{{"id":"deep","method":"health","params":{{"x":{}{}}}}}"#,
                "[".repeat(n),
                "]".repeat(n)
            )
        };
        assert!(Request::read(nested(126).as_bytes()).is_ok());
        assert_eq!(error(&nested(127)), ("\"deep\"".to_owned(), Code::InvalidJson));
        assert_eq!(error(&nested(10_000)), ("\"deep\"".to_owned(), Code::InvalidJson));
        assert_eq!(error(&"[".repeat(100_000)), ("null".to_owned(), Code::InvalidJson));
    }

    #[test]
    fn an_execution_is_checked_in_order() {
        let read = |value: Value| Execution::read(Method::ProcessExec, value.as_object().unwrap());
        let code = |value| read(value).map(|_| ()).map_err(|refusal| refusal.code);
        assert_eq!(
            code(json!({"operationId": true, "command": 5})),
            Err(Code::OperationIdInvalid)
        );
        assert_eq!(
            code(json!({"command": 5, "traceContext": 1})),
            Err(Code::CommandInvalid)
        );
        assert_eq!(
            read(json!({"operationId": "a", "command": "x", "traceContext": 1})).unwrap_err(),
            Refusal {
                code: Code::TraceContextInvalid,
                operation_id: Some("a".into())
            }
        );
        let tool = Execution::read(
            Method::FilesystemExecute,
            json!({"operationId": "a", "tool": 5, "arguments": []})
                .as_object()
                .unwrap(),
        )
        .unwrap();
        assert_eq!(
            tool.work,
            Work::Filesystem {
                tool: String::new(),
                arguments: Params::new()
            }
        );
    }

    #[test]
    fn protected_values_need_the_binding_of_their_request() {
        let binding = DeliveryBinding {
            gateway_id: "g".into(),
            connection_id: "c".into(),
            request_id: "7".into(),
            operation_id: "o".into(),
        };
        let right = serde_json::to_value(&binding).unwrap();
        let take = |values: Value, delivery: Value, binding| {
            let mut params = json!({"command": "x", "protectedValues": values, "protectedDelivery": delivery})
                .as_object()
                .unwrap()
                .clone();
            let taken = take_protected_values(&mut params, binding);
            assert_eq!(Value::from(params), json!({"command": "x"}));
            taken
        };
        let taken = take(json!({"TOKEN": "s", "_a1": "t"}), right.clone(), Some(&binding))
            .unwrap()
            .unwrap();
        assert_eq!(taken.len(), 2);
        assert_eq!(take(Value::Null, Value::Null, None), Ok(None));
        let mut other = right.clone();
        other["requestId"] = json!("8");
        let mut more = right.clone();
        more["extra"] = json!(1);
        for (values, delivery, bound) in [
            (json!({"T": "s"}), right.clone(), None),
            (json!({"T": "s"}), Value::Null, Some(&binding)),
            (json!({"T": "s"}), other, Some(&binding)),
            (json!({"T": "s"}), more, Some(&binding)),
            (Value::Null, right.clone(), Some(&binding)),
            (json!({}), right.clone(), Some(&binding)),
            (json!({"T": ""}), right.clone(), Some(&binding)),
            (json!({"T": 5}), right.clone(), Some(&binding)),
            (json!({"T": "a\0"}), right.clone(), Some(&binding)),
            (json!({"1T": "s"}), right.clone(), Some(&binding)),
            (json!({"": "s"}), right.clone(), Some(&binding)),
            (json!(["s"]), right.clone(), Some(&binding)),
        ] {
            assert_eq!(
                take(values, delivery, bound),
                Err(Code::ProtectedDeliveryBindingInvalid)
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Request::read(&bytes);
        }

        #[test]
        fn any_json_like_text_is_read_or_refused(text in r#"(\{|\}|\[|\]|"id"|"method"|"health"|"params"|"process.exec"|:|,|"|\\|\\ud83d|\\u0000|null|true|-1E400|1e999|0\.5| |é){0,40}"#) {
            if let Ok(request) = Request::read(text.as_bytes()) {
                let _ = Execution::read(Method::ProcessExec, &request.params);
                let _ = Execution::read(Method::FilesystemExecute, &request.params);
            }
        }
    }
}
