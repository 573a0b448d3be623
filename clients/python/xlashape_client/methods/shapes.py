"""ShapeService."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xlashape.errors import XlashapeError
from xlashape.proto import v1
from xlashape.proto.packed import join, split
from xlashape_client.inputs import AnyShape, each, integers, of_rows, one_row, payload, rank_of, shape_input
from xlashape_client.results import ShapeDescription, ShapeSize
from xlashape_client.transport import Transport, choice

__all__ = ["ShapeMethods"]

_LINEAR_ORDERS = {"physical": v1.LINEAR_ORDER_PHYSICAL, "logical": v1.LINEAR_ORDER_LOGICAL}


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
        """`linear_index` of each row of int64[n, rank], in one call. Returns int64[n]."""
        table = integers(rows, "rows", 2)
        message = v1.LinearIndexRequest(
            order=choice(_LINEAR_ORDERS, order, "order"), shape=shape_input(shape), count=len(table)
        )
        try:
            response = self.send("LinearIndex", join(message, indices=payload(table)), timeout)
        except XlashapeError as error:
            raise of_rows(error, table, "indices") from None
        _, [positions] = split(v1.LinearIndexResponse, response, "positions")
        return np.frombuffer(positions, "<i8")

    def multi_index(
        self, shape: AnyShape, position: int, *, order: str = "physical", timeout: float | None = None
    ) -> tuple[int, ...] | None:
        """The index of the element at `position` of the buffer, None for padding: `tiling.multi_index`."""
        rows, is_element = self.multi_indices(shape, [position], order=order, timeout=timeout)
        return tuple(rows[0].tolist()) if is_element[0] else None

    def multi_indices(
        self, shape: AnyShape, positions: ArrayLike, *, order: str = "physical", timeout: float | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """`multi_index` of each position of int64[n], in one call.

        Returns the indices as int64[n, rank], whose rows for padding hold -1, and bool[n], false for padding.
        """
        numbers = integers(positions, "positions", 1)
        message = v1.MultiIndexRequest(order=choice(_LINEAR_ORDERS, order, "order"), shape=shape_input(shape))
        request = join(message, positions=payload(numbers))
        _, [indices, is_element] = split(
            v1.MultiIndexResponse, self.send("MultiIndex", request, timeout), "indices", "is_element"
        )
        flat = np.frombuffer(indices, "<i8")
        rank = len(flat) // len(numbers) if len(numbers) else rank_of(shape)
        return flat.reshape(len(numbers), rank), np.frombuffer(is_element, np.bool_)
