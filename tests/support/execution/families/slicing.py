"""slice, dynamic-slice and dynamic-update-slice, with offsets that are parameters or constants, within and beyond the
bounds.
"""

from __future__ import annotations

import random
from typing import Any

from hlo_builder import Builder

from execution.case import Case, family, integers, sizes, text

OFFSETS = integers(-2, 4)
ONE_PLACE = "an offset that can only be one counts as taking part, though it changes nothing"


@family(seeds=24)
def slice_(r: random.Random, seed: int) -> Case:
    dims = sizes(r, 0, 2, most=9)
    parts = []
    for n in dims:
        # Sometimes the slice is empty.
        start = r.randint(0, n - 1) if seed % 8 else r.randint(0, n)
        limit = r.randint(min(start + 1, n), n) if seed % 8 else r.randint(start, n)
        parts.append({"start": start, "limit": limit, "stride": r.randint(1, 3)})
    out = [-(-(p["limit"] - p["start"]) // p["stride"]) for p in parts]
    builder = Builder()
    builder.op("slice", text("s64", out), [builder.parameter(text("s64", dims))], slice_dimensions=parts)
    return Case(builder)


def _offsets(r: random.Random, builder: Builder, rooms: list[int]) -> tuple[list[int], dict[str, Any]]:
    """Offsets as scalars, each a parameter or a constant, and what their maps are expected to name."""
    numbers, domains, union, loose = [], {}, set(), {}
    for room in rooms:
        if r.random() < 0.2:
            numbers.append(builder.constant("s32[]", [r.randint(-2, 6)]))
            continue
        number = sum(1 for one in builder.instructions if one.opcode == "parameter")
        numbers.append(builder.parameter("s32[]"))
        domains[number] = OFFSETS
        union.add(number)
        if room == 0:
            loose[number] = ONE_PLACE
    return numbers, {"domains": domains, "union": frozenset(union), "loose": loose, "draws": 10}


@family(seeds=20)
def dynamic_slice(r: random.Random, seed: int) -> Case:
    dims = sizes(r, most=5)
    out = [r.randint(1, n) for n in dims]
    builder = Builder()
    source = builder.parameter(text("s64", dims))
    offsets, expected = _offsets(r, builder, [n - k for n, k in zip(dims, out, strict=True)])
    builder.op("dynamic-slice", text("s64", out), [source, *offsets], dynamic_slice_sizes=out)
    return Case(builder, **expected)


@family(seeds=20)
def dynamic_update_slice(r: random.Random, seed: int) -> Case:
    dims = sizes(r, most=5)
    update = [r.randint(1, n) for n in dims]
    builder = Builder()
    source, written = builder.parameter(text("s64", dims)), builder.parameter(text("s64", update))
    rooms = [n - k for n, k in zip(dims, update, strict=True)]
    offsets, expected = _offsets(r, builder, rooms)
    builder.op("dynamic-update-slice", text("s64", dims), [source, written, *offsets])
    expected["loose"] |= {0: "the map of what is written into does not say what is overwritten"}
    for number in expected["union"]:
        expected["loose"].setdefault(number, "an offset takes part where a slice could come to lie")
    # As in XLA, the map of an update leads outside the update where the update is not read.
    return Case(builder, **expected, outside=True)


OLD_FORM = "XLA reads this older form no more"


@family(seeds=8, not_by_xla=OLD_FORM)
def slices_of_one_vector_of_offsets(r: random.Random, seed: int) -> Case:
    dims = sizes(r, 2, 3, most=4)
    part = [r.randint(1, n) for n in dims]
    builder = Builder()
    source = builder.parameter(text("s64", dims))
    if seed % 2:
        offsets = builder.parameter(f"s32[{len(dims)}]")
        builder.op("dynamic-slice", text("s64", part), [source, offsets], dynamic_slice_sizes=part)
        return Case(builder, {1: OFFSETS}, loose={1: ONE_PLACE}, draws=6)
    written = builder.parameter(text("s64", part))
    offsets = builder.parameter(f"s32[{len(dims)}]")
    builder.op("dynamic-update-slice", text("s64", dims), [source, written, offsets])
    loose = {0: "the map of what is written into does not say what is overwritten", 2: ONE_PLACE}
    return Case(builder, {2: OFFSETS}, loose=loose, draws=6, outside=True)
