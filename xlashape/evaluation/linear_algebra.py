"""fft, cholesky, triangular-solve. All are sums and products of the domain."""

# NumPy's stubs leave the types of many results unknown.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import numpy as np

from xlashape.evaluation.elementwise import is_real
from xlashape.evaluation.machine import Array, Machine, Value, evaluates, unsupported
from xlashape.hlo import HloInstruction
from xlashape.proto import xla


@evaluates("fft")
def fft(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    details, domain = instruction.details, machine.domain
    kind, lengths = xla.FftType.Name(details.fft_type), list(details.fft_length)
    x = args[0]
    if not instruction.operands[0].shape.element_type.is_complex:
        x = domain.complex(*domain.joined([x, np.zeros(x.shape)]))
    axis = x.ndim - len(lengths)
    if kind == "IRFFT":
        x = _mirrored(machine, x, lengths)
    first, second = domain.real(x), domain.imag(x)
    for k, length in enumerate(lengths):
        first, second = _transformed(machine, first, second, axis + k, length, inverse=kind.startswith("I"))
    if kind == "IRFFT":
        return first
    if kind == "RFFT":
        first, second = (part[..., : lengths[-1] // 2 + 1] for part in (first, second))
    return domain.complex(first, second)


def _mirrored(machine: Machine, x: Array, lengths: list[int]) -> Array:
    """The whole spectrum of a real signal from its first half."""
    domain, n = machine.domain, lengths[-1]
    tail = x[..., 1 : n - n // 2]
    for axis in range(x.ndim - len(lengths), x.ndim - 1):
        tail = np.take(tail, -np.arange(tail.shape[axis]) % tail.shape[axis], axis)
    tail = np.flip(domain.complex(domain.real(tail), domain.negate(domain.imag(tail))), -1)
    return np.concatenate([x[..., : n // 2 + 1], tail], -1)


def _transformed(
    machine: Machine, first: Array, second: Array, axis: int, n: int, *, inverse: bool
) -> tuple[Array, Array]:
    domain = machine.domain
    angle = 2 * np.pi * (np.outer(np.arange(n), np.arange(n)) % n) / n * (1 if inverse else -1)
    scale = n if inverse else 1
    cosine, sine = domain.number(np.cos(angle) / scale), domain.number(np.sin(angle) / scale)

    def product(x: Array, matrix: Array) -> Array:
        moved: Array = np.moveaxis(x, axis, -1)
        found: Array = domain.matmul(moved.reshape((1, -1, n)), matrix[None])
        back: Array = found.reshape(moved.shape)
        return np.moveaxis(back, -1, axis)

    return (
        domain.subtract(product(first, cosine), product(second, sine)),
        domain.add(product(first, sine), product(second, cosine)),
    )


@evaluates("cholesky")
def cholesky(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    """The Cholesky factor. Only the requested triangle is read; the other triangle of the result is 0."""
    if not is_real(instruction.shape.element_type):
        raise unsupported(instruction, "of complex numbers is not known")
    return factored(machine, args[0], lower=instruction.details.cholesky_options.lower)


def factored(machine: Machine, x: Array, *, lower: bool) -> Array:
    """The Cholesky factor of the matrices in the last two dimensions."""
    domain = machine.domain
    a = x if lower else np.swapaxes(x, -1, -2)
    n = a.shape[-1]
    zero = np.broadcast_to(domain.one(0), a.shape[:-1])
    columns: list[Array] = []
    for j in range(n):
        column = a[..., :, j]
        for earlier in columns:
            column = domain.subtract(column, domain.multiply(earlier, earlier[..., j, None]))
        root = domain.sqrt(column[..., j, None])
        below: Array = np.asarray(np.arange(n) > j)
        column = np.where(below, *domain.joined([domain.divide(column, root), zero]))
        here: Array = np.asarray(np.arange(n) == j)
        columns.append(np.where(here, *domain.joined([np.broadcast_to(root, zero.shape), column])))
    factor = np.stack(domain.joined(columns), -1) if n else a
    return factor if lower else np.swapaxes(factor, -1, -2)


@evaluates("triangular-solve")
def triangular_solve(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    if not is_real(instruction.shape.element_type):
        raise unsupported(instruction, "of complex numbers is not known")
    options = instruction.details.triangular_solve_options
    turned = options.transpose_a in (xla.TriangularSolveOptions.TRANSPOSE, xla.TriangularSolveOptions.ADJOINT)
    return solved(
        machine, args[0], args[1],
        lower=options.lower, turned=turned, left=options.left_side, unit=options.unit_diagonal,
    )  # fmt: skip


def solved(machine: Machine, a: Array, b: Array, *, lower: bool, turned: bool, left: bool, unit: bool) -> Array:
    """x of a·x = b (`left`) or x·a = b, for a triangle of a or, `turned`, its transpose."""
    if turned != (not left):  # x a = b is aᵀ xᵀ = bᵀ
        a, lower = np.swapaxes(a, -1, -2), not lower
    b = b if left else np.swapaxes(b, -1, -2)
    domain, n = machine.domain, a.shape[-1]
    rows: dict[int, Array] = {}
    for i in range(n) if lower else reversed(range(n)):
        row = b[..., i, :]
        for k, known in rows.items():
            row = domain.subtract(row, domain.multiply(a[..., i, k, None], known))
        rows[i] = row if unit else domain.divide(row, a[..., i, i, None])
    x = np.stack(domain.joined([rows[i] for i in range(n)]), -2) if n else b
    return x if left else np.swapaxes(x, -1, -2)
