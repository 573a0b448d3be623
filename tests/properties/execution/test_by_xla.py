"""Maps judged by XLA's execution where jaxlib is installed: it compiles the families for the CPU and runs them."""

from __future__ import annotations

from collections.abc import Iterator

import execution.families  # noqa: F401  # importing them registers them
import pytest
from execution.by_xla import XlaJudge, xla_process
from execution.case import FAMILIES
from execution.judge import judge
from execution.xla_process import XlaProcess

RUN_BY_XLA = [name for name, family in FAMILIES.items() if not family.not_by_xla]


@pytest.fixture(scope="module")
def xla() -> Iterator[XlaProcess]:
    with xla_process() as process:
        yield process


@pytest.mark.parametrize("family", RUN_BY_XLA)
def test_maps_say_what_xla_shows(family: str, xla: XlaProcess) -> None:
    judge(FAMILIES[family].cases(), XlaJudge(xla), optional=True)
