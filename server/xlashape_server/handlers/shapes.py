"""The handlers of ShapeService: they describe shapes and layouts, count bytes, and convert between indices of elements
and positions in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from xlashape.base.caches import cached
from xlashape.base.math import checked_int64
from xlashape.errors import InvalidArgumentError, XlashapeError
from xlashape.limits import INT64_MAX, budget, spend
from xlashape.proto import parse, v1
from xlashape.proto.packed import filled, split
from xlashape.proto.wire import Fields
from xlashape.shape import Layout, Shape, shape_util, tiling
from xlashape.shape.arguments import array_of
from xlashape.shape.text import layout_text
from xlashape.shape.tiling.batches import write_linear_indices, write_multi_indices
from xlashape.shape.tiling.floor_sums import index_sums, position_sums
from xlashape.shape.tiling.padding import PaddingReport, padding_report
from xlashape_server.config import Config
from xlashape_server.handlers.inputs import (
    batch,
    choice,
    item_count,
    placed,
    response_size,
    shape_of,
    stated_count,
    stream_answers,
)

R = TypeVar("R", v1.LinearIndicesRequest, v1.MultiIndicesRequest)

# A request of so many bytes is answered without NumPy and a budget, in 7 µs instead of 28, of the 300 of a call.
_SMALL_BYTES = 256
POINTER_SIZE = 8
"""The bytes of a pointer, if the request does not say."""


class ShapeHandlers:
    """The handlers of ShapeService: each has the name of its RPC. They take and return messages as bytes. Deadlines
    are times of time.monotonic(). Errors are the library's, with the path of the request's field.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._max_batch = config.max_batch
        self._max_answer = 2 * config.max_request_bytes

    def describe_shape(self, data: bytes, deadline: float | None = None) -> bytes:
        """DescribeShape."""
        return self._of_each(v1.DescribeShapeRequest, _description, data, deadline)

    def byte_size(self, data: bytes, deadline: float | None = None) -> bytes:
        """ByteSize."""
        return self._of_each(v1.ByteSizeRequest, _sizes, data, deadline)

    def _of_each(
        self,
        kind: type[v1.DescribeShapeRequest] | type[v1.ByteSizeRequest],
        made: Callable[[Shape, int], bytes],
        data: bytes,
        deadline: float | None,
    ) -> bytes:
        """The response to a request about shapes: `made` makes its part about each shape."""
        parts: list[bytes] = []
        with budget(deadline=deadline, subject="shapes"):
            request = parse(kind, data)
            pointer_size = _pointer_size(request.pointer_size)
            batch(len(request.shapes), self._max_batch, "shapes")
            for i, value in enumerate(request.shapes):
                spend(256)
                shape = shape_of(value, ("shapes", i), self._config)
                try:
                    parts.append(made(shape, pointer_size))
                except XlashapeError as error:
                    raise placed(error, ("shapes", i)) from None
        return b"".join(parts)

    def linear_index(self, data: bytes, deadline: float | None = None) -> bytes:
        """LinearIndex."""
        if len(data) <= _SMALL_BYTES:
            answer = self._few_linear_indices(data)
            if answer is not None:
                return answer
        with budget(deadline=deadline, subject="shapes"):
            request, [bulk] = split(v1.LinearIndexRequest, data, "indices")
            shape = _array(request.shape, request.order, self._config)
            rows = self._rows(shape, np.frombuffer(bulk, "<i8"), stated_count(request))
            try:
                return _positions(v1.LinearIndexResponse, shape, rows)
            except XlashapeError as error:
                raise _of_row(error, shape) from None

    def _few_linear_indices(self, data: bytes) -> bytes | None:
        """The response to a small request; None if that has many indices, which is possible where their rank is 0."""
        request = parse(v1.LinearIndexRequest, data)
        shape = _array(request.shape, request.order, self._config)
        numbers = list(request.indices)
        rank = len(shape.dimensions)
        count = item_count(len(numbers), rank, stated_count(request), "indices", "an index", shape)
        if count > _SMALL_BYTES:
            return None
        response = v1.LinearIndexResponse()
        for row in range(count):
            try:
                position = tiling.linear_index(shape, numbers[row * rank : row * rank + rank])
            except XlashapeError as error:
                raise _of_row(error, shape, row) from None
            response.positions.append(position)
        return response.SerializeToString()

    def _rows(self, shape: Shape, flat: NDArray[np.int64], stated: int | None) -> NDArray[np.int64]:
        """The indices that a request lists, as int64[n, rank]."""
        count = item_count(len(flat), shape.rank, stated, "indices", "an index", shape)
        response_size(8 * count, self._max_answer, ("indices",))
        return flat.reshape(count, shape.rank)

    def multi_index(self, data: bytes, deadline: float | None = None) -> bytes:
        """MultiIndex."""
        with budget(deadline=deadline, subject="shapes"):
            request, [bulk] = split(v1.MultiIndexRequest, data, "positions")
            shape = _array(request.shape, request.order, self._config)
            return self._multi_indices(v1.MultiIndexResponse, shape, np.frombuffer(bulk, "<i8"))

    def _multi_indices(
        self,
        response: type[v1.MultiIndexResponse] | type[v1.MultiIndicesResponse],
        shape: Shape,
        positions: NDArray[np.int64],
    ) -> bytes:
        """The response with the indices at positions."""
        count, rank = len(positions), shape.rank
        response_size(count * (8 * rank + 1), self._max_answer, ("positions",))

        def write(indices: memoryview, is_element: memoryview) -> None:
            array, sums, conditions = index_sums(shape)
            rows = np.ndarray((count, rank), "<i8", indices)
            inside = np.ndarray(count, np.bool_, is_element)
            write_multi_indices(shape, array.elements, sums, conditions, positions, rows, inside)

        try:
            return filled(response, write, indices=8 * rank * count, is_element=count)
        except XlashapeError as error:
            raise placed(error, ("positions",), shape=("shape",), positions=("positions",)) from None

    def linear_indices(self, requests: Iterator[bytes], deadline: float | None = None) -> Iterator[bytes]:
        """LinearIndices."""

        def answer(shape: Shape, request: v1.LinearIndicesRequest, flat: NDArray[np.int64]) -> bytes:
            rows = self._rows(shape, flat, stated_count(request, None if shape.rank else 0))
            try:
                return _positions(v1.LinearIndicesResponse, shape, rows)
            except XlashapeError as error:
                alone = _of_one(error, lambda row: tiling.linear_index(shape, rows[row]))
                raise _of_row(alone, shape) from None

        return self._of_stream(v1.LinearIndicesRequest, "indices", answer, requests, deadline)

    def multi_indices(self, requests: Iterator[bytes], deadline: float | None = None) -> Iterator[bytes]:
        """MultiIndices."""

        def answer(shape: Shape, _: v1.MultiIndicesRequest, positions: NDArray[np.int64]) -> bytes:
            try:
                return self._multi_indices(v1.MultiIndicesResponse, shape, positions)
            except XlashapeError as error:
                raise _of_one(error, lambda row: tiling.multi_index(shape, positions[row])) from None

        return self._of_stream(v1.MultiIndicesRequest, "positions", answer, requests, deadline)

    def _of_stream(
        self,
        kind: type[R],
        field: str,
        answer: Callable[[Shape, R, NDArray[np.int64]], bytes],
        requests: Iterator[bytes],
        deadline: float | None,
    ) -> Iterator[bytes]:
        """The answer to each message of a stream, whose first one names the array, and whose `field` has numbers."""

        def array(request: R) -> Shape:
            return _array(request.shape, request.order, self._config)

        return stream_answers(kind, field, requests, array, answer, partial(budget, deadline=deadline, subject=field))


