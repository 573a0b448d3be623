"""Real programs: every instruction is answered in both directions, and no map names an element that does not exist."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from xlashape import indexing
from xlashape.hlo import HloInstruction, HloModule
from xlashape.indexing.answers.leaves import dims_of
from xlashape.symbolic import IndexingMap

PROGRAMS = sorted((Path(__file__).resolve().parents[2] / "vectors" / "hlo").glob("*.hlo"))


def sample(found: IndexingMap, r: random.Random) -> list[tuple[int, ...]]:
    """Results at corners and random points of the box of the variables."""
    results = []
    for _ in range(12):
        point = tuple(r.choice([var.bounds.lower, var.bounds.upper, r.randint(*var.bounds)]) for var in found.variables)
        at = found.evaluate(point)
        if at is not None:
            results.append(at)
    return results


def writes_updates(instruction: HloInstruction) -> bool:
    """The map of a dynamic-update-slice leads outside the update where it does not read the update; so may the map of a
    fusion that holds one."""
    return instruction.opcode == "dynamic-update-slice" or any(
        writes_updates(inner) for called in instruction.called_computations for inner in called.instructions
    )


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_programs(path: Path) -> None:
    r = random.Random(path.stem)
    module = HloModule.load(path)
    answered = {}
    for instruction, output, operands in indexing.module_indexing(module):
        answered[instruction, output] = operands
        leaves = [[dims_of(leaf) for leaf in operand.shape.leaves()] for operand in instruction.operands]
        dims = dims_of(list(instruction.shape.leaves())[output])
        for number, read in enumerate(operands):
            assert read.knowledge is not indexing.Knowledge.UNKNOWN, instruction
            for one in (*read, *read.simplify()):
                if one.map.is_known_empty:
                    continue
                assert len(one.map.dims) == len(dims)
                assert len(one.map.runtime) == len(one.runtime)
                target = leaves[number][one.leaf]
                assert len(one.map.results) == len(target)
                if not writes_updates(instruction):
                    assert all(0 <= i < n for at in sample(one.map, r) for i, n in zip(at, target, strict=True)), (
                        instruction,
                        one,
                    )
    for instruction in module.instructions():
        outputs = [dims_of(leaf) for leaf in instruction.shape.leaves()]
        for number, operand in enumerate(instruction.operands):
            for leaf in range(min(3, sum(1 for _ in operand.shape.leaves()))):
                written = indexing.input_to_output(instruction, number, leaf)
                assert len(written) == len(outputs)
                for target, reached in zip(outputs, written, strict=True):
                    for one in (*reached, *reached.simplify()):
                        if not one.map.is_known_empty:
                            assert all(
                                0 <= i < n for at in sample(one.map, r) for i, n in zip(at, target, strict=True)
                            ), (instruction, one)
        for output in range(len(outputs)):
            if instruction.operands:
                assert (instruction, output) in answered


def test_there_are_programs() -> None:
    assert len(PROGRAMS) > 10
