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
    maps = "IndexingService/IndexingMaps"
    fused = {"module": {"name": "$name:fused"}}
    for name in ("fused", "attention", "convnet"):
        all_of = {"module": {"name": f"$name:{name}"}}
        cases.call(f"maps/all/{name}", maps, all_of | {"structured": True, "pageSize": 60}, stored=[name])
        cases.call(
            f"maps/all_backwards/{name}", maps, all_of | {"direction": "DIRECTION_INPUT_TO_OUTPUT"}, stored=[name]
        )
    backwards: dict[str, Any] = {"instruction": "f", "direction": "DIRECTION_INPUT_TO_OUTPUT"}
    text = (
        "HloModule m\n\nENTRY e {\n  p = f32[6,4] parameter(0)\n  ROOT t = f32[4,6] transpose(p), dimensions={1,0}\n}\n"
    )
    cases.call("maps/of_inline_text", maps, {"module": {"text": text}, "instruction": "t"}, stored=[])
    of_one: dict[str, dict[str, Any]] = {
        "of_a_fusion": {"instruction": "f", "structured": True},
        "runtime_variables": {"instruction": "s", "style": "TEXT_STYLE_AFFINE", "structured": True},
        "replicas": {"instruction": "g", "structured": True},
        "backwards": backwards | {"operand": 1},
        "raw": {"instruction": "f", "raw": True, "output": 0},
        "physical": {"instruction": "n", "physical": True, "structured": True},
        "in_a_computation": {"instruction": "t", "computation": "scaled"},
        "of_a_computation": {"computation": "scaled"},
        "first_page": {"pageSize": 2},
        "no_such_instruction": {"instruction": "nothing"},
        "no_such_computation": {"instruction": "t", "computation": "nowhere"},
        "no_such_output": {"instruction": "f", "output": 4},
        "no_such_operand": backwards | {"operand": 9},
        "unknown_direction": {"instruction": "f", "direction": 9},
        "unknown_style": {"instruction": "f", "style": 9},
        "physical_backwards": backwards | {"physical": True},
        "broken_token": {"pageToken": "abc"},
    }
    for name, asked in of_one.items():
        cases.call(f"maps/{name}", maps, fused | asked, stored=["fused"])
    cases.call("maps/missing_module", maps, fused | {"instruction": "f"}, stored=[])

    simplify, compose, evaluate = (f"IndexingService/{name}" for name in ("SimplifyMap", "ComposeMaps", "EvaluateMap"))
    first = "(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 7], s0 in [0, 3]"
    second = "(d0) -> (d0 floordiv 4, d0 mod 4), domain: d0 in [0, 31]"
    parse = "IndexingService/ParseMap"
    least = "(d0) -> (d0 + -9223372036854775808), domain: d0 in [-9223372036854775808, 9223372036854775807]"
    older = "(d0)[s0] -> (d0, s0), domain:\nd0 in [0, 3]\ns0 in [0, 4]\n  hlo: p = s32[2]{0} parameter(1)\n  (d0) -> (d0 / 2)"
    wrapped = '#xla.indexing_map<"(d0) -> ((d0 * 8) mod 8), domain: d0 in [0, 3], is_simplified: false">'
    texts = {"first": first, "least": least, "older": older, "wrapped": wrapped, "undefined": "UNDEFINED"}
    for name, text in texts.items():
        cases.call(f"parse/{name}", parse, {"maps": [_text(text)]})
    cases.call("parse/some", parse, {"maps": [_text(text) for text in texts.values()]})
    cases.call("parse/affine", parse, {"maps": [_text(wrapped)], "style": "TEXT_STYLE_AFFINE"})
    cases.call("parse/none", parse, {})
    cases.call("parse/no_map", parse, {"maps": [{}]})
    cases.call("parse/too_many", parse, {"maps": [_text("() -> ()")] * 201})
    cases.call(
        "parse/too_short",
        parse,
        {"maps": [_text("(d0) -> (d0), domain: d0 in [0, 4], is_simplified:")]},
    )
    eights = "(d0) -> ((d0 * 8) mod 8), domain: d0 in [0, 3]"
    for name, text in {"first": first, "eights": eights, "empty": "KNOWN EMPTY"}.items():
        cases.call(f"simplify/{name}", simplify, {"maps": [_text(text)]})
    cases.call("simplify/some", simplify, {"maps": [_text(first), _text(eights), _text("KNOWN EMPTY")]})
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
    cases.call("simplify/broken_text", simplify, {"maps": [_text("(d0) -> (d0 * ), domain: d0 in [0, 3]")]})
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

    def points(name: str, given: dict[str, Any], *numbers: int) -> None:
        cases.bulk(name, "IndexingService/EvaluateMapBatch", {"map": given}, "points", {"are": numbers})

    points("evaluate/some", _text(first), 0, 0, 7, 3, 8, 0, -1, 2)
    cases.call("evaluate/no_variables", evaluate, {"map": _text("() -> (5, 6), domain:"), "count": "2"})
    cases.call("evaluate/no_points", evaluate, {"map": _text(first), "count": "0"})
    cases.call("evaluate/half_a_point", evaluate, {"map": _text(first), "points": ["0", "0", "7"]})
    points("evaluate/overflow", _text("(d0) -> (d0 * 4), domain: d0 in [0, 9223372036854775807]"), 9223372036854775807)
    cases.call("evaluate/undefined", evaluate, {"map": {"map": {"state": "STATE_UNDEFINED"}}, "points": []})
    cases.call("evaluate/no_map", evaluate, {"points": ["1"]})
    deadline: dict[str, Any] = {"code": "DEADLINE_EXCEEDED", "timeout_ms": 1}
    cases.call(
        "deadline/unary",
        simplify,
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
    cases.call("deadline/report", maps, {"module": {"name": "$name:loops"}}, stored=["loops"], **deadline)
    return cases
