"""The report on copies of extreme modules: many copies, long chains, deep calls, odd shapes. Each test ends with an
answer."""

from __future__ import annotations

import pytest

import xlashape as xs
from xlashape.limits import budget


def entry(lines: list[str], before: str = "") -> str:
    return f"HloModule m\n{before}\nENTRY e {{\n" + "\n".join(lines) + "\n}\n"


def test_many_copies_of_one_array():
    copies = [f"copy{number}x = f32[4]{{0}} copy(p)" for number in range(10_000)]
    names = ", ".join([f"copy{number}x" for number in range(10_000)])
    kinds = ", ".join(["f32[4]{0}"] * 10_000)
    with budget(steps=40_000_000):
        found = xs.copies(entry(["p = f32[4]{0} parameter(0)", *copies, f"ROOT t = ({kinds}) tuple({names})"]))
    assert found.copies == 10_000 and found.total_bytes == 10_000 * 32


@pytest.mark.parametrize("opcode", ["copy", "bitcast"])
def test_long_chains(opcode: str):
    lines = ["x0 = f32[4]{0} parameter(0)"]
    for number in range(10_000):
        lines.append(f"x{number + 1} = f32[4]{{0}} {opcode}(x{number})")
    lines.append("ROOT c = f32[4]{0} copy(x10000)")
    with budget(steps=40_000_000):
        found = xs.copies(entry(lines))
    assert found.copies == (10_001 if opcode == "copy" else 1)


def test_many_arguments_are_donated_together():
    count = 2_000
    lines = [f"p{number} = f32[8]{{0}} parameter({number})" for number in range(count)]
    lines += [f"copy{number}x = f32[8]{{0}} copy(p{number})" for number in range(count)]
    names = ", ".join([f"copy{number}x" for number in range(count)])
    found = xs.copies(entry([*lines, f"ROOT t = ({', '.join(['f32[8]{0}'] * count)}) tuple({names})"]))
    best = found.suggestions[0]
    assert (best.copies, best.saved_bytes) == (count, count * 64) and len(best.edits) == count
    text = (
        "donate p0, p1, p2 and 1997 more arguments: jit(…, donate_argnums=…); each output takes the memory of its own"
    )
    assert best.text == text
    assert len(found.suggestions) <= 10
    assert len(str(found)) < 10_000


def test_deep_calls():
    deep = 5_000
    bodies = ["call_0 { p0 = f32[4]{0} parameter(0) ROOT r0 = f32[4]{0} copy(p0) }"]
    for number in range(1, deep):
        bodies.append(
            f"call_{number} "
            f"{{ p{number} = f32[4]{{0}} parameter(0) ROOT r{number} = f32[4]{{0}} call(p{number}), to_apply=call_{number - 1} }}"
        )
    lines = ["x = f32[4]{0} parameter(0)", f"ROOT r = f32[4]{{0}} call(x), to_apply=call_{deep - 1}"]
    found = xs.copies(entry(lines, "\n".join(bodies)))
    assert [(row.name, row.times) for row in found] == [("r0", 1)]


def test_loops_in_loops_do_not_overflow():
    config = 'backend_config={"known_trip_count":{"n":"1000000000"}}'
    parts = ["t { a = f32[4]{0} parameter(0) ROOT y = pred[] constant(true) }"]
    parts.append("b0 { p = f32[4]{0} parameter(0) ROOT c = f32[4]{0} copy(p) }")
    for number in range(1, 12):
        parts.append(
            f"b{number} "
            f"{{ p{number} = f32[4]{{0}} parameter(0) ROOT w{number} = f32[4]{{0}} while(p{number}), condition=t, body=b{number - 1}, {config} }}"
        )
    found = xs.copies(
        entry(
            ["x = f32[4]{0} parameter(0)", f"ROOT w = f32[4]{{0}} while(x), condition=t, body=b11, {config}"],
            "\n".join(parts),
        )
    )
    (row,) = found
    assert row.times == row.total_bytes == 2**63 - 1 and row.bytes == 32


def test_what_has_no_size():
    lines = ["p = f32[?,4] parameter(0)", "q = token[] parameter(1)", "ROOT c = f32[?,4] copy(p)"]
    (row,) = xs.copies(entry(lines))
    assert row.bytes is None and row.total_bytes is None
    assert xs.copies(entry(["ROOT p = f32[] parameter(0)"])).copies == 0
    (zero,) = xs.copies(entry(["p = f32[0,4]{0,1} parameter(0)", "ROOT c = f32[0,4]{1,0} copy(p)"]))
    assert zero.bytes == 0
    nothing = xs.copies(entry(["ROOT p = f32[] parameter(0)"]))
    assert nothing.headline() == "m: no instruction only moves data"


def test_a_module_of_an_unknown_opcode():
    module = xs.HloModule.parse(entry(["p = f32[4] parameter(0)", "ROOT c = f32[4] copy(p)"]))
    proto = module.to_proto()
    proto.computations[0].instructions[1].opcode = "frobnicate"
    assert xs.copies(xs.HloModule.from_proto(proto)).copies == 0


def test_a_budget_ends_it():
    lines = ["p = f32[4]{0} parameter(0)", *[f"copy{number}x = f32[4]{{0}} copy(p)" for number in range(2_000)]]
    text = entry([*lines, "ROOT r = f32[4]{0} negate(c0)"])
    with budget(steps=1_000), pytest.raises(xs.errors.LimitExceededError):
        xs.copies(xs.HloModule.parse(text))


@pytest.mark.parametrize("dimensions", ["7,-1", "1,1", "0", "2,1"])
@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}"])
def test_transposes_of_dimensions_that_are_not_there(dimensions: str, layout: str):
    """A text may have any numbers: only the verifier refuses them."""
    lines = [
        f"p = f32[8,16]{{1,0}} parameter(0)\nn = f32[8,16]{layout} copy(p)",
        f"t = f32[16,8]{{1,0}} transpose(n), dimensions={{{dimensions}}}",
        "ROOT c = f32[16,8]{0,1} copy(t)",
    ]
    found = xs.copies(entry(lines))
    assert "t" in [each.name for each in found]
