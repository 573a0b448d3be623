"""Compares the elements that maps name with the dependences observed when operations ran, and observes them with
NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from evaluated import leaves, run

from execution.case import Case, nested
from execution.predicted import Dims, matrix
from xlashape import indexing
from xlashape.hlo import HloInstruction
from xlashape.indexing import Knowledge, OperandIndexing
from xlashape.indexing.answers.leaves import dims_of
from xlashape.indexing.answers.leaves import leaves as leaf_shapes

Drawn: TypeAlias = list[list[np.ndarray]]
"""The leaves of every parameter."""
Seen: TypeAlias = dict[tuple[int, int], list[np.ndarray]]
"""(parameter, leaf) → for every leaf of the result a matrix: whether the element of the row changed when the
parameter's element of the column was changed.
"""
Observe: TypeAlias = Callable[[Sequence[Case], Sequence[Drawn], Sequence[Drawn]], list[Seen]]
"""Runs cases on `values`, and once more for each element, with that element replaced by the one of `others`."""


@dataclass
class Checked:
    """How many pairs of elements were compared."""

    modules: int = 0
    dependences: int = 0
    """Pairs of an output element and an input element, in both directions."""
    seen: int = 0
    """The pairs of which the output element was observed to depend on the input element."""


class _Question:
    """One leaf of an operand and one leaf of the result: the answers to be judged, and the dependences observed so
    far.
    """

    def __init__(self, case: Case, operand: int, parameter: int, leaf: int, output: int, *, optional: bool) -> None:
        self.case, self.operand, self.parameter, self.leaf, self.output = case, operand, parameter, leaf, output
        loose = {**case.loose, **case.optional} if optional else case.loose
        root = case.root
        self.source: Dims = dims_of(leaf_shapes(root.operands[operand].shape)[leaf])
        self.dims: Dims = dims_of(leaf_shapes(root.shape)[output])
        read = [one for one in indexing.output_to_input(root, output)[operand] if one.leaf == leaf]
        written = indexing.input_to_output(root, operand, leaf)[output]
        self.forms: list[tuple[str, bool, list[OperandIndexing]]] = [
            ("output to input", False, read),
            ("output to input, simplified", False, [one.simplify() for one in read]),
            ("input to output", True, list(written)),
            ("input to output, simplified", True, list(written.simplify())),
        ]
        self.is_loose = parameter in loose or any(one.is_conservative for one in (*read, *written))
        shape = (int(np.prod(self.dims)), int(np.prod(self.source)))
        self.seen = np.zeros(shape, dtype=bool)
        self.named = [np.zeros(shape, dtype=bool) for _ in self.forms]
        self.fixed: dict[int, np.ndarray] = {}

    def judge(self, seen: np.ndarray, values: dict[HloInstruction, Any]) -> None:
        """After one run: every observed dependence must be named by the maps."""
        assert seen.shape == self.seen.shape
        unjudged = self.case.unjudged.get(self.output)
        if unjudged is not None:
            seen = seen & ~unjudged.reshape(-1, 1)
        self.seen |= seen
        for number, (form, backwards, members) in enumerate(self.forms):
            named = self.fixed.get(number)
            if named is None:
                dims, target = (self.source, self.dims) if backwards else (self.dims, self.source)
                named, outside = matrix(members, dims, target, values)
                is_exact = all(one.knowledge is Knowledge.EXACT for one in members)
                assert not outside or (self.case.outside and not is_exact), f"{self._told(form, members)} leads outside"
                named = named.T if backwards else named
                if not any(one.runtime for one in members):
                    self.fixed[number] = named
            if unjudged is not None:
                named = named & ~unjudged.reshape(-1, 1)
            self.named[number] |= named
            self._agree(number, named, seen, exactly=not self.is_loose and self.parameter not in self.case.union)

    def finish(self) -> None:
        """After all runs: every pair that the maps name must have been observed."""
        for number in range(len(self.forms)):
            self._agree(number, self.named[number], self.seen, exactly=not self.is_loose)

    def _agree(self, number: int, named: np.ndarray, seen: np.ndarray, *, exactly: bool) -> None:
        form, _, members = self.forms[number]
        for wrong, what in ((seen & ~named, "seen, not named"), (named & ~seen, "named, not seen")):
            if wrong.any() and (exactly or what == "seen, not named"):
                row, column = (int(i) for i in np.argwhere(wrong)[0])
                out, source = np.unravel_index(row, self.dims), np.unravel_index(column, self.source)
                where = f"output {[int(i) for i in out]}, input {[int(i) for i in source]}"
                raise AssertionError(f"{what}: {where}, of {int(wrong.sum())}, {self._told(form, members)}")

    def _told(self, form: str, members: list[OperandIndexing]) -> str:
        texts = "\n".join(map(str, members)) or "KNOWN EMPTY"
        return (
            f"operand {self.operand} leaf {self.leaf} to output {self.output}, {form}:\n{texts}\n"
            f"{self.case.root.computation.module.to_text()}"
        )


def judge(cases: Sequence[Case], observe: Observe, seed: int = 0, *, optional: bool = False) -> Checked:
    """Asserts that the maps of all cases agree with the observed dependences. `optional`: whether the field `optional`
    of cases counts.
    """
    rng = np.random.default_rng(seed)
    questions = [_questions(case, optional=optional) for case in cases]
    for _ in range(max(case.draws for case in cases)):
        values, others = ([case.drawn(rng) for case in cases] for _ in range(2))
        for case, asked, drawn, seen in zip(cases, questions, values, observe(cases, values, others), strict=True):
            every = run(case.root.computation, parameters(case, drawn))
            for question in asked:
                question.judge(seen[question.parameter, question.leaf][question.output], every)
    for asked in questions:
        for question in asked:
            question.finish()
    every_question = [question for asked in questions for question in asked]
    return Checked(
        len(cases), sum(2 * q.seen.size for q in every_question), sum(2 * int(q.seen.sum()) for q in every_question)
    )


def parameters(case: Case, drawn: Drawn) -> list[Any]:
    """The values of the parameters, from their leaves."""
    return [nested(one.shape, list(leaves_)) for one, leaves_ in zip(case.parameters, drawn, strict=True)]


def _questions(case: Case, *, optional: bool) -> list[_Question]:
    outputs = len(leaf_shapes(case.root.shape))
    return [
        _Question(case, operand, parameter, leaf, output, optional=optional)
        for operand, parameter in case.judged()
        for leaf in range(len(leaf_shapes(case.root.operands[operand].shape)))
        for output in range(outputs)
    ]


def changed(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Which elements differ, as a flat array. Integers differ by any amount, floats by more than rounding."""
    old, new = np.asarray(old).ravel(), np.asarray(new).ravel()
    if old.dtype.kind not in "fc":
        return old != new
    tolerance = 1e-10 if old.dtype.itemsize >= 8 else 1e-5
    return ~np.isclose(old, new, rtol=tolerance, atol=tolerance, equal_nan=True)


def observe_with_numpy(cases: Sequence[Case], values: Sequence[Drawn], others: Sequence[Drawn]) -> list[Seen]:
    """An `Observe` that runs cases with NumPy."""
    return [_observed(case, drawn, other) for case, drawn, other in zip(cases, values, others, strict=True)]


def _observed(case: Case, drawn: Drawn, other: Drawn) -> Seen:
    computation, root = case.root.computation, case.root
    before = leaves(run(computation, parameters(case, drawn))[root])
    seen: Seen = {}
    for number, arrays in enumerate(drawn):
        for leaf, array in enumerate(arrays):
            found = seen[number, leaf] = [np.zeros((old.size, array.size), dtype=bool) for old in before]
            for column, at in enumerate(np.ndindex(*array.shape)):
                moved = [list(one) for one in drawn]
                moved[number][leaf] = np.array(array)
                moved[number][leaf][at] = other[number][leaf][at]
                after = leaves(run(computation, parameters(case, moved))[root])
                for rows, old, new in zip(found, before, after, strict=True):
                    rows[:, column] = changed(old, new)
    return seen
