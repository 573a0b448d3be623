"""How often a while loop runs, where that is known before it runs: its backend configuration says so, or a counter goes from a constant to a constant.

Matches XLA's known trip counts and its plain pattern of an induction variable.
"""

from __future__ import annotations

import json
from typing import Any, cast

from xlashape.hlo import HloComputation, HloInstruction, Opcode
from xlashape.indexing.answers.constant_values import scalar_value
from xlashape.indexing.walk.dependencies.origins import origin
from xlashape.math import ceil_div
from xlashape.shape import Shape


def trip_count(loop: HloInstruction, body: HloComputation, condition: HloComputation) -> int | None:
    """The number of iterations; None where it is not known before the loop runs.

    >>> from xlashape.hlo import HloModule
    >>> loop = HloModule.parse('''HloModule m
    ... body { i = s32[] parameter(0) two = s32[] constant(2) ROOT n = s32[] add(i, two) }
    ... cond { i = s32[] parameter(0) ten = s32[] constant(10) ROOT c = pred[] compare(i, ten), direction=LT }
    ... ENTRY e { zero = s32[] constant(0) ROOT w = s32[] while(zero), condition=cond, body=body }''').entry.root
    >>> trip_count(loop, *loop.called_computations)
    5
    """
    stated = _stated(loop.proto.backend_config)
    return _counted(loop, body, condition) if stated is None else stated


def _stated(config: bytes) -> int | None:
    """The number in XLA's `{"known_trip_count": {"n": "5"}}`."""
    if b"known_trip_count" not in config:
        return None
    try:
        value: Any = json.loads(config)
    except (ValueError, RecursionError):
        return None
    for name in ("known_trip_count", "n"):
        value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
    # JSON of protobuf writes a 64-bit number as a string.
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    return value if type(value) is int and value >= 0 else None


_MIRRORED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "NE": "NE"}


def _counted(loop: HloInstruction, body: HloComputation, condition: HloComputation) -> int | None:
    """The number where the condition compares a leaf of the state with a constant, and the body adds a constant to that leaf."""
    test, _ = origin(condition.root, 0)
    if test.proto.opcode != Opcode.COMPARE or len(test.operands) != 2:
        return None
    direction = test.proto.comparison_direction
    (left, leaf), (right, right_leaf) = (origin(operand, 0) for operand in test.operands)
    if right.proto.opcode == Opcode.PARAMETER:
        left, leaf, right = right, right_leaf, left
        direction = _MIRRORED.get(direction, "")
    limit = scalar_value(right)
    if left.proto.opcode != Opcode.PARAMETER or limit is None:
        return None
    start = scalar_value(origin(loop.operands[0], leaf)[0])
    step = _increment(body, leaf)
    if start is None or step is None:
        return None
    count = _step_count(start, limit, step, direction)
    return count if count is not None and _fits(start + count * step, right.shape) else None


def _increment(body: HloComputation, leaf: int) -> int | None:
    """The constant that an iteration adds to a leaf of the state; None where it does anything else."""
    new_value, _ = origin(body.root, leaf)
    opcode = new_value.proto.opcode
    if opcode not in (Opcode.ADD, Opcode.SUBTRACT) or len(new_value.operands) != 2:
        return None
    (left, left_leaf), (right, right_leaf) = (origin(operand, 0) for operand in new_value.operands)
    if opcode == Opcode.ADD and right.proto.opcode == Opcode.PARAMETER:
        left, left_leaf, right = right, right_leaf, left
    amount = scalar_value(right)
    if left.proto.opcode != Opcode.PARAMETER or left_leaf != leaf or amount is None:
        return None
    return amount if opcode == Opcode.ADD else -amount


def _step_count(start: int, limit: int, step: int, direction: str) -> int | None:
    """How often `step` is added to `start` while the comparison of the sum with `limit` holds; None where it holds forever.

    >>> _step_count(0, 10, 3, "LT"), _step_count(10, 0, -5, "GE"), _step_count(0, 10, 3, "NE")
    (4, 3, None)
    """
    if direction in ("GT", "GE"):
        return _step_count(-start, -limit, -step, "LT" if direction == "GT" else "LE")
    if direction == "NE":
        if start == limit:
            return 0
        return (limit - start) // step if step and (limit - start) % step == 0 and (limit - start) // step > 0 else None
    if direction == "LE":
        limit += 1
    elif direction != "LT":
        return None
    if start >= limit:
        return 0
    return ceil_div(limit - start, step) if step > 0 else None


def _fits(value: int, shape: Shape) -> bool:
    """Whether an integral type holds the value, so that the counter does not wrap around."""
    kind = shape.element_type
    if not kind.is_integral:
        return False
    width = kind.bit_width - kind.is_signed
    return (-(1 << width) if kind.is_signed else 0) <= value < 1 << width
