"""Servers whose clock steps while they run: the validity of certificates follows the clock, while waits do not."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from certificates import copied, make_authority, make_certificate, served_certificate
from optional import without
from server_processes import ServerProcess, wait_until
from stepped_clock import SteppedClock

from xlashape.errors import UnavailableError
from xlashape_client import Client
from xlashape_server import Config

TILED = "f32[3,5]{1,0:T(2,2)}"
HOUR, DAY = 3600, 86_400
STEPS = (HOUR, 0, -HOUR, 0)


@pytest.fixture
def clock(tmp_path: Path) -> SteppedClock:
    try:
        return SteppedClock(tmp_path)
    except (OSError, subprocess.CalledProcessError) as error:
        without(f"no clock that steps can be built: {error}")


def served(clock: SteppedClock, **settings: str) -> ServerProcess:
    return ServerProcess(Config(address="127.0.0.1:0", workers=1, log_level="info", **settings), env=clock.environment)


def is_refused(ask: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        ask()


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    if shutil.which("openssl") is None:
        without("openssl is not installed")
    make_authority(tmp_path, days=100)
    for name, days in (("server", 100), ("another", 100), ("client", 2), ("later", 50)):
        make_certificate(tmp_path, name, days)
    return tmp_path


def test_a_certificate_of_a_caller_expires_when_the_clock_steps_ahead(authority: Path, clock: SteppedClock) -> None:
    folder = authority / "served"
    folder.mkdir()
    copied(authority, folder, "server.pem", "server.key")
    root = authority / "ca.pem"

    def calls(name: str) -> int:
        pair = {
            "private_key": (authority / f"{name}.key").read_bytes(),
            "certificate_chain": (authority / f"{name}.pem").read_bytes(),
        }
        with Client(server.address, timeout=3, root_certificates=root.read_bytes(), **pair) as client:
            return client.linear_index(TILED, (2, 3))

    def shown() -> str:
        return served_certificate(server.address, root, authority / "later.pem", authority / "later.key")

    settings = {
        "tls_certificate": str(folder / "server.pem"),
        "tls_key": str(folder / "server.key"),
        "tls_client_ca": str(root),
    }
    with served(clock, **settings) as server:
        for step in (0, 5 * DAY, 0, -DAY, 0):
            clock.step(step)
            if step:  # the first certificate has expired, or both are not valid yet
                is_refused(lambda: calls("client"), UnavailableError, "[Hh]andshake|[Ss]ocket closed|[Cc]onnection")
            else:
                assert calls("client") == 17
            if step >= 0:
                assert calls("later") == 17
        # The server's own certificate is read again, wherever its clock is.
        clock.step(5 * DAY)
        assert shown() == "server"
        copied(authority, folder, "another.pem", "another.key")
        wait_until(lambda: shown() == "another")
        clock.step(0)
        copied(authority, folder, "server.pem", "server.key")
        wait_until(lambda: shown() == "server")
        assert calls("client") == 17
