use std::future::Future;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rand::Rng;
use tokio::net::UnixStream;
use tokio::time::Instant;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

use crate::v1::hlo_service_client::HloServiceClient;
use crate::v1::indexing_service_client::IndexingServiceClient;
use crate::v1::report_service_client::ReportServiceClient;
use crate::v1::shape_service_client::ShapeServiceClient;
use crate::{Error, Result};

const MAX_ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Asks one server, or several that hold the same modules. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
    token: Option<MetadataValue<Ascii>>,
    timeout: Option<Duration>,
    attempts: u32,
    max_answer: usize,
}

/// Says how to connect. Made by [`Client::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    addresses: Vec<String>,
    token: Option<String>,
    timeout: Option<Duration>,
    attempts: u32,
    max_answer: usize,
    #[cfg(feature = "tls")]
    tls: Option<tonic::transport::ClientTlsConfig>,
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
            token: None,
            timeout: Some(Duration::from_secs(60)),
            attempts: 4,
            max_answer: 64 << 20,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// A client on the same connection whose calls may take as long as this. `None` stands for no bound.
    pub fn with_timeout(&self, timeout: impl Into<Option<Duration>>) -> Client {
        Client { timeout: timeout.into(), ..self.clone() }
    }

    /// The generated client, for calls that the methods here do not cover. It sends the token only through [`Client::request`].
    pub fn shapes(&self) -> ShapeServiceClient<Channel> {
        ShapeServiceClient::new(self.channel.clone()).max_decoding_message_size(self.max_answer)
    }

    /// As [`Client::shapes`].
    pub fn modules(&self) -> HloServiceClient<Channel> {
        HloServiceClient::new(self.channel.clone()).max_decoding_message_size(self.max_answer)
    }

    /// As [`Client::shapes`].
    pub fn indexing(&self) -> IndexingServiceClient<Channel> {
        IndexingServiceClient::new(self.channel.clone()).max_decoding_message_size(self.max_answer)
    }

    /// As [`Client::shapes`].
    pub fn reports(&self) -> ReportServiceClient<Channel> {
        ReportServiceClient::new(self.channel.clone()).max_decoding_message_size(self.max_answer)
    }

    /// A request of the generated clients with the token and the deadline of this client.
    pub fn request<T>(&self, message: T) -> Request<T> {
        self.request_until(message, self.deadline())
    }

    fn request_until<T>(&self, message: T, deadline: Option<Instant>) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.clone());
        }
        if let Some(deadline) = deadline {
            request.set_timeout(deadline.saturating_duration_since(Instant::now()));
        }
        request
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.timeout.map(|timeout| Instant::now() + timeout)
    }

    /// Makes a call, and makes it again while the server is unavailable.
    pub(crate) async fn call<Req, Res, Made>(&self, message: Req, make: impl Fn(Request<Req>) -> Made) -> Result<Res>
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
                Err(error) if error.code() == Code::Unavailable && attempt < self.attempts => {
                    let random = rand::rng().random_range(0.5..1.5);
                    let pausing = async {
                        tokio::time::sleep(pause.mul_f64(random)).await;
                        Ok(())
                    };
                    within(deadline, pausing).await?;
                    pause *= 2;
                }
                Err(error) => return Err(error),
            }
        }
        unreachable!("the last attempt returns")
    }
}

/// The answer to a request by a method of a generated client: `ask!(client, shapes.byte_size, request)`.
macro_rules! ask {
    ($client:expr, $service:ident.$method:ident, $request:expr) => {
        $client.call($request, |request| async { $client.$service().$method(request).await }).await
    };
}
pub(crate) use ask;

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
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// How long a call may take. The default is one minute; `None` stands for no bound.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// How often a call is sent in all while the server is unavailable, from 1 to 5. The default is 4, with growing, random pauses from 100 ms. A
    /// call whose request is a stream is sent once.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// The bytes that one message from the server may have. The default is 64 MiB.
    pub fn max_answer(mut self, bytes: usize) -> Self {
        self.max_answer = bytes;
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
        if !(1..=MAX_ATTEMPTS).contains(&self.attempts) {
            let message = format!("a call has 1 to {MAX_ATTEMPTS} attempts, not {}", self.attempts);
            return Err(Error::mistake("INVALID_ARGUMENT", "attempts", message));
        }
        let token = match &self.token {
            None => None,
            Some(token) => Some(format!("Bearer {token}").parse().map_err(|_| {
                Error::mistake("INVALID_ARGUMENT", "token", "a token has visible ASCII characters alone")
            })?),
        };
        let channel = match self.addresses.as_slice() {
            [address] => match address.strip_prefix("unix:") {
                Some(path) => unix_channel(path.trim_start_matches("//")),
                None => self.endpoint(address)?.connect_lazy(),
            },
            addresses => {
                let endpoints = addresses.iter().map(|address| self.endpoint(address));
                Channel::balance_list(endpoints.collect::<Result<Vec<_>>>()?.into_iter())
            }
        };
        Ok(Client { channel, token, timeout: self.timeout, attempts: self.attempts, max_answer: self.max_answer })
    }

    fn endpoint(&self, address: &str) -> Result<Endpoint> {
        let invalid = |error: &dyn std::error::Error| {
            Error::mistake("INVALID_ARGUMENT", "address", format!("{address:?} is not HOST:PORT: {error}"))
        };
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let endpoint = Endpoint::from_shared(format!("https://{address}")).map_err(|error| invalid(&error))?;
            return endpoint.tls_config(tls.clone()).map_err(|error| invalid(&error));
        }
        Endpoint::from_shared(format!("http://{address}")).map_err(|error| invalid(&error))
    }
}

fn unix_channel(path: &str) -> Channel {
    let path = path.to_owned();
    // The name of the host is sent to the server, which does not read it.
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(tower::service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    }))
}
