"""Certificates of an authority of a test's own, made with openssl, and servers that have them."""

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
    """Makes ca.pem and ca.key."""
    usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")  # which Python asks for from 3.13 on
    own = ("-x509", *usage, "-days", str(days), "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    _openssl(folder, *_NEW, *own)
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n")


def make_certificate(folder: Path, name: str, days: int = 2) -> None:
    """Makes NAME.pem and NAME.key, of the authority in the folder, for `name` at 127.0.0.1."""
    _openssl(folder, *_NEW, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "san")
    _openssl(folder, "x509", "-req", "-days", str(days), "-in", f"{name}.csr", *signing, "-out", f"{name}.pem")


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def copied(source: Path, target: Path, *names: str) -> None:
    """Replaces server.pem or server.key in `target` as collectors of secrets do: each at once."""
    for name in names:
        shutil.copy(source / name, target / f".{name}")
        (target / f".{name}").replace(target / f"server{Path(name).suffix}")


def served_certificate(address: str, root: Path, *pair: Path) -> str:
    """The name in the certificate that a server at HOST:PORT shows. `pair`: certificate and key to show it."""
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
