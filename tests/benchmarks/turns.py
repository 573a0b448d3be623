"""Steps that are measured in turns, so that what disturbs the machine for a while disturbs all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["best"]


def best(
    rounds: int, steps: Mapping[str, Callable[[], Any]], *, unit: float, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """The time of each step, the best of all rounds, in units of so many seconds."""
    times = dict.fromkeys(steps, float("inf"))
    for _ in range(rounds):
        for name, step in steps.items():
            start = clock()
            step()
            times[name] = min(times[name], (clock() - start) / unit)
    return times
