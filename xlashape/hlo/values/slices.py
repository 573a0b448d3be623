r"""What a slice takes of each dimension, and the sizes of slices.

slice       := '{' (dimension (',' dimension)*)? '}'        dimension := '[' start ':' limit (':' stride)? ']'
sizes       := '{' (INT (',' INT)*)? '}'
each        := '{' (sizes (',' sizes)*)? '}'                of a collective-permute that moves several slices

Strides are written for all dimensions where one of them is not 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from xlashape.hlo.tokens.formatting import ints
from xlashape.hlo.tokens.hlo_cursor import HloCursor
from xlashape.hlo.values.attribute import FIELDS, Attribute, Context, integers, list_value, structured_list, whole
from xlashape.proto import xla


class SliceDimension(NamedTuple):
    """What a slice takes of one dimension: every `stride`-th element from `start` on, before `limit`.

    >>> SliceDimension.parse("[1:5:2]")
    SliceDimension(start=1, limit=5, stride=2)
    """

    start: int
    limit: int
    stride: int = 1

    @classmethod
    def parse(cls, text: str) -> SliceDimension:
        """What `text` takes, brackets included. Raises ParseError."""
        return whole(cls.read, text)

    @classmethod
    def read(cls, cursor: HloCursor) -> SliceDimension:
        """The dimension at the cursor."""
        cursor.expect("[")
        start = cursor.parse_int("where the slice starts")
        cursor.expect(":")
        limit = cursor.parse_int("where the slice ends")
        stride = cursor.parse_int("the stride of the slice") if cursor.accept(":") else 1
        cursor.expect("]")
        return cls(start, limit, stride)

    def write(self, *, with_stride: bool = True) -> str:
        """`[1:5:2]`, or `[1:5]` without the stride, which counts for all dimensions of a slice."""
        return f"[{self.start}:{self.limit}:{self.stride}]" if with_stride else f"[{self.start}:{self.limit}]"

    @classmethod
    def of_proto(cls, message: xla.HloInstructionProto.SliceDimensions) -> SliceDimension:
        """The dimension of a message."""
        return cls(message.start, message.limit, message.stride)

    def to_proto(self) -> xla.HloInstructionProto.SliceDimensions:
        """A new message."""
        return xla.HloInstructionProto.SliceDimensions(start=self.start, limit=self.limit, stride=self.stride)


def _write_slice(message: Any, _context: Context) -> str:
    from_bytes = xla.HloInstructionProto.SliceDimensions.FromString
    dimensions = [SliceDimension.of_proto(from_bytes(data)) for data in message.slice_dimensions]
    strided = any(each.stride != 1 for each in dimensions)
    return f", slice={{{', '.join([each.write(with_stride=strided) for each in dimensions])}}}"


def _read_permute_sizes(cursor: HloCursor) -> bytes:
    # The schema has one list: the sizes of all slices, one slice after the other.
    lists = cursor.parse_list(cursor.parse_ints)
    return FIELDS.integers("dynamic_slice_sizes", [size for sizes in lists for size in sizes])


def _write_permute_sizes(message: Any, context: Context) -> str:
    if not message.dynamic_slice_sizes:
        return ""
    sent = context.operand_shape(0)
    parts = () if sent is None else sent.tuple_shapes if sent.is_tuple else (sent,)
    return f", slice_sizes={_sizes_by_slice(list(message.dynamic_slice_sizes), [part.rank for part in parts])}"


def _sizes_by_slice(sizes: list[int], ranks: Sequence[int]) -> str:
    """The sizes of all slices, split into those of each: a slice has the rank of the array that is sent."""
    parts: list[str] = []
    first = number = 0
    while first < len(sizes):
        rank = ranks[number % len(ranks)] if ranks else 0
        number += 1
        if rank == 0:
            rank = len(sizes) - first
        parts.append(ints(sizes[first : first + rank]))
        first += rank
    return f"{{{','.join(parts)}}}"


DYNAMIC_SLICE_SIZES: Final = integers("dynamic_slice_sizes")
PERMUTE_SLICE_SIZES: Final = Attribute(
    "slice_sizes", _read_permute_sizes, _write_permute_sizes, list_value("dynamic_slice_sizes")
)
"""The slices of a collective-permute: its value has the sizes of all slices, one slice after the other."""
SLICE: Final = structured_list("slice", SliceDimension, _write_slice, field="slice_dimensions")
SLICE_SIZES: Final = integers("slice_sizes", "gather_slice_sizes")
"""The slice that a gather takes at each index."""
