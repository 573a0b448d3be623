"""Reports take a jitted function with its arguments as they take what it is lowered or compiled to."""

from __future__ import annotations

import pytest

import xlashape as xs

jax = pytest.importorskip("jax")


def test_each_report_takes_a_function_and_its_arguments() -> None:
    function = jax.jit(lambda x, scale=1.0: scale * (x.T @ x))
    x = jax.ShapeDtypeStruct((4, 5), "float32")
    for ask in (xs.memory, xs.cost, xs.why):
        assert ask(function, x).to_dict() == ask(function.lower(x)).to_dict(), ask
        assert ask(function, x, scale=2.0).to_dict() == ask(function.lower(x, scale=2.0)).to_dict(), ask
    for ask in (xs.reads, xs.copies):
        assert ask(function, x).to_dict() == ask(function.lower(x).compile()).to_dict(), ask
    assert str(xs.memory(function, x, target="tpu").target) == "tpu"


def test_a_value_that_is_no_function_takes_no_arguments() -> None:
    for ask in (xs.memory, xs.cost, xs.why, xs.reads, xs.copies):
        with pytest.raises(xs.errors.InvalidArgumentError, match="takes no arguments"):
            ask("HloModule m ENTRY e { ROOT p = f32[4] parameter(0) }", 3)
