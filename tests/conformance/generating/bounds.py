"""Maps whose values are near the ends of 128 bits and of int64, just within and just beyond, at one point and at many.

Each case has the points that the map is evaluated at, all of which but the last have a value or are outside the domain.
The last one is what the case is about.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from google.protobuf import json_format

from generating.answered import Cases
from generating.values import Overflow, value
from xlashape.errors import SizeOverflowError
from xlashape.limits import INT64_MAX, INT64_MIN
from xlashape.proto import v1
from xlashape.symbolic import IndexingMap

__all__ = ["add"]

_ANY = f"in [{INT64_MIN}, {INT64_MAX}]"
_TWO = f"domain: d0 {_ANY}, d1 {_ANY}"
_LEAST = [INT64_MIN, INT64_MIN]
_64 = 1 << 62

# Each text with points. 2⁶² · 2⁶² · 8 = 2¹²⁷ is the first value that does not fit; (-2⁶³) · (-2⁶³) · (-2) = -2¹²⁷ is
# the last that fits.
_TEXTS: dict[str, tuple[str, list[list[int]]]] = {
    "product/greatest": ("(d0 * d1 * 7) mod 1000003", [[_64, _64]]),
    "product/beyond_the_greatest": ("(d0 * d1 * 8) mod 1000003", [[_64, _64]]),
    "product/least": ("(d0 * d1 * -2) mod 1000003", [_LEAST]),
    "product/beyond_the_least": ("(d0 * d1 * -3) mod 1000003", [_LEAST]),
    "product/least_and_no_negative": ("(d0 * d1 * -2 * -1) mod 7", [_LEAST]),
    "sum/greatest": ("(d0 * d1 * 4 + (d0 * d1 * 4 - 1)) mod 1000003", [[_64, _64]]),
    "sum/beyond_the_greatest": ("(d0 * d1 * 4 + d0 * d1 * 4) mod 1000003", [[_64, _64]]),
    "sum/beyond_the_least": ("(d0 * d1 * -2 + d1) mod 1000003", [_LEAST]),
    "sum/beyond_and_back": ("((d0 * d1 * -2 + d1) - d1) mod 1000003", [_LEAST]),
    "divisions/least": (
        "(d0 * d1 * -2) floordiv 9223372036854775807 floordiv 9223372036854775807, (d0 * d1 * -2) mod "
        "9223372036854775807",
        [_LEAST],
    ),
    "divisions/rounded_up": (
        "(d0 * d1 * -2) ceildiv 9223372036854775807 ceildiv 2, ((d0 * d1 * -2) ceildiv 1) mod 5, ((d0 * d1 * -2) "
        "floordiv 1) mod 3",
        [_LEAST],
    ),
    "least_and_greatest_of_large_numbers": ("min(d0 * d1 * 7, 5), max(d0 * d1 * -7, d0)", [[_64, _64]]),
    "least_of_too_large_numbers": ("min(d0 * d1 * 8, 5)", [[_64, _64]]),
    "greatest_of_too_large_numbers": ("d0, max(d1, d0 * d1 * 8)", [[_64, _64]]),
    "result/int64": ("d0 * 2 - 1, d1 * -2", [[_64, _64]]),
    "result/beyond_int64": ("d0, d0 * 2", [[_64, 0]]),
    "result/below_int64": ("d0 - 1", [[INT64_MIN, 0]]),
    "result/nearly_128_bits": ("d0, d1, d0 * d1 * -2", [_LEAST]),
    "result/two_of_them": ("d0, d0 * d1, d0 * d1 * d1 * d1", [[_64, _64]]),
    "result/more_than_64_bits": ("d0 * d1", [[INT64_MAX, INT64_MIN]]),
}
_DOMAINS: dict[str, tuple[str, str, list[list[int]]]] = {
    "outside/of_a_constraint": ("(d0 * d0 * d0) mod 7", "d1 mod 2 in [0, 0]", [[INT64_MAX, 2], [INT64_MAX, 3]]),
    "outside/of_a_variable": ("(d0 * d0 * d0) mod 7", "d1 in [0, 9]", [[INT64_MAX, 10]]),
    "outside/of_a_later_constraint": (
        "d0",
        "(d0 * d0 * d0) mod 7 in [0, 6], d1 mod 2 in [0, 0]",
        [[INT64_MAX, 3]],
    ),
    "outside/nothing_but_too_large": ("d1", "(d0 * d0 * d0) mod 7 in [0, 6], d1 mod 2 in [0, 0]", [[INT64_MAX, 2]]),
    "outside/of_a_large_constraint": ("d1", "d0 * d0 * 2 in [0, 9]", [[INT64_MAX, 2]]),
    "outside/beyond_int64": ("d0 * 4", "d1 mod 2 in [0, 0]", [[INT64_MAX, 3]]),
}


def add(cases: Cases) -> None:
    """Adds each as a message and as text, at one point and at many."""
    maps = {name: (f"(d0, d1) -> ({results}), {_TWO}", points) for name, (results, points) in _TEXTS.items()}
    for name, (results, condition, points) in _DOMAINS.items():
        maps[name] = (f"(d0, d1) -> ({results}), {_TWO}, {condition}", points)
    for name, (text, points) in maps.items():
        message = IndexingMap.parse(text).to_proto()
        inside = [point for point in ([0, 0], [-3, 4]) if value(message, point) is not None]
        # A point alone, the first of many, and one among others.
        _case(cases, f"{name}/point", text, message, points[-1:], batch=False)
        _case(cases, f"{name}/batch", text, message, [*inside, *points], batch=True)
        _case(cases, f"{name}/text", text, message, [*points, *inside][-1:] + points[-1:], batch=False, form="text")
    for name, (expressions, points) in _messages().items():
        message = json_format.ParseDict(expressions, v1.IndexingMap())
        _case(cases, f"{name}/point", expressions, message, points[-1:], batch=False)
        _case(cases, f"{name}/batch", expressions, message, points, batch=True)


def _messages() -> dict[str, tuple[dict[str, Any], list[list[int]]]]:
    """What text does not say: operations on three operands, nodes that nothing uses, and numbers that grow with each
    node."""
    anything = {"bounds": {"lower": str(INT64_MIN), "upper": str(INT64_MAX)}}

    def made(expressions: list[dict[str, Any]], result: int) -> dict[str, Any]:
        return {"dimensions": [anything], "expressions": expressions, "results": [result]}

    def constant(number: int) -> dict[str, Any]:
        return {"kind": "KIND_CONSTANT", "value": str(number)}

    variable, factor, two = {"kind": "KIND_DIMENSION"}, constant(INT64_MIN), constant(-2)
    square = {"kind": "KIND_MULTIPLY", "operands": [0, 1]}
    divided = {"kind": "KIND_MODULO", "operands": [4, 3]}
    large = [variable, factor, two, constant(1000003)]
    products = made([*large, {"kind": "KIND_MULTIPLY", "operands": [0, 1, 2]}, divided], 5)
    # d0 · -2⁶³ · -2 is -2¹²⁷ at -2⁶³: less one it does not fit, even if more than one is added at once.
    product = {"kind": "KIND_MULTIPLY", "operands": [0, 1, 2]}
    least = [variable, factor, two, constant(1000003), product]
    sums = [
        constant(1),
        constant(-1),
        {"kind": "KIND_ADD", "operands": [4, 5, 6]},
        {"kind": "KIND_MODULO", "operands": [7, 3]},
    ]
    lower = [
        constant(-1),
        constant(1),
        {"kind": "KIND_ADD", "operands": [4, 5, 6]},
        {"kind": "KIND_MODULO", "operands": [7, 3]},
    ]
    growing = [variable] + [{"kind": "KIND_MULTIPLY", "operands": [i, i]} for i in range(15)]
    minimum = {"kind": "KIND_MINIMUM", "operands": [0, 4, 2]}
    return {
        "three_operands/product": (products, [[0], [7], [INT64_MIN]]),
        "four_operands/zero_times_too_much": (
            made([variable, factor, constant(0), {"kind": "KIND_MULTIPLY", "operands": [0, 1, 1, 2]}], 3),
            [[1], [INT64_MIN]],
        ),
        "three_operands/sum": (made([*least, *sums], 8), [[0], [INT64_MIN]]),
        "three_operands/sum_beyond_and_back": (made([*least, *lower], 8), [[0], [INT64_MIN]]),
        "three_operands/minimum": (made([*least, minimum], 5), [[1], [INT64_MIN]]),
        "unused_node": (
            made([variable, factor, square, {"kind": "KIND_MULTIPLY", "operands": [2, 2]}], 0),
            [[0], [INT64_MIN]],
        ),
        "growing/one": (made(growing, 15), [[0], [-1], [1]]),
        "growing/two": (made(growing, 15), [[1], [2]]),
        "growing/six_times": (made(growing, 6), [[1], [2]]),
        "growing/seven_times": (made([*growing, {"kind": "KIND_MINIMUM", "operands": [0, 7]}], 16), [[1], [2]]),
    }


def _case(
    cases: Cases,
    name: str,
    given: Any,
    message: v1.IndexingMap,
    points: list[list[int]],
    *,
    batch: bool,
    form: str = "message",
) -> None:
    evaluation = {"map": given, "form": form, "points": points, "batch": batch}
    table = np.array(points, np.int64)
    made = IndexingMap.parse(given) if isinstance(given, str) else IndexingMap.from_proto(message)
    try:
        rows = [value(message, point) for point in points]
    except Overflow as overflow:
        told = _refusal(made, table)
        if told != str(overflow):
            raise AssertionError(f"{name}: expected {overflow}, the library says {told}") from None
        error = {"code": "INVALID_ARGUMENT", "reason": "SIZE_OVERFLOW", "message": told}
        cases.add(f"bounds/{name}", evaluation=evaluation, error=error)
        return
    results, inside = made.evaluate_batch(table)
    assert [row.tolist() if there else None for row, there in zip(results, inside, strict=True)] == rows, name
    cases.add(f"bounds/{name}", evaluation=evaluation, results=rows, width=len(message.results))


def _refusal(made: IndexingMap, table: Any) -> str | None:
    try:
        made.evaluate_batch(table)
    except SizeOverflowError as error:
        return error.message
    return None