def _positions(
    response: type[v1.LinearIndexResponse] | type[v1.LinearIndicesResponse], shape: Shape, rows: NDArray[np.int64]
) -> bytes:
    """The response with the positions of the indices in `rows`, int64[n, rank]."""

    def write(positions: memoryview) -> None:
        dimensions, sums = position_sums(shape)
        write_linear_indices(shape, dimensions, sums, rows, np.ndarray(len(rows), "<i8", positions))

    return filled(response, write, positions=8 * len(rows))


_DESCRIPTIONS = Fields(v1.DescribeShapeResponse)
_SIZES = Fields(v1.ByteSizeResponse)


def _description(shape: Shape, pointer_size: int) -> bytes:
    """The description of a shape as it is in a response."""
    return _DESCRIPTIONS.message("descriptions", describe(shape, pointer_size))


def describe(shape: Shape, pointer_size: int) -> v1.ShapeDescription:
    """The description of a shape. Sizes and padding are left out where a dynamic dimension has no bound or an element
    no known width.
    """
    described = v1.Shape.FromString(shape.to_proto().SerializeToString())
    message = v1.ShapeDescription(
        text=str(shape),
        shape=described,
        element_type=int(shape.element_type),
        is_static=shape.is_static,
        leaf_count=sum(leaf.is_array or leaf.is_buffer for leaf in shape.leaves()),
    )
    has_size = not shape.is_unbounded_dynamic and all(map(_has_known_width, shape.leaves()))
    if has_size:
        message.size.CopyFrom(size_of(shape, pointer_size))
    if shape.is_array:
        message.dimensions.extend(shape.dimensions)
        message.dynamic_dimensions.extend(shape.dynamic_dimensions)
        message.rank = shape.rank
        message.true_rank = sum(size > 1 or size < 0 for size in shape.dimensions)
        if shape.layout is not None:
            message.layout.CopyFrom(_layout(shape, shape.layout, described.layout.tiles))
        if has_size:
            _padding(message.padding, padding_report(shape))
    return message


