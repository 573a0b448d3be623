"""The wire codec agrees with protobuf's own encoder and decoder, and raises DecodeError for everything that is not a
message.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import Any

import pytest
from google.protobuf.internal import encoder, wire_format
from google.protobuf.message import Message
from hypothesis import example, given, settings
from hypothesis import strategies as st

from xlashape.errors import DecodeError
from xlashape.proto import pool, v1, xla
from xlashape.proto.wire import (
    BYTES,
    END_GROUP,
    FIXED32,
    FIXED64,
    GROUP,
    VARINT,
    Fields,
    fields,
    packed_ints,
    read_varint,
    signed,
    sized,
    tag,
    varint,
    varints,
)

UINT64 = st.integers(0, 2**64 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
CHECKED = settings(max_examples=300, deadline=None, derandomize=True)


def protobufs_varint(value: int) -> bytes:
    pieces: list[bytes] = []
    encoder._VarintEncoder()(pieces.append, value, None)
    return b"".join(pieces)


@CHECKED
@given(UINT64)
@example(0)
@example(127)
@example(128)
@example(2**64 - 1)
def test_varints_are_written_and_read_as_protobuf_does(value: int) -> None:
    data = varint(value)
    assert data == protobufs_varint(value)
    assert read_varint(data, 0) == (value, len(data))
    assert read_varint(b"\xff" + data + b"\xff", 1) == (value, len(data) + 1)
    assert read_varint(memoryview(data), 0) == (value, len(data))


@CHECKED
@given(INT64)
@example(-1)
@example(-(2**63))
@example(2**63 - 1)
def test_negative_integers_are_their_twos_complement(value: int) -> None:
    field = Fields(xla.HloInstructionProto).integer("id", value)
    assert xla.HloInstructionProto.FromString(field).id == value
    assert signed(read_varint(varint(value), 0)[0]) == value


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "truncated"),
        (b"\x80", "truncated"),
        (b"\xff" * 9, "truncated"),
        (b"\xff" * 10 + b"\x01", "does not fit 64 bits"),
        (b"\xff" * 9 + b"\x02", "does not fit 64 bits"),
    ],
)
def test_what_is_not_a_varint(data: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        read_varint(data, 0)


@CHECKED
@given(st.lists(INT64, max_size=20))
def test_packed_integers(values: list[int]) -> None:
    data = packed_ints(values)
    assert [signed(value) for value in varints(data)] == values
    message = xla.ShapeProto.FromString(Fields(xla.ShapeProto).integers("dimensions", values))
    assert list(message.dimensions) == values
    assert message.SerializeToString() == Fields(xla.ShapeProto).integers("dimensions", values)


def test_a_truncated_packed_field() -> None:
    with pytest.raises(DecodeError, match="truncated"):
        varints(b"\x05\xac")


@CHECKED
@given(st.integers(1, 2**29 - 1), st.sampled_from([VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32]))
def test_tags(number: int, wire_type: int) -> None:
    assert tag(number, wire_type) == encoder.TagBytes(number, wire_type)
    assert read_varint(tag(number, wire_type), 0)[0] == wire_format.PackTag(number, wire_type)


@CHECKED
@given(st.text(max_size=300), INT64, st.lists(INT64, max_size=5), st.binary(max_size=9))
def test_fields_by_name_make_the_message(name: str, number: int, ids: list[int], config: bytes) -> None:
    made = Fields(xla.HloInstructionProto)
    name = name.encode("utf-8", "replace").decode()
    window = xla.Window(dimensions=[xla.WindowDimension(size=number)])
    data = b"".join(
        [
            made.string("name", name),
            made.integer("id", number),
            made.integers("operand_ids", ids),
            made.string("backend_config", config),
            made.message("window", window),
            made.tag("opcode") + sized(b"add"),
        ]
    )
    expected = xla.HloInstructionProto(
        name=name, id=number, operand_ids=ids, backend_config=config, window=window, opcode="add"
    )
    assert xla.HloInstructionProto.FromString(data) == expected


def test_two_pieces_of_a_submessage_merge() -> None:
    made = Fields(xla.HloInstructionProto)
    metadata = Fields(xla.OpMetadata)
    data = made.message("metadata", metadata.string("op_name", "a")) + made.message(
        "metadata", metadata.integer("source_line", 3)
    )
    assert xla.HloInstructionProto.FromString(data).metadata == xla.OpMetadata(op_name="a", source_line=3)


# -- fields ---------------------------------------------------------------------------------


def reassembled(data: bytes) -> list[tuple[int, int, bytes]]:
    """(number, wire type, content) of every field; together the fields are `data`."""
    found = list(fields(data))
    assert b"".join(data[start:end] for _, _, start, _, end in found) == data
    assert all(start < content <= end for _, _, start, content, end in found)
    return [(number, wire_type, data[content:end]) for number, wire_type, _, content, end in found]


WIRE_FIELDS = st.recursive(
    st.one_of(
        st.tuples(st.integers(1, 2**29 - 1), st.just(VARINT), UINT64.map(varint)),
        st.tuples(st.integers(1, 2**29 - 1), st.just(FIXED64), st.binary(min_size=8, max_size=8)),
        st.tuples(st.integers(1, 2**29 - 1), st.just(FIXED32), st.binary(min_size=4, max_size=4)),
        st.tuples(st.integers(1, 2**29 - 1), st.just(BYTES), st.binary(max_size=200)),
    ),
    lambda inner: st.tuples(st.integers(1, 2**29 - 1), st.just(GROUP), st.lists(inner, max_size=3)),
    max_leaves=6,
)


def written(field: tuple[int, int, Any]) -> bytes:
    number, wire_type, _ = field
    return tag(number, wire_type) + content_of(field)


def content_of(field: tuple[int, int, Any]) -> bytes:
    number, wire_type, content = field
    if wire_type == GROUP:
        return b"".join(map(written, content)) + tag(number, END_GROUP)
    return sized(content) if wire_type == BYTES else content


@CHECKED
@given(st.lists(WIRE_FIELDS, max_size=8))
def test_every_kind_of_field_is_found_whole(made: list[tuple[int, int, Any]]) -> None:
    data = b"".join(map(written, made))
    assert reassembled(data) == [
        (number, wire_type, content if wire_type == BYTES else content_of((number, wire_type, content)))
        for number, wire_type, content in made
    ]


@CHECKED
@given(st.lists(WIRE_FIELDS, min_size=1, max_size=5), st.data())
def test_a_truncated_message_is_an_error_or_ends_at_a_field(
    made: list[tuple[int, int, Any]], data: st.DataObject
) -> None:
    whole = b"".join(map(written, made))
    ends = {end for *_, end in fields(whole)} | {0}
    cut = data.draw(st.integers(0, len(whole)))
    if cut in ends:
        reassembled(whole[:cut])
    else:
        with pytest.raises(DecodeError):
            list(fields(whole[:cut]))


def has_field_0(data: bytes) -> bool:
    try:
        list(fields(data))
    except DecodeError as error:
        return error.message == "there is no field number 0"
    return False


@settings(max_examples=1000, deadline=None, derandomize=True)
@given(st.binary(max_size=30))
@example(b"\x00")
@example(b"\x0c")
@example(b"\x0b\x13\x0c\x14")
@example(b"\x0b\x13\x14\x0c")
@example(b"\x0a\x80\x80\x80\x80\x80\x00")
@example(b"\x8a\x80\x80\x80\x80\x00\x00")
@example(b"\x0a\xff\xff\xff\xff\x0f")
def test_bytes_of_any_kind_are_refused_exactly_when_protobuf_refuses_them(data: bytes) -> None:
    # A message without any fields: all that protobuf checks is the wire format.
    empty: type[Message] = v1.DeleteModuleResponse
    assert not empty.DESCRIPTOR.fields
    try:
        empty.FromString(data)
    except Exception:
        with pytest.raises(DecodeError):
            list(fields(data))
    else:
        # The format forbids field number 0; some versions of protobuf read such a field.
        with suppress(DecodeError) if has_field_0(data) else nullcontext():
            reassembled(data)


def test_fields_before_a_mistake_are_given() -> None:
    found = fields(b"\x0a\x01m\x28")
    assert next(found) == (1, BYTES, 0, 2, 3)
    with pytest.raises(DecodeError):
        next(found)


def test_groups_nest_as_deep_as_protobuf_reads_them() -> None:
    data = b"\x0b" * 100 + b"\x0c" * 100
    assert list(fields(data)) == [(1, GROUP, 0, 1, 200)]
    with pytest.raises(DecodeError, match="truncated"):
        list(fields(data[:-1]))
    with pytest.raises(DecodeError, match="deeper than protobuf's 100 levels"):
        list(fields(b"\x0b" * 101 + b"\x0c" * 101))


def test_the_schema_file_is_read_with_it() -> None:
    assert pool.FindFileByName("xla/xla_data.proto").message_types_by_name["ShapeProto"].full_name == "xla.ShapeProto"
