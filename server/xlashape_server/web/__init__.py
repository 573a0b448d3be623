"""HTTP/1.1 beside gRPC: Connect and gRPC-Web at an address of its own, for browsers, curl and caches. Needs the extra
`web`.

messages     headers, CORS, messages in JSON and in protobuf's own format
forms        how Connect and gRPC-Web write messages, streams of answers and errors
page         the static files of the page
agents       tools for coding agents, over the Model Context Protocol
exchanges    the adapter between one HTTP request and the guard
application  every RPC of the schema as an ASGI application, made of the descriptors
listener     uvicorn at the address, in a thread of its own
"""

from __future__ import annotations

from xlashape_server.web.listener import Listener

__all__ = ["Listener"]
