"""Budgets end what takes too long, and only inside their block."""

import ast
import re
import time
from pathlib import Path

import pytest

from xlashape import limits
from xlashape.errors import DeadlineExceededError, LimitExceededError


def test_steps_are_bounded_exactly():
    with limits.budget(steps=1000, subject="fusion.3"):
        for _ in range(1000):
            limits.spend()
        with pytest.raises(LimitExceededError, match=r"analysis of fusion\.3 took more than 1000 steps") as caught:
            limits.spend()
    assert (caught.value.limit, caught.value.maximum, caught.value.value) == (
        "analysis_steps",
        1000,
        1001,
    )


def test_a_deadline_that_has_passed_ends_the_analysis():
    with (
        limits.budget(deadline=time.monotonic() - 1, subject="dot.7"),
        pytest.raises(DeadlineExceededError, match=r"dot\.7"),
    ):
        limits.spend()


def test_a_deadline_that_passes_during_the_analysis_ends_it():
    with (
        limits.budget(deadline=time.monotonic() + 0.02),
        pytest.raises(DeadlineExceededError),
    ):
        while True:
            limits.spend()


def test_without_a_budget_nothing_is_bounded():
    with limits.budget(steps=1):
        limits.spend()
    limits.spend(10**9)


def test_an_inner_budget_also_counts_against_the_outer():
    raises = pytest.raises(LimitExceededError, match="more than 10 steps")
    with limits.budget(steps=10), raises, limits.budget(steps=100):
        limits.spend(50)


def test_check_names_the_limit():
    limits.check("upload bytes", 5, 5)
    with pytest.raises(LimitExceededError, match="upload bytes: 6 is more than 5"):
        limits.check("upload bytes", 6, 5)


def test_a_check_has_words_in_its_message_and_snake_case_in_its_limit():
    with pytest.raises(LimitExceededError, match="dimensions of a NumPy array: 4 is more than 3") as caught:
        limits.check("dimensions of a NumPy array", 4, 3, field="shape")
    error = caught.value
    assert (error.limit, error.maximum, error.value, error.field) == ("dimensions_of_a_numpy_array", 3, 4, "shape")
    limits.check("dimensions of a NumPy array", 3, 3)


def test_every_limit_has_a_name_in_snake_case():
    root = Path(__file__).resolve().parents[2]
    names: set[str] = set()
    for path in [path for folder in ("xlashape", "server", "clients") for path in (root / folder).rglob("*.py")]:
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            function = getattr(call.func, "id", "") if isinstance(call, ast.Call) else ""
            given = (
                [each.value for each in call.keywords if each.arg == "limit"]
                if function == "LimitExceededError"
                else []
            )
            given += call.args[2:3] if function == "at_most" else []
            names |= {each.value for each in given if isinstance(each, ast.Constant)}
    assert names >= {"module_bytes", "call_seconds"}
    assert [name for name in sorted(names) if not re.fullmatch("[a-z]+(_[a-z]+)*", name)] == []
