"""Where the time goes: profiles of XLA's profiler summed up by instruction, and joined with the instructions' bytes and
FLOPs.

events.py      sums events by operation and by step, without the time of events within them
spans.py       reads parts of a file in protobuf's wire format
xplane.py      reads `*.xplane.pb`
trace_json.py  reads `*.trace.json.gz`
sources.py     finds and reads the files of a profile
joined.py      joins the operations of a profile with the instructions of modules
changes.py     compares two profiles
report.py      the declaration of the report, its answer `Profile`, and the function `profile`
"""

from xlashape.reports.profile.changes import TimeChange
from xlashape.reports.profile.report import REPORT, InstructionTime, Profile, profile

__all__ = ["REPORT", "InstructionTime", "Profile", "TimeChange", "profile"]
