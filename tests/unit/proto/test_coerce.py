"""`coerce`: bytes, messages of ours, messages of other libraries; and values of other types."""

from __future__ import annotations

import contextlib

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from xlashape.errors import DecodeError, InvalidArgumentError
from xlashape.proto import coerce, pool, xla

TUPLE_SHAPES = 4 << 3 | 2  # the tag of ShapeProto.tuple_shapes


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def nested_tuples(depth: int) -> bytes:
    """The bytes of a tuple of a tuple of … of an empty shape, `depth` levels below the outermost one."""
    headers: list[bytes] = []
    size = 0
    for _ in range(depth):
        header = bytes([TUPLE_SHAPES]) + varint(size)
        headers.append(header)
        size += len(header)
    return b"".join(reversed(headers))


def foreign_class(full_name: str, file: descriptor_pb2.FileDescriptorProto | None = None) -> type[Message]:
    """A class of another pool, as TensorFlow's are."""
    other = descriptor_pool.DescriptorPool()
    if file is None:
        file = descriptor_pb2.FileDescriptorProto.FromString(pool.FindFileByName("xla/xla_data.proto").serialized_pb)
    other.Add(file)
    return message_factory.GetMessageClass(other.FindMessageTypeByName(full_name))


class TestBytes:
    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    def test_every_kind_of_bytes(self, kind: type) -> None:
        assert coerce(xla.TileProto, kind(b"\x0a\x02\x08\x01")) == xla.TileProto(dimensions=[8, 1])

    def test_no_bytes_are_the_empty_message(self) -> None:
        assert coerce(xla.ShapeProto, b"") == xla.ShapeProto()

    @pytest.mark.parametrize(
        "data",
        [
            b"\x0a\x02\x08",
            b"\x0a\x02\x08\x80",
            b"\xff",
            b"\x00\x00",
            b"\x0b",
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        ],
        ids=["truncated", "open varint", "open tag", "field number 0", "open group", "size beyond 64 bits"],
    )
    def test_bytes_that_are_no_message(self, data: bytes) -> None:
        with pytest.raises(
            DecodeError, match=rf"^not a xla\.TileProto \({len(data)} bytes?\): the wire format is broken"
        ):
            coerce(xla.TileProto, data)

    def test_a_string_that_is_not_utf_8(self) -> None:
        with pytest.raises(DecodeError, match=r"^not a xla\.HloModuleProto \(3 bytes\): "):
            coerce(xla.HloModuleProto, b"\x0a\x01\xff")

    def test_nesting_up_to_protobufs_limit(self) -> None:
        made = coerce(xla.ShapeProto, nested_tuples(90))
        for _ in range(90):
            (made,) = made.tuple_shapes

    @pytest.mark.parametrize("depth", [101, 150, 1_000, 100_000])
    def test_nesting_beyond_it(self, depth: int) -> None:
        with pytest.raises(DecodeError, match=r"nest deeper than protobuf's 100 levels$"):
            coerce(xla.ShapeProto, nested_tuples(depth))

    @given(st.binary(max_size=200))
    def test_any_bytes_decode_or_are_refused(self, data: bytes) -> None:
        for message_class in (xla.ShapeProto, xla.HloModuleProto, xla.LiteralProto, xla.FrontendAttributes):
            with contextlib.suppress(DecodeError):
                assert isinstance(coerce(message_class, data), message_class)


class TestMessages:
    def test_our_own_is_returned_as_it_is(self) -> None:
        shape = xla.ShapeProto(element_type=xla.F32)
        assert coerce(xla.ShapeProto, shape) is shape

    def test_a_foreign_one_of_the_same_name(self) -> None:
        foreign = foreign_class("xla.ShapeProto")
        ours = coerce(xla.ShapeProto, foreign(element_type=11, dimensions=[3, 5]))
        assert type(ours) is xla.ShapeProto
        assert ours == xla.ShapeProto(element_type=xla.F32, dimensions=[3, 5])

    def test_a_foreign_one_with_fields_of_the_future(self) -> None:
        file = descriptor_pb2.FileDescriptorProto(name="xla/xla_data.proto", package="xla", syntax="proto3")
        message = file.message_type.add(name="TileProto")
        message.field.add(name="dimensions", number=1, label=3, type=3)
        message.field.add(name="from_the_future", number=77, label=1, type=9)
        foreign = foreign_class("xla.TileProto", file)(dimensions=[8, 128], from_the_future="kept")
        ours = coerce(xla.TileProto, foreign)
        assert list(ours.dimensions) == [8, 128]
        assert type(foreign).FromString(ours.SerializeToString()) == foreign

    def test_a_foreign_one_that_nests_too_deep(self) -> None:
        outer = foreign_class("xla.ShapeProto")()
        inner = outer
        for _ in range(200):
            inner = inner.tuple_shapes.add()
        with pytest.raises(DecodeError, match=r"^not a xla\.ShapeProto.*nest deeper than protobuf's 100 levels$"):
            coerce(xla.ShapeProto, outer)

    def test_a_message_of_another_name(self) -> None:
        with pytest.raises(
            InvalidArgumentError, match=r"^expected a xla\.ShapeProto or its bytes, found a xla\.TileProto$"
        ):
            coerce(xla.ShapeProto, xla.TileProto())

    @pytest.mark.parametrize(
        ("value", "found"),
        [("f32[]", "str"), (None, "NoneType"), ({}, "dict"), (xla.ShapeProto, type(xla.ShapeProto).__name__)],
    )
    def test_what_is_no_message_at_all(self, value: object, found: str) -> None:
        with pytest.raises(InvalidArgumentError, match=rf"^expected a xla\.ShapeProto or its bytes, found {found}$"):
            coerce(xla.ShapeProto, value)
