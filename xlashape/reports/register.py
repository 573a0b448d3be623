"""The register of reports: every face shows what is named here. A report is added by a line."""

from __future__ import annotations

from importlib import import_module
from typing import Final, NamedTuple

from xlashape.errors import NotFoundError
from xlashape.reports.report import Report
from xlashape.similar import did_you_mean


class Entry(NamedTuple):
    """Where a report is."""

    module: str
    """The package with its declaration, `REPORT`. It is imported when the report is asked for."""
    short: str
    """What it answers, in a line of the list of commands."""


REPORTS: Final[dict[str, Entry]] = {
    "cost": Entry("xlashape.reports.cost", "FLOPs and bytes of each instruction, and its least time on a chip."),
    "size": Entry("xlashape.reports.size", "How many bytes a shape or the buffers of a program take."),
    "why": Entry("xlashape.reports.why", "Why a buffer is as large as it is, and what would make it smaller."),
    "memory": Entry("xlashape.reports.memory", "The peak of a program's memory, and what lives then."),
    "diff": Entry("xlashape.reports.diff", "What changed from one program to another."),
    "copies": Entry("xlashape.reports.copies", "Who moves the data of a program, and what removes it."),
    "map": Entry("xlashape.reports.maps", "What the instructions of a module read, as indexing maps."),
    "tile": Entry("xlashape.reports.tiles", "The tiles of operands that a tile of an instruction's output reads."),
    "verify": Entry("xlashape.reports.verification", "Whether a module keeps XLA's rules."),
    "reads": Entry("xlashape.reports.reads", "What instructions read, how well, and what is fetched in vain."),
    "profile": Entry("xlashape.reports.profile", "Where the time of a profile goes, by instruction and by line."),
}

ALIASES: Final = {"explain": "reads"}
"""Other names of reports, for functions and commands."""


def report_of(name: str) -> Report:
    """The declaration of a report. Raises NotFoundError for a name that is not registered."""
    entry = REPORTS.get(name)
    if entry is None:
        message = f"there is no report {name!r}; there are {', '.join(REPORTS)}{did_you_mean(name, REPORTS)}"
        raise NotFoundError(message, kind="report", name=name)
    return import_module(entry.module).REPORT
