"""Runtime variables whose producer is a constant or an iota are replaced by their value."""

from __future__ import annotations

import pytest
from hlo_builder import Builder

from xlashape import indexing
from xlashape.hlo import HloInstruction
from xlashape.proto import xla
from xlashape.shape import Shape


def sliced(values: list[int], dims: list[int], sizes: list[int], kind: str = "s32") -> HloInstruction:
    builder = Builder()
    source = builder.parameter(f"f32[{','.join(map(str, dims))}]")
    offsets = [builder.constant(f"{kind}[]", [value]) for value in values]
    builder.op("dynamic-slice", f"f32[{','.join(map(str, sizes))}]", [source, *offsets], dynamic_slice_sizes=sizes)
    return builder.root()


def test_constant_offsets() -> None:
    source, *offsets = indexing.output_to_input(sliced([3, 2], [8, 8], [4, 4]))
    assert str(source) == "{(d0, d1) -> (d0 + 3, d1 + 2), domain: d0 in [0, 3], d1 in [0, 3]}"
    assert source.runtime == ()
    assert [str(one.map) for one in offsets] == ["(d0, d1) -> (), domain: d0 in [0, 3], d1 in [0, 3]"] * 2


@pytest.mark.parametrize(
    ("value", "expected"), [(7, 4), (4, 4), (3, 3), (0, 0), (-1, 0), (-(2**31), 0), (2**31 - 1, 4)]
)
def test_constants_are_clamped(value: int, expected: int) -> None:
    source, _ = indexing.output_to_input(sliced([value], [8], [4]))
    assert [source.map.evaluate((i,)) for i in range(4)] == [(expected + i,) for i in range(4)]
    (written,) = indexing.input_to_output(sliced([value], [8], [4]))
    assert [written.map.evaluate((i,)) for i in range(8)] == [
        (i - expected,) if 0 <= i - expected < 4 else None for i in range(8)
    ]


@pytest.mark.parametrize("kind", ["s64", "u32"])
def test_other_integers(kind: str) -> None:
    assert str(indexing.output_to_input(sliced([2], [8], [4], kind))[0].map) == "(d0) -> (d0 + 2), domain: d0 in [0, 3]"


def test_small_integers() -> None:
    for kind, data, expected in (
        ("s8", b"\x02", 2),
        ("u8", b"\xff", 4),
        ("s8", b"\xff", 0),
        ("s16", b"\x03\x00", 3),
        ("s4", b"\x03", 3),
    ):
        builder = Builder()
        source = builder.parameter("f32[8]")
        literal = xla.LiteralProto(shape=Shape.parse(f"{kind}[]").to_proto(), **{f"{kind}s": data})
        builder.op(
            "dynamic-slice",
            "f32[4]",
            [source, builder.op("constant", f"{kind}[]", literal=literal)],
            dynamic_slice_sizes=[4],
        )
        assert indexing.output_to_input(builder.root())[0].map.evaluate((0,)) == (expected,), kind


def test_some_offsets_are_constant() -> None:
    builder = Builder()
    source, offset = builder.parameter("f32[8,8,8]"), builder.parameter("s32[]")
    one, two = builder.constant("s32[]", [1]), builder.constant("s32[]", [2])
    builder.op("dynamic-slice", "f32[4,4,4]", [source, one, offset, two], dynamic_slice_sizes=[4, 4, 4])
    root = builder.root()
    read = indexing.output_to_input(root)[0]
    assert (
        str(read.map)
        == "(d0, d1, d2){rt0} -> (d0 + 1, d1 + rt0, d2 + 2), domain: d0 in [0, 3], d1 in [0, 3], d2 in [0, 3], rt0 in [0, 4]"
    )
    assert [one.instruction for one in read.runtime] == [root.operands[2]]


def gathered(
    indices: str, rows: int, make: str, values: list[int] | None = None, layout: str = "", size: int = 2
) -> HloInstruction:
    builder = Builder()
    source = builder.parameter("f32[8]")
    index = (
        builder.op("iota", indices, dimensions=[0])
        if make == "iota"
        else builder.constant(indices + layout, values or [])
    )
    numbers = {"offset_dims": [1], "collapsed_slice_dims": [], "start_index_map": [0], "index_vector_dim": 1}
    builder.op(
        "gather", f"f32[{rows},{size}]", [source, index], gather_dimension_numbers=numbers, gather_slice_sizes=[size]
    )
    return builder.root()


