"""Fusions and calls: chains of random operations, with several paths, nested, with several results, and with offsets
known at run time.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from hlo_builder import Builder, window

from execution.case import Case, binary, family, integers, sizes, text
from execution.families.windows import one_window

ANYWHERE = "initial and padding values count everywhere, and so does an offset; an element that padding cut off takes part in nothing"

FOLDED = {1: "XLA folds initial values in as often as it likes"}


class Chain:
    """A chain of random operations in a computation, sometimes with a second path."""

    def __init__(
        self, r: random.Random, builder: Builder, at: int, dims: list[int], zero: int, offsets: list[int]
    ) -> None:
        self.r, self.builder, self.at, self.dims = r, builder, at, dims
        self.zero, self.offsets = zero, offsets
        self.sum = binary("add", "s64", f"{builder.name}_sum")

    def op(self, opcode: str, dims: list[int], operands: list[int], **fields: Any) -> int:
        return self.builder.op(opcode, text("s64", dims), operands, **fields)

    def to(self, opcode: str, dims: list[int], operands: list[int], **fields: Any) -> None:
        self.at, self.dims = self.op(opcode, dims, operands, **fields), dims

    def steps(self, count: int) -> None:
        for _ in range(count):
            getattr(self, "step_" + self.r.choice(KINDS))()

    def finish(self) -> int:
        """The result. It includes all unused parameters, because XLA requires them to be used."""
        used = {number for proto in self.builder.instructions for number in proto.operand_ids}
        for number in (self.zero, *self.offsets):
            if number + 1 not in used:
                wide = number if number == self.zero else self.op("convert", [], [number])
                wide = self.op("broadcast", self.dims, [wide], dimensions=[])
                self.to("add", self.dims, [self.at, wide])
        return self.op("copy", self.dims, [self.at])

    def step_square(self) -> None:
        self.to("multiply", self.dims, [self.at, self.at])

    def step_transpose(self) -> None:
        order = self.r.sample(range(len(self.dims)), len(self.dims))
        self.to("transpose", [self.dims[d] for d in order], [self.at], dimensions=order)

    def step_reshape(self) -> None:
        total = int(np.prod(self.dims))
        first = self.r.choice([k for k in range(1, total + 1) if total % k == 0])
        self.to("reshape", [first, total // first], [self.at])

    def step_reverse(self) -> None:
        if self.dims:
            self.to("reverse", self.dims, [self.at], dimensions=[self.r.randrange(len(self.dims))])

    def step_slice(self) -> None:
        parts = []
        for n in self.dims:
            start = self.r.randint(0, n - 1)
            parts.append({"start": start, "limit": self.r.randint(start + 1, n), "stride": self.r.randint(1, 2)})
        dims = [-(-(p["limit"] - p["start"]) // p["stride"]) for p in parts]
        self.to("slice", dims, [self.at], slice_dimensions=parts)

    def step_broadcast(self) -> None:
        if len(self.dims) < 3:
            place = self.r.randint(0, len(self.dims))
            keep = [d + (d >= place) for d in range(len(self.dims))]
            self.to("broadcast", [*self.dims[:place], 2, *self.dims[place:]], [self.at], dimensions=keep)

    def step_pad(self) -> None:
        config, dims = [], []
        if not self.dims:
            return
        for n in self.dims:
            low, high, interior = self.r.randint(-1, 1) if n > 2 else 1, self.r.randint(0, 1), self.r.randint(0, 1)
            config.append({"edge_padding_low": low, "edge_padding_high": high, "interior_padding": interior})
            dims.append(n + (n - 1) * interior + low + high)
        if int(np.prod(dims)) <= 48:
            self.to("pad", dims, [self.at, self.zero], padding_config={"dimensions": config})

    def step_reduce(self) -> None:
        if self.dims:
            axis = self.r.randrange(len(self.dims))
            dims = [n for d, n in enumerate(self.dims) if d != axis]
            self.to("reduce", dims, [self.at, self.zero], dimensions=[axis], calls=[self.sum])

    def step_window(self) -> None:
        if len(self.dims) == 1:
            w, n = one_window(self.r, self.dims[0])
            self.to("reduce-window", [n], [self.at, self.zero], window=window(w | {"reversal": 0}), calls=[self.sum])

    def step_concatenate(self) -> None:
        if self.dims and self.dims[0] < 4 and np.prod(self.dims) <= 24:
            other = self.op("reverse", self.dims, [self.at], dimensions=[0])
            self.to("concatenate", [2 * self.dims[0], *self.dims[1:]], [self.at, other], dimensions=[0])

    def step_branch(self) -> None:
        # The second path is squared, so that the two paths never cancel each other.
        other = self.op("multiply", self.dims, [self.at, self.at])
        if self.dims and self.r.random() < 0.5:
            other = self.op("reverse", self.dims, [other], dimensions=[self.r.randrange(len(self.dims))])
        self.to("add", self.dims, [self.at, other])

    def step_dynamic_slice(self) -> None:
        if self.offsets and self.dims:
            dims = [self.r.randint(1, n) for n in self.dims]
            starts = [self.r.choice(self.offsets) for _ in dims]
            self.to("dynamic-slice", dims, [self.at, *starts], dynamic_slice_sizes=dims)

    def step_gather(self) -> None:
        """A gather at indices that are computed from the offsets."""
        if self.offsets and self.dims and np.prod(self.dims[1:]) <= 12:
            kept = len(self.dims) - 1
            rows = steps = self.builder.op("iota", "s32[2]", dimensions=[0])
            if self.r.random() < 0.7:
                first = self.builder.op("broadcast", "s32[2]", [self.r.choice(self.offsets)], dimensions=[])
                rows = self.builder.op("add", "s32[2]", [first, steps])
            numbers = {"offset_dims": list(range(1, kept + 1)), "collapsed_slice_dims": [0], "start_index_map": [0]}
            numbers["index_vector_dim"] = 1
            fields = {"gather_dimension_numbers": numbers, "gather_slice_sizes": [1, *self.dims[1:]]}
            self.to("gather", [2, *self.dims[1:]], [self.at, rows], **fields)


KINDS = sorted(name[len("step_") :] for name in vars(Chain) if name.startswith("step_"))


def _chain(r: random.Random, name: str, dims: list[int], count: int, offsets: int = 0) -> Chain:
    """A chain in a computation whose parameters are an array, an initial value, and offsets."""
    inner = Builder(name)
    source, zero = inner.parameter(text("s64", dims)), inner.parameter("s64[]")
    given = [inner.parameter("s32[]") for _ in range(offsets)]
    if given and r.random() < 0.4:
        # A constant offset, whose value the analysis knows.
        given.append(inner.constant("s32[]", [r.randint(-1, 3)]))
    chain = Chain(r, inner, source, list(dims), zero, given)
    chain.steps(count)
    return chain


def _called(r: random.Random, opcode: str, offsets: int, count: int) -> Case:
    dims = sizes(r, 1, 2, 4)
    chain = _chain(r, "inner", dims, count, offsets)
    chain.finish()
    builder = Builder()
    operands = [builder.parameter(text("s64", dims)), builder.parameter("s64[]")]
    operands += [builder.parameter("s32[]") for _ in range(offsets)]
    fields = {"fusion_kind": "kLoop"} if opcode == "fusion" else {}
    builder.op(opcode, text("s64", chain.dims), operands, calls=[chain.builder], **fields)
    loose = dict.fromkeys(range(1, 2 + offsets), ANYWHERE)
    domains = {2 + i: integers(-1, 3) for i in range(offsets)}
    return Case(builder, domains, loose=loose, optional=FOLDED, draws=3 if offsets else 1)


@family(seeds=32)
def fusion(r: random.Random, seed: int) -> Case:
    return _called(r, "fusion", 0, r.randint(2, 6))


@family(seeds=24)
def fusion_with_offsets(r: random.Random, seed: int) -> Case:
    return _called(r, "fusion", 2, r.randint(3, 6))


@family(seeds=10)
def call(r: random.Random, seed: int) -> Case:
    return _called(r, "call", 1, r.randint(2, 5))


@family(seeds=16)
def fusion_of_several_results(r: random.Random, seed: int) -> Case:
    """A fusion of two chains that begin with the same chain; the second one is in a nested fusion."""
    dims = sizes(r, 1, 2, 4)
    first = _chain(r, "outer", dims, r.randint(1, 3))
    nested = _chain(r, "nested", first.dims, r.randint(1, 3))
    nested.finish()
    begun, shape = first.at, list(first.dims)
    second = first.op("fusion", nested.dims, [begun, first.zero], calls=[nested.builder], fusion_kind="kLoop")
    first.steps(r.randint(1, 3))
    results = [(first.at, first.dims), (second, nested.dims), (begun, shape)]
    r.shuffle(results)
    whole = f"({', '.join(text('s64', one) for _, one in results)})"
    first.builder.op("tuple", whole, [number for number, _ in results])
    builder = Builder()
    operands = [builder.parameter(text("s64", dims)), builder.parameter("s64[]")]
    builder.op("fusion", whole, operands, calls=[first.builder], fusion_kind="kLoop")
    return Case(builder, loose={1: ANYWHERE}, optional=FOLDED)
