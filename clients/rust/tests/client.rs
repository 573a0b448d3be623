//! The client against a server of the test's own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::{Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt};
use xlashape::v1::hlo_service_server::{HloService, HloServiceServer};
use xlashape::v1::shape_service_server::{ShapeService, ShapeServiceServer};
use xlashape::v1::*;
use xlashape::{Client, Code};

type Answer<T> = Result<Response<T>, Status>;
type Behaviour = Arc<dyn Fn(&Request<ByteSizeRequest>) -> Result<i64, Status> + Send + Sync>;

/// Answers ByteSize as it is told.
struct Shapes(Behaviour);

type None<T> = tokio_stream::Empty<Result<T, Status>>;

#[tonic::async_trait]
impl ShapeService for Shapes {
    type LinearIndicesStream = None<LinearIndicesResponse>;
    type MultiIndicesStream = None<MultiIndicesResponse>;

    async fn byte_size(&self, request: Request<ByteSizeRequest>) -> Answer<ByteSizeResponse> {
        let physical_bytes = (self.0)(&request)?;
        if physical_bytes < 0 {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        Ok(Response::new(ByteSizeResponse { sizes: vec![ShapeSize { physical_bytes, ..Default::default() }] }))
    }

    async fn describe_shape(&self, _: Request<DescribeShapeRequest>) -> Answer<DescribeShapeResponse> {
        Err(Status::unimplemented("not here"))
    }

    async fn linear_index(&self, _: Request<LinearIndexRequest>) -> Answer<LinearIndexResponse> {
        Err(Status::unimplemented("not here"))
    }

    async fn multi_index(&self, _: Request<MultiIndexRequest>) -> Answer<MultiIndexResponse> {
        Err(Status::unimplemented("not here"))
    }

    async fn linear_indices(
        &self,
        _: Request<tonic::Streaming<LinearIndicesRequest>>,
    ) -> Answer<Self::LinearIndicesStream> {
        Err(Status::unimplemented("not here"))
    }

    async fn multi_indices(
        &self,
        _: Request<tonic::Streaming<MultiIndicesRequest>>,
    ) -> Answer<Self::MultiIndicesStream> {
        Err(Status::unimplemented("not here"))
    }
}

async fn serve(behaviour: impl Fn(&Request<ByteSizeRequest>) -> Result<i64, Status> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let service = ShapeServiceServer::new(Shapes(Arc::new(behaviour)));
    tokio::spawn(
        tonic::transport::Server::builder().add_service(service).serve_with_incoming(TcpListenerStream::new(listener)),
    );
    address
}

#[tokio::test]
async fn errors_have_the_servers_details() {
    let address = serve(|_| {
        let metadata = [
            ("message", "expected a size"),
            ("field", "shapes[0].text"),
            ("line", "1"),
            ("column", "5"),
            ("source_line", "f32[?]"),
        ];
        let metadata = metadata.map(|(key, value)| (key.into(), value.into()));
        let details = ErrorDetails::with_error_info("PARSE", "xlashape", metadata);
        Err(Status::with_error_details(Code::InvalidArgument, "shapes[0].text: …", details))
    })
    .await;
    let error = Client::connect(address).unwrap().byte_size("f32[?]").await.unwrap_err();
    assert_eq!((error.code(), error.reason(), error.field()), (Code::InvalidArgument, "PARSE", "shapes[0].text"));
    assert_eq!((error.line(), error.column(), error.message()), (Some(1), Some(5), "expected a size"));
    assert_eq!(error.details().iter().collect::<Vec<_>>(), [(&"source_line".into(), &"f32[?]".into())]);
    assert_eq!(error.to_string(), "shapes[0].text: line 1, column 5: expected a size (PARSE)");
}

#[tokio::test]
async fn a_call_ends_at_its_deadline() {
    let client = Client::connect(serve(|_| Ok(-1)).await).unwrap().with_timeout(Duration::from_millis(50));
    assert_eq!(client.byte_size("f32[]").await.unwrap_err().code(), Code::DeadlineExceeded);
}

#[tokio::test]
async fn calls_are_repeated_while_the_server_is_unavailable() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let address = serve(move |_| match counted.fetch_add(1, Ordering::SeqCst) {
        2 => Ok(96),
        _ => Err(Status::unavailable("restarting")),
    })
    .await;
    let size = Client::connect(&address).unwrap().byte_size("f32[]").await.unwrap();
    assert_eq!((size.physical_bytes, calls.load(Ordering::SeqCst)), (96, 3));
    let once = Client::builder(&address).attempts(1).connect().unwrap();
    assert_eq!(once.byte_size("f32[]").await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(calls.load(Ordering::SeqCst), 4);
    assert_eq!(Client::builder(&address).attempts(6).connect().unwrap_err().field(), "attempts");
    assert_eq!(Client::builder("not an address").connect().unwrap_err().field(), "address");
}

#[tokio::test]
async fn the_token_travels_over_a_unix_socket() {
    let path = std::env::temp_dir().join(format!("xlashape-rust-{}", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let service = ShapeServiceServer::new(Shapes(Arc::new(|request| {
        match request.metadata().get("authorization").map(|value| value.as_bytes()) {
            Some(b"Bearer secret") => Ok(1),
            _ => Err(Status::unauthenticated("no token")),
        }
    })));
    tokio::spawn(
        tonic::transport::Server::builder().add_service(service).serve_with_incoming(UnixListenerStream::new(listener)),
    );
    let address = format!("unix:{}", path.display());
    let client = Client::builder(&address).token("secret").connect().unwrap();
    assert_eq!(client.byte_size("f32[]").await.unwrap().physical_bytes, 1);
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn calls_go_to_all_addresses() {
    let addresses = [serve(|_| Ok(0)).await, serve(|_| Ok(1)).await];
    let client = Client::builder(&addresses[0]).address(&addresses[1]).connect().unwrap();
    let mut seen = [false; 2];
    for _ in 0..200 {
        seen[client.byte_size("f32[]").await.unwrap().physical_bytes as usize] = true;
        if seen == [true; 2] {
            return;
        }
    }
    panic!("one server alone was asked");
}

#[tokio::test]
async fn a_token_may_change_with_each_call_and_is_never_shown() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = seen.clone();
    let address = serve(move |request| {
        let header = |name| request.metadata().get(name).and_then(|value| value.to_str().ok()).unwrap_or("").to_owned();
        noted.lock().unwrap().extend([header("authorization"), header("user-agent")]);
        Ok(1)
    })
    .await;
    let number = AtomicUsize::new(0);
    let builder =
        Client::builder(address).token_source(move || format!("secret{}", number.fetch_add(1, Ordering::SeqCst)));
    assert!(!format!("{builder:?}").contains("secret"));
    let client = builder.connect().unwrap();
    assert!(!format!("{client:?}").contains("secret"));
    for _ in 0..2 {
        client.byte_size("f32[]").await.unwrap();
    }
    let seen = seen.lock().unwrap();
    assert_eq!((&*seen[0], &*seen[2]), ("Bearer secret1", "Bearer secret2"));
    assert!(seen[1].starts_with(concat!("xlashape-rust/", env!("CARGO_PKG_VERSION"))), "{}", seen[1]);
}

#[tokio::test]
async fn interceptors_see_every_attempt_and_may_refuse_it() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let address = serve(move |request| match counted.fetch_add(1, Ordering::SeqCst) {
        0 => Err(Status::unavailable("restarting")),
        _ => Ok(request.metadata().get("x-example").map_or(0, |value| value.len() as i64)),
    })
    .await;
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = seen.clone();
    let marked = Client::builder(&address)
        .interceptor(|mut request: Request<()>| {
            request.metadata_mut().insert("x-example", "three".parse().unwrap());
            Ok(request)
        })
        .interceptor(move |request: Request<()>| {
            assert!(request.metadata().contains_key("x-example")); // by the one before
            noted.lock().unwrap().push(request.extensions().get::<tonic::GrpcMethod>().unwrap().method().to_owned());
            Ok(request)
        });
    let client = marked.connect().unwrap();
    assert_eq!(client.byte_size("f32[]").await.unwrap().physical_bytes, 5);
    let answer = client.shapes().byte_size(client.request(ByteSizeRequest::default())).await.unwrap();
    assert_eq!(answer.into_inner().sizes[0].physical_bytes, 5);
    assert_eq!(*seen.lock().unwrap(), ["ByteSize"; 3]);
    let refusing = Client::builder(address).interceptor(|_: Request<()>| Err(Status::permission_denied("not today")));
    let error = refusing.connect().unwrap().byte_size("f32[]").await.unwrap_err();
    assert_eq!((error.code(), error.message()), (Code::PermissionDenied, "not today"));
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}

#[test]
fn connecting_outside_of_tokio_is_an_error() {
    assert_eq!(Client::connect("127.0.0.1:1").unwrap_err().field(), "connect");
}

#[tokio::test]
async fn lists_can_be_read_without_pinning_and_errors_have_a_source() {
    use tokio_stream::StreamExt;
    let client = Client::builder("127.0.0.1:1").attempts(1).connect().unwrap();
    let error = client.list_instructions(ListInstructionsRequest::default()).next().await.unwrap().unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(std::error::Error::source(&error).unwrap().is::<Status>());
}

#[tokio::test]
async fn a_client_waits_for_its_server() {
    let client = Client::connect(serve(|_| Ok(1)).await).unwrap();
    client.wait_until_ready(Duration::from_secs(10)).await.unwrap();
    let none = Client::connect("127.0.0.1:1").unwrap();
    let error = none.wait_until_ready(Duration::from_millis(200)).await.unwrap_err();
    assert!(matches!(error.code(), Code::Unavailable | Code::DeadlineExceeded), "{error}");
}

/// Tells of each upload how many bytes it had, and whether it came to its end.
struct Uploads(tokio::sync::mpsc::UnboundedSender<Ended>);

#[derive(Debug, PartialEq)]
enum Ended {
    Whole(usize),
    Cancelled,
}

/// Tells that an upload was cancelled, unless it is forgotten: tonic drops the handler of a call that ends.
struct Cancelling(tokio::sync::mpsc::UnboundedSender<Ended>);

impl Drop for Cancelling {
    fn drop(&mut self) {
        self.0.send(Ended::Cancelled).unwrap();
    }
}

#[tonic::async_trait]
impl HloService for Uploads {
    async fn upload_module(
        &self,
        request: Request<tonic::Streaming<UploadModuleRequest>>,
    ) -> Answer<UploadModuleResponse> {
        let (mut parts, mut bytes) = (request.into_inner(), 0);
        let cancelling = Cancelling(self.0.clone());
        // A cancelled call ends the parts too, as tonic gives them.
        while let Some(part) = parts.message().await? {
            if part.data.starts_with(b"refused") {
                return Err(Status::resource_exhausted("too large"));
            }
            bytes += part.data.len();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        std::mem::forget(cancelling);
        self.0.send(Ended::Whole(bytes)).unwrap();
        let module = Module { name: "modules/1".into(), ..Default::default() };
        Ok(Response::new(UploadModuleResponse { module: Some(module), ..Default::default() }))
    }

    async fn put_module(&self, _: Request<PutModuleRequest>) -> Answer<PutModuleResponse> {
        Err(Status::unimplemented("not here"))
    }

    async fn get_module(&self, _: Request<GetModuleRequest>) -> Answer<GetModuleResponse> {
        Err(Status::unimplemented("not here"))
    }

    async fn delete_module(&self, _: Request<DeleteModuleRequest>) -> Answer<DeleteModuleResponse> {
        Err(Status::unimplemented("not here"))
    }

    async fn list_instructions(&self, _: Request<ListInstructionsRequest>) -> Answer<ListInstructionsResponse> {
        Err(Status::unimplemented("not here"))
    }
}

/// A reader that cannot be read.
struct Failing;

impl tokio::io::AsyncRead for Failing {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        _: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Err(std::io::Error::other("the disk is gone")))
    }
}

#[tokio::test]
async fn a_module_is_sent_while_it_is_read() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::connect(listener.local_addr().unwrap().to_string()).unwrap();
    let (told, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let service = HloServiceServer::new(Uploads(told));
    tokio::spawn(
        tonic::transport::Server::builder().add_service(service).serve_with_incoming(TcpListenerStream::new(listener)),
    );
    let content = vec![7; 2_500_000];

    // A reader that gives little at a time is sent in parts of 1 MiB all the same.
    let (mut writer, reader) = tokio::io::duplex(1000);
    let mut sent = Vec::new();
    let writing = async {
        writer.write_all(&content).await.unwrap();
        drop(writer);
    };
    let (upload, ()) = tokio::join!(client.upload_module_from(reader, |bytes| sent.push(bytes)), writing);
    assert_eq!(upload.unwrap().module.name, "modules/1");
    assert_eq!(sent, [1 << 20, 2 << 20, 2_500_000]);
    assert_eq!(ended.recv().await, Some(Ended::Whole(2_500_000)));

    // A reader that fails, and an upload that is dropped, end the call on the server too.
    let failing = (&content[..]).chain(Failing);
    let error = client.upload_module_from(failing, |_| ()).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot read the module: the disk is gone (Unknown)");
    assert!(std::error::Error::source(&error).unwrap().is::<std::io::Error>());
    assert_eq!(ended.recv().await, Some(Ended::Cancelled));
    let (writer, silent) = tokio::io::duplex(1000);
    let upload = client.upload_module_from((&content[..]).chain(silent), |_| ());
    assert!(tokio::time::timeout(Duration::from_millis(200), upload).await.is_err());
    assert_eq!(ended.recv().await, Some(Ended::Cancelled));
    drop(writer);

    // A refusal ends a reader that would go on for ever.
    let error = client.upload_module_from((&b"refused"[..]).chain(tokio::io::repeat(7)), |_| ()).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
}
