"""A fixture that ends work while it runs, as a server ends the work for a caller that has disconnected."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from xlashape.errors import DeadlineExceededError
from xlashape.limits import set_checkpoint

__all__ = ["looks"]


@pytest.fixture
def looks() -> Iterator[list[int]]:
    """A list to which each checkpoint of a budget adds an item. The third checkpoint raises DeadlineExceededError,
    which ends the work."""
    found: list[int] = []

    def look() -> None:
        found.append(len(found))
        if len(found) == 3:
            raise DeadlineExceededError("the caller has gone")

    set_checkpoint(look)
    yield found
    set_checkpoint(None)
