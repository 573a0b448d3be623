"""HTTP beside gRPC: Connect, gRPC-Web and gRPC at an address of its own, for browsers, curl and caches. Needs the extra `web`.

headers      how long a caller waits, and how its answer may be compressed
refusals     errors for connectrpc, with details in JSON too
messages     messages in JSON and in protobuf's own format
exchanges    the adapter between one HTTP request and the guard
answers      answers as they are sent, and refusals of requests that no protocol takes
application  every RPC of the schema as an ASGI application, made of the descriptors
origins      CORS: which pages of other origins may call
connections  one connection: its turns at the event loop, and its end
listener     the sockets, TLS and the life of the connections
"""

from __future__ import annotations

from xlashape_server.web.listener import Listener

__all__ = ["Listener"]
