"""Limits for changes, as conditions such as `copies.bytes > 1MiB` and `peak_bytes > 2%`. A gate in continuous
integration (`xlashape diff --fail-if CONDITION`) fails where one of its conditions holds.

    condition := measure sign amount
    measure   := a name of the table `measures` of diff: copies, copies.bytes, peak_bytes, …; or `changes`, the number
              of changes
    sign      := '>' | '>=' | '<' | '<=' | '=' | '==' | '!='
    amount    := a number, with KiB, MiB, GiB, TiB, k, M, G or T behind it; or per cent of what the first module has

The value that is compared is the number of the second module less that of the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, NamedTuple

from xlashape.base.math import counted
from xlashape.errors import InvalidArgumentError
from xlashape.reports.diff.compare import Measure, measure_of
from xlashape.reports.selection import amount_of
from xlashape.reports.text import short_bytes

_CONDITION: Final = re.compile(r"([A-Za-z_][\w.]*)\s*(>=|<=|!=|==|=|>|<)\s*(\S.*)")
_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    ">": gt,
    ">=": ge,
    "<": lt,
    "<=": le,
    "=": eq,
    "==": eq,
    "!=": ne,
}


class GateCondition(NamedTuple):
    """A condition for how a measure changes."""

    text: str
    """The condition as it was written."""
    measure: str
    sign: str
    amount: float
    """How much larger the number of the second module is; a fraction where `is_share`."""
    is_share: bool
    """Whether the amount is a fraction of the number of the first module."""

    @classmethod
    def parse(cls, text: str) -> GateCondition:
        """The condition that is written as `text`. Raises InvalidArgumentError for text that is no condition.

        >>> GateCondition.parse("peak_bytes > 2%").amount
        0.02
        """
        match = _CONDITION.fullmatch(text.strip())
        if match is None:
            raise InvalidArgumentError(
                f"expected a condition such as 'copies.bytes > 1MiB', found {text[:60]!r}", field="--fail-if"
            )
        amount = match[3].lstrip("+")
        return cls(text.strip(), match[1], match[2], amount_of(amount, "--fail-if"), amount.endswith("%"))

    def reason(self, found: Any) -> str | None:
        """Why the condition holds for a Diff, or for the answer of a server (`found`), in a sentence; None where it
        does not hold, or the measure is not known.

        Raises InvalidArgumentError for a measure that does not exist.
        """
        return self.reason_of(self._measure_of(found))

    def is_known(self, found: Any) -> bool:
        """Whether the measure is known for both modules. Raises InvalidArgumentError for a measure that does not
        exist."""
        return self.measure == "changes" or self._measure_of(found).delta is not None

    def _measure_of(self, found: Any) -> Measure:
        try:
            return _changes(found) if self.measure == "changes" else measure_of(found, self.measure)
        except InvalidArgumentError as error:
            raise error.within("--fail-if") from None

    def reason_of(self, measure: Measure) -> str | None:
        """As `reason`, given the measure that the condition is about."""
        if measure.a is None or measure.b is None:
            return None
        delta = measure.b - measure.a
        value: float = delta
        if self.is_share:
            value = delta / measure.a if measure.a else delta * float("inf") if delta else 0.0
        if not _COMPARE[self.sign](value, self.amount):
            return None
        return f"{self.text}: {_told(measure, delta)}"


def _changes(found: Any) -> Measure:
    """The number of changes, as a measure that is 0 for the first module."""
    return Measure("changes", "", 0, sum([change.times for change in found.changes]))


def _told(measure: Measure, delta: int) -> str:
    """The numbers of a measure as text, such as `copies 2 → 3 (+1, +50.0%)`."""
    assert measure.a is not None and measure.b is not None
    if measure.name == "changes":
        return counted(delta, "change")
    amounts = [
        short_bytes(each) if measure.unit == "bytes" else f"{each:,}" for each in (measure.a, measure.b, abs(delta))
    ]
    share = f", {100 * delta / measure.a:+.1f}%" if measure.a else ""
    share += f"; {measure.note}" if measure.note else ""
    return f"{measure.name} {amounts[0]} → {amounts[1]} ({'+' if delta >= 0 else '-'}{amounts[2]}{share})"


def reasons(found: Any, conditions: Iterable[GateCondition]) -> list[str]:
    """For each condition that holds for a Diff or the answer of a server (`found`), a sentence that says why."""
    return [reason for condition in conditions if (reason := condition.reason(found)) is not None]
