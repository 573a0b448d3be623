"""`summary`: what stands out in a program."""

from __future__ import annotations

from typing import Any, Final

from xlashape.hlo.module_proto.shown_frames import showing_frames
from xlashape.reports.collectives import collectives
from xlashape.reports.copies import copies
from xlashape.reports.cost import cost
from xlashape.reports.memory import memory
from xlashape.reports.program import program
from xlashape.reports.reads import reads
from xlashape.reports.summary import findings
from xlashape.reports.summary.answer import Summary, Totals

_MOST: Final = 7


def summary(
    x: Any, *args: Any, target: str | None = None, frames: str | None = None, strict: bool = False, **kwargs: Any
) -> Summary:
    """What stands out in a program: at most seven findings, those first that a change mends, each with the part of the
    peak, the traffic, the least time or the bytes sent that it costs; and what is fine.

    x: whatever `HloModule.of` takes; a jitted function is compiled with the arguments that follow. target: the name of
    a device, whose peaks and links give least times where they are known. frames: with "all", `source` names every
    frame that called an operation. strict: refuse text that is no module as it stands.

    Raises what `HloModule.of` raises, and InvalidArgumentError for another target.
    """
    with showing_frames(frames):
        module = program(x, args, kwargs, strict=strict)
        held, moved, sent = memory(module), cost(module, target=target), collectives(module, target=target)
        traffic = moved.bytes
        found = [
            *findings.of_memory(held),
            *findings.of_copies(copies(module), traffic),
            *findings.of_reads(reads(module), traffic),
            *findings.of_cost(moved),
            *findings.of_collectives(sent, moved),
        ]
        about = Totals(
            module.name, sum(len(each.instructions) for each in module.computations), held.peak_bytes, held.is_estimate, traffic, moved.flops, moved.least_time,
            sent.sent_bytes, target,
        )  # fmt: skip
        return Summary(about, *findings.ranked(found, _MOST)).with_notes(module.notes)
