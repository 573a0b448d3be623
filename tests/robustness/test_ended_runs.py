"""A run that is ended takes all that it has started with it: servers, observers and attackers."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_processes import children, wait_until

from xlashape.base.extras import require

require("server", "the harness")

RUN = Path(__file__).resolve().with_name("run.py")
STARTER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from bound_processes import start_code
started = start_code("import time; print('runs', flush=True); time.sleep(600)")
print(started.pid, flush=True)
started.wait()
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the harness reads /proc, which only Linux has")


def below(pid: int) -> list[int]:
    """The child processes of a process, and their children in turn."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for each in children(pid):
            found += [each, *below(each)]
    return found


def command(pid: int) -> str:
    """The command line of a process; empty if it has ended, even if it is still a zombie."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A run in the middle of an attack, and all processes below it."""
    arguments = ["--transport", "plain", "--faults", "flood", "--hold", "100"]
    process = subprocess.Popen(
        [sys.executable, str(RUN), *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        wait_until(lambda: any("attacks.py" in command(each) for each in below(process.pid)), 120)
        yield process, below(process.pid)
    finally:
        process.kill()
        process.wait()
        for disk in tmp_path.glob("*/disk"):
            subprocess.run(["umount", "--lazy", str(disk)], check=False, capture_output=True)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def test_nothing_outlives_a_run(
    attacked: tuple[subprocess.Popen[bytes], list[int]], number: signal.Signals, tmp_path: Path
) -> None:
    process, started = attacked
    told = " ".join(map(command, started))
    for name in ("prober.py", "attacks.py flood", "serve(Config", "worker"):
        assert name in told
    process.send_signal(number)
    process.wait(60)
    wait_until(lambda: not any(map(command, started)), 60)
    if number != signal.SIGKILL:
        assert process.returncode == -signal.SIGINT  # as after Ctrl-C
        assert [*tmp_path.iterdir()] == []


def test_a_process_that_is_stopped_ends_too() -> None:
    """One of the faults stops the main process of the server, so a run may have to end a stopped process."""
    support = RUN.parents[1] / "support"
    with subprocess.Popen([sys.executable, "-c", STARTER, str(support)], stdout=subprocess.PIPE, text=True) as starter:
        try:
            assert starter.stdout is not None
            told = {starter.stdout.readline().strip(), starter.stdout.readline().strip()}
        finally:
            [started] = children(starter.pid)
            os.kill(started, signal.SIGSTOP)
            starter.kill()
    assert told == {"runs", str(started)}
    try:
        wait_until(lambda: not command(started), 20)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(started, signal.SIGKILL)
