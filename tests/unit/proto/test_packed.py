"""Packed fields as bytes: what protobuf accepts gives what protobuf gives, and nothing else is accepted."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xlashape.errors import DecodeError
from xlashape.proto import v1
from xlashape.proto.packed import join, split


def numbers(payload: object) -> list[int]:
    return array("q", bytes(payload)).tolist()


def varint(value: int) -> bytes:
    made = b""
    while value > 127:
        made, value = made + bytes([value & 127 | 128]), value >> 7
    return made + bytes([value])


INT64 = st.integers(-(2**63), 2**63 - 1)


@st.composite
def encoded(draw: st.DrawFn) -> tuple[bytes, list[int]]:
    """Fields of a LinearIndexRequest in any order and encoding, and the indices they hold."""
    parts: list[bytes] = []
    values: list[int] = []
    for kind in draw(st.lists(st.sampled_from(["packed", "single", "shape", "order", "count", "unknown"]), max_size=8)):
        if kind == "packed":
            run = draw(st.lists(INT64, max_size=5))
            parts.append(b"\x12" + varint(8 * len(run)) + array("q", run).tobytes())
            values += run
        elif kind == "single":
            value = draw(INT64)
            parts.append(b"\x11" + array("q", [value]).tobytes())
            values.append(value)
        elif kind == "shape":
            text = draw(st.sampled_from(["f32[2]", "s8[3,4]{0,1}", ""])).encode()
            parts.append(b"\x0a" + varint(len(text) + 2) + b"\x1a" + varint(len(text)) + text)
        elif kind == "order":
            parts.append(b"\x20" + varint(draw(st.integers(0, 2))))
        elif kind == "count":
            parts.append(b"\x18" + varint(draw(st.integers(0, 2**40))))
        else:
            parts.append(b"\xa2\x06" + varint(3) + b"abc")
    return b"".join(parts), values


@settings(max_examples=200, deadline=None, derandomize=True)
@given(encoded())
def test_every_encoding_gives_what_protobuf_gives(made: tuple[bytes, list[int]]) -> None:
    data, values = made
    expected = v1.LinearIndexRequest.FromString(data)
    assert list(expected.indices) == values
    message, [indices] = split(v1.LinearIndexRequest, data, "indices")
    assert numbers(indices) == values
    expected.ClearField("indices")
    assert message == expected


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.binary(max_size=40))
def test_bytes_of_any_kind_are_refused_exactly_when_protobuf_refuses_them(data: bytes) -> None:
    for kind, names in ((v1.LinearIndexRequest, ["indices"]), (v1.MultiIndexResponse, ["indices", "is_element"])):
        try:
            expected = kind.FromString(data)
        except Exception:
            with pytest.raises(DecodeError):
                split(kind, data, *names)
            continue
        message, payloads = split(kind, data, *names)
        for name, payload in zip(names, payloads, strict=True):
            values = numbers(payload) if name == "indices" else list(bytes(payload))
            assert values == [int(value) for value in getattr(expected, name)]
            expected.ClearField(name)
        assert message == expected


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(INT64, max_size=300), st.lists(st.booleans(), max_size=300))
def test_what_is_joined_is_what_protobuf_reads(values: list[int], flags: list[bool]) -> None:
    data = join(v1.MultiIndexResponse(), indices=array("q", values).tobytes(), is_element=memoryview(bytes(flags)))
    assert v1.MultiIndexResponse.FromString(data) == v1.MultiIndexResponse(indices=values, is_element=flags)
    assert data == v1.MultiIndexResponse(indices=values, is_element=flags).SerializeToString()
    _, [indices, is_element] = split(v1.MultiIndexResponse, data, "indices", "is_element")
    assert (numbers(indices), list(bytes(is_element))) == (values, [int(flag) for flag in flags])


def test_a_packed_run_is_not_copied() -> None:
    data = join(v1.LinearIndexRequest(shape=v1.ShapeInput(text="f32[2]")), indices=bytes(8000))
    _, [indices] = split(v1.LinearIndexRequest, data, "indices")
    assert isinstance(indices, memoryview)
    assert indices.obj is data


def test_booleans_of_other_values_are_true() -> None:
    data = b"\x12\x03\x00\x02\x01" + b"\x12\x03\x81\x80\x00"
    _, [_, is_element] = split(v1.MultiIndexResponse, data, "indices", "is_element")
    assert list(bytes(is_element)) == [0, 1, 1, 1]
    assert list(v1.MultiIndexResponse.FromString(data).is_element) == [False, True, True, True]


def test_a_memoryview_of_numbers_is_measured_in_bytes() -> None:
    view = memoryview(array("q", range(100)))
    assert list(v1.LinearIndexRequest.FromString(join(v1.LinearIndexRequest(), indices=view)).indices) == list(
        range(100)
    )
