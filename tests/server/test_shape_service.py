"""ShapeService over gRPC, against the library in this process."""

from __future__ import annotations

from typing import Any

import grpc
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlashape.errors import XlashapeError
from xlashape.proto import v1, xla
from xlashape.shape import Shape, tiling
from xlashape_server import Config
from xlashape_server.handlers.shapes import ShapeHandlers

TILED = "f32[3,5]{1,0:T(2,2)}"
SHAPES = [
    "f32[3,5]{1,0:T(2,2)}",
    "bf16[20,300]{1,0:T(8,128)(2,1)}",
    "f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}",
    "s4[5]{0:E(4)}",
    "f32[]",
    "pred[3,0]",
    "f32[3,4]{0,1:L(16)}",
    "f32[<=8,2]{1,0}",
]


def text(value: str) -> v1.ShapeInput:
    return v1.ShapeInput(text=value)


def numbers_of(shape: Shape) -> np.ndarray:
    return (
        np.stack([axis.ravel() for axis in np.indices(shape.dimensions)], 1)
        if shape.rank
        else np.zeros((1, 0), np.int64)
    )


@pytest.mark.parametrize("written", SHAPES)
def test_linear_index_and_its_inverse_are_those_of_the_library(ask: Any, written: str) -> None:
    shape = Shape.parse(written)
    rows = numbers_of(shape)
    request = v1.LinearIndexRequest(shape=text(written), indices=rows.ravel().tolist(), count=len(rows))
    positions = list(ask("ShapeService/LinearIndex", request).positions)
    assert positions == tiling.linear_indices(shape, rows).tolist()
    every = list(range(tiling.physical_elements(shape)))
    answer = ask("ShapeService/MultiIndex", v1.MultiIndexRequest(shape=text(written), positions=every))
    indices, is_element = tiling.multi_indices(shape, np.array(every, np.int64))
    assert list(answer.indices) == indices.ravel().tolist()
    assert list(answer.is_element) == is_element.tolist()


def test_many_indices_take_the_path_through_numpy_with_the_same_result(ask: Any) -> None:
    shape = Shape.parse("bf16[64,300]{1,0:T(8,128)(2,1)}")
    rows = numbers_of(shape)
    request = v1.LinearIndexRequest(
        shape=v1.ShapeInput(serialized=shape.to_proto().SerializeToString()), indices=rows.ravel().tolist()
    )
    assert list(ask("ShapeService/LinearIndex", request).positions) == tiling.linear_indices(shape, rows).tolist()


def test_logical_order_follows_minor_to_major_alone(ask: Any) -> None:
    request = v1.LinearIndexRequest(shape=text(TILED), indices=[2, 3], order=v1.LINEAR_ORDER_LOGICAL)
    assert list(ask("ShapeService/LinearIndex", request).positions) == [13]
    back = v1.MultiIndexRequest(shape=text(TILED), positions=[13], order=v1.LINEAR_ORDER_LOGICAL)
    answer = ask("ShapeService/MultiIndex", back)
    assert (list(answer.indices), list(answer.is_element)) == ([2, 3], [True])


def test_every_form_of_a_shape_is_the_same_shape(ask: Any) -> None:
    shape = Shape.parse(TILED)
    forms = [
        text(TILED),
        v1.ShapeInput(serialized=shape.to_proto().SerializeToString()),
        v1.ShapeInput(shape=v1.Shape.FromString(shape.to_proto().SerializeToString())),
    ]
    described = ask("ShapeService/DescribeShape", v1.DescribeShapeRequest(shapes=forms)).descriptions
    assert [one.text for one in described] == [TILED] * 3
    assert described[0] == described[1] == described[2]


