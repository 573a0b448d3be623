"""Connections that are silent cost little, and have a bound; other callers are answered."""

from __future__ import annotations

import resource
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.certificates import make_authority, make_certificate
from xlashape_server import Config, Server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address and no /proc")

ALLOWED = 256
FAST = "127.0.0.2"


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Server]:
    """A server that no other test has connections to: those that have just ended count for a moment."""
    folder = tmp_path
    make_authority(folder)
    make_certificate(folder, "server")
    config = Config(
        address="127.0.0.1:0",
        http="127.0.0.1:0",
        workers=1,
        max_connections=ALLOWED,
        tls_certificate=str(folder / "server.pem"),
        tls_key=str(folder / "server.key"),
        log_level="error",
    )
    with Server(config) as running:
        yield running


def connected(address: str, source: str, count: int, stack: ExitStack) -> list[socket.socket]:
    host, _, port = address.rpartition(":")
    made = [socket.create_connection((host, int(port)), source_address=(source, 0)) for _ in range(count)]
    for each in made:
        stack.callback(each.close)
    return made


def open_ones(connections: list[socket.socket]) -> list[socket.socket]:
    """The connections that the server has not closed."""
    found: list[socket.socket] = []
    for each in connections:
        readable = select.select([each], [], [], 0)[0]
        try:
            if not readable or each.recv(1 << 16):
                found.append(each)
        except OSError:
            pass
    return found


def test_silent_connections_under_tls_cost_little(secured: Server) -> None:
    """Before this was fixed, a silent connection over HTTP took 270 KB."""

    def resident() -> int:
        return int(Path(f"/proc/{secured.worker_pids[0]}/statm").read_text().split()[1]) * resource.getpagesize()

    with ExitStack() as stack:
        before = resident()
        for address in (secured.address, secured.http_address):
            for source in (FAST, "127.0.0.3"):
                connected(address, source, 190, stack)
        time.sleep(1)
        assert resident() - before < 760 * (50 << 10)


def test_handshakes_that_do_not_end_have_a_bound(secured: Server) -> None:
    """One byte begins a handshake, for which TLS takes its memory."""
    with ExitStack() as stack:
        made = connected(secured.http_address, FAST, 400, stack)
        for each in made:
            each.send(b"\x16")
        end = time.monotonic() + 5
        while len(made) > ALLOWED and time.monotonic() < end:
            time.sleep(0.1)
            made = open_ones(made)
        assert 0 < len(made) <= ALLOWED


def test_connections_that_ended_do_not_count(secured: Server) -> None:
    """Python's collector alone frees some of them."""
    for _ in range(3):
        with ExitStack() as stack:
            for each in connected(secured.http_address, FAST, ALLOWED, stack):
                each.send(b"\x16")
        end = time.monotonic() + 10
        while time.monotonic() < end:
            time.sleep(0.2)
            with ExitStack() as stack:
                (one,) = connected(secured.http_address, FAST, 1, stack)
                one.send(b"\x16")
                time.sleep(0.2)
                if open_ones([one]):
                    break
        else:
            raise AssertionError("a new connection is refused though all others have ended")


def test_the_server_takes_as_many_descriptors_as_it_may() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    code = """
import resource, sys
from pathlib import Path
hard = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
from xlashape_server import Config, Server
with Server(Config(address="127.0.0.1:0", workers=1, log_level="error")) as server:
    limits = Path(f"/proc/{server.worker_pids[0]}/limits").read_text()
    print(next(line for line in limits.splitlines() if line.startswith("Max open files")).split()[3])
"""
    hard = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
    done = subprocess.run([sys.executable, "-c", code, str(hard)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(hard)]
