use std::future::Future;

use futures_util::{stream, StreamExt};
use tonic::{IntoStreamingRequest, Request, Response, Status, Streaming};

use crate::answers::present;
use crate::client::within;
use crate::v1::{map_input, MapInput, ShapeInput};
use crate::{Client, Result};

/// The number of `i64` that one message carries: 2 MiB, half of what gRPC receives by default.
pub(crate) const UNARY_NUMBERS: usize = 1 << 18;
/// The number of questions in one message whose answers are several times as large.
pub(crate) const UNARY_ANSWERS: usize = 1 << 14;

/// Sends numbers over a stream in parts of at most `most` numbers, each of whole rows of `width` numbers, while it reads the answers. `first` is the
/// first request without numbers, `with_numbers` puts numbers into a request.
#[allow(clippy::too_many_arguments)]
pub(crate) async fn in_parts<Req, Res, Made>(
    client: &Client,
    numbers: Vec<i64>,
    width: usize,
    most: usize,
    first: Req,
    with_numbers: impl Fn(Req, Vec<i64>) -> Req + Send + 'static,
    open: impl FnOnce(Request<stream::BoxStream<'static, Req>>) -> Made,
    mut answer: impl FnMut(Res),
) -> Result<()>
where
    Req: Default + Send + 'static,
    Made: Future<Output = std::result::Result<Response<Streaming<Res>>, Status>>,
{
    let width = width.max(1);
    let size = (most / width).max(1) * width;
    let count = numbers.len().div_ceil(size).max(1);
    let mut first = Some(first);
    let requests = stream::iter(0..count).map(move |i| {
        let part = numbers[i * size..numbers.len().min((i + 1) * size)].to_vec();
        with_numbers(first.take().unwrap_or_default(), part)
    });
    let deadline = client.stream_deadline();
    let requests = client.stream_request(requests.boxed()).into_streaming_request();
    let mut answers = within(deadline, open(requests)).await?.into_inner();
    while let Some(response) = within(deadline, answers.message()).await? {
        answer(response);
    }
    Ok(())
}

impl Client {
    /// How many numbers an index of the shape has.
    pub(crate) async fn rank(&self, shape: &ShapeInput) -> Result<usize> {
        Ok(self.describe_shape(shape.clone()).await?.rank() as usize)
    }

    /// How many numbers a point of the map has. The server reads a map in text.
    pub(crate) async fn variables(&self, map: &MapInput) -> Result<usize> {
        let parsed;
        let map = match &map.form {
            Some(map_input::Form::Map(map)) => map,
            _ => {
                parsed = present(self.parse_map(map.clone()).await?.map)?;
                &parsed
            }
        };
        Ok(map.dimensions.len() + map.ranges.len() + map.runtime.len())
    }
}
