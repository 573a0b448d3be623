"""Maps across replicas, judged by execution: NumPy moves the arrays of four replicas; where jaxlib is installed, XLA
runs four replicas."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from execution.by_xla import whole_text, xla_process
from execution.replicas import NOT_BY_XLA, OPCODES, REPLICAS, Collective, collective, judge, run
from execution.xla_process import Request, XlaProcess
from hlo_builder import Builder

SEEDS = 16


def cases(opcode: str) -> list[Collective]:
    return [collective(opcode, random.Random(f"{opcode}/{seed}")) for seed in range(SEEDS)]


@pytest.mark.parametrize("opcode", OPCODES)
def test_maps_say_what_numpy_shows(opcode: str) -> None:
    for one in cases(opcode):
        judge(one, run(one, one.values()))


@pytest.fixture(scope="module")
def xla() -> Iterator[XlaProcess]:
    with xla_process() as process:
        yield process


@pytest.mark.parametrize("opcode", [opcode for opcode in OPCODES if opcode not in NOT_BY_XLA])
def test_maps_say_what_xla_shows(opcode: str, xla: XlaProcess) -> None:
    """Every replica takes its arrays from a constant that holds the arrays of all replicas."""
    entry, results, counts = Builder("all_cases"), [], []
    judged = cases(opcode)
    if opcode == "reduce-scatter":
        # StableHLO, which XLA converts the module to first, has no reduce-scatter of several arrays.
        judged = [one for one in judged if len(one.root.operands) == 1]
    replica = entry.op("replica-id", "u32[]")
    zero = entry.constant("u32[]", [0])
    for number, one in enumerate(judged):
        arguments = []
        for at, operand in enumerate(one.root.operands):
            dims = list(operand.shape.dimensions)
            text = ",".join(map(str, dims))
            values = np.stack([arrays[at] for arrays in one.values()])
            every = entry.constant(f"s64[{REPLICAS},{text}]", values.ravel().tolist())
            own = [every, replica, *[zero] * len(dims)]
            row = entry.op("dynamic-slice", f"s64[1,{text}]", own, dynamic_slice_sizes=[1, *dims])
            arguments.append(entry.op("reshape", f"s64[{text}]", [row]))
        one.builder.name += f"_{number}"
        for called in one.builder.called:
            called.name += f"_{number}"
        found = entry.op("call", str(one.root.shape), arguments, calls=[one.builder])
        parts = one.root.shape.tuple_shapes if one.root.shape.is_tuple else ()
        leaves = [entry.op("get-tuple-element", str(part), [found], tuple_index=i) for i, part in enumerate(parts)] or [
            found
        ]
        counts.append(len(leaves))
        results += leaves
    entry.op("tuple", f"({', '.join(entry.text(one) for one in results)})", results)
    (answer,) = xla.ask(Request(whole_text(entry), REPLICAS, [], []))
    rest = iter(answer)
    for one, count in zip(judged, counts, strict=True):
        leaves = [next(rest) for _ in range(count)]
        judge(one, [[leaf[replica] for leaf in leaves] for replica in range(REPLICAS)])
