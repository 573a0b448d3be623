"""`summary`: what stands out in a program."""

from __future__ import annotations

from typing import Any, Final

from xlashape.base.math import counted
from xlashape.hlo import HloModule
from xlashape.hlo.module_proto.shown_frames import showing_frames
from xlashape.reports.collectives import collectives
from xlashape.reports.copies import copies
from xlashape.reports.cost import cost
from xlashape.reports.memory import memory
from xlashape.reports.profile import profile as profile_of
from xlashape.reports.program import early_notes, is_early, loop_notes, program
from xlashape.reports.reads import reads
from xlashape.reports.reads.devices import device_of
from xlashape.reports.summary import findings
from xlashape.reports.summary.answer import Summary
from xlashape.shape import Target

_MOST: Final = 7


def summary(
    x: Any, *args: Any, target: str | None = None, profile: Any = None, frames: str | None = None,
    strict: bool = False, **kwargs: Any,
) -> Summary:  # fmt: skip
    """What stands out in a program: at most seven findings, those first that a change mends, each with the part of the
    peak, the traffic, the time or the bytes sent that it costs; and what is fine, unless parts of the text are missing.
    Of a module before XLA's optimizations only what these do not change is told.

    x: whatever `HloModule.of` takes; a jitted function is compiled with the arguments that follow. target: the name of
    a device, whose peaks and links give least times where they are known. profile: a profile of the program, as
    `xlashape.profile` takes it, whose times count too. frames: with "all", `source` names every frame that called an
    operation. strict: refuse text that is no module as it stands.

    Raises what `HloModule.of` and `xlashape.profile` raise, and InvalidArgumentError for another target.
    """
    with showing_frames(frames):
        module = program(x, args, kwargs, strict=strict)
        held, moved, sent = memory(module), cost(module, target=target), collectives(module, target=target)
        held = held.of_main_memory  # the memory that a program runs out of
        traffic = moved.main_bytes if moved.main_bytes is not None else moved.padded_bytes or moved.bytes
        layer = findings.layers_of(module)
        is_optimized = not held.is_estimate or not is_early(module)
        found = findings.of_memory(held, layer) if is_optimized else []
        if is_optimized:
            copied = copies(module)
            moving = {row.name for row in copied.rows if row.total_bytes}
            found += findings.of_copies(copied, moved, traffic, layer)
            computing = {row.name for row in moved.rows if row.bound == "compute"}
            found += findings.of_reads(reads(module, target=target), moving, computing, traffic, layer)
        found += findings.of_collectives(sent, moved, is_optimized=is_optimized)
        found += findings.of_cost(moved, layer, is_optimized=is_optimized)
        measured: tuple[str, ...] = ()
        if profile is not None:
            report = profile_of(profile, modules=module, target=target)
            found += findings.of_profile(report, module, layer)
            measured = report.notes
        early = () if is_optimized else early_notes(module)
        count = moved.unknown_instructions
        unknown = (f"The FLOPs of {counted(count, 'instruction')} are not known; they count 0.",) if count else ()
        early = (*early, *_other_device(module, target))
        notes = (*module.notes, *early, *loop_notes(moved.program.unknown_loops), *unknown, *measured)
        totals = {
            "module": module.name,
            "instructions": sum([len(each.instructions) for each in module.computations]),
            "argument_bytes": held.argument_bytes,
            "peak_bytes": held.peak_bytes if is_optimized else None,
            "is_estimate": held.is_estimate,
            "bytes": traffic if is_optimized else None,
            "flops": moved.flops or (None if moved.unknown_instructions else 0),
            "least_time": moved.least_time if is_optimized else None,
            "sent_bytes": sent.sent_bytes,
            "target": target,
        }
        rows, fine = findings.ranked(found, _MOST)
        return Summary(rows, () if module.is_part else fine, totals).with_notes(notes)


def _other_device(module: HloModule, target: str | None) -> tuple[str, ...]:
    """The note about a module that is compiled for another kind of device than the one that was asked for."""
    if target is None or not module.head.HasField("schedule"):
        return ()
    asked, own = Target.of(target), device_of(module, "", None, None, None)
    if own.kind == asked.kind or own.evidence.startswith("assumed"):
        return ()
    name = {"cpu": "a CPU", "gpu": "a GPU", "tpu": "a TPU"}[own.kind]
    return (f"The module is compiled for {name}; for {asked.name} XLA makes another program of it.",)
