"""Operations over groups whose sizes stand in an array: ragged-dot and ragged-all-to-all.

Which group an index falls into is known at run time only, so the maps name every group that it may fall into: what some sizes lead to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from xlashape.hlo import Opcode
from xlashape.indexing.ops.access import Access, Replicas, Rows
from xlashape.indexing.ops.attributes import RaggedDotNumbers, collective, ragged_dot
from xlashape.indexing.ops.build import everything, identity, make_map, require, require_dims, require_operands
from xlashape.indexing.ops.collective import all_of_group, group_size
from xlashape.indexing.ops.op import Op, operand_dims, output_dims
from xlashape.indexing.ops.registry import input_to_output, output_to_input
from xlashape.symbolic import Expr, Interval, dim, rng, rt

# -- ragged-dot -------------------------------------------------------------------------------------------------------------------

_Label: TypeAlias = tuple[str, int]
_GROUP: _Label = ("group", 0)
_SIZES: _Label = ("sizes", 0)


class _Array(NamedTuple):
    """Which index of the product each dimension of an array is, and the sizes."""

    labels: tuple[_Label, ...]
    sizes: tuple[int, ...]


class _RaggedDot:
    """The indices of a ragged-dot: batch, contracted, free on the left, free on the right, and the group.

    The ragged dimension of lhs falls into groups, as long one after the other as `group_sizes` says. Free: each of its indices is multiplied by
    its own group's part of rhs. Contracted: each group's products are summed by themselves, which the result has a first dimension for. Batch:
    a dot. Indices beyond the last group belong to none. `group_sizes` may have dimensions before its last: batch, and those of the ragged
    dimension's kind that come before it.
    """

    def __init__(self, op: Op) -> None:
        require_operands(op, 3)
        numbers: RaggedDotNumbers = op.attributes
        n, ragged, group = numbers.dot, numbers.lhs_ragged, numbers.rhs_group
        lhs, rhs, sizes = (operand_dims(op, i) for i in range(3))
        require(len(sizes) >= 1, "has group sizes that are a scalar")
        require_dims("lhs dimensions", (*n.lhs_batch, *n.lhs_contracting), len(lhs))
        require_dims("rhs dimensions", (*n.rhs_batch, *n.rhs_contracting, *group), len(rhs))
        require_dims("ragged dimensions", ragged, len(lhs))
        require(len(ragged) == 1, f"has {len(ragged)} ragged dimensions instead of one")
        require(
            len(n.lhs_batch) == len(n.rhs_batch) and len(n.lhs_contracting) == len(n.rhs_contracting),
            "pairs unlike many dimensions",
        )
        left = _labels(len(lhs), n.lhs_batch, n.lhs_contracting, "left")
        right = list(_labels(len(rhs), n.rhs_batch, n.rhs_contracting, "right"))
        for d in group:
            right[d] = _GROUP
        kind, place = left[ragged[0]]
        require(len(group) == (kind == "left"), f"has {len(group)} group dimensions in rhs")
        free = [label for label in left if label[0] == "left"]
        batch = [("batch", i) for i in range(len(n.lhs_batch))]
        before = {
            "left": batch + free[: free.index((kind, place))] if kind == "left" else [],
            "contracted": batch + [("contracted", i) for i in range(place)],
            "batch": batch[:place],
        }[kind]
        self.is_summed_by_group = kind == "contracted"
        require(
            len(sizes) in (1, len(before) + 1),
            f"has group sizes of rank {len(sizes)} instead of 1 or {len(before) + 1}",
        )
        last = _GROUP if kind == "left" else _SIZES
        out = [*batch, *free, *(label for label in right if label[0] == "right")]
        self.out = _Array(((_GROUP, *out) if self.is_summed_by_group else tuple(out)), output_dims(op, 0))
        self.operands = (
            _Array(left, lhs),
            _Array(tuple(right), rhs),
            _Array((*(before if len(sizes) > 1 else ()), last), sizes),
        )
        self.sizes: dict[_Label, int] = {}
        if self.is_summed_by_group:
            self.sizes[_GROUP] = sizes[len(sizes) - 1]
        for array in (*self.operands, self.out):
            require(len(array.labels) == len(array.sizes), f"gives rank {len(array.labels)}, not {list(array.sizes)}")
            for label, size in zip(array.labels, array.sizes, strict=True):
                known = self.sizes.setdefault(label, size)
                require(known == size, f"pairs dimensions of {known} and {size} elements")

    def access(self, source: _Array, target: _Array) -> tuple[Access, ...]:
        """From an element of one array to those of the other that have its indices."""
        at: dict[_Label, Expr] = {label: dim(d) for d, label in enumerate(source.labels)}
        ranges: list[int] = []
        for label in target.labels:
            if label not in at:
                at[label] = rng(len(ranges))
                ranges.append(self.sizes[label])
        constraints: list[tuple[Expr, Interval]] = []
        if self.is_summed_by_group and _SIZES in at:
            # Where a group begins and ends depends on its own size and those before.
            constraints.append((at[_GROUP] - at[_SIZES], Interval(0, self.sizes[_GROUP] - 1)))
        results = [at[label] for label in target.labels]
        return (Access(make_map(source.sizes, results, ranges=ranges, constraints=constraints)),)


def _labels(rank: int, batch: Sequence[int], contracted: Sequence[int], side: str) -> tuple[_Label, ...]:
    paired: dict[int, _Label] = {d: ("batch", i) for i, d in enumerate(batch)}
    paired |= {d: ("contracted", i) for i, d in enumerate(contracted)}
    return tuple([paired.get(d, (side, d)) for d in range(rank)])


@output_to_input(Opcode.RAGGED_DOT, attributes=ragged_dot)
def ragged_dot_output_to_input(op: Op, output: int) -> Rows:
    """A dot with any group's part of rhs; the sizes of all groups, of those up to its own where groups are summed by themselves."""
    product = _RaggedDot(op)
    return tuple([product.access(product.out, operand) for operand in product.operands])


