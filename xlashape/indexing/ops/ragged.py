"""Operations over groups whose sizes are elements of an array: ragged-dot and ragged-all-to-all.

The group that an index belongs to is known at run time only, so the maps name every group that it may belong to with some sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from xlashape.hlo import Opcode
from xlashape.hlo.values.dot_numbers import RAGGED_DOT_DIMENSION_NUMBERS, RaggedDotDimensionNumbers
from xlashape.indexing.ops.build import everything, identity, make_map, require, require_dims, require_operands
from xlashape.indexing.ops.collective import all_of_group, group_size, replica_groups
from xlashape.indexing.ops.op import Access, Op, Replicas, Rows, operand_dims, output_dims
from xlashape.indexing.ops.registry import input_to_output, output_to_input
from xlashape.symbolic import Expr, Interval, dim, rng, rt

# -- ragged-dot -------------------------------------------------------------------------------------------------------------------

_Label: TypeAlias = tuple[str, int]
_GROUP: _Label = ("group", 0)
_SIZES: _Label = ("sizes", 0)


class _LabelledArray(NamedTuple):
    """An array of a ragged-dot: the role of each of its dimensions, and its sizes."""

    labels: tuple[_Label, ...]
    sizes: tuple[int, ...]


class _RaggedDot:
    """The roles of a ragged-dot's dimensions: batch, contracted, free on the left, free on the right, and the group.

    The ragged dimension of lhs is divided into consecutive groups whose lengths are `group_sizes`. Indices beyond the last group belong to none. It is

    - free: each index is multiplied by its own group's part of rhs;
    - contracted: the products of each group are summed separately, and the group is the first dimension of the result;
    - batch: the operation is a dot.

    `group_sizes` may have dimensions before its last: the batch dimensions, and the dimensions of the ragged dimension's role that precede it.
    """

    def __init__(self, op: Op) -> None:
        require_operands(op, 3)
        numbers: RaggedDotDimensionNumbers = op.attributes
        n, ragged, group = numbers
        lhs, rhs, sizes = (operand_dims(op, i) for i in range(3))
        require(len(sizes) >= 1, "has a scalar of group sizes")
        require_dims("lhs dimensions", (*n.lhs_batch_dimensions, *n.lhs_contracting_dimensions), len(lhs))
        require_dims("rhs dimensions", (*n.rhs_batch_dimensions, *n.rhs_contracting_dimensions, *group), len(rhs))
        require_dims("ragged dimensions", ragged, len(lhs))
        require(len(ragged) == 1, f"has {len(ragged)} ragged dimensions instead of one")
        require(
            len(n.lhs_batch_dimensions) == len(n.rhs_batch_dimensions)
            and len(n.lhs_contracting_dimensions) == len(n.rhs_contracting_dimensions),
            "pairs different numbers of dimensions of lhs and rhs",
        )
        left = _labels(len(lhs), n.lhs_batch_dimensions, n.lhs_contracting_dimensions, "left")
        right = list(_labels(len(rhs), n.rhs_batch_dimensions, n.rhs_contracting_dimensions, "right"))
        for d in group:
            right[d] = _GROUP
        role, number = left[ragged[0]]
        require(len(group) == (role == "left"), f"has {len(group)} group dimensions in rhs")
        free = [label for label in left if label[0] == "left"]
        batch = [("batch", i) for i in range(len(n.lhs_batch_dimensions))]
        before = {
            "left": batch + free[: free.index((role, number))] if role == "left" else [],
            "contracted": batch + [("contracted", i) for i in range(number)],
            "batch": batch[:number],
        }[role]
        self.is_summed_by_group = role == "contracted"
        require(
            len(sizes) in (1, len(before) + 1),
            f"has group sizes of rank {len(sizes)} instead of 1 or {len(before) + 1}",
        )
        last = _GROUP if role == "left" else _SIZES
        out = [*batch, *free, *(label for label in right if label[0] == "right")]
        self.out = _LabelledArray(((_GROUP, *out) if self.is_summed_by_group else tuple(out)), output_dims(op, 0))
        self.operands = (
            _LabelledArray(left, lhs),
            _LabelledArray(tuple(right), rhs),
            _LabelledArray((*(before if len(sizes) > 1 else ()), last), sizes),
        )
        self.sizes: dict[_Label, int] = {}
        if self.is_summed_by_group:
            self.sizes[_GROUP] = sizes[len(sizes) - 1]
        for array in (*self.operands, self.out):
            require(len(array.labels) == len(array.sizes), f"gives rank {len(array.labels)}, not {list(array.sizes)}")
            for label, size in zip(array.labels, array.sizes, strict=True):
                known = self.sizes.setdefault(label, size)
                require(known == size, f"pairs dimensions of {known} and {size} elements")

    def access(self, source: _LabelledArray, target: _LabelledArray) -> tuple[Access, ...]:
        """From an element of an array to the elements of the other that have its indices in the roles that both have."""
        index_of: dict[_Label, Expr] = {label: dim(d) for d, label in enumerate(source.labels)}
        ranges: list[int] = []
        for label in target.labels:
            if label not in index_of:
                index_of[label] = rng(len(ranges))
                ranges.append(self.sizes[label])
        constraints: list[tuple[Expr, Interval]] = []
        if self.is_summed_by_group and _SIZES in index_of:
            # The bounds of a group depend on its size and the sizes before.
            constraints.append((index_of[_GROUP] - index_of[_SIZES], Interval(0, self.sizes[_GROUP] - 1)))
        results = [index_of[label] for label in target.labels]
        return (Access(make_map(source.sizes, results, ranges=ranges, constraints=constraints)),)


def _labels(rank: int, batch: Sequence[int], contracted: Sequence[int], side: str) -> tuple[_Label, ...]:
    paired: dict[int, _Label] = {d: ("batch", i) for i, d in enumerate(batch)}
    paired |= {d: ("contracted", i) for i, d in enumerate(contracted)}
    return tuple([paired.get(d, (side, d)) for d in range(rank)])


@output_to_input(Opcode.RAGGED_DOT, attributes=RAGGED_DOT_DIMENSION_NUMBERS)
def ragged_dot_output_to_input(op: Op, output: int) -> Rows:
    """As of a dot, with any group's part of rhs; all group sizes, or the sizes up to its own group where groups are summed separately."""
    product = _RaggedDot(op)
    return tuple([product.access(product.out, operand) for operand in product.operands])


