"""Instructions of thousands of operands: their analysis can be ended at any time."""

from __future__ import annotations

import pytest

from tests.support.ended_work import looks as looks
from xlashape.errors import DeadlineExceededError
from xlashape.hlo import HloModule
from xlashape.indexing import input_to_output, output_to_input
from xlashape.limits import budget

COUNT = 3000


def module(body: str) -> HloModule:
    return HloModule.parse(f"HloModule m\n\nENTRY e {{\n{body}\n}}\n")


def test_a_concatenation_can_be_ended(looks: list[int]) -> None:
    operands = ", ".join(["x"] * COUNT)
    made = module(
        f"  x = f32[1]{{0}} parameter(0)\n  ROOT y = f32[{COUNT}]{{0}} concatenate({operands}), dimensions={{0}}"
    )
    with pytest.raises(DeadlineExceededError, match="the caller has gone"), budget():
        output_to_input(made.instruction("y"))
    assert len(looks) == 3


def test_questions_about_the_leaves_of_a_tuple_can_be_ended(looks: list[int]) -> None:
    """Each takes longer, the more leaves there are."""
    shapes = ", ".join(["f32[8]{0}"] * COUNT)
    made = module(f"  x = ({shapes}) parameter(0)\n  ROOT y = f32[8]{{0}} get-tuple-element(x), index=1")
    with pytest.raises(DeadlineExceededError, match="the caller has gone"), budget():
        for leaf in range(10):
            input_to_output(made.instruction("y"), 0, leaf)
    assert len(looks) == 3
