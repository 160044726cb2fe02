//! Answers that go on and on, cut when the token of their caller holds no more.

use super::tokens::Known;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Longer waits are not measured: nothing that is sent takes ten years.
const WAIT_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Cuts an answer of unknown length once its caller's token is revoked or expires. `now` in epoch milliseconds.
pub(super) fn while_holding(response: Response, known: Arc<Known>, now: i64) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    let over = Box::pin(async move {
        let left = known.left(now).map_or(WAIT_MAX, |left| left.min(WAIT_MAX));
        tokio::select! {
            () = known.revoked.cancelled() => {}
            () = tokio::time::sleep(left) => {}
        }
    });
    response.map(|body| Body::new(Until { body, over }))
}

struct Until {
    body: Body,
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl HttpBody for Until {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.over.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(axum::Error::new(Ended))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the caller's token holds no more")]
struct Ended;