def test_a_description_has_all_fields(ask: Any) -> None:
    [one] = ask(
        "ShapeService/DescribeShape", v1.DescribeShapeRequest(shapes=[text("bf16[3,<=5]{0,1:T(2,2)(2,1)S(1)}")])
    ).descriptions
    assert one.text == "bf16[3,<=5]{0,1:T(2,2)(2,1)S(1)}"
    assert one.element_type == xla.BF16
    assert (list(one.dimensions), list(one.dynamic_dimensions), one.rank, one.true_rank) == (
        [3, 5],
        [False, True],
        2,
        2,
    )
    assert (one.size.byte_size, one.size.logical_bytes, one.size.physical_elements, one.size.physical_bytes) == (
        30,
        30,
        24,
        48,
    )
    assert (one.is_static, one.leaf_count) == (False, 1)
    layout = one.layout
    assert (layout.text, list(layout.minor_to_major), layout.is_major_to_minor) == (
        "{0,1:T(2,2)(2,1)S(1)}",
        [0, 1],
        False,
    )
    assert (layout.is_tiled, layout.element_bits, layout.memory_space, layout.tail_padding_alignment_in_elements) == (
        True,
        16,
        1,
        1,
    )
    assert [list(tile.dimensions) for tile in layout.tiles] == [[2, 2], [2, 1]]
    assert one.shape.SerializeToString() == Shape.parse(one.text).to_proto().SerializeToString()


def test_tuples_tokens_and_unbounded_sizes_are_described(ask: Any) -> None:
    shapes = [text("(f32[2]{0}, (s32[], token[]))"), text("token[]"), text("f32[?,2]"), text("()")]
    pair, token, unbounded, nothing = ask(
        "ShapeService/DescribeShape", v1.DescribeShapeRequest(shapes=shapes)
    ).descriptions
    assert (pair.size.byte_size, pair.size.logical_bytes, pair.size.element_count, pair.leaf_count) == (16, 12, 3, 2)
    assert (pair.HasField("rank"), pair.HasField("layout")) == (False, False)
    assert (token.size.byte_size, token.size.physical_bytes, token.leaf_count) == (0, 0, 0)
    assert (unbounded.HasField("size"), list(unbounded.dimensions), unbounded.is_static) == (
        False,
        [-(2**63), 2],
        False,
    )
    assert (nothing.size.byte_size, nothing.leaf_count, nothing.text) == (0, 0, "()")


def test_what_needs_no_width_is_said_of_an_unknown_element_type(ask: Any) -> None:
    shapes = [text("unknown_77[3,5]{1,0:T(2,2)}"), text("(unknown_77[2]{0}, f32[2]{0})"), text("unknown_77[5]{0:E(4)}")]
    array, pair, packed = ask("ShapeService/DescribeShape", v1.DescribeShapeRequest(shapes=shapes)).descriptions
    assert (array.text, array.element_type, list(array.dimensions)) == ("unknown_77[3,5]{1,0:T(2,2)}", 77, [3, 5])
    assert (array.HasField("size"), array.HasField("padding"), array.layout.element_bits) == (False, False, 0)
    assert (array.layout.is_tiled, array.shape.element_type) == (True, 77)
    assert (pair.HasField("size"), pair.leaf_count) == (False, 2)
    assert (packed.size.physical_bytes, packed.layout.element_bits) == (3, 4)
    request = v1.LinearIndexRequest(shape=shapes[0], indices=[2, 3])
    assert list(ask("ShapeService/LinearIndex", request).positions) == [17]
    with pytest.raises(grpc.RpcError) as caught:
        ask("ShapeService/ByteSize", v1.ByteSizeRequest(shapes=shapes[:1]))
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "unknown_77 is an element type that this version does not know" in caught.value.details()


def test_a_thousand_shapes_are_one_call(ask: Any) -> None:
    shapes = [text(f"f32[{i},5]{{1,0:T(8,128)}}") for i in range(1, 1001)]
    described = ask("ShapeService/DescribeShape", v1.DescribeShapeRequest(shapes=shapes)).descriptions
    assert [one.dimensions[0] for one in described] == list(range(1, 1001))
    sizes = ask("ShapeService/ByteSize", v1.ByteSizeRequest(shapes=shapes)).sizes
    assert [one.physical_bytes for one in sizes] == [tiling.physical_bytes(Shape.parse(shape.text)) for shape in shapes]
    assert [one.size for one in described] == list(sizes)


