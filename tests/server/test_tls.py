"""TLS: a server with a certificate, and a server that requires certificates of its clients."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from awaited_client import AwaitedClient
from certificates import copied, make_authority, make_certificate, served_certificate
from optional import without
from server_processes import wait_until

from xlashape.errors import InvalidArgumentError, UnavailableError
from xlashape_client import Client
from xlashape_server import Config, Server

if shutil.which("openssl") is None:
    without("openssl is not installed")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the certificates and keys of an authority (ca.*), a server at 127.0.0.1 (server.*) and a client
    (client.*)."""
    path = tmp_path_factory.mktemp("tls")
    make_authority(path)
    for name in ("server", "client"):
        make_certificate(path, name)
    return path


def config_of(path: Path, name: str = "server", **more: str) -> Config:
    """A server's settings with the certificate and key of `name`."""
    pair = {"tls_certificate": str(path / f"{name}.pem"), "tls_key": str(path / f"{name}.key")}
    return Config(address="127.0.0.1:0", workers=1, **{**pair, **more})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tls_key": "client.key"}, "tls_certificate: .*server.pem' cannot be used with .*client.key': .*MISMATCH"),
        ({"tls_key": "encrypted.key"}, "tls_certificate: .* cannot be used with .*encrypted.key'"),
        ({"tls_key": "server.pem"}, "tls_key: .*server.pem' has no private key in PEM"),
        ({"tls_certificate": "server.key"}, "tls_certificate: .*server.key' has no certificate in PEM"),
        ({"tls_certificate": "cut.pem"}, "tls_certificate: .*cut.pem' cannot be used"),
        ({"tls_client_ca": "server.key"}, "tls_client_ca: .*server.key' has no certificate in PEM"),
        ({"tls_client_ca": "cut.pem"}, "tls_client_ca: .*cut.pem' cannot be used"),
        ({"tls_client_ca": "absent.pem"}, "tls_client_ca: .*absent.pem' cannot be read"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_certificates_that_cannot_be_used_are_named(certificates: Path, wrong: dict[str, str], message: str) -> None:
    whole = (certificates / "server.pem").read_text()
    (certificates / "cut.pem").write_text(whole[:200] + whole[300:])
    command = ["openssl", "ec", "-in", "server.key", "-aes256", "-passout", "pass:secret", "-out", "encrypted.key"]
    subprocess.run(command, cwd=certificates, check=True, capture_output=True)
    config = config_of(certificates, **{name: str(certificates / file) for name, file in wrong.items()})
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        Server(config).start()
    assert caught.value.field == message.partition(":")[0]


def test_replaced_certificates_are_served_without_a_restart(certificates: Path, tmp_path: Path) -> None:
    copied(certificates, tmp_path, "server.pem", "server.key")
    root = certificates / "ca.pem"
    with (
        Server(config_of(tmp_path)) as server,
        Client(server.address, timeout=10, root_certificates=root.read_bytes()) as client,
    ):
        assert answer(client) == 17
        assert served_certificate(server.address, root) == "server"
        [worker] = server.worker_pids
        copied(certificates, tmp_path, "client.pem")  # the key does not belong to it: the old pair stays
        time.sleep(1.5)
        assert served_certificate(server.address, root) == "server"
        copied(certificates, tmp_path, "client.key")
        wait_until(lambda: served_certificate(server.address, root) == "client")
        (tmp_path / "server.pem").write_text("gone")
        time.sleep(1.5)
        assert served_certificate(server.address, root) == "client"
        assert answer(client) == 17
        assert server.worker_pids == [worker]


def answer(client: Client) -> int:
    return client.linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3))


@pytest.mark.parametrize("kind", [Client, AwaitedClient])
@pytest.mark.parametrize("mutual", [False, True])
def test_client_and_server_check_each_others_certificates(certificates: Path, kind: type[Client], mutual: bool) -> None:
    path = certificates
    config = Config(
        address="127.0.0.1:0",
        workers=1,
        tls_certificate=str(path / "server.pem"),
        tls_key=str(path / "server.key"),
        tls_client_ca=str(path / "ca.pem") if mutual else "",
    )
    root = (path / "ca.pem").read_bytes()
    own: dict[str, Any] = {
        "private_key": (path / "client.key").read_bytes(),
        "certificate_chain": (path / "client.pem").read_bytes(),
    }
    with Server(config) as server:
        with kind(server.address, timeout=10, root_certificates=root, **(own if mutual else {})) as client:
            assert answer(client) == 17
        strangers = [kind(server.address, timeout=3), kind(server.address, timeout=3, root_certificates=b"")]
        if mutual:
            strangers.append(kind(server.address, timeout=3, root_certificates=root))
        for stranger in strangers:
            with stranger, pytest.raises(UnavailableError):
                answer(stranger)
