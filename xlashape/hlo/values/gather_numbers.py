r"""The dimension numbers of a gather, each an attribute of its own.

    offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1

They are fields of GatherDimensionNumbers. Lists of batching dimensions are written where they are not empty.
"""

from __future__ import annotations

from typing import Final

from xlashape.hlo.values.attribute import Attribute, integer_of, integers_of
from xlashape.proto import xla

__all__ = [
    "COLLAPSED_SLICE_DIMS",
    "GATHER_INDEX_VECTOR_DIM",
    "OFFSET_DIMS",
    "OPERAND_BATCHING_DIMS",
    "START_INDEX_MAP",
    "START_INDICES_BATCHING_DIMS",
]


def _list(name: str, *, write_empty: bool) -> Attribute:
    return integers_of(xla.GatherDimensionNumbers, "gather_dimension_numbers", name, write_empty=write_empty)


OFFSET_DIMS: Final = _list("offset_dims", write_empty=True)
COLLAPSED_SLICE_DIMS: Final = _list("collapsed_slice_dims", write_empty=True)
START_INDEX_MAP: Final = _list("start_index_map", write_empty=True)
OPERAND_BATCHING_DIMS: Final = _list("operand_batching_dims", write_empty=False)
START_INDICES_BATCHING_DIMS: Final = _list("start_indices_batching_dims", write_empty=False)
GATHER_INDEX_VECTOR_DIM: Final = integer_of(xla.GatherDimensionNumbers, "gather_dimension_numbers", "index_vector_dim")
