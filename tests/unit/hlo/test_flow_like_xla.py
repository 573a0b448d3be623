"""What `xlashape.hlo.flow` says of programs, compared with XLA's own buffer assignments of them.

XLA gives each part of a result that an instruction makes a logical buffer, and none to a part that is an array of
another instruction. So `Flow.definition` of a part is the part itself just where the assignment defines a logical
buffer there. The tables of tuples are parts too. Fused instructions have no memory and are left out.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from xlashape.hlo import HloModule
from xlashape.hlo.flow import Flow, Value
from xlashape.hlo.ops.registry import operation_of
from xlashape.proto import xla
from xlashape.shape import Shape

MEMORY = Path(__file__).parents[2] / "vectors" / "memory"
PROGRAMS = sorted(path for path in MEMORY.rglob("*") if ".hlo.pb" in path.name)


def parts(shape: Shape, index: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    yield index
    for number, each in enumerate(shape.tuple_shapes if shape.is_tuple else ()):
        yield from parts(each, (*index, number))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_the_arrays_that_instructions_make_are_those_of_xla(path: Path) -> None:
    data = path.read_bytes()
    program = xla.HloProto.FromString(gzip.decompress(data) if path.suffix == ".gz" else data)
    module = HloModule.from_proto(program.hlo_module)
    assert program.buffer_assignment.logical_buffers
    by_id = {each.id: each for each in module.instructions()}
    defined = {
        (by_id[buffer.defined_at.instruction_id].name, tuple(buffer.defined_at.shape_index))
        for buffer in program.buffer_assignment.logical_buffers
    }
    fused = {
        called
        for instruction in module.instructions()
        if operation_of(instruction.opcode).fuses_called_computation
        for called in instruction.called_computations
    }
    flow = Flow(module)
    made = {
        (instruction.name, index)
        for computation in module.computations
        if computation not in fused
        for instruction in computation.instructions
        for index in parts(instruction.shape)
        if flow.definition(instruction, index) == Value(instruction, index)
    }
    assert made == defined
