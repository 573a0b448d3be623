"""Servers whose address is a unix socket (`unix:PATH`)."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from xlashape.errors import InvalidArgumentError, UnavailableError
from xlashape_client import Client
from xlashape_server import Config, Server


@pytest.fixture(params=[0o177, 0o117])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_a_server_answers_at_a_path_with_the_permissions_of_its_umask(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "xlashape.sock"
    with Server(Config(address=f"unix:{path}")) as server:
        assert server.address == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o777 & ~umask
        with Client(server.address, timeout=20) as client:
            assert client.linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3)) == 17
    assert not path.exists()


def test_the_socket_of_a_killed_server_is_replaced(tmp_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "left"))
    left.close()
    with Server(Config(address=f"unix:{tmp_path}/left")) as server, Client(server.address, timeout=20) as client:
        assert client.linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3)) == 17


@pytest.mark.parametrize("name", ["file", "x" * 200])
def test_a_path_that_cannot_be_a_socket_is_told_and_no_file_is_replaced(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(UnavailableError, match="cannot listen on unix:"):
        Server(Config(address=f"unix:{tmp_path}/{name}", log_level="error")).start()
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"address": "unix:"}, "expected HOST:PORT or unix:PATH"),
        ({"address": "unix:/s", "workers": 2}, "workers: processes cannot share"),
    ],
    ids=str,
)
def test_wrong_settings(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Config(**wrong)
