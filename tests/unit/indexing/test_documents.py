"""The worked examples of the analysis' documentation, an operation each: raw maps as the operation defines them, with
their domains."""

from __future__ import annotations

from typing import Any

import pytest
from hlo_builder import Builder, one_op, window

from xlashape import indexing
from xlashape.hlo import HloInstruction
from xlashape.symbolic import IndexingMap


def texts(maps: tuple[indexing.OperandIndexingSet, ...], style: str = "affine") -> list[str]:
    return [one.map.to_text(style) for one in maps]


def simplified(maps: tuple[indexing.OperandIndexingSet, ...]) -> list[str]:
    return [one.simplify().map.to_text("affine") for one in maps]


def check(root: HloInstruction, reads: list[str], writes: list[list[str]] | None = None) -> None:
    assert texts(indexing.output_to_input(root)) == reads
    for operand, expected in enumerate(writes or []):
        assert texts(indexing.input_to_output(root, operand)) == expected


def d(*sizes: int, **more: Any) -> str:
    parts = [f"d{i} in [0, {n - 1}]" for i, n in enumerate(sizes)] + [f"{k} in [0, {v}]" for k, v in more.items()]
    return f", domain: {', '.join(parts)}"


def test_elementwise() -> None:
    same = "(d0, d1) -> (d0, d1)" + d(3, 5)
    check(one_op("add", "f32[3,5]", ["f32[3,5]"] * 2), [same, same], [[same], [same]])
    check(one_op("map", "f32[3,5]", ["f32[3,5]"]), [same], [[same]])
    check(one_op("copy", "f32[3,5]{0,1}", ["f32[3,5]"]), [same], [[same]])
    check(
        one_op("clamp", "f32[3,5]", ["f32[]", "f32[3,5]", "f32[]"]),
        ["(d0, d1) -> ()" + d(3, 5), same, "(d0, d1) -> ()" + d(3, 5)],
    )
    every = "()[s0, s1] -> (s0, s1), domain: s0 in [0, 2], s1 in [0, 4]"
    check(
        one_op("select", "f32[3,5]", ["pred[]", "f32[3,5]", "f32[3,5]"]),
        ["(d0, d1) -> ()" + d(3, 5), same, same],
        [[every], [same], [same]],
    )
    check(one_op("negate", "f32[]", ["f32[]"]), ["() -> ()"], [["() -> ()"]])


def test_broadcast() -> None:
    check(
        one_op("broadcast", "f32[10,20,30]", ["f32[20]"], dimensions=[1]),
        ["(d0, d1, d2) -> (d1)" + d(10, 20, 30)],
        [["(d0)[s0, s1] -> (s0, d0, s1)" + d(20, s0=9, s1=29)]],
    )


@pytest.mark.parametrize("opcode", ["constant", "iota", "parameter", "partition-id"])
def test_no_operands(opcode: str) -> None:
    root = one_op(opcode, "s32[4]", [])
    assert indexing.output_to_input(root) == ()


def test_rng() -> None:
    root = one_op("rng", "f32[4]", ["f32[]", "f32[]"])
    check(root, ["(d0) -> ()" + d(4)] * 2, [["()[s0] -> (s0), domain: s0 in [0, 3]"]])


def test_dynamic_slice() -> None:
    root = one_op(
        "dynamic-slice", "s32[1,2,32]", ["s32[2,2,258]", "s32[]", "s32[]", "s32[]"], dynamic_slice_sizes=[1, 2, 32]
    )
    dims = d(1, 2, 32)
    check(
        root,
        ["(d0, d1, d2){rt0, rt1, rt2} -> (d0 + rt0, d1 + rt1, d2 + rt2)" + d(1, 2, 32, rt0=1, rt1=0, rt2=226)]
        + ["(d0, d1, d2) -> ()" + dims] * 3,
    )
    source = indexing.output_to_input(root)[0]
    assert [one.instruction for one in source.runtime] == list(root.operands[1:])
    assert [one.map.to_text() for one in source.runtime] == ["(d0, d1, d2) -> ()" + dims] * 3
    short = source.simplify()
    assert short.map.to_text() == "(d0, d1, d2){rt0, rt1} -> (rt0, d1, d2 + rt1)" + d(1, 2, 32, rt0=1, rt1=226)
    assert [one.instruction for one in short.runtime] == [root.operands[1], root.operands[3]]
    (back,) = indexing.input_to_output(root, 0)
    assert back.map.to_text() == (
        "(d0, d1, d2){rt0, rt1, rt2} -> (d0 - rt0, d1 - rt1, d2 - rt2)"
        + d(2, 2, 258, rt0=1, rt1=0, rt2=226)
        + ", d0 - rt0 in [0, 0], d1 - rt1 in [0, 1], d2 - rt2 in [0, 31]"
    )
    assert texts(indexing.input_to_output(root, 2)) == [
        "()[s0, s1, s2] -> (s0, s1, s2), domain: s0 in [0, 0], s1 in [0, 1], s2 in [0, 31]"
    ]


