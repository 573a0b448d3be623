"""Writes the cases of the conformance suite: python tests/conformance/generate.py, after a change of the service's
answers or of the cases."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from generating import indexing, maps, modules, reports, shapes, streams, views

FOLDER = Path(__file__).resolve().parent / "cases"
FILES = {
    "bulk": streams.bulk,
    "connection": streams.connection,
    "indexing": indexing.indexing,
    "maps": maps.maps,
    "modules": modules.modules,
    "reports": reports.reports,
    "shapes": shapes.shapes,
    "views": views.views,
}


def main() -> None:
    for name in sys.argv[1:] or FILES:
        cases = FILES[name]()
        (FOLDER / f"{name}.jsonl").write_text(cases.text())
        print(f"{name}: {len(cases.lines)} cases")


if __name__ == "__main__":
    main()
