"""Writes tests/vectors/copies.jsonl.gz: for each program of moving_programs.py the module that XLA's CPU compiler makes
of it, the dumps after passes, and for each suggestion of `xlashape.reports.copies` the module that the compiler makes
of the program with that suggestion.

    XLA_FLAGS= python tests/support/collect_copies.py            # beside the newest JAX, from the project's root

A line is an object: `name`; `optimized`, the file name and text of the compiled module; `dumps`, the texts after passes
by file name; `edited`, a list with the `edits` of a suggestion and the `text` of the module with them.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).parent
VECTORS = HERE.parent / "vectors" / "copies.jsonl.gz"


def main() -> None:
    """Compiles all programs, each with its edits, and writes the file."""
    with TemporaryDirectory() as directory:
        os.environ["JAX_PLATFORMS"] = "cpu"
        os.environ["XLA_FLAGS"] = f"--xla_dump_to={directory} --xla_dump_hlo_pass_re=.* --xla_dump_hlo_as_text"
        sys.path[:0] = [str(HERE), str(HERE.parent.parent)]
        lines = "".join([json.dumps(row) + "\n" for row in _rows(Path(directory))])
    VECTORS.write_bytes(gzip.compress(lines.encode(), mtime=0))


def _rows(directory: Path) -> Iterator[dict[str, Any]]:
    from moving_programs import programs  # JAX reads the environment when it is imported

    from xlashape.reports.copies import copies

    for program in programs():
        found = copies(program.compile())
        dumps = {
            path.name: _text(path) for path in sorted(directory.glob(f"module_*.jit_{program.name}.*.after_*.txt"))
        }
        (optimized,) = directory.glob(f"module_*.jit_{program.name}.cpu_after_optimizations.txt")
        row = {"name": program.name, "optimized": [optimized.name, _text(optimized)], "dumps": dumps}
        row["edited"] = [
            {"edits": each.edits, "text": _plain(program.edited(each.edits).compile().as_text())}
            for each in found.suggestions
        ]
        for path in directory.iterdir():
            if path.is_file():
                path.unlink()
        yield row


def _text(path: Path) -> str:
    return _plain(path.read_text())


def _plain(text: str) -> str:
    """The text without the path of this machine's folder of programs."""
    return text.replace(f"{HERE}/", "")


if __name__ == "__main__":
    main()
