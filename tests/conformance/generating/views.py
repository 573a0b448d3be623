"""Cases of ViewService."""

from __future__ import annotations

import base64
import gzip

from generating.answered import Cases

_CONTENTS = {
    "shape": "f32[3,5]{1,0:T(2,2)}",
    "tuple": "(f32[2], s32[])",
    "layout": "{1,0:T(8,128)}",
    "map": "(d0, d1) -> (d1, d0 mod 4), domain: d0 in [0, 9], d1 in [0, 3]",
    "instruction": "%add.1 = f32[8]{0} add(f32[8]{0} %x, f32[8]{0} %y)",
    "lines": "p = f32[8] parameter(0)\nn = f32[8] negate(p)\nROOT a = f32[8] abs(n)",
    "module": "HloModule small\n\nENTRY main {\n  ROOT p = f32[4] parameter(0)\n}\n",
    "report": "1. Size: 2.00G\n   Shape: f32[32,4096,4096]{1,2,0}\n",
    "text": "the buffers f32[3,4] and bf16[128]",
    "broken_shape": "f32[3,",
    "broken_map": "(d0) -> (d0 +), domain: d0 in [0, 3]",
    "broken_instruction": "%a = f32[8] add(f32[8 %x, f32[8] %y)",
    "no_such_operand": "%a = f32[8] add(%x, %y)",
    "words": "hello",
    "empty": " ",
}


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def views() -> Cases:
    """ViewService."""
    cases = Cases("views")
    _recognize(cases)
    _draw(cases)
    _text(cases)
    _graph(cases)
    return cases


def _recognize(cases: Cases) -> None:
    for name, text in _CONTENTS.items():
        cases.call(f"recognize/{name}", "ViewService/Recognize", {"content": _encoded(text.encode())})
    packed = gzip.compress(_CONTENTS["module"].encode(), mtime=0)
    cases.call("recognize/gzip", "ViewService/Recognize", {"content": _encoded(packed)})
    cases.call("recognize/cut_gzip", "ViewService/Recognize", {"content": _encoded(packed[:30])})


def _draw(cases: Cases) -> None:
    shape = {"shape": {"text": "f32[3,5]{1,0:T(2,2)}"}}
    fused = {"module": {"name": "$name:fused"}}
    text = {"format": "txt"}
    for name, request in {
        "svg": shape,
        "text": {**shape, **text},
        "marked": {**shape, **text, "at": ["2", "3"], "color": "row", "label": "index", "withoutPath": True},
        "after": {**shape, **text, "after": {"text": "f32[3,5]{0,1}"}},
        "tuple": {"shape": {"text": "(f32[2], s32[])"}, **text},
        "map": {"map": {"text": _CONTENTS["map"]}, "outputShape": {"text": "f32[10,4]"}, **text},
        "nothing": {},
        "no_such_format": {**shape, "format": "pdf"},
        "no_such_color": {**shape, "color": "red"},
        "index_outside": {**shape, "at": ["3", "0"]},
        "tile_of_a_shape": {**shape, "tile": ["2", "2"]},
        "broken_shape": {"shape": {"text": "f32[3,"}},
    }.items():
        cases.call(f"draw/{name}", "ViewService/Draw", request)
    cases.call("draw/memory", "ViewService/Draw", {**fused, **text}, stored=["fused"])
    cases.call("draw/memory_at", "ViewService/Draw", {**fused, "at": ["1"]}, stored=["fused"])
    cases.call("draw/no_such_instruction", "ViewService/Draw", {**fused, "instruction": "none"}, stored=["fused"])
    cases.call("draw/missing_module", "ViewService/Draw", fused, stored=[])


def _text(cases: Cases) -> None:
    fused = {"module": {"name": "$name:fused"}}
    for name, more in {
        "all": {},
        "slice": {"firstLine": "2", "maxLines": 2},
        "behind_the_end": {"firstLine": "100000"},
        "definitions": {"maxLines": 1, "includeDefinitions": True},
        "found": {"maxLines": 1, "find": "FUSION"},
        "no_such_name": {"name": "none"},
        "no_such_computation": {"name": "none", "computation": "nowhere"},
        "negative_line": {"firstLine": "-1"},
        "negative_count": {"maxLines": -1},
    }.items():
        cases.call(f"text/{name}", "ViewService/GetText", {**fused, **more}, stored=["fused"])
    cases.call("text/no_module", "ViewService/GetText", {})
    cases.call("text/broken", "ViewService/GetText", {"module": {"text": "HloModule m\n\nENTRY e {"}})


def _graph(cases: Cases) -> None:
    for module in ("fused", "loops", "attention"):
        cases.call(f"graph/{module}", "ViewService/Graph", {"module": {"name": f"$name:{module}"}}, stored=[module])
    text = (
        "HloModule m c { x = f32[4] parameter(0) ROOT n = f32[4] negate(x) } ENTRY e { p = f32[4] parameter(0) a = f32[4] abs(p) "
        "f = f32[4] fusion(a), kind=kLoop, calls=c b = f32[4] sine(p), control-predecessors={a} ROOT s = f32[4] add(f, b) }"
    )
    for name, more in {
        "alone": {"instruction": "f"},
        "near": {"instruction": "f", "distance": 1},
        "called": {"instruction": "f", "includeCalled": True},
        "way": {"instruction": "p", "to": "f"},
        "computation": {"computation": "c"},
        "two": {"maxInstructions": 2},
        "way_between_computations": {"instruction": "p", "to": "n"},
        "way_from_nowhere": {"to": "f"},
        "no_such_instruction": {"instruction": "none"},
        "no_such_computation": {"computation": "none"},
        "far": {"instruction": "f", "distance": 101},
        "negative_count": {"maxInstructions": -1},
    }.items():
        cases.call(f"graph/{name}", "ViewService/Graph", {"module": {"text": text}, **more})
