"""The rules of collectives: operations across replicas. A map says which element is read; `Replicas` says which replica
holds that element.

Where the element depends on the executing replica, the position of that replica in its group is a runtime variable. A
replica group lists the replicas that exchange data, in order; without groups, all replicas form one group in the order
of their ids.

An all-gather or reduce-scatter with a channel whose groups list replicas exchanges data among every partition of those
replicas: first partition 0 of each replica, then partition 1 of each, and so on. Its answers list each group once for
every partition; the sizes of its arrays say how many partitions there are. An all-reduce of this kind adds up over
every partition, too. Nothing in it says how many partitions there are, so its answer does not say how many take part.

In a ragged-dot and a ragged-all-to-all, elements of an array are the sizes of groups. The group that an index belongs
to is known at run time only, so their maps name every group that the index may belong to with some sizes.

The docstring of a rule says what an element of an output reads (`…_output_to_input`), or which elements of the outputs
an element of an operand takes part in (`…_input_to_output`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, TypeAlias

from xlashape.errors import InvalidModuleError
from xlashape.hlo import Opcode
from xlashape.hlo.values.dimension_numbers import RAGGED_DOT_DIMENSION_NUMBERS, RaggedDotDimensionNumbers
from xlashape.hlo.values.plain import DIMENSIONS
from xlashape.hlo.values.replica_groups import SOURCE_TARGET_PAIRS, ReplicaGroups
from xlashape.indexing.answers.leaves import dims_of, leaves
from xlashape.indexing.ops.op import NOT_ACCESSED, Access, Op, Replicas, Row, Rows, SparseRows, require, require_dims
from xlashape.indexing.ops.register import input_to_output, keyed_by, output_to_input, without_bounds
from xlashape.indexing.ops.rows import across, everything, identity, make_map
from xlashape.proto import xla
from xlashape.symbolic import Expr, IndexingMap, Interval, const, dim, rng, rt

MAX_REPLICAS = 1 << 20
"""The most replicas that replica groups in the short (iota) form may stand for, and the most parts of an array."""


class Groups(NamedTuple):
    """The replica groups of a collective, and its dimensions."""

    groups: tuple[tuple[int, ...], ...]
    """Empty: all replicas form one group."""
    dimensions: tuple[int, ...]
    spans_partitions: bool = False
    """Whether every partition of the replicas in a group takes part: the collective has a channel, and its groups list
    replicas.
    """


def _groups_key(instruction: xla.HloInstructionProto) -> Hashable:
    form = instruction.WhichOneof("replica_group_list")
    if form is None:
        groups: Any = tuple([group.SerializeToString() for group in instruction.replica_groups])
    else:
        groups = getattr(instruction, form).SerializeToString()
    # Each collective has a channel of its own, so that equal collectives differ in its number. Only whether there is a
    # channel matters.
    has_channel = instruction.channel_id > 0
    return form, groups, tuple(instruction.dimensions[:]), has_channel, instruction.use_global_device_ids


@keyed_by(_groups_key)
def replica_groups(instruction: xla.HloInstructionProto) -> Groups:
    """all-gather, all-reduce, all-to-all, reduce-scatter, collective-broadcast: groups and dimensions."""
    try:
        groups = ReplicaGroups.of_proto(instruction).expand(MAX_REPLICAS)
    except InvalidModuleError as error:
        raise InvalidModuleError(f"not a list of replica groups: {error}") from None
    spans_partitions = instruction.channel_id > 0 and not instruction.use_global_device_ids
    return Groups(groups, DIMENSIONS.of(instruction), spans_partitions)


def _numbered(op: Op, count: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The sizes of each operand and of the output with the same number. Raises Malformed unless there are `count` of
    both, and each operand is one array.
    """
    require(
        len(op.operands) == count == len(op.outputs) and all(len(operand) == 1 for operand in op.operands),
        "returns as many arrays as it takes",
    )
    return [(dims_of(operand[0]), dims_of(out)) for operand, out in zip(op.operands, op.outputs, strict=True)]


