"""TLS of the address of HTTP: certificates of clients, and certificates that are replaced."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from optional import without
from server_processes import wait_until

from xlashape_server import Config, Server

if shutil.which("openssl") is None:
    without("openssl is not installed")

LINEAR = "/xlashape.v1.ShapeService/LinearIndex"
QUESTION = json.dumps({"shape": {"text": "f32[3,5]{1,0:T(2,2)}"}, "indices": ["2", "3"]})


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with two authorities, `a` and `b`. Each has signed certificates for a server and for the clients
    `trainer` and `stranger`."""
    path = tmp_path_factory.mktemp("tls")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=path, check=True, capture_output=True)

    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    (path / "san").write_text("subjectAltName=IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n")
    for authority in ("a", "b"):
        own = ("-keyout", f"{authority}.key", "-out", f"{authority}.pem")
        usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")  # which Python asks for from 3.13 on
        openssl(*new, "-x509", *usage, "-days", "2", "-subj", f"/CN={authority}", *own)
        for name in ("server", "trainer", "stranger"):
            file = f"{authority}-{name}"
            openssl(*new, "-subj", f"/CN={name} of {authority}", "-keyout", f"{file}.key", "-out", f"{file}.csr")
            signing = ("-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-CAcreateserial", "-extfile", "san")
            openssl("x509", "-req", "-days", "2", "-in", f"{file}.csr", *signing, "-out", f"{file}.pem")
    return path


def replaced(source: Path, target: Path, **files: str) -> None:
    """Replaces files in `target`, each at once by a rename, as Kubernetes and similar systems replace secrets."""
    for name, file in files.items():
        suffix = Path(file).suffix
        shutil.copy(source / file, target / f".{name}{suffix}")
        (target / f".{name}{suffix}").replace(target / f"{name}{suffix}")


def config_of(path: Path, **more: str) -> Config:
    return Config(
        address="127.0.0.1:0",
        http="127.0.0.1:0",
        workers=1,
        tls_certificate=str(path / "server.pem"),
        tls_key=str(path / "server.key"),
        log_level="error",
        **more,  # type: ignore[arg-type]
    )


def context_of(certificates: Path, authority: str, own: str = "") -> ssl.SSLContext:
    """The TLS context of a client that trusts an authority. `own` names the client's certificate, if it has one."""
    context = ssl.create_default_context(cafile=str(certificates / f"{authority}.pem"))
    if own:
        context.load_cert_chain(certificates / f"{own}.pem", certificates / f"{own}.key")
    return context


def status(server: Server, context: ssl.SSLContext, path: str = LINEAR, body: str = QUESTION) -> int:
    connection = http.client.HTTPSConnection(server.http_address, context=context, timeout=20)
    try:
        connection.request("POST", path, body, {"content-type": "application/json"})
        return connection.getresponse().status
    finally:
        connection.close()


def is_refused(server: Server, context: ssl.SSLContext) -> bool:
    # In TLS 1.3 the handshake succeeds, and the client sees only when it reads that its certificate was refused.
    with contextlib.suppress(ssl.SSLError, ConnectionError, http.client.RemoteDisconnected):
        status(server, context)
        return False
    return True


def served_certificate(server: Server, context: ssl.SSLContext) -> str:
    host, _, port = server.http_address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=20) as plain,
        context.wrap_socket(plain, server_hostname=host) as secured,
    ):
        found = secured.getpeercert()
    assert found is not None
    return str(found["subject"][0][0][1])


def test_a_client_needs_a_certificate_of_the_authority(certificates: Path, tmp_path: Path) -> None:
    replaced(certificates, tmp_path, server="a-server.pem")
    replaced(certificates, tmp_path, server="a-server.key")
    with Server(config_of(tmp_path, tls_client_ca=str(certificates / "b.pem"))) as server:
        assert status(server, context_of(certificates, "a", "b-trainer")) == 200
        assert is_refused(server, context_of(certificates, "a"))
        assert is_refused(server, context_of(certificates, "a", "a-trainer"))
        assert status(server, context_of(certificates, "a", "b-stranger")) == 200


def test_certificates_that_are_replaced_are_served_to_new_connections(certificates: Path, tmp_path: Path) -> None:
    replaced(certificates, tmp_path, server="a-server.pem")
    replaced(certificates, tmp_path, server="a-server.key")
    old, new = (lambda name=name: context_of(certificates, name) for name in ("a", "b"))

    def served(context: Callable[[], ssl.SSLContext]) -> str:
        return served_certificate(server, context())

    def serves_new() -> bool:
        with contextlib.suppress(ssl.SSLError):
            return served(new) == "server of b"
        return False

    with Server(config_of(tmp_path)) as server:
        [worker] = server.worker_pids
        kept = http.client.HTTPSConnection(server.http_address, context=old(), timeout=20)
        kept.request("POST", LINEAR, QUESTION, {"content-type": "application/json"})
        assert kept.getresponse().read()
        replaced(certificates, tmp_path, server="b-server.pem")  # the key does not belong to it: the old pair stays
        time.sleep(1.2)
        assert served(old) == "server of a"
        replaced(certificates, tmp_path, server="b-server.key")
        wait_until(serves_new)
        with pytest.raises(ssl.SSLError):
            served(old)
        # A connection that was open before keeps working.
        kept.request("POST", LINEAR, QUESTION, {"content-type": "application/json"})
        answer = kept.getresponse()
        assert answer.status == 200
        assert answer.read()
        kept.close()
        (tmp_path / "server.pem").write_text("gone")
        time.sleep(1.2)
        assert served(new) == "server of b"
        assert server.worker_pids == [worker]


def test_an_authority_of_clients_that_is_replaced_counts(certificates: Path, tmp_path: Path) -> None:
    replaced(certificates, tmp_path, server="a-server.pem", clients="a.pem")
    replaced(certificates, tmp_path, server="a-server.key")
    with Server(config_of(tmp_path, tls_client_ca=str(tmp_path / "clients.pem"))) as server:
        of_a, of_b = (context_of(certificates, "a", f"{name}-trainer") for name in ("a", "b"))
        assert status(server, of_a) == 200
        assert is_refused(server, of_b)
        replaced(certificates, tmp_path, clients="b.pem")
        wait_until(lambda: not is_refused(server, context_of(certificates, "a", "b-trainer")))
        assert is_refused(server, context_of(certificates, "a", "a-trainer"))
