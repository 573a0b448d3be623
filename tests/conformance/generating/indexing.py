"""Cases of IndexingService."""

from __future__ import annotations

from typing import Any

from generating.answered import Cases

__all__ = ["indexing"]


def _text(text: str) -> dict[str, Any]:
    return {"text": text}


def indexing() -> Cases:
    """IndexingService."""
    cases = Cases("indexing")
    maps, one, reads, tiles = (
        f"IndexingService/{name}" for name in ("IndexingMaps", "InstructionMaps", "OperandReads", "OperandTiles")
    )
    fused = {"module": {"name": "$name:fused"}}
    for name in ("fused", "attention", "convnet"):
        cases.call(f"maps/all/{name}", maps, {"module": {"name": f"$name:{name}"}}, stored=[name])
        cases.call(
            f"maps/all_backwards/{name}",
            maps,
            {"module": {"name": f"$name:{name}"}, "direction": "DIRECTION_INPUT_TO_OUTPUT", "reportErrors": True},
            stored=[name],
        )
        cases.call(
            f"reads/all/{name}", reads, {"module": {"name": f"$name:{name}"}, "reportErrors": True}, stored=[name]
        )
    cases.call("maps/stopped_early", maps, {"module": {"name": "$name:attention"}}, stored=["attention"], stop_after=3)
    for name, rpc in (("maps", maps), ("instruction_maps", one)):
        cases.call(f"{name}/of_a_fusion", rpc, fused | {"instruction": "f"}, stored=["fused"])
        cases.call(
            f"{name}/of_inline_text",
            rpc,
            {
                "module": {
                    "text": "HloModule m\n\nENTRY e {\n  p = f32[6,4] parameter(0)\n  ROOT t = f32[4,6] transpose(p), dimensions={1,0}\n}\n"
                },
                "instruction": "t",
            },
            stored=[],
        )
        cases.call(
            f"{name}/runtime_variables",
            rpc,
            fused | {"instruction": "s", "style": "TEXT_STYLE_AFFINE"},
            stored=["fused"],
        )
        cases.call(f"{name}/replicas", rpc, fused | {"instruction": "g"}, stored=["fused"])
        cases.call(
            f"{name}/backwards",
            rpc,
            fused | {"instruction": "f", "direction": "DIRECTION_INPUT_TO_OUTPUT", "index": 1},
            stored=["fused"],
        )
        cases.call(f"{name}/raw", rpc, fused | {"instruction": "f", "raw": True, "index": 0}, stored=["fused"])
        cases.call(f"{name}/physical", rpc, fused | {"instruction": "n", "physical": True}, stored=["fused"])
        cases.call(
            f"{name}/in_a_computation", rpc, fused | {"instruction": "t", "computation": "scaled"}, stored=["fused"]
        )
        cases.call(f"{name}/no_such_instruction", rpc, fused | {"instruction": "nothing"}, stored=["fused"])
        cases.call(
            f"{name}/no_such_computation", rpc, fused | {"instruction": "t", "computation": "nowhere"}, stored=["fused"]
        )
        cases.call(f"{name}/no_such_output", rpc, fused | {"instruction": "f", "index": 4}, stored=["fused"])
        cases.call(
            f"{name}/no_such_operand",
            rpc,
            fused | {"instruction": "f", "direction": "DIRECTION_INPUT_TO_OUTPUT", "index": 9},
            stored=["fused"],
        )
        cases.call(f"{name}/unknown_direction", rpc, fused | {"instruction": "f", "direction": 9}, stored=["fused"])
        cases.call(f"{name}/unknown_style", rpc, fused | {"instruction": "f", "style": 9}, stored=["fused"])
        cases.call(
            f"{name}/physical_backwards",
            rpc,
            fused | {"instruction": "f", "direction": "DIRECTION_INPUT_TO_OUTPUT", "physical": True},
            stored=["fused"],
        )
        cases.call(f"{name}/missing_module", rpc, fused | {"instruction": "f"}, stored=[])
    cases.call("instruction_maps/no_instruction", one, fused, stored=["fused"])
    cases.call("maps/of_a_computation", maps, fused | {"computation": "scaled"}, stored=["fused"])
    cases.call("reads/of_a_fusion", reads, fused | {"instruction": "f"}, stored=["fused"])
    cases.call(
        "reads/wide_segments", reads, fused | {"instruction": "n", "warp": 8, "segmentBytes": 32}, stored=["fused"]
    )
    cases.call("reads/negative_warp", reads, fused | {"instruction": "n", "warp": -1}, stored=["fused"])
    cases.call("reads/no_such_output", reads, fused | {"instruction": "n", "output": 3}, stored=["fused"])
    cases.call("reads/no_such_instruction", reads, fused | {"instruction": "nothing"}, stored=["fused"])
    cases.call("tiles/symbolic", tiles, fused | {"instruction": "f"}, stored=["fused"])
    cases.call(
        "tiles/of_a_tile",
        tiles,
        fused | {"instruction": "f", "tile": {"offsets": ["4"], "sizes": ["4"]}},
        stored=["fused"],
    )
    cases.call(
        "tiles/of_a_transpose",
        tiles,
        fused | {"instruction": "t", "tile": {"sizes": ["8", "4"], "strides": ["1", "2"]}},
        stored=["fused"],
    )
    cases.call(
        "tiles/of_another_rank", tiles, fused | {"instruction": "f", "tile": {"sizes": ["4", "4"]}}, stored=["fused"]
    )
    cases.call(
        "tiles/of_other_offsets",
        tiles,
        fused | {"instruction": "f", "tile": {"sizes": ["4"], "offsets": ["1", "1"]}},
        stored=["fused"],
    )
    cases.call("tiles/no_instruction", tiles, fused, stored=["fused"])

    simplify, compose, evaluate = (f"IndexingService/{name}" for name in ("SimplifyMap", "ComposeMaps", "EvaluateMap"))
    first = "(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 7], s0 in [0, 3]"
    second = "(d0) -> (d0 floordiv 4, d0 mod 4), domain: d0 in [0, 31]"
    parse = "IndexingService/ParseMap"
    least = "(d0) -> (d0 + -9223372036854775808), domain: d0 in [-9223372036854775808, 9223372036854775807]"
    older = "(d0)[s0] -> (d0, s0), domain:\nd0 in [0, 3]\ns0 in [0, 4]\n  hlo: p = s32[2]{0} parameter(1)\n  (d0) -> (d0 / 2)"
    wrapped = '#xla.indexing_map<"(d0) -> ((d0 * 8) mod 8), domain: d0 in [0, 3], is_simplified: false">'
    cases.call("parse/some", parse, {"maps": [_text(each) for each in (first, least, older, wrapped, "UNDEFINED")]})
    cases.call("parse/affine", parse, {"maps": [_text(wrapped)], "style": "TEXT_STYLE_AFFINE"})
    cases.call("parse/none", parse, {})
    cases.call("parse/no_map", parse, {"maps": [{}]})
    cases.call("parse/too_many", parse, {"maps": [_text("() -> ()")] * 201})
    cases.call(
        "parse/too_short",
        parse,
        {"maps": [_text(first), _text("(d0) -> (d0), domain: d0 in [0, 4], is_simplified:")]},
    )
    cases.call(
        "simplify/some",
        simplify,
        {"maps": [_text(first), _text("(d0) -> ((d0 * 8) mod 8), domain: d0 in [0, 3]"), _text("KNOWN EMPTY")]},
    )
    cases.call(
        "simplify/unused_variables",
        simplify,
        {
            "maps": [_text("(d0)[s0, s1] -> (d0 + s1), domain: d0 in [0, 3], s0 in [0, 4], s1 in [0, 5]")],
            "removeUnusedVariables": True,
        },
    )
    cases.call("simplify/affine", simplify, {"maps": [_text(second)], "style": "TEXT_STYLE_AFFINE"})
    cases.call("simplify/none", simplify, {})
    node = {"kind": "KIND_DIMENSION"}
    message = {
        "dimensions": [{"bounds": {"upper": "9"}}],
        "expressions": [
            node,
            {"kind": "KIND_CONSTANT", "value": "3"},
            {"kind": "KIND_FLOOR_DIVIDE", "operands": [0, 1]},
        ],
        "results": [2],
    }
    cases.call("simplify/message", simplify, {"maps": [{"map": message}]})
    cases.call(
        "simplify/broken_text", simplify, {"maps": [_text(first), _text("(d0) -> (d0 * ), domain: d0 in [0, 3]")]}
    )
    cases.call("simplify/unknown_variable", simplify, {"maps": [_text("(d0) -> (d1), domain: d0 in [0, 3]")]})
    cases.call(
        "simplify/division_by_zero", simplify, {"maps": [_text("(d0) -> (d0 floordiv 0), domain: d0 in [0, 3]")]}
    )
    cases.call("simplify/no_map", simplify, {"maps": [{}]})
    cases.call(
        "simplify/later_operand",
        simplify,
        {"maps": [{"map": message | {"expressions": [node, node, {"kind": "KIND_ADD", "operands": [0, 5]}]}}]},
    )
    cases.call("simplify/too_many", simplify, {"maps": [_text("() -> ()")] * 201})
    cases.call("compose/two", compose, {"chains": [{"maps": [_text(first), _text(second)]}]})
    cases.call("compose/raw", compose, {"chains": [{"maps": [_text(first), _text(second)]}], "raw": True})
    cases.call("compose/one", compose, {"chains": [{"maps": [_text(first), _text(second)]}, {"maps": [_text(first)]}]})
    cases.call("compose/of_another_rank", compose, {"chains": [{"maps": [_text(second), _text(first)]}]})
    cases.call("evaluate/some", evaluate, {"map": _text(first), "points": ["0", "0", "7", "3", "8", "0", "-1", "2"]})
    cases.call("evaluate/no_variables", evaluate, {"map": _text("() -> (5, 6), domain:"), "count": "2"})
    cases.call("evaluate/no_points", evaluate, {"map": _text(first), "count": "0"})
    cases.call("evaluate/half_a_point", evaluate, {"map": _text(first), "points": ["0", "0", "7"]})
    cases.call(
        "evaluate/overflow",
        evaluate,
        {"map": _text("(d0) -> (d0 * 4), domain: d0 in [0, 9223372036854775807]"), "points": ["9223372036854775807"]},
    )
    cases.call("evaluate/undefined", evaluate, {"map": {"map": {"state": "STATE_UNDEFINED"}}, "points": []})
    cases.call("evaluate/no_map", evaluate, {"points": ["1"]})
    deadline: dict[str, Any] = {"code": "DEADLINE_EXCEEDED", "timeout_ms": 1}
    cases.call(
        "deadline/unary",
        reads.replace("OperandReads", "SimplifyMap"),
        {
            "maps": [
                _text(
                    f"(d0, d1) -> ((d0 * {i} + d1 * 7 + {i}) mod {97 + i} floordiv 3), domain: d0 in [0, 900], d1 in "
                    "[0, 900]"
                )
                for i in range(1, 180)
            ]
        },
        **deadline,
    )
    cases.call("deadline/server_stream", maps, {"module": {"name": "$name:loops"}}, stored=["loops"], **deadline)
    return cases
