"""Answers RPCs over HTTP/1.1, in the protocols Connect and gRPC-Web, at an address of its own: for browsers, curl and
caches. Needs the extra `web`.

listener     runs uvicorn at the address, in a thread of its own
application  an ASGI application with the RPCs that take one request, the web page at /, and tools for agents
exchanges    the adapter between one HTTP request and the guard (`xlashape_server.guard`), which admits calls
forms        how Connect and gRPC-Web write messages, streams of answers and errors
messages     headers, CORS, and the conversion of messages between JSON and protobuf's own format
page         the static files of the web page
agents       tools for coding agents, over the Model Context Protocol
"""

from __future__ import annotations

from xlashape_server.web.listener import Listener

__all__ = ["Listener"]
