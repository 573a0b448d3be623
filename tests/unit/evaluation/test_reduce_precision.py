"""reduce-precision rounds as a conversion to a type of the same format, and is a rounding for `equivalent`."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xlashape as xs

MODULE = "ENTRY e {{ p = f32[{n}] parameter(0) ROOT r = f32[{n}] {what} }}"


@pytest.mark.parametrize(("dtype", "bits"), [(ml_dtypes.bfloat16, (8, 7)), (np.float16, (5, 10))])
def test_it_rounds_as_a_conversion_does(dtype, bits) -> None:
    r = np.random.default_rng(0)
    x = (r.normal(size=5000) * 10.0 ** r.integers(-30, 30, 5000)).astype(np.float32)
    x = np.concatenate([x, np.float32([0.0, -0.0, np.inf, -np.inf])])
    with np.errstate(over="ignore"):
        expected = x.astype(dtype).astype(np.float32)
    expected[np.abs(expected) < float(ml_dtypes.finfo(dtype).smallest_normal)] = 0  # XLA has no denormals here
    what = f"reduce-precision(p), exponent_bits={bits[0]}, mantissa_bits={bits[1]}"
    [found] = xs.evaluate(MODULE.format(n=len(x), what=what), [x])
    assert np.array_equal(found, expected)


def test_a_module_without_it_rounds_otherwise() -> None:
    a = MODULE.format(n=4, what="reduce-precision(p), exponent_bits=8, mantissa_bits=7")
    b = MODULE.format(n=4, what="copy(p)")
    assert xs.equivalent(a, b).verdict == "equal over the reals"
    assert xs.equivalent(a, a).verdict == "equal"
