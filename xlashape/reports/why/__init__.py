"""Why buffers are as large as they are: those of arrays, tuples, instructions and modules, and those that a compiler
lists in its report when memory has run out.

>>> print(why("s32[8388608,8,4]{2,1,0:T(8,128)}").causes[0].text)
tile (8,128) pads dimension 2 from 4 to 128: 32 times as much

The files. Each imports only from those above it:

    causes.py            Cause: what makes an array's buffer larger than its elements
    suggestions.py       Suggestion: a change that makes the buffer smaller, and how to write it in JAX
    declaration.py       REPORT: the columns, totals and options of the report
    shapes.py            Buffer, the row of all answers; ArrayMemory, TupleMemory, ShapesMemory, answers about shapes
    programs.py          InstructionMemory, ModuleMemory, answers about programs
    compiler_messages.py messages about kernels and shardings: scoped VMEM, shared memory, rematerialization
    oom.py               ReportMemory, the answer about such a report
    explain.py           why, the function that gives the answer about any input
"""

from __future__ import annotations

from xlashape.reports.why.causes import Cause
from xlashape.reports.why.declaration import REPORT
from xlashape.reports.why.explain import Memory, why
from xlashape.reports.why.oom import AllocationMemory, ReportMemory
from xlashape.reports.why.programs import DonatedMemory, InstructionMemory, ModuleMemory
from xlashape.reports.why.shapes import ArrayMemory, Buffer, ShapesMemory, TupleElement, TupleMemory
from xlashape.reports.why.suggestions import Suggestion

__all__ = [
    "REPORT",
    "AllocationMemory",
    "ArrayMemory",
    "Buffer",
    "Cause",
    "DonatedMemory",
    "InstructionMemory",
    "Memory",
    "ModuleMemory",
    "ReportMemory",
    "ShapesMemory",
    "Suggestion",
    "TupleElement",
    "TupleMemory",
    "why",
]
