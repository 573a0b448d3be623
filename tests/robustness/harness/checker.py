"""Judges the record of a run: compares every answer with the library's, checks that every acknowledged module is kept,
and measures health, latency and recovery.

A single violation fails a run. `Report.measured` has numbers. `Report.slow` has the numbers that miss their goal, for
which a busy machine may be the cause.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from harness.callers import MAY_PASS
from harness.history import Entry, Fault

__all__ = ["Report", "check"]

# The kinds of entries that observers make, and not callers.
_OBSERVED = ("health", "small", "metrics")
# HealthCheckResponse(status=SERVING), in hex.
_SERVING = "0801"

HEALTH_SECONDS = 1.0
METRICS_SECONDS = 1.0
NORMAL_SECONDS = 5.0
P99_FACTOR = 5.0
# An idle call takes less time than a switch between threads, so shorter times are not compared.
_P99_FLOOR_SECONDS = 0.005
# The time after a fault in which calls may still fail. After a longer fault it is as long as the fault, since clients
# wait longer and longer before they connect again.
_GRACE_SECONDS = 5.0
_LATE = {"DEADLINE_EXCEEDED", "CANCELLED"}
# The most calls that may end with a code of `_LATE` outside of faults, on a busy machine.
_MAX_LATE = 3


class Report:
    """The results of the checks."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.slow: list[str] = []
        self.measured: dict[str, Any] = {}


def check(
    entries: Sequence[Entry],
    faults: Sequence[Fault],
    removed: Collection[str] = (),
    stalls: Sequence[tuple[float, float]] = (),
    *,
    memory_budget: int,
    memory_most: int,
) -> Report:
    """Judges a run. `removed` are the modules that faults have removed for good, some perhaps before their uploads were
    acknowledged.

    `stalls` are the intervals in which the machine ran nothing, or not a thread of the server that was ready. Calls may
    fail near them as they may near faults.
    """
    report = Report()
    spans = [_span(fault) for fault in faults] + [(began, ended + _GRACE_SECONDS) for began, ended in stalls]
    start = min((entry.began for entry in entries), default=0.0)
    late: list[str] = []
    for entry in entries:
        if entry.what == "small" and entry.code == "OK" and entry.got != entry.expected:
            report.violations.append(f"{entry.caller}: {entry.subject}, which is not what the library answers")
        elif entry.what not in _OBSERVED:
            if entry.code == "NOT_FOUND" and entry.subject in removed:
                continue
            found = _wrong(entry, _overlaps(entry, spans))
            if found:
                is_late = entry.code in _LATE and entry.what != "kept"
                told = f"at {entry.began - start:.1f} s, {found}{_last_fault(entry, faults)}"
                (late if is_late else report.violations).append(told)
    (report.slow if len(late) <= _MAX_LATE else report.violations).extend(late)
    report.measured["seconds_stalled"] = round(sum(ended - began for began, ended in stalls), 1)
    _check_health(entries, faults, stalls, report)
    _check_metrics(entries, faults, stalls, report)
    _check_latency(entries, faults, report)
    for fault in faults:
        seconds = fault.normal - fault.ended
        if not fault.normal:
            report.violations.append(f"{fault.name}: the server did not get back to normal")
        elif seconds > NORMAL_SECONDS:
            report.slow.append(f"{fault.name}: back to normal after {seconds:.1f} s, not {NORMAL_SECONDS:g}")
    if memory_most > memory_budget:
        report.violations.append(
            f"a worker took {memory_most >> 20} MiB of memory, its budget is {memory_budget >> 20}"
        )
    calls = [entry for entry in entries if entry.what not in _OBSERVED]
    report.measured.update(
        calls=len(calls),
        calls_by_code=dict(Counter(entry.code for entry in calls)),
        uploads_acknowledged=sum(entry.what == "upload" and entry.code == "OK" for entry in calls),
        modules_read_at_the_end=sum(entry.what == "kept" for entry in calls),
        seconds_to_normal={fault.name: round(fault.normal - fault.ended, 2) for fault in faults},
        worker_mib_at_most=memory_most >> 20,
    )
    return report


def _span(fault: Fault) -> tuple[float, float]:
    """The interval in which calls may fail because of a fault."""
    over = max(fault.normal, fault.ended)
    return fault.began, over + max(_GRACE_SECONDS, over - (fault.held or fault.began))


def _last_fault(entry: Entry, faults: Sequence[Fault]) -> str:
    before = [fault for fault in faults if fault.began <= entry.ended]
    if not before:
        return " (before the first fault)"
    last = max(before, key=lambda fault: fault.began)
    return f" (the call took {entry.ended - entry.began:.2f} s, and began {entry.began - max(last.normal, last.ended):.1f} s after {last.name})"


def _overlaps(entry: Entry, spans: Iterable[tuple[float, float]]) -> bool:
    return any(entry.began <= end and entry.ended >= begin for begin, end in spans)


