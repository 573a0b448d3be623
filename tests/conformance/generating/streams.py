"""Cases of streams in both directions, of bulk calls, and of other servers."""

from __future__ import annotations

from typing import Any

from generating.answered import Cases

__all__ = ["bulk", "connection"]

_TILED = "f32[3,5]{1,0:T(2,2)}"


def _text(text: str) -> dict[str, Any]:
    return {"text": text}


def bulk() -> Cases:
    """Streams in both directions, and bulk calls."""
    cases = Cases("bulk")
    linear, multi, batch = "ShapeService/LinearIndices", "ShapeService/MultiIndices", "IndexingService/EvaluateMapBatch"
    shape = {"shape": _text(_TILED)}
    cases.call(
        "linear_indices/three_messages", linear, shape | {"indices": ["2", "3"]}, {"indices": ["0", "0", "2", "4"]}, {}
    )
    cases.call("linear_indices/shape_alone_first", linear, shape, {"indices": ["2", "3"]})
    cases.call("linear_indices/no_messages", linear)
    cases.call("linear_indices/scalars", linear, {"shape": _text("f32[]")}, {"count": "2"})
    cases.call("linear_indices/logical", linear, shape | {"order": "LINEAR_ORDER_LOGICAL"}, {"indices": ["2", "3"]})
    cases.call(
        "linear_indices/mistake_in_the_third_message",
        linear,
        shape | {"indices": ["2", "3"]},
        {"indices": ["0", "0"]},
        {"indices": ["0", "5"]},
    )
    cases.call("linear_indices/no_shape", linear, {"indices": ["0"]})
    cases.call("linear_indices/shape_again", linear, shape, shape)
    cases.call("linear_indices/broken_shape", linear, {"shape": _text("f32[2,")})
    cases.call("multi_indices/two_messages", multi, shape | {"positions": ["17"]}, {"positions": ["0", "9"]})
    cases.call(
        "multi_indices/mistake_in_the_second_message", multi, shape | {"positions": ["17"]}, {"positions": ["0", "24"]}
    )
    given = {"map": {"text": "(d0)[s0] -> (d0 floordiv 3, s0 - d0), domain: d0 in [-9, 9], s0 in [0, 3]"}}
    cases.call(
        "evaluate_map_batch/two_messages", batch, given | {"points": ["-7", "0"]}, {"points": ["9", "3", "10", "0"]}
    )
    cases.call("evaluate_map_batch/no_variables", batch, {"map": {"text": "() -> (5), domain:"}}, {"count": "2"})
    cases.call("evaluate_map_batch/half_a_point", batch, given | {"points": ["-7", "0"]}, {"points": ["1"]})
    cases.call("evaluate_map_batch/no_map", batch, {"points": ["1"]})
    cases.call(
        "linear_indices/stopped_early",
        linear,
        shape | {"indices": ["2", "3"]},
        {"indices": ["0", "0"]},
        {"indices": ["0", "1"]},
        stop_after=2,
    )
    for name, rpc, first in (
        ("linear_indices", linear, shape),
        ("multi_indices", multi, shape),
        ("evaluate_map_batch", batch, given),
    ):
        cases.call(f"{name}/deadline", rpc, first, code="DEADLINE_EXCEEDED", timeout_ms=300, keep_open=True)

    tiled = "bf16[3000,4000]{1,0:T(8,128)(2,1)}"
    cases.bulk(
        "a_thousand_indices", linear, {"shape": _text(tiled)}, "indices", {"count": 1000, "moduli": [3000, 4000]}
    )
    cases.bulk(
        "a_million_indices", linear, {"shape": _text(tiled)}, "indices", {"count": 1_000_000, "moduli": [3000, 4000]}
    )
    cases.bulk(
        "a_million_positions", multi, {"shape": _text(tiled)}, "positions", {"count": 1_000_000, "modulus": 12_000_000}
    )
    text = "(d0, d1)[s0] -> ((d0 * 5 - d1) floordiv 7, (d1 - s0 * 3) mod 11, d0), domain: d0 in [0, 999], d1 in [0, 700], s0 in [0, 4], d0 + d1 in [0, 1500]"
    cases.bulk(
        "half_a_million_points", batch, {"map": _text(text)}, "points", {"count": 500_000, "moduli": [1001, 702, 5]}
    )
    lines = "(d0)[s0] -> (d0 * 4 + s0),\ndomain:\nd0 in [0, 9999]\ns0 in [0, 3]\nd0 + s0 in [0, 9999]"
    cases.bulk(
        "twenty_thousand_points_of_a_map_on_lines",
        batch,
        {"map": _text(lines)},
        "points",
        {"count": 20_000, "moduli": [10_000, 4]},
    )
    cases.bulk(
        "sixteen_million_indices",
        linear,
        {"shape": _text("u8[16000000]{0:T(1024)}")},
        "indices",
        {"count": 16_000_000, "moduli": [16_000_000]},
    )
    return cases


