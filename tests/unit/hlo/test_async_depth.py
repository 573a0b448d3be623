"""Asynchronous operations in long chains and deep within each other: read in time that grows with the text, with the
threads of each start."""

from __future__ import annotations

import pytest

from xlashape.errors import LimitExceededError
from xlashape.hlo import HloModule
from xlashape.hlo.verifier import verify
from xlashape.limits import budget

STATE = "((f32[4]), f32[4], u32[])"


def nested(threads: list[str]) -> str:
    lines = ["HloModule m", "level0 { x = f32[4] parameter(0)", " ROOT n = f32[4] negate(x) }"]
    for level, thread in enumerate(threads, 1):
        suffix = f', async_execution_thread="{thread}"' if thread else ""
        lines += [
            f"level{level} {{ x = f32[4] parameter(0)",
            f" s = {STATE} async-start(x), calls=level{level - 1}{suffix}",
            " ROOT n = f32[4] async-done(s) }",
        ]
    lines += ["ENTRY e { p = f32[4] parameter(0)", f" ROOT r = f32[4] call(p), to_apply=level{len(threads)}", "}"]
    return "\n".join(lines)


def test_the_last_start_decides_the_thread_of_all_that_it_runs() -> None:
    def threads_of(threads: list[str]) -> list[str]:
        computations = HloModule.parse(nested(threads)).computations
        by_level = {each.name: each.execution_thread or "main" for each in computations}
        return [by_level[f"level{level}"] for level in range(len(threads) + 1)]

    assert threads_of(["a", "a", "a"]) == ["a", "a", "a", "main"]
    assert threads_of(["a", "b", "a"]) == ["a", "a", "a", "main"]
    assert threads_of(["a", "a", "b", "b"]) == ["b", "b", "b", "b", "main"]
    assert threads_of(["b", "", "a", ""]) == ["main"] * 5


def test_starts_within_starts_are_read_in_steps_that_grow_with_their_number() -> None:
    module = HloModule.parse(nested(["sparse"] * 5000))
    assert len(module.computations) == 5002
    assert {each.execution_thread for each in module.computations[:5000]} == {"sparse"}


def test_threads_that_alternate_too_often_are_refused() -> None:
    with pytest.raises(LimitExceededError, match="alternate between threads"):
        HloModule.parse(nested(["a", "b"] * 1500))


def test_a_long_chain_of_updates_is_verified() -> None:
    count = 5000
    lines = ["HloModule m", "w { x = f32[4] parameter(0)", " ROOT n = f32[4] negate(x) }"]
    lines += ["ENTRY e { p = f32[4] parameter(0)", f" step0 = {STATE} async-start(p), calls=w"]
    lines += [f" step{i + 1} = {STATE} async-update(step{i})" for i in range(count)]
    lines += [f" ROOT d = f32[4] async-done(step{count})", "}"]
    assert verify(HloModule.parse("\n".join(lines))) == ()


def test_many_ends_along_a_chain_of_copies_take_a_step_each() -> None:
    count = 3000
    lines = ["HloModule m", "ENTRY e { p = f32[4] parameter(0)", f" copy0 = {STATE} negate-start(p)"]
    for i in range(count):
        lines += [f" copy{i + 1} = {STATE} copy(copy{i})", f" end{i} = f32[4] negate-done(copy{i})"]
    text = "\n".join([*lines, f" ROOT d = f32[4] negate-done(copy{count})", "}"])
    with budget(100 * count):
        module = HloModule.parse(text)
        printed = module.to_text()
        assert HloModule.parse(printed).to_text() == printed
    assert printed.count("negate-done") == count + 1
