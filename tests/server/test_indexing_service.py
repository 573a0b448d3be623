"""IndexingService over gRPC, against the library in this process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grpc
import numpy as np
import pytest

from xlashape.hlo import HloModule
from xlashape.indexing import (
    TileBox,
    input_to_output,
    module_reads,
    operand_tiles,
    output_to_input,
    output_to_input_physical,
)
from xlashape.indexing.answers.leaves import leaves
from xlashape.proto import v1, xla
from xlashape.symbolic import IndexingMap

DIVIDE = "(d0)[s0] -> (d0 floordiv 8, s0), domain: d0 in [0, 31], s0 in [0, 3], d0 + s0 in [0, 9]"


def text(value: str) -> v1.MapInput:
    return v1.MapInput(text=value)


def inline(module: xla.HloModuleProto) -> v1.ModuleInput:
    return v1.ModuleInput(serialized=module.SerializeToString())


def texts(rows: Iterable[v1.MapRow]) -> list[str]:
    return [row.map for row in rows]


def test_one_instruction(ask: Any, module: xla.HloModuleProto) -> None:
    request = v1.IndexingMapsRequest(module=inline(module), instruction="t", structured=True)
    answer = ask("IndexingService/IndexingMaps", request)
    assert (answer.totals.direction, answer.totals.instruction_count) == (v1.DIRECTION_OUTPUT_TO_INPUT, 1)
    [row] = answer.maps
    assert (row.instruction, row.computation, row.opcode) == ("t", "main", "transpose")
    assert (row.output, row.operand, row.operand_name, row.knowledge) == (0, 0, "x", v1.KNOWLEDGE_EXACT)
    assert row.map == "(d0, d1) -> (d1, d0), domain: d0 in [0, 4], d1 in [0, 2]"
    assert IndexingMap.from_proto(row.indexing.map) == IndexingMap.parse(row.map)
    assert (len(row.indexing.runtime), row.indexing.HasField("replica"), row.leaf) == (0, False, 0)
    request.structured = False
    [plain] = ask("IndexingService/IndexingMaps", request).maps
    assert not plain.HasField("indexing") and plain.map == row.map


@pytest.mark.parametrize("direction", [v1.DIRECTION_OUTPUT_TO_INPUT, v1.DIRECTION_INPUT_TO_OUTPUT])
@pytest.mark.parametrize("raw", [False, True])
def test_every_instruction_is_answered_as_by_the_library(
    ask: Any, module: xla.HloModuleProto, direction: int, raw: bool
) -> None:
    request = v1.IndexingMapsRequest(module=inline(module), direction=direction, raw=raw, structured=True, page_size=1)
    rows: list[v1.MapRow] = []
    while True:
        answer = ask("IndexingService/IndexingMaps", request)
        rows += answer.maps
        request.page_token = answer.next_page_token
        if not answer.next_page_token:
            break
    expected: list[tuple[str, str]] = []
    for one in HloModule.from_proto(module).instructions():
        if direction == v1.DIRECTION_OUTPUT_TO_INPUT:
            found = list(output_to_input(one))
        else:
            found = [each for operand in range(len(one.operands)) for each in input_to_output(one, operand)]
        expected += [(one.name, str(access.map)) for each in found for access in (each if raw else each.simplify())]
    assert [(row.instruction, row.map) for row in rows] == expected
    assert answer.row_count == len(expected) >= 2
    assert [str(IndexingMap.from_proto(row.indexing.map)) for row in rows] == texts(rows)


def test_one_computation_and_the_affine_style(ask: Any, module: xla.HloModuleProto) -> None:
    reshaped = xla.HloModuleProto()
    reshaped.CopyFrom(module)
    flat = xla.ShapeProto(element_type=xla.F32, dimensions=[15], is_dynamic_dimension=[False])
    flat.layout.minor_to_major.append(0)
    reshaped.computations[1].instructions.add(name="r", opcode="reshape", id=4, shape=flat, operand_ids=[3])
    request = v1.IndexingMapsRequest(module=inline(reshaped), computation="main", style=v1.TEXT_STYLE_AFFINE)
    rows = ask("IndexingService/IndexingMaps", request).maps
    assert [row.instruction for row in rows] == ["t", "n", "r"]
    assert rows[2].map == "(d0) -> (d0 floordiv 3, d0 mod 3), domain: d0 in [0, 14]"


def dynamic_slice() -> xla.HloModuleProto:
    def shape(kind: int, *sizes: int) -> xla.ShapeProto:
        made = xla.ShapeProto(element_type=kind, dimensions=sizes, is_dynamic_dimension=[False] * len(sizes))
        made.layout.minor_to_major.extend(range(len(sizes) - 1, -1, -1))
        return made

    main = xla.HloComputationProto(name="main", id=1, root_id=3)
    main.instructions.add(name="p", opcode="parameter", id=1, shape=shape(xla.F32, 10))
    main.instructions.add(name="o", opcode="parameter", id=2, shape=shape(xla.S32), parameter_number=1)
    main.instructions.add(
        name="ds", opcode="dynamic-slice", id=3, shape=shape(xla.F32, 4), operand_ids=[1, 2], dynamic_slice_sizes=[4]
    )
    return xla.HloModuleProto(name="m", entry_computation_id=1, entry_computation_name="main", computations=[main])


def test_runtime_variables_come_with_their_producers(ask: Any) -> None:
    request = v1.IndexingMapsRequest(module=inline(dynamic_slice()), instruction="ds", structured=True)
    rows = ask("IndexingService/IndexingMaps", request).maps
    assert texts(rows) == [
        "(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 3], rt0 in [0, 6]",
        "(d0) -> (), domain: d0 in [0, 3]",
    ]
    [producer] = rows[0].indexing.runtime
    text = str(IndexingMap.from_proto(producer.map))
    assert (producer.instruction, text, producer.is_position) == ("o", "(d0) -> (), domain: d0 in [0, 3]", False)
    assert (producer.is_clamped, producer.bounds) == (True, v1.Interval(lower=0, upper=6))


def test_one_output_or_operand(ask: Any) -> None:
    backwards = v1.DIRECTION_INPUT_TO_OUTPUT
    given = inline(dynamic_slice())
    answer = ask(
        "IndexingService/IndexingMaps",
        v1.IndexingMapsRequest(module=given, instruction="ds", direction=backwards, operand=1),
    )
    assert [row.operand_name for row in answer.maps] == ["o"]
    for what, index in (("output", 1), ("output", -1), ("operand", 2), ("operand", -1)):
        request = v1.IndexingMapsRequest(module=given, instruction="ds", direction=backwards, **{what: index})
        with pytest.raises(grpc.RpcError) as caught:
            ask("IndexingService/IndexingMaps", request)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        assert caught.value.details().startswith(f"{what}: ds has no {what} {index}")


def test_unknown_accesses_have_unknown_knowledge(ask: Any) -> None:
    module = dynamic_slice()
    module.computations[0].instructions.add(
        name="s",
        opcode="sort",
        id=4,
        shape=module.computations[0].instructions[0].shape,
        operand_ids=[1],
        dimensions=[0],
    )
    answer = ask(
        "IndexingService/IndexingMaps",
        v1.IndexingMapsRequest(module=inline(module), direction=v1.DIRECTION_INPUT_TO_OUTPUT),
    )
    known = {row.knowledge for row in answer.maps}
    assert known <= {v1.KNOWLEDGE_EXACT, v1.KNOWLEDGE_EVERY_ELEMENT, v1.KNOWLEDGE_UNKNOWN}
    assert v1.KNOWLEDGE_UNSPECIFIED not in known


def test_simplifying(ask: Any) -> None:
    maps = ["(d0, d1) -> (d0 + d1 floordiv 16, d1 mod 16), domain: d0 in [0, 6], d1 in [0, 14]", DIVIDE]
    forms = [text(maps[0]), v1.MapInput(map=IndexingMap.parse(maps[1]).to_proto())]
    answer = ask("IndexingService/SimplifyMap", v1.SimplifyMapRequest(maps=forms, style=v1.TEXT_STYLE_AFFINE))
    expected = [IndexingMap.parse(one).simplify() for one in maps]
    assert [one.map.text for one in answer.maps] == [one.to_text("affine") for one in expected]
    assert [IndexingMap.from_proto(one.map.map) for one in answer.maps] == expected


def test_unused_variables_are_removed_on_request(ask: Any) -> None:
    given = text("(d0)[s0, s1]{rt0} -> (d0 + s1), domain: d0 in [0, 3], s0 in [0, 5], s1 in [0, 2], rt0 in [0, 1]")
    [kept] = ask("IndexingService/SimplifyMap", v1.SimplifyMapRequest(maps=[given])).maps
    assert (len(kept.map.map.ranges), list(kept.removed_ranges)) == (2, [])
    [made] = ask("IndexingService/SimplifyMap", v1.SimplifyMapRequest(maps=[given], remove_unused_variables=True)).maps
    assert made.map.text == "(d0)[s0] -> (d0 + s0), domain: d0 in [0, 3], s0 in [0, 2]"
    assert (list(made.removed_ranges), list(made.removed_runtime)) == ([0], [0])


def test_composing(ask: Any) -> None:
    first = "(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 7], s0 in [0, 3]"
    second = "(d0) -> (d0 floordiv 4, d0 mod 4), domain: d0 in [0, 31]"
    third = "(d0, d1) -> (d1), domain: d0 in [0, 7], d1 in [0, 3]"
    chains = [v1.MapChain(maps=map(text, (first, second))), v1.MapChain(maps=map(text, (first, second, third)))]
    answer = ask("IndexingService/ComposeMaps", v1.ComposeMapsRequest(chains=chains))
    a, b, c = map(IndexingMap.parse, (first, second, third))
    assert [IndexingMap.from_proto(one.map) for one in answer.maps] == [a.compose(b), a.compose(b).compose(c)]
    raw = ask("IndexingService/ComposeMaps", v1.ComposeMapsRequest(chains=chains[:1], raw=True))
    assert raw.maps[0].text == a.compose_unsimplified(b).to_text()


def test_evaluating(ask: Any) -> None:
    points = [[d0, s0] for d0 in range(-1, 12) for s0 in range(-1, 5)]
    request = v1.EvaluateMapRequest(map=text(DIVIDE), points=[n for point in points for n in point], count=len(points))
    answer = ask("IndexingService/EvaluateMap", request)
    results, inside = IndexingMap.parse(DIVIDE).evaluate_batch(np.array(points))
    assert list(answer.results) == results.ravel().tolist()
    assert list(answer.in_domain) == inside.tolist()
    assert 0 < sum(answer.in_domain) < len(points)


def test_evaluating_without_variables_or_results(ask: Any) -> None:
    answer = ask("IndexingService/EvaluateMap", v1.EvaluateMapRequest(map=text("() -> ()")))
    assert (list(answer.results), list(answer.in_domain)) == ([], [True])
    answer = ask("IndexingService/EvaluateMap", v1.EvaluateMapRequest(map=text("() -> (7)"), count=3))
    assert (list(answer.results), list(answer.in_domain)) == ([7, 7, 7], [True] * 3)
    answer = ask("IndexingService/EvaluateMap", v1.EvaluateMapRequest(map=text("KNOWN EMPTY"), count=2))
    assert (list(answer.results), list(answer.in_domain)) == ([], [False, False])


def nodes(*made: tuple[int, int, list[int]]) -> list[v1.Expression]:
    return [v1.Expression(kind=kind, value=value, operands=operands) for kind, value, operands in made]


ONE = v1.Variable(bounds=v1.Interval(lower=0, upper=3))


@pytest.mark.parametrize(
    "wrong",
    [
        v1.IndexingMap(dimensions=[ONE], results=[0]),
        v1.IndexingMap(dimensions=[ONE], expressions=nodes((0, 0, [])), results=[0]),
        v1.IndexingMap(dimensions=[ONE], expressions=nodes((2, 1, [])), results=[0]),
        v1.IndexingMap(dimensions=[ONE], expressions=nodes((2, -1, [])), results=[0]),
        v1.IndexingMap(dimensions=[ONE], expressions=nodes((5, 0, [0, 0])), results=[0]),
        v1.IndexingMap(dimensions=[ONE], expressions=nodes((2, 0, []), (5, 0, [0, 7])), results=[1]),
        v1.IndexingMap(dimensions=[ONE], expressions=nodes((2, 0, []), (9, 0, [0])), results=[1]),
        v1.IndexingMap(dimensions=[ONE], expressions=nodes((2, 0, []), (1, 0, []), (9, 0, [0, 1])), results=[2]),
        v1.IndexingMap(dimensions=[ONE], expressions=nodes((99, 0, [])), results=[0]),
        v1.IndexingMap(state=17),
        v1.IndexingMap(dimensions=[ONE], constraints=[v1.Constraint(expression=3)]),
    ],
)
def test_a_wrong_map_is_refused(ask: Any, wrong: v1.IndexingMap) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        ask("IndexingService/SimplifyMap", v1.SimplifyMapRequest(maps=[text(DIVIDE), v1.MapInput(map=wrong)]))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details().startswith("maps[1].map")


@pytest.mark.parametrize(
    ("rpc", "request_", "said"),
    [
        (
            "SimplifyMap",
            v1.SimplifyMapRequest(maps=[text(DIVIDE), text("(d0) -> (d1)")]),
            "maps[1].text: line 1, column 10",
        ),
        ("SimplifyMap", v1.SimplifyMapRequest(maps=[v1.MapInput()]), "maps[0]: a map is missing"),
        ("SimplifyMap", v1.SimplifyMapRequest(style=5), "style: expected a number from 0 to 2, found 5"),
        (
            "ComposeMaps",
            v1.ComposeMapsRequest(chains=[v1.MapChain(maps=[text(DIVIDE)])]),
            "chains[0].maps: expected two maps or more, found 1",
        ),
        (
            "ComposeMaps",
            v1.ComposeMapsRequest(
                chains=[v1.MapChain(maps=[text(DIVIDE), text("(d0) -> (d0), domain: d0 in [0, 1]")])]
            ),
            "chains[0].maps[1]: the first map has 2 results",
        ),
        (
            "EvaluateMap",
            v1.EvaluateMapRequest(map=text(DIVIDE), points=[1, 2, 3]),
            "points: expected 2 numbers in a point, found 3 in all",
        ),
        ("EvaluateMap", v1.EvaluateMapRequest(map=text(DIVIDE), points=[1, 2], count=5), "count: expected 1"),
        ("EvaluateMap", v1.EvaluateMapRequest(map=text("UNDEFINED")), "map: an undefined map cannot be evaluated"),
        ("EvaluateMap", v1.EvaluateMapRequest(), "map: a map is missing"),
        ("IndexingMaps", v1.IndexingMapsRequest(module=inline(dynamic_slice()), direction=3), "direction: expected"),
        ("IndexingMaps", v1.IndexingMapsRequest(), "module: module is missing"),
        (
            "IndexingMaps",
            v1.IndexingMapsRequest(module=inline(dynamic_slice()), instruction="nobody"),
            "instruction: module 'm' has no instruction",
        ),
        (
            "IndexingMaps",
            v1.IndexingMapsRequest(module=inline(dynamic_slice()), computation="main", instruction="nobody"),
            "instruction: computation 'main' has no instruction",
        ),
        (
            "IndexingMaps",
            v1.IndexingMapsRequest(module=inline(dynamic_slice()), computation="nowhere"),
            "computation: module 'm' has no computation",
        ),
    ],
)
def test_an_error_names_the_field(ask: Any, rpc: str, request_: Any, said: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        ask(f"IndexingService/{rpc}", request_)
    assert caught.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)
    assert caught.value.details().startswith(said)


BUFFERS = """HloModule m ENTRY e { p = f32[2,3] parameter(0)
  k = token[] after-all()
  j = token[] after-all(k)
  s = (f32[2,3], token[]) tuple(p, j)
  buffer = b(f32[2,3]) custom-call(p), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})}
  ROOT r = f32[2,3] custom-call(buffer), custom_call_target="Unpin", output_to_operand_aliasing={{}: (0, {})} }"""


@pytest.mark.parametrize("index", [None, 0, 1])
def test_physical_maps_of_a_module_are_those_of_all_outputs_with_positions(ask: Any, index: int | None) -> None:
    module = HloModule.parse(BUFFERS)
    request = v1.IndexingMapsRequest(module=inline(module.to_proto()), physical=True, output=index)
    rows = ask("IndexingService/IndexingMaps", request).maps
    expected: dict[str, list[tuple[int, int, str]]] = {}
    for one in module.instructions():
        for output, leaf in enumerate(leaves(one.shape)):
            if one.operands and index in (None, output) and (leaf.is_array or leaf.is_buffer):
                expected.setdefault(one.name, []).extend([
                    (output, operand, str(access.map))
                    for operand, maps in enumerate(output_to_input_physical(one, output))
                    for access in maps
                ])  # fmt: skip
    assert index == 1 or expected["buffer"]
    found: dict[str, list[tuple[int, int, str]]] = {}
    for row in rows:
        found.setdefault(row.instruction, []).append((row.output, row.operand, row.map))
    assert found == {name: maps for name, maps in expected.items() if maps}


def test_accesses_of_reads_have_their_maps(ask: Any, module: xla.HloModuleProto) -> None:
    request = v1.ReadsRequest(
        module=inline(module), table=v1.READS_TABLE_ACCESSES, structured=True, warp=4, segment_bytes=8
    )
    rows = ask("ReportService/Reads", request).accesses
    here = list(module_reads(HloModule.from_proto(module), warp=4, segment_bytes=8))
    ways = [way for one in here for operand in one.operands for way in operand.accesses]
    assert [row.physical_map for row in rows] == [str(way.indexing.map) for way in ways]
    assert [str(IndexingMap.from_proto(row.physical)) for row in rows] == [row.physical_map for row in rows]
    assert [str(IndexingMap.from_proto(row.indexing.map)) for row in rows] == [row.map for row in rows]
    assert [row.stride if row.HasField("stride") else None for row in rows] == [way.stride for way in ways]


@pytest.mark.parametrize("sizes", [None, [1, 2], [2, 1]])
@pytest.mark.parametrize("name", ["t", "ds"])
def test_tiles_have_their_maps(ask: Any, module: xla.HloModuleProto, name: str, sizes: list[int] | None) -> None:
    given = module if name == "t" else dynamic_slice()
    request = v1.TileRequest(module=inline(given), instruction=name, structured=True)
    box = None
    if sizes is not None:
        rank = 2 if name == "t" else 1
        box = TileBox((1, 0)[:rank], tuple(sizes[:rank]), (1, 1)[:rank])
        request.sizes.extend(box.sizes)
        request.at.extend(box.offsets)
    rows = ask("ReportService/Tile", request).tiles
    expected = operand_tiles(HloModule.from_proto(given).instruction(name), box)
    assert any(one.symbolic is not None for one in expected)
    assert [row.operand for row in rows] == [one.operand for one in expected]
    for row, one in zip(rows, expected, strict=True):
        assert IndexingMap.from_proto(row.indexing.map) == one.indexing.map
        assert row.HasField("tile") == (one.symbolic is not None)
        if one.symbolic is not None:
            assert IndexingMap.from_proto(row.tile.size_map) == one.symbolic.size_map
            assert IndexingMap.from_proto(row.tile.offset_map) == one.symbolic.offset_map
        assert (*row.offsets, *row.sizes, *row.strides) == (() if one.tile is None else sum(one.tile, ()))


def test_a_refused_instruction_has_an_error_and_the_others_are_answered(ask: Any) -> None:
    text = """HloModule m
        ENTRY e { p = f32[2,3] parameter(0) q = f32[3,5] parameter(1)
          bad = f32[2,5] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0} ROOT n = f32[2,5] negate(bad) }"""
    module = HloModule.parse(text).proto
    (q,) = [each for each in module.computations[0].instructions if each.name == "q"]
    q.shape.dimensions[0] = 4
    request = v1.IndexingMapsRequest(module=inline(module))
    answer = ask("IndexingService/IndexingMaps", request)
    errors = {row.instruction: row.error for row in answer.maps}
    assert errors == {"bad": "instruction 'bad' (dot) pairs dimensions of 3 and 4 elements", "n": ""}
    assert answer.totals.error_count == 1
    request.instruction = "bad"
    with pytest.raises(grpc.RpcError, match="pairs dimensions"):
        ask("IndexingService/IndexingMaps", request)
