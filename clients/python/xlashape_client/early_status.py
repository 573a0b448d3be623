"""The status of a call that the server ends while the client still writes requests, for asyncio.

grpc.aio answers a write that fails with INTERNAL, "Internal error from Core", also where it fails because the server has ended the call with a status of its
own, which is lost then (https://github.com/grpc/grpc/issues/36066). Here that status stays, or comes soon. Calls whose status does not come fail as before.
"""

from __future__ import annotations

import asyncio
from typing import Any

_GRACE_SECONDS = 1.0  # for the status to come after a write that failed


def keep_status(call: Any) -> Any:
    """The same call of grpc.aio, before it has begun: it ends with the server's status if there is one. Calls of other kinds stay as they are."""
    inner = getattr(call, "_cython_call", None)
    if inner is not None:
        call._cython_call = _Inner(inner)
    return call


class _Inner:
    """What grpc.aio's call asks the core with, which is asked first whether it knows the status."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def set_internal_error(self, text: str) -> None:
        """Ends the call with INTERNAL, unless the status that the server sent arrives within `_GRACE_SECONDS`."""
        if not self._call.done():
            asyncio.get_running_loop().call_later(_GRACE_SECONDS, self._fail, text)

    def _fail(self, text: str) -> None:
        if not self._call.done():
            self._call.set_internal_error(text)
