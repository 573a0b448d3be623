"""Operations that exchange data between devices. Data of a group goes to each device of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xlashape.errors import InvalidArgumentError
from xlashape.evaluation.elementwise import empty
from xlashape.evaluation.machine import Machine, Spread, Value, at, evaluates_together, unsupported
from xlashape.evaluation.reduction import combination
from xlashape.hlo import HloInstruction


def groups_of(machine: Machine, instruction: HloInstruction) -> list[tuple[int, ...]]:
    """The devices of each group, in order. Without groups, all devices are one."""
    groups = [group for group in instruction.replica_groups.expand() if group]
    groups = groups or [tuple(range(machine.devices))]
    if any(device >= machine.devices for group in groups for device in group):
        raise InvalidArgumentError(f"{instruction.name!r} names devices beyond the {machine.devices} of the module")
    return groups


def _grouped(
    machine: Machine, instruction: HloInstruction, operand: Spread, exchange: Callable[[list[Value]], Sequence[Value]]
) -> Spread:
    """The results of `exchange`, which takes and gives a value for each device of a group."""
    values = machine.each(operand)
    found: Spread = list(values)
    for group in groups_of(machine, instruction):
        for device, value in zip(group, exchange([values[device] for device in group]), strict=True):
            found[device] = value
    return found


def _each_operand(
    instruction: HloInstruction, operands: list[Spread], function: Callable[[int, Spread], Spread]
) -> Spread:
    """One result, or a tuple of the results for the operands."""
    found = [function(number, operand) for number, operand in enumerate(operands)]
    if not instruction.shape.is_tuple:
        return found[0]
    return [tuple([at(spread, device) for spread in found]) for device in range(max(map(len, found)))]


@evaluates_together("all-reduce", "all-reduce-start", "reduce-scatter")
def all_reduce(machine: Machine, instruction: HloInstruction, operands: list[Spread]) -> Spread:
    scatters = str(instruction.opcode) == "reduce-scatter"

    def one(number: int, operand: Spread) -> Spread:
        kind = instruction.operands[number].shape.element_type
        combine = combination(machine, instruction.called_computations[0], kind)

        def exchange(values: list[Value]) -> Sequence[Value]:
            total = values[0]
            for value in values[1:]:
                total = combine([total], [value])[0]
            if scatters:
                return np.split(total, len(values), instruction.details.dimensions[0])
            return [total] * len(values)

        return _grouped(machine, instruction, operand, exchange)

    return _each_operand(instruction, operands, one)


@evaluates_together("all-gather", "all-gather-start")
def all_gather(machine: Machine, instruction: HloInstruction, operands: list[Spread]) -> Spread:
    axis = instruction.details.dimensions[0]

    def one(_: int, operand: Spread) -> Spread:
        return _grouped(
            machine, instruction, operand,
            lambda values: [np.concatenate(machine.domain.joined(values), axis)] * len(values),
        )  # fmt: skip

    if str(instruction.opcode) == "all-gather":
        return _each_operand(instruction, operands, one)
    gathered = [one(number, operand) for number, operand in enumerate(operands)]
    return _started(machine, instruction, operands, gathered)


def _started(machine: Machine, start: HloInstruction, operands: list[Spread], found: list[Spread]) -> Spread:
    """The result (operands, results, contexts…) of a start, for each device: nothing reads the contexts."""
    extra = [empty(machine, shape) for shape in start.shape.tuple_shapes[2:]]

    def bundle(spreads: list[Spread], device: int) -> Value:
        return at(spreads[0], device) if len(spreads) == 1 else tuple([at(s, device) for s in spreads])

    return [(bundle(operands, device), bundle(found, device), *extra) for device in range(machine.devices)]


@evaluates_together("ragged-all-to-all")
def ragged_all_to_all(machine: Machine, instruction: HloInstruction, operands: list[Spread]) -> Spread:
    """Rows of a device's data go to places in the outputs of the others. Operands are data, outputs before, where each
    piece begins and how long it is, where it goes in the output of its receiver, and how much is received."""
    data, outputs, begins, sizes, places = ([np.asarray(x) for x in machine.each(o)] for o in operands[:5])
    found: Spread = [np.array(output) for output in outputs]
    for group in groups_of(machine, instruction):
        for sender in group:
            pieces = zip(begins[sender].ravel(), sizes[sender].ravel(), places[sender].ravel(), strict=True)
            each = begins[sender].size // len(group)
            for number, (begin, size, place) in enumerate(pieces):
                receiver = group[number // each]
                into, piece = machine.domain.joined([found[receiver], data[sender][begin : begin + size]])
                into = np.array(into)
                into[place : place + size] = piece
                found[receiver] = into
    return found


@evaluates_together("all-to-all")
def all_to_all(machine: Machine, instruction: HloInstruction, operands: list[Spread]) -> Spread:
    if not instruction.shape.is_tuple:
        axis = instruction.details.dimensions[0]

        def exchange(values: list[Value]) -> Sequence[Value]:
            parts = [np.split(value, len(values), axis) for value in machine.domain.joined(values)]
            return [np.concatenate([part[i] for part in parts], axis) for i in range(len(values))]

        return _grouped(machine, instruction, operands[0], exchange)
    # Operand i of a device goes to the device i of its group.
    found: Spread = [None] * machine.devices
    for group in groups_of(machine, instruction):
        for i, device in enumerate(group):
            found[device] = tuple([at(operands[i], source) for source in group])
    return found


@evaluates_together("collective-broadcast")
def collective_broadcast(machine: Machine, instruction: HloInstruction, operands: list[Spread]) -> Spread:
    named = {device for group in groups_of(machine, instruction) for device in group}
    found = _grouped(machine, instruction, operands[0], lambda values: [values[0]] * len(values))
    return [x if device in named else np.zeros_like(x) for device, x in enumerate(found)]


@evaluates_together("collective-permute", "collective-permute-start")
def collective_permute(machine: Machine, instruction: HloInstruction, operands: list[Spread]) -> Spread:
    """A device that receives nothing has zeros."""
    if len(operands) != 1:
        raise unsupported(instruction, "in place is not known")
    values = machine.each(operands[0])
    found: Spread = [np.zeros_like(value) for value in values]
    for pair in instruction.details.source_target_pairs:
        if max(pair.source, pair.target) >= machine.devices:
            raise InvalidArgumentError(f"{instruction.name!r} names devices beyond the {machine.devices} of the module")
        found[pair.target] = values[pair.source]
    if str(instruction.opcode) == "collective-permute":
        return found
    return _started(machine, instruction, operands, [found])


@evaluates_together("partition-id", "replica-id")
def partition_id(machine: Machine, instruction: HloInstruction, operands: list[Spread]) -> Spread:
    """DeviceCount are partitions of one replica, or replicas of one partition: the other number is 0."""
    is_counted = (str(instruction.opcode) == "partition-id") == machine.partitioned
    return [np.uint32(device) for device in range(machine.devices)] if is_counted else [np.uint32(0)]
