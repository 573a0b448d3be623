"""The classes of the reports' answers, by the names that annotations use: `ReceivedMemory`, `ReceivedMemoryRow`, …

The stub beside this file, which protos/report_types.py writes, has the attributes of each. When a program runs, every
answer is a `Received`, and every row a `ReceivedRow`.
"""

from __future__ import annotations

from typing import Any

from xlashape.reports.messages import Received, ReceivedRow


def __getattr__(name: str) -> Any:
    if not name.startswith("Received"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return ReceivedRow if name.endswith("Row") else Received
