"""HTTP beside gRPC: Connect, gRPC-Web and gRPC at an address of its own, for browsers, curl and caches. Needs the extra
`web`.

messages     headers, CORS, messages in JSON and in protobuf's own format, errors for connectrpc
exchanges    the adapter between one HTTP request and the guard
answers      answers as they are sent, and refusals of requests that no protocol takes
application  every RPC of the schema as an ASGI application, made of the descriptors
connections  one connection: its turns at the event loop, and its end
listener     the sockets, TLS and the life of the connections
"""

from __future__ import annotations

from xlashape_server.web.listener import Listener

__all__ = ["Listener"]
