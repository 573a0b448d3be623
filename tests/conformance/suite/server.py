"""The servers that cases are run against, and the modules that they have before a case."""

from __future__ import annotations

import dataclasses
import socket
import subprocess
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

from suite import modules
from suite.protocol import TRANSPORTS, testee
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


class Servers:
    """The servers of one language and transport, started when they are first needed. Use it in a `with` block."""

    def __init__(self, transport: str) -> None:
        self._transport = transport
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
        """The Request that connects a testee to the server `which`: "", "none", "tls" or "unix"."""
        if which not in self._starts:
            start = testee.Start(transport=TRANSPORTS[self._transport])
            getattr(self, f"_{which or 'ordinary'}")(start)
            self._starts[which] = testee.Request(name=f"start {which}".strip(), start=start)
        return self._starts[which]

    def make_stored(self, names: list[str]) -> None:
        """Changes the modules of the ordinary server to those of these names."""
        self.start("")
        assert self._stored is not None
        self._stored.make(names)

    def _ordinary(self, start: Any) -> None:
        settings = SETTINGS | {"address": "127.0.0.1:0", "workers": 1}
        if self._transport != "grpc":
            settings[str(http_setting())] = "127.0.0.1:0"
        server: Any = self._open.enter_context(Server(Config(**settings)))
        self._stored = self._open.enter_context(closing(Stored(server.address)))
        start.address = server.address if self._transport == "grpc" else server.http_address

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
        folder = Path(self._open.enter_context(tempfile.TemporaryDirectory()))

        def openssl(*arguments: str) -> None:
            subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

        new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        openssl(*new, "-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
        (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
        openssl(*new, "-subj", "/CN=server", "-keyout", "server.key", "-out", "server.csr")
        signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
        openssl("x509", "-req", "-days", "2", "-in", "server.csr", *signing, "-out", "server.pem")
        files = {"tls_certificate": str(folder / "server.pem"), "tls_key": str(folder / "server.key")}
        server = self._open.enter_context(Server(Config(**SETTINGS, **files, address="127.0.0.1:0", workers=1)))
        start.address = server.address
        start.root_certificates = (folder / "ca.pem").read_bytes()


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