def test_the_byte_size_of_a_tuple_is_its_table_of_pointers(ask: Any) -> None:
    request = v1.ByteSizeRequest(shapes=[text("(f32[2], f32[3])")], pointer_size=4)
    [size] = ask("ShapeService/ByteSize", request).sizes
    assert (size.byte_size, size.logical_bytes) == (8, 20)


def test_an_empty_batch_has_an_empty_answer(ask: Any) -> None:
    assert not ask("ShapeService/ByteSize", v1.ByteSizeRequest()).sizes
    assert not ask("ShapeService/DescribeShape", v1.DescribeShapeRequest()).descriptions
    assert not ask("ShapeService/LinearIndex", v1.LinearIndexRequest(shape=text(TILED))).positions
    answer = ask("ShapeService/MultiIndex", v1.MultiIndexRequest(shape=text(TILED)))
    assert (len(answer.indices), len(answer.is_element)) == (0, 0)


def test_the_number_of_indices_of_a_scalar_is_one_or_the_count(ask: Any) -> None:
    assert list(ask("ShapeService/LinearIndex", v1.LinearIndexRequest(shape=text("f32[]"))).positions) == [0]
    assert list(ask("ShapeService/LinearIndex", v1.LinearIndexRequest(shape=text("f32[]"), count=0)).positions) == []
    assert (
        list(ask("ShapeService/LinearIndex", v1.LinearIndexRequest(shape=text("f32[]"), count=40)).positions)
        == [0] * 40
    )


def test_a_proto_without_layout_has_the_default_one(ask: Any) -> None:
    bare = xla.ShapeProto(element_type=xla.F32, dimensions=[2, 3])
    [one] = ask(
        "ShapeService/DescribeShape",
        v1.DescribeShapeRequest(shapes=[v1.ShapeInput(serialized=bare.SerializeToString())]),
    ).descriptions
    assert one.text == "f32[2,3]{1,0}"
    pair = xla.ShapeProto(element_type=xla.TUPLE, tuple_shapes=[bare])
    [one] = ask(
        "ShapeService/DescribeShape",
        v1.DescribeShapeRequest(shapes=[v1.ShapeInput(shape=v1.Shape.FromString(pair.SerializeToString()))]),
    ).descriptions
    assert one.text == "(f32[2,3]{1,0})"


