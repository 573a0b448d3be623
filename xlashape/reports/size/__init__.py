"""How many bytes the buffers of shapes and programs take.

>>> print(size("bf16[20,300]{1,0:T(8,128)(2,1)}"))
18,432 bytes (18.00 KiB): 12,000 bytes (11.72 KiB) of elements, 6,432 bytes (6.28 KiB) (34.9%) of padding

The files. Each imports only from those above it:

    answer.py    REPORT; SizeAnswer
    compute.py   size
"""

from __future__ import annotations

from xlashape.reports.size.answer import REPORT, SizeAnswer
from xlashape.reports.size.compute import size

__all__ = ["REPORT", "SizeAnswer", "size"]
