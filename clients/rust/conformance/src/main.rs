//! The testee of the Rust client: it does what `tests/conformance/run.py` asks, and tells how it ended.

use std::error::Error as _;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{stream, StreamExt, TryStreamExt};
use prost::Message;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};
use xlashape::v1::{
    self, EvaluateMapBatchRequest, EvaluateMapResponse, LinearIndexResponse, LinearIndicesRequest,
    ListInstructionsRequest, MultiIndexResponse, MultiIndicesRequest, SizeRequest,
};
use xlashape::{Client, EvaluableMap};

mod testee {
    include!(concat!(env!("OUT_DIR"), "/xlashape.conformance.rs"));
}
use testee::request::Action;
use testee::{evaluation, Bulk, Call, Evaluation, Pages, Request, Response, Start, Transport};

/// How an action ended badly.
enum Failure {
    Error(xlashape::Error),
    Testee(String),
}

impl From<xlashape::Error> for Failure {
    fn from(error: xlashape::Error) -> Self {
        Failure::Error(error)
    }
}

impl From<tonic::Status> for Failure {
    fn from(status: tonic::Status) -> Self {
        Failure::Error(status.into())
    }
}

impl From<prost::DecodeError> for Failure {
    fn from(error: prost::DecodeError) -> Self {
        Failure::Testee(error.to_string())
    }
}

type Outcome = Result<(), Failure>;

#[tokio::main]
async fn main() -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let (mut client, token) = (None, Arc::new(Mutex::new(String::new())));
    while let Some(data) = read(&mut input)? {
        let mut response = Response::default();
        let outcome = match Request::decode(data.as_slice()) {
            Ok(request) => act(request, &mut client, &token, &mut response).await,
            Err(error) => Err(Failure::Testee(error.to_string())),
        };
        match outcome {
            Ok(()) => {}
            Err(Failure::Testee(what)) => response.failure = what,
            Err(Failure::Error(error)) => response.error = Some(reported(&error)),
        }
        output.write_all(&response.encode_length_delimited_to_vec())?;
        output.flush()?;
    }
    Ok(())
}

/// The next message of the input; `None` at its end.
fn read(input: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let (mut size, mut shift) = (0u64, 0);
    loop {
        let mut byte = [0];
        if input.read(&mut byte)? == 0 {
            return if shift == 0 { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        size |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] < 0x80 {
            break;
        }
        shift += 7;
    }
    let mut data = vec![0; size as usize];
    input.read_exact(&mut data)?;
    Ok(Some(data))
}

fn reported(error: &xlashape::Error) -> testee::Error {
    testee::Error {
        code: error.code() as i32,
        reason: error.reason().into(),
        message: error.message().into(),
        field: error.field().into(),
        line: error.line().unwrap_or(0) as i32,
        column: error.column().unwrap_or(0) as i32,
        details: error.details().clone(),
    }
}

async fn act(
    request: Request,
    connected: &mut Option<Client>,
    token: &Arc<Mutex<String>>,
    response: &mut Response,
) -> Outcome {
    let action = request.action.ok_or_else(|| Failure::Testee("a request without an action".into()))?;
    if let Action::Start(start) = action {
        *connected = Some(connect(start, token)?);
        return Ok(());
    }
    let client = connected.as_ref().ok_or_else(|| Failure::Testee("not started".into()))?;
    match action {
        Action::Start(_) => unreachable!(),
        Action::Call(call) => {
            if !call.token.is_empty() {
                token.lock().unwrap().clone_from(&call.token);
            }
            let mut client = client.clone();
            if call.timeout_ms > 0 {
                client = client.with_timeout(Duration::from_millis(call.timeout_ms as u64));
            }
            make(&client, call, response).await
        }
        Action::Evaluation(evaluation) => evaluate(client, evaluation, response).await,
        Action::Upload(upload) => {
            let upload = if upload.read_bytes == 0 {
                client.upload_module(&upload.content).await?
            } else {
                let fails = upload.reader_fails.then(|| Err(std::io::Error::other("the reader failed")));
                let pieces: Vec<_> = upload.content.chunks(upload.read_bytes as usize).map(Ok).collect();
                let from =
                    tokio_util::io::StreamReader::new(futures_util::stream::iter(pieces.into_iter().chain(fails)));
                let progress = &mut response.progress;
                match client.upload_module_from(from, |sent| progress.push(sent as i64)).await {
                    Err(error) if error.source().is_some_and(|cause| cause.is::<std::io::Error>()) => {
                        response.reader_failed = true;
                        return Ok(());
                    }
                    outcome => outcome?,
                }
            };
            response.sent = upload.sent;
            response.answers.push(upload.module.encode_to_vec());
            Ok(())
        }
        Action::Pages(pages) => list(client, pages, response).await,
        Action::Bulk(bulk) => ask(client, bulk, response).await,
    }
}

fn connect(start: Start, token: &Arc<Mutex<String>>) -> Result<Client, Failure> {
    if start.transport() != Transport::Grpc {
        return Err(Failure::Testee(format!("unknown transport {:?}", start.transport())));
    }
    // What gRPC receives by default has to do.
    let mut builder = Client::builder(start.address).max_answer(4 << 20);
    *token.lock().unwrap() = start.token;
    let token = Arc::clone(token);
    builder = builder.token_source(move || token.lock().unwrap().clone());
    if !start.root_certificates.is_empty() {
        let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(start.root_certificates));
        if !start.client_certificate.is_empty() {
            tls = tls.identity(Identity::from_pem(start.client_certificate, start.client_key));
        }
        builder = builder.tls(tls);
    }
    for address in start.more_addresses {
        builder = builder.address(address);
    }
    Ok(builder.connect()?)
}

