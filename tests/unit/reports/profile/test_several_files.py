"""Profiles of several processes in one directory."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from xspace_writer import Event, Plane, modules, xspace

import xlashape as xs
from xlashape.reports.profile import Profile, profile

VECTORS = Path(__file__).resolve().parents[3] / "vectors" / "profiles"


def test_programs_of_several_processes_keep_their_modules(tmp_path: Path):
    """Files of one directory: each instruction has the times, the bytes and the line that it has in its own file."""

    def facts(found: Profile) -> Counter[tuple[Any, ...]]:
        return Counter(
            (row.name, row.opcode, round(row.time * 1e12), row.count, row.bytes, row.source) for row in found
        )

    alone: Counter[tuple[Any, ...]] = Counter()
    for path in sorted(VECTORS.glob("*.xplane.pb")):
        (tmp_path / path.name).write_bytes(path.read_bytes())
        alone += facts(profile(path))
    found = profile(tmp_path)
    assert (facts(found), found.without_module) == (alone, ())


def test_two_processes_number_their_programs_alike(tmp_path: Path):
    """Their files have programs of one name and one id, which stay two."""
    for file, opcode in (("a", "negate"), ("b", "tanh")):
        module = xs.HloModule.parse(
            f"HloModule jit_f ENTRY e {{ p = f32[4] parameter(0) ROOT {file} = f32[4] {opcode}(p) }}"
        )
        plane = Plane("/device:GPU:0")
        stats = {"hlo_op": file, "hlo_module": "jit_f", "program_id": 7}
        plane.line("Stream #1", [Event(plane.kind(file), 0, 10, stats)])
        (tmp_path / f"{file}.xplane.pb").write_bytes(xspace([plane, modules({"jit_f(7)": module.to_bytes()})]))
    found = profile(tmp_path)
    assert {row.name: (row.opcode, row.bytes) for row in found} == {"a": ("negate", 32), "b": ("tanh", 32)}
    assert (len({row.program_id for row in found}), found.without_module) == (2, ())
