"""One computation that is called from two places with different offsets."""

from __future__ import annotations

import numpy as np
import pytest
from evaluated import run
from execution.predicted import matrix
from hlo_builder import Builder

from xlashape import indexing
from xlashape.hlo import HloInstruction


def cut_twice(opcode: str) -> HloInstruction:
    """Four elements at one offset, and four at another one."""
    cut = Builder("cut")
    cut.op("dynamic-slice", "s64[4]", [cut.parameter("s64[8]"), cut.parameter("s32[]")], dynamic_slice_sizes=[4])
    outer = Builder("outer")
    array, first, second = outer.parameter("s64[8]"), outer.parameter("s32[]"), outer.parameter("s32[]")
    parts = [outer.op(opcode, "s64[4]", [array, at], calls=[cut]) for at in (first, second)]
    outer.op("add", "s64[4]", parts)
    main = Builder()
    operands = [main.parameter("s64[8]"), main.parameter("s32[]"), main.parameter("s32[]")]
    main.op("fusion", "s64[4]", operands, calls=[outer])
    return main.root()


@pytest.mark.parametrize("opcode", ["call", "fusion"])
def test_each_call_reads_at_its_own_offset(opcode: str) -> None:
    root = cut_twice(opcode)
    outer = root.called_computations[0]
    read, written = indexing.output_to_input(root)[0], indexing.input_to_output(root, 0)[0]
    for members in (read, read.simplify(), written, written.simplify()):
        assert {one.runtime[0].instruction for one in members} == set(outer.parameters[1:])
    for at in ((1, 3), (4, 0), (2, 2), (9, -5)):
        values = run(root.computation, [np.arange(8), *map(np.asarray, at)])
        places = np.clip(at, 0, 4)
        expected = np.zeros((4, 8), dtype=bool)
        for index in range(4):
            expected[index, index + places] = True
        assert (matrix(list(read), (4,), (8,), values)[0] == expected).all()
        assert (matrix(list(written), (8,), (4,), values)[0].T == expected).all()
