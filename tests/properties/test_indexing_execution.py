"""Truth by execution, judged by NumPy: families of random operations are run, and maps must say which input elements
each output element depends on.

Every element of an input is changed on its own; the outputs that change are those it takes part in. Maps of both
directions, raw and simplified, must name exactly these. What else judges so stands in tests/properties/execution.
"""

from __future__ import annotations

import execution.families  # noqa: F401  # importing them registers them
import pytest
from execution.case import FAMILIES
from execution.judge import judge, observe_with_numpy

RUN_BY_NUMPY = [name for name, family in FAMILIES.items() if not family.not_by_numpy]


@pytest.mark.parametrize("family", RUN_BY_NUMPY)
def test_maps_say_what_numpy_shows(family: str) -> None:
    checked = judge(FAMILIES[family].cases(), observe_with_numpy)
    # A size is not an element.
    assert (checked.seen > 0) == (family != "get_dimension_size")
