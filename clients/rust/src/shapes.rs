use crate::bulk::{in_parts, UNARY_ANSWERS, UNARY_NUMBERS};
use crate::client::ask;
use crate::v1::{
    ByteSizeRequest, DescribeShapeRequest, LinearIndexRequest, LinearIndicesRequest, LinearOrder, MultiIndexRequest,
    MultiIndicesRequest, ShapeDescription, ShapeInput, ShapeSize,
};
use crate::{Client, Code, Error, Result};

impl Client {
    /// Describes a shape: its canonical text, sizes, layout, and why its buffer is larger than its elements.
    pub async fn describe_shape(&self, shape: impl Into<ShapeInput>) -> Result<ShapeDescription> {
        one(self.describe_shapes([shape]).await?)
    }

    /// Describes each shape, in one call.
    pub async fn describe_shapes<S: Into<ShapeInput>>(
        &self,
        shapes: impl IntoIterator<Item = S>,
    ) -> Result<Vec<ShapeDescription>> {
        let request = DescribeShapeRequest { shapes: inputs(shapes), ..Default::default() };
        let count = request.shapes.len();
        same_number(ask!(self, shapes.describe_shape, request)?.descriptions, count)
    }

    /// The sizes of a shape in elements and bytes.
    pub async fn byte_size(&self, shape: impl Into<ShapeInput>) -> Result<ShapeSize> {
        one(self.byte_sizes([shape]).await?)
    }

    /// The sizes of each shape, in one call.
    pub async fn byte_sizes<S: Into<ShapeInput>>(&self, shapes: impl IntoIterator<Item = S>) -> Result<Vec<ShapeSize>> {
        let request = ByteSizeRequest { shapes: inputs(shapes), ..Default::default() };
        let count = request.shapes.len();
        same_number(ask!(self, shapes.byte_size, request)?.sizes, count)
    }

    /// The position in the buffer, in elements, of the element at an index.
    pub async fn linear_index(&self, shape: impl Into<ShapeInput>, index: &[i64]) -> Result<i64> {
        let request = LinearIndexRequest {
            shape: Some(shape.into()),
            indices: index.to_vec(),
            count: Some(1),
            ..Default::default()
        };
        one(ask!(self, shapes.linear_index, request)?.positions)
    }

    /// The positions of the elements at any number of indices, which stand one after another in `indices`, each with one number for every dimension
    /// of the shape. Many indices are sent as a stream. It is not for scalars, whose indices have no numbers.
    pub async fn linear_indices(
        &self,
        shape: impl Into<ShapeInput>,
        order: LinearOrder,
        indices: Vec<i64>,
    ) -> Result<Vec<i64>> {
        let (shape, order) = (shape.into(), order.into());
        if indices.len() <= UNARY_NUMBERS {
            let request = LinearIndexRequest { shape: Some(shape), order, indices, count: None };
            return Ok(ask!(self, shapes.linear_index, request)?.positions);
        }
        let rank = self.rank(&shape).await?;
        let mut positions = Vec::with_capacity(indices.len() / rank.max(1));
        let first = LinearIndicesRequest { shape: Some(shape), order, ..Default::default() };
        in_parts(
            self,
            indices,
            rank,
            UNARY_NUMBERS,
            first,
            |request, part| LinearIndicesRequest { indices: part, ..request },
            |requests| async { self.shapes().linear_indices(requests).await },
            |answer| positions.extend(answer.positions),
        )
        .await?;
        Ok(positions)
    }

    /// The index of the element at a position of the buffer; `None` if the position is padding.
    pub async fn multi_index(&self, shape: impl Into<ShapeInput>, position: i64) -> Result<Option<Vec<i64>>> {
        let (indices, is_element) = self.multi_indices(shape, LinearOrder::Physical, vec![position]).await?;
        Ok(one(is_element)?.then_some(indices))
    }

    /// The indices of the elements at any number of positions, one after another, and for each position whether it holds an element. The numbers of a
    /// position that is padding are -1. Many positions are sent as a stream.
    pub async fn multi_indices(
        &self,
        shape: impl Into<ShapeInput>,
        order: LinearOrder,
        positions: Vec<i64>,
    ) -> Result<(Vec<i64>, Vec<bool>)> {
        let (shape, order) = (shape.into(), order.into());
        if positions.len() <= UNARY_ANSWERS {
            let request = MultiIndexRequest { shape: Some(shape), order, positions };
            let answer = ask!(self, shapes.multi_index, request)?;
            return Ok((answer.indices, answer.is_element));
        }
        let rank = self.rank(&shape).await?;
        let mut indices = Vec::with_capacity(positions.len() * rank);
        let mut is_element = Vec::with_capacity(positions.len());
        let first = MultiIndicesRequest { shape: Some(shape), order, ..Default::default() };
        in_parts(
            self,
            positions,
            1,
            UNARY_NUMBERS / (rank + 1),
            first,
            |request, part| MultiIndicesRequest { positions: part, ..request },
            |requests| async { self.shapes().multi_indices(requests).await },
            |answer| {
                indices.extend(answer.indices);
                is_element.extend(answer.is_element);
            },
        )
        .await?;
        Ok((indices, is_element))
    }

    async fn rank(&self, shape: &ShapeInput) -> Result<usize> {
        Ok(self.describe_shape(shape.clone()).await?.rank() as usize)
    }
}

fn inputs<S: Into<ShapeInput>>(shapes: impl IntoIterator<Item = S>) -> Vec<ShapeInput> {
    shapes.into_iter().map(Into::into).collect()
}

/// Checks that the server answered each item of a request.
pub(crate) fn same_number<T>(answers: Vec<T>, count: usize) -> Result<Vec<T>> {
    if answers.len() == count {
        return Ok(answers);
    }
    Err(Error::new(Code::Internal, "INVALID_ANSWER", format!("the server answered {} of {count} items", answers.len())))
}

/// The one answer to the one item of a request.
pub(crate) fn one<T>(answers: Vec<T>) -> Result<T> {
    same_number(answers, 1).map(|mut answers| answers.remove(0))
}
