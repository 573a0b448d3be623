"""What changed from one module to another: `xs.diff(a, b)`.

measures    what an instruction costs, in numbers that add up
graph       a module in the form in which it is matched
matching    which instructions of the two modules correspond
aspects     in what two instructions differ
units       changes as sets of instructions
rows        changes as rows, grouped and ranked
text        text for people: the verdict, the rows, two instructions or computations beside each other
compare     `diff`, its answer and its declaration
gate        limits for changes, such as `copies.bytes > 1MiB`
summary     what a test stores of a module, and limits for what it may become
markdown    a diff as a document: a comment of a pull request, a page of HTML
"""

from xlashape.reports.diff.compare import REPORT, Diff, Measure, diff
from xlashape.reports.diff.rows import Change

__all__ = ["REPORT", "Change", "Diff", "Measure", "diff"]
