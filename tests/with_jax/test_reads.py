"""`reads` on functions of the JAX that is installed: runs beside any version from 0.4.35 on, and is skipped without
JAX."""

from __future__ import annotations

from typing import Any

import pytest

import xlashape as xs

jax = pytest.importorskip("jax", reason="JAX is not installed")
jnp = jax.numpy


@jax.jit
def layer(x: Any, *, w: Any) -> Any:
    return jax.nn.softmax(jnp.tanh(x @ w), axis=0).T


def test_what_a_function_reads():
    x, w = jnp.ones((64, 32)), jnp.ones((32, 128))
    report = xs.reads(layer, x, w=w)
    compiled = layer.lower(x, w=w).compile()
    assert str(report) == str(xs.reads(layer.lower(x, w=w))) == str(xs.reads(compiled))
    entry = xs.HloModule.of(compiled).entry
    read = {row.operand_name for row in report.rows if row.computation == entry.name}
    assert {parameter.name for parameter in entry.parameters} <= read
    sizes = {row.operand_shape: row.bytes for row in report.rows}
    assert sizes["f32[64,32]{1,0}"] == 64 * 32 * 4 and sizes["f32[32,128]{1,0}"] == 32 * 128 * 4
    assert not report.errors and report.target == "cpu"


def test_errors_of_jax_stay_its_own():
    with pytest.raises(TypeError):
        xs.reads(layer, jnp.ones((64, 32)), w=jnp.ones((3, 3)))
    with pytest.raises(xs.errors.InvalidArgumentError, match="cannot be lowered without arguments"):
        xs.reads(layer)
