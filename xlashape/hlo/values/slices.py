r"""What a slice takes of each dimension, and the sizes of slices.

slice       := '{' (dimension (',' dimension)*)? '}'        dimension := '[' start ':' limit (':' stride)? ']'
sizes       := '{' (INT (',' INT)*)? '}'
each        := '{' (sizes (',' sizes)*)? '}'                of a collective-permute that moves several slices

Strides are written for all dimensions where one of them is not 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from xlashape.hlo.formatting import ints
from xlashape.hlo.lex import HloCursor
from xlashape.hlo.values.attribute import FIELDS, Attribute, Context, integers
from xlashape.proto import xla

__all__ = ["DYNAMIC_SLICE_SIZES", "PERMUTE_SLICE_SIZES", "SLICE", "SLICE_SIZES"]


def _read_slice(cursor: HloCursor) -> bytes:
    def dimension() -> bytes:
        cursor.expect("[")
        start = cursor.parse_int("where the slice starts")
        cursor.expect(":")
        limit = cursor.parse_int("where the slice ends")
        stride = cursor.parse_int("the stride of the slice") if cursor.accept(":") else 1
        cursor.expect("]")
        message = xla.HloInstructionProto.SliceDimensions(start=start, limit=limit, stride=stride)
        return FIELDS.message("slice_dimensions", message)

    return b"".join(cursor.parse_list(dimension))


def _write_slice(message: Any, _context: Context) -> str:
    dimensions = [xla.HloInstructionProto.SliceDimensions.FromString(data) for data in message.slice_dimensions]
    strided = any(dim.stride != 1 for dim in dimensions)
    parts = [f"[{dim.start}:{dim.limit}{f':{dim.stride}' if strided else ''}]" for dim in dimensions]
    return f", slice={{{', '.join(parts)}}}"


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
PERMUTE_SLICE_SIZES: Final = Attribute("slice_sizes", _read_permute_sizes, _write_permute_sizes)
"""The slices of a collective-permute."""
SLICE: Final = Attribute("slice", _read_slice, _write_slice)
SLICE_SIZES: Final = integers("slice_sizes", "gather_slice_sizes")
"""The slice that a gather takes at each index."""
