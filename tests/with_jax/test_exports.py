"""What JAX exports as StableHLO, and layouts of its arrays; runs beside any version from 0.4.35 on."""

from __future__ import annotations

import io
from typing import Any

import pytest

import xlashape as xs

jax = pytest.importorskip("jax", reason="JAX is not installed")
export = pytest.importorskip("jax.export", reason="jax.export needs absl-py")
jnp = jax.numpy

STRUCTS = jax.ShapeDtypeStruct((4, 8), jnp.float32), jax.ShapeDtypeStruct((8, 16), jnp.float32)


@jax.jit
def product(x: Any, y: Any) -> Any:
    return (jax.scipy.special.erf(x) @ y).T


EXPORTED = export.export(product)(*STRUCTS)
FLOPS = xs.cost(product, *STRUCTS).flops


def test_exports_are_converted() -> None:
    bytecode = io.BytesIO()
    product.lower(*STRUCTS).compiler_ir().operation.write_bytecode(bytecode)
    for value in (EXPORTED, EXPORTED.mlir_module(), product.lower(*STRUCTS).compiler_ir(), bytecode.getvalue()):
        cost = xs.cost(value)
        assert cost.flops == FLOPS == 2 * 4 * 8 * 16
        assert cost.notes[0].startswith("The module is what jaxlib ")


def test_a_serialized_export() -> None:
    pytest.importorskip("flatbuffers", reason="JAX serializes with it")
    assert xs.cost(bytes(EXPORTED.serialize())).flops == FLOPS


def test_an_export_with_symbols_takes_arguments() -> None:
    (batch,) = export.symbolic_shape("b")
    exported = export.export(product)(jax.ShapeDtypeStruct((batch, 8), jnp.float32), STRUCTS[1])
    with pytest.raises(xs.errors.InvalidArgumentError, match=r"sizes that are symbols, such as \(b, 8\)"):
        xs.cost(exported)
    for called in (exported, jax.jit(exported.call)):
        assert xs.cost(called, *STRUCTS).flops == FLOPS
    assert len(xs.reads(exported, *STRUCTS)) == len(xs.reads(product, *STRUCTS)) > 0


def test_layouts() -> None:
    x = jnp.ones((4, 8))
    compiled = jax.jit(lambda x: x.T).lower(x).compile()
    theirs = compiled.runtime_executable().get_parameter_layouts()[0]
    form = x.format if hasattr(x, "format") else x.layout
    for layout in (theirs, theirs._xla_layout(), form):
        assert str(xs.Layout.of(layout)) == str(theirs) == "{1,0}"