@input_to_output(Opcode.RAGGED_DOT, attributes=RAGGED_DOT_DIMENSION_NUMBERS)
def ragged_dot_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The inverse of the maps from the output."""
    product = _RaggedDot(op)
    return (product.access(product.operands[operand], product.out),)


# -- ragged-all-to-all ------------------------------------------------------------------------------------------------------------


def _exchange(op: Op) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int | None]:
    """The sizes of the operand, of the output, and of each array of offsets or sizes; and how many elements of that belong to one replica, if known."""
    require_operands(op, 6)
    operand, output, result = operand_dims(op, 0), operand_dims(op, 1), output_dims(op, 0)
    require(result == output, f"updates {list(output)} to {list(result)}")
    require(
        len(operand) == len(output) >= 1 and operand[1:] == output[1:],
        f"sends slices of {list(operand)} to {list(output)}",
    )
    rows = operand_dims(op, 2)
    require(
        all(operand_dims(op, i) == rows for i in range(3, 6)), "has arrays of offsets and sizes that differ in size"
    )
    require(len(rows) >= 1, "has a scalar of offsets")
    size = group_size(op.attributes)
    if size is None or len(rows) != 1:
        return operand, output, rows, None
    require(size > 0 and rows[0] % size == 0, f"has {rows[0]} offsets for groups of {size}")
    return operand, output, rows, rows[0] // size


@output_to_input(Opcode.RAGGED_ALL_TO_ALL, attributes=replica_groups)
def ragged_all_to_all_output_to_input(op: Op, output: int) -> Rows:
    """The element of `output`; or an element that a replica of the group sends, at any index along the first dimension.

    The elements of a replica's offsets and sizes at the executing replica's position say what it sends to the executing replica.
    """
    operand, dims, rows, share = _exchange(op)
    group = all_of_group(dims, op.attributes)
    sent = make_map(dims, [rng(0), *(dim(d) for d in range(1, len(dims)))], ranges=operand[:1])
    whole = everything(dims, rows)
    if share is None:
        offsets = whole._replace(replicas=group)
    else:
        count = rows[0] // share if share else 0
        read = make_map(dims, [rt(0) * share + rng(0)], ranges=[share], runtime=[Interval(0, count - 1)])
        offsets = Access(read, 0, (None,), group)
    return (Access(sent, replicas=group),), identity(dims), (offsets,), (offsets,), (offsets,), (whole,)


@input_to_output(Opcode.RAGGED_ALL_TO_ALL, attributes=replica_groups)
def ragged_all_to_all_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """An element that is sent goes to any index along the first dimension, on any replica of the group; an offset takes part in one replica's whole result."""
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
