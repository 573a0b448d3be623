"""All-reduces of arrays that hold the whole batch, over the devices that an argument's batch is divided over.

The partitioner makes them where weights are divided and activations are not said to be: it may divide the activations
as the weights are, by their features. Each device then computes a part of every sum, of the whole batch, and all
devices add up their parts behind each matrix multiplication. Where the activations are divided along the batch
instead, as the argument is, weights are gathered, and each device computes its part of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from xlashape.base.math import product
from xlashape.hlo import HloInstruction, Opcode
from xlashape.hlo.flow import Value
from xlashape.hlo.ops.operation import Movement
from xlashape.limits import spend
from xlashape.reports.collectives.pairs import ShardingPairs
from xlashape.shape.xla_util.shape_util import byte_size_of_elements

_MOST_STEPS: Final = 32
_MOVED: Final = (Movement.COPY, Movement.RESHAPE, Movement.TRANSPOSE)


class Batch(NamedTuple):
    """The batch of an argument, which axes divide."""

    parameter: HloInstruction
    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    """The first two dimensions of the whole argument, or its only one."""

    @property
    def name(self) -> str:
        """The argument's name in the program, or the parameter's."""
        return self.parameter.metadata.op_name or self.parameter.name

    def is_in(self, dimensions: Sequence[int]) -> bool:
        """Whether an array with these dimensions may hold the whole batch: it has them all, or one of their product."""
        left = list(dimensions)
        for size in self.sizes:
            if size not in left:
                return product(self.sizes) in dimensions
            left.remove(size)
        return True

    def reshaped(self, before: Sequence[int], after: Sequence[int]) -> Batch:
        """The batch in an array that is reshaped: leading dimensions that hold it may have become one."""
        if self.is_in(before) and not self.is_in(after):
            for count in range(1, len(before) + 1):
                if self.is_in(before[:count]) and product(before[:count]) in after:
                    return self._replace(sizes=(product(before[:count]),))
        return self


def batches_of(pairs: ShardingPairs, gathers: Iterable[tuple[HloInstruction, tuple[str, ...], int]]) -> list[Batch]:
    """The batches of token ids, labels and other integers that parameters of the entry are, without those that may be
    taken for weights by their sizes. `gathers`: the all-gathers with their axes and how many devices a group has.
    Where the module does not say what divides a parameter, as its text does not, a gather of all that it holds along
    its first dimension says it.
    """
    sizes = dict(zip(pairs.mesh.names, pairs.mesh.sizes, strict=True))
    every = {1, product(sizes.values()), *sizes.values()}
    found: list[Batch] = []
    weights: list[tuple[int, ...]] = []
    inputs: list[tuple[tuple[str, ...], tuple[int, ...]]] = []
    """Floats that no result has the shape of, such as images, with what divides their first dimension."""
    for parameter in pairs.parameters:
        held, dimensions = pairs.divided(parameter), parameter.shape.dimensions
        parts = [product([_devices(axis, sizes) for axis in axes or ()]) for axes in held]
        whole = tuple([size * part for size, part in zip(dimensions, parts, strict=True)])
        if parameter.shape.element_type.is_floating:
            results = parameter.computation.root.shape.leaves()
            if held and held[0] and not any(leaf.is_array and leaf.dimensions == dimensions for leaf in results):
                inputs.append((held[0], whole))
            elif None in held:
                weights += [(*whole[:n], whole[n] * part, *whole[n + 1 :]) for n in range(len(whole)) for part in every]
            else:
                weights.append(whole)
        elif held and held[0]:
            found.append(Batch(parameter, held[0], whole[:2]))
        elif held and held[0] is None and len(held) > 1:
            found += [
                Batch(parameter, axes, (dimensions[0] * devices, dimensions[1]))
                for gather, axes, devices in gathers
                if not gather.operands[0].shape.element_type.is_floating
                if _of_size(gather.operands[0]) == _of_size(parameter)
                if set(gather.shape.dimensions[: gather.details.dimensions[0]]) <= {1}
            ]
    return [
        batch
        for batch in found
        if not any(map(batch.is_in, weights))
        if not any(batch.is_in(whole) and (axes, whole[0]) != (batch.axes, batch.sizes[0]) for axes, whole in inputs)
    ]


def _devices(axis: str, sizes: Mapping[str, int]) -> int:
    """The size of an axis, or of a part of one such as `data:(1)2`."""
    return sizes[axis] if axis in sizes else int(axis.rpartition(")")[2])


def _of_size(array: HloInstruction) -> list[int]:
    return [size for size in array.shape.dimensions if size != 1]


class Multiplied(NamedTuple):
    """A matrix multiplication of a batch."""

    weight_bytes: int | None
    """The bytes of the factor that has no batch, as one device holds it; None where both have one."""


def multiplied(operand: HloInstruction, batch: Batch, pairs: ShardingPairs) -> Multiplied | None:
    """The matrix multiplication of a batch whose result, moved or converted, is an operand; None where something else
    makes it."""
    value = Value(operand, ())
    for _ in range(_MOST_STEPS):
        spend()
        same, made = pairs.same(value), value.instruction
        if same is not None:
            value = same
        elif made.opcode in (Opcode.DOT, Opcode.CONVOLUTION):
            without = [each.shape for each in made.operands if not batch.is_in(each.shape.dimensions)]
            return None if len(without) > 1 else Multiplied(byte_size_of_elements(without[0]) if without else None)
        elif made.operands and (made.kind.row.movement in _MOVED or made.opcode in (Opcode.BITCAST, Opcode.CONVERT)):
            value = Value(made.operands[0], ())
            batch = batch.reshaped(made.shape.dimensions, made.operands[0].shape.dimensions)
        else:
            return None
    return None
