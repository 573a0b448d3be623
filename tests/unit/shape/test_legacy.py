"""Layouts of before 2018: reading them from protos, where their elements lie, and what they cannot become."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from xlashape.errors import (
    InvalidIndexError,
    LossyConversionError,
    UnsupportedError,
    XlashapeError,
)
from xlashape.proto import xla
from xlashape.shape import Shape, legacy
from xlashape.shape.legacy import LegacyArray, LegacyFormat, PaddingValue

PADDED = LegacyArray(Shape.parse("f32[2,3]{0,1}"), (3, 5), PaddingValue.ZERO_PAD)


def from_bytes(fields: list[int], text: str = "f32[2,3]{0,1}") -> Shape:
    message = Shape.parse(text).to_proto()
    message.layout.MergeFromString(bytes(fields))
    return Shape.from_proto(message)


@pytest.mark.parametrize(
    "fields",
    [
        [0x12, 2, 3, 5, 0x18, 1, 0x20, 1],  # packed, as proto3 writes it
        [0x10, 3, 0x10, 5, 0x18, 1, 0x20, 1],  # one by one
        [0x10, 3, 0x18, 1, 0x12, 1, 5],  # both; no format
        [0x18, 1, 0x18, 1, 0x12, 2, 3, 5],
    ],
)
def test_reading(fields: list[int]) -> None:
    shape = from_bytes(fields)
    assert legacy.has_legacy_fields(shape)
    assert legacy.has_legacy_fields(Shape.tuple([Shape.token(), shape]))
    assert str(shape) == "f32[2,3]{0,1}"
    assert legacy.read(shape) == PADDED


def test_the_worked_example() -> None:
    """2×3 padded to [3,5], column major with zeros: a d 0 b e 0 c f 0 and six zeros more."""
    buffer = PADDED.pack([[1, 2, 3], [4, 5, 6]])
    assert buffer.view(np.float32).tolist() == [1, 4, 0, 2, 5, 0, 3, 6, 0, 0, 0, 0, 0, 0, 0]
    assert PADDED.unpack(buffer).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert PADDED.byte_size() == 60
    assert PADDED.is_padded
    assert str(PADDED.padded_shape) == "f32[3,5]{0,1}"
    assert repr(PADDED) == "LegacyArray('f32[2,3]{0,1}', padded_dimensions=(3, 5), ZERO_PAD, DENSE)"
    places = {PADDED.linear_index(index): index for index in itertools.product(range(2), range(3))}
    assert [PADDED.multi_index(position) for position in range(15)] == [places.get(position) for position in range(15)]
    for wrong in ((2, 0), (0, 3), (0,), (-1, 0)):
        with pytest.raises(InvalidIndexError):
            PADDED.linear_index(wrong)
    with pytest.raises(InvalidIndexError):
        PADDED.multi_index(15)


def test_against_numpy() -> None:
    for order in itertools.permutations(range(3)):
        text = "s16[2,3,4]{" + ",".join(map(str, order)) + "}"
        array = LegacyArray(Shape.parse(text), (2, 5, 6), PaddingValue.ONE_PAD)
        values = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
        padded = np.pad(values, [(0, 0), (0, 2), (0, 2)], constant_values=1)
        assert (array.pack(values).view(np.int16) == padded.transpose(order[::-1]).ravel()).all()
        assert (array.unpack(array.pack(values)) == values).all()


@pytest.mark.parametrize(
    ("kind", "lowest", "highest"),
    [
        ("f32", -np.inf, np.inf),
        ("f16", -np.inf, np.inf),
        ("s8", -128, 127),
        ("u16", 0, 65535),
        ("s64", -(2**63), 2**63 - 1),
        ("pred", False, True),
    ],
)
def test_padding_values(kind: str, lowest: object, highest: object) -> None:
    shape = Shape.array(kind, (1,))
    filled = {PaddingValue.LOWEST_PAD: lowest, PaddingValue.HIGHEST_PAD: highest, PaddingValue.ONE_PAD: 1}
    for padding in PaddingValue:
        buffer = LegacyArray(shape, (2,), padding).pack([1]).view(shape.element_type.numpy_dtype())
        assert buffer.tolist() == [1, filled.get(padding, 0)]


def test_padding_values_of_small_floats() -> None:
    pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    for kind, highest in (("bf16", np.inf), ("f8e4m3fn", 448.0), ("f8e5m2", np.inf), ("f4e2m1fn", 6.0)):
        array = LegacyArray(Shape.array(kind, (1,)), (2,), PaddingValue.HIGHEST_PAD)
        buffer = array.pack(np.ones(1, array.shape.element_type.numpy_dtype()))
        assert float(buffer.view(array.shape.element_type.numpy_dtype())[1]) == highest
    with pytest.raises(UnsupportedError):
        LegacyArray(Shape.parse("c64[1]"), (2,), PaddingValue.LOWEST_PAD).pack(np.ones(1, np.complex64))


def test_what_becomes_a_shape_of_today() -> None:
    plain = LegacyArray(Shape.parse("f32[2,3]{0,1}"))
    assert plain.to_shape() == Shape.parse("f32[2,3]{0,1}")
    assert legacy.read(from_bytes([0x12, 2, 2, 3, 0x20, 1])).to_shape() == Shape.parse("f32[2,3]{0,1}")
    with pytest.raises(LossyConversionError, match=r"is padded to \[3,5\]"):
        PADDED.to_shape()
    sparse = legacy.read(from_bytes([0x20, 2, 0x28, 7]))
    assert (sparse.format, sparse.max_sparse_elements) == (LegacyFormat.SPARSE, 7)
    with pytest.raises(LossyConversionError, match="sparse"):
        sparse.to_shape()
    with pytest.raises(UnsupportedError, match="sparse"):
        sparse.linear_index((0, 0))


def test_writing() -> None:
    for array in (PADDED, LegacyArray(Shape.parse("f32[2]"), (300,), 5, LegacyFormat.SPARSE, 2**40)):
        shape = array.with_legacy_fields()
        assert legacy.read(Shape.from_proto(shape.to_proto().SerializeToString())) == array
    foreign = from_bytes([0x98, 0x06, 5, 0x12, 2, 3, 5])
    array = legacy.read(foreign)
    assert array.shape.layout is not None
    assert array.shape.layout.unknown_fields == bytes([0x98, 0x06, 5])
    assert array.with_legacy_fields().to_proto().layout.SerializeToString().endswith(bytes([0x98, 0x06, 5]))


def test_nothing_to_read() -> None:
    shape = Shape.parse("f32[2,3]{0,1:S(1)}")
    assert not legacy.has_legacy_fields(shape)
    assert legacy.read(shape) == LegacyArray(shape)
    assert not legacy.has_legacy_fields(Shape.from_proto(xla.ShapeProto(element_type=xla.F32)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: LegacyArray(Shape.parse("f32[2,3]"), (3,)),
        lambda: LegacyArray(Shape.parse("f32[2,3]"), (3, 2)),
        lambda: LegacyArray(Shape.parse("f32[2,3]"), (2, -3)),
        lambda: LegacyArray(Shape.parse("f32[2]"), (2**63,)),
        lambda: LegacyArray(Shape.parse("f32[2]"), (2,), 6),
        lambda: LegacyArray(Shape.parse("f32[2]"), (2,), 0, 3),
        lambda: LegacyArray(Shape.parse("f32[?]")),
        lambda: LegacyArray(Shape.parse("(f32[2])")),
        lambda: LegacyArray(from_bytes([0x18, 1])),
        lambda: LegacyArray(Shape.parse("f32[2,3]"), (2**62, 2**62)).byte_size(),
        lambda: LegacyArray(Shape.parse("f32[2]"), (2**60,)).pack([1, 2]),
        lambda: PADDED.pack([1, 2, 3]),
        lambda: PADDED.pack("text"),
        lambda: PADDED.unpack(b"123"),
        lambda: legacy.read(from_bytes([0x12, 2, 3, 0x85])),  # a number of the list is cut short
        lambda: legacy.read(from_bytes([0x1A, 1, 1])),  # padding_value is not a number
        lambda: legacy.read(from_bytes([0x12, 1, 3])),  # one width for two dimensions
    ],
)
def test_what_cannot_be(make: object) -> None:
    with pytest.raises(XlashapeError) as caught:
        make()
    assert len(str(caught.value)) < 400