/// Calls an RPC: with the client's methods of its name, if they send the request, and with the generated client otherwise.
async fn make(client: &Client, call: Call, response: &mut Response) -> Outcome {
    macro_rules! unary {
        ($service:ident, $method:ident) => {{
            response.below = true;
            let message = Message::decode(call.requests[0].as_slice())?;
            let answer = client.$service().$method(client.request(message)).await?;
            response.answers.push(answer.into_inner().encode_to_vec());
            Ok(())
        }};
    }
    macro_rules! public {
        ($method:ident) => {{
            let answer = client.$method(Message::decode(call.requests[0].as_slice())?).await?;
            response.answers.push(answer.encode_to_vec());
            Ok(())
        }};
    }
    macro_rules! by {
        ($kind:ident, |$request:ident| $condition:expr => $answer:expr, otherwise $service:ident.$method:ident) => {{
            let $request = v1::$kind::decode(call.requests[0].as_slice())?;
            if $condition {
                response.answers.push($answer.encode_to_vec());
                return Ok(());
            }
            unary!($service, $method)
        }};
    }
    macro_rules! requests {
        () => {{
            response.below = true;
            let messages = call.requests.iter().map(|data| Message::decode(data.as_slice()));
            let messages = stream::iter(messages.collect::<Result<Vec<_>, _>>()?);
            match call.keep_open {
                true => messages.chain(stream::pending()).boxed(),
                false => messages.boxed(),
            }
        }};
    }
    macro_rules! answers {
        ($made:expr) => {{
            let most = if call.stop_after == 0 { usize::MAX } else { call.stop_after as usize };
            let mut answers = $made.await?.into_inner();
            while response.answers.len() < most {
                match answers.message().await? {
                    Some(answer) => response.answers.push(answer.encode_to_vec()),
                    None => break,
                }
            }
            Ok(())
        }};
    }
    macro_rules! both_streams {
        ($service:ident, $method:ident) => {{
            let messages = requests!();
            answers!(client.$service().$method(client.request(messages)))
        }};
    }
    let duration = |ms| Duration::from_millis(if ms > 0 { ms as u64 } else { 3_600_000 });
    let (timeout, cancelled) = (duration(call.timeout_ms), duration(call.cancel_after_ms));
    let made = async {
        match call.rpc.as_str() {
            "ShapeService/DescribeShape" => by!(DescribeShapeRequest, |asked| true => {
                let descriptions = match asked.shapes.as_slice() {
                    [shape] => vec![client.describe_shape(shape.clone()).await?],
                    shapes => client.describe_shapes(shapes.iter().cloned()).await?,
                };
                v1::DescribeShapeResponse { descriptions }
            }, otherwise shapes.describe_shape),
            "ShapeService/ByteSize" => by!(ByteSizeRequest, |asked| asked.pointer_size == 0 => {
                let sizes = match asked.shapes.as_slice() {
                    [shape] => vec![client.byte_size(shape.clone()).await?],
                    shapes => client.byte_sizes(shapes.iter().cloned()).await?,
                };
                v1::ByteSizeResponse { sizes }
            }, otherwise shapes.byte_size),
            "ShapeService/LinearIndex" => by!(LinearIndexRequest, |asked| asked.count == Some(1) => {
                let position = client.linear_index(asked.shape.unwrap_or_default(), &asked.indices).await?;
                v1::LinearIndexResponse { positions: vec![position] }
            }, otherwise shapes.linear_index),
            "ShapeService/LinearIndices" => both_streams!(shapes, linear_indices),
            "ShapeService/MultiIndex" => by!(MultiIndexRequest, |asked| asked.positions.len() == 1 => {
                let index = client.multi_index(asked.shape.unwrap_or_default(), asked.positions[0]).await?;
                v1::MultiIndexResponse { is_element: vec![index.is_some()], indices: index.unwrap_or_default() }
            }, otherwise shapes.multi_index),
            "ShapeService/MultiIndices" => both_streams!(shapes, multi_indices),
            "HloService/UploadModule" => {
                let messages = requests!();
                let answer = client.modules().upload_module(client.request(messages)).await?;
                response.answers.push(answer.into_inner().encode_to_vec());
                Ok(())
            }
            "HloService/PutModule" => by!(PutModuleRequest, |asked| asked.sha256.is_empty() => {
                let upload = client.upload_module(&asked.data).await?;
                v1::PutModuleResponse { module: Some(upload.module), already_present: !upload.sent }
            }, otherwise modules.put_module),
            "HloService/GetModule" => {
                by!(GetModuleRequest, |asked| asked.content_offset == 0 && asked.content_limit == 0 => {
                    let content = match asked.include_content {
                        true => client.download_module(asked.name.clone()).await?,
                        false => Vec::new(),
                    };
                    v1::GetModuleResponse { module: Some(client.get_module(asked.name).await?), content }
                }, otherwise modules.get_module)
            }
            "HloService/DeleteModule" => {
                // By the client's own function, which sends it once.
                let request = v1::DeleteModuleRequest::decode(call.requests[0].as_slice())?;
                client.delete_module(request.name).await?;
                response.answers.push(v1::DeleteModuleResponse::default().encode_to_vec());
                Ok(())
            }
            "HloService/ListInstructions" => unary!(modules, list_instructions),
            "IndexingService/IndexingMaps" => public!(indexing_maps),
            "IndexingService/ParseMap" => by!(ParseMapRequest, |asked| asked.style == 0 && asked.maps.len() == 1 => {
                v1::ParseMapResponse { maps: vec![client.parse_map(asked.maps[0].clone()).await?] }
            }, otherwise indexing.parse_map),
            "IndexingService/SimplifyMap" => {
                let is_plain = |asked: &v1::SimplifyMapRequest| asked.style == 0 && !asked.remove_unused_variables;
                by!(SimplifyMapRequest, |asked| is_plain(&asked) && asked.maps.len() == 1 => {
                    let map = Some(client.simplify_map(asked.maps[0].clone()).await?);
                    v1::SimplifyMapResponse { maps: vec![v1::SimplifiedMap { map, ..Default::default() }] }
                }, otherwise indexing.simplify_map)
            }
            "IndexingService/ComposeMaps" => {
                let is_plain = |asked: &v1::ComposeMapsRequest| asked.style == 0 && !asked.raw;
                by!(ComposeMapsRequest, |asked| is_plain(&asked) && asked.chains.len() == 1 => {
                    v1::ComposeMapsResponse { maps: vec![client.compose_maps(asked.chains[0].maps.clone()).await?] }
                }, otherwise indexing.compose_maps)
            }
            "IndexingService/EvaluateMap" => unary!(indexing, evaluate_map),
            "IndexingService/EvaluateMapBatch" => both_streams!(indexing, evaluate_map_batch),
            "ReportService/Copies" => public!(copies),
            "ReportService/Cost" => public!(cost),
            "ReportService/Collectives" => public!(collectives),
            "ReportService/Reads" => public!(reads),
            "ReportService/Diff" => public!(diff),
            "ReportService/Equivalent" => public!(equivalent),
            "ReportService/Summary" => public!(summary),
            "ReportService/Tile" => public!(tile),
            "ReportService/Verify" => public!(verify),
            "ReportService/Why" => public!(why),
            "ReportService/Size" => public!(size),
            "ReportService/Profile" => public!(profile),
            "ReportService/Memory" => public!(memory),
            "ViewService/Recognize" => public!(recognize),
            "ViewService/Draw" => public!(draw),
            "ViewService/GetText" => public!(get_text),
            "ViewService/Graph" => public!(graph),
            other => Err(Failure::Testee(format!("unknown RPC {other}"))),
        }
    };
    tokio::select! {
        outcome = made => outcome,
        _ = tokio::time::sleep(timeout) => {
            Err(tonic::Status::deadline_exceeded("the server did not answer in time").into())
        }
        // A call that is dropped is cancelled.
        _ = tokio::time::sleep(cancelled) => Err(tonic::Status::cancelled("dropped").into()),
    }
}

