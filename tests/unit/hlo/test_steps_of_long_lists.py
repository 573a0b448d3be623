"""Lists of an instruction or a module that are as long as a program count as much, so that a deadline comes in time."""

from collections.abc import Callable
from typing import Any

import pytest

from xlashape import limits
from xlashape.hlo import HloModule
from xlashape.reports.diff import diff

MODULE = "HloModule m ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }"
COUNT = 10_000


def long_module(kind: str) -> HloModule:
    proto = HloModule.parse(MODULE).to_proto()
    if kind == "aliases":
        for _ in range(COUNT):
            proto.input_output_alias.entries.add(kind=1)
    else:
        first, last = proto.computations[0].instructions
        last.control_predecessor_ids.extend([first.id] * COUNT)
    return HloModule.from_proto(proto)


@pytest.mark.parametrize("kind", ["aliases", "control"])
@pytest.mark.parametrize("use", [HloModule.to_text, lambda module: diff(module, MODULE)], ids=["text", "diff"])
def test_each_entry_is_a_step(kind: str, use: Callable[[HloModule], Any]) -> None:
    module = long_module(kind)
    with limits.budget() as counted:
        use(module)
    assert counted.steps >= COUNT
