"""FLOPs and bytes of programs compiled by the JAX that is installed, against what its executables say:
`compiled.cost_analysis()`; how often loops run, and what XLA says of single windows."""

from __future__ import annotations

import random

import pytest
import random_windows

import xlashape as xs

jax = pytest.importorskip("jax", reason="JAX is not installed")
jaxlib = pytest.importorskip("jaxlib", reason="JAX is not installed")
VERSION = tuple(map(int, jaxlib.__version__.split(".")[:2]))
if VERSION < (0, 10):
    pytest.skip(f"jaxlib {jaxlib.__version__} counts otherwise", allow_module_level=True)

import jax_programs  # noqa: E402 - it imports JAX


@pytest.mark.parametrize("name", jax_programs.PROGRAMS)
def test_programs(name: str):
    function, arrays = jax_programs.example(name)
    compiled = jax.jit(function).lower(*arrays).compile()
    theirs = compiled.cost_analysis()
    ours = xs.cost(compiled, as_xla=True)
    assert ours.flops == pytest.approx(theirs.get("flops", 0.0), rel=1e-6)
    assert ours.transcendentals == pytest.approx(theirs.get("transcendentals", 0.0), rel=1e-6)
    assert ours.bytes == pytest.approx(theirs.get("bytes accessed", 0.0), rel=1e-6)
    text = compiled.as_text()
    if "known_trip_count" in text:  # counted, and not read
        stated, counted = xs.cost(text), xs.cost(text.replace("known_trip_count", "left_out"))
        assert (counted.flops, counted.unknown_loops) == (stated.flops, stated.unknown_loops)


@pytest.mark.skipif(VERSION < (0, 12), reason="windows that cover a dimension are counted one by one")
def test_windows():
    from jaxlib import _hlo, _jax

    draw = random.Random(1)
    for _ in range(200):
        text = random_windows.text_of(random_windows.drawn(draw))
        theirs = _jax.hlo_module_cost_analysis(jax.devices()[0].client, _hlo.hlo_module_from_text(text))
        assert xs.cost(text, as_xla=True).flops == theirs.get("flops", 0.0), text
