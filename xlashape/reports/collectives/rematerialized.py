"""Shardings of a program before it is partitioned that XLA's partitioner cannot turn one into the other: it logs
"Involuntary full rematerialization", and gathers the whole array on each device.

What follows is what jaxlib 0.12.0.1 does with 8 devices, found by compiling, for arrays of which one dimension is
divided before and another one after, and nothing else. With n tiles before and m after, n ≠ m, the array is gathered,
unless the m tiles take all devices. Where two or more elementwise operations are between, and every tile before shares
a device with every tile after, propagation divides the values between by both, and nothing is gathered. No other pair
of shardings is judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from xlashape.base.math import product
from xlashape.errors import XlashapeError
from xlashape.hlo import HloInstruction, HloModule, Opcode
from xlashape.hlo.collectives.meshes import mesh_of
from xlashape.hlo.ops.operation import ReadPattern
from xlashape.hlo.values.sharding import Sharding
from xlashape.indexing.sharding import spelled
from xlashape.limits import spend
from xlashape.shape import Shape, shape_util

_MOST_STEPS: Final = 400
_CONSTRAINTS: Final = ("Sharding", "xla.sdy.FuncResultSharding")
"""The targets of custom calls that say how an array is to be divided."""


class Rematerialization(NamedTuple):
    """An array that the partitioner gathers on each device."""

    instruction: HloInstruction
    """The instruction that wants another sharding."""
    before: Sharding
    after: Sharding

    def __str__(self) -> str:
        shape = self.instruction.shape
        whole = shape_util.byte_size_of(shape)
        held = whole // max(1, product(self.before.counts_for(shape)))
        return (
            f"{self.instruction.name} takes {shape} from {self.before} to {self.after}: expect XLA to log an "
            f"involuntary full rematerialization. Each device has {held:,} bytes, and gathers all {whole:,}."
        )


def rematerializations(module: HloModule) -> Iterator[Rematerialization]:
    """The arrays that the partitioner gathers, as far as it is known: at annotations of the program, and at its
    results."""
    said = _Shardings(module)
    for computation in module.computations:
        for each in computation.instructions:
            if each.opcode == Opcode.CUSTOM_CALL and each.operands and each.details.custom_call_target in _CONSTRAINTS:
                spend()
                after, (before, steps) = said.of(each), said.divided(each.operands[0])
                if after is not None and before is not None and is_gathered(each.shape, before, after):
                    if steps < 2 or not _cross(before, after):
                        yield Rematerialization(each, before, after)


def is_gathered(shape: Shape, before: Sharding, after: Sharding) -> bool:
    """Whether XLA is known to gather the whole array on each device on the way from one sharding to the other.

    >>> shape = Shape.parse("f32[32,16]")
    >>> rows = Sharding.parse("{devices=[2,1,4]<=[8] last_tile_dim_replicate}")
    >>> columns = Sharding.parse("{devices=[1,4,2]<=[8] last_tile_dim_replicate}")
    >>> is_gathered(shape, rows, columns), is_gathered(shape, rows, Sharding.parse("{devices=[1,8]<=[8]}"))
    (True, False)
    """
    try:
        counts = [sharding.counts_for(shape) for sharding in (before, after)]
        devices = after.devices
    except XlashapeError:
        return False
    divided = [pair for pair in zip(*counts, strict=True) if pair != (1, 1)]
    if devices is None or len(divided) != 2 or sorted(map(min, divided)) != [1, 1]:
        return False
    tiles = [product(count) for count in counts]
    return 1 not in tiles and tiles[0] != tiles[1] < len(devices)


def _cross(before: Sharding, after: Sharding) -> bool:
    """Whether every tile before shares a device with every tile after."""
    holders = [set(each) for each in after.holders or ()]
    return all(one.intersection(each) for each in before.holders or () for one in holders)


class _Shardings:
    """The shardings of a program's arrays before it is partitioned."""

    def __init__(self, module: HloModule) -> None:
        self._mesh = mesh_of(module)

    def of(self, instruction: HloInstruction) -> Sharding | None:
        """What the instruction says itself, also in an attribute of Shardy; None where it says nothing."""
        text = instruction.kind.message.frontend_attributes.map.get("xla.sdy.sharding")
        if instruction.sharding is not None or not text:
            return instruction.sharding
        try:
            found = spelled.of(text, mesh=self._mesh)
        except XlashapeError:
            return None
        return found.elements[0] if found.kind == "tuple" else found  # of one value

    def divided(self, instruction: HloInstruction) -> tuple[Sharding | None, int]:
        """How an array is divided where it is made: as the instruction says or, of an elementwise operation, as the
        first of its operands says that has a sharding. With it, the number of elementwise operations behind that."""
        seen, waiting = {instruction}, [(instruction, 0)]
        while waiting and len(seen) < _MOST_STEPS:
            each, steps = waiting.pop()
            found = self.of(each)
            if found is not None:
                return found, steps
            for operand in reversed(each.operands if each.kind.row.reads is ReadPattern.SAME else ()):
                if operand not in seen and operand.shape.dimensions == instruction.shape.dimensions:
                    seen.add(operand)
                    waiting.append((operand, steps + 1))
        return None, 0
