"""Why buffers are as large as they are: of arrays, tuples, instructions, modules, and of reports about memory that has run out.

>>> print(why("s32[8388608,8,4]{2,1,0:T(8,128)}").causes[0].text)
tile (8,128) pads dimension 2 from 4 to 128: 32 times as much

The files. Each imports only from those above it:

    parts.py             Cause, Suggestion
    buffer_table.py      the columns of tables of buffers
    answer.py            what all answers have in common
    array_memory.py      the causes of one array: ArrayMemory
    reshapes.py          reshapes that keep the order of the elements
    suggestions.py       what would be smaller
    shape_memory.py      tuples: TupleMemory
    instruction_memory.py  InstructionMemory
    module_memory.py     ModuleMemory
    report_text.py       reads reports
    report_memory.py     explains reports: ReportMemory; and other text with shapes: ShapesMemory
    explain.py           why
"""

from __future__ import annotations

from xlashape.memory.array_memory import ArrayMemory
from xlashape.memory.explain import Memory, why
from xlashape.memory.instruction_memory import InstructionMemory
from xlashape.memory.module_memory import DonatedMemory, ModuleBuffer, ModuleMemory
from xlashape.memory.parts import Cause, Suggestion
from xlashape.memory.report_memory import AllocationMemory, ReportMemory, ShapesMemory
from xlashape.memory.shape_memory import TupleElement, TupleMemory

__all__ = [
    "AllocationMemory",
    "ArrayMemory",
    "Cause",
    "DonatedMemory",
    "InstructionMemory",
    "Memory",
    "ModuleBuffer",
    "ModuleMemory",
    "ReportMemory",
    "ShapesMemory",
    "Suggestion",
    "TupleElement",
    "TupleMemory",
    "why",
]
