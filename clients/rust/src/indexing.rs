use futures_util::{stream, Stream};
use tokio::time::Instant;
use tonic::Streaming;

use crate::bulk::{in_parts, UNARY_ANSWERS};
use crate::client::{ask, within};
use crate::shapes::one;
use crate::v1::{
    map_input, ComposeMapsRequest, EvaluateMapBatchRequest, EvaluateMapRequest, IndexingMapsRequest,
    IndexingMapsResponse, InstructionMapsRequest, InstructionMapsResponse, MapChain, MapInput, MapOutput,
    OperandReadsRequest, OperandReadsResponse, OperandTilesRequest, OperandTilesResponse, SimplifyMapRequest,
};
use crate::{Client, Map, Result};

impl Client {
    /// The maps of a module's instructions, or of one. The stream ends after the first error; dropping it ends the call.
    pub async fn indexing_maps(
        &self,
        request: IndexingMapsRequest,
    ) -> Result<impl Stream<Item = Result<IndexingMapsResponse>> + Send + Unpin + use<>> {
        let deadline = self.deadline();
        Ok(answers(ask!(self, indexing.indexing_maps, request)?, deadline))
    }

    /// The maps of one instruction.
    pub async fn instruction_maps(&self, request: InstructionMapsRequest) -> Result<InstructionMapsResponse> {
        ask!(self, indexing.instruction_maps, request)
    }

    /// How efficiently a module's instructions, or one, read their operands. The stream ends after the first error; dropping it ends the call.
    pub async fn operand_reads(
        &self,
        request: OperandReadsRequest,
    ) -> Result<impl Stream<Item = Result<OperandReadsResponse>> + Send + Unpin + use<>> {
        let deadline = self.deadline();
        Ok(answers(ask!(self, indexing.operand_reads, request)?, deadline))
    }

    /// The tile of each operand that a tile of an instruction's output reads.
    pub async fn operand_tiles(&self, request: OperandTilesRequest) -> Result<OperandTilesResponse> {
        ask!(self, indexing.operand_tiles, request)
    }

    /// Simplifies a map.
    pub async fn simplify_map(&self, map: impl Into<MapInput>) -> Result<MapOutput> {
        let request = SimplifyMapRequest { maps: vec![map.into()], ..Default::default() };
        Ok(one(ask!(self, indexing.simplify_map, request)?.maps)?.map.unwrap_or_default())
    }

    /// The composition of two or more maps, the first of which is applied first.
    pub async fn compose_maps<M: Into<MapInput>>(&self, chain: impl IntoIterator<Item = M>) -> Result<MapOutput> {
        let maps = chain.into_iter().map(Into::into).collect();
        let request = ComposeMapsRequest { chains: vec![MapChain { maps }], ..Default::default() };
        one(ask!(self, indexing.compose_maps, request)?.maps)
    }

    /// Lets the server evaluate a map at any number of points, which stand one after another, each with one number for every variable. It returns the
    /// results one after another, 0 for points outside the domain, and for each point whether it is in the domain. Many points are sent as a stream. A
    /// map without variables is not for this method, since its points have no numbers. [`Map`] does the same without the server.
    pub async fn evaluate_map(&self, map: impl Into<MapInput>, points: Vec<i64>) -> Result<(Vec<i64>, Vec<bool>)> {
        let map = map.into();
        if points.len() <= UNARY_ANSWERS {
            let request = EvaluateMapRequest { map: Some(map), points, count: None };
            let answer = ask!(self, indexing.evaluate_map, request)?;
            return Ok((answer.results, answer.in_domain));
        }
        let width = variables(&map)?;
        let (mut results, mut in_domain) = (Vec::new(), Vec::new());
        let first = EvaluateMapBatchRequest { map: Some(map), ..Default::default() };
        in_parts(
            self,
            points,
            width,
            UNARY_ANSWERS * width.max(1),
            first,
            |request, part| EvaluateMapBatchRequest { points: part, ..request },
            |requests| async { self.indexing().evaluate_map_batch(requests).await },
            |answer| {
                results.extend(answer.results);
                in_domain.extend(answer.in_domain);
            },
        )
        .await?;
        Ok((results, in_domain))
    }
}

/// How many numbers a point of the map has.
fn variables(map: &MapInput) -> Result<usize> {
    match &map.form {
        Some(map_input::Form::Map(map)) => Ok(map.dimensions.len() + map.ranges.len() + map.runtime.len()),
        Some(map_input::Form::Text(text)) => Ok(Map::parse(text)?.variables()),
        None => Ok(1), // the server refuses it
    }
}

fn answers<T: Send + 'static>(
    stream: Streaming<T>,
    deadline: Option<Instant>,
) -> impl Stream<Item = Result<T>> + Send + Unpin {
    Box::pin(stream::unfold(Some(stream), move |stream| async move {
        let mut stream = stream?;
        match within(deadline, stream.message()).await {
            Ok(answer) => Some((Ok(answer?), Some(stream))),
            Err(status) => Some((Err(status.into()), None)),
        }
    }))
}
