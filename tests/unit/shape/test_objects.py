"""`Shape.of`: NumPy's arrays and types, trees, and stand-ins with the attributes that other libraries' objects have.

The objects of JAX itself are in tests/with_jax, which runs beside several versions of it.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xlashape.errors import InvalidArgumentError, LimitExceededError, XlashapeError
from xlashape.hlo import HloModule
from xlashape.shape import Layout, PrimitiveType, Shape, tiling

KEYS = SimpleNamespace(name="key<fry>", _rules=SimpleNamespace(physical_element_aval=lambda _: np.zeros(2, np.uint32)))
LAYOUT = SimpleNamespace(major_to_minor=(0, 1), tiling=((8, 128), (2, 1)), sub_byte_element_size_in_bits=0)
OLD_LAYOUT = SimpleNamespace(major_to_minor=(1, 0), _tiling=((2, 2),), _sub_byte_element_size_in_bits=4)


def _array(dtype: Any, shape: object, **more: object) -> SimpleNamespace:
    return SimpleNamespace(dtype=dtype, shape=shape, **more)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros((2, 3), np.float32), "f32[2,3]{1,0}"),
        (np.asfortranarray(np.zeros((2, 3))), "f64[2,3]{0,1}"),
        (np.asfortranarray(np.zeros((2, 1, 3))), "f64[2,1,3]{0,1,2}"),
        (np.zeros((2, 3, 4)).transpose(1, 2, 0), "f64[3,4,2]{1,0,2}"),
        (np.zeros((2, 3, 4)).transpose(1, 2, 0)[:, ::2], "f64[3,2,2]{2,1,0}"),
        (np.broadcast_to(np.zeros(3), (2, 3)), "f64[2,3]{1,0}"),
        (np.zeros((2, 3)).T[::-1], "f64[3,2]{1,0}"),
        (np.zeros((0,), ml_dtypes.int4), "s4[0]{0}"),
        (np.float16(3), "f16[]"),
        (ml_dtypes.bfloat16(3), "bf16[]"),
        (True, "pred[]"),
        (np.dtype("complex64"), "c64[]"),
        (np.int8, "s8[]"),
        (ml_dtypes.float8_e4m3fn, "f8e4m3fn[]"),
        (PrimitiveType.U4, "u4[]"),
        ("f32[2,3]{0,1:T(2,2)}", "f32[2,3]{0,1:T(2,2)}"),
        ("bfloat16", "bf16[]"),
        ((np.float32, (2, 3)), "f32[2,3]{1,0}"),
        (("f32", [2, 3]), "f32[2,3]{1,0}"),
        (("float8_e5m2", np.array([4, 5])), "f8e5m2[4,5]{1,0}"),
        ((np.dtype(bool), ()), "pred[]"),
        ((KEYS, (3,)), "u32[3,2]{1,0}"),
        (_array(KEYS, (5,)), "u32[5,2]{1,0}"),
        (_array("bfloat16", (5,)), "bf16[5]{0}"),
        (_array(np.dtype("int8"), (8, 128), format=SimpleNamespace(layout=LAYOUT)), "s8[8,128]{1,0:T(8,128)(2,1)}"),
        (_array(np.dtype("int8"), (8, 128), format=SimpleNamespace(layout=None)), "s8[8,128]{1,0}"),
        (_array(np.dtype("int8"), (8, 128), layout=SimpleNamespace()), "s8[8,128]{1,0}"),
        (
            _array(np.dtype(ml_dtypes.int4), (8, 128), layout=SimpleNamespace(device_local_layout=OLD_LAYOUT)),
            "s4[8,128]{0,1:T(2,2)E(4)}",
        ),
        (None, "()"),
        ([], "()"),
        ([np.int8(1), (np.zeros(3, np.int8), None)], "(s8[], (s8[3]{0}, ()))"),
        ((np.zeros(3, np.int8), np.zeros(4, np.int8)), "(s8[3]{0}, s8[4]{0})"),
        (("f32[3]", "f32[4]"), "(f32[3]{0}, f32[4]{0})"),
        (("f32", "s8"), "(f32[], s8[])"),
        ({"b": np.int8(1), "a": np.int16(1)}, "(s16[], s8[])"),
        (OrderedDict(b=np.int8(1), a=np.int16(1)), "(s8[], s16[])"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)  # fmt: skip
def test_shape_of(value: object, text: str):
    assert str(Shape.of(value)) == text


def test_shapes_protos_and_instructions():
    shape = Shape.parse("(f32[2,3]{0,1:T(2,2)}, token[])")
    assert Shape.of(shape) is shape
    assert Shape.of(shape.to_proto()) == Shape.of(shape.to_proto().SerializeToString()) == shape
    assert Shape.of(SimpleNamespace(to_serialized_proto=lambda: shape.to_proto().SerializeToString())) == shape
    root = HloModule.parse("ENTRY e { ROOT p = f32[2,3]{0,1} parameter(0) }").entry.root
    assert Shape.of(root) is root.shape


@pytest.mark.parametrize("order", [*permutations(range(4))])
def test_an_array_keeps_the_order_of_its_dimensions(order: tuple[int, ...]):
    numbers = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5).transpose(order)
    shape = Shape.of(numbers)
    places = tiling.linear_indices(shape, np.stack(np.indices(numbers.shape), -1).reshape(-1, 4))
    assert (places == numbers.ravel()).all()  # the numbers are those of their places in memory


@pytest.mark.parametrize(
    "value",
    [
        LAYOUT,
        SimpleNamespace(layout=LAYOUT, sharding=None),
        "{1,0:T(8,128)(2,1)}",
        Layout((1, 0), [(8, 128), (2, 1)]),
        Layout((1, 0), [(8, 128), (2, 1)]).to_proto(),
        Layout((1, 0), [(8, 128), (2, 1)]).to_proto().SerializeToString(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_layout_of(value: object):
    assert str(Layout.of(value)) == "{1,0:T(8,128)(2,1)}"


@pytest.mark.parametrize("value", [None, 3, np.zeros(3), SimpleNamespace(layout=None)])
def test_what_has_no_layout(value: object):
    with pytest.raises(InvalidArgumentError, match="has no layout: pass a Format"):
        Layout.of(value)


@pytest.mark.parametrize("name", ["torch.bfloat16", "bfloat16"])
def test_types_of_other_libraries_are_known_by_name(name: str):
    torch_dtype = type("dtype", (), {"__str__": lambda self: name})()
    assert str(Shape.of(_array(torch_dtype, (2, 3)))) == "bf16[2,3]{1,0}"
    assert PrimitiveType.of(torch_dtype) is PrimitiveType.BF16


@pytest.mark.parametrize(
    ("value", "message", "path"),
    [
        (3, "Python's int has no width of its own, NumPy makes it s64 and JAX s32: pass numpy.int32", ("value",)),
        (float, "Python's float has no width of its own, NumPy makes it f64 and JAX f32", ("value",)),
        (1j, "Python's complex has no width of its own", ("value",)),
        ({"w": [np.int8(1), 3]}, "Python's int has no width of its own", ("w", 1, "value")),
        (object(), "a value of type object has no shape: pass an array, a jax.ShapeDtypeStruct", ("value",)),
        (dict, "the class dict has no shape", ("value",)),
        (
            np.zeros(3, ">i4"),
            r"no element type corresponds to NumPy's >i4: its bytes are in the other order, .astype\('int32'\)",
            ("dtype",),
        ),
        (np.array(["a"]), "no element type corresponds to NumPy's <U1", ("dtype",)),
        ((np.dtype("datetime64[s]"), (2,)), r"no element type corresponds to NumPy's datetime64\[s\]", ("dtype",)),
        (
            _array(np.dtype("i1"), (None, 3)),
            "dimension 0 has the size None, which is not an integer",
            ("dimensions", 0),
        ),
        (_array(object(), (3,)), "no element type corresponds to <object object", ("dtype",)),
        (("f32", 3), r"dimensions takes sizes such as \(3,\), not 3", ("dimensions",)),
        ((np.float32, 3), r"dimensions takes sizes such as \(3,\), not 3", ("dimensions",)),
        (("f33", (2, 3)), "'f33' is not an element type; did you mean 'f32'", ()),
        (("f32", (2, -3)), "a dimension's size is 0 or more, not -3", ("dimensions", 1)),
        (("f32", (2**40, 2**40)), "more elements than int64 can count", ("dimensions",)),
        (PrimitiveType.TUPLE, "tuple is not the element type of an array", ("element_type",)),
        ({1: np.int8(3), "a": np.int8(3)}, "the keys of a dict have no order", ("value",)),
        (b"\xff\xff", "not a xla.ShapeProto", ()),
    ],
)
def test_what_has_no_shape(value: object, message: str, path: tuple[object, ...]):
    with pytest.raises(XlashapeError, match=message) as caught:
        Shape.of(value)
    assert caught.value.path == path


def test_deep_and_endless_trees_are_refused():
    deep: object = np.int8(1)
    for _ in range(20_000):
        deep = [deep]
    endless: list[object] = []
    endless.append(endless)
    for tree in (deep, endless):
        with pytest.raises(LimitExceededError, match="shape depth"):
            Shape.of(tree)
    while isinstance(deep, list):  # taken apart by hand: Python's own way of freeing it is recursive
        deep = deep.pop()


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        (np.float32, "f32"),
        (np.dtype("uint8"), "u8"),
        (ml_dtypes.float8_e8m0fnu, "f8e8m0fnu"),
        ("bfloat16", "bf16"),
        ("u8", "u8"),  # NumPy's code u8 has 64 bits
        (bool, "pred"),
        (np.bool_, "pred"),
    ],
)
def test_arrays_take_numpy_types(dtype: Any, kind: str):
    assert Shape.array(dtype, (2, 3), Layout((0, 1))) == Shape.parse(f"{kind}[2,3]{{0,1}}")


@pytest.mark.parametrize("dtype", [float, int, object(), np.datetime64, np.dtype("V3"), "f4", "<f4", object])
def test_arrays_refuse_other_types(dtype: Any):
    with pytest.raises(InvalidArgumentError):
        Shape.array(dtype, (2, 3))
