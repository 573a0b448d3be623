"""How often loops run, against running them: counters and conditions in the computation itself, in fusions, in calls
and in several of these."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from evaluated import result
from hlo_builder import Builder

from xlashape.hlo import HloComputation, HloInstruction, HloModule
from xlashape.indexing.walk.repeated.trip_count import trip_count

MOST = 300
TYPES: dict[str, Any] = {"s32": np.int32, "u32": np.uint32, "s8": np.int8, "u8": np.uint8, "s64": np.int64}
TESTS = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "NE": operator.ne,
    "EQ": operator.eq,
}
MIRRORED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "NE": "NE", "EQ": "EQ"}


class Counter(NamedTuple):
    """A loop over two numbers of one type: `start` changes by `step`, `limit` by `limit_step`. It goes on while the
    comparison of start + offset with the limit holds."""

    type: str
    start: int
    step: int
    limit: int
    limit_step: int
    offset: int
    direction: str

    @property
    def state(self) -> str:
        return f"(f32[], {self.type}[], {self.type}[])"

    def runs(self) -> int | None:
        """How often the body runs with integers of any size; None where the numbers leave their type, or for 300."""
        holds, number = TESTS[self.direction], np.iinfo(TYPES[self.type])
        for count in range(MOST):
            sides = self.start + self.offset + count * self.step, self.limit + count * self.limit_step
            if any(not number.min <= side <= number.max for side in sides):
                return None
            if not holds(*sides):
                return count
        return None


def drawn(draw: random.Random) -> Counter:
    far = 30 if draw.random() < 0.8 else 200
    start, limit = draw.randint(0, far), draw.randint(0, far)
    offset = draw.choice([0, 0, draw.randint(-3, 3)])
    step, limit_step = draw.choice([-7, -3, -2, -1, 1, 1, 2, 3, 5, 0]), draw.choice([0, 0, -1, 2])
    return Counter(draw.choice(list(TYPES)), start, step, limit % 128, limit_step, offset, draw.choice(list(TESTS)))


class Loop:
    """Builds a counter's loop. Each part is put into the computation itself, or into another one that is called."""

    def __init__(self, draw: random.Random, counter: Counter) -> None:
        self.draw, self.counter, self.count = draw, counter, 0
        self.type = f"{counter.type}[]"

    def put(self, b: Builder, taken: list[int], make: Callable[[Builder, list[int]], int], depth: int = 2) -> int:
        """What `make` makes of values, maybe in a computation of its own: a fusion, one output of a fusion, a call, or
        an asynchronous one."""
        kind = self.draw.choice(["", "fusion", "output", "call", "async"]) if depth else ""
        if not kind:
            return make(b, taken)
        self.count += 1
        inner = Builder(f"called{self.count}")
        root = self.put(inner, [inner.parameter(str(b.shapes[each])) for each in taken], make, depth - 1)
        shape = str(inner.shapes[root])
        if kind == "output":
            beside = inner.constant("f32[]", [1])
            inner.op("tuple", f"(f32[], {shape})", [beside, root])
            fusion = b.op("fusion", f"(f32[], {shape})", taken, [inner], fusion_kind="kLoop")
            return b.op("get-tuple-element", shape, [fusion], tuple_index=1)
        if not inner.shapes[root].is_tuple:
            inner.op("copy", shape, [root])
        if kind == "async":
            context = f"(({', '.join([str(b.shapes[each]) for each in taken])}), {shape}, u32[])"
            return b.op("async-done", shape, [b.op("async-start", context, taken, [inner])], [])
        return b.op(kind, shape, taken, [inner], **({"fusion_kind": "kLoop"} if kind == "fusion" else {}))

    def number(self, b: Builder, value: int) -> int:
        return b.constant(self.type, [int(np.array(value).astype(TYPES[self.counter.type]))])

    def moved(self, b: Builder, value: int, by: int) -> int:
        """value + by, written in one of several ways."""
        kind, type_ = self.draw.randrange(6), self.type
        if kind == 0:
            return b.op("add", type_, [self.number(b, by), value])
        if kind == 1:
            return b.op("subtract", type_, [value, self.number(b, -by)])
        if kind == 2:  # -(-by - value)
            return b.op("negate", type_, [b.op("subtract", type_, [self.number(b, -by), value])])
        if kind == 3:
            flat = b.op("copy", f"{type_[:-2]}[1]", [b.op("bitcast", f"{type_[:-2]}[1]", [value])])
            value = b.op("reshape", type_, [flat])
        if kind == 4:  # 2 · value - (value - by)
            twice = b.op("multiply", type_, [value, self.number(b, 2)])
            return b.op("subtract", type_, [twice, b.op("subtract", type_, [value, self.number(b, by)])])
        return b.op("add", type_, [value, self.number(b, by)])

    def body(self) -> Builder:
        def make(b: Builder, given: list[int]) -> int:
            state = given[0]
            parts = [
                b.op("get-tuple-element", shape, [state], tuple_index=n)
                for n, shape in enumerate(("f32[]", self.type, self.type))
            ]
            counter = self.counter
            parts[1] = self.put(b, parts, lambda inner, taken: self.moved(inner, taken[1], counter.step))
            if counter.limit_step:
                parts[2] = self.put(b, parts[2:], lambda inner, taken: self.moved(inner, taken[0], counter.limit_step))
            return b.op("tuple", counter.state, parts)

        b = Builder("body")
        self.put(b, [b.parameter(self.counter.state)], make, self.draw.choice([0, 0, 1]))
        return b

    def condition(self) -> Builder:
        def make(b: Builder, taken: list[int]) -> int:
            counter = self.counter
            left = self.moved(b, taken[0], counter.offset) if counter.offset else taken[0]
            is_constant = not counter.limit_step and self.draw.random() < 0.7
            sides = [left, self.number(b, counter.limit) if is_constant else taken[1]]
            turned = self.draw.random() < 0.3
            direction = MIRRORED[counter.direction] if turned else counter.direction
            return b.op("compare", "pred[]", sides[::-1] if turned else sides, comparison_direction=direction)

        b = Builder("condition")
        state = b.parameter(self.counter.state)
        taken = [b.op("get-tuple-element", self.type, [state], tuple_index=n) for n in (1, 2)]
        b.op("copy", "pred[]", [self.put(b, taken, make)])
        return b

    def module(self, outside: str) -> HloModule:
        """`outside` says whether a call or an outer loop gives the first numbers."""
        entry = Builder()
        first = [
            entry.constant("f32[]", [0]),
            self.number(entry, self.counter.start),
            self.number(entry, self.counter.limit),
        ]
        state = entry.op("tuple", self.counter.state, first)
        b = Builder("outer") if outside else entry
        given = b.parameter(self.counter.state) if outside else state
        parts: list[int] = []
        if outside == "while":
            parts = [b.op("get-tuple-element", self.type, [given], tuple_index=n) for n in (1, 2)]
            given = b.op("tuple", self.counter.state, [b.constant("f32[]", [0]), *parts])
        loop = b.op("while", self.counter.state, [given], [self.body(), self.condition()], name="loop")
        if outside == "while":
            again = Builder("again")
            again.parameter(self.counter.state)
            again.constant("pred[]", [False])
            x = b.op("get-tuple-element", "f32[]", [loop], tuple_index=0)
            b.op("tuple", self.counter.state, [x, *parts])
            entry.op("while", self.counter.state, [state], [b, again])
        elif outside:
            entry.op(outside, self.counter.state, [state], [b])
        return entry.module()


def runs(loop: HloInstruction, counter: Counter) -> int | None:
    """How often the body runs; None for 300 times or more."""
    body, condition = loop.called_computations
    number = TYPES[counter.type]
    values = (np.float32(0), *[np.array(each).astype(number)[()] for each in (counter.start, counter.limit)])
    for count in range(MOST):
        if not result(condition, [values]):
            return count
        values = result(body, [values])
    return None


@pytest.mark.parametrize("outside", ["", "call", "while"])
def test_counts_are_those_of_runs(outside: str) -> None:
    draw = random.Random(outside)
    known = 0
    for _ in range(60):
        counter = drawn(draw)
        module = Loop(draw, counter).module(outside)
        loop = module.instruction("loop")

        def caller(computation: HloComputation, module: HloModule = module) -> HloInstruction | None:
            calls = [each for each in module.instructions() if computation in each.called_computations]
            return calls[0] if len(calls) == 1 else None

        found, certain = trip_count(loop, *loop.called_computations, caller=caller), counter.runs()
        with np.errstate(over="ignore"):
            assert certain is None or certain == runs(loop, counter) == found, (counter, module.to_text())
            assert certain is not None or found is None or (runs(loop, counter) or MOST) in (found, MOST)
        known += found is not None
    assert known > 30
