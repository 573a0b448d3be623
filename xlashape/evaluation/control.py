"""Tuples, calls, loops, tokens, and the steps of asynchronous operations."""

from __future__ import annotations

from typing import Final

import numpy as np

from xlashape.evaluation.elementwise import empty
from xlashape.evaluation.machine import (
    EVALUATORS,
    TOGETHER,
    Machine,
    Spread,
    Value,
    at,
    evaluates,
    evaluates_together,
    unsupported,
)
from xlashape.hlo import HloComputation, HloInstruction
from xlashape.limits import check

MAX_ITERATIONS: Final = 20_000
"""The most iterations of a loop."""


@evaluates("tuple")
def tuple_(_: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    return tuple(args)


@evaluates("get-tuple-element")
def get_tuple_element(_: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    return args[0][instruction.details.tuple_index]


@evaluates("opt-barrier", "domain", "add-dependency", "async-update", "all-reduce-done")
def passed(_: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    return args[0]


@evaluates_together("fusion", "call")
def call(machine: Machine, instruction: HloInstruction, operands: list[Spread]) -> Spread:
    return machine.run(instruction.called_computations[0], operands)


@evaluates_together("conditional")
def conditional(machine: Machine, instruction: HloInstruction, operands: list[Spread]) -> Spread:
    """Runs a branch: the first if a predicate is true, and the last for a number that is not that of a branch."""
    branches, selector = instruction.called_computations, instruction.operands[0].shape.element_type.text
    taken: list[int] = []
    for value in operands[0]:
        number = int(value)
        last = len(branches) - 1
        taken.append((0 if number else 1) if selector == "pred" else number if 0 <= number <= last else last)
    if len(set(taken)) == 1:
        return machine.run(branches[taken[0]], [operands[taken[0] + 1]])
    # DeviceCount that take different branches exchange no data in them.
    alone = Machine(machine.domain, outside=machine.outside, every=machine.every)
    return [alone.run(branches[b], [[at(operands[b + 1], device)]])[0] for device, b in enumerate(taken)]


@evaluates_together("while")
def while_(machine: Machine, instruction: HloInstruction, operands: list[Spread]) -> Spread:
    """The computations are body and condition, in this order. Devices that exchange data go on together."""
    body, condition = instruction.called_computations
    state = operands[0]
    for iteration in range(MAX_ITERATIONS + 1):
        again = [bool(value) for value in machine.run(condition, [state])]
        if not any(again):
            return state
        check("iterations of a loop", iteration + 1, MAX_ITERATIONS)
        found = machine.run(body, [state])
        if not all(again):
            if _parts(condition, again) or _parts(body, again):
                raise unsupported(instruction, "ends on some devices before it ends on others")
            pairs = zip(again, machine.each(found), machine.each(state), strict=True)
            found = [new if goes_on else old for goes_on, new, old in pairs]
        state = found
    raise AssertionError


def _parts(computation: HloComputation, again: list[bool]) -> bool:
    """Whether devices that go on exchange data with devices that do not."""
    for each in computation.instructions:
        if each.kind.row.exchanges_with_replicas:
            pairs = [(pair.source, pair.target) for pair in each.details.source_target_pairs]
            for group in [*each.replica_groups.expand(), *pairs] or [range(len(again))]:
                if len({again[device] for device in group}) > 1:
                    return True
        if any(_parts(called, again) for called in each.called_computations):
            return True
    return False


@evaluates_together("scan")
def scan(machine: Machine, instruction: HloInstruction, operands: list[Spread]) -> Spread:
    """Runs a computation for each index along a dimension. It takes slices of inputs, and carries; it gives slices of
    outputs, and carries."""
    details, body, shape = instruction.details, instruction.called_computations[0], instruction.shape
    inputs, state = operands[: len(operands) - details.num_carries], operands[len(operands) - details.num_carries :]
    outputs = shape.tuple_shapes[: len(shape.tuple_shapes) - details.num_carries]
    axis = details.dimensions[0] if details.dimensions else 0
    sliced = [*[operand.shape for operand in instruction.operands[: len(inputs)]], *outputs]
    count = sliced[0].dimensions[axis] if sliced else 0
    check("iterations of a loop", count, MAX_ITERATIONS)
    made: list[Spread] = []
    for i in range(count)[:: -1 if details.is_reverse else 1]:
        slices = [[np.asarray(x)[(slice(None),) * axis + (i,)] for x in spread] for spread in inputs]
        found = machine.run(body, [*slices, *state])
        made.append([value[: len(outputs)] for value in found])
        state = [[value[len(outputs) + k] for value in found] for k in range(details.num_carries)]
    made = made[:: -1 if details.is_reverse else 1]

    def joined(device: int, output: int) -> Value:
        parts = [at(step, device)[output] for step in made]
        return np.stack(machine.domain.joined(parts), axis) if parts else empty(machine, outputs[output])

    devices = max([len(spread) for spread in (*operands, *made, *state)], default=1)
    return [
        (*[joined(device, k) for k in range(len(outputs))], *[at(carry, device) for carry in state])
        for device in range(devices)
    ]


@evaluates_together("async-start")
def async_start(machine: Machine, instruction: HloInstruction, operands: list[Spread]) -> Spread:
    """(operands, result, context): nothing reads the context."""
    found = machine.run(instruction.called_computations[0], operands)
    extra = [empty(machine, shape) for shape in instruction.shape.tuple_shapes[2:]]
    count = max([len(found), *map(len, operands)])
    return [(tuple([at(o, device) for o in operands]), at(found, device), *extra) for device in range(count)]


@evaluates("async-done", "all-gather-done", "collective-permute-done")
def second_done(_: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    return args[0][1]


@evaluates("copy-start")
def copy_start(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    return (args[0], args[0], *[empty(machine, shape) for shape in instruction.shape.tuple_shapes[2:]])


@evaluates("copy-done")
def copy_done(_: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    return args[0][0]


@evaluates("after-all")
def after_all(_: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    """A token is a number that depends on all operations before it."""
    return np.asarray(1.0 + sum(float(arg) for arg in args))


@evaluates("send")
def send(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    """Returns (data, context, token)."""
    context = [empty(machine, shape) for shape in instruction.shape.tuple_shapes[1:-1]]
    return (args[0], *context, np.asarray(args[1]) + 1)


@evaluates("outfeed")
def outfeed(_: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    return np.asarray(args[-1]) + 1


@evaluates("send-done")
def send_done(_: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    return np.asarray(args[0][2]) + 1


@evaluates("recv-done")
def recv_done(_: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    """Takes (data, context, token), and returns (data, token)."""
    return args[0][0], np.asarray(args[0][2]) + 1


@evaluates_together("infeed", "recv", "rng", "rng-get-and-update-state")
def outside(machine: Machine, instruction: HloInstruction, operands: list[Spread]) -> Spread:
    return machine.outside(instruction, operands)


def is_evaluated(opcode: str) -> bool:
    """Whether an opcode has an evaluator."""
    return opcode in EVALUATORS or opcode in TOGETHER