@pytest.mark.parametrize(
    ("rpc", "request_", "said"),
    [
        (
            "LinearIndex",
            v1.LinearIndexRequest(shape=text(TILED), indices=[2, 3, 0, 9]),
            "indices[3]: index 9 is outside dimension 1",
        ),
        (
            "LinearIndex",
            v1.LinearIndexRequest(shape=text(TILED), indices=[2, 3] * 40 + [-1, 0]),
            "indices[80]: row 40: index -1 is outside dimension 0",
        ),
        (
            "LinearIndex",
            v1.LinearIndexRequest(shape=text(TILED), indices=[2]),
            "indices: expected 2 numbers in an index of f32[3,5]{1,0:T(2,2)}, found 1",
        ),
        (
            "LinearIndex",
            v1.LinearIndexRequest(shape=text(TILED), indices=[2, 3], count=2),
            "count: expected 1, the number of items in",
        ),
        (
            "LinearIndex",
            v1.LinearIndexRequest(shape=text(TILED), indices=[2, 3, 1, 1], count=1),
            "indices: expected 2 numbers in an index of f32[3,5]{1,0:T(2,2)}, found 4",
        ),
        (
            "LinearIndex",
            v1.LinearIndexRequest(shape=text("f32[]"), indices=[1]),
            "indices: expected no numbers in an index of f32[], found 1 in all",
        ),
        ("LinearIndex", v1.LinearIndexRequest(shape=text("f32[]"), count=-1), "count: expected 0 or more, found -1"),
        ("LinearIndex", v1.LinearIndexRequest(indices=[1]), "shape: a shape is missing"),
        (
            "LinearIndex",
            v1.LinearIndexRequest(shape=text("(f32[2])"), indices=[]),
            "shape: expected an array, found (f32[2]{0})",
        ),
        ("LinearIndex", v1.LinearIndexRequest(shape=text("f32[?]"), indices=[0]), "shape: dimension 0"),
        (
            "LinearIndex",
            v1.LinearIndexRequest(shape=text(TILED), indices=[2, 3], order=7),
            "order: expected a number from 0 to 2, found 7",
        ),
        ("LinearIndex", v1.LinearIndexRequest(shape=text("f32[3,5]{1,1}")), "shape.text: line 1, column 12"),
        (
            "MultiIndex",
            v1.MultiIndexRequest(shape=text(TILED), positions=[0, 24]),
            "positions[1]: row 1: position 24 is outside the buffer",
        ),
        (
            "MultiIndex",
            v1.MultiIndexRequest(shape=text("f32[3,0]"), positions=[0]),
            "positions[0]: row 0: position 0 is outside the buffer",
        ),
        ("ByteSize", v1.ByteSizeRequest(shapes=[text("f32[2]"), text("f32[")]), "shapes[1].text: line 1, column 5"),
        (
            "ByteSize",
            v1.ByteSizeRequest(shapes=[text("f32[2]"), text("f32[?]")]),
            "shapes[1]: f32[?]{0} has an unbounded dimension",
        ),
        ("ByteSize", v1.ByteSizeRequest(shapes=[text("f32[2]")], pointer_size=-1), "pointer_size: expected"),
        (
            "ByteSize",
            v1.ByteSizeRequest(shapes=[v1.ShapeInput(serialized=b"\x1a\xff")]),
            "shapes[0].serialized: not a xla.ShapeProto",
        ),
        (
            "DescribeShape",
            v1.DescribeShapeRequest(
                shapes=[v1.ShapeInput(shape=v1.Shape(element_type=v1.ELEMENT_TYPE_F32, dimensions=[4, -2]))]
            ),
            "shapes[0].shape.dimensions[1]:",
        ),
        ("DescribeShape", v1.DescribeShapeRequest(shapes=[text("(" * 20_000)]), "shapes[0].text:"),
        ("ByteSize", b"\x0a\xff\xff", "not a xlashape.v1.ByteSizeRequest"),
        ("LinearIndex", b"\xff" * 5000, "not a xlashape.v1.LinearIndexRequest"),
    ],
)
def test_an_error_names_the_field(ask: Any, rpc: str, request_: Any, said: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        ask(f"ShapeService/{rpc}", request_)
    assert caught.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert caught.value.details().startswith(said)


def test_a_batch_is_refused_whole(ask: Any) -> None:
    with pytest.raises(grpc.RpcError, match=r"shapes\[500\]"):
        ask("ShapeService/DescribeShape", v1.DescribeShapeRequest(shapes=[text("f32[2]")] * 500 + [text("f33[2]")]))


def encodings(values: list[int]) -> dict[str, bytes]:
    """The field `repeated sfixed64 = 2` as conforming clients may write it."""
    raw = [value.to_bytes(8, "little", signed=True) for value in values]
    packed = [b"\x12" + bytes([len(part)]) + part for part in (b"".join(raw[:2]), b"".join(raw[2:]))]
    single = [b"\x11" + part for part in raw]
    return {
        "one packed run": b"\x12" + bytes([8 * len(raw)]) + b"".join(raw),
        "two packed runs": b"".join(packed),
        "an empty run between": packed[0] + b"\x12\x00" + packed[1],
        "number by number": b"".join(single),
        "a run, then numbers": packed[0] + b"".join(single[2:]),
        "numbers, then a run": b"".join(single[:2]) + packed[1],
        "a length of needless bytes": b"\x12" + bytes([8 * len(raw) | 0x80, 0x00]) + b"".join(raw),
    }


@pytest.mark.parametrize("name", encodings([2, 3, 0, 1]))
@pytest.mark.parametrize("padding", [0, 4096])
def test_every_encoding_of_the_numbers_is_read(ask: Any, name: str, padding: int) -> None:
    # An unknown field makes the request longer than those whose numbers are read one by one.
    unknown = b"\xa2\x06" + bytes([padding & 127 | 128, padding >> 7]) + bytes(padding) if padding else b""
    shape = v1.LinearIndexRequest(shape=text(TILED)).SerializeToString()
    for request in (shape + encodings([2, 3, 0, 1])[name] + unknown, unknown + encodings([2, 3, 0, 1])[name] + shape):
        assert list(ask("ShapeService/LinearIndex", request).positions) == [17, 1]


@given(st.data())
def test_a_request_whose_bytes_were_changed_has_the_answer_of_the_path_through_numpy(data: st.DataObject) -> None:
    """A small request is cut by its bytes, a large one is read by protobuf: both take a request for the same."""
    numbers = data.draw(st.lists(st.integers(-1, 5), max_size=8))
    field = data.draw(st.sampled_from(sorted(encodings(numbers)))) if len(numbers) > 2 else "one packed run"
    pieces = [
        v1.LinearIndexRequest(
            shape=text(data.draw(st.sampled_from([TILED, "f32[]", "f32[4]", "f32["])))
        ).SerializeToString(),
        encodings(numbers)[field],
        data.draw(st.sampled_from([b"", b"\x18\x01", b"\x18\x02", b"\x20\x02", b"\x20\x07", b"\x12\x00"])),
    ]
    request = bytearray(b"".join(data.draw(st.permutations(pieces)) if data.draw(st.booleans()) else pieces))
    if data.draw(st.booleans()) and request:
        request[data.draw(st.integers(0, len(request) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del request[data.draw(st.integers(0, len(request))) :]
    handlers = ShapeHandlers(Config())

    def answer(message: bytes) -> object:
        try:
            return handlers.linear_index(message)
        except XlashapeError as error:
            return type(error), error.path

    padding = b"\xa2\x06\x80\x20" + bytes(4096)  # an unknown field, with which the request is large
    assert answer(bytes(request)) == answer(bytes(request)) == answer(padding + request)


def test_a_description_has_the_causes_of_padding_and_the_best_orders(ask: Any) -> None:
    request = v1.DescribeShapeRequest(shapes=[v1.ShapeInput(text=text) for text in (
        "s32[8388608,8,4]{2,1,0:T(8,128)}", "f32[3,5]{1,0:T(2,2)L(32)}", "f32[4]", "f32[?]", "token[]",
    )])  # fmt: skip
    big, small, whole, unknown, token = ask("ShapeService/DescribeShape", request).descriptions
    # Dimension 2 has 4 elements and is padded to 128: the buffer is 32 times as large.
    assert [(list(cause.dimensions), cause.size, cause.padded_size, cause.tile) for cause in big.padding.causes] == [
        ([2], 4, 128, 0)
    ]
    assert big.padding.padding_bytes == 31 * big.size.logical_bytes
    assert big.padding.best_bytes == big.size.logical_bytes
    assert list(big.padding.best_orders[0].minor_to_major) == [0, 1, 2]
    # Tiles pad 15 elements to 4 × 6 = 24, and the alignment of the tail pads these to 32.
    assert [cause.HasField("tile") for cause in small.padding.causes] == [True, True, False]
    assert sum(cause.padding_elements for cause in small.padding.causes) == 32 - 15
    assert (whole.padding.padding_bytes, list(whole.padding.causes)) == (0, [])
    assert not unknown.HasField("padding")
    assert not token.HasField("padding")
