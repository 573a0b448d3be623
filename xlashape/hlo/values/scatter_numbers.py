r"""The dimension numbers of a scatter, each an attribute of its own.

    update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1

They are fields of ScatterDimensionNumbers. Lists of batching dimensions are written where they are not empty.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from xlashape.hlo.values.attribute import Attribute, integer_of, integers_of, message_value
from xlashape.proto import xla


class ScatterDimensionNumbers(NamedTuple):
    """Which dimensions of a scatter's operand, indices and updates belong together."""

    update_window_dims: tuple[int, ...] = ()
    """The dimensions of the updates that the window has."""
    inserted_window_dims: tuple[int, ...] = ()
    """The dimensions of the operand that the window does not have."""
    scatter_dims_to_operand_dims: tuple[int, ...] = ()
    """The operand's dimension for each element of an index vector."""
    index_vector_dim: int = 0
    """The dimension of the indices that an index vector extends along."""
    input_batching_dims: tuple[int, ...] = ()
    """Dimensions of the operand that the indices have too, pair by pair with the next."""
    scatter_indices_batching_dims: tuple[int, ...] = ()

    @classmethod
    def of_proto(cls, message: xla.ScatterDimensionNumbers) -> ScatterDimensionNumbers:
        """The numbers of a message."""
        return cls(
            tuple(message.update_window_dims),
            tuple(message.inserted_window_dims),
            tuple(message.scatter_dims_to_operand_dims),
            message.index_vector_dim,
            tuple(message.input_batching_dims),
            tuple(message.scatter_indices_batching_dims),
        )

    def to_proto(self) -> xla.ScatterDimensionNumbers:
        """A new message."""
        return xla.ScatterDimensionNumbers(**self._asdict())


SCATTER_DIMENSION_NUMBERS: Final = message_value(
    "scatter_dimension_numbers", ScatterDimensionNumbers, is_optional=False
)


def _list(name: str, *, write_empty: bool) -> Attribute:
    return integers_of(xla.ScatterDimensionNumbers, "scatter_dimension_numbers", name, write_empty=write_empty)


UPDATE_WINDOW_DIMS: Final = _list("update_window_dims", write_empty=True)
INSERTED_WINDOW_DIMS: Final = _list("inserted_window_dims", write_empty=True)
SCATTER_DIMS_TO_OPERAND_DIMS: Final = _list("scatter_dims_to_operand_dims", write_empty=True)
INPUT_BATCHING_DIMS: Final = _list("input_batching_dims", write_empty=False)
SCATTER_INDICES_BATCHING_DIMS: Final = _list("scatter_indices_batching_dims", write_empty=False)
SCATTER_INDEX_VECTOR_DIM: Final = integer_of(
    xla.ScatterDimensionNumbers, "scatter_dimension_numbers", "index_vector_dim"
)
