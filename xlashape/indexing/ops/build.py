"""Small steps that rules are made of: leaves of shapes, maps from sizes, checks of attributes.

A rule that finds attributes which do not fit the shapes raises `Malformed`; the analysis turns it into an InvalidModuleError that names the
instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from xlashape.indexing.ops.registry import Access, Op, Row, Rows, Sparse
from xlashape.shape import PrimitiveType, Shape
from xlashape.symbolic import Expr, IndexingMap, Interval, Var, dim, rng

__all__ = [
    "NOTHING",
    "Malformed",
    "dims_of",
    "every_element",
    "everything",
    "identity",
    "make_map",
    "nothing_but",
    "operand_dims",
    "output_dims",
    "passed",
    "require",
    "require_dims",
    "require_operands",
    "to_scalar",
]

NOTHING: tuple[Access, ...] = ()
"""The row of an array that is not accessed at all."""


class Malformed(Exception):
    """Attributes or operands that do not fit the operation. Never leaves the package."""


def require(condition: bool, message: str | Callable[[], str]) -> None:
    """Raises Malformed unless the condition holds. A message with numbers in it takes longer than most checks: make it a function."""
    if not condition:
        raise Malformed(message if isinstance(message, str) else message())


def require_dims(what: str, dims: Sequence[int], rank: int) -> None:
    """The numbers are different dimensions of an array of that rank."""
    if len(set(dims)) != len(dims) or (dims and not 0 <= min(dims) <= max(dims) < rank):
        raise Malformed(f"{what} {list(dims)} are not different dimensions of rank {rank}")


def require_operands(op: Op, count: int) -> None:
    """The operation has that many operands, each one array (or token)."""
    if len(op.operands) != count:
        raise Malformed(f"has {len(op.operands)} operands instead of {count}")
    for shape in op.operand_shapes:
        if shape.is_tuple:
            raise Malformed("has a tuple among its operands")


def dims_of(leaf: Shape) -> tuple[int, ...]:
    """The sizes of a leaf: those of the array a buffer holds; none for tokens and opaques. Dynamic sizes count with their bounds."""
    if leaf.element_type is PrimitiveType.BUFFER and leaf.tuple_shapes:
        return leaf.tuple_shapes[0].dimensions
    return leaf.dimensions


def output_dims(op: Op, output: int) -> tuple[int, ...]:
    """The sizes of an output's leaf."""
    return dims_of(op.outputs[output])


def operand_dims(op: Op, operand: int, leaf: int = 0) -> tuple[int, ...]:
    """The sizes of an operand's leaf."""
    return dims_of(op.operands[operand][leaf])


@lru_cache(maxsize=1 << 12)
def _whole(dims: tuple[int, ...], target: tuple[int, ...]) -> IndexingMap:
    return make_map(dims, [rng(i) for i in range(len(target))], ranges=target)


def make_map(
    dims: Iterable[int | Interval],
    results: Iterable[Expr],
    *,
    ranges: Iterable[int | Interval] = (),
    runtime: Iterable[Interval] = (),
    constraints: Iterable[tuple[Expr, Interval]] = (),
) -> IndexingMap:
    """A map; an int stands for the interval [0, size - 1]."""
    # Rules name only variables that they declare, so the parts need no check: a tenth of the time.
    return IndexingMap._make(  # pyright: ignore[reportPrivateUsage]
        tuple([_var(d) for d in dims]),
        tuple([_var(r) for r in ranges]),
        tuple([Var(bounds) for bounds in runtime]),
        tuple(results),
        tuple(constraints),
    )


@lru_cache(maxsize=1 << 12)
def _var(bounds: int | Interval) -> Var:
    return Var(Interval(0, bounds - 1) if isinstance(bounds, int) else bounds)


@lru_cache(maxsize=1 << 12)
def identity(dims: tuple[int, ...]) -> tuple[Access, ...]:
    """Each element from the element of the same index."""
    return (Access(make_map(dims, [dim(i) for i in range(len(dims))])),)


@lru_cache(maxsize=1 << 12)
def passed(dims: tuple[int, ...], leaf: int) -> Row:
    """Each element from the element of the same index in a leaf."""
    return (Access(identity(dims)[0].map, leaf),) if leaf else identity(dims)


@lru_cache(maxsize=1 << 12)
def to_scalar(dims: tuple[int, ...]) -> tuple[Access, ...]:
    """Each element from the one element of a scalar."""
    return (Access(make_map(dims, ())),)


def everything(dims: tuple[int, ...], target: tuple[int, ...], leaf: int = 0, *, every: bool = False) -> Access:
    """Each element from every element. `every` marks that nothing narrower is known to be true."""
    return Access(_whole(dims, target), leaf, every=every)


def every_element(op: Op, output: int) -> Rows:
    """Each element from every element of every operand, marked."""
    dims = output_dims(op, output)
    return tuple(
        tuple(everything(dims, dims_of(shape), leaf, every=True) for leaf, shape in enumerate(operand))
        for operand in op.operands
    )


def nothing_but(count: int, rows: dict[int, Row]) -> Rows:
    """The rows given, by number, and nothing for the others of `count`."""
    found = [NOTHING] * count
    for number, row in rows.items():
        found[number] = row
    sparse = Sparse(found)
    sparse.given = rows
    return sparse
