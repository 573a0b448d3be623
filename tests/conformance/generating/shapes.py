"""Cases of ShapeService."""

from __future__ import annotations

import base64
from typing import Any

from generating.answered import Cases
from xlashape.shape import Shape

__all__ = ["shapes"]

_TILED = "f32[3,5]{1,0:T(2,2)}"
_PACKED = "bf16[20,300]{1,0:T(8,128)(2,1)}"
_TEXTS = {
    "scalar": "f32[]",
    "vector": "s32[7]",
    "matrix": "f32[3,5]",
    "column_major": "f64[3,5]{0,1}",
    "tiled": _TILED,
    "twice_tiled": _PACKED,
    "merged_dimensions": "f32[4,3,5]{2,1,0:T(*,4)}",
    "packed_bits": "s4[9]{0:E(4)}",
    "in_fast_memory": "f32[8,128]{1,0:T(8,128)S(1)}",
    "tail_padding": "f32[10]{0:L(16)}",
    "empty_array": "f32[0,4]",
    "dynamic": "f32[<=8,128]{1,0}",
    "tuple": "(f32[2]{0}, (s32[], pred[3]{0}))",
    "empty_tuple": "()",
    "token": "token[]",
    "complex": "c128[2,2]",
    "eight_bit_float": "f8e4m3b11fnuz[16]",
    "many_dimensions": "u8[1,2,1,3,1,2]{0,1,2,3,4,5}",
    "near_the_largest": "s8[9223372036854775807]",
}
_UNBOUNDED = "f32[?,2]"
_BROKEN_TEXTS = {
    "nothing": "",
    "half": "f32[2,",
    "no_type": "g32[2]",
    "two_lines": "f32[2,\n  x]",
    "beyond_ascii": "f32[ä]",
    "layout_of_another_rank": "f32[2,3]{0}",
    "layout_no_permutation": "f32[2,3]{0,0}",
    "tile_of_size_0": "f32[2,3]{1,0:T(0)}",
    "size_beyond_int64": "f32[99999999999999999999]",
    "deep": "(" * 300,
}


def _text(text: str) -> dict[str, Any]:
    return {"text": text}


