"""The interface by which calls and handlers make spans of traces. `tracing` implements it with OpenTelemetry, which
this file does not import. Nothing happens while traces are off. A turn is the right of a call to compute.

    with child("decode module", {"xlashape.module.bytes": 4711}):    # a span below the span of the current call
        …
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

Attributes = Mapping[str, "str | int"]
Headers = Iterable[tuple[str, "str | bytes"]]


class CallSpan(Protocol):
    """The span of a call."""

    def works(self, since: float) -> None:
        """Notes that the call has a turn, for which it has waited since a time of time.monotonic(). Until `rests`, new
        spans of this thread are below this one.
        """
        ...

    def rests(self) -> None:
        """Notes that this thread no longer computes for the call, which gives its turn back."""
        ...

    def waited(self, since: float) -> None:
        """Notes that the call has waited for its next turn since a time of time.monotonic()."""
        ...

    def event(self, name: str, size: int) -> None:
        """Adds an event, such as "request", with the size of the message in bytes."""
        ...

    def failed(self, message: str, error: Exception | None) -> None:
        """Notes that the call is refused with this message. `error` is an exception to record, where the server is at
        fault.
        """
        ...

    def end(self, code: int) -> None:
        """Ends the span of a call that has ended with a code of google.rpc."""
        ...


class Traces(Protocol):
    """Makes the spans of calls."""

    def begin(
        self, name: str, headers: Callable[[], Headers | None], system: str, peer: Callable[[], str]
    ) -> CallSpan | None:
        """Begins the span of the call `name`; None if the call is not traced. `headers` returns the headers of the
        request, with names in lower case; `system` is the name of the protocol; `peer` returns the caller's address.
        """
        ...


Maker = Callable[[str, Attributes], AbstractContextManager[object]]

_NOTHING: AbstractContextManager[object] = nullcontext()
_makers: list[Maker] = []


def set_maker(maker: Maker | None) -> None:
    """Has `child` make spans with `maker`; with None it makes no spans."""
    _makers[:] = [] if maker is None else [maker]


def child(name: str, attributes: Attributes) -> AbstractContextManager[object]:
    """A context manager that makes a span below the span of the current call. It does nothing if the call is not
    traced.
    """
    return _makers[0](name, attributes) if _makers else _NOTHING
