"""Reports: questions about shapes, instructions and whole programs. Plain functions compute an answer, and a
declaration says what is in it.

What all reports share:

report      `Report`, the declaration; `Answer`, what a report returns; `REPORTS`, the register of all reports
groups      rows by what they have in common, such as the layer of the program
layers      the layers of instructions that the compiler gave no name
selection   filters, the order and the limit of a table's rows
program     the program that a report is asked of, also of text that is no module as it stands
donating    how arguments are donated to `jax.jit`, in its words
oom_text    reads reports about memory that has run out
origin      the line and the operation of the program that an instruction comes from
text        tables and totals as text for people
vocabularies  the closed lists of texts in columns and options
structures  values of rows as fields of messages: maps and tiles
messages    answers as messages of the service, and back

The reports:

collectives which devices exchange which bytes, how often, behind what, and what would shrink it
copies      which instructions only move data, why, and what removes them
cost        FLOPs and bytes of each instruction of a program, and its least time on a chip
diff        what changed from one program to another
equivalent  whether programs compute the same, or which pass made a program compute something else
maps        the report `map`: which elements of its operands an instruction reads
memory      the memory of a program: its peak, and what lives then
profile     where the time of a profile goes
reads       what instructions read, how well, and how many bytes are fetched in vain
size        how many bytes a shape or the buffers of a program take
summary     what stands out in a program, of all that these say, what mends it, and what is fine
tiles       the report `tile`: which tile of each operand a tile of an output reads
verification  the report `verify`: which of XLA's rules a module breaks
why         why buffers are as large as they are, and what would make them smaller

A report is a folder here, or a file. It computes its answer, declares its columns and totals, and has a line in
`REPORTS`. The command line, notebooks, JSON and its schema, tables, the service and the documentation are made from the
declarations, so that a report needs little code of its own there.
"""

from xlashape.base.tables import Column, ColumnKind
from xlashape.reports.report import REPORTS, Answer, Option, Report, Section, report_of

__all__ = ["REPORTS", "Answer", "Column", "ColumnKind", "Option", "Report", "Section", "report_of"]