def test_dynamic_update_slice() -> None:
    root = one_op("dynamic-update-slice", "s32[20,30]", ["s32[20,30]", "s32[5,10]", "s32[]", "s32[]"])
    update = "(d0, d1){rt0, rt1} -> (d0 - rt0, d1 - rt1)" + d(20, 30, rt0=15, rt1=20)
    check(root, ["(d0, d1) -> (d0, d1)" + d(20, 30), update] + ["(d0, d1) -> ()" + d(20, 30)] * 2)
    (forth,) = indexing.input_to_output(root, 1)
    assert forth.map.to_text() == "(d0, d1){rt0, rt1} -> (d0 + rt0, d1 + rt1)" + d(5, 10, rt0=15, rt1=20)


def test_gather() -> None:
    numbers = {"offset_dims": [1, 2, 3], "collapsed_slice_dims": [], "start_index_map": [0, 1], "index_vector_dim": 1}
    root = one_op(
        "gather",
        "f32[1806,7,8,4]",
        ["f32[33,76,70]", "s32[1806,2]"],
        gather_dimension_numbers=numbers,
        gather_slice_sizes=[7, 8, 4],
    )
    check(
        root,
        [
            "(d0, d1, d2, d3){rt0, rt1} -> (d1 + rt0, d2 + rt1, d3)" + d(1806, 7, 8, 4, rt0=26, rt1=68),
            "(d0, d1, d2, d3)[s0] -> (d0, s0)" + d(1806, 7, 8, 4, s0=1),
        ],
    )
    assert [one.map.to_text() for one in indexing.output_to_input(root)[0].runtime] == [
        "(d0, d1, d2, d3) -> (d0, 0)" + d(1806, 7, 8, 4),
        "(d0, d1, d2, d3) -> (d0, 1)" + d(1806, 7, 8, 4),
    ]
    assert str(indexing.output_to_input(root)[0]).startswith(
        "{(d0, d1, d2, d3){rt0, rt1} -> (d1 + rt0, d2 + rt1, d3), domain: "
    )
    assert "\nruntime variables:\n\nrt0: parameter(1); (d0, d1, d2, d3) -> (d0, 0), domain: " in str(
        indexing.output_to_input(root)[0]
    )


def test_transpose() -> None:
    check(
        one_op("transpose", "f32[3,6,128,12288]", ["f32[3,12288,6,128]"], dimensions=[0, 2, 3, 1]),
        ["(d0, d1, d2, d3) -> (d0, d3, d1, d2)" + d(3, 6, 128, 12288)],
        [["(d0, d1, d2, d3) -> (d0, d2, d3, d1)" + d(3, 12288, 6, 128)]],
    )


def test_reverse() -> None:
    same = "(d0, d1, d2, d3) -> (d0, -d1 + 16, -d2 + 8, d3)" + d(1, 17, 9, 9)
    check(one_op("reverse", "f32[1,17,9,9]", ["f32[1,17,9,9]"], dimensions=[1, 2]), [same], [[same]])


def test_variadic_reduce() -> None:
    root = one_op("reduce", "(f32[10], s32[10])", ["f32[256,10]", "s32[256,10]", "f32[]", "s32[]"], dimensions=[0])
    reads = ["(d0)[s0] -> (s0, d0)" + d(10, s0=255)] * 2 + ["(d0) -> ()" + d(10)] * 2
    writes = [["(d0, d1) -> (d1)" + d(256, 10)] * 2] * 2 + [["()[s0] -> (s0), domain: s0 in [0, 9]"] * 2] * 2
    check(root, reads, writes)
    assert texts(indexing.output_to_input(root, 1)) == reads


