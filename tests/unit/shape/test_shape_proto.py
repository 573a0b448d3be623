"""Shapes from and to protos: unknown fields at every level, paths in errors, depth, foreign classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from xlashape.errors import DecodeError, InvalidArgumentError, InvalidShapeError, LimitExceededError, SizeOverflowError
from xlashape.proto import xla
from xlashape.shape import Layout, Shape

UNKNOWN = b"\x98\x06\x05"  # field 99, varint 5
TEXT = "(f32[2,3]{1,0:T(8,128)SC(0:1)}, s32[])"


def message() -> Any:
    return Shape.parse(TEXT).to_proto()


def levels(root: Any) -> dict[str, Any]:
    layout = root.tuple_shapes[0].layout
    return {
        "tuple": root,
        "array": root.tuple_shapes[0],
        "layout": layout,
        "tile": layout.tiles[0],
        "split": layout.split_configs[0],
    }


@pytest.mark.parametrize("level", ["tuple", "array", "layout", "tile", "split"])
def test_unknown_fields_survive(level: str) -> None:
    root = message()
    levels(root)[level].MergeFromString(UNKNOWN)
    shape = Shape.from_proto(root)
    assert str(shape) == TEXT
    assert shape != Shape.parse(TEXT)
    assert shape.to_proto().SerializeToString(deterministic=True) == root.SerializeToString(deterministic=True)
    assert Shape.from_proto(root.SerializeToString()) == shape
    layout = shape.tuple_shapes[0].layout
    assert layout is not None
    values = {
        "tuple": shape,
        "array": shape.tuple_shapes[0],
        "layout": layout,
        "tile": layout.tiles[0],
        "split": layout.split_configs[0],
    }
    assert {name: value.unknown_fields for name, value in values.items() if value.unknown_fields} == {level: UNKNOWN}


def test_fields_without_a_place_survive() -> None:
    root = message()
    layout = root.tuple_shapes[0].layout
    layout.dim_level_types.extend([0, 1])
    layout.dim_unique.append(True)
    layout.dim_ordered.append(False)
    layout.MergeFromString(bytes([0x12, 2, 3, 5, 0x18, 1, 0x20, 1, 0x28, 7]))  # padded_dimensions … max_sparse_elements
    shape = Shape.from_proto(root)
    assert str(shape) == TEXT
    assert shape.to_proto().SerializeToString(deterministic=True) == root.SerializeToString(deterministic=True)


def test_physical_shape_survives() -> None:
    layout = Layout((0,), physical_shape=Shape.parse("(s32[4]{0}, f32[4]{0})"))
    assert Layout.from_proto(layout.to_proto()) == layout
    assert Layout.from_proto(layout.to_proto().SerializeToString()) == layout


def test_changes_keep_unknown_fields() -> None:
    root = message()
    levels(root)["layout"].MergeFromString(UNKNOWN)
    array = Shape.from_proto(root).tuple_shapes[0]
    assert array.with_element_type("bf16").to_proto().layout.SerializeToString().endswith(UNKNOWN)


def test_spellings_that_become_one() -> None:
    plain = Shape.parse("f32[2]{0}")
    proto = plain.to_proto()
    proto.layout.tail_padding_alignment_in_elements = 0
    proto.ClearField("is_dynamic_dimension")
    assert Shape.from_proto(proto) == plain


def test_no_layout_stays_none() -> None:
    proto = xla.ShapeProto(element_type=xla.F32, dimensions=[2, 3])
    shape = Shape.from_proto(proto)
    assert shape.layout is None
    assert str(shape) == "f32[2,3]"
    assert not shape.to_proto().HasField("layout")


def array(root: Any) -> Any:
    return root.tuple_shapes[0]


@pytest.mark.parametrize(
    ("change", "error", "field"),
    [
        (lambda m: setattr(m, "element_type", 0), InvalidShapeError, "element_type"),
        (lambda m: setattr(array(m), "element_type", 0), InvalidShapeError, "tuple_shapes[0].element_type"),
        (lambda m: m.dimensions.append(1), InvalidShapeError, "dimensions"),
        (lambda m: m.layout.SetInParent(), InvalidShapeError, "layout"),
        (lambda m: array(m).dimensions.append(-1), InvalidShapeError, "tuple_shapes[0].dimensions[2]"),
        (lambda m: array(m).dimensions.append(2**62), SizeOverflowError, "tuple_shapes[0].dimensions"),
        (
            lambda m: array(m).is_dynamic_dimension.append(True),
            InvalidShapeError,
            "tuple_shapes[0].is_dynamic_dimension",
        ),
        (lambda m: array(m).tuple_shapes.add(element_type=11), InvalidShapeError, "tuple_shapes[0].tuple_shapes"),
        (lambda m: array(m).layout.minor_to_major.pop(), InvalidShapeError, "tuple_shapes[0].layout.minor_to_major[0]"),
        (
            lambda m: array(m).layout.tiles[0].dimensions.append(0),
            InvalidShapeError,
            "tuple_shapes[0].layout.tiles[0].dimensions[2]",
        ),
        (
            lambda m: setattr(array(m).layout, "tail_padding_alignment_in_elements", -1),
            InvalidShapeError,
            "tuple_shapes[0].layout.tail_padding_alignment_in_elements",
        ),
        (
            lambda m: setattr(array(m).layout, "index_primitive_type", xla.F32),
            InvalidArgumentError,
            "tuple_shapes[0].layout.index_primitive_type",
        ),
        (
            lambda m: array(m).layout.split_configs[0].split_indices.append(0),
            InvalidShapeError,
            "tuple_shapes[0].layout.split_configs[0].split_indices[1]",
        ),
    ],
)
def test_errors_name_the_path(change: Callable[[Any], object], error: type[Exception], field: str) -> None:
    root = message()
    change(root)
    with pytest.raises(error) as caught:
        Shape.from_proto(root)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")


def nested(depth: int) -> Any:
    root = inner = xla.ShapeProto(element_type=xla.TUPLE)
    for _ in range(depth - 1):
        inner = inner.tuple_shapes.add(element_type=xla.TUPLE)
    return root


def test_depth() -> None:
    assert str(Shape.from_proto(nested(80))) == "(" * 80 + ")" * 80
    for depth in (81, 95):
        with pytest.raises(LimitExceededError) as caught:
            Shape.from_proto(nested(depth))
        assert caught.value.limit == "shape_depth"
    for depth in (150, 20_000):
        with pytest.raises(DecodeError):
            Shape.from_proto(nested(depth))
    physical = xla.LayoutProto()
    physical.physical_shape.CopyFrom(nested(300))
    with pytest.raises(DecodeError):
        Layout.from_proto(physical)


@pytest.mark.parametrize("value", [b"\xff", b"\x10\x0b\x1a\x05\x01", None, "f32[2]", 7, xla.LayoutProto()])
def test_what_is_no_shape_proto(value: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        Shape.from_proto(value)


def test_unknown_fields_that_are_none() -> None:
    with pytest.raises(DecodeError):
        Layout((0,), unknown_fields=b"\xff").to_proto()


def test_other_bytes_like_objects() -> None:
    data = Shape.parse(TEXT).to_proto().SerializeToString()
    assert Shape.from_proto(bytearray(data)) == Shape.from_proto(memoryview(data)) == Shape.parse(TEXT)


def test_foreign_messages() -> None:
    """A class of the same full name from another pool, as TensorFlow has one, comes through its bytes."""
    file = descriptor_pb2.FileDescriptorProto(name="xla/xla_data.proto", package="xla", syntax="proto3")
    shape = file.message_type.add(name="ShapeProto")
    shape.field.add(name="element_type", number=2, type="TYPE_INT32", label="LABEL_OPTIONAL")
    shape.field.add(name="dimensions", number=3, type="TYPE_INT64", label="LABEL_REPEATED")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    foreign = message_factory.GetMessageClass(pool.FindMessageTypeByName("xla.ShapeProto"))
    assert Shape.from_proto(foreign(element_type=11, dimensions=[2, 3])) == Shape("f32", (2, 3))
