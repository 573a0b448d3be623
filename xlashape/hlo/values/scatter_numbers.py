r"""The dimension numbers of a scatter, each an attribute of its own.

    update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1

They are fields of ScatterDimensionNumbers. Lists of batching dimensions are written where they are not empty.
"""

from __future__ import annotations

from typing import Final

from xlashape.hlo.values.attribute import Attribute, integer_of, integers_of
from xlashape.proto import xla

__all__ = [
    "INPUT_BATCHING_DIMS",
    "INSERTED_WINDOW_DIMS",
    "SCATTER_DIMS_TO_OPERAND_DIMS",
    "SCATTER_INDEX_VECTOR_DIM",
    "SCATTER_INDICES_BATCHING_DIMS",
    "UPDATE_WINDOW_DIMS",
]


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