def test_slice() -> None:
    parts = [
        {"start": 5, "limit": 10, "stride": 1},
        {"start": 3, "limit": 20, "stride": 7},
        {"start": 0, "limit": 50, "stride": 2},
    ]
    check(
        one_op("slice", "f32[5,3,25]", ["f32[10,20,50]"], slice_dimensions=parts),
        ["(d0, d1, d2) -> (d0 + 5, d1 * 7 + 3, d2 * 2)" + d(5, 3, 25)],
        [
            [
                "(d0, d1, d2) -> (d0 - 5, (d1 - 3) floordiv 7, d2 floordiv 2), domain: d0 in [5, 9], d1 in [3, 17], d2 "
                "in [0, 48], "
                "(d1 - 3) mod 7 in [0, 0], d2 mod 2 in [0, 0]"
            ]
        ],
    )


@pytest.mark.parametrize(
    ("source", "target", "reads", "writes"),
    [
        ([4, 8], [32], "(d0) -> (d0 floordiv 8, d0 mod 8)", "(d0, d1) -> (d0 * 8 + d1)"),
        (
            [4, 8],
            [2, 4, 4],
            "(d0, d1, d2) -> (d0 * 2 + d1 floordiv 2, (d1 mod 2) * 4 + d2)",
            "(d0, d1) -> (d0 floordiv 2, (d0 mod 2) * 2 + d1 floordiv 4, d1 mod 4)",
        ),
        (
            [4, 8, 12],
            [32, 3, 4],
            "(d0, d1, d2) -> (d0 floordiv 8, d0 mod 8, d1 * 4 + d2)",
            "(d0, d1, d2) -> (d0 * 8 + d1, d2 floordiv 4, d2 mod 4)",
        ),
        ([4, 8], [4, 8], "(d0, d1) -> (d0, d1)", "(d0, d1) -> (d0, d1)"),
        ([4], [4, 1, 1], "(d0, d1, d2) -> (d0)", "(d0) -> (d0, 0, 0)"),
        ([1, 1], [], "() -> (0, 0)", "(d0, d1) -> ()"),
    ],
)
def test_reshape(source: list[int], target: list[int], reads: str, writes: str) -> None:
    root = one_op("reshape", f"f32[{','.join(map(str, target))}]", [f"f32[{','.join(map(str, source))}]"])
    check(root, [reads + (d(*target) if target else "")], [[writes + d(*source)]])


def test_bitcast() -> None:
    root = one_op("bitcast", "f32[8,8]{0,1}", ["f32[64]{0}"])
    check(root, ["(d0, d1) -> (d1 * 8 + d0)" + d(8, 8)], [["(d0) -> (d0 mod 8, d0 floordiv 8)" + d(64)]])
    root = one_op("bitcast", "f32[4,8]{0,1}", ["f32[8,4]{1,0}"])
    check(root, ["(d0, d1) -> (d1, d0)" + d(4, 8)], [["(d0, d1) -> (d1, d0)" + d(8, 4)]])


def test_bitcast_of_tiled_layouts() -> None:
    # Rows of tiles: position 5 of the buffer is element (1, 1) of f32[4,4]{1,0:T(2,2)}'s second tile …
    root = one_op("bitcast", "f32[16]", ["f32[4,4]{1,0:T(2,2)}"])
    (read,) = indexing.output_to_input(root)
    assert [read.map.evaluate((i,)) for i in range(8)] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
        (0, 2),
        (0, 3),
        (1, 2),
        (1, 3),
    ]
    (written,) = indexing.input_to_output(root)
    assert [written.map.evaluate(read.map.evaluate((i,)) or ()) for i in range(16)] == [(i,) for i in range(16)]


def test_bitcast_of_another_width() -> None:
    (read,) = indexing.output_to_input(one_op("bitcast", "s16[8]", ["f32[4]"]))
    assert read.map.to_text() == "(d0) -> (d0 / 2)" + d(8)
    (read,) = indexing.output_to_input(one_op("bitcast", "f32[4]", ["s16[8]"]))
    assert read.map.to_text() == "(d0)[s0] -> (d0 * 2 + s0)" + d(4, s0=1)


