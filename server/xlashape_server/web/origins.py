"""Which web pages may call: CORS for pages of other origins, and the names of this server for pages that claim to be of its own.

A browser sends a preflight request first, and gives the answer to the page only if it is allowed. A page whose own name leads to this machine once it is
loaded (DNS rebinding) needs no permission of that kind: it is known by the name that it asks for.
"""

from __future__ import annotations

import ipaddress

from xlashape_server.config import Config

Headers = list[tuple[bytes, bytes]]

# Headers that clients of Connect and gRPC-Web send, besides those that browsers always allow.
_REQUEST_HEADERS = (
    "authorization, content-type, connect-protocol-version, connect-timeout-ms, connect-content-encoding, connect-accept-encoding, "
    "content-encoding, grpc-timeout, grpc-encoding, grpc-accept-encoding, x-grpc-web, x-user-agent"
)
_ANSWER_HEADERS = "grpc-status, grpc-message, grpc-status-details-bin, connect-content-encoding, content-encoding"
_PREFLIGHT_SECONDS = 7200  # seconds for which browsers keep the answer to a preflight; Chrome's maximum


class Hosts:
    """The names that callers may ask for: addresses in numbers and `localhost`, which nobody else's name leads to, and those of `http_hosts`.

    A server that other machines can reach answers to any name, unless `http_hosts` says which: its own name is not known.
    """

    def __init__(self, config: Config) -> None:
        self._named = frozenset(config.allowed_hosts())
        self._allows_all = "*" in self._named or not (self._named or config.is_loopback)

    def allow(self, host: str | None) -> bool:
        """Whether a request for `host`, a name and perhaps a port, may be answered. Requests of HTTP/1.0 may have none, and browsers send none."""
        if self._allows_all or host is None:
            return True
        name = host.lower()
        bare, colon, port = name.rpartition(":")
        if colon and (port.isdigit() or not port) and not bare.endswith(":"):
            name = bare
        name = name.removesuffix(".")
        if name in self._named or name == "localhost" or name.endswith(".localhost"):
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True


class Origins:
    """The origins of `http_origins`: none, some, or all (`*`)."""

    def __init__(self, config: Config) -> None:
        self._allowed = frozenset(config.allowed_origins())
        self._allows_all = "*" in self._allowed

    def headers(self, origin: str | None) -> Headers:
        """The headers of an answer to a page of `origin`; None if the request has no Origin header."""
        if not self._allowed:
            return []
        if self._allows_all:
            return [
                (b"access-control-allow-origin", b"*"),
                (b"access-control-expose-headers", _ANSWER_HEADERS.encode()),
            ]
        # Caches must keep answers for different origins apart.
        if origin is None or origin not in self._allowed:
            return [(b"vary", b"Origin")]
        return [
            (b"access-control-allow-origin", origin.encode()),
            (b"access-control-expose-headers", _ANSWER_HEADERS.encode()),
            (b"vary", b"Origin"),
        ]

    def preflight(self, origin: str | None) -> Headers:
        """The headers of the answer to a preflight."""
        headers = self.headers(origin)
        if any(name == b"access-control-allow-origin" for name, _ in headers):
            headers += [
                (b"access-control-allow-methods", b"GET, POST"),
                (b"access-control-allow-headers", _REQUEST_HEADERS.encode()),
                (b"access-control-max-age", b"%d" % _PREFLIGHT_SECONDS),
            ]
        return headers
