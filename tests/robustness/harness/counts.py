"""Compares the calls that the server has counted, by method and code, with those that callers have recorded.

What a caller recorded and what the server counted may differ

- where a process was killed or stopped: an answer may be lost after it was counted, or be received and not be counted;
- where the main process was killed: what was counted after the last answer of the scraper is not known;
- where the caller gave up, or recorded a code that faults may cause: the server may have ended the call with another
  code, and clients may have tried again.

All other calls must have been counted. Of methods that only callers call, no more calls may have been counted than they
made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from harness.callers import MAY_PASS
from harness.checker import Report
from harness.history import Entry, Fault
from harness.observers import Scrape

__all__ = ["check_counts"]

# The most attempts that the Python client makes for one call.
_ATTEMPTS = 4
# The most time between an answer and its count.
_MARGIN_SECONDS = 1.0
# Methods that others than the callers call too: the prober, attackers, and the scene.
_ASKED_BY_OTHERS = {
    *(f"ShapeService/{name}" for name in ("ByteSize", "LinearIndex", "MultiIndex")),
    *(f"IndexingService/{name}" for name in ("IndexingMaps", "SimplifyMap")),
    *(f"HloService/{name}" for name in ("GetModule", "PutModule", "UploadModule")),
}


def check_counts(entries: Sequence[Entry], faults: Sequence[Fault], scrapes: Sequence[Scrape], report: Report) -> None:
    """`scrapes`: the first and the last answer of each server of the run, in their order."""
    asked = [entry for entry in entries if entry.rpc]
    if not scrapes or not asked:
        return
    unsure_times = [
        (fault.began - _MARGIN_SECONDS, max(fault.normal, fault.ended) + _MARGIN_SECONDS)
        for fault in faults
        if fault.stops or fault.stops_main
    ]
    unsure_times += [
        (last.began - _MARGIN_SECONDS, first.ended + _MARGIN_SECONDS)
        for last, first in pairwise(scrapes)
        if last.server != first.server
    ]
    unsure_times.append((scrapes[-1].began, float("inf")))
    counted: Counter[tuple[str, str]] = Counter()
    for each in {scrape.server: scrape for scrape in scrapes}.values():
        for name, number in each.calls.items():
            method, _, code = name.partition(" ")
            counted[method, code] += round(number)
    unsure: Counter[str] = Counter()
    sure: Counter[tuple[str, str]] = Counter()
    for entry in asked:
        if entry.code in MAY_PASS or any(entry.began <= end and entry.ended >= begin for begin, end in unsure_times):
            unsure[entry.rpc] += 1
        else:
            sure[entry.rpc, entry.code] += 1
    methods = {method for method, _ in sure}
    for key in sorted({*sure, *counted}):
        method, code = key
        if code in MAY_PASS or method not in methods:
            continue
        found, least = counted[key], sure[key]
        most = float("inf") if method in _ASKED_BY_OTHERS else least + _ATTEMPTS * unsure[method]
        if not least <= found <= most:
            report.violations.append(
                f"{method} was counted {found} times with {code}, and callers know of {least}"
                + (f" to {most:g}" if most > least else "")
            )
    report.measured["calls_counted"] = sum(counted.values())
    report.measured["calls_compared"] = [sum(sure.values()), sum(unsure.values())]
