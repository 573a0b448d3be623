"""Runs cases with XLA, as an independent judge beside NumPy: jaxlib compiles them for the CPU and runs them.

All cases become one module, whose entry computation calls each of them, since compiling takes most of the time. Each
run then changes one element of every case.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from evaluated import leaves, run
from hlo_builder import Builder
from jaxlib_versions import Jaxlib
from optional import needed_in_ci, without

from execution.case import Case
from execution.judge import Drawn, Seen, changed, parameters
from execution.xla_process import Request, Run, XlaFailedError, XlaProcess
from xlashape.hlo import HloModule
from xlashape.shape import Shape

TRIAL = "HloModule trial\n\nENTRY main {\n  ROOT x = f64[2] parameter(0)\n}\n"


@contextmanager
def xla_process() -> Generator[XlaProcess]:
    """The process in which XLA runs. Where no jaxlib with the needed functions is installed, the test is skipped with
    the reason; under CI it fails.
    """
    needed_in_ci("jaxlib")
    process = XlaProcess()
    try:
        try:
            process.ask(Request(TRIAL, 1, [np.ones(2)], []))
        except XlaFailedError as error:
            without(f"jaxlib does not run HLO: {error}")
        yield process
    finally:
        process.close()


class Merged:
    """Many cases as one module. Its parameters and results are the leaves of the cases' parameters and results, case by
    case.
    """

    def __init__(self, cases: Sequence[Case]) -> None:
        entry = Builder("all_cases")
        results: list[int] = []
        self.outputs: list[int] = []
        for number, case in enumerate(cases):
            _rename(case.builder, number)
            arguments = [_argument(entry, parameter.shape) for parameter in case.parameters]
            called = entry.op("call", str(case.root.shape), arguments, calls=[case.builder])
            before = len(results)
            _take_apart(entry, called, case.root.shape, results)
            self.outputs.append(len(results) - before)
        entry.op("tuple", f"({', '.join(entry.text(one) for one in results)})", results)
        self.text = whole_text(entry)


def whole_text(entry: Builder) -> str:
    """The module as text. Its header has the shapes of the entry computation, which XLA reads from there.

    Fusions are written as calls, since XLA does not compile every fusion that it is given.
    """
    module = entry.module()
    proto = module.proto
    program = proto.host_program_shape
    for parameter in module.entry.parameters:
        program.parameters.add().CopyFrom(parameter.details.shape)
    program.result.CopyFrom(module.entry.root.details.shape)
    for computation in proto.computations:
        for instruction in computation.instructions:
            if instruction.opcode == "fusion":
                instruction.opcode = "call"
                instruction.ClearField("fusion_kind")
    return Jaxlib().readable_text(HloModule.from_proto(proto).to_text(print_large_constants=True))


def _rename(builder: Builder, number: int) -> None:
    pending, done = [builder], set()
    while pending:
        one = pending.pop()
        if id(one) not in done:
            done.add(id(one))
            one.name = f"{one.name}.{number}.{len(done)}"
            pending += one.called


def _argument(entry: Builder, shape: Shape) -> int:
    if not shape.is_tuple:
        return entry.parameter(str(shape))
    return entry.op("tuple", str(shape), [_argument(entry, part) for part in shape.tuple_shapes])


def _take_apart(entry: Builder, value: int, shape: Shape, leaves: list[int]) -> None:
    if not shape.is_tuple:
        leaves.append(value)
        return
    for index, part in enumerate(shape.tuple_shapes):
        element = entry.op("get-tuple-element", str(part), [value], tuple_index=index)
        _take_apart(entry, element, part, leaves)


class XlaJudge:
    """An `Observe` that runs cases with XLA. The module is compiled once for the same cases. XLA's results must equal
    NumPy's."""

    def __init__(self, process: XlaProcess) -> None:
        self.process = process
        self.merged: dict[tuple[Case, ...], Merged] = {}

    def __call__(self, cases: Sequence[Case], values: Sequence[Drawn], others: Sequence[Drawn]) -> list[Seen]:
        merged = self.merged.get(tuple(cases))
        if merged is None:
            merged = self.merged[tuple(cases)] = Merged(cases)
        flat = [array for drawn in values for arrays in drawn for array in arrays]
        changes = _changes(values)
        runs: list[Run] = []
        for step in range(max(map(len, changes))):
            run: Run = []
            for of_case, other in zip(changes, others, strict=True):
                if step < len(of_case):
                    one = of_case[step]
                    array = np.array(flat[one.place])
                    array[one.index] = other[one.parameter][one.leaf][one.index]
                    run.append((one.place, array))
            runs.append(run)
        first, *rest = [
            _by_case(found, merged.outputs) for found in self.process.ask(Request(merged.text, 1, flat, runs))
        ]
        seen: list[Seen] = []
        for number, drawn in enumerate(values):
            before = first[number]
            if str(cases[number].root.opcode) not in UNSPECIFIED_RESULTS and not cases[number].optional:
                _same_results(cases[number], before, drawn)
            found: Seen = {
                (parameter, leaf): [np.zeros((old.size, array.size), dtype=bool) for old in before]
                for parameter, arrays in enumerate(drawn)
                for leaf, array in enumerate(arrays)
            }
            for one, after in zip(changes[number], rest, strict=False):
                rows_of = found[one.parameter, one.leaf]
                for rows, old, new in zip(rows_of, before, after[number], strict=True):
                    rows[:, one.column] = changed(old, new)
            seen.append(found)
        return seen


UNSPECIFIED_RESULTS = {"rng", "rng-bit-generator"}
"""Operations whose results are not specified: random numbers."""


def _same_results(case: Case, found: list[np.ndarray], drawn: Drawn) -> None:
    """Asserts that NumPy and XLA compute the same results."""
    expected = leaves(run(case.root.computation, parameters(case, drawn))[case.root])
    for output, (mine, xla) in enumerate(zip(expected, found, strict=True)):
        told = f"NumPy and XLA differ in output {output} of {case.root.computation.module.to_text()}"
        asked = ~case.unjudged.get(output, np.zeros(mine.shape, dtype=bool))
        assert mine.shape == xla.shape, told
        same = mine[asked] == xla[asked] if xla.dtype.kind in "iub" else np.isclose(mine[asked], xla[asked], 1e-6, 1e-9)
        assert np.all(same), f"{told}: {mine} and {xla}"


class _Change(NamedTuple):
    """One element of one case's parameters."""

    place: int
    """The index among the arrays of all cases."""
    parameter: int
    leaf: int
    index: tuple[int, ...]
    column: int


def _changes(values: Sequence[Drawn]) -> list[list[_Change]]:
    """For each case: every element of every array."""
    found: list[list[_Change]] = []
    place = 0
    for drawn in values:
        found.append([])
        for parameter, arrays in enumerate(drawn):
            for leaf, array in enumerate(arrays):
                indices = np.ndindex(*array.shape)
                found[-1] += [_Change(place, parameter, leaf, index, column) for column, index in enumerate(indices)]
                place += 1
    return found


def _by_case(found: list[np.ndarray], counts: list[int]) -> list[list[np.ndarray]]:
    rest = iter(found)
    return [[next(rest) for _ in range(count)] for count in counts]
