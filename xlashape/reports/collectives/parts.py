"""Collectives of whose result each device uses a part alone, so that another collective does:

    all-reduce, of which each member of a group uses a part of its own                  reduce-scatter
    all-gather, of which each member uses a part of its own, along another dimension    all-to-all
    all-gather, of which each member uses the operand of one member                     collective-permute, or nothing

The part is a dynamic-slice, in a fusion or by itself. Where it begins on each device is evaluated: it depends on the
number of the device and on nothing else.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from xlashape.base.math import product
from xlashape.errors import XlashapeError
from xlashape.evaluation.domains.values import PlainNumbers
from xlashape.evaluation.machine import Machine, Spread, at
from xlashape.hlo import HloInstruction, Opcode
from xlashape.hlo.collectives import Collective, DeviceGrid, DeviceGroups
from xlashape.hlo.flow import MOST_USES, Flow, Role, Value
from xlashape.hlo.ops.exchange import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    COLLECTIVE_PERMUTE,
    REDUCE_SCATTER,
    ExchangeRule,
)
from xlashape.limits import spend

_MOST_ELEMENTS: Final = 1 << 12
_MOST_STEPS: Final = 200


class Instead(NamedTuple):
    """What brings each device the part of a collective's result that it uses."""

    exchange: ExchangeRule
    devices: int
    """The devices of a group; of a permute those that use the operand of another one. With 0 nothing is sent."""


class _Parts(NamedTuple):
    """The part of an array that each device uses."""

    whole: tuple[int, ...]
    sizes: tuple[int, ...]
    begins: tuple[tuple[int, ...], ...]
    """Where it begins, by device."""


class PartFinder:
    """Finds the parts that devices use of the results of collectives."""

    def __init__(self, flow: Flow, grid: DeviceGrid) -> None:
        self._flow, self._devices = flow, grid.device_count
        self._machine = Machine(PlainNumbers(), grid.device_count, partitioned=grid.replicas == 1)
        self._values: dict[tuple[HloInstruction, HloInstruction | None], Spread | None] = {}
        """The value of an instruction in a fusion, or in none, on each device."""
        self._is_known = min(grid.replicas, grid.partitions) == 1

    def instead(self, collective: Collective, groups: DeviceGroups) -> Instead | None:
        """What would do instead of a collective; None where devices use all of it, or it is not known what they use."""
        if not self._is_known or collective.exchange not in (ALL_REDUCE, ALL_GATHER):
            return None
        result = collective.end if collective.end is not None else collective.instruction
        arrays = [(n,) for n in range(len(result.shape.tuple_shapes))] if result.shape.is_tuple else [()]
        parts = [self._used(Value(result, array)) for array in arrays]
        found = {None if part is None else _instead(collective, part, groups) for part in parts}
        return found.pop() if len(found) == 1 else None

    def _used(self, value: Value) -> _Parts | None:
        """The only part of a value that is used."""
        found: set[_Parts] = set()
        uses = self._flow.uses(*value)
        for use in uses if len(uses) < MOST_USES else ():
            user, users, read = use.user, (use.user,), use.user.operands[use.operand]
            is_fused = user.kind.row.fuses_called_computation and bool(user.called_computations)
            if is_fused:
                read = user.called_computations[0].parameters[use.operand]
                users = read.users
            if use.role is not Role.OPERAND or use.bitcasts:
                return None
            for each in users:
                is_slice = each.opcode is Opcode.DYNAMIC_SLICE and each.operands.index(read) == 0
                begins = self._begins(each, user if is_fused else None) if is_slice else None
                if begins is None:
                    return None
                found.add(_Parts(read.shape.dimensions, each.shape.dimensions, begins))
        return found.pop() if len(found) == 1 else None

    def _begins(self, part: HloInstruction, fusion: HloInstruction | None) -> tuple[tuple[int, ...], ...] | None:
        """Where a slice begins on each device."""
        whole, sizes = part.operands[0].shape.dimensions, part.shape.dimensions
        offsets: list[Spread] = []
        for operand in part.operands[1:]:
            offset = self._evaluated(operand, fusion)
            if offset is None:
                return None
            offsets.append(offset)
        spend(self._devices)
        return tuple(
            [
                tuple(
                    [
                        min(max(int(np.asarray(at(offset, device)).reshape(())), 0), size - part_size)
                        for offset, size, part_size in zip(offsets, whole, sizes, strict=True)
                    ]
                )
                for device in range(self._devices)
            ]
        )

    def _evaluated(self, value: HloInstruction, fusion: HloInstruction | None, depth: int = 0) -> Spread | None:
        """The value on each device of a small array that depends on the number of the device alone; None for others.
        `fusion`: the fusion that the value is in."""
        if value.opcode is Opcode.PARAMETER and fusion is not None:
            value, fusion = fusion.operands[value.number], None
        if fusion is None:
            made = self._flow.definition(value)
            value = value if made.at else made.instruction
        key, known = (value, fusion), self._values
        if key not in known:
            known[key] = None
            row = value.kind.row
            is_small = value.shape.is_array and product(value.shape.dimensions) <= _MOST_ELEMENTS
            is_made = row.exchange is None and not row.has_effect and value.opcode is not Opcode.PARAMETER
            if is_small and is_made and depth < _MOST_STEPS:
                operands = [self._evaluated(operand, fusion) for operand in value.operands]
                given = [operand for operand in operands if operand is not None]
                if len(given) == len(operands):
                    try:
                        known[key] = self._machine.apply(value, given)
                    except XlashapeError:
                        return None
        return known[key]


def _instead(collective: Collective, parts: _Parts, groups: DeviceGroups) -> Instead | None:
    """What brings each device its part; None unless each group divides one dimension into equal parts."""
    cut = [dim for dim, (whole, part) in enumerate(zip(parts.whole, parts.sizes, strict=True)) if whole != part]
    if len(cut) != 1 or len({len(group) for group in groups.members}) != 1:
        return None
    whole, size = parts.whole[cut[0]], parts.sizes[cut[0]]
    taken = [[parts.begins[device][cut[0]] for device in group] for group in groups.members]
    own = list(range(0, whole, size))
    if size * groups.size != whole or any(sorted(begins) != own for begins in taken):
        return None
    if collective.exchange is ALL_REDUCE:
        return Instead(REDUCE_SCATTER, groups.size)
    if list(collective.instruction.details.dimensions) != cut:
        return Instead(ALL_TO_ALL, groups.size)
    return Instead(COLLECTIVE_PERMUTE, sum([a != b for begins in taken for a, b in zip(begins, own, strict=True)]))