@input_to_output(Opcode.RAGGED_DOT, attributes=ragged_dot)
def ragged_dot_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The inverse."""
    product = _RaggedDot(op)
    return (product.access(product.operands[operand], product.out),)


# -- ragged-all-to-all ------------------------------------------------------------------------------------------------------------


def _exchange(op: Op) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int | None]:
    """Sizes of operand, output and each array of offsets or sizes; how many of its elements belong to one replica."""
    require_operands(op, 6)
    operand, output, result = operand_dims(op, 0), operand_dims(op, 1), output_dims(op, 0)
    require(result == output, f"updates {list(output)} to {list(result)}")
    require(
        len(operand) == len(output) >= 1 and operand[1:] == output[1:],
        f"sends slices of {list(operand)} to {list(output)}",
    )
    rows = operand_dims(op, 2)
    require(all(operand_dims(op, i) == rows for i in range(3, 6)), "has offsets and sizes of different sizes")
    require(len(rows) >= 1, "has offsets that are a scalar")
    size = group_size(op.attributes)
    if size is None or len(rows) != 1:
        return operand, output, rows, None
    require(size > 0 and rows[0] % size == 0, f"has {rows[0]} offsets for groups of {size}")
    return operand, output, rows, rows[0] // size


@output_to_input(Opcode.RAGGED_ALL_TO_ALL, attributes=collective)
def ragged_all_to_all_output_to_input(op: Op, output: int) -> Rows:
    """The element of `output`, or any of the same index but along the first dimension that a replica of the group may send.

    What a replica sends to the executing one stands in its offsets and sizes at the executing one's position.
    """
    operand, dims, rows, share = _exchange(op)
    group = all_of_group(dims, op.attributes)
    sent = make_map(dims, [rng(0), *(dim(d) for d in range(1, len(dims)))], ranges=operand[:1])
    whole = everything(dims, rows)
    if share is None:
        told = whole._replace(replicas=group)
    else:
        count = rows[0] // share if share else 0
        places = make_map(dims, [rt(0) * share + rng(0)], ranges=[share], runtime=[Interval(0, count - 1)])
        told = Access(places, 0, (None,), group)
    return (Access(sent, replicas=group),), identity(dims), (told,), (told,), (told,), (whole,)


@input_to_output(Opcode.RAGGED_ALL_TO_ALL, attributes=collective)
def ragged_all_to_all_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """A sent element may come to any index along the first dimension, on any replica of the group; an offset concerns one replica's whole result."""
    source, dims, rows, share = _exchange(op)
    if operand == 1:
        return (identity(dims),)
    if operand == 0:
        sent = make_map(source, [rng(0), *(dim(d) for d in range(1, len(source)))], ranges=dims[:1])
        return ((Access(sent, replicas=all_of_group(source, op.attributes)),),)
    whole = everything(rows, dims)
    if operand == 5:
        return ((whole,),)
    if share is None:
        return ((whole._replace(replicas=all_of_group(rows, op.attributes)),),)
    return ((whole._replace(replicas=Replicas(make_map(rows, [dim(0) // max(1, share)]), op.attributes.groups)),),)