def _same(dims: tuple[int, ...], replicas: Replicas | None = None) -> tuple[Access, ...]:
    return (identity(dims)[0]._replace(replicas=replicas),)


def group_size(groups: Groups) -> int | None:
    """How many replicas each group has; None if that is not known, or differs between groups."""
    sizes = {len(group) for group in groups.groups}
    return sizes.pop() if len(sizes) == 1 else None


def all_of_group(dims: tuple[int, ...], groups: Groups, size: int | None = None) -> Replicas | None:
    """Every replica of the group; None if the group is the executing replica alone. `size` is the number of replicas in
    a group; None: that of `groups`.
    """
    size = group_size(groups) if size is None else size
    if size == 1:
        return None
    if size is None:
        return Replicas(IndexingMap.undefined(), groups.groups)
    return Replicas(make_map(dims, [rng(0)], ranges=[size]), groups.groups)


# -- all-reduce, collective-broadcast: the same index on other replicas -------------------------


without_bounds(Opcode.ALL_REDUCE)


@output_to_input(Opcode.ALL_REDUCE, Opcode.ALL_REDUCE_START, Opcode.COLLECTIVE_REDUCE, attributes=replica_groups)
def all_reduce_output_to_input(op: Op, output: int) -> Rows:
    """The same index of the same operand, on every replica of the group, and on all their partitions if the groups span
    partitions.

    No attribute says how many partitions there are. A collective-reduce has its result on one replica of the group; the
    results of the other replicas are undefined.
    """
    pairs = _numbered(op, len(op.operands))
    dims = pairs[output][1]
    require(pairs[output][0] == dims, "changes the shape")
    groups: Groups = op.attributes
    others = Replicas(IndexingMap.undefined(), groups.groups) if groups.spans_partitions else all_of_group(dims, groups)
    return SparseRows(len(pairs), {output: _same(dims, others)})


@input_to_output(Opcode.ALL_REDUCE, Opcode.ALL_REDUCE_START, Opcode.COLLECTIVE_REDUCE, attributes=replica_groups)
def all_reduce_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The same index of the same output, on every replica of the group."""
    return all_reduce_output_to_input(op, operand)


@output_to_input(Opcode.COLLECTIVE_BROADCAST, attributes=replica_groups)
def collective_broadcast_output_to_input(op: Op, output: int) -> Rows:
    """The same index on the first replica of the group."""
    pairs = _numbered(op, len(op.operands))
    dims = pairs[output][1]
    require(pairs[output][0] == dims, "changes the shape")
    first = None if group_size(op.attributes) == 1 else Replicas(make_map(dims, [const(0)]), op.attributes.groups)
    return SparseRows(len(pairs), {output: _same(dims, first)})


@input_to_output(Opcode.COLLECTIVE_BROADCAST, attributes=replica_groups)
def collective_broadcast_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The same index on every replica of the group. The map does not say that only the first replica's elements are
    sent.
    """
    pairs = _numbered(op, len(op.operands))
    dims = pairs[operand][0]
    return SparseRows(len(pairs), {operand: _same(dims, all_of_group(dims, op.attributes))})


# -- all-gather, reduce-scatter, all-to-all: blocks along one dimension -------------------------


def _axis(op: Op, rank: int) -> int:
    dims = op.attributes.dimensions
    require(len(dims) == 1, f"needs exactly one dimension, not {len(dims)}")
    require_dims("dimensions", dims, rank)
    return dims[0]


