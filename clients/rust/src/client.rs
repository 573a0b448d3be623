use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rand::Rng;
use tokio::net::UnixStream;
use tokio::time::Instant;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{self, Endpoint};
use tonic::{Code, Request, Response, Status};

use crate::channel::{self, Channel};
use crate::settings::Settings;
use crate::v1::ByteSizeRequest;
use crate::{Error, Result};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The answer to a request by a method of a generated client, which is sent up to `attempts` times: `ask!(client, shapes.byte_size, request, attempts)`.
macro_rules! ask {
    ($client:expr, $service:ident.$method:ident, $request:expr, $attempts:expr) => {
        $client.ask($attempts, $request, |request| async { $client.$service().$method(request).await }).await
    };
}
pub(crate) use ask;

/// Asks one server, or several that hold the same modules. Clones share the connection.
#[derive(Clone)]
pub struct Client {
    channel: Channel,
    pub(crate) settings: Settings,
    token: Option<Token>,
}

/// Gives the bearer token of a call.
type Token = Arc<dyn Fn() -> String + Send + Sync>;

/// Says how to connect. Made by [`Client::builder`].
#[derive(Clone)]
#[must_use]
pub struct Builder {
    addresses: Vec<String>,
    pub(crate) settings: Settings,
    token: Option<Token>,
    interceptors: Vec<channel::Interceptor>,
    #[cfg(feature = "tls")]
    tls: Option<tonic::transport::ClientTlsConfig>,
}

// Neither shows the token.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the server at `HOST:PORT` or `unix:PATH`, without encryption. The connection is made by the first call, and again whenever it
    /// breaks. Call it from within a Tokio runtime.
    pub fn connect(address: impl Into<String>) -> Result<Client> {
        Client::builder(address).connect()
    }

    /// A client with settings of its own.
    pub fn builder(address: impl Into<String>) -> Builder {
        Builder {
            addresses: vec![address.into()],
            settings: Settings::default(),
            token: None,
            interceptors: Vec::new(),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// A client on the same connection whose calls may take as long as this, with streams and without. `None` stands for no bound.
    pub fn with_timeout(&self, timeout: impl Into<Option<Duration>>) -> Client {
        let timeout = timeout.into();
        let settings = Settings { timeout, stream_timeout: timeout, ..self.settings.clone() };
        Client { settings, ..self.clone() }
    }

    /// Returns once the server answers calls, or with the last error after `timeout`. A refusal, such as of a token, ends the wait at once.
    pub async fn wait_until_ready(&self, timeout: Duration) -> Result<()> {
        let end = Instant::now() + timeout;
        loop {
            let asking = self.with_timeout(end.saturating_duration_since(Instant::now()));
            match ask!(asking, shapes.byte_size, ByteSizeRequest::default(), asking.settings.attempts) {
                Err(error) if error.code() == Code::Unavailable && Instant::now() < end => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                outcome => return outcome.map(|_| ()),
            }
        }
    }

    /// The connection, for generated clients of other services, and for layers of tower around it. It does not send calls again.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// A request of the generated clients with the token and the deadline of this client.
    pub fn request<T>(&self, message: T) -> Request<T> {
        self.request_until(message, self.deadline())
    }

    /// The same for a call with a stream, and its deadline.
    pub(crate) fn stream_request<T>(&self, message: T) -> (Request<T>, Option<Instant>) {
        let deadline = self.settings.stream_timeout.map(|timeout| Instant::now() + timeout);
        (self.request_until(message, deadline), deadline)
    }

    fn request_until<T>(&self, message: T, deadline: Option<Instant>) -> Request<T> {
        let mut request = Request::new(message);
        // A token that cannot be in a header is not sent: the server refuses the call.
        let token = self.token.as_ref().map(|token| token()).filter(|token| !token.is_empty());
        if let Some(token) = token.and_then(|token| format!("Bearer {token}").parse::<MetadataValue<Ascii>>().ok()) {
            request.metadata_mut().insert("authorization", token);
        }
        if let Some(deadline) = deadline {
            request.set_timeout(deadline.saturating_duration_since(Instant::now()));
        }
        request
    }

    fn deadline(&self) -> Option<Instant> {
        self.settings.timeout.map(|timeout| Instant::now() + timeout)
    }

    /// Makes a call, and makes it again while the server is unavailable, until it was sent `attempts` times. That is once
    /// if by its `idempotency_level` a second one may do something else, and if its answer is a stream.
    pub(crate) async fn ask<Req, Res, Made>(
        &self,
        attempts: u32,
        message: Req,
        make: impl Fn(Request<Req>) -> Made,
    ) -> Result<Res>
    where
        Req: Clone,
        Made: Future<Output = std::result::Result<Response<Res>, Status>>,
    {
        let deadline = self.deadline();
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let made = make(self.request_until(message.clone(), deadline));
            match within(deadline, made).await.map_err(Error::from) {
                Ok(response) => return Ok(response.into_inner()),
                Err(error) if error.code() == Code::Unavailable && attempt < attempts => {
                    let pausing = tokio::time::sleep(pause.mul_f64(rand::rng().random_range(0.5..1.5)));
                    within(deadline, async { Ok(pausing.await) }).await?;
                    pause *= 2;
                }
                Err(error) => return Err(error),
            }
        }
        unreachable!("the last attempt returns")
    }
}

