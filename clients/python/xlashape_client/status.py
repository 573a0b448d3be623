"""Converts the error of a gRPC call to the exception of the library that the server raised, or to the nearest one if
the status does not name it.

`keep_status` keeps the status of a call that the server ends while the client still writes requests. If a write fails,
grpc.aio ends the call with INTERNAL, "Internal error from Core". It does so even if the server has ended the call with
another status, which is then lost (https://github.com/grpc/grpc/issues/36066). With `keep_status` the call ends with
the server's status if that arrives within a second, and fails as before if it does not.
"""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from google.protobuf.message import DecodeError as WireError
from google.rpc import error_details_pb2, status_pb2

from xlashape import errors
from xlashape.errors import XlashapeError

_DOMAIN = "xlashape"
_DETAILS = "grpc-status-details-bin"
# The classes of errors that have a status: of calls that block, and of calls that are awaited.
_WITH_STATUS = (grpc.Call, grpc.aio.AioRpcError)


def exception_of(error: grpc.RpcError, address: str) -> XlashapeError:
    """The exception of the library for the `error` of a call to the server at `address`."""
    code, message = _code(error), _message(error)
    info = _error_info(error)
    if info is not None:
        details = dict(info.metadata)
        return errors.from_details(info.reason.lower(), details.pop("message", message), details)
    # The error does not come from a handler, but from gRPC in client or server, or from a proxy between them.
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return errors.DeadlineExceededError(f"{address} did not answer in time")
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        limit = (
            "concurrent_calls" if "oncurrent" in message else "message_bytes" if "larger than max" in message else ""
        )
        return errors.LimitExceededError(f"{address}: {message}", limit=limit)
    kinds: dict[grpc.StatusCode, type[XlashapeError]] = {
        grpc.StatusCode.UNAVAILABLE: errors.UnavailableError,
        grpc.StatusCode.CANCELLED: errors.UnavailableError,
        grpc.StatusCode.UNIMPLEMENTED: errors.UnsupportedError,
        grpc.StatusCode.INVALID_ARGUMENT: errors.InvalidArgumentError,
        grpc.StatusCode.NOT_FOUND: errors.NotFoundError,
        grpc.StatusCode.UNAUTHENTICATED: errors.UnauthenticatedError,
        grpc.StatusCode.PERMISSION_DENIED: errors.PermissionDeniedError,
    }
    return kinds.get(code, XlashapeError)(f"{address}: {message or code.name}")


def _code(error: grpc.RpcError) -> grpc.StatusCode:
    return error.code() if isinstance(error, _WITH_STATUS) else grpc.StatusCode.UNKNOWN


def _message(error: grpc.RpcError) -> str:
    return (error.details() if isinstance(error, _WITH_STATUS) else None) or ""


def _error_info(error: grpc.RpcError) -> error_details_pb2.ErrorInfo | None:
    if not isinstance(error, _WITH_STATUS):
        return None
    metadata: Any = error.trailing_metadata() or ()
    data: bytes | None = next((value for key, value in metadata if key == _DETAILS), None)
    if data is None:
        return None
    info = error_details_pb2.ErrorInfo()
    try:
        for detail in status_pb2.Status.FromString(data).details:
            if detail.type_url.endswith("/google.rpc.ErrorInfo") and detail.Unpack(info) and info.domain == _DOMAIN:
                return info
    except WireError:
        pass
    return None


# -- the status of calls that end while they are written ----------------------------------------


# How long a call waits for the server's status after a write has failed.
_GRACE_SECONDS = 1.0


def keep_status(call: Any) -> Any:
    """Changes a call of grpc.aio, which must not have begun, so that it ends with the server's status if there is one.
    Returns the call. Calls of other kinds are not changed.
    """
    inner = getattr(call, "_cython_call", None)
    if inner is not None:
        call._cython_call = _Inner(inner)
    return call


class _Inner:
    """Wraps the object with which a call of grpc.aio talks to gRPC's core, and lets the core report the server's status
    before the call fails with INTERNAL.
    """

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
