"""SampledOutputs: some elements of outputs of two programs, one of which may be divided into the parts of devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np

from xlashape.evaluation.custom_calls import shards
from xlashape.evaluation.domains.domain import FloatDomain
from xlashape.evaluation.domains.values import PlainNumbers
from xlashape.evaluation.machine import Array, Machine, Spread, at
from xlashape.evaluation.partial import Grid, every, joined, taken
from xlashape.evaluation.run_module import DeviceCount
from xlashape.reports.equivalent.outline import Outline
from xlashape.reports.equivalent.program import ComparedProgram

Roots: TypeAlias = "tuple[Sequence[int], Sequence[int]]"
"""The values of the outputs in either program."""


class SampledOutputs:
    """Elements of outputs, computed from the parameters. What both programs compute is computed once."""

    def __init__(
        self,
        outline: Outline,
        whole: ComparedProgram,
        roots: Roots,
        outputs: Iterable[int],
        divided: tuple[bool, bool],
        devices: DeviceCount,
        numbers_of: Callable[[int], Array],
        seed: int,
    ) -> None:
        """`divided` says which of the two programs is partitioned, and `whole` has the shardings. `numbers_of` gives
        the array of a parameter as ordinary numbers.
        """
        self._outline = outline
        self._whole = whole
        self._devices = devices
        self._pairs = {output: (roots[0][output], roots[1][output]) for output in outputs}
        self.part = outline.from_parameters([value for pair in self._pairs.values() for value in pair])
        self.grids: dict[int, Grid] = {}
        """The elements of each output: of each part where one of the programs is divided."""
        self._wanted: dict[int, list[list[Grid]]] = {}
        """Output → for each program the elements of the value of each device, or of all devices."""
        goals: dict[int, list[Grid]] = {}
        most = max([n for output in self._pairs for n in whole.outputs[output].dimensions], default=0)
        with np.errstate(all="ignore"):
            chosen = self.part.chosen(self._machine(PlainNumbers()), self._given(numbers_of), most, seed)
        for output, pair in self._pairs.items():
            # A part is not larger than the whole.
            shape = outline.values[pair[divided.index(True) if True in divided else 0]].shape
            grid = self.grids[output] = self.part.sample(every(shape), seed, chosen)
            self._wanted[output] = [[grid], [grid]]
            if divided[0] != divided[1]:
                self._wanted[output] = self._of_devices(output, grid, divided)
            for value, grids in zip(pair, self._wanted[output], strict=True):
                goals.setdefault(value, []).extend(each for each in grids if all(map(len, each)))
        self._goals = {value: joined(grids) for value, grids in goals.items()}
        self._needed = self.part.needed(self._goals)

    def _of_devices(self, output: int, grid: Grid, divided: tuple[bool, bool]) -> list[list[Grid]]:
        """The elements at a grid of each part, without padding, and where they lie in the whole array."""
        shape, sharding = self._whole.outputs[output], self._whole.output_shardings[output]
        if sharding is None or sharding.tile_counts is None:
            return [[grid], [grid]]
        in_part: list[Grid] = []
        in_whole: list[Grid] = []
        for device in range(self._devices.number):
            tile = sharding.tile_of(device, shape)
            sizes, offset = ([0] * shape.rank,) * 2 if tile is None else (tile.sizes, tile.offset)
            inside = tuple([along[along < n] for along, n in zip(grid, sizes, strict=True)])
            in_part.append(inside)
            in_whole.append(tuple([along + o for along, o in zip(inside, offset, strict=True)]))
        return [in_part if is_divided else in_whole for is_divided in divided]

    @property
    def cost(self) -> int:
        """The elements that are computed; 64 products of a sum count as one."""
        return self.part.cost(self._needed)

    def evaluated(self, domain: FloatDomain, input_of: Callable[[int], Array]) -> dict[int, list[Spread]]:
        """Output → its elements in either program. `input_of` gives the arrays of the parameters."""
        with np.errstate(all="ignore"):
            found = self.part.evaluated(self._machine(domain), self._goals, self._needed, self._given(input_of))
        return {
            output: [
                [
                    taken(at(found[value], device), self._goals[value], grids[device if len(grids) > 1 else 0])
                    for device in range(max(len(found[value]), len(grids)))
                ]
                for value, grids in zip(pair, self._wanted[output], strict=True)
            ]
            for output, pair in self._pairs.items()
        }

    def _machine(self, domain: FloatDomain) -> Machine:
        return Machine(domain, self._devices.number, partitioned=self._devices.are_partitions)

    def _given(self, input_of: Callable[[int], Array]) -> Callable[[int, Grid], Spread]:
        return given_by(self._outline, self._whole, self._devices, input_of)


def given_by(
    outline: Outline, whole: ComparedProgram, devices: DeviceCount, input_of: Callable[[int], Array]
) -> Callable[[int, Grid], Spread]:
    """What gives the elements at a grid of the value of a parameter. `input_of` gives the array of a parameter."""

    def given(value: int, grid: Grid) -> Spread:
        made = outline.values[value]
        sharding, parts = outline.shardings[value], [input_of(made.leaf)]
        if sharding is not None:
            parts = shards(parts, sharding, whole.inputs[made.leaf], devices.number)
        return [taken(x, every(made.shape), grid) for x in parts]

    return given
