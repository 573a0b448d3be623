"""The rules of slices, dynamic slices, gathers and scatters.

A gather's slice, like a scatter's update, is a *window*: it starts at an index vector, and has all dimensions of the
operand except those that are collapsed or shared with the indices (batching). The other dimensions of the output
(updates) are *batch* dimensions: they are the position of the index vector. A gather clamps the start of a slice so
that the slice stays inside the operand; a scatter leaves out an update that does not stay inside.

The docstring of a rule says what an element of an output reads (`…_output_to_input`), or which elements of the outputs
an element of an operand takes part in (`…_input_to_output`).
"""

from __future__ import annotations

from typing import NamedTuple

from xlashape.base.math import ceil_div
from xlashape.hlo import Opcode
from xlashape.hlo.values.dimension_numbers import GatherDimensionNumbers, ScatterDimensionNumbers
from xlashape.hlo.values.window import DYNAMIC_SLICE_SIZES, SLICE, SLICE_SIZES, SliceDimension
from xlashape.indexing.answers.leaves import dims_of
from xlashape.indexing.ops.op import Access, Malformed, Op, Rows, Runtime, require, require_dims
from xlashape.indexing.ops.register import fields, input_to_output, keyed_by, output_to_input, without_bounds
from xlashape.indexing.ops.rows import everything, identity, make_map, to_scalar
from xlashape.proto import xla
from xlashape.symbolic import Expr, Interval, const, dim, rng, rt

without_bounds(Opcode.SLICE, Opcode.DYNAMIC_SLICE, Opcode.DYNAMIC_UPDATE_SLICE)


@output_to_input(Opcode.SLICE, attributes=SLICE)
def slice_output_to_input(op: Op, output: int) -> Rows:
    """Index i of the output reads index start + i · stride."""
    results = [dim(d) * stride + start for d, (start, _, stride) in enumerate(_slice(op))]
    return ((Access(make_map(op.output_dims(output), results)),),)


