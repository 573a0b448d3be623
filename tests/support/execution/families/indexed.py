"""gather and scatter in general form: batching, collapsed dimensions, index vectors along any dimension or none,
indices beyond the bounds.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from hlo_builder import Builder

from execution.case import Case, Draw, binary, family, integers, mixing, sizes, text

INDICES = integers(-1, 4)


@dataclass
class Numbers:
    """Random dimension numbers over random sizes, named as the gather names them."""

    operand: list[int]
    indices: list[int]
    window: list[int]
    """The sizes of the slice that one index selects."""
    windowed: list[int]
    """The sizes of a gather's output, or of a scatter's updates."""
    offset_dims: list[int]
    collapsed: list[int]
    mapped: list[int]
    vector_dim: int
    batching: list[int]
    index_batching: list[int]

    @property
    def rooms(self) -> list[int]:
        return [self.operand[d] - self.window[d] for d in self.mapped]

    def gather(self) -> dict[str, object]:
        return {
            "offset_dims": self.offset_dims,
            "collapsed_slice_dims": self.collapsed,
            "start_index_map": self.mapped,
            "index_vector_dim": self.vector_dim,
            "operand_batching_dims": self.batching,
            "start_indices_batching_dims": self.index_batching,
        }

    def scatter(self) -> dict[str, object]:
        return {
            "update_window_dims": self.offset_dims,
            "inserted_window_dims": self.collapsed,
            "scatter_dims_to_operand_dims": self.mapped,
            "index_vector_dim": self.vector_dim,
            "input_batching_dims": self.batching,
            "scatter_indices_batching_dims": self.index_batching,
        }


def numbers(r: random.Random) -> Numbers:
    operand = sizes(r, 1, 3, 4)
    rank = len(operand)
    batch_count = r.choice([0, 0, 1, 2]) if rank > 2 else r.choice([0, 1]) if rank > 1 else 0
    dims = r.sample(range(rank), rank)
    batching = sorted(dims[:batch_count])
    mapped = r.sample(dims[batch_count:], r.randint(0, rank - batch_count))
    collapsed = sorted(r.sample(mapped, r.randint(0, len(mapped))))
    window = [1 if d in collapsed or d in batching else r.randint(1, operand[d]) for d in range(rank)]
    free = [r.randint(1, 3) for _ in range(r.randint(0, 2))]
    index_dims = [*[operand[d] for d in batching], *free]
    order = r.sample(range(len(index_dims)), len(index_dims))
    index_dims = [index_dims[i] for i in order]
    index_batching = [order.index(i) for i in range(batch_count)]
    if len(mapped) == 1 and r.random() < 0.4:
        # The index vectors have one element each, and are written without a dimension of their own.
        indices, vector_dim = index_dims, len(index_dims)
    else:
        vector_dim = r.randint(0, len(index_dims))
        indices = [*index_dims[:vector_dim], len(mapped), *index_dims[vector_dim:]]
        index_batching = [i + (i >= vector_dim) for i in index_batching]
    kept = [window[d] for d in range(rank) if d not in collapsed and d not in batching]
    out_rank = len(kept) + len(index_dims)
    offset_dims = sorted(r.sample(range(out_rank), len(kept)))
    rest, inside = iter(index_dims), iter(kept)
    windowed = [next(inside) if d in offset_dims else next(rest) for d in range(out_rank)]
    return Numbers(
        operand, indices, window, windowed, offset_dims, collapsed, mapped, vector_dim, batching, index_batching
    )


def _indices(r: random.Random, builder: Builder, n: Numbers) -> int:
    """The indices: a parameter, or sometimes an iota or constants, whose values the analysis knows."""
    shape = text("s32", n.indices)
    kind = r.random()
    if kind < 0.1 and n.indices:
        return builder.op("iota", shape, dimensions=[r.randrange(len(n.indices))])
    if kind < 0.25:
        return builder.constant(shape, [r.randint(-1, 4) for _ in range(int(np.prod(n.indices)))])
    return builder.parameter(shape)


@family(seeds=26)
def gather(r: random.Random, seed: int) -> Case:
    n = numbers(r)
    builder = Builder()
    source = builder.parameter(text("s64", n.operand))
    indices = _indices(r, builder, n)
    fields = {"gather_dimension_numbers": n.gather(), "gather_slice_sizes": n.window}
    builder.op("gather", text("s64", n.windowed), [source, indices], **fields)
    loose = {1: "an index that can only be one counts as taking part"} if 0 in n.rooms else {}
    return Case(builder, {1: INDICES}, frozenset({1}), loose, draws=6)


def _scatter(n: Numbers, builder: Builder, count: int, indices: int, calls: list[Builder]) -> dict[int, Draw]:
    """`count` operands are the first parameters; updates are added after the indices."""
    updates = [builder.parameter(text("s64", n.windowed)) for _ in range(count)]
    one = text("s64", n.operand)
    shape = one if count == 1 else f"({', '.join([one] * count)})"
    operands = [*range(count), indices, *updates]
    builder.op("scatter", shape, operands, calls=calls, scatter_dimension_numbers=n.scatter())
    return {indices: INDICES}


ONE_UPDATE = "XLA writes one update alone where index vectors are empty"
ANY_PLACE = "an index may name any place as far as the map says, also one that no window reaches"


@family(seeds=20)
def scatter(r: random.Random, seed: int) -> Case:
    n = numbers(r)
    builder = Builder()
    builder.parameter(text("s64", n.operand))
    indices = builder.parameter(text("s32", n.indices))
    domains = _scatter(n, builder, 1, indices, [binary("add", "s64")])
    optional = {} if n.mapped else {2: ONE_UPDATE}
    return Case(builder, domains, loose={1: ANY_PLACE}, optional=optional, draws=3)


@family(seeds=10)
def scatter_that_overwrites(r: random.Random, seed: int) -> Case:
    """The result of two updates of one element is not specified, so indices are chosen such that no updates overlap."""
    builder, last = Builder(), Builder("last")
    last.parameter("s64[]")
    last.op("copy", "s64[]", [last.parameter("s64[]")])
    size, count = r.randint(2, 5), r.randint(1, 2)
    n = Numbers([size], [count, 1], [1], [count], [], [0], [0], 1, [], [])
    builder.parameter(text("s64", n.operand))
    indices = builder.parameter(text("s32", n.indices))
    _scatter(n, builder, 1, indices, [last])
    # One index is even, the other odd.
    steps = np.arange(count).reshape(count, 1)
    domains = {1: lambda rng, dims: rng.integers(0, (size + 1) // 2, size=dims) * 2 + steps}
    loose = {0: "the map of what is written into does not say what is overwritten", 1: ANY_PLACE}
    return Case(builder, domains, loose=loose, draws=4)


@family(seeds=10)
def scatter_of_several(r: random.Random, seed: int) -> Case:
    n = numbers(r)
    while np.prod(n.windowed) > 8 or np.prod(n.operand) > 12:
        n = numbers(r)
    builder = Builder()
    for _ in range(2):
        builder.parameter(text("s64", n.operand))
    indices = builder.parameter(text("s32", n.indices))
    domains = _scatter(n, builder, 2, indices, [mixing("s64")])
    alone = "another operand takes part where something is written alone"
    optional = {} if n.mapped else {3: ONE_UPDATE, 4: ONE_UPDATE}
    return Case(builder, domains, loose={0: alone, 1: alone, 2: ANY_PLACE}, optional=optional, draws=2)
