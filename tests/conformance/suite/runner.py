"""Runs the cases of a language over its transports, and compares the failed cases with those that are known to fail."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from suite.cases import Case
from suite.driven import Testee, TesteeEnded
from suite.languages import Language
from suite.server import Servers

__all__ = ["KnownFailing", "Outcome", "run"]

_CASE_SECONDS = 120.0
_MAX_ENDS = 5  # ends of the testee, after which all other cases count as failed
_KNOWN = Path(__file__).resolve().parents[1] / "known_failing"


class KnownFailing:
    """The lines of known_failing/LANGUAGE.txt: `NAME  # reason`, or `TRANSPORT: NAME  # reason` for one transport.

    NAME is the name of a case, or a pattern with `*`. Every case that it matches must fail: one that passes fails the
    run. ValueError for a line without a reason.
    """

    def __init__(self, language: str) -> None:
        self._lines: list[tuple[str, str, str]] = []  # transport or an empty string; pattern; line
        path = _KNOWN / f"{language}.txt"
        for line in path.read_text().splitlines() if path.exists() else ():
            text, sign, reason = line.partition("#")
            if not text.strip():
                continue
            if not sign or not reason.strip():
                raise ValueError(f"{path.name}: {line!r}: expected a reason after a #")
            transport, colon, pattern = text.strip().partition(": ")
            self._lines.append((transport if colon else "", (pattern if colon else text).strip(), line.strip()))

    def line_for(self, transport: str, name: str) -> str | None:
        """The line that lists a case; None if none does."""
        for only, pattern, line in self._lines:
            if only in ("", transport) and fnmatch.fnmatchcase(name, pattern):
                return line
        return None

    def unused(self, transports: Sequence[str], names: Sequence[str]) -> list[str]:
        """The lines that no case matches."""
        return [
            line
            for only, pattern, line in self._lines
            if only in ("", *transports) and not fnmatch.filter(names, pattern)
        ]


class Outcome(NamedTuple):
    """The results of one language over one transport."""

    passed: int
    known: int
    """Cases that failed and are known to fail."""
    failed: dict[str, list[str]]
    """Name of a case → the mistake, for cases that failed and are not known to fail."""
    surprises: list[str]
    """Names of cases that passed and are known to fail."""
    seconds: float
    below: int
    """Cases whose calls were made below the client's public methods."""


def run(language: Language, transport: str, servers: Servers, cases: Sequence[Case], known: KnownFailing) -> Outcome:
    """Runs `cases` in order. A testee that ends is started again."""
    began = time.monotonic()
    wrong: dict[str, list[str]] = {}
    left, ends, below = list(cases), 0, 0
    while left and ends < _MAX_ENDS:
        with Testee(language) as driven:
            try:
                connected_to: str | None = None
                while left:
                    which = left[0].data.get("server", "")
                    if which != connected_to:
                        _start(driven, servers.start(which))
                        connected_to = which
                    problems, is_below = _problems(driven, left[0], servers)
                    below += is_below
                    if problems:
                        wrong[left[0].name] = problems
                    left.pop(0)
            except TesteeEnded as error:
                ends += 1
                wrong[left.pop(0).name] = [str(error)]
    wrong.update((case.name, ["not run: the testee ended too often"]) for case in left)
    listed = {case.name for case in cases if known.line_for(transport, case.name)}
    return Outcome(
        passed=len(cases) - len(wrong),
        known=len(wrong.keys() & listed),
        failed={name: problems for name, problems in wrong.items() if name not in listed},
        surprises=sorted(listed - wrong.keys()),
        seconds=time.monotonic() - began,
        below=below,
    )


def _start(driven: Testee, start: Any) -> None:
    response = driven.ask(start, _CASE_SECONDS)
    if response.failure or response.unsupported or response.HasField("error"):
        raise TesteeEnded(f"the testee did not start: {' '.join(str(response).split())}")


def _problems(driven: Testee, case: Case, servers: Servers) -> tuple[list[str], bool]:
    if "stored" in case.data:
        servers.make_stored(case.data["stored"])
    began = time.monotonic()
    response = driven.ask(case.request(), _CASE_SECONDS)
    problems = case.problems(response, servers.transport)
    took_ms = 1000 * (time.monotonic() - began)
    if took_ms > case.data.get("within_ms", took_ms):
        problems.append(f"it took {took_ms:.0f} ms, more than {case.data['within_ms']}")
    return problems, response.below
