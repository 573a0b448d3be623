"""Servers whose address is a unix socket (`unix:PATH`)."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from xlashape.errors import InvalidArgumentError, UnavailableError
from xlashape_client import Client
from xlashape_server import Config, Server


@pytest.mark.parametrize(("mode", "expected"), [("0600", 0o600), ("660", 0o660)])
def test_a_server_answers_at_a_path(tmp_path: Path, mode: str, expected: int) -> None:
    path = tmp_path / "xlashape.sock"
    with Server(Config(address=f"unix:{path}", socket_mode=mode)) as server:
        assert server.address == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == expected
        with Client(server.address, timeout=20) as client:
            assert client.linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3)) == 17
        with pytest.raises(UnavailableError, match="another server answers there"):
            Server(Config(address=f"unix:{path}")).start()
    assert not path.exists()


def test_the_socket_of_a_killed_server_is_replaced(tmp_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "left"))
    left.close()
    with Server(Config(address=f"unix:{tmp_path}/left")) as server, Client(server.address, timeout=20) as client:
        assert client.linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3)) == 17


def test_a_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(UnavailableError, match="the path exists and is not a socket"):
        Server(Config(address=f"unix:{tmp_path}/file")).start()
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"address": "unix:"}, "a path of 1 to"),
        ({"address": "unix:/" + "x" * 200}, "a path of 1 to"),
        ({"address": "unix:/a\0b"}, "a path of 1 to"),
        ({"address": "unix:/s", "workers": 2}, "workers: processes cannot share"),
        ({"socket_mode": "rw"}, "permissions in octal"),
        ({"socket_mode": "1777"}, "permissions in octal"),
    ],
    ids=str,
)
def test_wrong_settings(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Config(**wrong)