def test_concatenate() -> None:
    root = one_op("concatenate", "f32[2,33,7]", ["f32[2,5,7]", "f32[2,11,7]", "f32[2,17,7]"], dimensions=[1])
    check(
        root,
        [
            "(d0, d1, d2) -> (d0, d1, d2)" + d(2, 5, 7),
            "(d0, d1, d2) -> (d0, d1 - 5, d2), domain: d0 in [0, 1], d1 in [5, 15], d2 in [0, 6]",
            "(d0, d1, d2) -> (d0, d1 - 16, d2), domain: d0 in [0, 1], d1 in [16, 32], d2 in [0, 6]",
        ],
        [
            ["(d0, d1, d2) -> (d0, d1, d2)" + d(2, 5, 7)],
            ["(d0, d1, d2) -> (d0, d1 + 5, d2)" + d(2, 11, 7)],
            ["(d0, d1, d2) -> (d0, d1 + 16, d2)" + d(2, 17, 7)],
        ],
    )


def test_dot() -> None:
    numbers = {
        "lhs_batch_dimensions": [0],
        "rhs_batch_dimensions": [0],
        "lhs_contracting_dimensions": [2],
        "rhs_contracting_dimensions": [1],
    }
    check(
        one_op("dot", "f32[4,128,64]", ["f32[4,128,256]", "f32[4,256,64]"], dot_dimension_numbers=numbers),
        [
            "(d0, d1, d2)[s0] -> (d0, d1, s0)" + d(4, 128, 64, s0=255),
            "(d0, d1, d2)[s0] -> (d0, s0, d2)" + d(4, 128, 64, s0=255),
        ],
        [
            ["(d0, d1, d2)[s0] -> (d0, d1, s0)" + d(4, 128, 256, s0=63)],
            ["(d0, d1, d2)[s0] -> (d0, s0, d2)" + d(4, 256, 64, s0=127)],
        ],
    )


def test_scaled_dot() -> None:
    numbers = {"lhs_contracting_dimensions": [1], "rhs_contracting_dimensions": [0]}
    root = one_op(
        "scaled-dot", "f32[8,16]", ["f32[8,32]", "f32[32,16]", "f32[8,4]", "f32[2,16]"], dot_dimension_numbers=numbers
    )
    dims = d(8, 16, s0=31)
    check(
        root,
        [
            f"(d0, d1)[s0] -> {to}{dims}"
            for to in ("(d0, s0)", "(s0, d1)", "(d0, s0 floordiv 8)", "(s0 floordiv 16, d1)")
        ],
        [
            ["(d0, d1)[s0] -> (d0, s0)" + d(8, 32, s0=15)],
            ["(d0, d1)[s0] -> (s0, d1)" + d(32, 16, s0=7)],
            ["(d0, d1)[s0] -> (d0, s0)" + d(8, 4, s0=15)],
            ["(d0, d1)[s0] -> (s0, d1)" + d(2, 16, s0=7)],
        ],
    )


def test_pad() -> None:
    config = {
        "dimensions": [
            {"edge_padding_low": 1, "edge_padding_high": 4, "interior_padding": 1},
            {"edge_padding_low": 4, "edge_padding_high": 8, "interior_padding": 0},
        ]
    }
    check(
        one_op("pad", "f32[12,16]", ["f32[4,4]", "f32[]"], padding_config=config),
        [
            "(d0, d1) -> ((d0 - 1) floordiv 2, d1 - 4), domain: d0 in [1, 7], d1 in [4, 7], (d0 - 1) mod 2 in [0, 0]",
            "(d0, d1) -> ()" + d(12, 16),
        ],
        [
            ["(d0, d1) -> (d0 * 2 + 1, d1 + 4)" + d(4, 4)],
            ["()[s0, s1] -> (s0, s1), domain: s0 in [0, 11], s1 in [0, 15]"],
        ],
    )


def test_reduce_window() -> None:
    root = one_op("reduce-window", "f32[1024,3]", ["f32[1024,514]", "f32[]"], window=window({"size": 1}, {"size": 512}))
    check(root, ["(d0, d1)[s0] -> (d0, d1 + s0)" + d(1024, 3, s0=511), "(d0, d1) -> ()" + d(1024, 3)])


