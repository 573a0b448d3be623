"""What is built of server/page is what is committed in server/xlashape_server/page, and it is small."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "server" / "page"
BUILT = ROOT / "server" / "xlashape_server" / "page"
MOST_BYTES = 400_000
"""Of all files together, compressed."""


def _run(*command: str) -> None:
    made = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, timeout=600, check=False)
    assert made.returncode == 0, made.stdout + made.stderr


@pytest.mark.usefixtures("packages")
def test_committed_files_are_those_of_the_sources(tmp_path: Path) -> None:
    _run("npm", "run", "--silent", "build", "--", f"--outdir={tmp_path}")
    built = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    committed = {path.name: path.read_bytes() for path in BUILT.iterdir()}
    assert sorted(built) == sorted(committed)
    different = [name for name, data in built.items() if committed[name] != data]
    assert not different, "run `npm ci && npm run build` in server/page"


@pytest.mark.usefixtures("packages")
def test_types_and_functions() -> None:
    _run("npm", "test", "--silent")


def test_size() -> None:
    sizes = {path.name: len(gzip.compress(path.read_bytes(), 9)) for path in BUILT.iterdir()}
    assert sum(sizes.values()) < MOST_BYTES, sizes
