"""Budgets end what takes too long, and only inside their block."""

import time

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


def test_a_deadline_that_passes_meanwhile_is_seen():
    with (
        limits.budget(deadline=time.monotonic() + 0.02),
        pytest.raises(DeadlineExceededError),
    ):
        while True:
            limits.spend()


def test_nothing_is_bounded_outside():
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