async fn evaluate(client: &Client, evaluation: Evaluation, response: &mut Response) -> Outcome {
    let map = match evaluation.map {
        Some(evaluation::Map::Text(text)) => client.parse_map(text).await?.map.unwrap_or_default(),
        Some(evaluation::Map::Message(data)) => v1::IndexingMap::decode(data.as_slice())?,
        None => return Err(Failure::Testee("an evaluation without a map".into())),
    };
    let count = evaluation.count as usize;
    let mut answer = EvaluateMapResponse::default();
    if !map.fits_int64 {
        (answer.results, answer.in_domain) = client.evaluate_map(map, evaluation.points).await?;
        response.answers.push(answer.encode_to_vec());
        return Ok(());
    }
    let map = EvaluableMap::try_from(map)?;
    if evaluation.batch {
        (answer.results, answer.in_domain) = map.evaluate_batch(&evaluation.points, count)?;
    } else {
        for i in 0..count {
            let width = evaluation.points.len() / count;
            let results = map.evaluate(&evaluation.points[i * width..(i + 1) * width])?;
            answer.in_domain.push(results.is_some());
            answer.results.extend(results.unwrap_or_else(|| vec![0; map.results()]));
        }
    }
    response.answers.push(answer.encode_to_vec());
    Ok(())
}

