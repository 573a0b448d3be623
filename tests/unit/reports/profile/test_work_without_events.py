"""What the profile of a CPU does not tell: work in threads of libraries, for which XLA's client waits."""

import pytest
from xspace_writer import Event, Plane, modules, xspace

import xlashape as xs


@pytest.mark.parametrize(("in_workers", "missing"), [(0, 900), (500, 400), (850, 0), (2000, 0)])
def test_work_without_events_is_told(in_workers: int, missing: int) -> None:
    """A CPU's client begins a product in 20 units of time and then waits for 900, in which workers have events."""
    module = xs.HloModule.parse(
        "HloModule m ENTRY e { a = f32[64,64] parameter(0) d = f32[64,64] dot(a, a), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0} ROOT n = f32[64,64] negate(d) }"
    )
    plane = Plane("/host:CPU")
    work, waits = plane.kind("d"), plane.kind("ThunkExecutor::Execute (wait for completion)")
    stats = {"hlo_module": "m", "program_id": 7, "run_id": 1}
    plane.line("client", [Event(work, 0, 20, {"hlo_op": "d", **stats}), Event(waits, 30, 900)])
    if in_workers:
        plane.line("worker", [Event(work, 40, in_workers, {"hlo_op": "n", **stats})])
    found = xs.profile(xspace([plane, modules({"m(7)": module.to_bytes()})]))
    rows = {row.name: row for row in found.rows}
    (said,) = [each for each in found.notes if each.startswith("The host waits")] or [""]
    assert bool(said) == bool(missing)
    assert (rows["d"].flop_rate is None) == bool(missing)
    assert (rows["d"].bandwidth is None) == bool(missing)
    if missing:
        assert "such as d, may take so much longer than its events say. Rates are left out." in said
