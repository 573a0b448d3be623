"""Maps made from sizes, and rows that the rules of many operations share."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Sequence

from xlashape.base.caches import cached
from xlashape.indexing.answers.leaves import dims_of
from xlashape.indexing.ops.op import Access, Op, Row, Rows
from xlashape.symbolic import Expr, IndexingMap, Interval, MapParts, Var, dim, rng


def make_map(
    dims: Iterable[int | Interval],
    results: Iterable[Expr],
    *,
    ranges: Iterable[int | Interval] = (),
    runtime: Iterable[Interval] = (),
    constraints: Iterable[tuple[Expr, Interval]] = (),
) -> IndexingMap:
    """A map. In place of the interval [0, n - 1], the bounds of a variable may be the int n.

    >>> make_map([4], [dim(0), rng(0)], ranges=[3])
    (d0)[s0] -> (d0, s0), domain: d0 in [0, 3], s0 in [0, 2]
    """
    # Rules name only variables that they declare. The constructor would check that, which takes a tenth of the time of
    # an analysis.
    return IndexingMap.from_parts(
        MapParts(
            "map",
            tuple([_var(d) for d in dims]),
            tuple([_var(r) for r in ranges]),
            tuple([Var(bounds) for bounds in runtime]),
            tuple(results),
            tuple(constraints),
        )
    )


def _var(bounds: int | Interval) -> Var:
    return Var(Interval(0, bounds - 1) if isinstance(bounds, int) else bounds)


def _bytes_by_ranks(key: tuple[tuple[int, ...], ...], value: object) -> int:
    """An estimate of the bytes of a map between arrays whose sizes are in the key."""
    return 1200 + 400 * sum([len(dims) for dims in key])


# Keeping results saves 8 % of the steps of the maps of ResNet-50, 3 % of those of Llama 3.1.
@cached(max_bytes=4 << 20, weigh=_bytes_by_ranks)
def identity(dims: tuple[int, ...]) -> Row:
    """The row in which each element depends on the element of the same index."""
    return (Access(make_map(dims, [dim(i) for i in range(len(dims))])),)


def passed(dims: tuple[int, ...], leaf: int) -> Row:
    """The row in which each element depends on the element of the same index in leaf `leaf` of an operand."""
    return (Access(identity(dims)[0].map, leaf),) if leaf else identity(dims)


def to_scalar(dims: tuple[int, ...]) -> Row:
    """The row in which each element depends on the one element of a scalar."""
    return (Access(make_map(dims, ())),)


def everything(
    dims: tuple[int, ...], target: tuple[int, ...], leaf: int = 0, *, is_conservative: bool = False
) -> Access:
    """The access in which each element of an array of sizes `dims` depends on every element of a leaf of sizes
    `target`. `is_conservative`: whether that is only because nothing narrower is known to be true."""
    whole = make_map(dims, [rng(i) for i in range(len(target))], ranges=target)
    return Access(whole, leaf, is_conservative=is_conservative)


def aligned(
    dims: Sequence[int], labels: Sequence[Hashable], target: Sequence[int], target_labels: Sequence[Hashable]
) -> IndexingMap:
    """From an element of an array of sizes `dims` to those of an array of sizes `target`: the same index along
    dimensions of one label, every index along those of `target` whose label the first array does not have.

    >>> aligned((2, 3), "ab", (3, 4), "bc")
    (d0, d1)[s0] -> (d1, s0), domain: d0 in [0, 1], d1 in [0, 2], s0 in [0, 3]
    """
    index_of: dict[Hashable, Expr] = {label: dim(d) for d, label in enumerate(labels)}
    ranges: list[int] = []
    for label, size in zip(target_labels, target, strict=True):
        if label not in index_of:
            index_of[label] = rng(len(ranges))
            ranges.append(size)
    return make_map(dims, [index_of[label] for label in target_labels], ranges=ranges)


def across(dims: Sequence[int], target: Sequence[int], axes: Container[int]) -> IndexingMap:
    """From an element to the same index of an array of sizes `target`, with every index along the dimensions `axes`.

    >>> across((2, 3), (2, 5), {1})
    (d0, d1)[s0] -> (d0, s0), domain: d0 in [0, 1], d1 in [0, 2], s0 in [0, 4]
    """
    rank = range(len(dims))
    return aligned(dims, rank, target, [-1 - d if d in axes else d for d in rank])


def every_element(op: Op, output: int) -> Rows:
    """The rows in which each element depends on every element of every operand, because nothing narrower is known to be
    true."""
    dims = op.output_dims(output)
    return tuple(
        tuple(everything(dims, dims_of(shape), leaf, is_conservative=True) for leaf, shape in enumerate(operand))
        for operand in op.operands
    )
