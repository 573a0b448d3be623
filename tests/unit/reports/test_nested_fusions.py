"""XLA's TPU compiler nests fusions. A fusion whose instructions are in fusions of their own reads, writes and computes
what the same instructions do in one fusion: every report says the same of both."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

import xlashape as xs

ADD = "%add {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %s = f32[] add(%a, %b)\n}\n"
MATRIX, VECTOR, STACK = "f32[128,512]{1,0:T(8,128)}", "f32[128]{0:T(128)}", "f32[4,32,128]{2,1,0:T(8,128)}"
ROWS, TABLE, PLACES = "f32[8,512]{1,0:T(8,128)}", "f32[1000,512]{1,0:T(8,128)}", "s32[8,1]{1,0:T(8,128)}"

BODIES: dict[str, tuple[list[str], list[str]]] = {
    "a slice of a stack in a product": (
        ["f32[8,32]{1,0:T(8,128)}", STACK, "s32[]"],
        [
            "%z = s32[] constant(0)",
            "%s = f32[1,32,128]{2,1,0:T(8,128)} dynamic-slice(%p1, %p2, %z, %z), dynamic_slice_sizes={1,32,128}",
            "%b = f32[32,128]{1,0:T(8,128)} bitcast(%s)",
            "%d = f32[8,128]{1,0:T(8,128)} dot(%p0, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ],
    ),
    "an update in place": (
        [STACK, "f32[32,128]{1,0:T(8,128)}", "s32[]"],
        [
            "%z = s32[] constant(0)",
            "%n = f32[32,128]{1,0:T(8,128)} negate(%p1)",
            "%b = f32[1,32,128]{2,1,0:T(8,128)} bitcast(%n)",
            f"%u = {STACK} dynamic-update-slice(%p0, %b, %p2, %z, %z)",
        ],
    ),
    "a gather": (
        [TABLE, PLACES],
        [
            f"%g = {ROWS} gather(%p0, %p1), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, "
            "index_vector_dim=1, slice_sizes={1,512}",
            f"%e = {ROWS} exponential(%g)",
        ],
    ),
    "a slice, turned": (
        [MATRIX],
        [
            f"%s = {ROWS} slice(%p0), slice={{[16:24], [0:512]}}",
            "%t = f32[512,8]{1,0:T(8,128)} transpose(%s), dimensions={1,0}",
            "%e = f32[512,8]{1,0:T(8,128)} exponential(%t)",
        ],
    ),
    "a sum": (
        [MATRIX],
        [
            "%z = f32[] constant(0)",
            f"%m = {MATRIX} multiply(%p0, %p0)",
            f"%r = {VECTOR} reduce(%m, %z), dimensions={{1}}, to_apply=%add",
        ],
    ),
    "a part of a softmax": (
        [MATRIX, VECTOR],
        [
            f"%b = {MATRIX} broadcast(%p1), dimensions={{0}}",
            f"%s = {MATRIX} subtract(%p0, %b)",
            f"%e = {MATRIX} exponential(%s)",
        ],
    ),
    "a scatter": (
        [TABLE, PLACES, ROWS],
        [
            f"%g = {TABLE} scatter(%p0, %p1, %p2), update_window_dims={{1}}, inserted_window_dims={{0}}, "
            "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%add"
        ],
    ),
}


def module_of(name: str, nested: tuple[int, ...], depth: int = 1) -> xs.HloModule:
    """The module with the body as a fusion, in which the instructions with these numbers are in fusions of their own,
    at this depth."""
    arguments, body = BODIES[name]
    shapes = {f"%p{number}": shape for number, shape in enumerate(arguments)}
    computations = [ADD] if any("%add" in each for each in body) else []
    lines = [f"%p{number} = {shape} parameter({number})" for number, shape in enumerate(arguments)]
    for number, line in enumerate(body):
        match = re.fullmatch(r"(%\w+) = (\S+) (\w[\w-]*)\((.*?)\)(.*)", line)
        assert match is not None
        result, shape, opcode, operands, rest = match.groups()
        shapes[result] = shape
        if number not in nested or opcode == "constant":
            lines.append(line)
            continue
        given = [*dict.fromkeys(operands.split(", "))]
        made = f"{shape} {opcode}({', '.join(f'%q{given.index(each)}' for each in operands.split(', '))}){rest}"
        parameters = "".join(f"  %q{each} = {shapes[of]} parameter({each})\n" for each, of in enumerate(given))
        for level in range(depth):
            computations.append(f"%inner.{number}.{level} {{\n{parameters}  ROOT %v = {made}\n}}\n")
            passed = ", ".join(f"%q{each}" for each in range(len(given)))
            made = f"{shape} fusion({passed}), kind=kLoop, calls=%inner.{number}.{level}"
        lines.append(f"{result} = {made.replace(passed, ', '.join(given), 1)}")
    lines[-1] = f"ROOT {lines[-1]}"
    computations.append("%fused {\n  " + "\n  ".join(lines) + "\n}\n")
    entry = [f"%x{number} = {shape} parameter({number})" for number, shape in enumerate(arguments)]
    passed = ", ".join(f"%x{number}" for number in range(len(arguments)))
    entry.append(f"ROOT %f = {shapes[result]} fusion({passed}), kind=kLoop, calls=%fused")
    computations.append("ENTRY %e {\n  " + "\n  ".join(entry) + "\n}\n")
    return xs.HloModule.parse("HloModule m, is_scheduled=true\n\n" + "\n".join(computations))


def facts(module: xs.HloModule) -> dict[str, Any]:
    assert not xs.hlo.verify(module)
    (cost,) = [row for row in xs.cost(module).rows if row.name == "f"]
    return {
        "cost": (cost.flops, cost.bytes_read, cost.bytes_written, cost.padded_bytes, cost.main_bytes),
        "reads": [row._replace(map=None) for row in xs.reads(module)],
        "memory": xs.memory(module).peak_bytes,
    }


def cases() -> list[tuple[str, tuple[int, ...]]]:
    return [
        (name, nested)
        for name, (_, body) in BODIES.items()
        for count in range(1, len(body) + 1)
        for nested in itertools.combinations(range(len(body)), count)
    ]


@pytest.mark.parametrize(("name", "nested"), cases(), ids=str)
def test_reports_see_through_fusions_in_a_fusion(name: str, nested: tuple[int, ...]) -> None:
    flat = module_of(name, ())
    for depth in (1, 3):
        found = module_of(name, nested, depth)
        assert facts(found) == facts(flat)
        assert xs.equivalent(flat, found).verdict == xs.equivalent(flat, flat).verdict


def test_a_stack_of_which_a_nested_fusion_takes_one_layer_is_read_in_part() -> None:
    (row,) = [row for row in xs.cost(module_of("a slice of a stack in a product", (1, 2))).rows if row.name == "f"]
    assert row.bytes_read == 4 * (8 * 32 + 32 * 128) + 4
    assert row.bytes_written == 4 * 8 * 128


def test_fusions_may_be_nested_deeply() -> None:
    (row,) = [row for row in xs.cost(module_of("a slice, turned", (0,), 2_000)).rows if row.name == "f"]
    assert row.bytes_read == 4 * 8 * 512


@pytest.mark.parametrize("nested", [(), (3,), (1, 2, 3)], ids=str)
def test_what_an_update_in_place_keeps_is_not_read(nested: tuple[int, ...]) -> None:
    rows = {row.operand_name: row for row in xs.reads(module_of("an update in place", nested))}
    assert (rows["x0"].access, rows["x0"].part_read, rows["x0"].distinct_bytes) == (("not read",), 0, 0)
    assert rows["x1"].distinct_bytes == 4 * 32 * 128
    (cost,) = [row for row in xs.cost(module_of("an update in place", nested)).rows if row.name == "f"]
    assert cost.bytes_read == sum(row.distinct_bytes for row in rows.values())
