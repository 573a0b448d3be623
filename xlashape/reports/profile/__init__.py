"""Where the time goes: profiles of XLA's profiler summed up by instruction, and joined with the instructions' bytes and
FLOPs.

events      sums of events by operation and step; the time of events without those within them
spans       parts of a file in protobuf's wire format
xplane      `*.xplane.pb`
trace_json  `*.trace.json.gz`
sources     files and directories
joined      operations of a profile with the instructions of modules
changes     two profiles beside each other
report      the declaration, `Profile`, `profile`
"""

from xlashape.reports.profile.changes import TimeChange
from xlashape.reports.profile.report import REPORT, InstructionTime, Profile, profile

__all__ = ["REPORT", "InstructionTime", "Profile", "TimeChange", "profile"]
