"""Shapes of any kind: text and protos lose nothing, truncated and scrambled input is one clear error, sizes agree with
each other."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from xlashape.errors import InvalidArgumentError, LimitExceededError, ParseError
from xlashape.shape import (
    COMBINE,
    UNBOUNDED_SIZE,
    Layout,
    PrimitiveType,
    Shape,
    SplitConfig,
    Tile,
    layout_util,
    shape_util,
)
from xlashape.shape.value.program_shape import ProgramShape
from xlashape.shape.value.shape_index import ShapeIndex

VECTORS = Path(__file__).parents[1] / "vectors"
TEXTS = [json.loads(line)["text"] for line in (VECTORS / "shapes.jsonl").read_text().splitlines()]
quick = settings(derandomize=True, deadline=None, max_examples=50)
slow = settings(derandomize=True, deadline=None, max_examples=15)

int64 = st.integers(-(2**63), 2**63 - 1)
counts = st.one_of(st.integers(0, 9), st.integers(0, 2**63 - 1))
types = st.sampled_from([kind for kind in PrimitiveType if kind.is_array_type])
integral = st.sampled_from([kind for kind in PrimitiveType if kind.is_integral or not kind])
unknown = st.sampled_from([b"", b"\x98\x06\x05", b"\xa2\x06\x03abc"])


@st.composite
def tiles(draw: st.DrawFn) -> Tile:
    sizes = draw(st.lists(st.one_of(st.just(COMBINE), st.integers(1, 2**63 - 1)), max_size=4))
    return Tile([*sizes, draw(st.integers(1, 200))], draw(unknown))


@st.composite
def layouts(draw: st.DrawFn, rank: int) -> Layout:
    splits = []
    if rank and draw(st.booleans()):
        indices = sorted(draw(st.lists(counts, max_size=3)))
        splits.append(SplitConfig(draw(st.integers(0, rank - 1)), indices, draw(unknown)))
    return Layout(
        draw(st.permutations(range(rank))),
        draw(st.lists(tiles(), max_size=3)),
        draw(st.one_of(st.just(1), st.integers(1, 2**63 - 1))),
        draw(integral),
        draw(integral),
        draw(st.one_of(st.just(0), counts)),
        draw(st.one_of(st.just(0), int64)),
        splits,
        None,
        draw(st.one_of(st.just(0), counts)),
        draw(unknown),
    )


@st.composite
def arrays(draw: st.DrawFn, *, dynamic: bool = True) -> Shape:
    sizes = draw(st.lists(st.one_of(st.integers(0, 9), st.sampled_from([128, 1000, 2**40])), max_size=5))
    # A size of 0 may become unbounded below, and then no longer makes the product 0.
    while math.prod([size or 1 for size in sizes]) > 2**63 - 1:
        sizes.pop()
    flags = [dynamic and draw(st.booleans()) for _ in sizes]
    sizes = [UNBOUNDED_SIZE if flag and draw(st.booleans()) else size for size, flag in zip(sizes, flags, strict=True)]
    return Shape(draw(types), sizes, flags, draw(layouts(len(sizes))), (), draw(unknown))


shapes = st.recursive(
    st.one_of(arrays(), st.just(Shape.token()), st.just(Shape.opaque()), arrays().map(Shape.buffer)),
    lambda inner: st.lists(inner, max_size=6).map(Shape.tuple),
    max_leaves=5,
)


def without_unknown(shape: Shape) -> Shape:
    layout = shape.layout
    if layout is not None:
        layout = layout.replace(
            unknown_fields=b"",
            tiles=[tile.replace(unknown_fields=b"") for tile in layout.tiles],
            split_configs=[split.replace(unknown_fields=b"") for split in layout.split_configs],
        )
    inner = [without_unknown(element) for element in shape.tuple_shapes]
    return shape.replace(layout=layout, tuple_shapes=inner, unknown_fields=b"")


@quick
@given(shapes)
def test_text_round_trips(shape: Shape) -> None:
    parsed = Shape.parse(str(shape))
    assert parsed == without_unknown(shape)
    assert str(parsed) == str(shape)
    assert shape_util.equal(parsed, shape)
    assert Shape.parse(shape_util.human_string(shape)) == without_unknown(shape).without_layout().with_default_layout()


@quick
@given(shapes)
def test_protos_round_trip(shape: Shape) -> None:
    data = shape.to_proto().SerializeToString(deterministic=True)
    again = Shape.from_proto(data)
    assert again == shape
    assert hash(again) == hash(shape)
    assert again.to_proto().SerializeToString(deterministic=True) == data
    assert Shape.from_proto(shape.to_proto()) == shape


@quick
@given(shapes)
def test_values(shape: Shape) -> None:
    assert pickle.loads(pickle.dumps(shape)) == shape == shape.replace()
    assert shape_util.compatible(shape, shape.without_layout())
    assert shape_util.compatible_ignoring_element_type(shape, shape)
    assert shape_util.equal_structure(shape, shape)
    assert shape_util.subshape_count(shape) >= shape_util.get_leaf_count(shape)
    bare = layout_util.clear_layout(shape)
    assert layout_util.copy_layout_between_shapes(bare, bare) == bare


@slow
@given(st.lists(st.tuples(st.from_regex(r"[a-z_][a-z0-9_.]{0,8}", fullmatch=True), shapes), max_size=4), shapes)
def test_programs_round_trip(parameters: list[tuple[str, Shape]], result: Shape) -> None:
    program = ProgramShape([shape for _, shape in parameters], result, [name for name, _ in parameters])
    assert ProgramShape.from_proto(program.to_proto()) == program
    assert ProgramShape.parse(str(program)) == program.map_shapes(without_unknown)


@quick
@given(st.lists(st.integers(0, 2**63 - 1)))
def test_shape_indices_round_trip(numbers: list[int]) -> None:
    assert ShapeIndex.parse(str(ShapeIndex(numbers))) == tuple(numbers)


def parse_or_refuse(text: str) -> None:
    try:
        shape = Shape.parse(text)
    except ParseError as caught:
        error = caught
    else:
        assert Shape.parse(str(shape)) == shape
        return
    assert error.line >= 1
    assert error.column >= 1
    assert 0 < len(str(error)) < 1_000


@quick
@given(st.sampled_from(TEXTS))
def test_every_prefix(text: str) -> None:
    for end in range(len(text)):
        parse_or_refuse(text[:end])


@quick
@given(st.sampled_from(TEXTS), st.data())
def test_scrambled_text(text: str, data: st.DataObject) -> None:
    for _ in range(5):
        at = data.draw(st.integers(0, len(text)))
        piece = data.draw(
            st.sampled_from(
                [
                    "",
                    "(",
                    ")",
                    "{",
                    "}",
                    "[",
                    "]",
                    ",",
                    ":",
                    "*",
                    "?",
                    "<=",
                    "-",
                    "9" * 20,
                    " ",
                    "/*",
                    "\0",
                    "é",
                    "T",
                    "b(",
                ]
            )
        )
        cut = data.draw(st.integers(0, 3))
        parse_or_refuse(text[:at] + piece + text[at + cut :])


@quick
@given(st.text(alphabet="fsbu12348[](){},:*?<=TLESCDMP#/ -\n\0", max_size=40))
def test_arbitrary_text(text: str) -> None:
    parse_or_refuse(text)


@quick
@given(st.one_of(st.binary(max_size=60), shapes.map(lambda s: s.to_proto().SerializeToString())), st.data())
def test_arbitrary_bytes(data: bytes, draw: st.DataObject) -> None:
    if data and draw.draw(st.booleans()):
        at = draw.draw(st.integers(0, len(data) - 1))
        data = data[:at] + bytes([draw.draw(st.integers(0, 255))]) + data[at + 1 :]
    try:
        shape = Shape.from_proto(data)
    except (InvalidArgumentError, LimitExceededError):
        return
    assert Shape.from_proto(shape.to_proto()) == shape
    assert str(shape)


@quick
@given(arrays())
def test_sizes_agree(shape: Shape) -> None:
    try:
        size = shape_util.array_size(shape.with_layout(shape.layout and shape.layout.replace(split_configs=())))
        data = shape_util.array_data_size(shape)
        elements = shape_util.byte_size_of(shape)
    except InvalidArgumentError:
        return
    assert 0 <= elements <= size
    assert data <= size
    assert shape_util.byte_size_of_elements_recursive(Shape.tuple([shape])) == elements


@quick
@given(arrays(dynamic=False), st.data())
def test_dimensions(shape: Shape, data: st.DataObject) -> None:
    permutation = data.draw(st.permutations(range(shape.rank)))
    permuted = shape_util.permute_dimensions(permutation, shape)
    assert shape_util.transpose_is_bitcast(shape, permuted, permutation)
    back = [permutation.index(d) for d in range(shape.rank)]
    assert shape_util.permute_dimensions(back, permuted) == shape
    dropped = shape_util.drop_degenerate_dimensions(shape)
    assert dropped.rank == shape_util.true_num_dimensions(shape)
    assert shape_util.reshape_is_bitcast(shape, dropped)
    aligned = shape_util.align_layouts(shape, Shape.array(shape.element_type, dropped.dimensions))
    if 0 not in shape.dimensions:
        assert aligned is not None
        assert shape_util.reshape_is_bitcast(shape, aligned)
    try:
        grown = shape_util.append_major_dimension(2, shape_util.append_minor_dimension(2, shape))
    except InvalidArgumentError:
        return
    assert shape_util.delete_dimensions((-1, -2), grown) == shape
