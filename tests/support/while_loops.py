"""Builds and runs while loops, and checks their maps against the dependences that running them shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from dependence import compare, flat, observed
from evaluated import result
from hlo_builder import Builder

from xlashape import indexing
from xlashape.hlo import HloInstruction

Values = Sequence[Any]


def shape_of(parts: Sequence[str]) -> str:
    return f"({', '.join(parts)})"


class Parts:
    """The get-tuple-elements of the parameter of a loop's body or condition."""

    def __init__(self, name: str, parts: Sequence[str]) -> None:
        self.builder = Builder(name)
        state = self.builder.parameter(shape_of(parts))
        self.at = [self.builder.op("get-tuple-element", one, [state], tuple_index=i) for i, one in enumerate(parts)]


def below(
    parts: Sequence[str], counter: int = 0, limit: int | None = 1, value: int = 0, direction: str = "LT"
) -> Builder:
    """A condition that compares element `counter` of the state with element `limit`, or with `value` without one."""
    c = Parts("condition", parts)
    other = c.builder.constant("s32[]", [value]) if limit is None else c.at[limit]
    c.builder.op("compare", "pred[]", [c.at[counter], other], comparison_direction=direction)
    return c.builder


def counted(b: Parts, at: int = 0, by: int = 1, opcode: str = "add") -> int:
    return b.builder.op(opcode, "s32[]", [b.at[at], b.builder.constant("s32[]", [by])])


def loop(body: Builder, condition: Builder, parts: Sequence[str], **fields: Any) -> HloInstruction:
    builder = Builder()
    builder.op("while", shape_of(parts), [builder.parameter(shape_of(parts))], calls=[body, condition], **fields)
    return builder.root()


def run_loop(root: HloInstruction, again: Callable[[int, Values], bool], *state: Any) -> Values:
    values: list[Any] = list(state)
    for done in range(100):
        if not again(done, values):
            return values
        values = flat(result(root.called_computations[0], [tuple(values)]))
    raise AssertionError("the loop does not end")


def counter_below(done: int, values: Values) -> bool:
    return bool(values[0] < values[1])


def check(root: HloInstruction, again: Callable[[int, Values], bool], draws: list[list[Any]], **more: Any) -> None:
    def moves(number: int, old: Any) -> list[Any]:
        is_number = root.shape.tuple_shapes[number].element_type.is_integral
        return [v for v in range(6) if v != old] if is_number else [old + 0.37]

    seen = observed(lambda *values: run_loop(root, again, *values), [[np.asarray(v) for v in d] for d in draws], moves)
    compare(root, seen, tuple_operand=True, **more)


def drawn(parts: Sequence[str], counts: Sequence[tuple[int, ...]], seed: int = 0) -> list[list[Any]]:
    """For each of `counts`, the values of a state: these numbers first, then arrays of random numbers."""
    rng = np.random.default_rng(seed)
    found = []
    for numbers in counts:
        dims = [part[part.index("[") + 1 : -1] for part in parts[len(numbers) :]]
        found.append([*numbers, *(rng.random([int(n) for n in d.split(",") if n]) + 1 for d in dims)])
    return found


COUNTS = [(0, n) for n in range(5)] + [(2, 5), (3, 1)]


def maps(root: HloInstruction, output: int) -> list[tuple[int, str]]:
    return [(one.leaf, str(one.map)) for one in indexing.output_to_input(root, output)[0]]
