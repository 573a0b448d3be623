"""What rules are made of: maps from sizes, the rows that many operations share, and checks of operands and attributes.

A rule that finds attributes which do not fit the shapes raises `Malformed`; the analysis turns it into an InvalidModuleError that names the
instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xlashape.caches import cached
from xlashape.indexing.answers.leaves import dims_of
from xlashape.indexing.ops.op import Access, Op, Row, Rows, output_dims
from xlashape.symbolic import Expr, IndexingMap, Interval, MapParts, Var, dim, rng


class Malformed(Exception):
    """Attributes or operands that do not fit the operation. It never leaves `xlashape.indexing`."""


def require(condition: bool, message: str | Callable[[], str]) -> None:
    """Raises Malformed unless the condition holds. Pass a function where formatting the message takes longer than the check."""
    if not condition:
        raise Malformed(message if isinstance(message, str) else message())


def require_dims(what: str, dims: Sequence[int], rank: int) -> None:
    """Raises Malformed unless the numbers are different dimensions of an array of that rank."""
    if len(set(dims)) != len(dims) or (dims and not 0 <= min(dims) <= max(dims) < rank):
        raise Malformed(f"{what} {list(dims)} are not different dimensions of rank {rank}")


def require_operands(op: Op, count: int) -> None:
    """Raises Malformed unless the operation has that many operands, each one array (or token)."""
    if len(op.operands) != count:
        raise Malformed(f"has {len(op.operands)} operands instead of {count}")
    for shape in op.operand_shapes:
        if shape.is_tuple:
            raise Malformed("has a tuple among its operands")


def make_map(
    dims: Iterable[int | Interval],
    results: Iterable[Expr],
    *,
    ranges: Iterable[int | Interval] = (),
    runtime: Iterable[Interval] = (),
    constraints: Iterable[tuple[Expr, Interval]] = (),
) -> IndexingMap:
    """A map; an int stands for the interval [0, size - 1].

    >>> make_map([4], [dim(0), rng(0)], ranges=[3])
    (d0)[s0] -> (d0, s0), domain: d0 in [0, 3], s0 in [0, 2]
    """
    # Rules name only variables that they declare. The constructor would check that, which takes a tenth of the time of an analysis.
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
    """About the bytes of a map from arrays of the first sizes in the key, to arrays of the second if there are any."""
    return 1200 + 400 * sum([len(dims) for dims in key])


# Keeping results saves 6 % of the time of the maps of ResNet-50.
@cached(max_bytes=4 << 20, weigh=_bytes_by_ranks)
def identity(dims: tuple[int, ...]) -> Row:
    """Each element from the element of the same index."""
    return (Access(make_map(dims, [dim(i) for i in range(len(dims))])),)


def passed(dims: tuple[int, ...], leaf: int) -> Row:
    """Each element from the element of the same index in a leaf."""
    return (Access(identity(dims)[0].map, leaf),) if leaf else identity(dims)


def to_scalar(dims: tuple[int, ...]) -> Row:
    """Each element from the one element of a scalar."""
    return (Access(make_map(dims, ())),)


def everything(
    dims: tuple[int, ...], target: tuple[int, ...], leaf: int = 0, *, is_conservative: bool = False
) -> Access:
    """Each element from every element. `is_conservative`: because nothing narrower is known to be true."""
    whole = make_map(dims, [rng(i) for i in range(len(target))], ranges=target)
    return Access(whole, leaf, is_conservative=is_conservative)


def every_element(op: Op, output: int) -> Rows:
    """Each element from every element of every operand, because nothing narrower is known to be true."""
    dims = output_dims(op, output)
    return tuple(
        tuple(everything(dims, dims_of(shape), leaf, is_conservative=True) for leaf, shape in enumerate(operand))
        for operand in op.operands
    )
