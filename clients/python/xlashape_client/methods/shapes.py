"""The methods of ShapeService: sizes of shapes, and positions of elements."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xlashape.errors import XlashapeError
from xlashape.proto import v1
from xlashape_client.bulk import BulkRpc, ask
from xlashape_client.faces import Methods, answer
from xlashape_client.inputs import AnyShape, each, integers, of_rows, one_row, rank_of, shape_input
from xlashape_client.results import ShapeDescription, ShapeSize
from xlashape_client.transport import choice

_LINEAR_ORDERS = {"physical": v1.LINEAR_ORDER_UNSPECIFIED, "logical": v1.LINEAR_ORDER_LOGICAL}

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


class ShapeMethods(Methods):
    """The RPCs of ShapeService as methods."""

    @answer
    async def describe_shape(self, shape: AnyShape, *, timeout: float | None = None) -> ShapeDescription:
        """The sizes of a shape, and facts about its layout.

        >>> found = client.describe_shape("s4[6,<=5]{0,1:E(4)}")
        >>> found.text, found.element_bits, found.is_static
        ('s4[6,<=5]{0,1:E(4)}', 4, False)
        """
        return (await self._descriptions([shape], timeout))[0]

    @answer
    async def describe_shapes(
        self, shapes: Iterable[AnyShape], *, timeout: float | None = None
    ) -> list[ShapeDescription]:
        """`describe_shape` of each shape, in one call.

        >>> found = client.describe_shapes(["f32[3,5]", "(s8[7], s8[8])"])
        >>> [shape.leaf_count for shape in found]
        [1, 2]
        """
        return await self._descriptions(shapes, timeout)

    @answer
    async def byte_size(self, shape: AnyShape, *, timeout: float | None = None) -> ShapeSize:
        """The sizes of a shape, in elements and bytes.

        >>> size = client.byte_size("bf16[20,300]{1,0:T(8,128)(2,1)}")
        >>> size.logical_bytes, size.physical_bytes, size.padding_bytes
        (12000, 18432, 6432)
        """
        return (await self._sizes([shape], timeout))[0]

    @answer
    async def byte_sizes(self, shapes: Iterable[AnyShape], *, timeout: float | None = None) -> list[ShapeSize]:
        """`byte_size` of each shape, in one call.

        >>> sizes = client.byte_sizes(["f32[3,5]", "f32[3,5]{1,0:T(2,2)}"])
        >>> [size.physical_bytes for size in sizes]
        [60, 96]
        """
        return await self._sizes(shapes, timeout)

    @answer
    async def linear_index(
        self, shape: AnyShape, index: Iterable[int], *, order: str = "physical", timeout: float | None = None
    ) -> int:
        """The position in the buffer, in elements, of the element at `index`: `tiling.linear_index`.

        `order` is "physical", which counts positions in the buffer, including tiles and padding, or "logical", which
        follows minor_to_major alone, as XLA's IndexUtil does.

        >>> client.linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3))
        17
        """
        request = v1.LinearIndexRequest(
            order=choice(_LINEAR_ORDERS, order, "order"),
            shape=shape_input(shape),
            indices=one_row(index, "index"),
            count=1,
        )
        return (await self._transport.call("LinearIndex", request, v1.LinearIndexResponse, timeout)).positions[0]

    @answer
    async def linear_indices(
        self, shape: AnyShape, rows: ArrayLike, *, order: str = "physical", timeout: float | None = None
    ) -> NDArray[np.int64]:
        """`linear_index` of each row of int64[n, rank], in one call, which is a stream if there are many rows. Returns
        int64[n].

        `order` is that of `linear_index`.

        >>> positions = client.linear_indices("f32[3,5]{1,0:T(2,2)}", [(0, 0), (2, 3), (2, 4)])
        >>> positions.tolist()
        [0, 17, 20]
        """
        table = integers(rows, "rows", 2)
        fields = {"order": choice(_LINEAR_ORDERS, order, "order"), "shape": shape_input(shape)}
        try:
            [positions] = await ask(self._transport, _LINEAR_INDICES, fields, table, lambda: 8, timeout)
        except XlashapeError as error:
            raise of_rows(error, table, "indices") from None
        return positions

    @answer
    async def multi_index(
        self, shape: AnyShape, position: int, *, order: str = "physical", timeout: float | None = None
    ) -> tuple[int, ...] | None:
        """The index of the element at `position` of the buffer; None for padding: `tiling.multi_index`. `order` is that
        of `linear_index`.

        >>> client.multi_index("f32[3,5]{1,0:T(2,2)}", 17)
        (2, 3)
        >>> client.multi_index("f32[3,5]{1,0:T(2,2)}", 18) is None  # padding
        True
        """
        rows, is_element = await self._indices(shape, [position], order, timeout)
        return tuple(rows[0].tolist()) if is_element[0] else None

    @answer
    async def multi_indices(
        self, shape: AnyShape, positions: ArrayLike, *, order: str = "physical", timeout: float | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """`multi_index` of each position of int64[n], in one call, which is a stream if there are many positions.

        Returns the indices as int64[n, rank], whose rows for padding hold -1, and bool[n], false for padding. `order`
        is that of `linear_index`.

        >>> rows, is_element = client.multi_indices("f32[3,5]{1,0:T(2,2)}", [17, 18])
        >>> rows.tolist(), is_element.tolist()
        ([[2, 3], [-1, -1]], [True, False])
        """
        return await self._indices(shape, positions, order, timeout)

    async def _descriptions(self, shapes: Iterable[AnyShape], timeout: float | None) -> list[ShapeDescription]:
        request = v1.DescribeShapeRequest(shapes=each(shapes, shape_input, "shapes"))
        response = await self._transport.call("DescribeShape", request, v1.DescribeShapeResponse, timeout)
        return [ShapeDescription.of(description) for description in response.descriptions]

    async def _sizes(self, shapes: Iterable[AnyShape], timeout: float | None) -> list[ShapeSize]:
        request = v1.ByteSizeRequest(shapes=each(shapes, shape_input, "shapes"))
        response = await self._transport.call("ByteSize", request, v1.ByteSizeResponse, timeout)
        return [ShapeSize.of(size) for size in response.sizes]

    async def _indices(
        self, shape: AnyShape, positions: ArrayLike, order: str, timeout: float | None
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        numbers = integers(positions, "positions", 1)
        fields = {"order": choice(_LINEAR_ORDERS, order, "order"), "shape": shape_input(shape)}
        flat, is_element = await ask(
            self._transport, _MULTI_INDICES, fields, numbers, lambda: 8 * rank_of(shape) + 1, timeout
        )
        rank = len(flat) // len(numbers) if len(numbers) else rank_of(shape)
        return flat.reshape(len(numbers), rank), is_element
