"""Arrays in and out of their buffers: every element type, every kind of layout, and what wrong input is told."""

from __future__ import annotations

import array as stdlib_array
from itertools import product
from typing import Any

import numpy as np
import pytest

from xlashape.errors import (
    InvalidArgumentError,
    InvalidShapeError,
    LimitExceededError,
    UnavailableError,
    UnsupportedError,
)
from xlashape.shape import Layout, PrimitiveType, Shape, tiling
from xlashape.shape.tiling import buffers, strided_copy

pytest.importorskip("ml_dtypes", reason="element types that NumPy lacks come from ml_dtypes")


def type_parameter(kind: PrimitiveType) -> Any:
    """The type, marked as skipped where the ml_dtypes installed is older than it."""
    try:
        kind.numpy_dtype()
    except UnavailableError as error:
        return pytest.param(kind, marks=pytest.mark.skip(reason=str(error)))
    return kind


ARRAY_TYPES = [type_parameter(kind) for kind in PrimitiveType if kind.is_array_type]
NARROW_TYPES = [type_parameter(kind) for kind in PrimitiveType if kind.is_array_type and kind.bit_width < 8]
LAYOUTS = [
    "{1,0}",
    "{0,1}",
    "{1,0:T(8,128)}",
    "{0,1:T(8,128)}",
    "{1,0:T(2,4)(2,1)}",
    "{1,0:T(4,4)(4,1)}",
    "{1,0:T(8,2)(8,1)}",
    "{0,1:T(32,4)(32,1)L(64)}",
    "{1,0:T(*,8)}",
    "{0,1:T(*,6)(4)}",
    "{1,0:T(5,3)(2,2)}",
    "{1,0:T(2,3,4)L(7)}",
]


def every_value(kind: PrimitiveType, count: int) -> np.ndarray[Any, Any]:
    """`count` values of the type with all kinds of bits."""
    dtype = kind.numpy_dtype()
    bits = np.random.default_rng(int(kind)).integers(0, 256, count * dtype.itemsize, np.uint8)
    if kind is PrimitiveType.PRED:
        bits &= 1
    elif kind.bit_width < 8:
        bits &= (1 << kind.bit_width) - 1
    return bits.view(dtype)


def raw(values: np.ndarray[Any, Any]) -> bytes:
    return np.ascontiguousarray(values).tobytes()


def elements_one_by_one(shape: Shape, values: np.ndarray[Any, Any], fill: bytes) -> bytes:
    """The buffer, element by element where `linear_index` says."""
    parts = [fill] * tiling.physical_elements(shape)
    for index in np.ndindex(values.shape):
        parts[tiling.linear_index(shape, index)] = raw(values[index])
    return b"".join(parts)


@pytest.mark.parametrize("kind", ARRAY_TYPES, ids=str)
def test_every_type_in_every_kind_of_layout(kind: PrimitiveType) -> None:
    values = every_value(kind, 11 * 13).reshape(11, 13)
    fill = values[3, 4]
    for layout in LAYOUTS:
        shape = Shape.array(kind, (11, 13), Layout.parse(layout))
        buffer = tiling.pack(shape, values, fill=fill)
        assert (buffer.dtype, buffer.shape) == (np.uint8, (tiling.physical_bytes(shape),))
        assert buffer.tobytes() == elements_one_by_one(shape, values, raw(fill)), layout
        back = tiling.unpack(shape, buffer)
        assert (back.dtype, back.shape) == (values.dtype, values.shape)
        assert raw(back) == raw(values), layout
        assert raw(tiling.unpack(shape, buffer.tobytes())) == raw(values)


