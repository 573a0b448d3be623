r"""The dimension numbers of a gather, each an attribute of its own.

    offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1

They are fields of GatherDimensionNumbers. Lists of batching dimensions are written where they are not empty.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from xlashape.hlo.values.attribute import Attribute, integer_of, integers_of, message_value
from xlashape.proto import xla


class GatherDimensionNumbers(NamedTuple):
    """Which dimensions of a gather's operand, indices and output belong together."""

    offset_dims: tuple[int, ...] = ()
    """The dimensions of the output that the slice has."""
    collapsed_slice_dims: tuple[int, ...] = ()
    """The dimensions of the operand that the slice does not have."""
    start_index_map: tuple[int, ...] = ()
    """The operand's dimension for each element of an index vector."""
    index_vector_dim: int = 0
    """The dimension of the indices that an index vector extends along."""
    operand_batching_dims: tuple[int, ...] = ()
    """Dimensions of the operand that the indices have too, pair by pair with the next."""
    start_indices_batching_dims: tuple[int, ...] = ()

    @classmethod
    def of_proto(cls, message: xla.GatherDimensionNumbers) -> GatherDimensionNumbers:
        """The numbers of a message."""
        return cls(
            tuple(message.offset_dims),
            tuple(message.collapsed_slice_dims),
            tuple(message.start_index_map),
            message.index_vector_dim,
            tuple(message.operand_batching_dims),
            tuple(message.start_indices_batching_dims),
        )

    def to_proto(self) -> xla.GatherDimensionNumbers:
        """A new message."""
        return xla.GatherDimensionNumbers(**self._asdict())


GATHER_DIMENSION_NUMBERS: Final = message_value("gather_dimension_numbers", GatherDimensionNumbers, is_optional=False)


def _list(name: str, *, write_empty: bool) -> Attribute:
    return integers_of(xla.GatherDimensionNumbers, "gather_dimension_numbers", name, write_empty=write_empty)


OFFSET_DIMS: Final = _list("offset_dims", write_empty=True)
COLLAPSED_SLICE_DIMS: Final = _list("collapsed_slice_dims", write_empty=True)
START_INDEX_MAP: Final = _list("start_index_map", write_empty=True)
OPERAND_BATCHING_DIMS: Final = _list("operand_batching_dims", write_empty=False)
START_INDICES_BATCHING_DIMS: Final = _list("start_indices_batching_dims", write_empty=False)
GATHER_INDEX_VECTOR_DIM: Final = integer_of(xla.GatherDimensionNumbers, "gather_dimension_numbers", "index_vector_dim")
