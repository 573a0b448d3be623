r"""The dimension numbers of a dot and of a ragged dot: lists of dimensions, each an attribute of its own.

    lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}

They are lists of DotDimensionNumbers. A ragged dot has these within its RaggedDotDimensionNumbers, beside lists of its own.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from xlashape.hlo.tokens.formatting import ints
from xlashape.hlo.tokens.hlo_cursor import HloCursor
from xlashape.hlo.values.attribute import FIELDS, Attribute, Context, integers_of, list_value, message_value, submessage
from xlashape.proto import xla
from xlashape.proto.wire import Fields


class DotDimensionNumbers(NamedTuple):
    """Which dimensions of a dot's operands are contracted, and which are batches, pair by pair."""

    lhs_contracting_dimensions: tuple[int, ...] = ()
    rhs_contracting_dimensions: tuple[int, ...] = ()
    lhs_batch_dimensions: tuple[int, ...] = ()
    rhs_batch_dimensions: tuple[int, ...] = ()

    @classmethod
    def of_proto(cls, message: xla.DotDimensionNumbers) -> DotDimensionNumbers:
        """The numbers of a message."""
        return cls(
            tuple(message.lhs_contracting_dimensions),
            tuple(message.rhs_contracting_dimensions),
            tuple(message.lhs_batch_dimensions),
            tuple(message.rhs_batch_dimensions),
        )

    def to_proto(self) -> xla.DotDimensionNumbers:
        """A new message."""
        return xla.DotDimensionNumbers(**self._asdict())


class RaggedDotDimensionNumbers(NamedTuple):
    """The dimension numbers of a ragged dot: those of a dot, the ragged dimensions of its lhs, and the dimensions of groups of its rhs."""

    dot_dimension_numbers: DotDimensionNumbers = DotDimensionNumbers()
    lhs_ragged_dimensions: tuple[int, ...] = ()
    rhs_group_dimensions: tuple[int, ...] = ()

    @classmethod
    def of_proto(cls, message: xla.RaggedDotDimensionNumbers) -> RaggedDotDimensionNumbers:
        """The numbers of a message."""
        return cls(
            DotDimensionNumbers.of_proto(message.dot_dimension_numbers),
            tuple(message.lhs_ragged_dimensions),
            tuple(message.rhs_group_dimensions),
        )

    def to_proto(self) -> xla.RaggedDotDimensionNumbers:
        """A new message."""
        return xla.RaggedDotDimensionNumbers(
            dot_dimension_numbers=self.dot_dimension_numbers.to_proto(),
            lhs_ragged_dimensions=self.lhs_ragged_dimensions,
            rhs_group_dimensions=self.rhs_group_dimensions,
        )


DOT_DIMENSION_NUMBERS: Final = message_value("dot_dimension_numbers", DotDimensionNumbers, is_optional=False)
RAGGED_DOT_DIMENSION_NUMBERS: Final = message_value(
    "ragged_dot_dimension_numbers", RaggedDotDimensionNumbers, is_optional=False
)

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

    value = list_value(field, owners=("ragged_dot_dimension_numbers", "dot_dimension_numbers"))
    return Attribute(name, read, write, value)


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
