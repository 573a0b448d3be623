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
    inputs.py            Memory, the answer about anything but a shape
    explain.py           why, the function that gives the answer about any input
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from xlashape.reports.why.causes import Cause
from xlashape.reports.why.declaration import REPORT
from xlashape.reports.why.explain import why
from xlashape.reports.why.shapes import ArrayMemory, Buffer, ShapesMemory, TupleElement, TupleMemory
from xlashape.reports.why.suggestions import Suggestion

if TYPE_CHECKING:
    from xlashape.reports.why.inputs import Memory as Memory
    from xlashape.reports.why.oom import AllocationMemory as AllocationMemory
    from xlashape.reports.why.oom import ReportMemory as ReportMemory
    from xlashape.reports.why.programs import DonatedMemory as DonatedMemory
    from xlashape.reports.why.programs import InstructionMemory as InstructionMemory
    from xlashape.reports.why.programs import ModuleMemory as ModuleMemory

# Names that are imported on first use, since a question about a shape needs no module: name → its file.
_LAZY = {
    "AllocationMemory": "xlashape.reports.why.oom",
    "DonatedMemory": "xlashape.reports.why.programs",
    "Memory": "xlashape.reports.why.inputs",
    "InstructionMemory": "xlashape.reports.why.programs",
    "ModuleMemory": "xlashape.reports.why.programs",
    "ReportMemory": "xlashape.reports.why.oom",
}

__all__ = [
    *_LAZY,
    "REPORT",
    "ArrayMemory",
    "Buffer",
    "Cause",
    "ShapesMemory",
    "Suggestion",
    "TupleElement",
    "TupleMemory",
    "why",
]  # pyright: ignore[reportUnsupportedDunderAll] - `__getattr__` imports the names in `_LAZY`


def __getattr__(name: str) -> Any:
    home = _LAZY.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(home), name)
    return value
