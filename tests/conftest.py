"""How many processes run the tests, and the compiled schema that they need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def pytest_configure(config: pytest.Config) -> None:
    """Compiles the schema again if a .proto is newer than it; once, not in each worker."""
    compiled = ROOT / "xlashape" / "proto" / "schema.binpb"
    if hasattr(config, "workerinput") or not compiled.exists():
        return
    if any(path.stat().st_mtime > compiled.stat().st_mtime for path in (ROOT / "protos").rglob("*.proto")):
        subprocess.run([sys.executable, str(ROOT / "protos" / "schema_compiler.py")], check=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """No workers for single files or tests: to start the workers would take longer than most of these. `-n 2` asks for workers."""
    arguments = config.args
    if arguments and all(argument.endswith(".py") or "::" in argument for argument in arguments):
        return 0
    return None
