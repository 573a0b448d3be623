"""Modules whose instructions contradict each other: the report answers, or says what is wrong."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

import xlashape as xs
from xlashape.errors import XlashapeError
from xlashape.proto import xla

VECTORS = Path(__file__).resolve().parents[3] / "vectors/collectives"
PROGRAMS = sorted(VECTORS.glob("*.pb.gz"))
OPCODES = (
    "dynamic-slice", "all-gather", "all-reduce", "transpose", "reshape", "dot", "parameter", "bitcast", "fusion",
    "convolution", "broadcast", "all-to-all",
)  # fmt: skip


def changed(module: xla.HloModuleProto, draw: random.Random) -> None:
    """Changes one fact of one instruction."""
    computation = draw.choice(module.computations)
    instruction = draw.choice(computation.instructions)
    what = draw.randrange(6)
    if what == 0 and instruction.dimensions:
        instruction.dimensions[draw.randrange(len(instruction.dimensions))] = draw.choice([-1, 0, 1, 7, 99])
    elif what == 1:
        del instruction.dimensions[:]
    elif what == 2 and instruction.shape.dimensions:
        instruction.shape.dimensions.append(3)
    elif what == 3 and instruction.shape.dimensions:
        del instruction.shape.dimensions[-1:]
    elif what == 4 and instruction.operand_ids:
        instruction.operand_ids.pop()
    else:
        instruction.opcode = draw.choice(OPCODES)


@pytest.mark.parametrize("path", PROGRAMS, ids=[path.name.partition(".")[0] for path in PROGRAMS])
def test_changed_modules(path: Path) -> None:
    draw = random.Random(path.name)
    module = xs.HloModule.from_bytes(gzip.decompress(path.read_bytes()))
    answered = 0
    for _ in range(40):
        message = module.proto
        for _ in range(draw.randint(1, 4)):
            changed(message, draw)
        try:
            xs.collectives(message, target="h100")
        except XlashapeError:
            continue
        answered += 1
    assert answered >= 10