def test_all_gather() -> None:
    root = one_op(
        "all-gather",
        "f32[8,32]",
        ["f32[8,8]"],
        dimensions=[1],
        replica_groups=[{"replica_ids": [0, 2, 4, 6]}, {"replica_ids": [1, 3, 5, 7]}],
    )
    (read,) = indexing.output_to_input(root)
    assert read.map.to_text() == "(d0, d1) -> (d0, d1 mod 8)" + d(8, 32)
    assert read.replica is not None
    assert read.replica.map.to_text() == "(d0, d1) -> (d1 / 8)" + d(8, 32)
    assert read.replica.partners(5) == (1, 3, 5, 7)
    assert read[0].to_text() == f"{read.map}\nreplica id:\n{read.replica.map}"


def test_tuples() -> None:
    builder = Builder()
    a, b, c = builder.parameter("f32[2]"), builder.parameter("(s32[3], pred[4])"), builder.parameter("f32[]")
    builder.op("tuple", "(f32[2], (s32[3], pred[4]), f32[])", [a, b, c])
    root = builder.root()
    read = indexing.output_to_input(root, 2)
    assert [len(one) for one in read] == [0, 1, 0]
    assert (read[1].leaf, read[1].map.to_text()) == (1, "(d0) -> (d0)" + d(4))
    assert read[0].map.is_known_empty
    written = indexing.input_to_output(root, 1, leaf=1)
    assert [len(one) for one in written] == [0, 0, 1, 0]
    builder = Builder()
    whole = builder.parameter("(f32[2], (s32[3], pred[4]), f32[])")
    builder.op("get-tuple-element", "(s32[3], pred[4])", [whole], tuple_index=1)
    root = builder.root()
    assert indexing.output_to_input(root, 1)[0].leaf == 2
    assert [len(one) for one in indexing.input_to_output(root, 0, leaf=1)] == [1, 0]
    assert [len(one) for one in indexing.input_to_output(root, 0, leaf=3)] == [0, 0]


def test_fusion_reads_an_operand_in_two_ways() -> None:
    inner = Builder("f")
    p = inner.parameter("f32[8,8]")
    inner.op("add", "f32[8,8]", [p, inner.op("transpose", "f32[8,8]", [p], dimensions=[1, 0])])
    builder = Builder()
    builder.op("fusion", "f32[8,8]", [builder.parameter("f32[8,8]")], calls=[inner])
    root = builder.root()
    (read,) = indexing.output_to_input(root)
    assert {str(one.map) for one in read} == {"(d0, d1) -> (d0, d1)" + d(8, 8), "(d0, d1) -> (d1, d0)" + d(8, 8)}
    (written,) = indexing.input_to_output(root)
    assert {str(one.map) for one in written} == {str(one.map) for one in read}


def test_softmax() -> None:
    inner = Builder("f")
    p, zero = inner.parameter("f32[2,65,125]"), inner.op("constant", "f32[]")
    top = inner.op(
        "broadcast", "f32[2,65,125]", [inner.op("reduce", "f32[2,65]", [p, zero], dimensions=[2])], dimensions=[0, 1]
    )
    shifted = inner.op("exponential", "f32[2,65,125]", [inner.op("subtract", "f32[2,65,125]", [p, top])])
    total = inner.op(
        "broadcast",
        "f32[2,65,125]",
        [inner.op("reduce", "f32[2,65]", [shifted, zero], dimensions=[2])],
        dimensions=[0, 1],
    )
    inner.op("divide", "f32[2,65,125]", [shifted, total])
    builder = Builder()
    builder.op("fusion", "f32[2,65,125]", [builder.parameter("f32[2,65,125]")], calls=[inner])
    (read,) = indexing.output_to_input(builder.root())
    assert {str(one.map) for one in read} == {
        "(d0, d1, d2)[s0] -> (d0, d1, s0)" + d(2, 65, 125, s0=124),
        "(d0, d1, d2) -> (d0, d1, d2)" + d(2, 65, 125),
    }


def test_reshapes_that_undo_each_other() -> None:
    inner = Builder("f")
    inner.op("reshape", "f32[10,10,10]", [inner.op("reshape", "f32[50,20]", [inner.parameter("f32[10,10,10]")])])
    builder = Builder()
    builder.op("fusion", "f32[10,10,10]", [builder.parameter("f32[10,10,10]")], calls=[inner])
    (read,) = indexing.output_to_input(builder.root())
    assert read.map == IndexingMap.identity([10, 10, 10])
