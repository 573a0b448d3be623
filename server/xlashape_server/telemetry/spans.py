"""What calls and handlers know of traces: nothing of OpenTelemetry, and nothing happens where traces are off.

with child("decode module", {"xlashape.module.bytes": 4711}):    # a span below that of the call that this code runs for
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
        """The call has a turn, for which it has waited since a time of time.monotonic(). Until `rests`, spans of this
        thread are below this one.
        """
        ...

    def rests(self) -> None:
        """The library computes no more for the call."""
        ...

    def waited(self, since: float) -> None:
        """The call has waited for its next turn."""
        ...

    def event(self, name: str, size: int) -> None:
        """Something happened, with so many bytes."""
        ...

    def failed(self, message: str, error: Exception | None) -> None:
        """The call is refused with this message. `error`: one that should not be."""
        ...

    def end(self, code: int) -> None:
        """The call has ended with a code of google.rpc."""
        ...


class Traces(Protocol):
    """Makes the spans of calls."""

    def begin(
        self, name: str, headers: Callable[[], Headers | None], system: str, peer: Callable[[], str]
    ) -> CallSpan | None:
        """The span of a call that begins; None if it is not traced. `headers`: those of the request, whose names are in
        lower case; `peer`: who calls.
        """
        ...


Maker = Callable[[str, Attributes], AbstractContextManager[object]]

_NOTHING: AbstractContextManager[object] = nullcontext()
_makers: list[Maker] = []


def set_maker(maker: Maker | None) -> None:
    """Has `child` make spans with `maker`, or none."""
    _makers[:] = [] if maker is None else [maker]


def child(name: str, attributes: Attributes) -> AbstractContextManager[object]:
    """A span below that of the call that this code runs for, if that is traced."""
    return _makers[0](name, attributes) if _makers else _NOTHING
