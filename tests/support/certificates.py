"""Makes a certificate authority for a test and certificates that it signs, with openssl, and reads the certificate that
a server shows."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

__all__ = ["copied", "make_authority", "make_certificate", "served_certificate"]

_NEW = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def make_authority(folder: Path, days: int = 2) -> None:
    """Makes the authority's certificate and key, ca.pem and ca.key, in a folder."""
    usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")  # which Python asks for from 3.13 on
    own = ("-x509", *usage, "-days", str(days), "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    _openssl(folder, *_NEW, *own)
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n")


def make_certificate(folder: Path, name: str, days: int = 2) -> None:
    """Makes NAME.pem and NAME.key for `name` at 127.0.0.1, signed by the authority in the folder."""
    _openssl(folder, *_NEW, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "san")
    _openssl(folder, "x509", "-req", "-days", str(days), "-in", f"{name}.csr", *signing, "-out", f"{name}.pem")


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def copied(source: Path, target: Path, *names: str) -> None:
    """Copies files `names` from `source` over server.pem and server.key in `target`. Each file is replaced at once, by
    a rename, as Kubernetes and similar systems replace secrets."""
    for name in names:
        shutil.copy(source / name, target / f".{name}")
        (target / f".{name}").replace(target / f"server{Path(name).suffix}")


def served_certificate(address: str, root: Path, *pair: Path) -> str:
    """The name in the certificate of the server at HOST:PORT. `pair`: the client's certificate and key, if it needs
    them."""
    context = ssl.create_default_context(cafile=str(root))
    context.set_alpn_protocols(["h2"])
    if pair:
        context.load_cert_chain(*pair)
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
    ):
        certificate: Any = secured.getpeercert()
        subject: tuple[tuple[tuple[str, str], ...], ...] = certificate["subject"]
    return dict(pair for entry in subject for pair in entry)["commonName"]
