"""Tuples, calls, loops, tokens, the two halves of asynchronous operations, and data from outside the module."""

from __future__ import annotations

from typing import Any

import numpy as np

from numpy_interpreter.core import Value, dtype_of, interprets, leaves, result
from xlashape.hlo import HloInstruction
from xlashape.shape import Shape


@interprets("tuple")
def tuple_(instruction: HloInstruction, args: list[Value]) -> Value:
    return tuple(args)


@interprets("get-tuple-element")
def get_tuple_element(instruction: HloInstruction, args: list[Value]) -> Value:
    return args[0][instruction.details.tuple_index]


@interprets("opt-barrier", "domain", "add-dependency", "async-update", "all-reduce-done")
def passed(instruction: HloInstruction, args: list[Value]) -> Value:
    return args[0]


@interprets("fusion", "call")
def call(instruction: HloInstruction, args: list[Value]) -> Value:
    return result(instruction.called_computations[0], args)


@interprets("conditional")
def conditional(instruction: HloInstruction, args: list[Value]) -> Value:
    """Runs a branch: the first if a predicate is true, and the last for a number that is not that of a branch."""
    branches, selector = instruction.called_computations, instruction.operands[0].shape.element_type.text
    number = int(args[0])
    taken = (0 if number else 1) if selector == "pred" else number if 0 <= number < len(branches) else len(branches) - 1
    return result(branches[taken], [args[taken + 1]])


@interprets("while")
def while_(instruction: HloInstruction, args: list[Value]) -> Value:
    """The computations are body and condition, in this order."""
    body, condition = instruction.called_computations
    state = args[0]
    while bool(result(condition, [state])):
        state = result(body, [state])
    return state


@interprets("async-start")
def async_start(instruction: HloInstruction, args: list[Value]) -> Value:
    extra = [_noise(shape) for shape in instruction.shape.tuple_shapes[2:]]
    return (tuple(args), result(instruction.called_computations[0], args), *extra)


@interprets("async-done", "all-gather-done", "collective-permute-done")
def second_done(instruction: HloInstruction, args: list[Value]) -> Value:
    return args[0][1]


@interprets("copy-start")
def copy_start(instruction: HloInstruction, args: list[Value]) -> Value:
    return (args[0], args[0], *[_noise(shape) for shape in instruction.shape.tuple_shapes[2:]])


@interprets("copy-done")
def copy_done(instruction: HloInstruction, args: list[Value]) -> Value:
    return args[0][0]


def _noise(shape: Shape) -> Any:
    """Numbers that stand for data from outside the module."""
    return np.random.default_rng(2).integers(1, 100, size=shape.dimensions).astype(dtype_of(shape))


def _outside(shape: Shape, token: Any) -> Value:
    """Data from outside the module. Tokens in it depend on `token`."""
    if shape.is_tuple:
        return tuple(_outside(part, token) for part in shape.tuple_shapes)
    return np.asarray(token) + 1 if shape.is_token else _noise(shape)


@interprets("after-all")
def after_all(instruction: HloInstruction, args: list[Value]) -> Value:
    return np.asarray(1.0 + sum(args))


@interprets("infeed", "recv")
def from_elsewhere(instruction: HloInstruction, args: list[Value]) -> Value:
    return _outside(instruction.shape, args[-1])


@interprets("outfeed")
def outfeed(instruction: HloInstruction, args: list[Value]) -> Value:
    return args[-1] + 1


@interprets("send")
def send(instruction: HloInstruction, args: list[Value]) -> Value:
    """Returns the tuple (data, context, token)."""
    return (args[0], *_outside(instruction.shape, args[1])[1:])


@interprets("send-done")
def send_done(instruction: HloInstruction, args: list[Value]) -> Value:
    return args[0][2] + 1


@interprets("recv-done")
def recv_done(instruction: HloInstruction, args: list[Value]) -> Value:
    """Takes (data, context, token), and returns (data, token)."""
    return args[0][0], args[0][2] + 1


@interprets("custom-call")
def custom_call(instruction: HloInstruction, args: list[Value]) -> Value:
    """A custom call: every result depends on every element."""
    total = sum(float(np.sum(leaf * (1 + i))) for i, arg in enumerate(args) for leaf in leaves(arg))

    def made(shape: Shape) -> Value:
        if shape.is_tuple:
            return tuple(made(part) for part in shape.tuple_shapes)
        return np.asarray(total + np.arange(int(np.prod(shape.dimensions)))).reshape(shape.dimensions)

    return made(instruction.shape)