def shapes() -> Cases:
    """ShapeService."""
    cases = Cases("shapes")
    for name, text in _TEXTS.items():
        cases.call(f"describe/{name}", "ShapeService/DescribeShape", {"shapes": [_text(text)]})
        cases.call(f"byte_size/{name}", "ShapeService/ByteSize", {"shapes": [_text(text)]})
    cases.call("describe/unbounded", "ShapeService/DescribeShape", {"shapes": [_text(_UNBOUNDED)]})
    cases.call("describe/unknown_element_type", "ShapeService/DescribeShape", {"shapes": [_text("unknown_99[2]{0}")]})
    cases.call("describe/no_shapes", "ShapeService/DescribeShape", {})
    everything = [_text(text) for text in _TEXTS.values()]
    cases.call("describe/batch", "ShapeService/DescribeShape", {"shapes": everything})
    cases.call("byte_size/batch", "ShapeService/ByteSize", {"shapes": everything})
    cases.call("byte_size/pointer_size", "ShapeService/ByteSize", {"shapes": everything, "pointerSize": 4})
    fields = {
        "elementType": "ELEMENT_TYPE_F32",
        "dimensions": ["3", "5"],
        "layout": {"minorToMajor": ["1", "0"], "tiles": [{"dimensions": ["2", "2"]}]},
    }
    serialized = Shape.parse(_TILED).to_proto().SerializeToString(deterministic=True)
    forms = [{"shape": fields}, _text(_TILED), {"serialized": base64.b64encode(serialized).decode()}]
    cases.call("describe/three_forms", "ShapeService/DescribeShape", {"shapes": forms})
    pair = {"elementType": "ELEMENT_TYPE_TUPLE", "tupleShapes": [fields, {"elementType": "ELEMENT_TYPE_TOKEN"}]}
    cases.call("describe/tuple_as_fields", "ShapeService/DescribeShape", {"shapes": [{"shape": pair}]})
    cases.call(
        "describe/no_layout_as_fields",
        "ShapeService/DescribeShape",
        {"shapes": [{"shape": {"elementType": 11, "dimensions": ["2", "3"]}}]},
    )

    for name, text in _BROKEN_TEXTS.items():
        cases.call(f"mistakes/text/{name}", "ShapeService/DescribeShape", {"shapes": [_text("f32[2]"), _text(text)]})
    size = "ShapeService/ByteSize"
    cases.call("mistakes/no_shape", size, {"shapes": [{}]})
    cases.call("mistakes/broken_bytes", size, {"shapes": [{"serialized": "Gv8="}]})
    cases.call(
        "mistakes/negative_size",
        size,
        {"shapes": [{"shape": {"elementType": "ELEMENT_TYPE_F32", "dimensions": ["4", "-2"]}}]},
    )
    cases.call("mistakes/overflow", size, {"shapes": [_text("f64[9223372036854775807]")]})
    cases.call("mistakes/pointer_size", size, {"shapes": [_text("f32[2]")], "pointerSize": "-1"})
    cases.call("mistakes/unbounded", size, {"shapes": [_text("f32[2]"), _text(_UNBOUNDED)]})
    cases.call("mistakes/unknown_width", size, {"shapes": [_text("unknown_99[2]{0}")]})
    cases.call("mistakes/too_many", size, {"shapes": [_text("f32[2]")] * 201})
    cases.call("mistakes/too_many_elements", size, {"shapes": [_text("(" + ", ".join(["f32[2]{0}"] * 600) + ")")]})
    cases.call(
        "mistakes/too_many_elements_of_long_text", size, {"shapes": [_text("(" + ", ".join(["f32[2]{0}"] * 501) + ")")]}
    )

    linear, multi = "ShapeService/LinearIndex", "ShapeService/MultiIndex"
    tiled, packed = {"shape": _text(_TILED)}, {"shape": _text(_PACKED)}

    def indices(name: str, request: dict[str, Any], *numbers: int) -> None:
        cases.bulk(name, "ShapeService/LinearIndices", request, "indices", {"are": numbers})

    def positions(name: str, request: dict[str, Any], *numbers: int) -> None:
        cases.bulk(name, "ShapeService/MultiIndices", request, "positions", {"are": numbers})

    logical = tiled | {"order": "LINEAR_ORDER_LOGICAL"}
    cases.call("linear_index/one", linear, tiled | {"indices": ["2", "3"], "count": "1"})
    indices("linear_index/tiled", tiled, 2, 3, 0, 0, 2, 4)
    indices("linear_index/logical", logical, 2, 3)
    cases.call("linear_index/scalar", linear, {"shape": _text("f32[]"), "count": "1"})
    cases.call("linear_index/scalars", linear, {"shape": _text("f32[]"), "count": "3"})
    cases.call("linear_index/none", linear, tiled | {"count": "0"})
    indices(
        "linear_index/large", {"shape": _text("s8[9223372036854775807]")}, 9223372036854775806, 0, 4611686018427387904
    )
    indices("linear_index/many", packed, *(n for i in range(500) for n in (i % 20, i * 7 % 300)))
    cases.call("multi_index/one", multi, tiled | {"positions": ["17"]})
    positions("multi_index/tiled", tiled, 17, 0, 23, 9)
    positions("multi_index/padding", packed, *(i * 19 for i in range(450)))
    positions("multi_index/logical", logical, 13)
    positions("multi_index/scalar", {"shape": _text("f32[]")}, 0, 0)
    indices("mistakes/index_outside", tiled, 0, 0, 2, 9)
    cases.call("mistakes/index_negative", linear, tiled | {"indices": ["-1", "0"], "count": "1"})
    indices("mistakes/index_far_outside", packed, *[0, 0] * 100, 20, 0)
    cases.call("mistakes/index_of_another_rank", linear, tiled | {"indices": ["0", "0", "1"], "count": "1"})
    cases.call("mistakes/index_count", linear, tiled | {"indices": ["0", "0"], "count": "2"})
    cases.call("mistakes/index_count_negative", linear, {"shape": _text("f32[]"), "count": "-1"})
    cases.call("mistakes/index_order", linear, tiled | {"indices": ["0", "0"], "order": 7})
    cases.call("mistakes/index_of_a_tuple", linear, {"shape": _text("(f32[2])"), "indices": ["0"], "count": "1"})
    cases.call("mistakes/index_without_shape", linear, {"indices": ["0"]})
    cases.call("mistakes/too_many_scalars", linear, {"shape": _text("f32[]"), "count": "1099511627776"})
    positions("mistakes/position_outside", tiled, 0, 24)
    cases.call("mistakes/position_negative", multi, tiled | {"positions": ["-1"]})
    return cases
