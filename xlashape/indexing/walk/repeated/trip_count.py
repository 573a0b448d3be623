"""How often a while loop runs: as its backend configuration says, or as its condition says, if both sides of the
comparison change by the same amount in each iteration. This covers XLA's known trip counts and its pattern of an
induction variable, in fusions and calls too.

A number is followed back to what makes it through tuples, copies, fusions, calls and loops that leave it as it is. On
the way it may be added to, multiplied by constants and negated. All this is right modulo 2ⁿ, where n is the width of
the numbers, so only the compared numbers have to fit their type.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product as combined
from typing import Any, NamedTuple, cast

from xlashape.base.math import ceil_div, product
from xlashape.hlo import HloComputation, HloInstruction, Opcode
from xlashape.hlo.flow import Value, handed_on_from
from xlashape.hlo.ops.calls import Arguments
from xlashape.hlo.ops.operation import AsyncStep, ReadPattern, ResultSource
from xlashape.indexing.answers.leaves import integers
from xlashape.limits import spend
from xlashape.shape import PrimitiveType
from xlashape.shape.value.shape import part_of


class CalledBy(NamedTuple):
    """The instruction that called the computation of a value."""

    instruction: HloInstruction
    outer: CalledBy | None
    """Its own caller; None in the outermost computation."""


_MOST_NUMBERS = 200
_MOST_LOOPS = 8


class LinearCount(NamedTuple):
    """A number that depends on another one, n: start + step · n."""

    start: int
    step: int


def trip_count(
    loop: HloInstruction,
    body: HloComputation,
    condition: HloComputation,
    caller: Callable[[HloComputation], HloInstruction | None] = lambda _: None,
) -> int | None:
    """The number of iterations; None where it is not known before the loop runs. `caller` gives the only instruction
    that calls a computation: where the loop starts may be known there.

    >>> from xlashape.hlo import HloModule
    >>> loop = HloModule.parse('''HloModule m
    ... two { i = s32[] parameter(0) two = s32[] constant(2) ROOT n = s32[] add(i, two) }
    ... body { i = s32[] parameter(0) ROOT n = s32[] fusion(i), kind=kLoop, calls=two }
    ... cond { i = s32[] parameter(0) ten = s32[] constant(10) ROOT c = pred[] compare(i, ten), direction=LT }
    ... ENTRY e { zero = s32[] constant(0) ROOT w = s32[] while(zero), condition=cond, body=body }''').entry.root
    >>> trip_count(loop, *loop.called_computations)
    5
    """
    known = stated(loop.details.backend_config, "known_trip_count", "n")
    if known is not None:
        return known
    made, callers = _made(Value(condition.root, ()), None)
    test = made.instruction
    if test.opcode != Opcode.COMPARE or len(test.operands) != 2 or not loop.operands:
        return None
    numbers = _Numbers(_state_of(loop, body, _start_of(caller)))
    left, right = [numbers.line(Value(operand, ()), callers) for operand in test.operands]
    kind = test.operands[0].shape.element_type
    if left is None or right is None or not kind.is_integral:
        return None
    direction = test.details.comparison_direction
    for sides in combined(_readings(left, kind), _readings(right, kind)):
        (start, step), (limit, limit_step) = sides
        count = _true_for(start - limit, step - limit_step, direction)
        if count is not None and all(fits(line.start + count * line.step, kind) for line in sides):
            return count
    return None


def stated(config: bytes, name: str, part: str) -> int | None:
    """A number in a backend configuration of XLA, such as `{"known_trip_count": {"n": "5"}}`; None without."""
    if name.encode() not in config:
        return None
    try:
        value: Any = json.loads(config)
    except (ValueError, RecursionError):
        return None
    for key in (name, part):
        value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
    # JSON of protobuf writes a 64-bit number as a string.
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    return value if type(value) is int and value >= 0 else None


# -- comparisons -------------------------------------------------------------------------------


def _true_for(start: int, step: int, direction: str) -> int | None:
    """How often `step` is added to `start` until the comparison of the sum with 0 is false; None where it never is.

    >>> _true_for(-10, 3, "LT"), _true_for(10, -5, "GE"), _true_for(-10, 3, "NE")
    (4, 3, None)
    """
    if direction in ("GT", "GE"):
        start, step, direction = -start, -step, "LT" if direction == "GT" else "LE"
    if direction == "EQ":
        return 0 if start else 1 if step else None
    if direction == "NE":
        if start == 0 or step == 0:
            return None if start else 0
        count, rest = divmod(-start, step)
        return count if count > 0 and not rest else None
    start -= direction == "LE"
    if start >= 0:
        return 0
    return ceil_div(-start, step) if step > 0 else None


def _readings(line: LinearCount, kind: PrimitiveType) -> list[LinearCount]:
    """The lines that are equal modulo 2ⁿ to a line of numbers of n bits: the first number as the type reads it, and the
    step as a positive or a negative number."""
    size = 1 << kind.bit_width
    start, step = line.start % size, line.step % size
    return [
        LinearCount(start if fits(start, kind) else start - size, each) for each in dict.fromkeys((step, step - size))
    ]


def fits(value: int, kind: PrimitiveType) -> bool:
    """Whether an integral type, or that of predicates, holds the value."""
    width = 1 if kind is PrimitiveType.PRED else kind.bit_width - kind.is_signed
    return (-(1 << width) if kind.is_signed else 0) <= value < 1 << width


# -- numbers -----------------------------------------------------------------------------------


class _Numbers:
    """Computes numbers as lines. `argument` gives the lines of the parameters of the outermost computation. After 200
    numbers it gives up."""

    def __init__(self, argument: Callable[[Value], LinearCount | None]) -> None:
        self._argument = argument
        self._left = _MOST_NUMBERS

    def line(self, value: Value, callers: CalledBy | None = None) -> LinearCount | None:
        """The line of an integer; None where it is none."""
        self._left -= 1
        made, callers = _made(value, callers)
        instruction = made.instruction
        shape = part_of(instruction.shape, made.at)
        if self._left < 0 or shape is None or not shape.element_type.is_integral or product(shape.dimensions) != 1:
            return None
        opcode = instruction.opcode
        if instruction.kind.row.source is ResultSource.ARGUMENT:
            return None if callers else self._argument(made)
        if opcode == Opcode.CONSTANT:
            constant = integers(instruction)
            return None if constant is None else LinearCount(constant[0], 0)
        if opcode not in (Opcode.ADD, Opcode.SUBTRACT, Opcode.MULTIPLY, Opcode.NEGATE):
            return None
        found = [self.line(Value(operand, ()), callers) for operand in instruction.operands]
        terms = [each for each in found if each is not None]
        if len(terms) < len(found) or len(terms) != (1 if opcode == Opcode.NEGATE else 2):
            return None
        first, last = terms[0], terms[-1]
        if opcode == Opcode.MULTIPLY:
            if first.step and last.step:
                return None
            return LinearCount(first.start * last.start, first.start * last.step + first.step * last.start)
        if opcode == Opcode.NEGATE:
            first = LinearCount(0, 0)
        sign = 1 if opcode == Opcode.ADD else -1
        return LinearCount(first.start + sign * last.start, first.step + sign * last.step)


def _state_of(
    loop: HloInstruction, body: HloComputation, start: Callable[[Value], LinearCount | None]
) -> Callable[[Value], LinearCount | None]:
    """The function that gives a number in the state of a loop, as a line of the number of iterations. `start` gives the
    numbers of arguments of the computation that the loop is in."""

    def changed(at: Value, other: Callable[[Value], LinearCount | None]) -> LinearCount | None:
        first = _Numbers(start).line(Value(loop.operands[0], at.at))
        numbers = _Numbers(lambda before: LinearCount(0, 1) if before.at == at.at else other(before))
        after = numbers.line(Value(body.root, at.at))
        return LinearCount(first.start, after.start) if first and after and not first.step and after.step == 1 else None

    def unchanged(at: Value) -> LinearCount | None:
        line = changed(at, lambda _: None)
        return line if line and not line.step else None

    return lambda at: changed(at, unchanged)


def _start_of(caller: Callable[[HloComputation], HloInstruction | None]) -> Callable[[Value], LinearCount | None]:
    """The function that gives an argument of a computation which is a constant for its caller."""

    def found(at: Value) -> LinearCount | None:
        for _ in range(_MOST_NUMBERS):
            parameter = at.instruction
            called_by = caller(parameter.computation)
            arguments = called_by.kind.row.calls.arguments if called_by else Arguments.ELEMENTS
            if called_by is None or parameter.parameter_number >= len(called_by.operands):
                return None
            if arguments is Arguments.CARRIED and not _is_unchanged(called_by, at.at, _MOST_LOOPS):
                return None
            if arguments not in (Arguments.CARRIED, Arguments.OPERANDS):
                return None
            at, _ = _made(Value(called_by.operands[parameter.parameter_number], at.at), None)
            if at.instruction.kind.row.source is not ResultSource.ARGUMENT:
                return _Numbers(lambda _: None).line(at)
        return None

    return found


# -- the way back ------------------------------------------------------------------------------


def _made(value: Value, callers: CalledBy | None, loops: int = _MOST_LOOPS) -> tuple[Value, CalledBy | None]:
    """The value that a value is, which is a number or anything else, and the callers of that one's computation."""
    while True:
        spend()
        instruction, index = value
        row, called = instruction.kind.row, instruction.called_computations
        before = handed_on_from(instruction, index)
        if before is None and instruction.operands and (row.passes_first_operand_through or _is_one(instruction)):
            before = Value(instruction.operands[0], index)
        if before is None and row.source is ResultSource.ARGUMENT and callers:
            operands = callers.instruction.operands
            if instruction.parameter_number < len(operands):
                before, callers = Value(operands[instruction.parameter_number], index), callers.outer
        elif before is None and row.calls.arguments is Arguments.OPERANDS and called:
            if row.async_step is not AsyncStep.START:
                before, callers = Value(called[0].root, index), CalledBy(instruction, callers)
            elif index[:1] == (1,):
                before, callers = Value(called[0].root, index[1:]), CalledBy(instruction, callers)
        elif before is None and row.source is ResultSource.STATE and _is_unchanged(instruction, index, loops):
            before = Value(instruction.operands[0], index)
        if before is None:
            return value, callers
        value = before


def _is_unchanged(loop: HloInstruction, index: tuple[int, ...], loops: int) -> bool:
    """Whether the body of a loop returns a part of the state as it is, through at most `loops` loops in each other."""
    if not loops or not loop.called_computations or not loop.operands:
        return False
    body = loop.called_computations[0]
    (made, at), callers = _made(Value(body.root, index), None, loops - 1)
    return callers is None and made.computation is body and made in body.parameters and at == index


def _is_one(instruction: HloInstruction) -> bool:
    """Whether the result is the only number of the operand, in an array of another shape."""
    return instruction.kind.row.reads is ReadPattern.EACH_ONCE and product(instruction.shape.dimensions) == 1
