"""The report `diff`: what changed from one module to another. It is called as `xs.diff(a, b)`.

measures    what an instruction costs, in numbers that add up
graph       a module as what its instructions are, their operands and their users, which are compared
unchanged   which instructions of two computations are the same, in the same order
matching    which instructions of the two modules correspond
peak        what left and entered the peak of memory
aspects     in which respects two instructions differ, such as layout or element type
units       changes as sets of instructions
rows        changes as rows, grouped and ranked
text        text for people: a line that sums up, the rows, two instructions or computations beside each other
compare     the function `diff`, its answer and its declaration
gate        limits for changes, such as `copies.bytes > 1MiB`
summary     the facts about a module that a test stores, and limits for how they may change
markdown    a diff as a document: a comment of a pull request, a page of HTML
"""

from xlashape.reports.diff.compare import REPORT, Diff, Measure, diff
from xlashape.reports.diff.rows import Change

__all__ = ["REPORT", "Change", "Diff", "Measure", "diff"]
