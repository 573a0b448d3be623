"""A proxy of HTTP that goes wrong on demand: late answers, errors, connections cut off, other bytes than were sent."""

from __future__ import annotations

import http.client
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Writes nothing: clients of tests are killed, and their connections break."""


class FaultyProxy:
    """Passes requests on to HOST:PORT while its `with` block runs. `fault` names what goes wrong with requests of the
    HTTP method `method`; if that is empty, with all requests.
    """

    def __init__(self, host: str, port: int) -> None:
        self.fault = ""  # "", "slow", "errors", "cut", "wrong bytes", "hangs"
        self.method = ""
        self.requests: list[str] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass(self) -> None:
                proxy.requests.append(f"{self.command} {self.path}")
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                fault = proxy.fault if self.command in (proxy.method or self.command) else ""
                if fault == "cut":
                    self.close_connection = True
                    return
                if fault == "errors":
                    self.send_response(503)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                if fault == "hangs":
                    time.sleep(60)
                if fault == "slow":
                    time.sleep(0.3)
                upstream = http.client.HTTPConnection(host, port, timeout=30)
                headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
                upstream.request(self.command, self.path, body, headers)
                answer = upstream.getresponse()
                content = answer.read()
                if fault == "wrong bytes" and content and answer.status == 200:
                    middle = len(content) // 2
                    content = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("connection", "transfer-encoding", "content-length", "server", "date"):
                        self.send_header(name, value)
                length = answer.headers.get("Content-Length") if self.command == "HEAD" else str(len(content))
                self.send_header("Content-Length", length or "0")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)
                upstream.close()

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _pass  # noqa: N815  # names of http.server

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  # the base class's name
                pass

        self._server = _QuietServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> FaultyProxy:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()