def _has_known_width(leaf: Shape) -> bool:
    """Whether the number of bits of an element is known: from the element type, or from the layout."""
    array = leaf.buffer_shape if leaf.is_buffer else leaf
    return array.element_type.is_known or (array.layout is not None and array.layout.element_size_in_bits > 0)


def _padding(message: v1.PaddingDescription, report: PaddingReport) -> None:
    message.padding_bytes = report.padding_bytes
    for cause in report.causes:
        message.causes.add(
            dimensions=cause.dimensions,
            size=cause.size,
            padded_size=cause.padded,
            tile=cause.tile_number,
            padding_elements=cause.elements,
            text=str(cause),
        )
    for order in report.best_orders:
        message.best_orders.add(minor_to_major=order)
    message.best_bytes = report.best_bytes


def _layout(shape: Shape, layout: Layout, tiles: Iterable[v1.LayoutTile]) -> v1.LayoutDescription:
    return v1.LayoutDescription(
        text=layout_text(layout),
        minor_to_major=layout.minor_to_major,
        is_major_to_minor=layout.minor_to_major == Layout.default(shape.rank).minor_to_major,
        is_tiled=bool(layout.tiles),
        tiles=tiles,
        element_bits=tiling.stored_bits(shape) if _has_known_width(shape) else 0,
        tail_padding_alignment_in_elements=layout.tail_padding_alignment_in_elements,
        memory_space=layout.memory_space,
    )


# Results are kept since making one takes 12 µs for an array, and the instructions of a module, up to 250,000, share few
# shapes.
@cached(max_bytes=8 << 20, weigh=lambda arguments, _: 600 * sum(1 for _ in arguments[0].leaves()))
def size_of(shape: Shape, pointer_size: int) -> v1.ShapeSize:
    """The sizes of a shape. Callers share the message and do not change it."""
    elements = logical = physical_elements = physical = 0
    for leaf in shape.leaves():
        if leaf is not shape:
            spend(4)
        array = leaf.buffer_shape if leaf.is_buffer else leaf
        if array.is_array:
            elements += shape_util.elements_in(array)
            logical += shape_util.byte_size_of_elements(array)
            physical_elements += tiling.physical_elements(array)
            physical += tiling.physical_bytes(array)
    return v1.ShapeSize(
        byte_size=shape_util.byte_size_of(shape, pointer_size),
        element_count=checked_int64(elements, "the number of elements"),
        logical_bytes=checked_int64(logical, "the number of bytes"),
        physical_elements=checked_int64(physical_elements, "the number of elements, padding included,"),
        physical_bytes=checked_int64(physical, "the number of bytes, padding included,"),
    )


def _sizes(shape: Shape, pointer_size: int) -> bytes:
    """The sizes of a shape as they are in a response."""
    return _SIZES.message("sizes", size_of(shape, pointer_size))


def _pointer_size(stated: int) -> int:
    if stated < 0 or stated > INT64_MAX >> 32:
        raise InvalidArgumentError(f"expected the bytes of a pointer, found {stated}", field="pointer_size")
    return stated or POINTER_SIZE


def _array(value: v1.ShapeInput, order: int, config: Config) -> Shape:
    shape = array_of(shape_of(value, ("shape",), config))
    if order and choice(order, ("physical", "physical", "logical"), "order") == "logical":
        return _without_tiles(shape)
    return shape


# Results are kept since making one takes 17 µs of the 300 of a call.
@cached(max_bytes=4 << 20, weigh=lambda arguments, _: 1000 + 100 * arguments[0].rank)
def _without_tiles(shape: Shape) -> Shape:
    """The array with the part of its layout that XLA's IndexUtil reads: minor_to_major."""
    return shape if shape.layout is None else shape.with_layout(Layout(shape.layout.minor_to_major))


def _of_one(error: XlashapeError, again: Callable[[int], object]) -> XlashapeError:
    """An error about one row of a message in a stream, without the row's number in its text, which would be wrong for
    the stream. `again` computes the row of that number alone, so that its error names no number.
    """
    if len(error.path) > 1 and isinstance(error.path[1], int):
        try:
            again(error.path[1])
        except XlashapeError as alone:
            alone.path = error.path
            return alone
    return error


def _of_row(error: XlashapeError, shape: Shape, row: int | None = None) -> XlashapeError:
    """An error about one index, with the path of the request's number. The request lists the numbers of all indices one
    after another: number `d` of a row is at row * rank + d. Pass `row` if the library computed that row alone, since
    its error then does not name the row.
    """
    path = error.path if row is None else (*error.path[:1], row, *error.path[1:])
    if len(path) == 3 and path[0] == "indices" and isinstance(path[1], int) and isinstance(path[2], int):
        error.path = ("indices", path[1] * shape.rank + path[2])
        return error
    return placed(error, ("indices",), shape=("shape",))
