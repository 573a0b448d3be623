"""Values of ragged products, compared with those by JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xlashape.evaluation import evaluate

lax = pytest.importorskip("jax.lax", reason="JAX is not installed")

RAGGED: Any = [
    ((9, 5), (3, 5, 4), ([1], [1]), ([], []), 0, [0], (3,)),
    ((5, 9), (9, 4), ([1], [0]), ([], []), 1, [], (3,)),
    ((9, 2, 5), (9, 5, 4), ([2], [1]), ([0], [0]), 0, [], (3,)),
    ((2, 9, 5), (3, 2, 5, 4), ([2], [2]), ([0], [1]), 1, [0], (2, 3)),
    ((2, 5, 9), (2, 9, 4), ([2], [1]), ([0], [0]), 2, [], (2, 3)),
    ((2, 6, 9, 5), (3, 5, 4), ([3], [1]), ([], []), 2, [0], (2, 6, 3)),
]
"""Sizes of both sides, contracting and batch dimensions, the ragged one, those of groups, sizes of the group sizes."""


@pytest.mark.parametrize(("left", "right", "contracted", "batches", "ragged", "groups", "sizes"), RAGGED)
def test_ragged_products_are_those_of_jax(
    left: Any, right: Any, contracted: Any, batches: Any, ragged: int, groups: Any, sizes: Any
) -> None:
    """XLA does not run ragged-dot on a CPU: JAX makes other operations of it."""
    if not hasattr(lax, "ragged_dot_general"):
        pytest.skip("this JAX has no ragged_dot_general")
    rng = np.random.default_rng(len(left))
    a, b = (rng.normal(size=dims).astype(np.float32) for dims in (left, right))
    given = rng.integers(0, left[ragged] // 3 + 1, sizes).astype(np.int32)
    numbers = lax.RaggedDotDimensionNumbers((contracted, batches), [ragged], groups)
    expected = np.asarray(lax.ragged_dot_general(a, b, given, numbers))
    named = {
        "lhs_batch_dims": batches[0], "rhs_batch_dims": batches[1], "lhs_contracting_dims": contracted[0],
        "rhs_contracting_dims": contracted[1], "lhs_ragged_dims": [ragged], "rhs_group_dims": groups,
    }  # fmt: skip
    attributes = ", ".join(f"{name}={{{','.join(map(str, dims))}}}" for name, dims in named.items() if dims)
    shapes = [f"{kind}[{','.join(map(str, x.shape))}]" for kind, x in (("f32", a), ("f32", b), ("s32", given))]
    text = "".join(f"  p{i} = {shape} parameter({i})\n" for i, shape in enumerate(shapes))
    result = f"f32[{','.join(map(str, expected.shape))}] ragged-dot(p0, p1, p2), {attributes}"
    (found,) = evaluate(f"HloModule m\n\nENTRY e {{\n{text}  ROOT r = {result}\n}}\n", [a, b, given])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
