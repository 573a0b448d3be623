"""The harness finds metrics that are late, lost, fallen or wrongly counted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client", reason="prometheus_client is not installed")

FOLDER = Path(__file__).resolve().parent
PATHS = [str(FOLDER), str(FOLDER.parent / "support")]
STOPPED = ("stop_server", 10.0, 11.0, 12.0, False, False, 0.0, True)
HEALTHY = ("p", "health", "live", 0.0, 0.1, "OK", "", "", "0801")


def found(script: str, given: Any) -> Any:
    """Runs a script that can import the harness, with `given` as a variable. Returns the JSON that it prints."""
    code = f"import json, sys\nsys.path[:0] = {PATHS!r}\ngiven = json.load(sys.stdin)\n{script}"
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(given), capture_output=True, text=True, check=True, timeout=100
    )
    return json.loads(done.stdout)


CHECK = """
from harness.checker import check
from harness.history import Entry, Fault
entries, faults = [Entry(*each) for each in given[0]], [Fault(*each) for each in given[1]]
report = check(entries, faults, stalls=given[2], memory_budget=1, memory_most=0)
print(json.dumps([report.violations, report.slow]))
"""


def scraped(began: float, seconds: float, code: str, message: str = "") -> tuple[object, ...]:
    return ("scraper", "metrics", "127.0.0.1:9", began, began + seconds, code, message, "", "")


@pytest.mark.parametrize(
    ("entry", "stalls", "violations", "slow"),
    [
        (scraped(1, 0.5, "OK"), [], 0, 0),
        (scraped(1, 1.5, "OK"), [], 0, 1),
        (scraped(1, 5, "LATE"), [], 1, 0),
        (scraped(1, 5, "LATE"), [[2, 4]], 0, 1),
        (scraped(1, 0, "UNAVAILABLE", "ConnectionRefusedError"), [], 1, 0),
        (scraped(10.5, 0, "UNAVAILABLE", "ConnectionRefusedError"), [], 0, 0),
        (scraped(10.5, 5, "LATE"), [], 0, 0),
        (scraped(10.5, 0, "WRONG", "it fell"), [], 1, 0),
    ],
)
def test_metrics_are_answered_unless_the_main_process_is_stopped(
    entry: tuple[object, ...], stalls: list[list[float]], violations: int, slow: int
) -> None:
    told = found(CHECK, [[HEALTHY, entry], [STOPPED], stalls])
    assert [len(each) for each in told] == [violations, slow], told


JUDGE = """
from harness.scraper import Judge
judge = Judge()
print(json.dumps([judge.judge(text) for text in given]))
"""
TEXT = """# TYPE xlashape_start_time_seconds gauge
xlashape_start_time_seconds {started}
# TYPE xlashape_calls_total counter
xlashape_calls_total{{code="OK",method="ShapeService/ByteSize"}} {calls}
# TYPE xlashape_message_bytes gauge
xlashape_message_bytes{{worker="0"}} {connections}
"""


def test_counters_fall_only_where_another_server_answers() -> None:
    texts = [
        TEXT.format(started=started, calls=calls, connections=connections)
        for started, calls, connections in ((5, 7, 3), (5, 7, 1), (5, 6, 1), (8, 2, 1))
    ]
    lost = "\n".join(texts[-1].splitlines()[:2]) + "\n"
    told = found(JUDGE, [*texts, lost, "nothing of this kind {", "a_total 1\n"])
    assert [each["code"] for each in told] == ["OK", "OK", "WRONG", "OK", "WRONG", "WRONG", "WRONG"]
    series = "xlashape_calls_total{'code': 'OK', 'method': 'ShapeService/ByteSize'}"
    assert told[2]["message"] == f"{series} fell from 7 to 6"
    assert told[3] == {"code": "OK", "message": "", "server": 8, "calls": {"ShapeService/ByteSize OK": 2}}
    assert told[4]["message"] == f"{series} was 2, and is not there"


SCRAPE = """
import http.client, socket, threading
from harness.scraper import scrape
told = []
for sent in given:
    with socket.create_server(("127.0.0.1", 0)) as server:
        def answer():
            connection, _ = server.accept()
            connection.recv(1000)
            connection.sendall(sent.encode())
            connection.close()
        thread = threading.Thread(target=answer)
        thread.start()
        try:
            told.append(scrape(*server.getsockname()))
        except (OSError, http.client.HTTPException) as error:
            told.append(type(error).__name__)
        thread.join()
