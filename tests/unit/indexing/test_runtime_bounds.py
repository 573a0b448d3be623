"""Offsets beyond bounds: the operation clamps them to its bounds; beyond the narrower bounds of a composition, nothing
is accessed."""

from __future__ import annotations

import numpy as np
import pytest
from hlo_builder import Builder, one_op
from map_enumeration import elements

from xlashape import indexing
from xlashape.indexing import OperandIndexing
from xlashape.symbolic import Interval

PAD = {"dimensions": [{"edge_padding_low": 1, "edge_padding_high": 1}, {}]}
ROWS = {"offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0], "index_vector_dim": 1}


def a_row_of_padded(rows: int) -> OperandIndexing:
    """A row of an array with a row of padding above and below, from the array."""
    builder = Builder()
    source, value, at = builder.parameter(f"f32[{rows},2]"), builder.parameter("f32[]"), builder.parameter("s32[1]")
    padded = builder.op("pad", f"f32[{rows + 2},2]", [source, value], padding_config=PAD)
    builder.op("gather", "f32[1,2]", [padded, at], gather_dimension_numbers=ROWS, gather_slice_sizes=[1, 2])
    root = builder.root()
    (found,) = indexing.output_to_ancestor(root, root.computation.parameters[0])
    return found


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("offset", range(-1, 7))
def test_an_offset_into_padding_reads_nothing(rows: int, offset: int) -> None:
    found = a_row_of_padded(rows)
    at = min(max(offset, 0), rows + 1) - 1
    expected = {(at, 1)} if 0 <= at < rows else set()
    for form in (found, found.simplify()):
        assert elements(form, (0, 1), {form.runtime[0].instruction: np.array([offset])}) == expected


def test_the_bounds_of_the_operation_stay_with_the_variable() -> None:
    found = a_row_of_padded(3)
    assert found.map.runtime[0].bounds == Interval(1, 3)
    assert found.runtime[0].bounds == Interval(0, 4)
    # A variable with one value in the map decides still whether that is the value.
    only = a_row_of_padded(1).simplify()
    assert str(only.map) == "(d0, d1){rt0} -> (0, d1), domain: d0 in [0, 0], d1 in [0, 1], rt0 in [1, 1]"
    assert only.runtime[0].bounds == Interval(0, 2)


def test_an_offset_with_one_possible_value_is_replaced() -> None:
    root = one_op("dynamic-slice", "f32[4]", ["f32[4]", "s32[]"], dynamic_slice_sizes=[4])
    assert indexing.output_to_input(root)[0].simplify().runtime == ()


@pytest.mark.parametrize("index", [-1, 0, 1])
def test_a_scatter_writes_nothing_where_an_update_does_not_fit(index: int) -> None:
    numbers = {"update_window_dims": [0], "scatter_dims_to_operand_dims": [0], "index_vector_dim": 0}
    root = one_op("scatter", "f32[4]", ["f32[4]", "s32[1]", "f32[4]"], scatter_dimension_numbers=numbers)
    (updates,) = indexing.output_to_input(root)[2]
    for form in (updates, updates.simplify()):
        found = elements(form, (2,), {root.operands[1]: np.array([index])})
        assert found == ({(2,)} if index == 0 else set())
