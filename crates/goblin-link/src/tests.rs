//! Both authentication machines against each other, and the driver over pairs in memory.

use crate::controller_auth::{ControllerAuth, Evidence, auth_ok, pairing_pending};
use crate::gateway_auth::{Credential, Expectations, Failure, GatewayAuth, Pins, Progress};
use crate::{Closed, FrameReader, QUEUE_BYTES, Received, start_writer};
use bytes::Bytes;
use goblin_keys::fingerprint::Fingerprint;
use goblin_keys::pair::KeyPair;
use goblin_keys::random;
use goblin_keys::tls::{Leaf, Standing};
use goblin_protocol::Code;
use goblin_protocol::auth::GatewayMetadata;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use zeroize::Zeroizing;

fn leaf(standing: Standing) -> Leaf {
    Leaf {
        fingerprint: Fingerprint::of_der(b"the controller's certificate"),
        standing,
    }
}

fn expectations() -> Expectations {
    Expectations {
        gateway_id: "worker-01".into(),
        controller_id: "controller".into(),
        credential: Credential::Pairing(Arc::new(KeyPair::generate().unwrap())),
        metadata: GatewayMetadata {
            name: Some("burrow-host-gateway".into()),
            version: Some("1".into()),
            protocol_version: Some("1.0".into()),
        },
        pinned_key: None,
        expected_leaf: None,
        allow_unproven: false,
    }
}

/// Both ends up to the gateway's verdict on the challenge.
struct Meeting {
    controller: ControllerAuth,
    gateway: GatewayAuth,
    pair: KeyPair,
    challenge: Value,
}

impl Meeting {
    fn new(expectations: Expectations, standing: Standing) -> Self {
        Self::with_key(KeyPair::generate().unwrap(), expectations, standing)
    }

    fn with_key(pair: KeyPair, expectations: Expectations, standing: Standing) -> Self {
        let leaf = leaf(standing);
        let (controller, challenge) = ControllerAuth::new(random::nonce().unwrap(), &pair, &leaf.fingerprint);
        let challenge = serde_json::from_slice(&challenge).unwrap();
        Self {
            controller,
            gateway: GatewayAuth::new(expectations, leaf),
            pair,
            challenge,
        }
    }

