"""How often a while loop runs: as its backend configuration says, or as a counter shows that goes from a constant to a constant.

Matches XLA's known trip counts and its plain pattern of an induction variable.
"""

from __future__ import annotations

import json
from typing import Any, cast

from xlashape.hlo import HloComputation, HloInstruction
from xlashape.indexing.walk.constant_values import scalar_value
from xlashape.indexing.walk.leaf_dependencies import origin
from xlashape.math import ceil_div
from xlashape.shape import Shape

__all__ = ["trip_count"]


def trip_count(loop: HloInstruction, body: HloComputation, condition: HloComputation) -> int | None:
    """The number of iterations; None where it is not known before the loop runs."""
    stated = _stated(loop.proto.backend_config)
    return _counted(loop, body, condition) if stated is None else stated


def _stated(config: bytes) -> int | None:
    if b"known_trip_count" not in config:
        return None
    try:
        found: Any = json.loads(config)
    except (ValueError, RecursionError):
        return None
    for name in ("known_trip_count", "n"):
        found = cast("dict[str, Any]", found).get(name) if isinstance(found, dict) else None
    # A 64-bit number stands as a string in the JSON of protobuf.
    if isinstance(found, str) and found.isascii() and found.isdigit() and len(found) < 20:
        found = int(found)
    return found if type(found) is int and found >= 0 else None


_MIRRORED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "NE": "NE"}


def _counted(loop: HloInstruction, body: HloComputation, condition: HloComputation) -> int | None:
    test, _ = origin(condition.root, 0)
    if test.proto.opcode != "compare" or len(test.operands) != 2:
        return None
    direction = test.proto.comparison_direction
    (left, leaf), (right, other) = (origin(operand, 0) for operand in test.operands)
    if right.proto.opcode == "parameter":
        left, leaf, right = right, other, left
        direction = _MIRRORED.get(direction, "")
    limit = scalar_value(right)
    if left.proto.opcode != "parameter" or limit is None:
        return None
    start = scalar_value(origin(loop.operands[0], leaf)[0])
    step = _step(body, leaf)
    if start is None or step is None:
        return None
    count = _steps(start, limit, step, direction)
    return count if count is not None and _fits(start + count * step, right.shape) else None


def _step(body: HloComputation, leaf: int) -> int | None:
    """What an iteration adds to a leaf."""
    one, _ = origin(body.root, leaf)
    if one.proto.opcode not in ("add", "subtract") or len(one.operands) != 2:
        return None
    (left, at), (right, other) = (origin(operand, 0) for operand in one.operands)
    if one.proto.opcode == "add" and right.proto.opcode == "parameter":
        left, at, right = right, other, left
    amount = scalar_value(right)
    if left.proto.opcode != "parameter" or at != leaf or amount is None:
        return None
    return amount if one.proto.opcode == "add" else -amount


def _steps(start: int, limit: int, step: int, direction: str) -> int | None:
    """How often `step` is added to `start` while the comparison with `limit` holds."""
    if direction in ("GT", "GE"):
        return _steps(-start, -limit, -step, "LT" if direction == "GT" else "LE")
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
    kind = shape.element_type
    if not kind.is_integral:
        return False
    width = kind.bit_width - kind.is_signed
    return (-(1 << width) if kind.is_signed else 0) <= value < 1 << width
