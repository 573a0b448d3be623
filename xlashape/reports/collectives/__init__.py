"""The report `collectives`: what a program sends between devices, which devices, how often, behind what, and what would
shrink it.

>>> report = collectives(
...     '''HloModule m, num_partitions=4
... add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
... ENTRY e { p = f32[8] parameter(0) ROOT r = f32[8] all-reduce(p), channel_id=1, replica_groups={{0,1},{2,3}},
...   use_global_device_ids=true, to_apply=add }''',
...     mesh="data=2,model=2",
... )
>>> [(row.name, row.kind, row.group_size, row.mesh_axes, row.sent_bytes) for row in report.rows]
[('r', 'all-reduce', 2, ('model',), 32)]

The files. Each imports only from those above it:

    schedule.py      what the schedule puts between the begin and the end of an asynchronous collective
    parts.py         collectives of whose result each device uses a part alone
    pairs.py         how an array is divided before and after a collective
    batches.py       whole batches, which arguments have divided
    loops.py         what an iteration of a loop does with a value
    batches.py       activations that are divided as the weights are, and not along the batch
    findings.py      what sends more than it has to, and what removes that
    rematerialized.py  which pairs of shardings XLA cannot turn into each other without gathering the array
    answer.py        `Collectives`, the answer: its rows, and the declaration of their columns
    find_sent.py     the function `collectives`
"""

from xlashape.reports.collectives.answer import (
    REPORT,
    CollectiveFinding,
    CollectiveRow,
    Collectives,
    CollectivesOfGroup,
)
from xlashape.reports.collectives.find_sent import collectives

__all__ = ["REPORT", "CollectiveFinding", "CollectiveRow", "Collectives", "CollectivesOfGroup", "collectives"]
