"""Maps through whole computations: from a computation's result to its parameters, and from a parameter to the result, through every path.

Instructions are visited once each, users first (input to output: operands first), with the set of maps that reach them; equal maps are one, so
2ⁿ paths through n diamonds cost n steps. Nothing here takes the interpreter's stack: computations that call computations are worked off as
generators on a list.

Matches XLA's ComputeGroupedOutputToInputIndexing and its maps of fusions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xlashape.errors import InvalidArgumentError, InvalidModuleError, LimitExceededError
from xlashape.hlo import HloComputation, HloInstruction
from xlashape.indexing.answers.operand_indexing import OperandIndexing, OperandIndexingSet
from xlashape.indexing.ops.build import dims_of, everything, identity, to_scalar
from xlashape.indexing.ops.registry import OUTPUT_TO_INPUT, is_calling, leaves
from xlashape.indexing.walk.analysis import (
    EMPTY,
    Answer,
    Signature,
    answer_from_output,
    from_operand,
    from_output,
    is_unbounded,
    leaf_count,
    rule_from_operand,
    rule_from_output,
    signature,
    unknown_from_operand,
    unknown_from_output,
)
from xlashape.indexing.walk.arguments import given
from xlashape.indexing.walk.leaf_dependencies import dependencies, ordered
from xlashape.indexing.walk.loops import Loop
from xlashape.indexing.walk.requests import WAYS_OF_ACCESS, Request, Sets, Steps
from xlashape.indexing.walk.scans import Scan
from xlashape.indexing.walk.sorts import sort_from_operand, sort_from_output
from xlashape.limits import spend
from xlashape.shape import Shape
from xlashape.symbolic import IndexingMap

__all__ = ["Analysis", "Reached"]

MAX_WAYS = 1 << 10
"""Different maps from one instruction to one array on the way through a computation."""

MAX_COMPOSITIONS = 1 << 16
"""Compositions that one analysis keeps. When there are more, all are forgotten."""

Members: TypeAlias = dict[OperandIndexing, None]
"""A set that keeps its order."""
Reached: TypeAlias = dict[HloInstruction, dict[int, Members]]
"""The maps that reach each leaf of an instruction."""


class Analysis:
    """Answers questions about many instructions: what it found out about computations and compositions is kept for the next question.

    Ask about instructions of one module; the functions of `xlashape.indexing` make one of these for each call. Errors are theirs.
    """

    def __init__(self) -> None:
        self._computations: dict[Request, Sets] = {}
        self._orders: dict[HloComputation, list[HloInstruction]] = {}
        self._composed: dict[tuple[OperandIndexing, OperandIndexing], OperandIndexing] = {}
        self._loops: dict[HloInstruction, Loop | Scan] = {}
        self._counted: dict[HloComputation, tuple[int, bool]] = {}
        self._checked: set[tuple[HloInstruction, HloComputation]] = set()
        self._last: tuple[HloInstruction | None, Signature | None] = (None, None)

    # -- questions --------------------------------------------------------------------------------------------------------------

    def output_to_input(self, instruction: HloInstruction, output: int) -> Answer:
        """One set an operand."""
        asked, known = self._last
        if asked is not instruction:
            opcode = instruction.proto.opcode
            registered = OUTPUT_TO_INPUT.get(opcode)
            if registered is None:
                if is_calling(opcode):
                    return self._work_off(self._from_output(instruction, output))
                return unknown_from_output(instruction)
            known = signature(instruction, registered)
            if instruction.shape.is_tuple:  # its other outputs are asked for next
                self._last = (instruction, known)
        assert known is not None
        return answer_from_output(instruction, output, known)

    def input_to_output(self, instruction: HloInstruction, operand: int, leaf: int) -> Answer:
        """One set for each leaf of the result."""
        if is_calling(instruction.proto.opcode):
            return self._work_off(self._from_operand(instruction, operand, leaf))
        return from_operand(instruction, operand, leaf, rule_from_operand(instruction))

    def to_ancestors(self, instruction: HloInstruction, output: int, among: set[HloInstruction] | None) -> Reached:
        """From a leaf of an instruction to every instruction before it in its computation (to those `among`, if given)."""
        reached: Reached = {}

        def steps() -> Steps:
            yield from self._walk_back(instruction, output, reached, among)
            return ()

        self._work_off(steps())
        return reached

    # -- working off ------------------------------------------------------------------------------------------------------------

    def _work_off(self, first: Steps) -> Sets:
        """Runs a generator; whenever it asks for a computation, that one's generator goes first.

        It hears of too many ways of access within, and may have another answer.
        """
        stack: list[tuple[Request | None, Steps]] = [(None, first)]
        value: Sets | None = None
        failure: LimitExceededError | None = None
        while True:
            request, steps = stack[-1]
            try:
                if failure is not None:
                    thrown, failure = failure, None
                    asked = steps.throw(thrown)
                else:
                    asked = next(steps) if value is None else steps.send(value)
            except LimitExceededError as error:
                stack.pop()
                if error.limit != WAYS_OF_ACCESS or not stack:
                    raise
                failure = error
                continue
            except StopIteration as stop:
                stack.pop()
                value = stop.value
                assert value is not None
                if request is None:
                    return value
                self._computations[request] = value
                continue
            value = self._computations.get(asked)
            if value is None:
                if asked.parameter < 0:
                    stack.append((asked, self._computation_from_result(asked.computation, asked.leaf)))
                else:
                    stack.append(
                        (asked, self._computation_from_parameter(asked.computation, asked.parameter, asked.leaf))
                    )

    def _compose(self, first: OperandIndexing, second: OperandIndexing) -> OperandIndexing:
        key = (first, second)
        found = self._composed.get(key)
        if found is None:
            if len(self._composed) >= MAX_COMPOSITIONS:
                self._composed.clear()
            found = self._composed[key] = first.compose(second)
        return found

    # -- one instruction --------------------------------------------------------------------------------------------------------

    def _from_output(self, instruction: HloInstruction, output: int) -> Steps:
        opcode = instruction.proto.opcode
        if not is_calling(opcode):
            return from_output(instruction, output, rule_from_output(instruction))
        outputs, operands = leaves(instruction.shape), instruction.operands
        if not 0 <= output < len(outputs):
            raise InvalidArgumentError(
                f"{instruction.name} has no output {output}: it has {len(outputs)}", field="output"
            )
        if _unbounded(instruction):
            return unknown_from_output(instruction)
        if opcode == "conditional":
            found = [_set(to_scalar(dims_of(outputs[output]))[0].map)]
            for branch, argument in zip(_called(instruction, len(operands) - 1), operands[1:], strict=True):
                self._check_call(instruction, branch, (argument,), instruction.shape)
                found += yield Request(branch, -1, output)
            return tuple(found)
        if opcode in ("while", "scan"):
            return (yield from self._repeated(instruction).from_output(output))
        if opcode == "sort":
            return sort_from_output(instruction, output, self._counted)
        if opcode == "async-start":
            results = leaf_count(_result_of_call(instruction))
            before = sum(leaf_count(operand.shape) for operand in operands)
            if output < before:
                return _passed_on(instruction, output)
            if output >= before + results:
                return (EMPTY,) * len(operands)
            output -= before
        (computation,) = _called(instruction, 1)
        self._check_call(instruction, computation, operands, _result_of_call(instruction))
        return (yield Request(computation, -1, output))

    def _check_call(
        self,
        instruction: HloInstruction,
        computation: HloComputation,
        arguments: Sequence[HloInstruction],
        result: Shape,
    ) -> None:
        """The arguments are what the computation takes, and its result what the instruction returns."""
        if (instruction, computation) in self._checked:
            return
        parameters = computation.parameters
        if (
            len(parameters) != len(arguments)
            or any(_sizes(one.shape) != _sizes(other.shape) for one, other in zip(parameters, arguments, strict=True))
            or _sizes(computation.root.shape) != _sizes(result)
        ):
            raise InvalidModuleError(
                f"instruction {instruction.name!r} calls {computation.name!r}, whose parameters or result do not fit it"
            )
        self._checked.add((instruction, computation))

    def _from_operand(self, instruction: HloInstruction, operand: int, leaf: int) -> Steps:
        opcode = instruction.proto.opcode
        if not is_calling(opcode):
            return from_operand(instruction, operand, leaf, rule_from_operand(instruction))
        outputs, operands = leaves(instruction.shape), instruction.operands
        if not 0 <= operand < len(operands):
            raise InvalidArgumentError(
                f"{instruction.name} has no operand {operand}: it has {len(operands)}", field="operand"
            )
        own = leaves(operands[operand].shape)
        if not 0 <= leaf < len(own):
            raise InvalidArgumentError(
                f"operand {operand} of {instruction.name} has no leaf {leaf}: it has {len(own)}", field="leaf"
            )
        if _unbounded(instruction):
            return unknown_from_operand(instruction)
        dims = dims_of(own[leaf])
        if opcode == "conditional":
            if operand == 0:
                return tuple([_set(everything(dims, dims_of(shape)).map) for shape in outputs])
            branch = _called(instruction, len(operands) - 1)[operand - 1]
            self._check_call(instruction, branch, (operands[operand],), instruction.shape)
            return (yield Request(branch, 0, leaf))
        if opcode == "sort":
            return sort_from_operand(instruction, operand, leaf, self._counted)
        if opcode in ("while", "scan"):
            repeated = self._repeated(instruction)
            return (yield from (repeated.from_operand(leaf if opcode == "while" else operand)))
        passed: list[OperandIndexingSet] = []
        if opcode == "async-start":
            for number, one in enumerate(operands):
                passed += [
                    _set(identity(dims)[0].map) if (number, at) == (operand, leaf) else EMPTY
                    for at in range(leaf_count(one.shape))
                ]
        (computation,) = _called(instruction, 1)
        self._check_call(instruction, computation, operands, _result_of_call(instruction))
        found = yield Request(computation, operand, leaf)
        return (*passed, *found, *((EMPTY,) * (len(outputs) - len(passed) - len(found))))

    def _repeated(self, instruction: HloInstruction) -> Loop | Scan:
        found = self._loops.get(instruction)
        if found is None:
            if instruction.proto.opcode == "while":
                found = Loop(instruction, self._compose, self._counted)
            else:
                (body,) = _called(instruction, 1)
                found = Scan(instruction, dependencies(body, self._counted), self._compose)
            self._loops[instruction] = found
        return found

    # -- whole computations -----------------------------------------------------------------------------------------------------

    def _computation_from_result(self, computation: HloComputation, leaf: int) -> Steps:
        """One set a parameter."""
        reached: Reached = {}
        yield from self._walk_back(computation.root, leaf, reached, None)
        return tuple(
            [
                OperandIndexingSet([one for members in reached.get(parameter, {}).values() for one in members])
                for parameter in computation.parameters
            ]
        )

    def _walk_back(
        self, start: HloInstruction, output: int, reached: Reached, among: set[HloInstruction] | None
    ) -> Steps:
        if not 0 <= output < leaf_count(start.shape):
            raise InvalidArgumentError(
                f"{start.name} has no output {output}: it has {leaf_count(start.shape)}", field="output"
            )
        first = _start(start.shape, output)
        reached[start] = {output: {first: None}}
        for instruction in reversed(self._order(start.computation)):
            for leaf, members in list(reached.get(instruction, {}).items()):
                if not instruction.operands:
                    continue
                spend(1)
                answer = given(instruction, (yield from self._from_output(instruction, leaf)))
                for operand, read in zip(instruction.operands, answer, strict=True):
                    if among is not None and operand not in among:
                        continue
                    for second in read:
                        there = reached.setdefault(operand, {}).setdefault(second.leaf, {})
                        for member in members:
                            # A map composed with the identity is its simplified self.
                            there[second.simplify() if member is first else self._compose(member, second)] = None
                        _check_ways(operand, there)
        return ()

    def _computation_from_parameter(self, computation: HloComputation, parameter: int, leaf: int) -> Steps:
        """One set for each leaf of the result."""
        reached: Reached = {}
        start, root = computation.parameters[parameter], computation.root
        first = _start(start.shape, leaf)
        reached[start] = {leaf: {first: None}}
        for instruction in self._order(computation):
            for number, operand in enumerate(instruction.operands):
                for at, members in list(reached.get(operand, {}).items()):
                    spend(1)
                    answer = given(instruction, (yield from self._from_operand(instruction, number, at)))
                    for output, written in enumerate(answer):
                        for second in written:
                            there = reached.setdefault(instruction, {}).setdefault(output, {})
                            for member in members:
                                there[second.simplify() if member is first else self._compose(member, second)] = None
                            _check_ways(instruction, there)
        found = reached.get(root, {})
        return tuple([OperandIndexingSet(found.get(output, ())) for output in range(leaf_count(root.shape))])

    def _order(self, computation: HloComputation) -> list[HloInstruction]:
        """The instructions, operands before their users."""
        order = self._orders.get(computation)
        if order is None:
            order = self._orders[computation] = ordered(computation)
        return order


def _unbounded(instruction: HloInstruction) -> bool:
    return any(is_unbounded(shape) for shape in (instruction.shape, *(one.shape for one in instruction.operands)))


def _set(found: IndexingMap, leaf: int = 0) -> OperandIndexingSet:
    return OperandIndexingSet([OperandIndexing(found, leaf=leaf)])


def _start(shape: Shape, leaf: int) -> OperandIndexing:
    return OperandIndexing(identity(dims_of(leaves(shape)[leaf]))[0].map, leaf=leaf)


def _called(instruction: HloInstruction, count: int) -> tuple[HloComputation, ...]:
    called = instruction.called_computations
    if len(called) != count:
        raise InvalidModuleError(
            f"instruction {instruction.name!r} ({instruction.proto.opcode}) calls {len(called)} computations, not {count}"
        )
    return called


def _check_ways(instruction: HloInstruction, members: Members) -> None:
    if len(members) > MAX_WAYS:
        raise LimitExceededError(
            f"instruction {instruction.name!r} is accessed in more than {MAX_WAYS} different ways",
            limit=WAYS_OF_ACCESS,
            maximum=MAX_WAYS,
            value=len(members),
        )


def _result_of_call(instruction: HloInstruction) -> Shape:
    """What the called computation returns: of an async-start, the second element."""
    if instruction.proto.opcode != "async-start":
        return instruction.shape
    elements = instruction.shape.tuple_shapes
    passed = [sizes for operand in instruction.operands for sizes in _sizes(operand.shape)]
    if len(elements) < 2 or _sizes(elements[0]) != passed:
        raise InvalidModuleError(f"instruction {instruction.name!r} (async-start) does not return operands and results")
    return elements[1]


def _sizes(shape: Shape) -> list[tuple[int, ...]]:
    return [dims_of(leaf) for leaf in leaves(shape)]


def _passed_on(instruction: HloInstruction, output: int) -> Answer:
    """async-start: leaf `output` of the operands, counted one after the other."""
    found: list[OperandIndexingSet] = []
    for operand in instruction.operands:
        own = leaves(operand.shape)
        found.append(_set(identity(dims_of(own[output]))[0].map, output) if 0 <= output < len(own) else EMPTY)
        output -= len(own)
    return tuple(found)
