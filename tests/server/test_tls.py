"""TLS: a server with a certificate, and a server that requires certificates of its clients."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from xlashape.errors import UnavailableError
from xlashape_client import Client
from xlashape_server import Config, Server

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificates with openssl")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an authority (ca.*), a server at 127.0.0.1 (server.*) and a client (client.*)."""
    path = tmp_path_factory.mktemp("tls")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=path, check=True, capture_output=True)

    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(*new, "-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    (path / "san").write_text("subjectAltName=IP:127.0.0.1\n")
    for name in ("server", "client"):
        openssl(*new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "san")
        openssl("x509", "-req", "-days", "2", "-in", f"{name}.csr", *signing, "-out", f"{name}.pem")
    return path


def answer(client: Client) -> int:
    return client.linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3))


@pytest.mark.parametrize("mutual", [False, True])
def test_client_and_server_check_each_others_certificates(certificates: Path, mutual: bool) -> None:
    path = certificates
    config = Config(
        address="127.0.0.1:0",
        workers=1,
        tls_certificate=str(path / "server.pem"),
        tls_key=str(path / "server.key"),
        tls_client_ca=str(path / "ca.pem") if mutual else "",
    )
    root = (path / "ca.pem").read_bytes()
    own = {
        "private_key": (path / "client.key").read_bytes(),
        "certificate_chain": (path / "client.pem").read_bytes(),
    }
    with Server(config) as server:
        with Client(server.address, timeout=10, root_certificates=root, **(own if mutual else {})) as client:
            assert answer(client) == 17
        strangers = [Client(server.address, timeout=3), Client(server.address, timeout=3, root_certificates=b"")]
        if mutual:
            strangers.append(Client(server.address, timeout=3, root_certificates=root))
        for stranger in strangers:
            with stranger, pytest.raises(UnavailableError):
                answer(stranger)
