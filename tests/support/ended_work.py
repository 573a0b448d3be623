"""Work that is ended while it runs, as a server ends that of a caller who has gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from xlashape.errors import DeadlineExceededError
from xlashape.limits import set_checkpoint

__all__ = ["looks"]


@pytest.fixture
def looks() -> Iterator[list[int]]:
    """Where budgets look, an item is added; from the third on, they end what is under way."""
    found: list[int] = []

    def look() -> None:
        found.append(len(found))
        if len(found) == 3:
            raise DeadlineExceededError("the caller has gone")

    set_checkpoint(look)
    yield found
    set_checkpoint(None)