def test_iota_indices() -> None:
    read, _ = indexing.output_to_input(gathered("s32[3,1]", 3, "iota"))
    assert str(read) == "{(d0, d1) -> (d1 + d0), domain: d0 in [0, 2], d1 in [0, 1]}"
    assert str(read.simplify()) == "{(d0, d1) -> (d0 + d1), domain: d0 in [0, 2], d1 in [0, 1]}"


def test_iota_indices_beyond_the_end_are_clamped() -> None:
    read, _ = indexing.output_to_input(gathered("s32[12,1]", 12, "iota"))
    assert read.runtime == ()
    assert [read.map.evaluate((i, 0)) for i in range(12)] == [(min(i, 6),) for i in range(12)]


@pytest.mark.parametrize("values", [[1, 3, 5], [2, 2, 2], [5, 3, 1], [9, 6, 3], [-3, 0, 3]])
def test_counted_constants(values: list[int]) -> None:
    read, _ = indexing.output_to_input(gathered("s32[3,1]", 3, "constant", values))
    assert read.runtime == ()
    assert [read.map.evaluate((i, 1)) for i in range(3)] == [(min(max(v, 0), 6) + 1,) for v in values]


def test_other_constants_stay() -> None:
    root = gathered("s32[3,1]", 3, "constant", [1, 2, 5])
    read, _ = indexing.output_to_input(root)
    assert [str(one).split(";")[0] for one in read.runtime] == ["constant"]
    assert read.runtime[0].instruction is root.operands[1]


def test_the_placeholder_of_an_omitted_constant_is_not_used() -> None:
    """`constant({...})` is read as 0, 1, 2, …, which are not the constant's values."""
    read, _ = indexing.output_to_input(gathered("s32[12,1]", 12, "constant", list(range(12)), size=1))
    assert len(read.runtime) == 1
    read, _ = indexing.output_to_input(gathered("s32[12,1]", 12, "constant", [2] * 12, size=1))
    assert read.runtime == ()


def test_the_order_of_a_literal_is_that_of_its_layout() -> None:
    builder = Builder()
    source = builder.parameter("f32[20]")
    index = builder.constant("s32[2,3,1]{0,1,2}", [0, 10, 1, 11, 2, 12])
    numbers = {"offset_dims": [], "collapsed_slice_dims": [0], "start_index_map": [0], "index_vector_dim": 2}
    builder.op("gather", "f32[2,3]", [source, index], gather_dimension_numbers=numbers, gather_slice_sizes=[1])
    read, _ = indexing.output_to_input(builder.root())
    assert [read.map.evaluate((i, j)) for i in range(2) for j in range(3)] == [
        (i * 10 + j,) for i in range(2) for j in range(3)
    ]


def test_a_scatter_leaves_out_what_does_not_fit() -> None:
    def scattered(value: int) -> indexing.OperandIndexingSet:
        builder = Builder()
        operand, update = builder.parameter("f32[8]"), builder.parameter("f32[1,4]")
        index = builder.constant("s32[1,1]", [value])
        numbers = {
            "update_window_dims": [1],
            "inserted_window_dims": [],
            "scatter_dims_to_operand_dims": [0],
            "index_vector_dim": 1,
        }
        builder.op("scatter", "f32[8]", [operand, index, update], scatter_dimension_numbers=numbers)
        return indexing.output_to_input(builder.root())[2]

    assert [scattered(3).map.evaluate((i, 0)) for i in range(8)] == [
        (0, i - 3) if 3 <= i < 7 else None for i in range(8)
    ]
    assert scattered(5).map.is_known_empty
    assert scattered(-1).map.is_known_empty


def test_a_literal_that_does_not_fit_is_no_value() -> None:
    for literal in (
        None,
        xla.LiteralProto(),
        xla.LiteralProto(shape=Shape.parse("s32[]").to_proto()),
        xla.LiteralProto(shape=Shape.parse("s32[2]").to_proto(), s32s=[1, 2]),
    ):
        builder = Builder()
        source = builder.parameter("f32[8]")
        fields = {} if literal is None else {"literal": literal}
        builder.op(
            "dynamic-slice", "f32[4]", [source, builder.op("constant", "s32[]", **fields)], dynamic_slice_sizes=[4]
        )
        read = indexing.output_to_input(builder.root())[0]
        assert len(read.runtime) == 1
        assert str(read.runtime[0]).startswith("constant;")