/// The outcome of a call, which has to come before a time.
pub(crate) async fn within<T>(
    deadline: Option<Instant>,
    made: impl Future<Output = std::result::Result<T, Status>>,
) -> std::result::Result<T, Status> {
    let Some(deadline) = deadline else { return made.await };
    let late = |_| Err(Status::deadline_exceeded("the server did not answer in time"));
    tokio::time::timeout_at(deadline, made).await.unwrap_or_else(late)
}

impl Builder {
    /// A further server, which gets calls in turn with the first one.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.addresses.push(address.into());
        self
    }

    /// Sends a bearer token with each call. Without TLS it travels readably.
    pub fn token(self, token: impl Into<String>) -> Self {
        let token = token.into();
        self.token_source(move || token.clone())
    }

    /// Asks for the bearer token of each call, for tokens that change.
    pub fn token_source(mut self, token: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.token = Some(Arc::new(token));
        self
    }

    /// Shows every call to an interceptor before it is sent, each attempt and the calls of generated clients too. It may
    /// add headers, or refuse the call. The `tonic::GrpcMethod` in the extensions says which call it is. Further
    /// interceptors come after it.
    pub fn interceptor(mut self, interceptor: impl Interceptor + Clone + Send + Sync + 'static) -> Self {
        self.interceptors.push(Arc::new(move |request| interceptor.clone().call(request)));
        self
    }

    /// Encrypts the connection. The configuration says which certificates are trusted, and with which the client identifies itself.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: tonic::transport::ClientTlsConfig) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The client. The error is of code `InvalidArgument` for an address, a token or a number of attempts that cannot be.
    pub fn connect(self) -> Result<Client> {
        self.settings.check()?;
        let is_wrong = |token: &Token| token().parse::<MetadataValue<Ascii>>().is_err();
        if self.token.as_ref().is_some_and(is_wrong) {
            return Err(Error::mistake("INVALID_ARGUMENT", "token", "a token has visible ASCII characters alone"));
        }
        if tokio::runtime::Handle::try_current().is_err() {
            let message = "call it from within a Tokio runtime, which makes the connection";
            return Err(Error::mistake("INVALID_ARGUMENT", "connect", message));
        }
        let servers = self.addresses.iter().map(|address| match address.strip_prefix("unix:") {
            Some(path) => self.unix_channel(address, path.trim_start_matches("//")),
            None => Ok(self.endpoint(address)?.connect_lazy()),
        });
        let channel = Channel::new(servers.collect::<Result<_>>()?, self.interceptors);
        Ok(Client { channel, settings: self.settings, token: self.token })
    }

    fn endpoint(&self, address: &str) -> Result<Endpoint> {
        let invalid = |error: tonic::transport::Error| {
            Error::mistake("INVALID_ARGUMENT", "address", format!("{address:?} is not HOST:PORT: {error}"))
        };
        let agent = concat!("xlashape-rust/", env!("CARGO_PKG_VERSION"));
        let is_unix = address.starts_with("unix:"); // the name of its host is sent to the server, which does not read it
        let host = if is_unix { "localhost" } else { address };
        let endpoint = |scheme: &str| Endpoint::from_shared(format!("{scheme}://{host}"))?.user_agent(agent);
        #[cfg(feature = "tls")]
        let endpoint = match self.tls.as_ref().filter(|_| !is_unix) {
            Some(tls) => endpoint("https").and_then(|endpoint| endpoint.tls_config(tls.clone())),
            None => endpoint("http"),
        };
        #[cfg(not(feature = "tls"))]
        let endpoint = endpoint("http");
        let endpoint = endpoint.map_err(invalid)?.connect_timeout(CONNECT_TIMEOUT);
        Ok(match self.settings.keepalive {
            Some(interval) => endpoint.http2_keep_alive_interval(interval),
            None => endpoint,
        })
    }

    fn unix_channel(&self, address: &str, path: &str) -> Result<transport::Channel> {
        let path = path.to_owned();
        Ok(self.endpoint(address)?.connect_with_connector_lazy(tower::service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        })))
    }
}
