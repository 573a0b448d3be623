"""TLS: a server with a certificate, and a server that requires certificates of its clients."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from awaited_client import AwaitedClient
from server_processes import wait_until

from xlashape.errors import InvalidArgumentError, UnavailableError
from xlashape_client import Client
from xlashape_server import Config, Server

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an authority (ca.*), a server at 127.0.0.1 (server.*) and a client (client.*)."""
    path = tmp_path_factory.mktemp("tls")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=path, check=True, capture_output=True)

    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")  # which Python asks for from 3.13 on
    openssl(*new, "-x509", *usage, "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    (path / "san").write_text("subjectAltName=IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n")
    for name in ("server", "client"):
        openssl(*new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "san")
        openssl("x509", "-req", "-days", "2", "-in", f"{name}.csr", *signing, "-out", f"{name}.pem")
    return path


def config_of(path: Path, name: str = "server", **more: str) -> Config:
    """A server's settings with the certificate and key of `name`."""
    pair = {"tls_certificate": str(path / f"{name}.pem"), "tls_key": str(path / f"{name}.key")}
    return Config(address="127.0.0.1:0", workers=1, **{**pair, **more})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"tls_key": "client.key"},
            "tls_key: the key in .*client.key' does not belong to the certificate in .*server.pem'",
        ),
        ({"tls_key": "encrypted.key"}, "tls_key: the key in .* is encrypted"),
        ({"tls_key": "server.pem"}, "tls_key: .* has no private key in PEM"),
        ({"tls_certificate": "server.key"}, "tls_certificate: .* has no certificate in PEM"),
        ({"tls_certificate": "cut.pem"}, "tls_certificate: .* cannot be used"),
        ({"tls_client_ca": "server.key"}, "tls_client_ca: .* has no certificate in PEM"),
        ({"tls_client_ca": "cut.pem"}, "tls_client_ca: .* cannot be used"),
        ({"tls_client_ca": "absent.pem"}, "tls_client_ca: .* cannot be read"),
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
    assert caught.value.field == next(iter(wrong))


def copied(source: Path, target: Path, *names: str) -> None:
    """Replaces files as collectors of secrets do: each at once."""
    for name in names:
        shutil.copy(source / name, target / f".{name}")
        (target / f".{name}").replace(target / f"server{Path(name).suffix}")


def served_certificate(server: Server, root: Path) -> str:
    context = ssl.create_default_context(cafile=str(root))
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(server.config.host_and_port(), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
    ):
        certificate: Any = secured.getpeercert()
        subject: tuple[tuple[tuple[str, str], ...], ...] = certificate["subject"]
    return dict(pair for entry in subject for pair in entry)["commonName"]


def test_replaced_certificates_are_served_without_a_restart(certificates: Path, tmp_path: Path) -> None:
    copied(certificates, tmp_path, "server.pem", "server.key")
    root = certificates / "ca.pem"
    with (
        Server(config_of(tmp_path)) as server,
        Client(server.address, timeout=10, root_certificates=root.read_bytes()) as client,
    ):
        assert answer(client) == 17
        assert served_certificate(server, root) == "server"
        [worker] = server.worker_pids
        copied(certificates, tmp_path, "client.pem")  # the key does not belong to it: the old pair stays
        time.sleep(1.5)
        assert served_certificate(server, root) == "server"
        copied(certificates, tmp_path, "client.key")
        wait_until(lambda: served_certificate(server, root) == "client")
        (tmp_path / "server.pem").write_text("gone")
        time.sleep(1.5)
        assert served_certificate(server, root) == "client"
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
