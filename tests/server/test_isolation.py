"""Servers and the demo in a directory full of modules that would break or hijack them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from xlashape.base.extras import require

require("server", "a server")

# Names of modules that the server, its workers or their imports would find first in the current directory.
HOSTILE = (
    "numpy grpc google xlashape xlashape_server xlashape_client click json logging signal socket typing random "
    "dataclasses "
    "sitecustomize usercustomize config logs store worker grpc_health grpc_reflection ml_dtypes cygrpc"
).split()

# The console script: the first entry of the path of imports is the folder of the script.
SCRIPT = "import sys; from xlashape.cli import main; sys.exit(main())\n"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    folder = tmp_path / "hostile"
    folder.mkdir()
    attack = f"import pathlib; pathlib.Path({str(folder / 'hijacked')!r}).touch(); raise SystemExit('hijacked')\n"
    for name in HOSTILE:
        (folder / f"{name}.py").write_text(attack)
    for name in ("xlashape", "xlashape_server", "google", "grpc"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(attack)
    scripts = tmp_path / "bin"
    scripts.mkdir()
    (scripts / "xlashape").write_text(SCRIPT)
    return folder


def started(hostile: Path, *arguments: str) -> subprocess.Popen[str]:
    script = str(hostile.parent / "bin" / "xlashape")
    return subprocess.Popen(
        [sys.executable, script, *arguments],
        cwd=hostile,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )


def test_the_demo(hostile: Path) -> None:
    out, err = started(hostile, "demo").communicate(timeout=120)
    assert "The server has stopped." in out, err
    assert not (hostile / "hijacked").exists()


def test_serve(hostile: Path) -> None:
    process = started(hostile, "serve", "--address", "127.0.0.1:0", "--workers", "1")
    assert process.stdout is not None
    line = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert '"serving"' in line, err
    assert process.returncode == 0
    assert not (hostile / "hijacked").exists()
