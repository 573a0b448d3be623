"""What all explanations of memory have in common: sizes, a table with its ways out, JSON, text, and HTML for notebooks.

An explanation is not a tuple: pandas, polars and Arrow take tuples for columns of values, and ask other objects for `__arrow_c_stream__`.
"""

from __future__ import annotations

from typing import Any

from xlashape.display import Displayed
from xlashape.frozen import FrozenValue
from xlashape.memory.parts import factor_text
from xlashape.tables import Table, Tabular

__all__ = ["MemoryAnswer"]


class MemoryAnswer(FrozenValue, Displayed, Tabular):
    """Why buffers are as large as they are. `str()` is the text for people; sizes are in bytes."""

    __slots__ = ()

    @property
    def element_bytes(self) -> int:
        """The bytes of the elements alone, of all buffers of known size."""
        raise NotImplementedError

    @property
    def buffer_bytes(self) -> int:
        """The bytes of all buffers of known size."""
        raise NotImplementedError

    @property
    def overhead_bytes(self) -> int:
        """The bytes of the buffers that are not elements."""
        return self.buffer_bytes - self.element_bytes

    @property
    def factor(self) -> float:
        """How many times as large as the elements the buffers are; 1.0 where there are none."""
        return self.buffer_bytes / self.element_bytes if self.element_bytes else 1.0

    def table(self) -> Table:
        """A row for each buffer."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The explanation as a dict for JSON."""
        raise NotImplementedError

    def __repr__(self) -> str:
        times = f", {factor_text(self.factor)} the elements" if self.overhead_bytes and self.element_bytes else ""
        return f"<{type(self).__name__}: {self.buffer_bytes:,} bytes{times}>"
