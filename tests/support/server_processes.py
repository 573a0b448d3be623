"""Servers in processes of their own, and what the operating system reports about their processes."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bound_processes import start_code

from xlashape_server import Config

SERVE = "import json, sys; from xlashape_server import *; sys.exit(serve(Config(**json.loads(sys.argv[1]))))"


def wait_until(holds: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to be in time"
        time.sleep(0.02)


class ServerProcess:
    """A process that runs `serve`, and ends when this process does. `event` is the line of JSON that it announced
    itself with, `lines()` its log so far.
    """

    def __init__(self, config: Config, **popen: Any) -> None:
        self.process = start_code(
            SERVE,
            json.dumps(asdict(config)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            **popen,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._log: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(20)
            self._reader.join(20)
        self.event: dict[str, Any] = json.loads(line or "{}")

    @property
    def address(self) -> str:
        return self.event["address"]

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.put(line)

    def raw_lines(self) -> list[str]:
        found = []
        while not self._lines.empty():
            found.append(self._lines.get())
        return found

    def lines(self) -> list[dict[str, Any]]:
        """The lines of the log, each of which has to be JSON."""
        self._log += [json.loads(line) for line in self.raw_lines()]
        return self._log

    def logged(self, text: str) -> list[dict[str, Any]]:
        return [line for line in self.lines() if text in line["message"]]

    def stop(self) -> int:
        self.process.terminate()
        code = self.process.wait(40)
        self._reader.join(20)
        return code

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)  # the workers too, which may write files until they end
        self.process.wait(20)


def children(pid: int) -> list[int]:
    """The processes that a process started, and that still run."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has ended since
            found += [int(each) for each in (task / "children").read_text().split()]
    return sorted(found)


def connections(pids: list[int], port: int) -> dict[int, int]:
    """How many open connections to a TCP port each process has, as Linux reports them."""
    found = dict.fromkeys(pids, 0)
    inodes = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "01" and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    for pid in pids:
        for each in Path(f"/proc/{pid}/fd").iterdir():
            try:
                found[pid] += str(each.readlink()) in inodes
            except OSError:
                continue
    return found
