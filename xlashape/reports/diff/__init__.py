"""What changed from one module to another: `xs.diff(a, b)`.

measures    what an instruction costs, in numbers that add up
graph       a module as it is matched
matching    which instruction of one module is which of the other
aspects     in what two instructions differ
units       changes as sets of instructions
rows        changes as rows, grouped and ranked
text        the verdict, the rows, and two instructions or computations beside each other, for people
compare     `diff`, its answer and its declaration
gate        limits for changes, such as `copies.bytes > 1MiB`
summary     what a test stores of a module, and limits for what it may become
markdown    a diff as a document: a comment of a pull request, a page of HTML
"""

from xlashape.reports.diff.compare import REPORT, Diff, Measure, diff
from xlashape.reports.diff.rows import Change

__all__ = ["REPORT", "Change", "Diff", "Measure", "diff"]
