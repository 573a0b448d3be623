"""RPCs answered in this process by the handlers of the service, without a server and without a server's limits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from tempfile import TemporaryDirectory

from xlashape.errors import FieldPath, NotFoundError
from xlashape.hlo import HloModule
from xlashape.limits import INT64_MAX
from xlashape_client.faces import finished
from xlashape_client.methods import ServiceMethods
from xlashape_server.config import Config
from xlashape_server.handlers import rpcs
from xlashape_server.modules import Modules
from xlashape_server.store import Store, Stored

_YEAR_SECONDS = 365 * 86_400.0

_UNLIMITED = Config(
    max_analysis_steps=INT64_MAX,
    max_batch=INT64_MAX,
    max_shape_elements=INT64_MAX,
    max_text_bytes=INT64_MAX,
    max_module_bytes=INT64_MAX,
    max_module_text_bytes=INT64_MAX,
)
"""A user's own process may take as much memory and time as the user allows it."""


class Local(ServiceMethods):
    """The methods of a client, answered in this process. `timeout`: the most seconds that an answer may take."""

    inline_bytes = INT64_MAX

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._modules = Modules(_UNLIMITED, _LocalStore())
        self._handlers = {rpc.method.name: rpc.handler for rpc in rpcs(_UNLIMITED, self._modules)}

    def module(self, module: bytes | str) -> HloModule:
        """A module, decoded. The handlers keep it, so that later calls need not decode it again."""
        return self._modules.read(finished(self._transport.module_input(module, None)), ("module",))

    def send(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> bytes:
        """Calls the handler of the RPC."""
        return self._handlers[method](request, self._deadline(timeout))

    def stream(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> Iterator[bytes]:
        """Calls the handler of an RPC that answers with a stream."""
        return self._handlers[method](request, self._deadline(timeout))

    def _deadline(self, timeout: float | None) -> float:
        return time.monotonic() + (self._timeout if timeout is None else timeout)


class _LocalStore(Store):
    """A store in a temporary directory, which is made for the first upload and lives as long as this object."""

    def __init__(self) -> None:
        self._directory: TemporaryDirectory[str] | None = None

    def keep(self, content: bytes, sha256: str, facts: dict[str, str | int]) -> tuple[Stored, bool]:
        if self._directory is None:
            self._directory = TemporaryDirectory(prefix="xlashape-")
            super().__init__(self._directory.name, max_bytes=INT64_MAX, max_age=_YEAR_SECONDS)
        return super().keep(content, sha256, facts)

    def find(self, name: str, *, field: str | FieldPath | None = None) -> Stored:
        self.digest_of(name, field=field)
        try:
            if self._directory is not None:
                return super().find(name, field=field)
        except NotFoundError:
            pass
        message = f"{name} is kept by a server: say which with --server"
        raise NotFoundError(message, kind="module", name=name, field=field)
