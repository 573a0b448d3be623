"""The report `copies`: the executed instructions of a program that move data and compute nothing, why each is there,
and the edit that removes it, where one is known.

>>> from xlashape.hlo import HloModule
>>> text = '''HloModule m, entry_computation_layout={(f32[8,16]{0,1})->f32[8,16]{1,0}}
... ENTRY e { x = f32[8,16]{0,1} parameter(0) ROOT c = f32[8,16]{1,0} copy(x) }'''
>>> found = copies(HloModule.parse(text))
>>> [(row.name, row.bytes, row.cause_kind, row.forced_by) for row in found.rows]
[('c', 1024, 'relayout', 'entry layout of parameter 0 (x)')]

The files. Each imports only from those above it:

    movers.py        movers: the instructions that only move data, and the bytes that they read and write
    times.py         how often computations are executed
    pass_dumps.py    which pass of the compiler inserted an instruction
    old_values.py    what still reads the old value of an argument that is overwritten
    patches.py       convolutions of patches, which an argument can be handed over as
    causes.py        what forces a copy, or which two uses of a buffer collide
    edits.py         the edits of a JAX program that remove copies
    stacks.py        copies of arrays that loops take apart and stack again
    answer.py        the rows, and the declaration of their columns
    find_copies.py   the function `copies`
"""

from xlashape.reports.copies.answer import REPORT, Copies, CopiesOfCause, Copy, CopySuggestion
from xlashape.reports.copies.find_copies import copies

__all__ = ["REPORT", "Copies", "CopiesOfCause", "Copy", "CopySuggestion", "copies"]