@pytest.mark.parametrize("kind", NARROW_TYPES, ids=str)
@pytest.mark.parametrize("sizes", [(11, 13), (16, 24), (8, 9)], ids=str)
@pytest.mark.parametrize("layout", [*LAYOUTS, "{1,0:T(8,4)(8,1)}", "{1,0:T(8,2)(4,1)(2,1)}"])
def test_packed_elements(kind: PrimitiveType, layout: str, sizes: tuple[int, int]) -> None:
    values = every_value(kind, sizes[0] * sizes[1]).reshape(sizes)
    bits = kind.bit_width
    shape = Shape.array(kind, sizes, Layout.parse(layout).replace(element_size_in_bits=bits))
    buffer = tiling.pack(shape, values, fill=values[0, 0])
    assert buffer.size == tiling.physical_bytes(shape) == -(-tiling.physical_elements(shape) * bits // 8)
    number = int.from_bytes(buffer.tobytes(), "little")
    mask = (1 << bits) - 1
    plain = elements_one_by_one(shape, values, raw(values[0, 0]))
    assert [number >> (i * bits) & mask for i in range(len(plain))] == list(plain)
    assert number >> (len(plain) * bits) == 0
    assert raw(tiling.unpack(shape, buffer)) == raw(values)


def test_packed_elements_of_many_pieces() -> None:
    shape = Shape.parse("s4[1096,4224]{1,0:T(8,128)(8,1)E(4)}")
    values = every_value(PrimitiveType.S4, 1096 * 4224).reshape(1096, 4224)
    buffer = tiling.pack(shape, values)
    # A column of each tile is a word of four bytes.
    tiles = (raw(values), (137, 4, 2, 33, 128), (0, 3, 4, 1, 2))
    low, high = np.moveaxis(np.frombuffer(tiles[0], np.uint8).reshape(tiles[1]).transpose(tiles[2]), -1, 0)
    assert np.array_equal(buffer, (low | high << 4).reshape(-1))
    assert raw(tiling.unpack(shape, buffer)) == raw(values)


def test_the_first_element_is_in_the_low_order_bits() -> None:
    shape = Shape.parse("u4[3]{0:E(4)}")
    buffer = tiling.pack(shape, [1, 2, 15])
    assert buffer.tolist() == [0x21, 0x0F]
    assert tiling.unpack(shape, buffer).astype(int).tolist() == [1, 2, 15]
    assert tiling.pack(Shape.parse("s4[3]{0:E(4)}"), [-1, -8, 7]).tolist() == [0x8F, 0x07]
    assert tiling.pack(Shape.parse("u2[5]{0:E(2)}"), [0, 1, 2, 3, 3]).tolist() == [0b11100100, 3]
    assert tiling.pack(Shape.parse("pred[10]{0:E(1)}"), [1, 0, 0, 1, 0, 0, 0, 0, 0, 1]).tolist() == [9, 2]


@pytest.mark.parametrize("kind", NARROW_TYPES, ids=str)
def test_arrays_of_up_to_three_bytes(kind: PrimitiveType) -> None:
    """Any rank, scalars and empty arrays too, in every way to share out so few elements."""
    bits = kind.bit_width if kind is not PrimitiveType.PRED else 1
    joined = max(8 // bits, 1)
    for dims in product((0, 1, 2, 3, joined), repeat=3):
        for sizes in (dims, dims[:2], dims[:1], ()):
            if np.prod(sizes) > 3 * joined:
                continue
            for order in (range(len(sizes)), range(len(sizes))[::-1]):
                shape = Shape.array(kind, sizes, Layout(order, element_size_in_bits=bits))
                values = every_value(kind, int(np.prod(sizes))).reshape(sizes)
                buffer = tiling.pack(shape, values)
                assert buffer.size == -(-values.size * bits // 8)
                assert raw(tiling.unpack(shape, buffer)) == raw(values)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_packed_predicates(bits: int) -> None:
    shape = Shape.parse(f"pred[5]{{0:E({bits})}}")
    values = np.array([True, False, True, True, False])
    buffer = tiling.pack(shape, values)
    assert int.from_bytes(buffer.tobytes(), "little") == sum(int(v) << (i * bits) for i, v in enumerate(values))
    back = tiling.unpack(shape, buffer)
    assert back.dtype == np.bool_
    assert back.tolist() == values.tolist()
    assert tiling.unpack(shape, b"\xff" * buffer.size).tolist() == [True] * 5


def test_bytes_that_are_no_elements_are_not_looked_at() -> None:
    """Upper bits in a byte of a narrow type, as some programs leave them, do not reach packed neighbours."""
    dtype = PrimitiveType.S4.numpy_dtype()
    values = np.array([0xFF, 0x01], np.uint8).view(dtype)
    assert tiling.pack(Shape.parse("s4[2]{0:E(4)}"), values).tolist() == [0x1F]


@pytest.mark.parametrize(
    "text", ["s2[3]{0:E(32)}", "f32[3]{0:E(16)}", "f32[3]{0:E(64)}", "s4[3]{0:E(2)}", "s2[3]{0:E(4)}", "f32[3]{0:E(4)}"]
)
def test_element_sizes_that_say_nothing_of_how(text: str) -> None:
    shape = Shape.parse(text)
    with pytest.raises(UnsupportedError, match="which says nothing of how"):
        tiling.pack(shape, np.zeros(3, shape.element_type.numpy_dtype()))
    with pytest.raises(UnsupportedError, match="which says nothing of how"):
        tiling.unpack(shape, bytes(tiling.physical_bytes(shape)))


def test_a_type_s_own_size_may_be_written_out() -> None:
    assert tiling.pack(Shape.parse("f32[2]{0:E(32)}"), [1.0, 2.0]).view("<f4").tolist() == [1.0, 2.0]
    assert tiling.pack(Shape.parse("s4[2]{0:E(8)}"), [1, 2]).tolist() == [1, 2]


# -- shapes at the edge ---------------------------------------------------------------------


def test_scalars_empty_arrays_and_tails() -> None:
    assert tiling.pack(Shape.parse("f32[]"), np.float32(2.5)).view("<f4").tolist() == [2.5]
    tiled = tiling.pack(Shape.parse("s32[]{:T(4)}"), np.array(7, np.int32), fill=-1)
    assert tiled.view("<i4").tolist() == [7, -1, -1, -1]
    assert tiling.unpack(Shape.parse("s32[]{:T(4)}"), tiled).tolist() == 7
    for text in ("f32[0]", "f32[3,0]{0,1:T(8,128)}", "s4[0,5]{1,0:T(8,128)(2,1)E(4)}"):
        shape = Shape.parse(text)
        assert tiling.pack(shape, np.empty(shape.dimensions, shape.element_type.numpy_dtype())).shape == (0,)
        assert tiling.unpack(shape, b"").shape == shape.dimensions
        assert tiling.unpack(shape, np.empty(0, np.uint8), copy=True).shape == shape.dimensions
    assert tiling.pack(Shape.parse("u8[5]{0:L(4)}"), [1, 2, 3, 4, 5], fill=9).tolist() == [1, 2, 3, 4, 5, 9, 9, 9]


def test_padding_is_zero_unless_told() -> None:
    """Zero bits, also for types without a zero."""
    assert tiling.pack(Shape.parse("f8e8m0fnu[3]{0:T(4)}"), [1.0, 2.0, 4.0]).tolist() == [127, 128, 129, 0]
    assert tiling.pack(Shape.parse("f32[1]{0:T(4)}"), [1.0], fill=np.inf).view("<f4").tolist() == [
        1.0,
        np.inf,
        np.inf,
        np.inf,
    ]
    assert tiling.pack(Shape.parse("c64[1]{0:T(2)}"), [1j], fill=2 - 1j).view("<c8").tolist() == [1j, 2 - 1j]


def test_dynamic_bounds_buffers_and_default_layouts() -> None:
    assert tiling.pack(Shape.parse("u8[<=2,3]{0,1}"), [[1, 2, 3], [4, 5, 6]]).tolist() == [1, 4, 2, 5, 3, 6]
    assert tiling.pack(Shape.parse("b(u8[2]{0})"), [1, 2]).tolist() == [1, 2]
    assert tiling.pack(Shape(PrimitiveType.U8, (2, 2)), [[1, 2], [3, 4]]).tolist() == [1, 2, 3, 4]


def test_many_dimensions_of_size_one() -> None:
    shape = Shape.array("u8", [1] * 20 + [3] + [1] * 11, Layout(range(32), [(2, 2)]))
    values = np.arange(3, dtype=np.uint8).reshape(shape.dimensions)
    assert tiling.unpack(shape, tiling.pack(shape, values)).ravel().tolist() == [0, 1, 2]
    too_many = Shape.array("u8", [1] * 70)
    for copy in (None, True, False):
        with pytest.raises(LimitExceededError, match="dimensions of a NumPy array: 70 is more than"):
            tiling.unpack(too_many, bytes(1), copy=copy)


@pytest.mark.parametrize(
    "text",
    [
        "s16[100,300]{1,0:T(8,128)(2,1)}",
        "s8[100,300]{1,0:T(8,128)(4,1)}",
        "s32[3,300,500]{0,1,2}",
        "s32[3,300,500]{1,2,0}",
        "s32[600,500]{0,1:T(8,128)}",
        "s64[70,50,60]{2,1,0:T(*,8,7)}",
        "s64[70,50,60]{0,1,2:T(*,8,7)(3)}",
        "s32[50000]{0:T(1024)(128)(2,1)}",
        "s16[2000,40]{1,0:T(6,6)(4,4)}",
    ],
)
def test_sizes_that_take_several_pieces(text: str) -> None:
    shape = Shape.parse(text)
    count = int(np.prod(shape.dimensions))
    values = np.arange(count).astype(shape.element_type.numpy_dtype()).reshape(shape.dimensions)
    expected = np.full(tiling.physical_elements(shape), 77, values.dtype)
    rows = np.stack([axis.ravel() for axis in np.indices(shape.dimensions)], 1)
    expected[tiling.linear_indices(shape, rows)] = values.ravel()
    buffer = tiling.pack(shape, values, fill=77)
    np.testing.assert_array_equal(buffer.view(values.dtype), expected)
    np.testing.assert_array_equal(tiling.unpack(shape, buffer), values)


@pytest.mark.parametrize("kind", ["s8", "u16", "s32", "f64", "c128", "u2"])
def test_pieces_of_a_few_elements(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way of copying, its sizes set so small that the array takes many pieces with uneven rests."""
    for name, size in {
        "_PIECE": 24,
        "_WORDS_IN_PIECE": 20,
        "_SIDE": 10,
        "_GAP": 3,
        "_SMALL_BYTES": 0,
        "_TRANSIT_BYTES": 400,
    }.items():
        monkeypatch.setattr(strided_copy, name, size)
    monkeypatch.setattr(buffers, "_GATHERED", 30)
    element_type = PrimitiveType.parse(kind)
    values = every_value(element_type, 5 * 23 * 37).reshape(5, 23, 37)
    layouts = ["{0,1,2}", "{1,2,0}", "{0,2,1}", "{2,1,0:T(8,128)(2,1)}", "{1,2,0:T(8,16)(4,1)}", "{2,0,1:T(8,8)(8,1)}"]
    layouts += [
        "{2,1,0:T(32,8)(32,1)}",
        "{2,1,0:T(3,5)(3,1)}",
        "{0,1,2:T(6,6)(4,4)}",
        "{2,1,0:T(*,4,8)(2,1)}",
        "{0,1,2:T(*,4,8)(2)}",
    ]
    for layout in layouts:
        shape = Shape.array(kind, values.shape, Layout.parse(layout))
        for given in (values, np.asfortranarray(values), np.flip(values)):
            buffer = tiling.pack(shape, given, fill=values[0, 0, 0])
            assert buffer.tobytes() == elements_one_by_one(shape, given, raw(values[0, 0, 0])), layout
            assert raw(tiling.unpack(shape, buffer, copy=True)) == raw(given), layout


# -- what comes in --------------------------------------------------------------------------

SHAPE = Shape.parse("s32[3,5]{1,0:T(2,2)}")
VALUES = np.arange(15, dtype=np.int32).reshape(3, 5)
BUFFER = tiling.pack(SHAPE, VALUES)


def test_arrays_of_any_strides() -> None:
    wide = np.zeros((9, 11), np.int32)
    wide[::-3, 10:0:-2] = VALUES
    wide.flags.writeable = False
    for values in (wide[::-3, 10:0:-2], np.asfortranarray(VALUES), VALUES.astype(">i4"), VALUES.tolist()):
        assert tiling.pack(SHAPE, values).tobytes() == BUFFER.tobytes()
    assert tiling.pack(SHAPE, np.broadcast_to(np.int32(7), (3, 5)), fill=7).view("<i4").tolist() == [7] * 24
    for layout in ("{0,1:T(2,2)}", "{1,0:T(2,2)(2,1)}", "{1,0:T(*,4)}"):
        shape = SHAPE.with_layout(Layout.parse(layout))
        assert tiling.pack(shape, wide[::-3, 10:0:-2]).tobytes() == tiling.pack(shape, VALUES).tobytes()


def test_buffers_of_any_kind() -> None:
    data = BUFFER.tobytes()
    unaligned = memoryview(b"x" + data)[1:]
    strided = np.repeat(BUFFER, 2)[::2]
    kinds = [
        data,
        bytearray(data),
        memoryview(data),
        BUFFER.view("<i4"),
        stdlib_array.array("B", data),
        unaligned,
        strided,
    ]
    for buffer in [*kinds, memoryview(strided), BUFFER.view("<i4").reshape(4, 6)]:
        np.testing.assert_array_equal(tiling.unpack(SHAPE, buffer), VALUES)
    plain = Shape.parse("s32[6,4]{0,1}")
    np.testing.assert_array_equal(tiling.unpack(plain, unaligned), tiling.unpack(plain, data))


def test_a_buffer_to_write_into() -> None:
    into = bytearray(BUFFER.size)
    tiling.pack(SHAPE, VALUES, out=into)
    assert into == BUFFER.tobytes()
    words = np.full(24, -5, np.int32)
    tiling.pack(SHAPE, VALUES, fill=-1, out=words)
    np.testing.assert_array_equal(words, tiling.pack(SHAPE, VALUES, fill=-1).view("<i4"))
    tiling.pack(SHAPE, VALUES, out=words)
    assert words.tobytes() == BUFFER.tobytes()
    for wrong, message in [
        (bytes(96), "writable contiguous"),
        (np.zeros((96, 2), np.uint8)[:, 0], "writable contiguous"),
        (bytearray(95), "has 96 bytes, found 95"),
        ("text", "expected the bytes of a buffer, found str"),
    ]:
        with pytest.raises(InvalidArgumentError, match=message):
            tiling.pack(SHAPE, VALUES, out=wrong)  # pyright: ignore[reportArgumentType]


def test_views() -> None:
    """Where elements are evenly spaced, no copy is made; what is read-only stays so."""
    for text in (
        "s32[3,4]{0,1}",
        "s32[3,4]{1,0}",
        "s32[3,4]{1,0:T(8,128)}",
        "s32[2,3,4]{1,0,2:T(*,4,8)}",
        "s32[1,5]{0,1:T(4,1)}",
    ):
        shape = Shape.parse(text)
        values = np.arange(np.prod(shape.dimensions), dtype=np.int32).reshape(shape.dimensions)
        buffer = tiling.pack(shape, values)
        view = tiling.unpack(shape, buffer)
        assert np.shares_memory(view, buffer), text
        np.testing.assert_array_equal(view, values)
        view[(0,) * shape.rank] = 99
        assert tiling.unpack(shape, buffer.copy())[(0,) * shape.rank] == 99
        copied = tiling.unpack(shape, buffer, copy=True)
        assert not np.shares_memory(copied, buffer)
        assert copied.flags.c_contiguous
        assert copied.flags.writeable
        assert not tiling.unpack(shape, buffer.tobytes(), copy=False).flags.writeable
    with pytest.raises(UnsupportedError, match="its tiles divide a dimension"):
        tiling.unpack(SHAPE, BUFFER, copy=False)
    with pytest.raises(UnsupportedError, match="elements share bytes"):
        tiling.unpack(Shape.parse("u4[4]{0:E(4)}"), bytes(2), copy=False)
    assert not np.shares_memory(tiling.unpack(SHAPE, BUFFER), BUFFER)


def test_relayout() -> None:
    layouts = [
        None,
        *map(Layout.parse, ["{0,1}", "{1,0:T(8,128)}", "{0,1:T(2,4)(2,1)L(3)}", "{1,0:T(*,4)}", "{1,0:T(5,3)(2,2)}"]),
    ]
    shapes = [SHAPE.with_layout(layout) for layout in layouts]
    for source in shapes:
        for target in shapes:
            moved = tiling.relayout(tiling.pack(source, VALUES), source, target, fill=-3)
            assert moved.tobytes() == tiling.pack(target, VALUES, fill=-3).tobytes()
    packed, loose = Shape.parse("u4[5]{0:E(4)}"), Shape.parse("u4[5]")
    assert tiling.relayout(bytes([1, 2, 3, 4, 5]), loose, packed).tolist() == [0x21, 0x43, 5]
    assert tiling.relayout(bytes([0x21, 0x43, 5]), packed, loose).tolist() == [1, 2, 3, 4, 5]
    source = np.arange(6, dtype=np.uint8)
    same = Shape.parse("u8[6]")
    assert not np.shares_memory(tiling.relayout(source, same, same), source)
    for other in ("s32[5,3]", "f32[3,5]", "s32[15]"):
        with pytest.raises(InvalidShapeError, match="not the same array in two layouts"):
            tiling.relayout(BUFFER, SHAPE, Shape.parse(other))
