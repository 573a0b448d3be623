use std::error::Error as _;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::service::interceptor::InterceptedService;
use tonic::{transport, Status};
use tower::{service_fn, Service, ServiceExt};

use crate::v1::shape_service_client::ShapeServiceClient;
use crate::v1::ByteSizeRequest;

/// How long a server may take to answer the first question, before it counts as dead.
const FIRST_ANSWER: Duration = Duration::from_secs(5);
/// How long a dead server is left alone.
const REST: Duration = Duration::from_secs(5);

/// What a call passes before it is sent.
pub(crate) type Interceptor = Arc<dyn Fn(tonic::Request<()>) -> Result<tonic::Request<()>, Status> + Send + Sync>;

/// The connection to one server, or to several, each of which gets the next call. A server that does not listen, or does not answer, gets none.
///
/// It is a service of tower, as tonic's channel: layers go around it, and generated clients on top.
#[derive(Clone)]
pub struct Channel {
    servers: Arc<[transport::Channel]>,
    states: Arc<watch::Sender<Vec<State>>>,
    calls: Arc<AtomicUsize>,
    interceptors: Arc<[Interceptor]>,
}

/// What is known of a server. The next call goes to the least of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Alive,
    /// Dead, until it is asked again.
    Dead(Instant),
    Asked,
}

impl Channel {
    pub(crate) fn new(servers: Vec<transport::Channel>, interceptors: Vec<Interceptor>) -> Self {
        let states = Arc::new(watch::Sender::new(vec![State::Dead(Instant::now()); servers.len()]));
        Channel { servers: servers.into(), states, calls: Arc::default(), interceptors: interceptors.into() }
    }

    /// The next server that is alive; if none is, the one whose rest ends first.
    async fn next(&self) -> usize {
        let count = self.servers.len();
        if count == 1 {
            return 0;
        }
        (0..count).for_each(|i| self.check(i));
        let is_decided = |states: &Vec<State>| states.contains(&State::Alive) || !states.contains(&State::Asked);
        let mut watched = self.states.subscribe();
        // It fails if the sender is gone, which `self` holds.
        let states = watched.wait_for(is_decided).await.map(|states| states.clone()).unwrap_or_default();
        let first = self.calls.fetch_add(1, Ordering::Relaxed);
        (0..count).map(|i| (first + i) % count).min_by_key(|&i| states.get(i).copied()).unwrap_or(0)
    }

    /// Asks a server whose rest is over for a sign of life.
    fn check(&self, i: usize) {
        let is_due = self.states.send_if_modified(|states| {
            let is_due = matches!(states[i], State::Dead(until) if until <= Instant::now());
            states[i] = if is_due { State::Asked } else { states[i] };
            is_due
        });
        if is_due {
            let channel = self.clone();
            tokio::spawn(async move {
                let mut client = ShapeServiceClient::new(channel.servers[i].clone());
                let asked = tokio::time::timeout(FIRST_ANSWER, client.byte_size(ByteSizeRequest::default())).await;
                // A refusal by the server, which has no source, is a sign of life too.
                channel.note(i, asked.is_ok_and(|answer| answer.err().is_none_or(|status| status.source().is_none())));
            });
        }
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, transport::Error> {
        let i = self.next().await;
        let answer = match self.servers[i].clone().ready().await {
            Ok(server) => server.call(request).await,
            Err(error) => Err(error),
        };
        let is_late =
            |error: &transport::Error| error.source().is_some_and(|cause| cause.is::<tonic::TimeoutExpired>());
        if answer.as_ref().is_err_and(|error| !is_late(error)) {
            self.note(i, false);
        }
        answer
    }

    fn note(&self, i: usize, is_alive: bool) {
        let state = if is_alive { State::Alive } else { State::Dead(Instant::now() + REST) };
        self.states.send_modify(|states| states[i] = state);
    }
}

impl Service<Request<Body>> for Channel {
    type Response = Response<Body>;
    type Error = transport::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, transport::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), transport::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let channel = self.clone();
        Box::pin(async move {
            let pass = |request| channel.interceptors.iter().try_fold(request, |request, pass| pass(request));
            let sent = service_fn(|request| channel.send(request));
            Ok(InterceptedService::new(sent, pass).call(request).await?.map(Body::new))
        })
    }
}
