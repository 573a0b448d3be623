"""The trace of the caller: a call tells the server which span of the program it belongs to, by the W3C's header traceparent.

A program that makes spans has loaded OpenTelemetry. In any other there is nothing to tell, and nothing is loaded for it.
"""

from __future__ import annotations

import sys


def trace_headers() -> tuple[tuple[str, str], ...]:
    """The headers of the current span of OpenTelemetry, by the propagators that the program uses; none without a span.

    >>> trace_headers()
    ()
    """
    if "opentelemetry.trace" not in sys.modules:
        return ()
    from opentelemetry import propagate  # not a package of the client: the program has loaded it

    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return tuple((name.lower(), value) for name, value in carrier.items())
