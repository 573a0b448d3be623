"""`copies` beside the JAX that is installed: programs are compiled with each edit that is suggested, which removes
exactly the copies and bytes that are promised."""

from __future__ import annotations

import pytest

import xlashape as xs

jax = pytest.importorskip("jax", reason="JAX is not installed")
if tuple(int(part) for part in jax.__version_info__[:2]) < (0, 7):
    pytest.skip("Format and Layout have these names from JAX 0.7 on", allow_module_level=True)

from moving_programs import Program, programs  # noqa: E402 - it imports JAX

PROGRAMS = {program.name: program for program in programs()}


def held(program: Program) -> int:
    """How many exact suggestions a program has, all of which hold."""
    before = xs.copies(program.compile())
    exact = [each for each in before.suggestions if each.is_exact]
    for suggestion in exact:
        after = xs.copies(program.edited(suggestion.edits).compile())
        promised = (before.copies - suggestion.copies, before.total_bytes - suggestion.saved_bytes)
        assert (after.copies, after.total_bytes) == promised, (program.name, suggestion)
    return len(exact)


@pytest.mark.parametrize("part", range(4))
def test_edits_remove_what_they_promise(part: int):
    """Of fifty programs, in parts: every exact suggestion holds, and more than thirty programs have one."""
    programs_of_part = [PROGRAMS[name] for name in sorted(PROGRAMS)[part::4]]
    assert sum([held(program) > 0 for program in programs_of_part]) >= 8


def test_functions_and_lowered_ones_are_compiled():
    """Before XLA's optimisations there are no copies to find."""

    def update(x: jax.Array, y: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_slice(x, y, (0, 0))

    arguments = jax.ShapeDtypeStruct((64, 128), "float32"), jax.ShapeDtypeStruct((8, 128), "float32")
    jitted = jax.jit(update)
    found = [
        xs.copies(jitted, *arguments),
        xs.copies(jitted.lower(*arguments)),
        xs.copies(jitted.lower(*arguments).compile()),
    ]
    assert [each.total_bytes for each in found] == [2 * 64 * 128 * 4] * 3
    (row,) = found[0]
    assert row.suggestion == (
        "donate x: jit(…, donate_argnames='x'); the output takes its memory; if f takes x by position only: donate_argnums"
    )
    assert not xs.copies(jax.jit(update, donate_argnames="x"), *arguments)