    fn answer(&mut self) -> Result<Value, Failure> {
        match self.gateway.receive(self.challenge.to_string().as_bytes())? {
            Progress::Answer(frame) => Ok(serde_json::from_slice(&frame).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    fn refusal(mut self) -> Code {
        match self.answer() {
            Err(Failure::Refused(code)) => code,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_new_host_pairs_and_learns_what_to_pin() {
    let mut meeting = Meeting::new(expectations(), Standing::Unproven);
    let answer = meeting.answer().unwrap();
    let claim = meeting.controller.receive(answer.to_string().as_bytes()).unwrap();
    let Evidence::Key(offer) = &claim.evidence else {
        panic!("{claim:?}")
    };
    assert_eq!(answer["pairingCode"], json!(offer.code.short));
    assert_eq!(
        (claim.gateway_id.as_str(), claim.controller_id.as_str()),
        ("worker-01", "controller")
    );
    assert_eq!(
        meeting.gateway.receive(&pairing_pending(&offer.code)),
        Ok(Progress::Pending(offer.code.clone()))
    );
    let pins = Pins {
        controller_key: meeting.pair.public_pem().to_owned(),
        leaf: leaf(Standing::Unproven).fingerprint,
        renewed: false,
    };
    assert_eq!(
        meeting.gateway.receive(&auth_ok("1-a")),
        Ok(Progress::Ready {
            connection_id: "1-a".into(),
            pins: Some(pins)
        })
    );
}

#[test]
fn the_controllers_proof_decides_about_an_unverified_certificate() {
    let with = |change: fn(&mut Value), known: Expectations, standing| {
        let mut meeting = Meeting::new(known, standing);
        change(&mut meeting.challenge);
        meeting.answer().map(|_| ())
    };
    let missing: fn(&mut Value) = |challenge| _ = challenge.as_object_mut().unwrap().remove("controllerProof");
    let wrong: fn(&mut Value) = |challenge| challenge["controllerProof"] = json!("A".repeat(86));
    let refused = Err(Failure::Refused(Code::ControllerProofInvalid));
    assert_eq!(with(missing, expectations(), Standing::Unproven), refused);
    assert_eq!(with(wrong, expectations(), Standing::Unproven), refused);
    assert_eq!(
        with(
            wrong,
            Expectations {
                allow_unproven: true,
                ..expectations()
            },
            Standing::Unproven
        ),
        refused
    );
    assert_eq!(
        with(
            missing,
            Expectations {
                allow_unproven: true,
                ..expectations()
            },
            Standing::Unproven
        ),
        Ok(())
    );
    let vouched = Some(leaf(Standing::Unproven).fingerprint);
    assert_eq!(
        with(
            missing,
            Expectations {
                expected_leaf: vouched,
                ..expectations()
            },
            Standing::Unproven
        ),
        Ok(())
    );
    let other = Some(Fingerprint::of_der(b"another certificate"));
    assert_eq!(
        with(
            |_| (),
            Expectations {
                expected_leaf: other,
                ..expectations()
            },
            Standing::Unproven
        ),
        Err(Failure::Refused(Code::ControllerTlsIdentityMismatch))
    );
    assert_eq!(with(missing, expectations(), Standing::Verified), Ok(()));
    let expecting = Expectations {
        expected_leaf: other,
        ..expectations()
    };
    assert_eq!(
        with(|_| (), expecting, Standing::Verified),
        Err(Failure::Refused(Code::ControllerTlsIdentityMismatch))
    );
}

#[test]
fn pins_are_kept_and_only_the_pinned_key_renews_a_certificate() {
    let pinned = |pair: &KeyPair| Expectations {
        pinned_key: Some(pair.public_pem().to_owned()),
        ..expectations()
    };
    let pair = KeyPair::generate().unwrap();
    let known = pinned(&pair);
    // The pinned key and certificate: nothing new to pin, proof or not.
    let mut same = Meeting::with_key(pair, known.clone(), Standing::Pinned);
    same.challenge.as_object_mut().unwrap().remove("controllerProof");
    same.answer().unwrap();
    assert_eq!(
        same.gateway.receive(&auth_ok("1")),
        Ok(Progress::Ready {
            connection_id: "1".into(),
            pins: None
        })
    );
    // A renewed certificate, proven by the pinned key.
    let mut renewed = Meeting::with_key(same.pair, known.clone(), Standing::Changed);
    renewed.answer().unwrap();
    assert!(matches!(
        renewed.gateway.receive(&auth_ok("2")),
        Ok(Progress::Ready {
            pins: Some(Pins { renewed: true, .. }),
            ..
        })
    ));
    // The same without proof, and another key with a valid proof of its own.
    let mut unproven = Meeting::with_key(renewed.pair, known.clone(), Standing::Changed);
    unproven.challenge.as_object_mut().unwrap().remove("controllerProof");
    assert_eq!(unproven.refusal(), Code::ControllerTlsIdentityMismatch);
    assert_eq!(
        Meeting::new(known.clone(), Standing::Changed).refusal(),
        Code::ControllerIdentityMismatch
    );
    assert_eq!(
        Meeting::new(known, Standing::Pinned).refusal(),
        Code::ControllerIdentityMismatch
    );
    assert_eq!(
        Meeting::new(expectations(), Standing::Changed).refusal(),
        Code::ControllerTlsIdentityMismatch
    );
}

#[test]
fn hmac_is_proven_to_a_verified_controller_alone() {
    let known = Expectations {
        credential: Credential::Hmac(Arc::new(Zeroizing::new("pässwort".into()))),
        ..expectations()
    };
    let mut meeting = Meeting::new(known.clone(), Standing::Verified);
    let answer = meeting.answer().unwrap();
    let claim = meeting.controller.receive(answer.to_string().as_bytes()).unwrap();
    assert!(claim.proves("pässwort") && !claim.proves("password") && !claim.proves(""));
    assert!(answer.get("nodePublicKey").is_none() && !answer.to_string().contains("pässwort"));
    assert_eq!(
        Meeting::new(known, Standing::Unproven).refusal(),
        Code::ControllerTlsIdentityMismatch
    );
}

#[test]
fn the_gateway_refuses_what_does_not_belong_here() {
    let fresh = || Meeting::new(expectations(), Standing::Unproven);
    for (frame, code) in [
        (json!({"id": 1, "method": "hello"}), Code::Unauthenticated),
        (
            json!({"type": "auth.ok", "connectionId": "x"}),
            Code::UnexpectedAuthMessage,
        ),
        (json!({"type": "pairing.pending"}), Code::UnexpectedAuthMessage),
        (
            json!({"type": "auth.challenge", "nonce": "short", "controllerPublicKey": "x"}),
            Code::UnexpectedAuthMessage,
        ),
        (
            json!({"type": "auth.challenge", "nonce": "0123456789abcdef"}),
            Code::ControllerIdentityMissing,
        ),
        (
            json!({"type": "auth.challenge", "nonce": "0123456789abcdef", "controllerPublicKey": "no key"}),
            Code::ControllerIdentityMissing,
        ),
        (json!(5), Code::UnexpectedAuthMessage),
    ] {
        assert_eq!(
            fresh().gateway.receive(frame.to_string().as_bytes()),
            Err(Failure::Refused(code)),
            "{frame}"
        );
    }
    assert_eq!(
        fresh().gateway.receive(b"\xff\xfe"),
        Err(Failure::Refused(Code::UnexpectedAuthMessage))
    );
    let told = json!({"type": "transport.error", "ok": false, "error": {"code": "pairing_rejected"}});
    assert_eq!(
        fresh().gateway.receive(told.to_string().as_bytes()),
        Err(Failure::Told("pairing_rejected".into()))
    );
    let mut twice = fresh();
    twice.answer().unwrap();
    assert_eq!(twice.refusal(), Code::UnexpectedAuthMessage);
}

#[test]
fn the_controller_believes_only_what_it_computed() {
    let mut meeting = Meeting::new(expectations(), Standing::Unproven);
    let honest = meeting.answer().unwrap();
    let claim = |change: &dyn Fn(&mut Value)| {
        let mut answer = honest.clone();
        change(&mut answer);
        meeting.controller.receive(answer.to_string().as_bytes())
    };
    let evidence = |change: &dyn Fn(&mut Value)| claim(change).unwrap().evidence;
    assert!(matches!(evidence(&|_| ()), Evidence::Key(_)));
    let Evidence::Key(offer) = evidence(&|answer| answer["pairingCode"] = json!("AAAA-AAAA-AAAA")) else {
        panic!()
    };
    assert_ne!(offer.code.short, "AAAA-AAAA-AAAA");
    let other = KeyPair::generate().unwrap().public_pem().to_owned();
    assert_eq!(
        evidence(&|answer| answer["nodePublicKey"] = json!(other)),
        Evidence::None
    );
    assert_eq!(
        evidence(
            &|answer| answer["nodePublicKey"] = json!(answer["nodePublicKey"].as_str().unwrap().replace('\n', "\r\n"))
        ),
        Evidence::None
    );
    assert_eq!(
        evidence(&|answer| answer["pairingSignature"] = json!("A".repeat(86))),
        Evidence::None
    );
    assert_eq!(
        evidence(&|answer| answer["pairingSignature"] = json!(5)),
        Evidence::None
    );
    assert_eq!(
        evidence(&|answer| answer["gatewayId"] = json!("worker-02")),
        Evidence::None
    );
    let long = "n".repeat(300);
    let metadata = claim(&|answer| {
        answer["gateway"] = json!({"name": format!("  {long} "), "version": 5, "protocolVersion": " "})
    })
    .unwrap()
    .metadata;
    assert_eq!(
        metadata,
        GatewayMetadata {
            name: Some("n".repeat(255)),
            version: None,
            protocol_version: None
        }
    );
    for (change, code) in [
        (
            &(|answer: &mut Value| answer["type"] = json!("hello")) as &dyn Fn(&mut Value),
            Code::Unauthenticated,
        ),
        (&|answer| answer["gatewayId"] = json!("  "), Code::InvalidAuthMessage),
        (&|answer| answer["gatewayId"] = json!("../x"), Code::InvalidAuthMessage),
        (&|answer| answer["controllerId"] = json!(null), Code::InvalidAuthMessage),
    ] {
        assert_eq!(claim(change), Err(code));
    }
    for (frame, code) in [
        (&b"nonsense"[..], Code::InvalidJson),
        (b"\xff", Code::InvalidJson),
        (b"[]", Code::Unauthenticated),
        (b"{\"id\":1,\"method\":\"hello\"}", Code::Unauthenticated),
    ] {
        assert_eq!(meeting.controller.receive(frame), Err(code));
    }
    assert_eq!(
        meeting.controller.receive("[".repeat(60_000).as_bytes()),
        Err(Code::InvalidJson)
    );
}

#[tokio::test]
async fn frames_cross_a_stream_in_order() {
    let (near, far) = tokio::io::duplex(64);
    let (sender, task) = start_writer(near);
    let mut reader = FrameReader::new(far, 1024);
    for n in 0..100 {
        sender.send(format!("{n}\n").into_bytes()).await.unwrap();
        if n % 3 == 0 {
            assert_eq!(
                reader.next().await.unwrap(),
                Received::Frame(Bytes::from((n / 3).to_string()))
            );
        }
    }
    drop(sender);
    for n in 34..100 {
        assert_eq!(
            reader.next().await.unwrap(),
            Received::Frame(Bytes::from(n.to_string()))
        );
    }
    assert_eq!(reader.next().await.unwrap(), Received::End);
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_peer_that_does_not_read_holds_the_senders_back() {
    let (near, mut far) = tokio::io::duplex(64);
    let (sender, _task) = start_writer(near);
    let frame = vec![b'x'; QUEUE_BYTES / 2];
    let (first, second) = (sender.send(frame.clone()).await, sender.send(frame.clone()).await);
    assert_eq!((first, second), (Ok(()), Ok(())));
    let mut third = Box::pin(sender.send(frame));
    assert!(futures_poll_once(&mut third).await.is_none(), "the queue is full");
    let mut sink = vec![0; QUEUE_BYTES / 2];
    far.read_exact(&mut sink).await.unwrap();
    assert_eq!(third.await, Ok(()));
}

#[tokio::test]
async fn giving_up_on_a_peer_frees_whoever_waits() {
    let (near, _far) = tokio::io::duplex(64);
    let (sender, task) = start_writer(near);
    sender.send(vec![b'x'; QUEUE_BYTES]).await.unwrap();
    let mut waiting = Box::pin(sender.send(vec![b'x']));
    assert!(futures_poll_once(&mut waiting).await.is_none());
    sender.close();
    assert_eq!(waiting.await, Err(Closed));
    task.abort();
}

#[tokio::test]
async fn senders_learn_that_the_peer_is_gone() {
    let (near, far) = tokio::io::duplex(64);
    let (sender, task) = start_writer(near);
    drop(far);
    sender.send(vec![b'x'; 1000]).await.unwrap();
    assert!(task.await.unwrap().is_err());
    sender.closed().await;
    assert_eq!(sender.send(vec![b'x']).await, Err(Closed));
    assert!(sender.is_closed());
}

#[tokio::test]
async fn a_line_over_the_limit_is_told_and_skipped() {
    let (mut near, far) = tokio::io::duplex(1 << 16);
    let mut reader = FrameReader::new(far, 16);
    near.write_all(&[b'x'; 1000]).await.unwrap();
    assert_eq!(reader.next().await.unwrap(), Received::TooLarge);
    near.write_all(b"\nshort\nlast").await.unwrap();
    assert_eq!(
        reader.next().await.unwrap(),
        Received::Frame(Bytes::from_static(b"short"))
    );
    drop(near);
    assert_eq!(
        reader.next().await.unwrap(),
        Received::Frame(Bytes::from_static(b"last"))
    );
    assert_eq!(reader.next().await.unwrap(), Received::End);
    assert!(reader.heard().silence() < std::time::Duration::from_secs(60));
}

/// Polls a future once; its output when it was ready.
async fn futures_poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| match std::pin::Pin::new(&mut *future).poll(cx) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}