@input_to_output(Opcode.SLICE, attributes=SLICE)
def slice_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """Element start + i · stride of the operand goes to index i; the elements between go nowhere."""
    out = op.output_dims(0)
    bounds: list[Interval] = []
    results: list[Expr] = []
    constraints: list[tuple[Expr, Interval]] = []
    for d, (start, _, stride) in enumerate(_slice(op)):
        bounds.append(Interval(start, start + (out[d] - 1) * stride))
        results.append((dim(d) - start) // stride if stride > 1 else dim(d) - start)
        if stride > 1:
            constraints.append(((dim(d) - start) % stride, Interval(0, 0)))
    return ((Access(make_map(bounds, results, constraints=constraints)),),)


def _slice(op: Op) -> tuple[SliceDimension, ...]:
    op.require_operands(1)
    out, source, parts = op.output_dims(0), op.operand_dims(0), op.attributes
    require(len(out) == len(source) == len(parts), "slices another rank than the operand's")
    for n, size, (start, limit, stride) in zip(source, out, parts, strict=True):
        fits = 0 <= start <= limit <= n and stride >= 1 and size == ceil_div(limit - start, stride)
        if not fits:
            raise Malformed(f"takes [{start}:{limit}:{stride}] of {n} elements into {size}")
    return parts


def _offsets(op: Op, dims: tuple[int, ...], first: int, rank: int) -> tuple[Runtime, ...]:
    """The producers of the offsets: a scalar operand for each dimension, or in an older form one vector of all offsets.

    `first` is the number of the first such operand.
    """
    given = len(op.operands) - first
    if given == 1 and rank != 1 and len(op.operands[first]) == 1 and len(op.operand_dims(first)) == 1:
        require(op.operand_dims(first) == (rank,), lambda: f"has {op.operand_dims(first)[0]} offsets for rank {rank}")
        return tuple(Runtime(first, make_map(dims, [const(d)])) for d in range(rank))
    if given == 1 and rank == 1 and op.operand_dims(first) == (1,):
        return (Runtime(first, make_map(dims, [const(0)])),)
    require(given == rank, lambda: f"has {given} offsets for rank {rank}")
    require(
        all(len(op.operands[i]) == 1 and not op.operand_dims(i) for i in range(first, first + rank)),
        "has an offset that is not a scalar",
    )
    scalar = make_map(dims, ())
    return tuple(Runtime(first + d, scalar) for d in range(rank))


@output_to_input(Opcode.DYNAMIC_SLICE, attributes=DYNAMIC_SLICE_SIZES)
def dynamic_slice_output_to_input(op: Op, output: int) -> Rows:
    """Index i of the output reads index i + offset. Offsets are clamped so that the whole slice stays inside the
    operand.
    """
    out, source, offset_bounds = _dynamic_slice(op)
    runtime = _offsets(op, out, 1, len(source))
    read = make_map(out, [dim(d) + rt(d) for d in range(len(out))], runtime=offset_bounds)
    return (Access(read, 0, runtime),), *_offset_rows(op, out, 1)


@input_to_output(Opcode.DYNAMIC_SLICE, attributes=DYNAMIC_SLICE_SIZES)
def dynamic_slice_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """Index i of the operand goes to index i - offset, if that lies in the slice; an offset takes part in every
    element.
    """
    out, source, offset_bounds = _dynamic_slice(op)
    if operand:
        return ((everything(op.operand_dims(operand, leaf), out),),)
    results = [dim(d) - rt(d) for d in range(len(out))]
    inside = [(result, Interval(0, n - 1)) for result, n in zip(results, out, strict=True)]
    moved = make_map(source, results, runtime=offset_bounds, constraints=inside)
    return ((Access(moved, 0, _offsets(op, source, 1, len(source))),),)


def _dynamic_slice(op: Op) -> tuple[tuple[int, ...], tuple[int, ...], list[Interval]]:
    require(len(op.operands) >= 1 and len(op.operands[0]) == 1, "slices one array")
    out, source = op.output_dims(0), op.operand_dims(0)
    sizes = op.attributes or out
    require(
        len(source) == len(out) == len(sizes) and sizes == out,
        lambda: f"takes slices of {list(sizes)} into {list(out)}",
    )
    return out, source, _offset_bounds(source, out)


def _offset_bounds(whole: tuple[int, ...], part: tuple[int, ...]) -> list[Interval]:
    """The bounds of the offsets of a part that stays inside the whole."""
    require(
        all(a >= b for a, b in zip(whole, part, strict=True)), lambda: f"cannot fit {list(part)} into {list(whole)}"
    )
    return [Interval(0, a - b) for a, b in zip(whole, part, strict=True)]


def _offset_rows(op: Op, dims: tuple[int, ...], first: int) -> list[tuple[Access, ...]]:
    """The rows of the offsets, which every element reads."""
    rows: list[tuple[Access, ...]] = []
    for operand in range(first, len(op.operands)):
        own = op.operand_dims(operand)
        rows.append((everything(dims, own),) if own else to_scalar(dims))
    return rows


@output_to_input(Opcode.DYNAMIC_UPDATE_SLICE)
def dynamic_update_slice_output_to_input(op: Op, output: int) -> Rows:
    """Index i of the output reads the operand at i and the update at i - offset. An index outside the update means that
    the update is not read, as in XLA's maps.
    """
    out, update, offset_bounds = _dynamic_update_slice(op)
    moved = make_map(out, [dim(d) - rt(d) for d in range(len(out))], runtime=offset_bounds)
    written = Access(moved, 0, _offsets(op, out, 2, len(update)), stays_inside=out == update)
    return identity(out), (written,), *_offset_rows(op, out, 2)


@input_to_output(Opcode.DYNAMIC_UPDATE_SLICE)
def dynamic_update_slice_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """Index i of the operand goes to index i, index i of the update to i + offset; an offset takes part in every
    element.
    """
    out, update, offset_bounds = _dynamic_update_slice(op)
    if operand == 0:
        return (identity(out),)
    if operand > 1:
        return ((everything(op.operand_dims(operand, leaf), out),),)
    moved = make_map(update, [dim(d) + rt(d) for d in range(len(out))], runtime=offset_bounds)
    return ((Access(moved, 0, _offsets(op, update, 2, len(update))),),)


def _dynamic_update_slice(op: Op) -> tuple[tuple[int, ...], tuple[int, ...], list[Interval]]:
    require(len(op.operands) >= 2 and len(op.operands[0]) == len(op.operands[1]) == 1, "writes one array into another")
    out, source, update = op.output_dims(0), op.operand_dims(0), op.operand_dims(1)
    require(
        out == source and len(update) == len(out),
        lambda: f"writes {list(update)} into {list(source)} giving {list(out)}",
    )
    return out, update, _offset_bounds(out, update)


# -- gathers and scatters ----------------------------------------------------------------------


class _IndexNumbers(NamedTuple):
    """Dimension numbers of a gather or scatter, named as the gather names them.

    The *window* is the slice that is read, or the update that is written.

    - `window_dims`: its dimensions in the output (scatter: in the updates).
    - `collapsed`: the dimensions of the operand that the window does not have.
    - `index_map`: the operand's dimension for each element of an index vector.
    - `index_vector_dim`: the dimension of the indices that an index vector extends along.
    - `operand_batching` and `index_batching`: dimensions that operand and indices share, pair by pair.
    - `sizes`: the sizes of a gather's slice; empty for a scatter.
    """

    window_dims: tuple[int, ...]
    collapsed: tuple[int, ...]
    index_map: tuple[int, ...]
    index_vector_dim: int
    operand_batching: tuple[int, ...]
    index_batching: tuple[int, ...]
    sizes: tuple[int, ...]


@keyed_by(fields("gather_dimension_numbers", "gather_slice_sizes"))
def _gather_numbers(instruction: xla.HloInstructionProto) -> _IndexNumbers:
    numbers = GatherDimensionNumbers.of_proto(instruction.gather_dimension_numbers)
    return _IndexNumbers(*numbers, SLICE_SIZES.of(instruction))


@keyed_by(fields("scatter_dimension_numbers"))
def _scatter_numbers(instruction: xla.HloInstructionProto) -> _IndexNumbers:
    return _IndexNumbers(*ScatterDimensionNumbers.of_proto(instruction.scatter_dimension_numbers), ())


class _Indexed:
    """The role of each dimension of a gather or a scatter. `windowed` are the sizes of the output (scatter: of the
    updates).
    """

    def __init__(
        self, n: _IndexNumbers, operand: tuple[int, ...], indices: tuple[int, ...], windowed: tuple[int, ...]
    ) -> None:
        self.n, self.operand, self.indices, self.windowed = n, operand, indices, windowed
        rank = len(operand)
        require(
            0 <= n.index_vector_dim <= len(indices),
            f"has index vectors along dimension {n.index_vector_dim} of {list(indices)}",
        )
        require_dims("window dimensions", n.window_dims, len(windowed))
        require_dims("collapsed and batching dimensions", (*n.collapsed, *n.operand_batching), rank)
        require_dims("the index map", n.index_map, rank)
        require(
            len(n.operand_batching) == len(n.index_batching),
            "pairs different numbers of batching dimensions of operand and indices",
        )
        # The dimensions of the indices other than that of index vectors, and the output's batch dimensions, in the same
        # order.
        self.index_dims = tuple(d for d in range(len(indices)) if d != n.index_vector_dim)
        self.batch_dims = tuple(d for d in range(len(windowed)) if d not in n.window_dims)
        require(
            all(d in self.index_dims for d in n.index_batching),
            f"shares dimensions {list(n.index_batching)} of indices {list(indices)}",
        )
        require(
            tuple(indices[d] for d in self.index_dims) == tuple(windowed[d] for d in self.batch_dims),
            f"has indices {list(indices)} that do not fit {list(windowed)}",
        )
        vector = indices[n.index_vector_dim] if n.index_vector_dim < len(indices) else 1
        require(vector == len(n.index_map), f"has index vectors of {vector} elements for {len(n.index_map)} dimensions")
        # The window's size along each dimension of the operand, and its dimension in the output; size 1 where it has no
        # such dimension.
        kept = [d for d in range(rank) if d not in n.collapsed and d not in n.operand_batching]
        require(len(kept) == len(n.window_dims), f"has {len(n.window_dims)} window dimensions for {len(kept)}")
        self.window_of: dict[int, int] = dict(zip(kept, n.window_dims, strict=True))
        sizes = tuple(windowed[self.window_of[d]] if d in self.window_of else 1 for d in range(rank))
        if n.sizes:
            require(n.sizes == sizes, f"has slices of {list(n.sizes)} that do not fit {list(windowed)}")
        require(
            all(a <= b for a, b in zip(sizes, operand, strict=True)) or 0 in windowed,
            f"has windows of {list(sizes)} in {list(operand)}",
        )
        self.sizes = sizes
        self.runtime_of = {d: k for k, d in enumerate(d for d in range(rank) if d in n.index_map)}
        self.start_bounds = tuple(Interval(0, operand[d] - sizes[d]) for d in self.runtime_of)

    def batch_index(self, d: int) -> int:
        """The number of the batch dimension that is dimension `d` of the indices."""
        return self.index_dims.index(d)

    def start(self, batch: list[Expr], d: int) -> list[Expr]:
        """The index, in the indices, of the element that holds the start along dimension `d` of the operand."""
        index: list[Expr] = []
        for i in range(len(self.indices)):
            index.append(
                const(self.n.index_map.index(d)) if i == self.n.index_vector_dim else batch[self.batch_index(i)]
            )
        return index

    def runtime(
        self, operand: int, dims: tuple[int, ...], ranges: tuple[int, ...], batch: list[Expr], *, clamped: bool
    ) -> tuple[Runtime, ...]:
        """The producers of the starts, for a map with these dimensions and ranges."""
        return tuple(
            Runtime(operand, make_map(dims, self.start(batch, d), ranges=ranges), clamped) for d in self.runtime_of
        )

    def in_operand(self, batch: list[Expr], window: dict[int, Expr]) -> list[Expr]:
        """The operand's index, from the batch index and the index in the window."""
        results: list[Expr] = []
        for d in range(len(self.operand)):
            if d in self.n.operand_batching:
                results.append(batch[self.batch_index(self.n.index_batching[self.n.operand_batching.index(d)])])
                continue
            inside = window.get(d)
            if d in self.runtime_of:
                start = rt(self.runtime_of[d])
                results.append(start if inside is None else inside + start)
            else:
                results.append(const(0) if inside is None else inside)
        return results

    def forward(self, operand_number: int, *, clamped: bool) -> Access:
        """From the output (updates) to the operand."""
        batch: list[Expr] = [dim(d) for d in self.batch_dims]
        window: dict[int, Expr] = {d: dim(w) for d, w in self.window_of.items()}
        indexing_map = make_map(self.windowed, self.in_operand(batch, window), runtime=self.start_bounds)
        return Access(indexing_map, 0, self.runtime(operand_number, self.windowed, (), batch, clamped=clamped))

    def backward(self, operand_number: int, *, clamped: bool) -> Access:
        """From the operand to the output (updates): every index vector may start a window that covers the element."""
        ranges = tuple(self.windowed[d] for d in self.batch_dims)
        batch: list[Expr] = [rng(i) for i in range(len(ranges))]
        constraints: list[tuple[Expr, Interval]] = []
        for d, i in zip(self.n.operand_batching, self.n.index_batching, strict=True):
            constraints.append((rng(self.batch_index(i)) - dim(d), Interval(0, 0)))
        results: list[Expr] = [const(0)] * len(self.windowed)
        for number, d in enumerate(self.batch_dims):
            results[d] = batch[number]
        for d in range(len(self.operand)):
            if d in self.n.operand_batching:
                continue
            inside: Expr = dim(d) - rt(self.runtime_of[d]) if d in self.runtime_of else dim(d)
            constraints.append((inside, Interval(0, self.sizes[d] - 1)))
            if d in self.window_of:
                results[self.window_of[d]] = inside
        indexing_map = make_map(
            self.operand, results, ranges=ranges, runtime=self.start_bounds, constraints=constraints
        )
        return Access(indexing_map, 0, self.runtime(operand_number, self.operand, ranges, batch, clamped=clamped))

    def to_indices(self) -> Access:
        """From the output (updates) to the indices: the whole index vector."""
        results: list[Expr] = []
        for i in range(len(self.indices)):
            results.append(rng(0) if i == self.n.index_vector_dim else dim(self.batch_dims[self.batch_index(i)]))
        ranges = () if self.n.index_vector_dim == len(self.indices) else (self.indices[self.n.index_vector_dim],)
        return Access(make_map(self.windowed, results, ranges=ranges))

    def from_indices(self) -> Access:
        """From the indices to the output (updates): the whole window."""
        results: list[Expr] = [const(0)] * len(self.windowed)
        for number, d in enumerate(self.batch_dims):
            results[d] = dim(self.index_dims[number])
        for s, d in enumerate(self.n.window_dims):
            results[d] = rng(s)
        return Access(make_map(self.indices, results, ranges=[self.windowed[d] for d in self.n.window_dims]))


def _gather(op: Op) -> _Indexed:
    require(len(op.operands) == 2 and all(len(operand) == 1 for operand in op.operands), "takes an operand and indices")
    return _Indexed(op.attributes, op.operand_dims(0), op.operand_dims(1), op.output_dims(0))


@output_to_input(Opcode.GATHER, attributes=_gather_numbers)
def gather_output_to_input(op: Op, output: int) -> Rows:
    """The start plus the index in the slice; of the indices, the whole index vector."""
    indexed = _gather(op)
    return (indexed.forward(1, clamped=True),), (indexed.to_indices(),)


@input_to_output(Opcode.GATHER, attributes=_gather_numbers)
def gather_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """Every slice that covers the element; an index takes part in its whole slice."""
    indexed = _gather(op)
    return ((indexed.from_indices() if operand else indexed.backward(1, clamped=True),),)


def _scatter(op: Op) -> tuple[int, _Indexed]:
    count = len(op.operands) // 2
    require(
        count >= 1 and len(op.operands) == 2 * count + 1 and len(op.outputs) == count,
        "takes other than n operands, indices and n updates",
    )
    require(all(len(operand) == 1 for operand in op.operands), "has a tuple among its operands")
    operand, updates = op.operand_dims(0), op.operand_dims(count + 1)
    require(all(op.operand_dims(i) == operand for i in range(count)), "has operands of different sizes")
    require(
        all(op.operand_dims(i) == updates for i in range(count + 1, 2 * count + 1)), "has updates of different sizes"
    )
    require(all(dims_of(shape) == operand for shape in op.outputs), "changes the shape")
    return count, _Indexed(op.attributes, operand, op.operand_dims(count), updates)


@output_to_input(Opcode.SCATTER, attributes=_scatter_numbers)
def scatter_output_to_input(op: Op, output: int) -> Rows:
    """The operands at the same index; every update that may be written there; every element of the indices, any of
    which may name this index.
    """
    count, indexed = _scatter(op)
    dims = op.output_dims(output)
    written = (indexed.backward(count, clamped=False),)
    return (identity(dims),) * count + ((everything(dims, indexed.indices),),) + (written,) * count


@input_to_output(Opcode.SCATTER, attributes=_scatter_numbers)
def scatter_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """An operand's element keeps its index; an update goes to the place that its index vector names; an index may name
    any element.
    """
    count, indexed = _scatter(op)
    if operand < count:
        return (identity(indexed.operand),) * count
    if operand == count:
        return ((everything(indexed.indices, indexed.operand),),) * count
    return ((indexed.forward(count, clamped=False),),) * count
