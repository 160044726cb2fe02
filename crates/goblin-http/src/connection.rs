//! One connection: HTTP/1.1 or 2 over any stream, with limits on how long it may keep its place. It must never know
//! what is asked over it.

use crate::auth::Via;
use crate::connections::Counted;
use crate::server::{Closing, Patience};
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

/// Longest head of a request over HTTP/1.1, in bytes.
const HEAD_MAX: usize = 32 * 1024;

/// Longest fields of a request over HTTP/2, in bytes. There is a multiple of it for each connection.
const FIELDS_BYTES_MAX: u32 = 16 * 1024;

/// Most fields in a head.
const FIELDS_MAX: usize = 100;

/// Requests at once over a connection of HTTP/2.
const STREAMS_MAX: u32 = 64;

/// What ends connections.
#[derive(Clone)]
pub(crate) struct Endings {
    /// Take no more requests, finish those that run.
    pub(crate) closing: CancellationToken,
    /// End now.
    pub(crate) ending: CancellationToken,
}

/// Serves one connection until it ends.
pub(crate) async fn serve<S>(stream: S, router: Router, via: Via, patience: Patience, endings: Endings)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let _counted = Counted::new();
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.head)
        .max_buf_size(HEAD_MAX)
        .max_headers(FIELDS_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(FIELDS_BYTES_MAX)
        .keep_alive_interval(patience.idle)
        .keep_alive_timeout(patience.head);
    let (running, watched) = watch::channel(0);
    let running = Arc::new(running);
    let routes = TowerToHyperService::new(router);
    let stranger = unknown_for(via.clone(), patience);
    let closing = Closing(endings.closing.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        let busy = Busy::begin(&running);
        request.extensions_mut().insert(via.clone());
        request.extensions_mut().insert(closing.clone());
        let answering = routes.call(request);
        async move {
            let response: Response<Body> = answering.await?;
            Ok::<_, std::convert::Infallible>(response.map(|body| Held { body, _busy: busy }))
        }
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = endings.closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                result = connection.as_mut() => result,
                () = endings.ending.cancelled() => Ok(()),
            }
        }
        () = idle(watched, patience) => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                result = connection.as_mut() => result,
                () = sleep(patience.head) => Ok(()),
                () = endings.ending.cancelled() => Ok(()),
            }
        }
        () = stranger => Ok(()),
    };
    if let Err(error) = result {
        debug!(%error, "an API connection ended early");
    }
}

/// Over once nothing ran for too long: at first until the head of a request should be there, later for longer.
async fn idle(mut running: watch::Receiver<usize>, patience: Patience) {
    let mut limit = patience.head;
    loop {
        if running.wait_for(|running| *running == 0).await.is_err() {
            return std::future::pending().await;
        }
        match timeout(limit, running.changed()).await {
            Err(_) => return,
            Ok(Ok(())) => limit = patience.idle,
            Ok(Err(_)) => return std::future::pending().await,
        }
    }
}

/// Over once a connection brought nobody who may call for too long: an answer that is not fetched keeps no place.
async fn unknown_for(via: Via, patience: Patience) {
    let Via::Tcp(via) = via else {
        return std::future::pending().await;
    };
    if timeout(patience.stranger, via.known.cancelled()).await.is_ok() {
        std::future::pending().await
    }
}

/// A request that runs, until its answer is sent.
struct Busy(Arc<watch::Sender<usize>>);

impl Busy {
    fn begin(running: &Arc<watch::Sender<usize>>) -> Self {
        running.send_modify(|running| *running += 1);
        Self(running.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

/// A body that keeps its connection busy.
struct Held {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
