"""Maps that the client evaluates, or the server where they do not fit int64, with points inside and outside their
domains.

The maps are those of XLA in tests/vectors, and some near the ends of int64 and of 128 bits. The values are computed a
second time, node by node (values.py), and must be those of the library: a mistake of the library would stop the
generator.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from generating import bounds
from generating.answered import Cases
from generating.values import Overflow, value
from xlashape.errors import ParseError, SizeOverflowError
from xlashape.limits import INT64_MAX, INT64_MIN
from xlashape.symbolic import IndexingMap

__all__ = ["maps"]

_VECTORS = Path(__file__).resolve().parents[2] / "vectors"
_COUNT = 2000
_POINTS = 10

_NEAR_INT64 = (
    "(d0) -> (d0 floordiv 2, d0 mod 2, d0 ceildiv 2), domain: d0 in [-9223372036854775808, 9223372036854775807]",
    "(d0) -> (d0 floordiv 9223372036854775807, d0 mod 9223372036854775807), domain: d0 in [-9223372036854775808, "
    "9223372036854775807]",
    "(d0) -> ((d0 * 4) floordiv 4, (d0 * 4) mod 7), domain: d0 in [-9223372036854775808, 9223372036854775807]",
    "(d0, d1) -> ((d0 + d1) floordiv 2), domain: d0 in [0, 9223372036854775807], d1 in [0, 9223372036854775807]",
    "(d0, d1) -> ((d0 * d1) floordiv 9223372036854775807), domain: d0 in [0, 9223372036854775807], d1 in [0, "
    "9223372036854775807]",
    "(d0) -> (d0 - 1), domain: d0 in [-9223372036854775807, 9223372036854775807]",
    "(d0) -> (0), domain: d0 in [0, 9223372036854775807], d0 * 4 in [0, 12]",
    "(d0) -> (d0 * 4), domain: d0 in [0, 9223372036854775807], d0 * 4 in [0, 12]",
    "(d0) -> (d0 mod 3), domain: d0 in [-9223372036854775808, -9223372036854775800]",
    "(d0)[s0] -> ((d0 * 1024 + s0) mod 1000), domain: d0 in [0, 9223372036854775807], s0 in [0, 1023]",
    "(d0) -> (max(d0, 3), min(d0, -3)), domain: d0 in [-9223372036854775808, 9223372036854775807]",
    "(d0) -> ((d0 * -1) floordiv 3, (d0 * -7) mod 5), domain: d0 in [-9223372036854775808, 9223372036854775807]",
)
_OVERFLOWS = (
    ("(d0) -> (d0 * 4), domain: d0 in [0, 9223372036854775807]", INT64_MAX),
    ("(d0) -> (d0 + 1), domain: d0 in [0, 9223372036854775807]", INT64_MAX),
    ("(d0) -> (d0 * -1), domain: d0 in [-9223372036854775808, 0]", INT64_MIN),
    ("(d0) -> (1, d0 * d0), domain: d0 in [0, 9223372036854775807]", 1 << 32),
)
_CONSTANTS = {
    "product": "d0 mod (2 * 2)",
    "difference": "d0 floordiv (9 - 2)",
    "sum": "d0 ceildiv (3 + (2 - -1))",
    "negative": "d0 mod -(-3)",
    "quotients": "d0 floordiv (7 floordiv 2), d0 floordiv (7 ceildiv 2)",
    "negative_quotients": "d0 mod (-7 floordiv 2 + 9), d0 mod (-7 ceildiv 2 + 9), d0 mod (-7 mod 4 + 2)",
    "least_and_greatest": "d0 mod max(2, 3), d0 mod min(9, 4)",
    "alone": "(3 * -3) floordiv 2, (3 * -3) ceildiv 2, d0 * (2 + 3) - (4 - 9)",
    "beyond_int64_on_the_way": "d0 mod 2, 9223372036854775807 + 1 - 1",
}
"""Expressions of constants, which XLA never writes, and a divisor may be."""
_BROKEN_TEXTS = {
    "nothing": "",
    "half_an_expression": "(d0) -> (d0 * ), domain: d0 in [0, 3]",
    "no_results": "(d0), domain: d0 in [0, 3]",
    "no_bounds": "(d0) -> (d0)",
    "no_such_variable": "(d0) -> (d1), domain: d0 in [0, 3]",
    "other_words": "(d0) -> (d0 times 3), domain: d0 in [0, 3]",
    "number_beyond_int64": "(d0) -> (d0 + 99999999999999999999), domain: d0 in [0, 3]",
    "open_parenthesis": "(d0) -> ((d0 + 1), domain: d0 in [0, 3]",
    "more_after_the_end": "(d0) -> (d0), domain: d0 in [0, 3] and more",
    "nothing_after_is_simplified": "(d0) -> (d0), domain: d0 in [0, 4], is_simplified:",
}


def maps() -> Cases:
    """Maps and their values."""
    cases = Cases("maps")
    chance = random.Random(12)
    texts = list(dict.fromkeys(_texts()))
    chance.shuffle(texts)
    count = 0
    for number, text in enumerate(_NEAR_INT64):
        given = IndexingMap.parse(text)
        points = [point for point in _points(given, chance, 16) if _is_value(given, point)]
        _add(cases, f"near_int64/{number}", text, given, points, batch=number % 2 == 0)
        count += 1
    for text in texts:
        if count == _COUNT:
            break
        given = IndexingMap.parse(text)
        if given.is_undefined or not given.variables:
            continue
        points = [point for point in _points(given, chance, _POINTS) if _is_value(given, point)]
        _add(cases, f"xla/{count:04}", text, given, points, batch=count % 2 == 0)
        count += 1
    assert count == _COUNT, count
    for number, text in enumerate(texts[:10]):
        given = IndexingMap.parse(text)
        if given.variables:
            _add(cases, f"text/{number:02}", text, given, _points(given, chance, 4), batch=False, form="text")
    for name, results in _CONSTANTS.items():
        text = f"(d0) -> ({results}), domain: d0 in [-30, 30], d0 mod (3 * 2) in [0, 4]"
        given = IndexingMap.parse(text)
        _add(cases, f"constants/{name}", text, given, _points(given, chance, 16), batch=True, form="text")
    _others(cases)
    bounds.add(cases)
    return cases


def _others(cases: Cases) -> None:
    """Empty and undefined maps, and maps that are refused."""
    cases.add(
        "no_variables",
        evaluation={"map": "() -> (5, 6), domain:", "points": [[], []], "batch": True},
        results=[[5, 6]] * 2,
        width=2,
    )
    cases.add(
        "no_results",
        evaluation={"map": "(d0) -> (), domain: d0 in [0, 3]", "points": [[0], [4]], "batch": True},
        results=[[], None],
        width=0,
    )
    empty = {
        "state": "STATE_KNOWN_EMPTY",
        "fitsInt64": True,
        "dimensions": [{"bounds": {"upper": "3"}}],
        "expressions": [{"kind": "KIND_DIMENSION"}],
        "results": [0],
    }
    cases.add(
        "known_empty", evaluation={"map": empty, "points": [[0], [3], [9]], "batch": True}, results=[None] * 3, width=1
    )
    backwards = {
        "fitsInt64": True,
        "dimensions": [{"bounds": {"lower": "3", "upper": "2"}}],
        "expressions": [{"kind": "KIND_DIMENSION"}],
        "results": [0],
    }
    cases.add(
        "bounds_without_integers",
        evaluation={"map": backwards, "points": [[2], [3]], "batch": False},
        results=[None] * 2,
        width=1,
    )
    for number, (text, large) in enumerate(_OVERFLOWS):
        try:
            IndexingMap.parse(text).evaluate_batch([[large]])
        except SizeOverflowError:
            cases.add(
                f"overflow/{number}",
                evaluation={"map": text, "points": [[0], [large]], "batch": True},
                error={"code": "INVALID_ARGUMENT", "reason": "SIZE_OVERFLOW"},
            )
        else:
            raise AssertionError(f"{text} does not overflow at {large}")
    for name, text in _BROKEN_TEXTS.items():
        try:
            IndexingMap.parse(text)
        except ParseError as error:
            given = {"map": text, "form": "text", "points": [[0]], "batch": False}
            cases.add(
                f"text/mistakes/{name}",
                evaluation=given,
                error={
                    "code": "INVALID_ARGUMENT",
                    "reason": error.code.upper(),
                    "field": "maps[0].text",
                    "line": error.line,
                    "column": error.column,
                },
            )
        else:
            raise AssertionError(f"expected {text} to be refused")
    undefined = {"state": "STATE_UNDEFINED"}
    refused = {"code": "INVALID_ARGUMENT", "reason": "INVALID_MAP"}
    cases.add("mistakes/undefined", evaluation={"map": undefined, "points": [[]], "batch": True}, error=refused)
    short = {"map": "(d0, d1) -> (d0), domain: d0 in [0, 3], d1 in [0, 3]", "points": [[1]], "batch": False}
    cases.add(
        "mistakes/too_few_numbers", evaluation=short, error={"code": "INVALID_ARGUMENT", "reason": "INVALID_INDEX"}
    )
    long = {"map": "(d0) -> (d0), domain: d0 in [0, 3]", "points": [[1, 2]], "batch": True}
    cases.add(
        "mistakes/too_many_numbers", evaluation=long, error={"code": "INVALID_ARGUMENT", "reason": "INVALID_INDEX"}
    )
    node, constant = {"kind": "KIND_DIMENSION"}, {"kind": "KIND_CONSTANT"}
    variable = {"dimensions": [{"bounds": {"upper": "3"}}], "fitsInt64": True}
    broken: dict[str, list[dict[str, Any]]] = {
        "later_operand": [node, {"kind": "KIND_ADD", "operands": [0, 2]}, constant],
        "itself_as_operand": [node, {"kind": "KIND_ADD", "operands": [0, 1]}],
        "division_by_zero": [node, constant, {"kind": "KIND_FLOOR_DIVIDE", "operands": [0, 1]}],
        "division_by_a_variable": [node, {"kind": "KIND_FLOOR_DIVIDE", "operands": [0, 0]}],
        "division_by_the_least_number": [
            node,
            {"kind": "KIND_CONSTANT", "value": str(INT64_MIN)},
            {"kind": "KIND_MODULO", "operands": [0, 1]},
        ],
        "three_operands_of_a_division": [
            node,
            {"kind": "KIND_CONSTANT", "value": "2"},
            {"kind": "KIND_CEIL_DIVIDE", "operands": [0, 1, 1]},
        ],
        "largest_operand": [node, {"kind": "KIND_ADD", "operands": [0, 4294967295]}],
        "no_such_variable": [{"kind": "KIND_DIMENSION", "value": "1"}],
        "no_such_range": [{"kind": "KIND_RANGE"}],
        "largest_variable": [{"kind": "KIND_RUNTIME", "value": str(INT64_MAX)}],
        "negative_variable": [{"kind": "KIND_DIMENSION", "value": "-1"}],
        "one_operand": [node, {"kind": "KIND_ADD", "operands": [0]}],
        "no_kind": [{"kind": "KIND_UNSPECIFIED"}],
        "unknown_kind": [{"kind": 77}],
    }
    for name, expressions in broken.items():
        given = variable | {"expressions": expressions, "results": [len(expressions) - 1]}
        cases.add(f"mistakes/{name}", evaluation={"map": given, "points": [[0]], "batch": True}, error=refused)
    for name, parts in {
        "no_such_result": {"results": [4]},
        "largest_result": {"results": [4294967295]},
        "no_such_constraint": {"constraints": [{"expression": 1}]},
        "unknown_state": {"state": 9},
    }.items():
        given = variable | {"expressions": [node]} | parts
        cases.add(f"mistakes/{name}", evaluation={"map": given, "points": [[0]], "batch": True}, error=refused)


def _texts() -> Iterator[str]:
    """The maps of the vectors."""
    for line in (_VECTORS / "maps.jsonl").read_text().splitlines():
        vector = json.loads(line)
        for key in ("map", "first", "second"):
            if key in vector:
                yield vector[key]
    for line in (_VECTORS / "indexing.jsonl").read_text().splitlines():
        vector = json.loads(line)
        for found in _strings([vector.get("output_to_input", []), vector.get("input_to_output", [])]):
            if " -> " in found and "UNKNOWN" not in found:
                yield found


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)


def _points(given: IndexingMap, chance: random.Random, count: int) -> list[list[int]]:
    """Points of which about two thirds are within the bounds of the variables."""
    bounds = [(variable.bounds.lower, variable.bounds.upper) for variable in given.variables]
    points = [[lower for lower, _ in bounds], [upper for _, upper in bounds]]
    for i in range(count - 2):
        point = [chance.randint(lower, upper) if lower <= upper else lower for lower, upper in bounds]
        if i % 3 == 2:
            j = chance.randrange(len(bounds))
            lower, upper = bounds[j]
            point[j] = chance.choice([lower - 1, upper + 1, -1, -upper - 1, INT64_MIN, INT64_MAX])
        points.append(point)
    return [[min(max(number, INT64_MIN), INT64_MAX) for number in point] for point in points]


def _add(
    cases: Cases,
    name: str,
    text: str,
    given: IndexingMap,
    points: list[list[int]],
    *,
    batch: bool,
    form: str = "message",
) -> None:
    message = given.to_proto()
    rows: list[list[int] | None] = []
    kept: list[list[int]] = []
    for point in points:
        try:
            rows.append(value(message, point))
        except Overflow:
            continue  # has cases of its own
        kept.append(point)
    results, inside = given.evaluate_batch(np.array(kept, np.int64).reshape(len(kept), len(given.variables)))
    assert [row.tolist() if there else None for row, there in zip(results, inside, strict=True)] == rows, text
    cases.add(
        name,
        evaluation={"map": text, "form": form, "points": kept, "batch": batch},
        results=rows,
        width=len(message.results),
    )


def _is_value(given: IndexingMap, point: list[int]) -> bool:
    try:
        value(given.to_proto(), point)
    except Overflow:
        return False
    return True
