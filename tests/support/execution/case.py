"""A case, which is an operation whose maps are compared with its execution; and families of random cases."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from evaluated import dtype_of
from hlo_builder import Builder

from xlashape.hlo import HloInstruction
from xlashape.indexing.answers.leaves import leaves as leaf_shapes
from xlashape.shape import Shape

Draw: TypeAlias = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
"""Draws random elements of an array. Any element of a draw may be replaced by an element of another draw."""


@dataclass(eq=False)
class Case:
    """An operation on parameters, and what its maps are expected to name.

    In each run the maps must name exactly the elements on which results were observed to depend. There are exceptions.
    On which elements of an operand in `union` results depend varies with the values: each run may show fewer elements
    than the maps name, and all `draws` together must show all. Of an operand in `loose` the maps may name more
    elements, for the reason that is given; so may an answer that is marked "every element".
    """

    builder: Builder
    domains: Mapping[int | tuple[int, int], Draw] = field(default_factory=dict)
    """Number of a parameter, or (number, leaf) → how its elements are drawn. The others are drawn by element type."""
    union: frozenset[int] = frozenset()
    loose: Mapping[int, str] = field(default_factory=dict)
    optional: Mapping[int, str] = field(default_factory=dict)
    """Like `loose`, for judges other than NumPy: reads that an implementation may leave out."""
    draws: int = 1
    unjudged: Mapping[int, np.ndarray] = field(default_factory=dict)
    """For each leaf of the result: the elements that the operation does not specify."""
    outside: bool = False
    """Whether maps may lead outside the array, where nothing is read."""

    @cached_property
    def root(self) -> HloInstruction:
        return self.builder.root()

    @property
    def parameters(self) -> tuple[HloInstruction, ...]:
        return self.root.computation.parameters

    def judged(self) -> list[tuple[int, int]]:
        """(operand, parameter) for those operands that are parameters."""
        return [
            (number, operand.parameter_number)
            for number, operand in enumerate(self.root.operands)
            if operand.opcode == "parameter"
        ]

    def drawn(self, rng: np.random.Generator) -> list[list[np.ndarray]]:
        """The leaves of every parameter."""
        return [
            [
                _drawn(rng, shape, self.domains.get((number, leaf), self.domains.get(number)))
                for leaf, shape in enumerate(leaf_shapes(parameter.shape))
            ]
            for number, parameter in enumerate(self.parameters)
        ]


def _drawn(rng: np.random.Generator, shape: Shape, domain: Draw | None) -> np.ndarray:
    dtype, dims = dtype_of(shape), shape.dimensions
    if domain is not None:
        return np.asarray(domain(rng, dims)).astype(dtype)
    if dtype.kind == "b":
        return rng.random(dims) < 0.5
    if dtype.kind in "iu":
        return np.asarray(rng.integers(1, min(1 << 40, int(np.iinfo(dtype).max)), size=dims)).astype(dtype)
    if dtype.kind == "c":
        return (rng.uniform(0.5, 2, dims) + 1j * rng.uniform(0.5, 2, dims)).astype(dtype)
    return np.asarray(rng.uniform(0.5, 2, dims)).astype(dtype)


def nested(shape: Shape, leaves: list[Any]) -> Any:
    """The value of a shape, made from its leaves. These are taken from the front of the list `leaves`."""
    if shape.is_tuple:
        return tuple(nested(part, leaves) for part in shape.tuple_shapes)
    return leaves.pop(0)


def integers(low: int, high: int) -> Draw:
    """Draws integers from low to high, both included."""
    return lambda rng, dims: np.asarray(rng.integers(low, high, size=dims, endpoint=True))


def uniform(low: float, high: float) -> Draw:
    return lambda rng, dims: np.asarray(rng.uniform(low, high, dims))


def choice(*values: Any) -> Draw:
    return lambda rng, dims: np.asarray(rng.choice(np.array(values), dims))


# -- writing modules -------------------------------------------------------------------------------


def text(kind: str, dims: Any) -> str:
    return f"{kind}[{','.join(map(str, dims))}]"


def make(opcode: str, shape: str, operands: list[str], *, case: Mapping[str, Any] | None = None, **fields: Any) -> Case:
    """The case of one operation on parameters. `case` has fields of the Case; `fields` are those of the instruction."""
    builder = Builder()
    numbers = [builder.parameter(operand) for operand in operands]
    builder.op(opcode, shape, numbers, **fields)
    return Case(builder, **(case or {}))


def sizes(r: random.Random, low: int = 1, high: int = 3, most: int = 4, elements: int = 24) -> list[int]:
    """Random sizes of `low` to `high` dimensions, with few elements, as each is changed in a run of its own."""
    while True:
        dims = [r.randint(1, most) for _ in range(r.randint(low, high))]
        if math.prod(dims) <= elements:
            return dims


def binary(opcode: str, kind: str, name: str | None = None) -> Builder:
    """A computation of one operation on two scalars."""
    inner = Builder(name or f"{opcode}_{kind}")
    inner.op(opcode, f"{kind}[]", [inner.parameter(f"{kind}[]"), inner.parameter(f"{kind}[]")])
    return inner


def comparison(direction: str, kind: str) -> Builder:
    """A comparator of sort or select-and-scatter."""
    inner = Builder("comparator")
    inner.op(
        "compare",
        "pred[]",
        [inner.parameter(f"{kind}[]"), inner.parameter(f"{kind}[]")],
        comparison_direction=direction,
    )
    return inner


def mixing(kind: str) -> Builder:
    """The product of (a, b) and (c, d) as complex numbers: associative, and both results depend on all four numbers."""
    inner = Builder("mixing")
    a, b, c, d = (inner.parameter(f"{kind}[]") for _ in range(4))
    ac, bd, ad, bc = (inner.op("multiply", f"{kind}[]", list(two)) for two in ((a, c), (b, d), (a, d), (b, c)))
    real = inner.op("subtract", f"{kind}[]", [ac, bd])
    imaginary = inner.op("add", f"{kind}[]", [ad, bc])
    inner.op("tuple", f"({kind}[], {kind}[])", [real, imaginary])
    return inner


# -- families --------------------------------------------------------------------------------------

Make: TypeAlias = Callable[[random.Random, int], Case]


@dataclass(frozen=True)
class Family:
    name: str
    make: Make
    seeds: int
    not_by_xla: str
    """Why XLA does not run the case; empty where it does."""
    not_by_numpy: str
    """Why NumPy does not run the case; empty where it does."""

    def cases(self) -> list[Case]:
        return [self.make(random.Random(f"{self.name}/{seed}"), seed) for seed in range(self.seeds)]


FAMILIES: dict[str, Family] = {}


def family(seeds: int = 14, not_by_xla: str = "", name: str = "", not_by_numpy: str = "") -> Callable[[Make], Make]:
    """A decorator that registers a family: a function from a random generator and a case's number to a case."""

    def register(function: Make) -> Make:
        called = name or function.__name__.strip("_")
        assert called not in FAMILIES
        FAMILIES[called] = Family(called, function, seeds, not_by_xla, not_by_numpy)
        return function

    return register
