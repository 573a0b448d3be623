"""Writes tests/vectors/costs: what XLA's HloCostAnalysis says of single instructions and fusions, and of compiled
programs.

    PYTHONPATH=tests/support python tests/support/collect_costs.py tests/vectors/costs

It needs JAX. The texts of `instructions.jsonl.gz` are kept, and XLA's answers about them are written again; to add a
text, add a line with `name` and `hlo`. `programs.jsonl.gz` is made from the programs in jax_programs.py.
`indexing.json` has FLOPs, transcendentals and bytes for each line of tests/vectors/indexing.jsonl. XLA adds up in
single precision, so the modules are small enough for exact sums.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

import jax
import jax_programs
from jaxlib import _hlo, _jax

NUMBERS = ("flops", "transcendentals", "bytes accessed")


def asked(text: str) -> list[float]:
    """The FLOPs, transcendentals and bytes that XLA's HloCostAnalysis counts for a module in text."""
    found = _jax.hlo_module_cost_analysis(jax.devices()[0].client, _hlo.hlo_module_from_text(text))
    return [found.get(name, 0.0) for name in NUMBERS]


def without_metadata(text: str) -> str:
    """The text of a module without tables of files and frames, and without metadata."""
    header, _, rest = text.partition("\n")
    start = re.search(r"^(?:%|ENTRY)", rest, re.MULTILINE)
    body = rest[start.start() if start else 0 :]
    return header + "\n\n" + re.sub(r", metadata=\{[^{}]*\}", "", body)


def compiled(name: str) -> dict[str, Any]:
    """The row of a program: the module that XLA compiles it to, and the costs that its executable reports."""
    function, arrays = jax_programs.example(name)
    executable = jax.jit(function).lower(*arrays).compile()
    found = executable.cost_analysis()
    return {
        "name": name,
        "hlo": without_metadata(executable.as_text()),
        "cost": [found.get(each, 0.0) for each in NUMBERS],
    }


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Rows as compressed JSON lines, without a time in the file."""
    text = "".join([json.dumps(row) + "\n" for row in rows])
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def main(folder: Path) -> None:
    with gzip.open(folder / "instructions.jsonl.gz", "rt") as kept:
        instructions = [json.loads(line) for line in kept]
    write(folder / "instructions.jsonl.gz", [{**row, "cost": asked(row["hlo"])} for row in instructions])
    with (folder.parent / "indexing.jsonl").open() as lines:
        costs = [asked(json.loads(line)["hlo"]) for line in lines]
    (folder / "indexing.json").write_text(json.dumps(costs, separators=(",", ":")))
    write(folder / "programs.jsonl.gz", [compiled(name) for name in jax_programs.PROGRAMS])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
