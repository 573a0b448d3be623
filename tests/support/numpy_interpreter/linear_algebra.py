"""fft, cholesky, triangular-solve."""

from __future__ import annotations

import numpy as np

from numpy_interpreter.core import Value, dtype_of, interprets
from xlashape.hlo import HloInstruction
from xlashape.proto import xla


@interprets("fft")
def fft(instruction: HloInstruction, args: list[Value]) -> Value:
    lengths = list(instruction.details.fft_length)
    axes = tuple(range(-len(lengths), 0))
    kind = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}
    return kind[xla.FftType.Name(instruction.details.fft_type)](args[0], lengths, axes).astype(
        dtype_of(instruction.shape)
    )


@interprets("cholesky")
def cholesky(instruction: HloInstruction, args: list[Value]) -> Value:
    """The Cholesky factor. Only the requested triangle is read; the other triangle of the result is 0."""
    lower = instruction.details.cholesky_options.lower
    a = args[0] if lower else np.swapaxes(args[0], -1, -2)
    factor = np.linalg.cholesky(np.tril(a) + np.swapaxes(np.tril(a, -1), -1, -2))
    return factor if lower else np.swapaxes(factor, -1, -2)


@interprets("triangular-solve")
def triangular_solve(instruction: HloInstruction, args: list[Value]) -> Value:
    options, (a, b) = instruction.details.triangular_solve_options, args
    triangle = np.tril(a) if options.lower else np.triu(a)
    if options.unit_diagonal:
        eye = np.eye(a.shape[-1])
        triangle = triangle * (1 - eye) + eye
    if options.transpose_a in (xla.TriangularSolveOptions.TRANSPOSE, xla.TriangularSolveOptions.ADJOINT):
        triangle = np.swapaxes(triangle, -1, -2)
    if options.left_side:
        return _solved(triangle, b, lower=options.lower != (options.transpose_a in (2, 3)))
    # x a = b is aᵀ xᵀ = bᵀ.
    turned = _solved(
        np.swapaxes(triangle, -1, -2), np.swapaxes(b, -1, -2), lower=options.lower == (options.transpose_a in (2, 3))
    )
    return np.swapaxes(turned, -1, -2)


def _solved(triangle: np.ndarray, b: np.ndarray, *, lower: bool) -> np.ndarray:
    """Solves by substitution, so that an unknown depends only on the equations up to its own."""
    n = triangle.shape[-1]
    x = np.zeros_like(b)
    for i in range(n) if lower else reversed(range(n)):
        known = np.einsum("...k,...km->...m", triangle[..., i, :], x)
        x[..., i, :] = (b[..., i, :] - known) / triangle[..., i, i, None]
    return x
