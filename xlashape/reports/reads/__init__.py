"""What instructions read from memory and how well: how the consumer, the instruction that reads, uses the elements;
which bytes are fetched for them; and which bytes are fetched in vain.

>>> report = reads("HloModule m ENTRY e { p = f32[64] parameter(0) ROOT s = f32[2] slice(p), slice={[0:64:32]} }")
>>> [(row.instruction, row.access, row.segments, row.ideal, row.wasted_bytes) for row in report.worst(1)]
[('s', ('streamed',), 2.0, 1.0, 248)]

The files. Each imports only from those above it:

    units.py        counts the units of memory that hold at least one element of a set
    consumers.py    what a consumer does with the elements that it reads
    devices.py      the device of a module, and the unit in which its memory is read
    answer.py       `Reads`, the answer: its rows, and the declaration of their columns
    mends.py        what mends a read
    kernels.py      how a Pallas kernel reads, and what mends that
    find_reads.py   `reads`, which makes the answer, and `each_read`, which gives its rows one by one
"""

from xlashape.reports.reads.answer import REPORT, Read, ReadAccess, Reads, Write
from xlashape.reports.reads.devices import Device
from xlashape.reports.reads.find_reads import each_read, reads

__all__ = ["REPORT", "Device", "Read", "ReadAccess", "Reads", "Write", "each_read", "reads"]
