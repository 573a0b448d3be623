"""The Python client of the service.

from xlashape_client import Client

with Client("127.0.0.1:50051") as client:
    client.byte_size("bf16[20,300]{1,0:T(8,128)(2,1)}").padding_bytes

- `client`: `Client`, a connection to a server, and `Cancellation`, which ends its calls. `async_client`: `AsyncClient`,
  a client with the same methods for asyncio. `connection`: functions that both clients share, such as retries.
- `methods`: the RPCs as methods, each written once. `faces`: turns each method into a function that blocks, for
  `Client`, and a function that is awaited, for `AsyncClient`.
- `transport`: sends the requests of methods. `items`: items that a server sends in pages, or as a stream.
- `bulk`: calls with many items, in one message or as a stream.
- `inputs`: converts arguments to requests. `results`: the types that methods return; `answers`: those of reports.
- `status`: converts the error of a call to the exception that the server raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xlashape.base.extras import require
from xlashape_client import results
from xlashape_client.results import *

if TYPE_CHECKING:
    from xlashape_client.async_client import AsyncClient
    from xlashape_client.client import Cancellation, Client

__all__ = ["AsyncClient", "Cancellation", "Client"]
__all__ += results.__all__


def __getattr__(name: str) -> Any:
    # The clients need grpc, which may be missing. The types of their results do not.
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
