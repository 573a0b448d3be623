"""The servers that cases are run against, and the modules that they have before a case."""

from __future__ import annotations

import dataclasses
import hashlib
import socket
import subprocess
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

from suite import modules
from suite.cases import TOKENS
from suite.protocol import TRANSPORTS, testee
from suite.relay import Listener, Relay
from xlashape.proto import v1
from xlashape_server import Config, Server

__all__ = ["SETTINGS", "Servers", "Stored", "http_setting"]

SETTINGS: dict[str, Any] = {
    # Small limits, which requests exceed that are fast to make.
    "max_batch": 200,
    "max_shape_elements": 500,
    "max_page_size": 40,
    "max_module_text_bytes": 100_000,
    "grace_seconds": 0.5,
    "log_level": "error",
}
"""The settings that differ from the defaults."""

_BALANCED = 12  # calls to two servers


class Servers:
    """The servers of one language and transport, started when they are first needed. Use it in a `with` block."""

    def __init__(self, transport: str) -> None:
        self.transport = transport
        self._open = ExitStack()
        self._starts: dict[str, Any] = {}
        self._stored: Stored | None = None

    def __enter__(self) -> Servers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def start(self, which: str) -> Any:
        """The Request that connects a testee to the server, or the servers, that `which` names: `cases` says which
        there are."""
        if which not in self._starts:
            start = testee.Start(transport=TRANSPORTS[self.transport])
            kind, _, variant = which.partition("/")
            made = getattr(self, f"_{kind or 'ordinary'}")
            made(start, variant) if variant else made(start)
            self._starts[which] = testee.Request(name=f"start {which}".strip(), start=start)
        return self._starts[which]

    def make_stored(self, names: list[str]) -> None:
        """Changes the modules of the ordinary server to those of these names."""
        self.start("")
        assert self._stored is not None
        self._stored.make(names)

    def _ordinary(self, start: Any) -> None:
        settings = SETTINGS | {"address": "127.0.0.1:0", "workers": 1}
        if self.transport != "grpc":
            settings[str(http_setting())] = "127.0.0.1:0"
        server: Any = self._open.enter_context(Server(Config(**settings)))
        self._stored = self._open.enter_context(closing(Stored(server.address)))
        start.address = server.address if self.transport == "grpc" else server.http_address

    def _none(self, start: Any) -> None:
        # Bound and not listening: no other process gets the port.
        unused = self._open.enter_context(socket.socket())
        unused.bind(("127.0.0.1", 0))
        start.address = f"127.0.0.1:{unused.getsockname()[1]}"

    def _unix(self, start: Any) -> None:
        folder = self._open.enter_context(tempfile.TemporaryDirectory())
        server = self._open.enter_context(Server(Config(**SETTINGS, address=f"unix:{folder}/socket", workers=1)))
        start.address = server.address

    def _tls(self, start: Any) -> None:
        folder = self._certificates()
        start.address = self._with_tls(folder).address
        start.root_certificates = (folder / "ca.pem").read_bytes()

    def _tls_names(self, start: Any) -> None:
        """Two addresses of other names. Nobody listens at the first; the certificate is for the name of the second
        alone."""
        folder = self._certificates("DNS:localhost")
        self._none(start)
        start.more_addresses.append(f"localhost:{self._with_tls(folder).address.rpartition(':')[2]}")
        start.root_certificates = (folder / "ca.pem").read_bytes()

    def _mtls(self, start: Any, variant: str) -> None:
        """A server that asks for a certificate of its authority, and a client with one, with one of another authority,
        or with none."""
        folder = self._certificates()
        start.address = self._with_tls(folder, tls_client_ca=str(folder / "ca.pem")).address
        start.root_certificates = (folder / "ca.pem").read_bytes()
        if variant != "no_certificate":
            of = folder if variant == "known" else self._certificates()
            start.client_certificate = (of / "client.pem").read_bytes()
            start.client_key = (of / "client.key").read_bytes()

    def _token(self, start: Any, variant: str) -> None:
        """A server that asks for a token, and a client with the right one, a wrong one, none, or one that changes."""
        path = Path(self._open.enter_context(tempfile.TemporaryDirectory())) / "auth.toml"
        digest = hashlib.sha256(TOKENS["right"].encode()).hexdigest()
        path.write_text(f'[[token]]\nname = "ann"\nsha256 = "{digest}"\naccess = "write"\n')
        settings = SETTINGS | {"address": "127.0.0.1:0", "workers": 1, "auth": str(path)}
        if self.transport != "grpc":
            settings[str(http_setting())] = "127.0.0.1:0"
        server: Any = self._open.enter_context(Server(Config(**settings)))
        start.address = server.address if self.transport == "grpc" else server.http_address
        start.token = TOKENS.get(variant, TOKENS["right"])

    def _dead_and_alive(self, start: Any) -> None:
        """Two addresses. Nobody listens at the first."""
        self._none(start)
        start.more_addresses.append(self.start("").start.address)

    def _slow(self, start: Any) -> None:
        start.address = self._open.enter_context(Relay(self.start("").start.address, hold_seconds=60)).address

    def _silent(self, start: Any) -> None:
        start.address = self._open.enter_context(Listener(closes=False)).address

    def _refusing(self, start: Any) -> None:
        start.address = self._open.enter_context(Listener(closes=True)).address

    def _silent_and_alive(self, start: Any) -> None:
        self._silent(start)
        start.more_addresses.append(self.start("").start.address)

    def _refusing_and_alive(self, start: Any) -> None:
        self._refusing(start)
        start.more_addresses.append(self.start("").start.address)

    def _two(self, start: Any) -> None:
        """Two servers, which refuse calls when they have answered most of them by themselves."""
        start.address, other = (self._balanced() for _ in range(2))
        start.more_addresses.append(other)

    def _tls_two(self, start: Any) -> None:
        """The same with TLS. Each has a certificate for its own name, of one authority."""
        names = ("127.0.0.1", "localhost")
        folder = self._certificates("IP:127.0.0.1", "DNS:localhost")
        start.address, other = (
            f"{name}:{self._balanced(folder, i).rpartition(':')[2]}" for i, name in enumerate(names)
        )
        start.more_addresses.append(other)
        start.root_certificates = (folder / "ca.pem").read_bytes()

    def _balanced(self, folder: Path | None = None, i: int = 0) -> str:
        credentials = None
        if folder is not None:
            pair = ((folder / f"server{i}.key").read_bytes(), (folder / f"server{i}.pem").read_bytes())
            credentials = grpc.ssl_server_credentials([pair])
        relay = Relay(self.start("").start.address, most=_BALANCED - 2, credentials=credentials)
        return self._open.enter_context(relay).address

    def _unavailable_twice(self, start: Any) -> None:
        """A server that is unavailable for two calls of three."""
        start.address = self._open.enter_context(Relay(self.start("").start.address, unavailable=2)).address

    def _answers_lost(self, start: Any) -> None:
        """A server whose first answer of each RPC is lost."""
        start.address = self._open.enter_context(Relay(self.start("").start.address, acts=True)).address

    def _with_tls(self, folder: Path, **settings: Any) -> Server:
        files = {"tls_certificate": str(folder / "server0.pem"), "tls_key": str(folder / "server0.key")}
        return self._open.enter_context(
            Server(Config(**SETTINGS, **files, **settings, address="127.0.0.1:0", workers=1))
        )

    def _certificates(self, *names: str) -> Path:
        """A new authority, and certificates of it for a client and for a server of each name, 127.0.0.1 by default."""
        folder = Path(self._open.enter_context(tempfile.TemporaryDirectory()))

        def openssl(*arguments: str) -> None:
            subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

        new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        openssl(*new, "-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
        servers = {f"server{i}": name for i, name in enumerate(names or ("IP:127.0.0.1",))}
        for owner, name in {**servers, "client": "DNS:client"}.items():
            (folder / "name").write_text(f"subjectAltName={name}\n")
            openssl(*new, "-subj", f"/CN={owner}", "-keyout", f"{owner}.key", "-out", f"{owner}.csr")
            signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "name")
            openssl("x509", "-req", "-days", "2", "-in", f"{owner}.csr", *signing, "-out", f"{owner}.pem")
        return folder


def http_setting() -> str | None:
    """The setting for the address of HTTP; None if this version of the server does not have it."""
    names = {field.name for field in dataclasses.fields(Config)}
    return next((name for name in ("http_address", "http") if name in names), None)


class Stored:
    """Changes the modules of the server to those that a case names."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address, [("grpc.max_send_message_length", -1)])

    def make(self, wanted: list[str]) -> None:
        for name in modules.CONTENTS:
            if name in wanted:
                self._call("PutModule", v1.PutModuleRequest(data=modules.content(name)))
            else:
                self._call("DeleteModule", v1.DeleteModuleRequest(name=modules.resource_name(name)))

    def _call(self, method: str, request: Any) -> None:
        try:
            self._channel.unary_unary(f"/xlashape.v1.HloService/{method}")(request.SerializeToString(), timeout=60)
        except grpc.RpcError as error:
            if not (isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.NOT_FOUND):
                raise

    def close(self) -> None:
        self._channel.close()
