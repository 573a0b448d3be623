"""Reports: answers about shapes, instructions and whole programs, each computed by plain functions and declared once.

report      `Report`, the declaration; `Answer`, what a report returns; `REPORTS`, the register of all reports
selection   which rows of a table, in which order: filters, sort, limit
origin      the line and the operation of the program that an instruction comes from
text        tables and totals for people
messages    answers as messages of the service, and back
copies      who moves the data of a program, and what removes it
cost        FLOPs and bytes of each instruction of a program, and its least time on a chip
diff        what changed from one program to another
maps        which elements of its operands an instruction reads
memory      the memory of a program: its peak, and what lives then
profile     where the time of a profile goes
reads       what instructions read, how well, and how many bytes are fetched in vain
tiles       which tile of each operand a tile of an output reads
verification  which of XLA's rules a module breaks
why         why buffers are as large as they are
size        the same buffers as a table

A report is a folder here, or a file. It computes its answer, declares its columns and totals, and has a line in
`REPORTS`. The command line, notebooks, JSON and its schema, tables, the service and the documentation are made from the
declarations, and have no code for a particular report.
"""

from xlashape.reports.report import REPORTS, Answer, Option, Report, Section, report_of
from xlashape.tables import Column, Kind

__all__ = ["REPORTS", "Answer", "Column", "Kind", "Option", "Report", "Section", "report_of"]
