"""`copies` beside the JAX that is installed: programs are compiled with each edit that is suggested, which removes
exactly the copies and bytes that are promised."""

from __future__ import annotations

from functools import partial

import pytest

import xlashape as xs

jax = pytest.importorskip("jax", reason="JAX is not installed")
if tuple(int(part) for part in jax.__version_info__[:2]) < (0, 7):
    pytest.skip("Format and Layout have these names from JAX 0.7 on", allow_module_level=True)

import jax.numpy as jnp  # noqa: E402 - it needs JAX
from jax import lax  # noqa: E402 - it needs JAX
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
        "donate x: jit(…, donate_argnames='x'); the output takes its memory; if f takes x by position only: "
        "donate_argnums=0, not counting static or unused arguments"
    )
    assert not xs.copies(jax.jit(update, donate_argnames="x"), *arguments)


def cached(cache, x, at, *, barrier=lambda value: value):
    """A step of decoding: the dot reads the new value, which XLA computes again in its fusion."""
    cache = barrier(lax.dynamic_update_slice(cache, x[:, None], (0, at, 0)))
    return cache, jnp.einsum("bd,btd->bt", x, cache)


def scattered(x, rows, values, *, barrier=lambda values: values):
    """The program reads the old value first."""
    x, most = barrier((x, x[rows].max(0)))
    return x.at[rows, rows].set(values), most


def updated(x, y, at, *, barrier=lambda values: values):
    x, most = barrier((x, x.max()))
    return lax.dynamic_update_slice(x, y[None], (at, 0)), most


def summed(x, *, barrier=lambda values: values):
    x, total = barrier((x, x.sum(0)))
    return x * 2, total


def array(*sizes: int, kind: object = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, kind)


@pytest.mark.parametrize(
    ("function", "arguments", "advice"),
    [
        (
            cached,
            (array(16, 128, 64, kind=jnp.bfloat16), array(16, 64, kind=jnp.bfloat16), array(kind=jnp.int32)),
            "new value",
        ),
        (scattered, (array(64, 64), array(64, kind=jnp.int32), array(64)), "old value"),
        (updated, (array(64, 64), array(64), array(kind=jnp.int32)), "old value"),
        (summed, (array(64, 64),), "old value"),
    ],
)
def test_a_barrier_removes_copies_for_the_old_value(function, arguments, advice):
    """With the donation and the barrier that are told, nothing of the size of the argument is copied."""

    def rows(*, donated: bool, ordered: bool):
        barrier = {"barrier": lax.optimization_barrier} if ordered else {}
        jitted = jax.jit(partial(function, **barrier), donate_argnums=(0,) if donated else ())
        found = xs.copies(jitted.lower(*arguments).compile())
        return [each for each in found if each.shape.dimensions == arguments[0].shape]

    told = [each for each in rows(donated=True, ordered=False) if each.cause_kind == "copy-insertion"]
    assert told
    assert all(each.suggestion.startswith(f"pass the {advice}") for each in told)
    for each in rows(donated=False, ordered=False):  # a donation alone is not advised: it needs a copy as well
        assert each.suggestion.startswith(f"donate it, and pass the {advice}")
    assert not [each for each in rows(donated=True, ordered=True) if each.cause_kind == "copy-insertion"]