def _wrong(entry: Entry, in_fault: bool) -> str:
    """The mistake in a call; empty if the call is right."""
    told = f"{entry.caller}: {entry.what} {entry.subject} ended with {entry.code} {entry.message}".rstrip()
    if entry.what == "question" and entry.got == entry.expected:
        return ""
    if entry.code in MAY_PASS:
        return "" if in_fault and entry.what != "kept" else f"{told} while nothing was wrong"
    if entry.what == "question":
        return f"{told}, which is not what the library answers"
    if entry.code != "OK":
        return told
    if entry.what in ("read", "kept") and entry.got != entry.expected:
        return f"{told} and other bytes than were uploaded"
    if entry.what == "deleted":
        return f"{entry.caller}: {entry.subject} was deleted, and could be read after that"
    return ""


def _check_health(
    entries: Sequence[Entry], faults: Sequence[Fault], stalls: Sequence[tuple[float, float]], report: Report
) -> None:
    """Checks that health was answered within a second, except by processes that were stopped. A worker that the machine
    did not run for long is killed by its server, and may then not answer."""
    spans = [(fault.began - 1, max(fault.normal, fault.ended) + 1) for fault in faults if fault.stops]
    near_stalls = [(began, ended + _GRACE_SECONDS) for began, ended in stalls]
    health = [entry for entry in entries if entry.what == "health" and not _overlaps(entry, spans)]
    late = [entry for entry in health if entry.code != "OK" or entry.ended - entry.began > HEALTH_SECONDS]
    report.measured["health_questions"] = len(health)
    report.measured["health_seconds_at_most"] = round(max((each.ended - each.began for each in health), default=0), 3)
    for entry in late:
        during = next((f.name for f in faults if f.began <= entry.ended and entry.began <= f.ended), "no fault")
        told = f"health of {entry.subject or 'all'!r}: {entry.code} after {entry.ended - entry.began:.2f} s, during {during}"
        report.slow.append(told)
        if entry.code not in ("OK", "DEADLINE_EXCEEDED") and not _overlaps(entry, near_stalls):
            report.violations.append(told)
    for entry in health:
        # The health of the service "" depends on the store, that of `live` on the process alone.
        if entry.subject == "live" and entry.code == "OK" and entry.got != _SERVING:
            report.violations.append("health of 'live' was not serving")
    if not health:
        report.violations.append("health was never asked")


def _check_metrics(
    entries: Sequence[Entry], faults: Sequence[Fault], stalls: Sequence[tuple[float, float]], report: Report
) -> None:
    """Checks that metrics were right at all times, and answered within a second unless the main process was stopped."""
    asked = [entry for entry in entries if entry.what == "metrics"]
    if not asked:
        return  # run.py says why
    start = min(entry.began for entry in entries)
    stopped = [(fault.began - 1, max(fault.normal, fault.ended) + 1) for fault in faults if fault.stops_main]
    excused = {entry for entry in asked if _overlaps(entry, stopped)}
    report.measured["metrics_questions"] = len(asked)
    report.measured["metrics_seconds_at_most"] = round(
        max((e.ended - e.began for e in asked if e not in excused), default=0), 3
    )
    for entry in asked:
        told = f"at {entry.began - start:.1f} s, metrics: {entry.code} {entry.message}".rstrip()
        told += _last_fault(entry, faults)
        if entry.code == "WRONG":
            report.violations.append(told)
        elif entry in excused:
            continue
        elif entry.code == "UNAVAILABLE" or (entry.code == "LATE" and not _overlaps(entry, stalls)):
            report.violations.append(told)
        elif entry.ended - entry.began > METRICS_SECONDS:
            report.slow.append(f"{told} after {entry.ended - entry.began:.2f} s")


def _p99(seconds: Sequence[float]) -> float:
    return statistics.quantiles(seconds, n=100)[98] if len(seconds) > 1 else 0.0


def _check_latency(entries: Sequence[Entry], faults: Sequence[Fault], report: Report) -> None:
    """Compares the 99th percentile of small calls during an attack with that before the first fault."""
    small = [entry for entry in entries if entry.what == "small"]
    first = min((fault.began for fault in faults), default=float("inf"))
    idle = _p99([entry.ended - entry.began for entry in small if entry.ended < first])
    report.measured["p99_ms_idle"] = round(idle * 1e3, 1)
    during: dict[str, float] = {}
    for fault in faults:
        if fault.is_attack:
            inside = [
                e.ended - e.began for e in small if (fault.held or fault.began) < e.began and e.ended < fault.ended
            ]
            during[fault.name] = p99 = _p99(inside)
            if p99 > P99_FACTOR * max(idle, _P99_FLOOR_SECONDS):
                beside = f"{idle * 1e3:.1f} ms when idle" if idle else "unknown when idle"
                report.slow.append(f"{fault.name}: p99 of others {p99 * 1e3:.1f} ms, {beside}")
    report.measured["p99_ms_under_attack"] = {name: round(value * 1e3, 1) for name, value in during.items()}
