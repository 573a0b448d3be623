"""FLOPs and bytes of programs compiled by the JAX that is installed, against what its executables say:
`compiled.cost_analysis()`."""

from __future__ import annotations

import pytest

import xlashape as xs

jax = pytest.importorskip("jax", reason="JAX is not installed")
jaxlib = pytest.importorskip("jaxlib", reason="JAX is not installed")
if tuple(map(int, jaxlib.__version__.split(".")[:2])) < (0, 10):
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