async fn list(client: &Client, pages: Pages, response: &mut Response) -> Outcome {
    response.answers = match pages.rpc.as_str() {
        "HloService/ListInstructions" => {
            let request = ListInstructionsRequest::decode(pages.request.as_slice())?;
            client.list_instructions(request).map_ok(|item| item.encode_to_vec()).try_collect().await?
        }
        _ => {
            let request = SizeRequest::decode(pages.request.as_slice())?;
            client.size_rows(request).map_ok(|item| item.encode_to_vec()).try_collect().await?
        }
    };
    Ok(())
}

async fn ask(client: &Client, bulk: Bulk, response: &mut Response) -> Outcome {
    let request = bulk.request.as_slice();
    response.answers.push(match bulk.rpc.as_str() {
        "ShapeService/LinearIndices" => {
            let first = LinearIndicesRequest::decode(request)?;
            let order = first.order();
            let positions = client.linear_indices(first.shape.unwrap_or_default(), order, bulk.numbers).await?;
            LinearIndexResponse { positions }.encode_to_vec()
        }
        "ShapeService/MultiIndices" => {
            let first = MultiIndicesRequest::decode(request)?;
            let order = first.order();
            let (indices, is_element) =
                client.multi_indices(first.shape.unwrap_or_default(), order, bulk.numbers).await?;
            MultiIndexResponse { indices, is_element }.encode_to_vec()
        }
        _ => {
            let map = EvaluateMapBatchRequest::decode(request)?.map.unwrap_or_default();
            let (results, in_domain) = client.evaluate_map(map, bulk.numbers).await?;
            EvaluateMapResponse { results, in_domain }.encode_to_vec()
        }
    });
    Ok(())
}
