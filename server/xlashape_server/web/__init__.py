"""Answers RPCs over HTTP/1.1, in the protocol Connect, at an address of its own: for browsers and curl. Needs the extra
`web`.

listener     runs uvicorn at the address, in a thread of its own
application  an ASGI application with the RPCs that take one request and give one answer, and the web page at /; the
             adapter between one HTTP request and the guard (`xlashape_server.guard`), which admits calls
forms        how Connect writes messages and errors; headers
page         the static files of the web page
"""

from __future__ import annotations

from xlashape_server.web.listener import Listener

__all__ = ["Listener"]
