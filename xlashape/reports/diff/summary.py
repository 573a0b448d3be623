"""Summaries of modules: the facts about a program that a test stores, and limits for how they may change.

A file of summaries is a JSON object with a summary for each test. It is sorted by tests and has each number in a line
of its own, unlike this excerpt, so that versions of it can be merged:

    {
      "test_step": {
        "fingerprint": "1:…",
        "measures": {"copies": 2, "copies.bytes": 4096, "peak_bytes": 1048576, …},
        "opcodes": {"dot": 4, "fusion": 12}
      }
    }

Limits have the names of measures (`Diff.measures`), with `_` for dots, and may begin with `new_`. They say by how much
a measure may grow: `new_copies=0` allows no more copies than before, `copy_bytes="+1MiB"` and `peak_bytes="+2%"` so
many bytes more. `peak` is another name of `peak_bytes`. `same=True` allows no change at all. A copy that XLA fuses into
a loop that computes is none of `copies`: `fused_copies` counts those of 64 KiB or more that `reads` calls strided.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

from xlashape.base.similar import did_you_mean
from xlashape.base.whole_file import replace_file
from xlashape.errors import InvalidArgumentError
from xlashape.hlo.module import HloModule
from xlashape.reports.diff.compare import Measure, measures_of
from xlashape.reports.diff.gate import GateCondition
from xlashape.reports.selection import amount_of

_OTHER_NAMES: Final = {
    "peak": "peak_bytes",
    "copy_bytes": "copies.bytes",
    "collective_bytes": "collectives.bytes",
    "bytes": "buffer_bytes",
}
_MOST_OPCODES: Final = 12


class ModuleSummary(NamedTuple):
    """The facts about a module that a test stores."""

    fingerprint: str
    measures: Mapping[str, int | None]
    """Name of a measure → the number of the module; None where it is not known."""
    opcodes: Mapping[str, int]
    """The number of instructions of each opcode, in all computations."""

    @classmethod
    def of(cls, module: HloModule) -> ModuleSummary:
        """The summary of a module.

        >>> ModuleSummary.of(
        ...     HloModule.parse("HloModule m ENTRY e { p = f32[8] parameter(0) ROOT c = f32[8] copy(p) }")
        ... ).opcodes
        {'copy': 1, 'parameter': 1}
        """
        opcodes = Counter([str(instruction.opcode) for instruction in module.instructions()])
        return cls(module.fingerprint(), measures_of(module), dict(sorted(opcodes.items())))

    @classmethod
    def of_dict(cls, value: Any, where: str) -> ModuleSummary:
        """The summary in `value`, an object of a file. Raises InvalidArgumentError for another value; `where` is in its
        text.
        """
        try:
            fields = cast("dict[str, Any]", value)
            return cls(str(fields["fingerprint"]), dict(fields["measures"]), dict(fields["opcodes"]))
        except (KeyError, TypeError, ValueError):
            raise InvalidArgumentError(
                f"{where} has no summary with fingerprint, measures and opcodes", field="summary"
            ) from None

    def broken(self, now: ModuleSummary, limits: Mapping[str, Any]) -> list[str]:
        """A sentence for each limit that a later summary, `now`, exceeds, or whose measure is not known. limits: value
        by name. Raises InvalidArgumentError for a name or a value that is no limit.
        """
        found: list[str] = []
        for name, limit in limits.items():
            if name == "same":
                if limit and now.fingerprint != self.fingerprint:
                    found.append(f"same: {self._changes(now)}")
                continue
            condition = _condition(name, limit, {**now.measures, **self.measures})
            before, after = self.measures.get(condition.measure), now.measures.get(condition.measure)
            if before is None or after is None:
                found.append(f"{name}={limit!r}: {condition.measure} is not known")
                continue
            unit = "bytes" if "bytes" in condition.measure else ""
            reason = condition.reason_of(Measure(condition.measure, unit, before, after))
            if reason is not None:
                found.append(f"{name}={limit!r}: {reason.partition(': ')[2]}")
        return found

    def _changes(self, now: ModuleSummary) -> str:
        """The numbers that differ in a later summary, as text."""
        names = sorted(
            {*self.opcodes, *now.opcodes}, key=lambda name: -abs(now.opcodes.get(name, 0) - self.opcodes.get(name, 0))
        )
        changed = [
            f"{name} {self.opcodes.get(name, 0)} → {now.opcodes.get(name, 0)}"
            for name in names
            if self.opcodes.get(name) != now.opcodes.get(name)
        ]
        changed += [
            f"{name} {before:,} → {after:,}"
            for name, before in self.measures.items()
            if before is not None and (after := now.measures.get(name)) not in (before, None)
        ]
        more = f", and {len(changed) - _MOST_OPCODES} more" if len(changed) > _MOST_OPCODES else ""
        return (", ".join(changed[:_MOST_OPCODES]) or "the same numbers, in another program") + more


def _condition(name: str, limit: Any, measures: Mapping[str, Any]) -> GateCondition:
    """The condition that holds where a limit, such as `new_copies=0` or `peak="+2%"`, is exceeded."""
    wanted = name.removeprefix("new_")
    by_name = {each.replace(".", "_"): each for each in measures} | _OTHER_NAMES
    measure = by_name.get(wanted)
    if measure is None:
        known = [*by_name, *[f"new_{each}" for each in by_name if "bytes" not in each], "same"]
        raise InvalidArgumentError(
            f"there is no limit {name!r}; there are {', '.join(sorted(known))}{did_you_mean(name, known)}", field=name
        )
    text = str(limit).strip().lstrip("+")
    if isinstance(limit, bool) or not isinstance(limit, (int, float, str)):
        raise InvalidArgumentError(f"{name} is a number, or text such as '+2%' or '+1MiB', not {limit!r}", field=name)
    return GateCondition(f"{measure} > {text}", measure, ">", amount_of(text, name), text.endswith("%"))


def read_summaries(path: Path) -> dict[str, ModuleSummary]:
    """The summaries of a file by the names of tests; none where there is no file. Raises InvalidArgumentError for a
    file of other content.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise InvalidArgumentError(f"{path} is not JSON: {error}", field="summary") from None
    if not isinstance(value, dict):
        raise InvalidArgumentError(f"{path} is no object of summaries", field="summary")
    return {
        name: ModuleSummary.of_dict(each, f"{path}: {name!r}") for name, each in cast("dict[str, Any]", value).items()
    }


def write_summaries(path: Path, summaries: Mapping[str, ModuleSummary]) -> None:
    """Writes a file of summaries, in the place of an earlier one. summaries: by the names of tests."""
    document = {name: summary._asdict() for name, summary in sorted(summaries.items())}
    data = json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"

    def write(file: BinaryIO) -> None:
        file.write(data)

    replace_file(path, write)
