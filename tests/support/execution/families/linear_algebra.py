"""fft of all four kinds; cholesky; triangular-solve on either side, with either triangle, and with or without a unit
diagonal.
"""

from __future__ import annotations

import random

import numpy as np

from execution.case import Case, family, make, sizes, text


@family(seeds=24)
def fft(r: random.Random, seed: int) -> Case:
    kind = ("FFT", "IFFT", "RFFT", "IRFFT")[seed % 4]
    dims = sizes(r, 1, 3, 4)
    lengths = dims[-r.randint(1, len(dims)) :]
    half = [*dims[:-1], dims[-1] // 2 + 1]
    fields = {"fft_length": lengths, "fft_type": kind}
    if kind == "RFFT":
        return make("fft", text("c128", half), [text("f64", dims)], **fields)
    if kind == "IRFFT":
        return make("fft", text("f64", dims), [text("c128", half)], **fields)
    return make("fft", text("c128", dims), [text("c128", dims)], **fields)


def _dominant(low: float, high: float):
    """Draws matrices with a dominant diagonal."""

    def drawn(rng: np.random.Generator, dims: tuple[int, ...]) -> np.ndarray:
        eye = np.eye(dims[-1])
        return rng.uniform(0.25, 1, dims) * (1 - eye) + rng.uniform(low, high, dims) * eye

    return drawn


@family(seeds=12)
def cholesky(r: random.Random, seed: int) -> Case:
    n, lower = r.randint(1, 4), seed % 2 == 0
    dims = [*sizes(r, 0, 1, 2), n, n]
    asked = np.tril(np.ones((n, n), dtype=bool)) if lower else np.triu(np.ones((n, n), dtype=bool))
    case = {"domains": {0: _dominant(8, 12)}, "unjudged": {0: ~np.broadcast_to(asked, dims)}}
    return make("cholesky", text("f64", dims), [text("f64", dims)], case=case, cholesky_options={"lower": lower})


@family(seeds=16)
def triangular_solve(r: random.Random, seed: int) -> Case:
    left, lower, unit, transposed = (bool(seed & bit) for bit in (1, 2, 4, 8))
    n, m = r.randint(1, 4), r.randint(1, 3)
    batch = sizes(r, 0, 1, 2)
    options = {
        "left_side": left,
        "lower": lower,
        "unit_diagonal": unit,
        "transpose_a": r.choice(["TRANSPOSE", "ADJOINT"]) if transposed else "NO_TRANSPOSE",
    }
    b = text("f64", [*batch, n, m] if left else [*batch, m, n])
    case = {"domains": {0: _dominant(3, 4)}}
    return make("triangular-solve", b, [text("f64", [*batch, n, n]), b], case=case, triangular_solve_options=options)
