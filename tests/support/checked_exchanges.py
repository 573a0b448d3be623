"""Compares the report `collectives` of a program of `exchanging_programs.py` with a simulation of single elements."""

from __future__ import annotations

import base64
from math import prod
from typing import Any

from simulated_collectives import groups_along, simulate

import xlashape as xs


def check(program: dict[str, Any], form: str) -> None:
    mesh, axes = program["mesh"], program["axes"]
    groups = groups_along(mesh, axes)
    members = groups
    if program["pairs"] is not None:
        moving = [[(group[a], group[b]) for a, b in program["pairs"] if a != b] for group in groups]
        groups = [pair for pairs in moving for pair in pairs]
        members = [sorted(part) for pairs in moving for part in connected(pairs)]
    counted = simulate(program["kind"], groups, program["elements"])
    source = base64.b64decode(program["proto"]) if form == "proto" else program["text"]
    # The proto names the axes. The text does not, but for what the program's shardings spell.
    report = xs.collectives(source, mesh=mesh if form == "text" else None)
    (row,) = report.rows
    width, devices = program["width"], prod(mesh.values())
    sent = [counted.sent[device] * width for device in range(devices)]
    lacked = [counted.lacked.get(device, 0) * width for device in range(devices)]
    most = sum(sent) // devices if program["kind"] == "all-reduce" else max(sent)
    if program["kind"] == "all-reduce":
        assert max(sent) - min(sent) <= 2 * (len(groups[0]) - 1) * width * len(groups[0])
    size = max(
        program["elements"] * width, program["elements"] * width * (len(groups[0]) if row.kind == "all-gather" else 1)
    )
    assert {
        "kind": row.kind, "times": row.times, "exact": row.is_exact, "mesh_axes": sorted(row.mesh_axes or ()),
        "members": sorted(map(sorted, row.members)), "bytes": row.bytes, "sent": row.sent_bytes, "sent_all": row.sent_all,
        "received": row.received_bytes, "received_all": row.received_all, "devices": report.devices,
    } == {
        "kind": program["kind"], "times": program["times"], "exact": True, "mesh_axes": sorted(axes),
        "members": sorted(map(sorted, members)), "bytes": size, "sent": most, "sent_all": sum(sent),
        "received": max(lacked), "received_all": sum(lacked), "devices": devices,
    }  # fmt: skip


def connected(pairs: list[tuple[int, int]]) -> list[set[int]]:
    """The sets of devices that pairs connect."""
    parts: list[set[int]] = []
    for pair in pairs:
        touching = [part for part in parts if part & set(pair)]
        parts = [part for part in parts if part not in touching] + [set(pair).union(*touching)]
    return parts
