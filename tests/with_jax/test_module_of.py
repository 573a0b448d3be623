"""`HloModule.of` on the objects of the JAX that is installed: runs beside any version from 0.4.35 on, and is skipped
without JAX."""

from __future__ import annotations

from typing import Any

import pytest

import xlashape as xs

jax = pytest.importorskip("jax", reason="JAX is not installed")
jnp = jax.numpy

X, Y = jnp.ones((8, 16)), jnp.ones((16, 4))


@jax.jit
def layer(x: Any, y: Any) -> Any:
    return jnp.tanh(x @ y).sum(axis=0)


LOWERED = layer.lower(X, Y)
COMPILED = LOWERED.compile()


def _opcodes(module: xs.HloModule) -> set[str]:
    return {str(instruction.opcode) for instruction in module.instructions()}


def _lines(module: xs.HloModule) -> str:
    return module.to_text(print_metadata=False)


def test_lowered_and_compiled():
    lowered = xs.HloModule.of(LOWERED)
    assert lowered.name == "jit_layer" and {"dot", "tanh", "reduce"} <= _opcodes(lowered)
    assert [str(parameter.shape) for parameter in lowered.entry.parameters] == ["f32[8,16]{1,0}", "f32[16,4]{1,0}"]
    compiled = xs.HloModule.of(COMPILED)
    theirs = COMPILED.runtime_executable().hlo_modules()
    for held in (theirs, theirs[0], COMPILED.runtime_executable(), theirs[0].as_serialized_hlo_module_proto()):
        # jaxlib gives the ids of a module and the entries of its tables anew each time.
        assert _lines(xs.HloModule.of(held)) == _lines(compiled)
    assert xs.hlo.verify(lowered) == xs.hlo.verify(compiled) == ()


def test_computations_traces_and_functions():
    lowered = xs.HloModule.of(LOWERED)
    computation = LOWERED.compiler_ir("hlo")
    for held in (computation, computation.as_hlo_module(), layer.trace(X, Y)):
        assert _opcodes(xs.HloModule.of(held)) == _opcodes(lowered)
    structs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (X, Y)]
    assert _opcodes(xs.HloModule.of(layer, *structs)) == _opcodes(xs.HloModule.of(layer, X, y=Y)) == _opcodes(lowered)


def test_text(tmp_path: Any):
    text = COMPILED.as_text()
    path = tmp_path / "layer.hlo"
    path.write_text(text)
    with path.open() as file:
        assert (
            _opcodes(xs.HloModule.of(file)) == _opcodes(xs.HloModule.of(text)) == _opcodes(xs.HloModule.of(str(path)))
        )


def test_what_is_no_hlo():
    for value, message in (
        (jax.make_jaxpr(layer)(X, Y), "is not HLO yet"),
        (layer, "cannot be lowered without arguments"),
        (layer.__wrapped__, "a function that was not jitted"),
        (X, "holds no module"),
    ):
        with pytest.raises(xs.errors.InvalidArgumentError, match=message):
            xs.HloModule.of(value)


def test_an_error_of_the_function_stays_its_own():
    with pytest.raises(ZeroDivisionError):
        xs.HloModule.of(jax.jit(lambda x: 1 / 0), X)


@pytest.mark.parametrize("suffix", [".hlo", ".txt.gz", ".hlo.pb", ".pb.gz", ".json", ".pbtxt"])
def test_saved_modules(tmp_path: Any, suffix: str):
    module = xs.HloModule.of(COMPILED)
    module.save(tmp_path / f"layer{suffix}")
    loaded = xs.HloModule.load(tmp_path / f"layer{suffix}")
    assert loaded.to_text(print_metadata=False) == module.to_text(print_metadata=False)
    for instruction in module.instructions():
        line = instruction.to_text(print_metadata=False)
        assert loaded.instruction(instruction.name).to_text(print_metadata=False) == line


def test_xla_takes_an_edited_module(tmp_path: Any):
    """XLA's own parser reads the edited text, and its printer gives the same instructions."""
    xla_client = pytest.importorskip("jaxlib.xla_client", reason="this jaxlib has no xla_client")
    # Newer versions have it in a module of its own.
    home = (
        xla_client._xla
        if hasattr(xla_client._xla, "hlo_module_from_text")
        else pytest.importorskip("jaxlib._hlo", reason="this jaxlib has no _hlo")
    )
    edited = xs.HloModule.of(LOWERED)
    tanh = next(each for each in edited.instructions() if each.opcode == "tanh")
    twice = tanh.computation.insert(f"twice = add({tanh.name}, {tanh.name})")
    tanh.replace_uses(twice)
    tanh.set_opcode("sine")
    xs.hlo.check(edited)
    edited.save(tmp_path / "edited.hlo", print_metadata=False)  # an older XLA knows no tables of file names
    theirs = home.hlo_module_from_text((tmp_path / "edited.hlo").read_text())
    lines = [each.to_text(print_metadata=False) for each in edited.entry.instructions]
    again = xs.HloModule.of(theirs)
    assert sorted(each.to_text(print_metadata=False) for each in again.entry.instructions) == sorted(lines)
