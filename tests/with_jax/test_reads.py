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


def test_layouts_that_are_advised_make_programs_fetch_less():
    """Programs are compiled again with each layout that is advised. XLA may answer with other fusions; it mostly does
    not."""
    if tuple(int(part) for part in jax.__version_info__[:2]) < (0, 7):
        pytest.skip("Format and Layout have these names from JAX 0.7 on")
    from moving_programs import programs

    better: list[bool] = []
    for program in programs():
        report = xs.reads(program.compile())
        numbers = {each.metadata.op_name or each.name: each.number for each in report.module.entry.parameters}
        advised = [text for row in report for text in (row.mend or "").split(", or ") if "_shardings of " in text]
        for text in dict.fromkeys(advised):
            place, _, order = text.partition(": Format(Layout(")
            name = place.partition(" of ")[2]
            where = str(numbers[name]) if text.startswith("in_") else f"{{{''.join(filter(str.isdecimal, name))}}}"
            after = xs.reads(program.edited((f"layout {where} {order.partition('), ')[0]}",)).compile())
            better.append(after.again_bytes + after.wasted_bytes < report.again_bytes + report.wasted_bytes)
    assert len(better) >= 20
    assert sum(better) >= 0.9 * len(better), better


def test_errors_of_jax_stay_its_own():
    with pytest.raises(TypeError):
        xs.reads(layer, jnp.ones((64, 32)), w=jnp.ones((3, 3)))
    with pytest.raises(xs.errors.InvalidArgumentError, match="cannot be lowered without arguments"):
        xs.reads(layer)