def connection() -> Cases:
    """Other servers: none, one with TLS, one at a unix socket, some that ask who asks, and several at once."""
    cases = Cases("connection")
    request = {"shape": _text(_TILED), "indices": ["2", "3"], "count": "1"}
    cases.call("no_server_listens", "ShapeService/LinearIndex", request, code="UNAVAILABLE", timeout_ms=20_000)
    stream = {"module": {"text": "HloModule m"}}
    cases.call(
        "no_server_listens_to_a_report", "IndexingService/IndexingMaps", stream, code="UNAVAILABLE", timeout_ms=20_000
    )
    for line in cases.lines:
        line["server"] = "none"
    cases.call("tls", "ShapeService/LinearIndex", request)
    cases.call("tls_error", "ShapeService/ByteSize", {"shapes": [_text("f32[2,")]})
    for line in cases.lines[2:]:
        line["server"] = "tls"
    cases.call("unix", "ShapeService/LinearIndex", request)
    cases.lines[-1]["server"] = "unix"
    _credentials(cases)
    _several_servers(cases)
    _bad_servers(cases)
    cases.call("back", "ShapeService/LinearIndex", request)
    return cases


def _credentials(cases: Cases) -> None:
    request = {"shape": _text(_TILED), "indices": ["2", "3"], "count": "1"}
    linear = "ShapeService/LinearIndex"
    cases.call("mtls/known", linear, request)
    cases.call("mtls/stranger", linear, request, code="UNAVAILABLE", timeout_ms=20_000)
    cases.call("mtls/no_certificate", linear, request, code="UNAVAILABLE", timeout_ms=20_000)
    cases.call("token/right", linear, request)
    for variant in ("wrong", "none"):
        error = {"code": "UNAUTHENTICATED", "reason": "UNAUTHENTICATED"}
        cases.add(f"token/{variant}", call={"rpc": linear, "requests": [request]}, error=error)
    for line in cases.lines[-6:]:
        line["server"] = line["name"].partition("/")[2]
    # One connection, whose token changes.
    for i, token in enumerate(("right", "wrong", "right")):
        if token == "right":
            cases.call(f"token/changes/{i}", linear, request, token=token)
        else:
            cases.add(f"token/changes/{i}", call={"rpc": linear, "requests": [request], "token": token}, error=error)
        cases.lines[-1]["server"] = "token/changes"


def _several_servers(cases: Cases) -> None:
    """By the client's own function, which asks again while a server is unavailable."""
    linear, shape = "ShapeService/LinearIndices", {"shape": _text(_TILED)}
    few = {"count": 3, "moduli": [3, 5]}
    count = len(cases.lines)
    for number in range(12):
        cases.bulk(f"two/{number}", linear, shape, "indices", few)
    for number in range(12):
        cases.bulk(f"tls_two/{number}", linear, shape, "indices", few)
    cases.bulk("tls_names", linear, shape, "indices", few)
    cases.bulk("unavailable_twice", linear, shape, "indices", few)
    cases.bulk("answers_lost/read", linear, shape, "indices", few)
    cases.upload("answers_lost/upload", "fused", stored=[])
    # Told as UNAVAILABLE, since a second deletion would be NOT_FOUND, and a second stream would begin anew.
    delete = {"name": "$name:fused"}
    cases.call("answers_lost/delete", "HloService/DeleteModule", delete, stored=["fused"], code="UNAVAILABLE")
    cases.call("answers_lost/stream", "ShapeService/LinearIndices", shape | {"indices": ["2", "3"]}, code="UNAVAILABLE")
    for line in cases.lines[count:]:
        line["server"] = line["name"].split("/")[1]


def _bad_servers(cases: Cases) -> None:
    """Servers that are slow, silent, dead, or close connections: alone, and the first of two."""
    linear, bulk = "ShapeService/LinearIndex", "ShapeService/LinearIndices"
    shape = {"shape": _text(_TILED)}
    request = shape | {"indices": ["2", "3"], "count": "1"}
    count = len(cases.lines)
    for name in ("slow", "silent"):
        cases.call(f"{name}/deadline", linear, request, code="DEADLINE_EXCEEDED", timeout_ms=700)
        cases.call(f"{name}/deadline_of_a_stream", bulk, request, code="DEADLINE_EXCEEDED", timeout_ms=700)
        cases.call(f"{name}/cancelled", linear, request, code="CANCELLED", cancel_after_ms=300)
        cases.call(f"{name}/cancelled_stream", bulk, request, code="CANCELLED", cancel_after_ms=300)
    cases.call("refusing/call", linear, request, code="UNAVAILABLE", timeout_ms=40_000)
    cases.call("refusing/stream", bulk, request, code="UNAVAILABLE", timeout_ms=40_000)
    for name in ("dead_and_alive", "refusing_and_alive", "silent_and_alive"):
        # The first cases are calls by the connection itself, which are not sent again.
        cases.call(f"{name}/call", linear, request, timeout_ms=40_000)
        cases.call(f"{name}/stream", bulk, request, timeout_ms=40_000)
        for number in range(4):
            cases.call(f"{name}/call/{number}", linear, request, timeout_ms=40_000)
        cases.bulk(f"{name}/bulk", bulk, shape, "indices", {"count": 3, "moduli": [3, 5]})
    for line in cases.lines[count:]:
        line["server"] = line["name"].split("/")[1]
        line["within_ms"] = 8000
    # A stream that the client keeps open, and cancels after an answer.
    cases.call("cancelled_while_open", bulk, request, code="CANCELLED", keep_open=True, cancel_after_ms=300)
    cases.lines[-1]["within_ms"] = 8000
