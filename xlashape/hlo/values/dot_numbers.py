r"""The dimension numbers of a dot and of a ragged dot: lists of dimensions, each an attribute of its own.

    lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}

They are lists of DotDimensionNumbers. A ragged dot has these within its RaggedDotDimensionNumbers, beside lists of its own.
"""

from __future__ import annotations

from typing import Any, Final

from xlashape.hlo.formatting import ints
from xlashape.hlo.lex import HloCursor
from xlashape.hlo.values.attribute import FIELDS, Attribute, Context, integers_of, submessage
from xlashape.proto import xla
from xlashape.proto.wire import Fields

__all__ = [
    "LHS_BATCH_DIMS",
    "LHS_CONTRACTING_DIMS",
    "LHS_RAGGED_DIMS",
    "RAGGED_LHS_BATCH_DIMS",
    "RAGGED_LHS_CONTRACTING_DIMS",
    "RAGGED_RHS_BATCH_DIMS",
    "RAGGED_RHS_CONTRACTING_DIMS",
    "RHS_BATCH_DIMS",
    "RHS_CONTRACTING_DIMS",
    "RHS_GROUP_DIMS",
]

_DOT: Final = Fields(xla.DotDimensionNumbers)
_RAGGED: Final = Fields(xla.RaggedDotDimensionNumbers)


def _field(name: str) -> str:
    """The field of an attribute: `lhs_batch_dims` is lhs_batch_dimensions."""
    return name.replace("_dims", "_dimensions")


def _dot(name: str, *, write_empty: bool) -> Attribute:
    return integers_of(xla.DotDimensionNumbers, "dot_dimension_numbers", name, _field(name), write_empty=write_empty)


def _ragged(name: str, *, write_empty: bool) -> Attribute:
    return integers_of(
        xla.RaggedDotDimensionNumbers, "ragged_dot_dimension_numbers", name, _field(name), write_empty=write_empty
    )


def _dot_of_ragged(name: str, *, write_empty: bool) -> Attribute:
    """The same list of a ragged dot, where it is one level further down."""
    field = _field(name)

    def read(cursor: HloCursor) -> bytes:
        dot = _RAGGED.message("dot_dimension_numbers", _DOT.integers(field, cursor.parse_ints()))
        return FIELDS.message("ragged_dot_dimension_numbers", dot)

    def write(message: Any, _context: Context) -> str:
        ragged = xla.RaggedDotDimensionNumbers.FromString(submessage(message.ragged_dot_dimension_numbers))
        values = getattr(ragged.dot_dimension_numbers, field)
        return f", {name}={ints(values)}" if values or write_empty else ""

    return Attribute(name, read, write)


LHS_BATCH_DIMS: Final = _dot("lhs_batch_dims", write_empty=False)
LHS_CONTRACTING_DIMS: Final = _dot("lhs_contracting_dims", write_empty=True)
RHS_BATCH_DIMS: Final = _dot("rhs_batch_dims", write_empty=False)
RHS_CONTRACTING_DIMS: Final = _dot("rhs_contracting_dims", write_empty=True)

RAGGED_LHS_BATCH_DIMS: Final = _dot_of_ragged("lhs_batch_dims", write_empty=False)
RAGGED_LHS_CONTRACTING_DIMS: Final = _dot_of_ragged("lhs_contracting_dims", write_empty=True)
RAGGED_RHS_BATCH_DIMS: Final = _dot_of_ragged("rhs_batch_dims", write_empty=False)
RAGGED_RHS_CONTRACTING_DIMS: Final = _dot_of_ragged("rhs_contracting_dims", write_empty=True)
LHS_RAGGED_DIMS: Final = _ragged("lhs_ragged_dims", write_empty=True)
RHS_GROUP_DIMS: Final = _ragged("rhs_group_dims", write_empty=False)
