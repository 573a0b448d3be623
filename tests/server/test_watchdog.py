"""Workers that are stopped by a signal or hang, a server that stops while they do, the signals of a terminal, and the
files that a killed server leaves."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from bound_processes import start_code
from server_processes import SERVE, ServerProcess, children, wait_until

from xlashape.errors import UnavailableError
from xlashape_client import Client
from xlashape_server import Config

SHAPE = "f32[3,5]{1,0:T(2,2)}"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, which only Linux has")


def test_a_stopped_worker_is_replaced() -> None:
    with ServerProcess(Config(address="127.0.0.1:0", workers=2)) as server:
        workers = children(server.process.pid)
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGSTOP)
        wait_until(lambda: workers[0] not in children(server.process.pid), 20)
        wait_until(lambda: len(children(server.process.pid)) == 2)
        [line] = server.logged("has given no sign of life")
        assert line["level"] == "error"
        assert f"process {workers[0]}" in line["message"]
        for _ in range(8):
            with Client(server.address, timeout=20) as client:
                assert client.linear_index(SHAPE, (2, 3)) == 17
        assert server.stop() == 0


def test_time_in_which_the_server_itself_did_not_run_does_not_count() -> None:
    with ServerProcess(Config(address="127.0.0.1:0", workers=1, watchdog_seconds=1.5)) as server:
        workers = children(server.process.pid)
        for pid in (server.process.pid, *workers):
            os.kill(pid, signal.SIGSTOP)
        time.sleep(2.5)
        for pid in (server.process.pid, *workers):
            os.kill(pid, signal.SIGCONT)
        with Client(server.address, timeout=20) as client:
            assert client.linear_index(SHAPE, (2, 3)) == 17
        time.sleep(0.5)
        assert children(server.process.pid) == workers
        assert server.stop() == 0


def test_a_stopped_worker_does_not_delay_the_end() -> None:
    with ServerProcess(Config(address="127.0.0.1:0", workers=2, watchdog_seconds=0, grace_seconds=600)) as server:
        os.kill(children(server.process.pid)[0], signal.SIGSTOP)
        server.process.terminate()
        assert server.process.wait(30) == 0


def test_workers_answer_while_the_server_is_stopped() -> None:
    with ServerProcess(Config(address="127.0.0.1:0", workers=2)) as server:
        os.kill(server.process.pid, signal.SIGSTOP)
        try:
            for _ in range(8):
                with Client(server.address, timeout=20) as client:
                    assert client.linear_index(SHAPE, (2, 3)) == 17
        finally:
            os.kill(server.process.pid, signal.SIGCONT)
        assert server.stop() == 0


def scratch_directories(path: Path) -> list[str]:
    return [each.name for each in path.iterdir() if each.name.startswith("xlashape-")]


@pytest.mark.parametrize("group", [False, True], ids=["to the server", "to its workers too"])
def test_a_hangup_has_the_settings_read_again(tmp_path: Path, group: bool) -> None:
    file = tmp_path / "xlashape.toml"
    file.write_text('address = "127.0.0.1:0"\nworkers = 1\nlog_level = "warning"\n')

    def heed() -> None:  # under nohup, a child ignores the signal as the tests do
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    command = [sys.executable, "-m", "xlashape", "serve", "--config", str(file)]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True, preexec_fn=heed
        ) as server,
    ):
        try:
            assert server.stdout is not None
            address = json.loads(server.stdout.readline())["address"]

            def lines(text: str) -> list[dict[str, Any]]:
                # The last line may be written at this moment. The core of gRPC in this process, which is forked for
                # `heed`, may write a line of its own there.
                whole = (tmp_path / "log").read_text().rpartition("\n")[0]
                found = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
                return [line for line in found if text in line["message"]]

            def ask() -> bool:
                with Client(address, timeout=20) as client, contextlib.suppress(UnavailableError):
                    return client.linear_index(SHAPE, (2, 3)) == 17
                return False  # the worker starts again

            assert ask()
            assert lines("call") == []
            file.write_text(file.read_text().replace("warning", "debug").replace("workers = 1", "workers = 2"))
            (os.killpg if group else os.kill)(server.pid, signal.SIGHUP)
            wait_until(lambda: ask() and bool(lines("call")))
            assert [line["level"] for line in lines("need a restart: workers")] == ["warning"]
            file.write_text("log_level = 'loud'")
            os.kill(server.pid, signal.SIGHUP)
            wait_until(lambda: bool(lines("the settings cannot be used")))
            [worker] = children(server.pid)
            os.kill(worker, signal.SIGKILL)
            wait_until(lambda: children(server.pid) not in ([], [worker]))
            before = len(lines("call"))
            wait_until(lambda: ask() and len(lines("call")) > before)  # the next worker has the level too
            server.terminate()
            assert server.wait(30) == 0
        finally:
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGKILL)


@pytest.mark.parametrize("seconds", [0.2, 0.4, 0.7, 1.0, 1.5])
def test_a_start_that_is_told_to_stop_ends_soon_and_serves_nothing(seconds: float) -> None:
    config = Config(address="127.0.0.1:0", workers=4)
    started = start_code(SERVE, json.dumps(asdict(config)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    is_serving = bool(select.select([started.stdout], [], [], 0)[0])
    started.terminate()
    began = time.monotonic()
    out, _ = started.communicate(timeout=30)
    assert is_serving or time.monotonic() - began < 2
    assert is_serving == bool(out)
    assert started.returncode in (0, -signal.SIGTERM)  # SIGTERM ends a process that is still importing


def test_an_ignored_hangup_stays_ignored() -> None:
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with ServerProcess(Config(address="127.0.0.1:0", workers=1), preexec_fn=ignore) as server:
        os.killpg(server.process.pid, signal.SIGHUP)
        with Client(server.address, timeout=20) as client:
            assert client.linear_index(SHAPE, (2, 3)) == 17
        assert server.stop() == 0


def test_a_worker_that_is_killed_again_and_again_is_soon_back() -> None:
    """The pauses before a worker is started again are short: the server is back to normal within five seconds."""
    with ServerProcess(Config(address="127.0.0.1:0", workers=1)) as server:
        for _ in range(7):
            wait_until(lambda: len(children(server.process.pid)) == 1)
            os.kill(children(server.process.pid)[0], signal.SIGKILL)
            wait_until(lambda: not children(server.process.pid))
        wait_until(lambda: len(server.logged("starting it again in")) == 7)
        pauses = [float(line["message"].split()[-2]) for line in server.logged("starting it again in")]
        assert pauses == sorted(pauses)
        assert pauses[0] < 1
        assert pauses[-1] <= 2
