"""Some elements of a value, evaluated from what they read alone, are those of the whole value."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from xlashape.evaluation.domains.values import PlainNumbers
from xlashape.evaluation.machine import Machine
from xlashape.evaluation.partial import apply_at, every, reads, size, taken
from xlashape.evaluation.run_module import drawn
from xlashape.hlo import HloModule

PARAMETERS = "x = f32[4,6,5] parameter(0)  y = f32[4,6,5] parameter(1)  s = f32[] parameter(2)  v = f32[6] parameter(3)"
RESULTS: Final = {
    "f32[4,6,5] multiply(x, y)": 1 / 2,
    "f32[4,6,5] clamp(s, x, s)": 1 / 2,
    "u32[4,6,5] bitcast-convert(x)": 1 / 2,
    "f32[5,4,6] transpose(x), dimensions={2,0,1}": 1 / 2,
    "f32[8,15] reshape(x)": 1,
    "f32[24,5] reshape(x)": 1,
    "f32[3,6,4] broadcast(v), dimensions={1}": 1,
    "f32[3,6,4] broadcast(s), dimensions={}": 1,
    "f32[2,6,3] slice(x), slice={[1:3], [0:6], [0:5:2]}": 1 / 2,
    "f32[4,6,5] reverse(x), dimensions={0,2}": 1 / 2,
    "f32[4,13,5] concatenate(x, p, y), dimensions={1}": 1,
    "f32[4,6,6] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}": 1,
    "f32[6] reduce(x, s), dimensions={0,2}, to_apply=add": 1,
    "f32[6,5,4]{1,0,2} bitcast(x)": 1,
}
"""Result → the part of the operands that a half of it needs at most."""
BODY = """add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e { %s  p = f32[4,1,5] slice(x), slice={[0:4], [0:1], [0:5]}  ROOT r = %s }"""


@pytest.mark.parametrize("result", RESULTS)
def test_elements_at_a_grid_are_those_of_the_whole(result: str) -> None:
    root = HloModule.parse(BODY % (PARAMETERS, result)).entry.root
    rng, machine = np.random.default_rng(3), Machine(PlainNumbers())
    shapes = [operand.shape for operand in root.operands]
    operands = [drawn(shape, rng).astype(np.float64) for shape in shapes]
    whole = machine.apply(root, [[x] for x in operands])[0]
    for _ in range(5):
        grid = tuple([np.sort(rng.choice(n, max(n // 2, 1), replace=False)) for n in whole.shape])
        read = reads(root, grid)
        assert read is not None
        needed, all_of = (sum(map(size, grids)) for grids in (read, map(every, shapes)))
        assert needed <= all_of * RESULTS[result]
        parts = [[taken(x, every(s), r)] for x, s, r in zip(operands, shapes, read, strict=True)]
        np.testing.assert_allclose(apply_at(machine, root, parts, read, grid)[0], whole[np.ix_(*grid)], rtol=1e-6)


INDEXED: Final = [
    "f32[2,6,5] dynamic-slice(x, i, j, k), dynamic_slice_sizes={2,6,5}",
    "f32[4,6,5] dynamic-update-slice(x, u, i, j, k)",
    "f32[3,6,5] gather(x, n), offset_dims={1,2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6,5}",
    "f32[6,3,2] gather(x, m), offset_dims={0,2}, collapsed_slice_dims={0}, start_index_map={0,2}, index_vector_dim=1, slice_sizes={1,6,2}",
    "f32[3,4,5] gather(x, m), offset_dims={1,2}, collapsed_slice_dims={1}, start_index_map={1,0}, index_vector_dim=1, slice_sizes={4,1,5}",
    "f32[4,3,5] gather(x, b), offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1,5}",
    "f32[3,4,6] gather(x, c), offset_dims={2}, collapsed_slice_dims={2}, start_index_map={2}, operand_batching_dims={0}, start_indices_batching_dims={1}, index_vector_dim=2, slice_sizes={1,6,1}",
    "f32[4,6,5] scatter(x, n, w), update_window_dims={1,2}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
    "f32[4,6,5] scatter(x, m, z), update_window_dims={0,1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0,2}, index_vector_dim=1, to_apply=add",
    "f32[4,6,5] scatter(x, b, q), update_window_dims={2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=second",
    "f32[4,6,5] scatter(x, c, t), update_window_dims={1}, inserted_window_dims={2}, scatter_dims_to_operand_dims={2}, input_batching_dims={0}, scatter_indices_batching_dims={1}, index_vector_dim=2, to_apply=add",
]
INDICES = """add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
second { a = f32[] parameter(0)  ROOT b = f32[] parameter(1) }
ENTRY e { x = f32[4,6,5] parameter(0)  u = f32[3,6,2] parameter(1)  w = f32[3,6,5] parameter(2)  z = f32[6,2,3] parameter(3)
  q = f32[4,3,5] parameter(4)  i = s32[] parameter(5)  j = s32[] parameter(6)  k = s32[] parameter(7)  n = s32[3,1] parameter(8)
  m = s32[3,2] parameter(9)  b = s32[4,3,1] parameter(10)  c = s32[3,4,1] parameter(11)  t = f32[3,6,4] parameter(12)
  ROOT r = %s }"""


@pytest.mark.parametrize("result", INDEXED)
def test_dimensions_that_windows_span_and_batches_are_kept_apart(result: str) -> None:
    root = HloModule.parse(INDICES % result).entry.root
    rng, machine = np.random.default_rng(4), Machine(PlainNumbers())
    shapes = [operand.shape for operand in root.operands]
    for _ in range(20):
        operands = [
            rng.integers(-2, 8, s.dimensions, np.int32) if s.element_type.is_integral else rng.normal(size=s.dimensions)
            for s in shapes
        ]
        whole = machine.apply(root, [[x] for x in operands])[0]
        grid = tuple([np.sort(rng.choice(n, max(n // 2, 1), replace=False)) for n in whole.shape])
        read = reads(root, grid)
        assert read is not None and sum(map(size, read)) < sum([int(np.size(x)) for x in operands])
        parts = [[taken(x, every(s), r)] for x, s, r in zip(operands, shapes, read, strict=True)]
        np.testing.assert_array_equal(apply_at(machine, root, parts, read, grid)[0], whole[np.ix_(*grid)])


def test_windows_that_span_no_dimension_need_all() -> None:
    text = "ENTRY e { x = f32[8,8] parameter(0)  i = s32[] parameter(1)  ROOT d = f32[4,4] dynamic-slice(x, i, i), dynamic_slice_sizes={4,4} }"
    assert reads(HloModule.parse(text).entry.root, (np.arange(2), np.arange(3))) is None