def _blocks(op: Op, number: int) -> tuple[tuple[int, ...], tuple[int, ...], int, int, Groups]:
    """The sizes of the whole array and of a part, the dimension along which the parts are joined, how many parts there
    are, and the groups of replicas that hold them.
    """
    operand, out = dims_of(op.operands[number][0]), dims_of(op.outputs[number])
    require(len(operand) == len(out), "changes the rank")
    axis = _axis(op, len(out))
    whole, part = (out, operand) if operand[axis] <= out[axis] else (operand, out)
    count = whole[axis] // part[axis] if part[axis] else 1
    require(
        part[axis] * count == whole[axis]
        and all(a == b for d, (a, b) in enumerate(zip(whole, part, strict=True)) if d != axis),
        f"turns {list(operand)} into {list(out)}",
    )
    groups: Groups = op.attributes
    size = group_size(groups)
    if groups.spans_partitions and size and part[axis] and count % size == 0 and count <= MAX_REPLICAS:
        return (
            whole,
            part,
            axis,
            count,
            groups._replace(groups=tuple([group * (count // size) for group in groups.groups])),
        )
    require(size is None or part[axis] == 0 or size == count, f"has groups of {size} for {count} parts")
    return whole, part, axis, count, groups


def _with_index(rank: int, axis: int, index: Expr) -> list[Expr]:
    """The index of an element: the map's own dimensions, and `index` along `axis`."""
    return [index if d == axis else dim(d) for d in range(rank)]


def _from_whole(op: Op, number: int) -> Row:
    """From an element of the whole array: its index within its part, on the replica that holds this part."""
    _numbered(op, len(op.operands))
    whole, part, axis, _, groups = _blocks(op, number)
    size = max(1, part[axis])
    within_part = make_map(whole, _with_index(len(whole), axis, dim(axis) % size))
    holder = Replicas(make_map(whole, [dim(axis) // size if size > 1 else dim(axis)]), groups.groups)
    return (Access(within_part, replicas=holder),)


def _from_part(op: Op, number: int) -> Row:
    """From an element of a part: the element of the whole array at this index of the executing replica's part, on
    every replica of the group.
    """
    _numbered(op, len(op.operands))
    _, part, axis, count, groups = _blocks(op, number)
    index = _with_index(len(part), axis, dim(axis) + rt(0) * part[axis])
    in_whole = make_map(part, index, runtime=[Interval(0, count - 1)])
    return (Access(in_whole, 0, (None,), all_of_group(part, groups, count)),)


@output_to_input(Opcode.ALL_GATHER, attributes=replica_groups)
def all_gather_output_to_input(op: Op, output: int) -> Rows:
    """The element's index within its part, on the replica that holds this part."""
    _numbered(op, len(op.operands))
    require(
        all(a <= b for (a, b) in zip(dims_of(op.operands[output][0]), dims_of(op.outputs[output]), strict=False)),
        "gathers into a smaller array",
    )
    return SparseRows(len(op.operands), {output: _from_whole(op, output)})


@input_to_output(Opcode.ALL_GATHER, attributes=replica_groups)
def all_gather_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The element of the whole array at this index of the executing replica's part, on every replica of the group."""
    return SparseRows(len(op.outputs), {operand: _from_part(op, operand)})


@output_to_input(Opcode.REDUCE_SCATTER, attributes=replica_groups)
def reduce_scatter_output_to_input(op: Op, output: int) -> Rows:
    """The element of the whole array at this index of the executing replica's part, on every replica of the group."""
    return SparseRows(len(op.operands), {output: _from_part(op, output)})


@input_to_output(Opcode.REDUCE_SCATTER, attributes=replica_groups)
def reduce_scatter_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The element's index within its part, on the replica that gets this part."""
    return SparseRows(len(op.outputs), {operand: _from_whole(op, operand)})


@output_to_input(Opcode.ALL_TO_ALL, attributes=replica_groups)
def all_to_all_output_to_input(op: Op, output: int) -> Rows:
    """Block b of the result comes from replica b of the group. There, the block's number is the executing replica's
    position in the group.

    Without a dimension, result b comes from replica b, where the operand's number is the executing replica's position:
    the map names the element of this index in every operand.
    """
    if not op.attributes.dimensions:
        dims = dims_of(op.outputs[output])
        require(
            all(len(operand) == 1 and dims_of(operand[0]) == dims for operand in op.operands),
            "exchanges arrays of different sizes",
        )
        _one_array_each(op)
        from_replica = Replicas(make_map(dims, [const(output)]), op.attributes.groups)
        return (_same(dims, from_replica),) * len(op.operands)
    return (_exchanged(op),)


@input_to_output(Opcode.ALL_TO_ALL, attributes=replica_groups)
def all_to_all_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The inverse: block b goes to replica b of the group."""
    if not op.attributes.dimensions:
        dims = dims_of(op.operands[operand][0])
        require(all(dims_of(shape) == dims for shape in op.outputs), "exchanges arrays of different sizes")
        _one_array_each(op)
        to_replica = Replicas(make_map(dims, [const(operand)]), op.attributes.groups)
        return (_same(dims, to_replica),) * len(op.outputs)
    return (_exchanged(op),)


def _one_array_each(op: Op) -> None:
    size = group_size(op.attributes)
    require(len(op.outputs) == len(op.operands), "returns as many arrays as it takes")
    require(size is None or size == len(op.operands), f"has groups of {size} for {len(op.operands)} arrays")


def _exchanged(op: Op) -> tuple[Access, ...]:
    ((source, dims),) = _numbered(op, 1)
    axis, count = _axis(op, len(dims)), group_size(op.attributes)
    require(source == dims, "changes the shape")
    if count is None:
        # The number of blocks is not known, so an element may go to any index along the dimension.
        moved = across(dims, dims, {axis})
        return (Access(moved, replicas=Replicas(IndexingMap.undefined(), op.attributes.groups), is_conservative=True),)
    require(dims[axis] % count == 0, f"splits {dims[axis]} elements into {count} blocks")
    size = max(1, dims[axis] // count)
    moved = make_map(
        dims, _with_index(len(dims), axis, dim(axis) % size + rt(0) * size), runtime=[Interval(0, count - 1)]
    )
    holder = make_map(dims, [dim(axis) // size if size > 1 else dim(axis)])
    return (Access(moved, 0, (None,), Replicas(holder, op.attributes.groups)),)


# -- collective-permute: pairs of replicas ------------------------------------------------------


@output_to_input(Opcode.COLLECTIVE_PERMUTE, attributes=SOURCE_TARGET_PAIRS)
def collective_permute_output_to_input(op: Op, output: int) -> Rows:
    """The same index on the source of the executing replica; without a source, the result is 0. Of an operation in
    place (`_is_in_place`): the same index of the array that is written to, and every element of the other operands.
    """
    if not _is_in_place(op):
        return _permuted(op, output)
    dims = dims_of(op.outputs[output])
    rows: list[tuple[Access, ...]] = []
    for operand, partner in enumerate(_in_place_partners(op, dims)):
        if operand == 1:
            rows.append((identity(dims)[0]._replace(leaf=output),))
            continue
        whole_arrays = [
            everything(dims, dims_of(shape), leaf, is_conservative=True)
            for leaf, shape in enumerate(op.operands[operand])
        ]
        rows.append(tuple([access._replace(replicas=partner) for access in whole_arrays]))
    return tuple(rows)


@input_to_output(Opcode.COLLECTIVE_PERMUTE, attributes=SOURCE_TARGET_PAIRS)
def collective_permute_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The same index on the target of the executing replica; of an operation in place, every element there."""
    if not _is_in_place(op):
        return _permuted(op, operand)
    dims = dims_of(op.operands[operand][leaf])
    if operand == 1:
        return SparseRows(len(op.outputs), {leaf: identity(dims)})
    partner = _in_place_partners(op, dims)[operand]
    return tuple(
        [(everything(dims, dims_of(shape), is_conservative=True)._replace(replicas=partner),) for shape in op.outputs]
    )


def _permuted(op: Op, number: int) -> Rows:
    pairs = _numbered(op, len(op.operands))
    source, dims = pairs[number]
    require(source == dims, "changes the shape")
    return SparseRows(len(pairs), {number: _same(dims, _partner(op, dims))})


def _pairs(op: Op) -> tuple[tuple[int, int], ...]:
    return tuple([(source, target) for source, target in op.attributes])


def _partner(op: Op, dims: tuple[int, ...]) -> Replicas:
    return Replicas(make_map(dims, [const(0)]), (), _pairs(op))


def _is_in_place(op: Op) -> bool:
    """Whether slices of the source's inputs are written into arrays that are operands too, at offsets that are operands
    too.

    The operands are then: the inputs, the arrays that are written to, the offsets in the inputs, the offsets in the
    arrays; each an array or a tuple.
    """
    if len(op.operands) != 4 or len(op.outputs) >= 4:
        return False
    kept = [dims_of(shape) for shape in op.operands[1]]
    require([dims_of(shape) for shape in op.outputs] == kept, "returns other arrays than those that it writes to")
    return True


def _in_place_partners(op: Op, dims: tuple[int, ...]) -> tuple[Replicas | None, ...]:
    partner = _partner(op, dims)
    return partner, None, partner, Replicas(IndexingMap.undefined(), (), _pairs(op))


# -- asynchronous forms: the start's result holds operands first, then results ------------------


@output_to_input(Opcode.ALL_GATHER_START, attributes=replica_groups)
def all_gather_start_output_to_input(op: Op, output: int) -> Rows:
    """The result is (operands, results): operands are passed on, results gathered."""
    count = len(op.operands)
    require(len(op.outputs) >= 2 * count, "returns operands and results")
    if output < count:
        return SparseRows(count, {output: identity(dims_of(op.outputs[output]))})
    return all_gather_output_to_input(op._replace(outputs=op.outputs[count : 2 * count]), output - count)


@input_to_output(Opcode.ALL_GATHER_START, attributes=replica_groups)
def all_gather_start_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """An operand is passed on, and gathered into its result."""
    count = len(op.operands)
    require(len(op.outputs) >= 2 * count, "returns operands and results")
    gathered = _from_part(op._replace(outputs=op.outputs[count : 2 * count]), operand)
    passed = identity(dims_of(op.operands[operand][leaf]))
    return SparseRows(len(op.outputs), {operand: passed, count + operand: gathered})


@output_to_input(Opcode.COLLECTIVE_PERMUTE_START, attributes=SOURCE_TARGET_PAIRS)
def collective_permute_start_output_to_input(op: Op, output: int) -> Rows:
    """The result is (operands, results, contexts): operands are passed on, results permuted, contexts hold no
    element.
    """
    first, count = _started(op)
    if output < first:
        operand = bisect_right(op.starts, output) - 1
        leaf = output - op.starts[operand]
        own = identity(dims_of(op.outputs[output]))[0]._replace(leaf=leaf)
        return SparseRows(len(op.operands), {operand: (own,)})
    if output >= first + count:
        return (NOT_ACCESSED,) * len(op.operands)
    return collective_permute_output_to_input(op._replace(outputs=op.outputs[first : first + count]), output - first)


@input_to_output(Opcode.COLLECTIVE_PERMUTE_START, attributes=SOURCE_TARGET_PAIRS)
def collective_permute_start_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """An operand is passed on, and permuted into its result."""
    first, count = _started(op)
    number = op.starts[operand] + leaf
    rows = {number: identity(dims_of(op.operands[operand][leaf]))} if number < first else {}
    permuted = collective_permute_input_to_output(op._replace(outputs=op.outputs[first : first + count]), operand, leaf)
    dense = permuted.dense() if isinstance(permuted, SparseRows) else permuted
    rows |= {first + result: row for result, row in enumerate(dense)}
    return SparseRows(len(op.outputs), rows)


def _started(op: Op) -> tuple[int, int]:
    """How many leaves of the result are operands that are passed on, and how many are results."""
    elements = op.shape.tuple_shapes
    require(len(elements) >= 2, "returns operands and results")
    first, second = (len(leaves(element)) for element in elements[:2])
    passed = [dims_of(shape) for operand in op.operands for shape in operand][:first]
    require([dims_of(shape) for shape in op.outputs[:first]] == passed, "returns other operands than it takes")
    return first, second


# -- ragged-dot ---------------------------------------------------------------------------------

_Label: TypeAlias = tuple[str, int]
"""The role of a dimension, and a number: of the pair for "batch" and "contracted", of the dimension for "left" and
"right", else 0.
"""
_GROUP: _Label = ("group", 0)
_SIZES: _Label = ("sizes", 0)


class _LabelledArray(NamedTuple):
    """An array of a ragged-dot: the role of each of its dimensions, and its sizes."""

    labels: tuple[_Label, ...]
    sizes: tuple[int, ...]


class _RaggedDot:
    """The roles of a ragged-dot's dimensions: batch, contracted, free on the left, free on the right, and the group.

    The ragged dimension of lhs is divided into consecutive groups whose lengths are `group_sizes`. Indices beyond the
    last group belong to none. It is

    - free: each index is multiplied by its own group's part of rhs;
    - contracted: the products of each group are summed separately, and the group is the first dimension of the result;
    - batch: the operation is an ordinary dot.

    `group_sizes` may have dimensions before its last: the batch dimensions, and the dimensions of the ragged
    dimension's role that precede it.
    """

    def __init__(self, op: Op) -> None:
        op.require_operands(3)
        numbers: RaggedDotDimensionNumbers = op.attributes
        n, ragged, group = numbers
        lhs, rhs, sizes = (op.operand_dims(i) for i in range(3))
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
        self.out = _LabelledArray(((_GROUP, *out) if self.is_summed_by_group else tuple(out)), op.output_dims(0))
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
        """From an element of `source` to the elements of `target` that have the same indices in the roles that both
        have.
        """
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
    """The maps of a dot, with any group's part of rhs; all group sizes, or the sizes up to the element's own group
    where groups are summed separately.
    """
    product = _RaggedDot(op)
    return tuple([product.access(product.out, operand) for operand in product.operands])


@input_to_output(Opcode.RAGGED_DOT, attributes=RAGGED_DOT_DIMENSION_NUMBERS)
def ragged_dot_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The inverse of the maps from the output."""
    product = _RaggedDot(op)
    return (product.access(product.operands[operand], product.out),)


# -- ragged-all-to-all --------------------------------------------------------------------------


def _exchange(op: Op) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int | None]:
    """The sizes of the operand, of the output, and of each array of offsets or sizes; and how many elements of such an
    array belong to one replica, if known.
    """
    op.require_operands(6)
    operand, output, result = op.operand_dims(0), op.operand_dims(1), op.output_dims(0)
    require(result == output, f"updates {list(output)} to {list(result)}")
    require(
        len(operand) == len(output) >= 1 and operand[1:] == output[1:],
        f"sends slices of {list(operand)} to {list(output)}",
    )
    rows = op.operand_dims(2)
    require(all(op.operand_dims(i) == rows for i in range(3, 6)), "has arrays of offsets and sizes that differ in size")
    require(len(rows) >= 1, "has a scalar of offsets")
    size = group_size(op.attributes)
    if size is None or len(rows) != 1:
        return operand, output, rows, None
    require(size > 0 and rows[0] % size == 0, f"has {rows[0]} offsets for groups of {size}")
    return operand, output, rows, rows[0] // size


@output_to_input(Opcode.RAGGED_ALL_TO_ALL, attributes=replica_groups)
def ragged_all_to_all_output_to_input(op: Op, output: int) -> Rows:
    """The element of operand 1, the array that is written to, at the same index; or an element that a replica of the
    group sends, at any index along the first dimension.

    The elements of a replica's offsets and sizes at the executing replica's position say what that replica sends to the
    executing replica.
    """
    operand, dims, rows, share = _exchange(op)
    group = all_of_group(dims, op.attributes)
    sent = across(dims, operand, {0})
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
    """An element that is sent goes to any index along the first dimension, on any replica of the group. An offset or
    size takes part in the whole result of the replica that receives the slice.
    """
    source, dims, rows, share = _exchange(op)
    if operand == 1:
        return (identity(dims),)
    if operand == 0:
        sent = across(source, dims, {0})
        return ((Access(sent, replicas=all_of_group(source, op.attributes)),),)
    whole = everything(rows, dims)
    if operand == 5:
        return ((whole,),)
    if share is None:
        return ((whole._replace(replicas=all_of_group(rows, op.attributes)),),)
    return ((whole._replace(replicas=Replicas(make_map(rows, [dim(0) // max(1, share)]), op.attributes.groups)),),)
