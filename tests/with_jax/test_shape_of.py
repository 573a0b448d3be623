"""`Shape.of` on the objects of the JAX that is installed: runs beside any version from 0.4.35 on, and is skipped
without JAX."""

from __future__ import annotations

import numpy as np
import pytest

import xlashape as xs

jax = pytest.importorskip("jax", reason="JAX is not installed")
jnp = jax.numpy
layout_module = pytest.importorskip("jax.experimental.layout", reason="this JAX has no jax.experimental.layout")
# Format and Layout were called Layout and DeviceLocalLayout before JAX 0.7.
Format, Layout = (
    (layout_module.Format, layout_module.Layout)
    if hasattr(layout_module, "Format")
    else (layout_module.Layout, layout_module.DeviceLocalLayout)
)
SHARDING = jax.sharding.SingleDeviceSharding(jax.devices()[0])


def _struct(major_to_minor: tuple[int, ...], tiling: tuple[tuple[int, ...], ...] | None) -> object:
    layout = Layout(major_to_minor, tiling)
    return jax.ShapeDtypeStruct((20, 300), jnp.bfloat16, sharding=Format(layout, SHARDING))


@pytest.mark.parametrize(
    ("order", "tiling"),
    [((0, 1), ((8, 128), (2, 1))), ((1, 0), ((8, 128),)), ((1, 0), None), ((0, 1), ())],
)
def test_a_format_keeps_its_layout(order: tuple[int, ...], tiling: tuple[tuple[int, ...], ...] | None):
    shape = xs.Shape.of(_struct(order, tiling))
    expected = Layout(order, tiling)._to_xla_layout(np.dtype(jnp.bfloat16))  # what JAX itself makes of it
    assert str(shape) == f"bf16[20,300]{expected}"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int4", "uint4", "float8_e4m3fn", "float8_e5m2", "int32", "bool", "complex64"])  # fmt: skip
def test_arrays_are_what_the_device_has(dtype: str):
    array = jnp.zeros((4, 6), getattr(jnp, dtype))
    shape = xs.Shape.of(array)
    assert shape.element_type is xs.PrimitiveType.from_numpy(array.dtype) and shape.dimensions == (4, 6)
    assert str(shape.layout) == str(array._pjrt_layout)  # in the runtime's own words
    assert xs.Shape.of(jax.ShapeDtypeStruct((4, 6), array.dtype)) == shape.with_default_layout()
    assert xs.Shape.of(getattr(jnp, dtype)) == xs.Shape.array(array.dtype)


def test_random_keys():
    assert str(xs.Shape.of(jax.random.key(0))) == "u32[2]{0}"
    keys = jax.random.split(jax.random.key(0, impl="rbg"), 5)
    assert str(xs.Shape.of(keys)) == "u32[5,4]{1,0}" == str(xs.Shape.of(jax.random.key_data(keys)))
    assert xs.Shape.of(jax.eval_shape(lambda: keys)) == xs.Shape.of((keys.dtype, (5,))) == xs.Shape.of(keys)


def test_trees_and_abstract_values():
    lowered = jax.jit(lambda tree: (tree["w"] @ tree["b"], 1)).lower({"w": jnp.ones((3, 4)), "b": jnp.ones(4)})
    assert str(xs.Shape.of(lowered.out_info)) == "(f32[3]{0}, s32[])"
    assert str(xs.Shape.of(jnp.ones(3).aval)) == "f32[3]{0}"
    seen: list[xs.Shape] = []

    def traced(x: object) -> object:
        seen.append(xs.Shape.of(x))
        return x

    jax.jit(traced)(jnp.ones((3, 4)))
    assert list(map(str, seen)) == ["f32[3,4]{1,0}"]
    deleted = jnp.ones((3, 4))
    deleted.delete()
    assert str(xs.Shape.of(deleted)) == "f32[3,4]{1,0}"


def test_shapes_of_jaxlib():
    xla_client = pytest.importorskip("jaxlib.xla_client", reason="this jaxlib has no xla_client")
    array = xla_client.Shape.array_shape(np.dtype("float32"), (3, 4), (0, 1))
    assert str(xs.Shape.of(array)) == "f32[3,4]{0,1}"
    assert str(xs.Shape.of([array, xla_client.Shape.token_shape()])) == "(f32[3,4]{0,1}, token[])"


def test_symbolic_dimensions_are_refused():
    export = pytest.importorskip("jax.export", reason="this JAX has no jax.export")
    struct = jax.ShapeDtypeStruct(export.symbolic_shape("b, 4"), jnp.float32)
    with pytest.raises(xs.errors.InvalidArgumentError, match="dimension 0 has the size b, which is not an integer"):
        xs.Shape.of(struct)