print(json.dumps(told))
"""


def test_an_answer_that_is_cut_off_is_none() -> None:
    whole = "HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\na 1\n"
    assert found(SCRAPE, [whole, whole[:-1], whole[:17], whole[:12], ""]) == [
        "a 1\n",
        "IncompleteRead",
        "HTTPException",
        "HTTPException",
        "RemoteDisconnected",
    ]


COUNT = """
from harness.checker import Report
from harness.counts import check_counts
from harness.history import Entry, Fault
from harness.observers import Scrape
report = Report()
entries, faults = [Entry(*each) for each in given[0]], [Fault(*each) for each in given[1]]
check_counts(entries, faults, [Scrape(*each) for each in given[2]], report)
print(json.dumps(report.violations))
"""
RPC = "HloService/ListInstructions"


def asked(at: float, code: str = "OK", rpc: str = RPC) -> tuple[object, ...]:
    return ("a", "question", "7", at, at + 0.1, code, "", "x", "x", rpc)


@pytest.mark.parametrize(
    ("entries", "faults", "scrapes", "violations"),
    [
        # All calls are counted.
        ([asked(2), asked(3)], [], [(9, 9, 1, {f"{RPC} OK": 2})], 0),
        # Fewer or more calls are counted, or another code.
        ([asked(2), asked(3)], [], [(9, 9, 1, {f"{RPC} OK": 1})], 1),
        ([asked(2), asked(3)], [], [(9, 9, 1, {f"{RPC} OK": 3})], 1),
        ([asked(2), asked(3)], [], [(9, 9, 1, {f"{RPC} OK": 1, f"{RPC} INTERNAL": 1})], 2),
        # A method that others than the callers ask may be counted more often.
        ([asked(2, "OK", "ShapeService/ByteSize")], [], [(9, 9, 1, {"ShapeService/ByteSize OK": 99})], 0),
        # The server may have counted a call that its caller gave up as often as it was sent, or not at all.
        ([asked(2), asked(3, "DEADLINE_EXCEEDED")], [], [(9, 9, 1, {f"{RPC} OK": 2})], 0),
        ([asked(2), asked(3, "DEADLINE_EXCEEDED")], [], [(9, 9, 1, {f"{RPC} OK": 6})], 1),
        # A call during which the server was killed may be counted or not; the counts of both servers are added.
        ([asked(2), asked(10.5), asked(20)], [STOPPED], [(9, 9, 1, {f"{RPC} OK": 1}), (13, 13, 2, {}), (25, 25, 2, {f"{RPC} OK": 1})], 0),
        ([asked(2), asked(10.5), asked(20)], [STOPPED], [(9, 9, 1, {f"{RPC} OK": 1}), (25, 25, 2, {})], 0),
        ([asked(2), asked(10.5), asked(20)], [STOPPED], [(9, 9, 1, {f"{RPC} OK": 1}), (13, 13, 2, {}), (25, 25, 2, {})], 1),
        # A call after the last answer of /metrics may be counted or not.
        ([asked(2), asked(9.5)], [], [(9, 9, 1, {f"{RPC} OK": 1})], 0),
    ],
)  # fmt: skip
def test_counts_agree_with_the_history_as_far_as_that_is_known(
    entries: list[object], faults: list[object], scrapes: list[object], violations: int
) -> None:
    told = found(COUNT, [entries, faults, scrapes])
    assert len(told) == violations, told
