"""What `memory` suggests, proved by compiling again: donations are exact, other changes lie within their bounds, and a
list that fits does fit."""

from __future__ import annotations

from functools import cache

import pytest

import xlashape as xs
from xlashape.reports.memory import MemorySuggestion

jax = pytest.importorskip("jax", reason="JAX is not installed")
if tuple(int(part) for part in jax.__version_info__[:2]) < (0, 7):
    pytest.skip("one executable of older versions cannot be dumped by itself", allow_module_level=True)

import jax.numpy as jnp  # noqa: E402 - it needs JAX
from changed_programs import PROGRAMS, Change, Program, array  # noqa: E402 - it imports JAX
from moving_programs import programs as moving_programs  # noqa: E402 - it imports JAX

pytestmark = pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
SHARES = (0.9, 0.6)
"""The limits that lists are asked for, as parts of the peak."""
MOVING = {program.name: program for program in moving_programs()}
MOVED = ("dot_all", "attention", "fft_columns", "triangular")
"""Programs with a copy that lives at the peak and that an edit removes."""


@cache
def memory_of(name: str) -> xs.reports.memory.ProgramMemory:
    return PROGRAMS[name].memory()


def changed(program: Program, suggestion: MemorySuggestion) -> int | None:
    """The peak of the program with a change; None for a change that cannot be made here by itself."""
    if suggestion.change == "donate":
        return program.memory(donated=suggestion.parameters).peak_bytes
    if suggestion.change == "smaller":
        return program.memory(sizes=dict.fromkeys(suggestion.dimensions, suggestion.size)).peak_bytes
    if suggestion.change == "precision":
        return program.memory(Change(dtype=jnp.bfloat16)).peak_bytes
    if suggestion.text.startswith("jax.checkpoint("):
        return program.memory(Change(keep=jax.checkpoint)).peak_bytes
    return None


def test_there_are_enough_programs():
    assert len(PROGRAMS) == 20


@pytest.mark.parametrize("name", PROGRAMS)
def test_changes_give_what_they_promise(name: str):
    program = PROGRAMS[name]
    before = memory_of(name)
    assert not before.is_estimate
    compared = 0
    for suggestion in before.suggest():
        peak = changed(program, suggestion)
        if peak is None:
            continue
        compared += 1
        assert suggestion.lower_bytes <= peak, suggestion
        assert suggestion.upper_bytes is None or peak <= suggestion.upper_bytes, suggestion
        assert suggestion.change != "donate" or peak <= before.peak_bytes, suggestion
        assert suggestion.is_exact <= (peak == suggestion.new_peak_bytes), suggestion
    assert compared > 0


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_list_that_fits_does_fit(name: str, share: float):
    program = PROGRAMS[name]
    before = memory_of(name)
    limit = int(before.peak_bytes * share)
    listed = [each for each in before.suggest(limit) if each.together_bytes is not None]
    if not listed or "by the estimate" in listed[-1].verdict:
        assert all(not each.fits for each in before.suggest(limit) if each.is_exact)
        return
    donated = tuple(sorted({n for each in listed if each.change == "donate" for n in each.parameters}))
    sizes = {axis: each.size for each in listed if each.change == "smaller" for axis in each.dimensions}
    assert program.memory(donated=donated, sizes=sizes).peak_bytes <= listed[-1].together_bytes <= limit


def test_lists_are_found_for_most_programs():
    found = 0
    for name in PROGRAMS:
        before = memory_of(name)
        listed = [
            each for each in before.suggest(int(before.peak_bytes * SHARES[0])) if each.together_bytes is not None
        ]
        found += bool(listed) and "by the estimate" not in listed[-1].verdict
    assert found >= 18


@pytest.mark.parametrize("name", MOVED)
def test_copies_that_need_not_be(name: str):
    program = MOVING[name]
    before = xs.memory(program.compile())
    edits = {each.text: each.edits for each in xs.copies(before.module).suggestions}
    found = [each for each in before.suggest() if each.change == "copy"]
    assert found or jax.__version_info__ < (0, 12)
    for suggestion in found:
        (text,) = [text for text in edits if suggestion.text.startswith(f"{text}: ")]
        after = xs.memory(program.edited(edits[text]).compile())
        assert suggestion.lower_bytes <= after.peak_bytes <= suggestion.upper_bytes


def heads(change, x, w):
    return jnp.tanh(x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1) @ w).sum(-1)


def vocabulary(change, table, tokens, labels):
    logits = jnp.tanh(table[tokens]) @ table.T
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1).mean()


def trained() -> Program:
    """A step of training in Flax and Optax. Its last two arguments are data."""
    nn, optax = pytest.importorskip("flax.linen"), pytest.importorskip("optax")
    model, tx = nn.Sequential([nn.Dense(48), nn.LayerNorm(), nn.gelu, nn.Dense(10)]), optax.adam(1e-3)
    params = jax.eval_shape(lambda: model.init(jax.random.key(0), jnp.zeros((1, 32))))

    def step(change, params, state, x, y):
        def loss(params):
            return optax.softmax_cross_entropy_with_integer_labels(model.apply(params, x), y).mean()

        gradients = jax.grad(loss)(params)
        updates, state = tx.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    return Program(step, (params, jax.eval_shape(tx.init, params), array(200, 32), array(200, dtype=jnp.int32)))


@pytest.mark.parametrize("name", ["heads", "vocabulary", "trained"])
def test_only_data_gets_smaller(name: str):
    made = {
        "heads": lambda: Program(heads, (array(8, 8, 32, 16), array(128, 64))),
        "vocabulary": lambda: Program(vocabulary, (array(500, 32), *[array(8, 24, dtype=jnp.int32)] * 2)),
        "trained": trained,
    }
    program = made[name]()
    before = program.memory()
    last = len(program.flat()) - 1
    found = [each for each in before.suggest(int(before.peak_bytes * 0.7)) if each.change == "smaller"]
    data = {"heads": {((0, 0),)}, "vocabulary": {((1, d), (2, d)) for d in range(2)}}.get(name)
    assert found
    assert {each.dimensions for each in found} <= (data or {((last - 1, 0), (last, 0))})
    for each in found:
        after = program.memory(sizes=dict.fromkeys(each.dimensions, each.size))
        assert each.lower_bytes <= after.peak_bytes <= each.upper_bytes
