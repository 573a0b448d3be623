"""The Python client of the service.

from xlashape_client import Client

with Client("127.0.0.1:50051") as client:
    client.byte_size("bf16[20,300]{1,0:T(8,128)(2,1)}").padding_bytes

- `client`: `Client`, a connection to a server, and `Cancellation`, which ends its calls. `async_client`: `AsyncClient`,
  the same for asyncio. `connection`: what both have in common, which calls are retried, and the span of the program
  that a call belongs to.
- `methods`: the RPCs as methods, each written once. `faces`: how a method blocks on one client, and is awaited on the
  other.
- `transport`: what sends the requests of methods. `items`: items that come in pages, or as a stream.
- `bulk`: calls with many items, in one message or as a stream.
- `inputs`: converts arguments to requests. `results`: the types that methods return.
- `status`: converts the error of a call to the exception that the server raised; for asyncio, the status of a call that
  ends while it is still written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xlashape.extras import require
from xlashape_client import results
from xlashape_client.results import *

if TYPE_CHECKING:
    from xlashape_client.async_client import AsyncClient
    from xlashape_client.client import Cancellation, Client

__all__ = ["AsyncClient", "Cancellation", "Client"]
__all__ += results.__all__


def __getattr__(name: str) -> Any:
    # The clients need grpc; what they answer with does not.
    if name == "AsyncClient":
        require("client", "the client of a server")
        from xlashape_client.async_client import AsyncClient

        return AsyncClient
    if name in ("Cancellation", "Client"):
        require("client", "the client of a server")
        from xlashape_client import client

        return getattr(client, name)
    raise AttributeError(f"module 'xlashape_client' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
