"""Programs with the dumps that XLA wrote after its passes, and what executing them, and changed forms of them, showed.

`tests/vectors/equivalent` has the text dumps of each program by jaxlib 0.12.0.1 for CPU; those with the number of a
thread in their name were compiled by the jaxlib that computes them wrong. `reference.jsonl` says what execution by
jaxlib's CPU client showed:

- `evaluate`: `values.npz` has inputs and results under `KEY.in0`, …, `KEY.out0`, …
- `mutant`: line `line` of `base` (from 0) changed to `new`. Beside the file before all passes it `differs` (`where`: on
  ordinary inputs, or only for particular integers) or is the `same`.
- `spmd`: the first and the last file of a partitioned program compute the same on `devices` devices.
- `historic`: the stage from which on the result is wrong, and its pass; `inputs`, and the `right` outputs by NumPy and
  the `wrong` ones by jaxlib (`tests/proof/historic.py`). `pair`: two modules and the verdict on them.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "vectors" / "equivalent"


@cache
def rows(what: str) -> list[dict[str, Any]]:
    lines = (FOLDER / "reference.jsonl").read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["what"] == what]


@cache
def texts(program: str) -> dict[str, str]:
    """The dumps in the order of the passes."""
    with tarfile.open(FOLDER / f"{program}.tar.xz") as archive:
        found = {
            Path(member.name).name: io.TextIOWrapper(archive.extractfile(member), "utf-8").read()  # type: ignore[arg-type]
            for member in archive
            if member.isfile()
        }

    def order(name: str) -> tuple[int, str]:
        number = re.search(r"\.(\d{4})\.", name)
        return (int(number[1]) if number else -1 if "before_optimizations" in name else 10_000, name)

    return {name: found[name] for name in sorted(found, key=order)}


def before(program: str) -> str:
    return next(iter(texts(program).values()))


def after(program: str) -> str:
    return next(reversed(texts(program).values()))


def mutated(row: dict[str, Any]) -> str:
    lines = texts(row["program"])[row["base"]].split("\n")
    assert lines[row["line"]] == row["old"]
    lines[row["line"]] = row["new"]
    return "\n".join(lines)


PROGRAMS = sorted(path.name.removesuffix(".tar.xz") for path in FOLDER.glob("*.tar.xz"))
