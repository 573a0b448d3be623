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


def test_operations_that_read_by_data_need_all() -> None:
    text = "ENTRY e { x = f32[8,8] parameter(0)  i = s32[] parameter(1)  ROOT d = f32[4,8] dynamic-slice(x, i, i), dynamic_slice_sizes={4,8} }"
    assert reads(HloModule.parse(text).entry.root, (np.arange(2), np.arange(8))) is None
