"""Collectives in a profile: their measured time, what they send in it, and what is exposed."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from xspace_writer import Event, Plane, modules, xspace

import xlashape as xs

VECTORS = Path(__file__).resolve().parents[3] / "vectors/collectives"
FORMS = xs.HloModule.from_bytes(gzip.decompress((VECTORS / "forms.hlo.gz").read_bytes()))
NS = 1000
"""Picoseconds."""


def profiled(device: str, durations: dict[str, int]) -> Any:
    plane = Plane(device)
    begin, events = 0, list[Event]()
    for name, duration in durations.items():
        kind = plane.kind(f"%{name} = …", display=name, stats={"program_id": 7, "hlo_op": name, "hlo_module": "forms"})
        events.append(Event(kind, begin, duration * NS))
        begin += duration * NS
    plane.line("XLA Modules", [Event(plane.kind("forms(7)"), 0, begin)])
    plane.line("XLA Ops", events)
    return xs.profile(xspace([plane, modules({"forms(7)": FORMS.to_bytes()})]), target="h100")


TIMES = {"sum_both": 64, "move": 1, "squared": 5, "moved": 10, "start": 2, "meanwhile": 7, "done": 30}


def test_measured_time_of_collectives():
    found = profiled("/device:TPU:0", TIMES)
    rows = {row.name: row for row in found.rows}
    sent = {row.name: row for row in xs.collectives(FORMS, target="h100").rows}
    assert rows["sum_both"].sent_bytes == sent["sum_both"].sent_bytes == 576
    assert rows["sum_both"].send_rate == pytest.approx(576 / 64e-9)
    assert rows["sum_both"].bound == "communication"
    assert rows["sum_both"].least_time == pytest.approx(576 / 450e9)
    assert (rows["start"].sent_bytes, rows["done"].sent_bytes) == (sent["rs"].sent_bytes, None)
    assert {name for name, row in rows.items() if row.is_collective} == {"sum_both", "move", "moved", "start", "done"}
    assert found.communication_time == pytest.approx((64 + 1 + 10 + 2 + 30) * 1e-9)
    assert found.exposed_time == found.communication_time
    assert "107 ns (89.9%) collectives" in found.headline()


def test_streams_of_a_gpu_do_not_tell_what_is_exposed():
    plane = Plane("/device:GPU:0")
    kind = plane.kind("ncclDevKernel", stats={"hlo_op": "sum_both", "hlo_module": "forms", "program_id": 7})
    plane.line("Stream #1(Compute)", [Event(kind, 0, 64 * NS)])
    found = xs.profile(xspace([plane, modules({"forms(7)": FORMS.to_bytes()})]))
    assert (found.communication_time, found.exposed_time) == (pytest.approx(64e-9), None)
