"""The report `summary`: what stands out in a program, first what costs most, and what is fine.

It asks the other reports, and adds nothing of its own to what they know: each finding names the report (`kind`) that
has the details.

>>> report = summary('''HloModule m, is_scheduled=true
... ENTRY e { p = f32[1024,1024]{1,0} parameter(0) ROOT n = f32[1024,1024]{1,0} negate(p) }''')
>>> [(row.kind, row.where, row.share) for row in report][:1]
[('memory', 'p', 0.5)]

The files. Each imports only from those above it:

    answer.py     `Summary`, the answer: its findings, and the declaration of their columns
    findings.py   the findings of each report
    summarize.py  the function `summary`
"""

from xlashape.reports.summary.answer import REPORT, Finding, Fine, Summary
from xlashape.reports.summary.summarize import summary

__all__ = ["REPORT", "Finding", "Fine", "Summary", "summary"]
