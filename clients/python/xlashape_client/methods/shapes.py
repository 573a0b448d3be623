"""ShapeService."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xlashape.errors import XlashapeError
from xlashape.proto import v1
from xlashape_client.bulk import BulkRpc, ask
from xlashape_client.inputs import AnyShape, each, integers, of_rows, one_row, rank_of, shape_input
from xlashape_client.results import ShapeDescription, ShapeSize
from xlashape_client.transport import Transport, choice

__all__ = ["ShapeMethods"]

_LINEAR_ORDERS = {"physical": v1.LINEAR_ORDER_PHYSICAL, "logical": v1.LINEAR_ORDER_LOGICAL}

_LINEAR_INDICES = BulkRpc(
    "LinearIndex",
    v1.LinearIndexRequest,
    v1.LinearIndexResponse,
    "LinearIndices",
    v1.LinearIndicesRequest,
    v1.LinearIndicesResponse,
    "indices",
    ("positions",),
)
_MULTI_INDICES = BulkRpc(
    "MultiIndex",
    v1.MultiIndexRequest,
    v1.MultiIndexResponse,
    "MultiIndices",
    v1.MultiIndicesRequest,
    v1.MultiIndicesResponse,
    "positions",
    ("indices", "is_element"),
)


class ShapeMethods(Transport):
    """The RPCs of ShapeService as methods."""

    def describe_shape(self, shape: AnyShape, *, timeout: float | None = None) -> ShapeDescription:
        """The sizes of a shape, and what its layout does."""
        return self.describe_shapes([shape], timeout=timeout)[0]

    def describe_shapes(self, shapes: Iterable[AnyShape], *, timeout: float | None = None) -> list[ShapeDescription]:
        """`describe_shape` of each shape, in one call."""
        request = v1.DescribeShapeRequest(shapes=each(shapes, shape_input, "shapes"))
        return [
            ShapeDescription.of(description)
            for description in self._call("DescribeShape", request, v1.DescribeShapeResponse, timeout).descriptions
        ]

    def byte_size(self, shape: AnyShape, *, timeout: float | None = None) -> ShapeSize:
        """The sizes of a shape, in elements and bytes."""
        return self.shape_sizes([shape], timeout=timeout)[0]

    def shape_sizes(self, shapes: Iterable[AnyShape], *, timeout: float | None = None) -> list[ShapeSize]:
        """`byte_size` of each shape, in one call."""
        request = v1.ByteSizeRequest(shapes=each(shapes, shape_input, "shapes"))
        return [ShapeSize.of(size) for size in self._call("ByteSize", request, v1.ByteSizeResponse, timeout).sizes]

    # `order` in the next four methods: "physical" counts positions in the buffer, including tiles and padding; "logical" follows
    # minor_to_major alone, as XLA's IndexUtil does.

    def linear_index(
        self, shape: AnyShape, index: Iterable[int], *, order: str = "physical", timeout: float | None = None
    ) -> int:
        """The position in the buffer, in elements, of the element at `index`: `tiling.linear_index`."""
        request = v1.LinearIndexRequest(
            order=choice(_LINEAR_ORDERS, order, "order"),
            shape=shape_input(shape),
            indices=one_row(index, "index"),
            count=1,
        )
        return self._call("LinearIndex", request, v1.LinearIndexResponse, timeout).positions[0]

    def linear_indices(
        self, shape: AnyShape, rows: ArrayLike, *, order: str = "physical", timeout: float | None = None
    ) -> NDArray[np.int64]:
        """`linear_index` of each row of int64[n, rank], in one call: a stream if there are many. Returns int64[n]."""
        table = integers(rows, "rows", 2)
        fields = {"order": choice(_LINEAR_ORDERS, order, "order"), "shape": shape_input(shape)}
        try:
            [positions] = ask(self, _LINEAR_INDICES, fields, table, lambda: 8, timeout)
        except XlashapeError as error:
            raise of_rows(error, table, "indices") from None
        return positions

    def multi_index(
        self, shape: AnyShape, position: int, *, order: str = "physical", timeout: float | None = None
    ) -> tuple[int, ...] | None:
        """The index of the element at `position` of the buffer, None for padding: `tiling.multi_index`."""
        rows, is_element = self.multi_indices(shape, [position], order=order, timeout=timeout)
        return tuple(rows[0].tolist()) if is_element[0] else None

    def multi_indices(
        self, shape: AnyShape, positions: ArrayLike, *, order: str = "physical", timeout: float | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """`multi_index` of each position of int64[n], in one call: a stream if there are many.

        Returns the indices as int64[n, rank], whose rows for padding hold -1, and bool[n], false for padding.
        """
        numbers = integers(positions, "positions", 1)
        fields = {"order": choice(_LINEAR_ORDERS, order, "order"), "shape": shape_input(shape)}
        flat, is_element = ask(self, _MULTI_INDICES, fields, numbers, lambda: 8 * rank_of(shape) + 1, timeout)
        rank = len(flat) // len(numbers) if len(numbers) else rank_of(shape)
        return flat.reshape(len(numbers), rank), is_element
