"""The report on the memory of a program: the most bytes that live at once (the peak), which values they belong to, and
the source lines that those come from.

The files. Each imports only from those above it:

    declaration.py  the columns and totals of the report
    plan.py         which values live when: the form into which all sources are converted
    assignment.py   the plan in XLA's assignment of buffers
    schedule.py     the order of instructions
    slots.py        where buffers live one after the other
    values.py       which results are one value, and from when to when it lives
    liveness.py     the estimated plan of a module without an assignment
    untraced.py     the temporaries of an assignment without heap traces, which say when each takes and frees memory
    texts.py        assignments in the texts that XLA writes beside modules
    donations.py    arguments whose memory outputs can take
    tied_dimensions.py  which dimensions of operands and result are the same one
    dimensions.py   what changes together with a dimension of an argument, and the module that is changed so
    smaller.py      which dimensions are those of the data, and the peak with other sizes
    inside.py       values in the bodies of loops, and the lives of elements of their state
    recomputing.py  the peak with the bodies of loops in jax.checkpoint
    kept.py         what calls of a function keep for the backward pass, and when it is not needed
    restacked.py    arrays that loops take apart and stack again
    carrying.py     the peak with such arrays in the carry of the loops
    suggestions.py  what would make the peak smaller
    answer.py       ProgramMemory, the answer
    inputs.py       memory, the function that makes the answer of every kind of input
"""

from __future__ import annotations

from xlashape.reports.memory.answer import LiveBuffer, MemorySpace, ProgramMemory, Step
from xlashape.reports.memory.declaration import REPORT
from xlashape.reports.memory.inputs import memory
from xlashape.reports.memory.suggestions import MemorySuggestion

__all__ = ["REPORT", "LiveBuffer", "MemorySpace", "MemorySuggestion", "ProgramMemory", "Step", "memory"]
