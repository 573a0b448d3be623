"""While loops that read and write at offsets, in their bodies and in the computations that those call."""

from __future__ import annotations

from hlo_builder import Builder
from while_loops import Parts, below, check, counted, counter_below, drawn, loop, maps, shape_of

from xlashape import indexing
from xlashape.hlo import HloInstruction


def test_a_loop_over_rows() -> None:
    """A scan over the rows of an array as a loop: a row is read and a row is written at the counter, and rows are
    summed."""
    parts = ["s32[]", "s32[]", "f32[4,2]", "f32[4,2]", "f32[2]", "f32[4,2]"]
    b = Parts("body", parts)
    o = b.builder

    def index() -> int:
        """The counter, as written by who lets it count from the end: computed anew by each that uses it."""
        zero, four = o.constant("s32[]", [0]), o.constant("s32[]", [4])
        negative = o.op("compare", "pred[]", [b.at[0], zero], comparison_direction="LT")
        return o.op("select", "s32[]", [negative, o.op("add", "s32[]", [b.at[0], four]), b.at[0]])

    zero = o.constant("s32[]", [0])
    row = o.op("dynamic-slice", "f32[1,2]", [b.at[2], index(), zero], dynamic_slice_sizes=[1, 2])
    state = o.op("add", "f32[2]", [b.at[4], o.op("reshape", "f32[2]", [row])])
    sums = o.op("dynamic-update-slice", "f32[4,2]", [b.at[3], o.op("reshape", "f32[1,2]", [state]), index(), zero])
    same = o.op("dynamic-update-slice", "f32[4,2]", [b.at[5], row, index(), zero])
    o.op("tuple", shape_of(parts), [counted(b), b.at[1], b.at[2], sums, state, same])
    root = loop(o, below(parts), parts)
    # An update is taken to leave its place as it is, as dynamic-update-slice's own map has it, and no iteration knows
    # which row the last one had.
    check(root, counter_below, drawn(parts, [(0, 4), (1, 3), (0, 0)]), loose=[(2, 3), (3, 3), (5, 5), (4, 3)])
    copied = indexing.output_to_input(root, 5)[0]
    assert [str(one.map) for one in copied if one.leaf == 2] == [
        "(d0, d1) -> (d0, d1), domain: d0 in [0, 3], d1 in [0, 1]"
    ]
    assert {leaf for leaf, _ in maps(root, 5)} == {0, 1, 2, 5}
    summed = indexing.output_to_input(root, 3)[0]
    assert {str(one.map) for one in summed if one.leaf == 4} == {"(d0, d1) -> (d1), domain: d0 in [0, 3], d1 in [0, 1]"}
    assert not any(one.runtime for output in range(6) for one in indexing.output_to_input(root, output)[0])


def rows_by_fusions(cut: Builder, put: Builder, *, again: bool = False) -> HloInstruction:
    """A row read by one fusion, negated, and written by another one, as a compiler leaves such loops."""
    parts = ["s32[]", "s32[]", "f32[4,2]", "f32[4,2]"]
    at = cut.parameter("s32[]")
    zero = cut.constant("s32[]", [0])
    cut.op("dynamic-slice", "f32[1,2]", [cut.parameter("f32[4,2]"), at, zero], dynamic_slice_sizes=[1, 2])
    whole, row, place = put.parameter("f32[4,2]"), put.parameter("f32[1,2]"), put.parameter("s32[]")
    put.op("dynamic-update-slice", "f32[4,2]", [whole, row, place, put.constant("s32[]", [0])])
    b = Parts("body", parts)
    taken = b.builder.op("fusion", "f32[1,2]", [b.at[0], b.at[2]], calls=[cut])
    if again:
        one = b.builder.op("add", "s32[]", [b.at[0], b.builder.constant("s32[]", [1])])
        other = b.builder.op("fusion", "f32[1,2]", [one, b.at[2]], calls=[cut])
        taken = b.builder.op("add", "f32[1,2]", [taken, other])
    written = b.builder.op(
        "fusion", "f32[4,2]", [b.at[3], b.builder.op("negate", "f32[1,2]", [taken]), b.at[0]], calls=[put]
    )
    b.builder.op("tuple", shape_of(parts), [counted(b), b.at[1], b.at[2], written])
    return loop(b.builder, below(parts), parts)


def test_offsets_of_fusions_are_their_arguments() -> None:
    parts = ["s32[]", "s32[]", "f32[4,2]", "f32[4,2]"]
    root = rows_by_fusions(Builder("cut"), Builder("put"))
    check(root, counter_below, drawn(parts, [(0, 4), (1, 3), (0, 0)]), loose=[(3, 3)])
    assert [text for leaf, text in maps(root, 3) if leaf == 2] == [
        "(d0, d1) -> (d0, d1), domain: d0 in [0, 3], d1 in [0, 1]"
    ]
    # A fused computation that two fusions share reads two rows: it is not said which.
    root = rows_by_fusions(Builder("cut"), Builder("put"), again=True)
    check(root, counter_below, drawn(parts, [(0, 4), (1, 3), (0, 0)]), loose=[(2, 3), (3, 3)])


def test_offsets_of_a_computation_called_twice_are_two() -> None:
    """One instruction slices at two offsets."""
    cut = Builder("cut")
    whole, at = cut.parameter("f32[8]"), cut.parameter("s32[]")
    cut.op(
        "concatenate",
        "f32[8]",
        [
            cut.op("dynamic-slice", "f32[4]", [whole, at], dynamic_slice_sizes=[4]),
            cut.op("slice", "f32[4]", [whole], slice_dimensions=[{"start": 4, "limit": 8, "stride": 1}]),
        ],
        dimensions=[0],
    )
    parts = ["s32[]", "s32[]", "f32[8]"]
    b = Parts("body", parts)
    once = b.builder.op("call", "f32[8]", [b.at[2], b.at[0]], calls=[cut])
    twice = b.builder.op("call", "f32[8]", [once, b.at[1]], calls=[cut])
    b.builder.op("tuple", shape_of(parts), [counted(b), b.at[1], twice])
    root = loop(b.builder, below(parts), parts)
    check(
        root, counter_below, drawn(parts, [(i, n) for i in range(6) for n in range(6)]), loose=[(0, 2), (1, 2), (2, 2)]
    )
