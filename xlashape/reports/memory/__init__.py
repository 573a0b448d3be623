"""The memory of a program: its peak, what lives then, from which line it comes.

The files. Each imports only from those above it:

    declaration.py  the columns and totals
    plan.py         which values live when: the form into which all sources are converted
    assignment.py   the plan in XLA's assignment of buffers
    schedule.py     the order of instructions
    values.py       which results are one value, and from when to when it lives
    liveness.py     the estimated plan of a module without an assignment
    untraced.py     the temporaries of an assignment whose heap traces are gone
    texts.py        the texts that XLA writes beside modules
    suggestions.py  what would make the peak smaller
    answer.py       ProgramMemory
    inputs.py       memory
"""

from __future__ import annotations

from xlashape.reports.memory.answer import Group, LiveBuffer, ProgramMemory, Space, Step
from xlashape.reports.memory.declaration import REPORT
from xlashape.reports.memory.inputs import memory
from xlashape.reports.memory.suggestions import Suggestion

__all__ = ["REPORT", "Group", "LiveBuffer", "ProgramMemory", "Space", "Step", "Suggestion", "memory"]
