"""The rules of fft, cholesky and triangular-solve, whose elements depend on whole rows, columns or triangles.

The maps follow from the definition of the result, not from how a backend computes it.

The docstring of a rule says what an element of an output reads (`…_output_to_input`), or which elements of the outputs
an element of an operand takes part in (`…_input_to_output`).
"""

from __future__ import annotations

from typing import NamedTuple

from xlashape.hlo import Opcode
from xlashape.hlo.values.enums import CHOLESKY_LOWER, FFT_TYPE, LEFT_SIDE, TRANSPOSE_A, TRIANGULAR_LOWER, UNIT_DIAGONAL
from xlashape.hlo.values.plain import FFT_LENGTH
from xlashape.indexing.ops.op import Access, Op, Rows, require
from xlashape.indexing.ops.register import input_to_output, output_to_input
from xlashape.indexing.ops.rows import across, make_map
from xlashape.proto import xla
from xlashape.symbolic import Expr, Interval, dim, rng


class _Transform(NamedTuple):
    """The sizes of an fft's operand and output along the transformed dimensions, which are the last ones."""

    operand: tuple[int, ...]
    output: tuple[int, ...]


def _transform(instruction: xla.HloInstructionProto) -> _Transform:
    # The complex array of a transform of n real values (the result of RFFT, the operand of IRFFT) holds n // 2 + 1.
    lengths: tuple[int, ...] = FFT_LENGTH.of(instruction)
    half = (*lengths[:-1], lengths[-1] // 2 + 1) if lengths else ()
    kind = FFT_TYPE.of(instruction)
    return _Transform(half if kind == "IRFFT" else lengths, half if kind == "RFFT" else lengths)


class _Options(NamedTuple):
    """The options of a triangular solve."""

    left: bool
    lower: bool
    unit_diagonal: bool
    transposed: bool


def _options(instruction: xla.HloInstructionProto) -> _Options:
    transposed = TRANSPOSE_A.of(instruction) in ("TRANSPOSE", "ADJOINT")
    flags = (LEFT_SIDE.of(instruction), TRIANGULAR_LOWER.of(instruction), UNIT_DIAGONAL.of(instruction))
    return _Options(*flags, transposed)


@output_to_input(Opcode.FFT, attributes=_transform)
def fft_output_to_input(op: Op, output: int) -> Rows:
    """An output element depends on all elements along the transformed dimensions, which are the last ones."""
    source, out, transformed = _transformed_sizes(op)
    return ((Access(across(out, source, transformed)),),)


@input_to_output(Opcode.FFT, attributes=_transform)
def fft_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """An element takes part in all output elements along the transformed dimensions."""
    source, out, transformed = _transformed_sizes(op)
    return ((Access(across(source, out, transformed)),),)


def _transformed_sizes(op: Op) -> tuple[tuple[int, ...], tuple[int, ...], range]:
    """The sizes of operand and output, and the transformed dimensions."""
    op.require_operands(1)
    lengths: _Transform = op.attributes
    source, out, rank = op.operand_dims(0), op.output_dims(0), len(lengths.operand)
    batch = len(source) - rank
    require(
        len(source) == len(out) >= rank
        and source[:batch] == out[:batch]
        and source[batch:] == lengths.operand
        and out[batch:] == lengths.output,
        f"transforms {list(source)} to {list(out)}, not {list(lengths.operand)} to {list(lengths.output)}",
    )
    return source, out, range(batch, len(out))


def _square(op: Op) -> tuple[tuple[int, ...], int, list[Expr]]:
    """The sizes of operand 0, which is a batch of square matrices, the size of a matrix, and the indices along the
    batch dimensions.
    """
    dims = op.operand_dims(0)
    *_, rows, columns = (-1, -1, *dims)
    require(len(dims) >= 2 and rows == columns, f"takes square matrices, not {list(dims)}")
    return dims, columns, [dim(d) for d in range(len(dims) - 2)]


def _at_least(a: Expr, b: Expr, n: int) -> tuple[Expr, Interval]:
    """The constraint a >= b, for indices below n."""
    return a - b, Interval(0, n - 1)


def _triangle(batch: list[Expr], row: Expr, column: Expr, *, lower: bool) -> list[Expr]:
    """The index of an element of the lower triangle, or of its mirror image in the upper triangle."""
    return [*batch, row, column] if lower else [*batch, column, row]


@output_to_input(Opcode.CHOLESKY, attributes=CHOLESKY_LOWER)
def cholesky_output_to_input(op: Op, output: int) -> Rows:
    """Element (i, j) of the lower factor depends on columns 0 to j of row i, and on rows 0 to j of the operand's lower
    triangle. For the upper factor, rows and columns are swapped.

    The other triangle of the result is not specified; the map names the same elements there.
    """
    dims, n, batch, i, j = _cholesky(op)
    s, t = rng(0), rng(1)
    row = make_map(dims, _triangle(batch, i, s, lower=op.attributes), ranges=[n], constraints=[_at_least(j, s, n)])
    corner = make_map(
        dims,
        _triangle(batch, s, t, lower=op.attributes),
        ranges=[n, n],
        constraints=[_at_least(j, s, n), _at_least(s, t, n)],
    )
    return ((Access(row), Access(corner)),)


@input_to_output(Opcode.CHOLESKY, attributes=CHOLESKY_LOWER)
def cholesky_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """Element (k, l) of the lower triangle takes part in row k from column l on, and in all columns from k on. For the
    upper factor, rows and columns are swapped.
    """
    dims, n, batch, k, l_ = _cholesky(op)
    s, t = rng(0), rng(1)
    row = make_map(dims, _triangle(batch, k, s, lower=op.attributes), ranges=[n], constraints=[_at_least(s, l_, n)])
    columns = make_map(
        dims,
        _triangle(batch, t, s, lower=op.attributes),
        ranges=[n, n],
        constraints=[_at_least(s, k, n), _at_least(k, l_, n)],
    )
    return ((Access(row), Access(columns)),)


def _cholesky(op: Op) -> tuple[tuple[int, ...], int, list[Expr], Expr, Expr]:
    op.require_operands(1)
    dims, n, batch = _square(op)
    require(dims == op.output_dims(0), "changes the shape")
    row, column = dim(len(dims) - 2), dim(len(dims) - 1)
    return (dims, n, batch, row, column) if op.attributes else (dims, n, batch, column, row)


class _Solve:
    """The equations of a triangular-solve: op(a) x = b with `left`, else x op(a) = b. op(a) is a or its transpose.

    Unknown i depends on the right-hand sides b[k] of itself (k = i) and of the unknowns k that are solved before it,
    and on the elements of a in these equations.
    """

    def __init__(self, op: Op) -> None:
        op.require_operands(2)
        options: _Options = op.attributes
        self.left, lower, self.unit, self.transposed = options
        self.matrix, self.n, self.batch = _square(op)
        self.dims = op.output_dims(0)
        rank = len(self.dims)
        require(
            self.dims == op.operand_dims(1) and rank == len(self.matrix) and self.dims[:-2] == self.matrix[:-2],
            "has matrices of sizes that do not fit each other",
        )
        self.axis = rank - 2 if self.left else rank - 1
        self.other = rank - 1 if self.left else rank - 2
        require(self.dims[self.axis] == self.n, f"solves {self.n} unknowns for {self.dims[self.axis]} values")
        # Unknowns are solved from the first to the last with a lower op(a) on the left, or an upper op(a) on the right.
        self.is_forward = (lower != self.transposed) == self.left

    def before(self, k: Expr, i: Expr) -> tuple[Expr, Interval]:
        """The constraint that unknown k is i, or is solved before i."""
        return _at_least(i, k, self.n) if self.is_forward else _at_least(k, i, self.n)

    def element(self, i: Expr, k: Expr) -> list[Expr]:
        """The element of a that multiplies unknown k in equation i."""
        swapped = self.left == self.transposed
        return [*self.batch, k, i] if swapped else [*self.batch, i, k]

    def index(self, i: Expr, other: Expr) -> list[Expr]:
        """The index of unknown i, or of its right-hand side, in column (row) `other` of x or b."""
        return [*self.batch, i, other] if self.left else [*self.batch, other, i]


@output_to_input(Opcode.TRIANGULAR_SOLVE, attributes=_options)
def triangular_solve_output_to_input(op: Op, output: int) -> Rows:
    """An unknown depends on the right-hand sides of the equations up to its own, and on the part of the triangle that
    these equations use.
    """
    solve = _Solve(op)
    n, i, other = solve.n, dim(solve.axis), dim(solve.other)
    s, t = rng(0), rng(1)
    order = [solve.before(s, i), solve.before(t, s)]
    if solve.unit:
        order[1] = (order[1][0], Interval(1, n - 1))
    a = make_map(solve.dims, solve.element(s, t), ranges=[n, n], constraints=order)
    b = make_map(solve.dims, solve.index(s, other), ranges=[n], constraints=[solve.before(s, i)])
    return (Access(a),), (Access(b),)


@input_to_output(Opcode.TRIANGULAR_SOLVE, attributes=_options)
def triangular_solve_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """A right-hand side takes part in its own unknown and those solved later; an element of a in the unknown of its
    equation and those solved later.
    """
    solve = _Solve(op)
    n, s = solve.n, rng(0)
    if operand == 1:
        i, other = dim(solve.axis), dim(solve.other)
        return ((Access(make_map(solve.dims, solve.index(s, other), ranges=[n], constraints=[solve.before(i, s)])),),)
    rank = len(solve.matrix)
    first, second = dim(rank - 2), dim(rank - 1)
    i, k = (second, first) if solve.left == solve.transposed else (first, second)
    used = solve.before(k, i)
    if solve.unit:
        used = (used[0], Interval(1, n - 1))
    others = solve.dims[solve.other]
    updated = make_map(solve.matrix, solve.index(s, rng(1)), ranges=[n, others], constraints=[used, solve.before(i, s)])
    return ((Access(updated),),)
