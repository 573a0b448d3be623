"""The TypeScript client in a real browser, against a server over HTTP: a page calls it over Connect, by way of
the server of the page, as by way of a proxy.

It needs Chromium, Node and npm, and installs npm packages. With CI=true it runs, and fails if a tool is missing;
otherwise it is skipped.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import http.server
import importlib.util
import json
import os
import queue
import shutil
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlashape as xs
from xlashape.reports.maps import maps

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "clients" / "typescript"
ATTENTION = ROOT / "xlashape" / "data" / "attention.hlo.pb"
TILED = "bf16[3000,4000]{1,0:T(8,128)(2,1)}"
COUNT = 600_000
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip


def _lacking() -> str | None:
    for name in ("node", "npm"):
        if shutil.which(name) is None:
            return f"{name} is not installed"
    if not any(map(shutil.which, BROWSERS)):
        return "Chromium is not installed"
    missing = [name for name in ("uvicorn",) if importlib.util.find_spec(name) is None]
    return f"the extra `web` is not installed: {', '.join(missing)}" if missing else None


class _Pages(http.server.SimpleHTTPRequestHandler):
    """Serves the files of the client and the module, and receives the results that a page posts."""

    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript"}

    def __init__(self, results: queue.Queue[Any], service: str, *arguments: Any) -> None:
        self._results = results
        self._service = service
        super().__init__(*arguments, directory=str(CLIENT))

    def translate_path(self, path: str) -> str:
        return str(ATTENTION) if path == "/attention.hlo.pb" else super().translate_path(path)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.startswith("/xlashape.v1."):
            self._hand_on(body)
            return
        self._results.put(json.loads(body))
        self.send_response(204)
        self.end_headers()

    def _hand_on(self, body: bytes) -> None:
        """Asks the service, which is at another address."""
        connection = http.client.HTTPConnection(self._service, timeout=60)
        connection.request("POST", self.path, body, {"Content-Type": self.headers["Content-Type"]})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers["Content-Type"])
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with contextlib.suppress(OSError):  # the page has ended the call
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the base class gives it
        """Suppresses log lines."""


@contextmanager
def _pages(service: str) -> Generator[tuple[str, queue.Queue[Any]], None, None]:
    results: queue.Queue[Any] = queue.Queue()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Pages, results, service))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", results
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def _browser(url: str, profile: Path) -> Generator[None, None, None]:
    program = next(filter(None, map(shutil.which, BROWSERS)))
    with (profile / "log").open("w") as log:
        process = subprocess.Popen([program, *OPTIONS, f"--user-data-dir={profile}", url], stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if os.environ.get("CI") != "true":
        pytest.skip("installs npm packages; set CI=true to run it")
    reason = _lacking()
    if reason is not None:
        pytest.fail(reason)
    from xlashape_server import Config, Server

    cache = Path(os.environ.get("XLASHAPE_BUILD_CACHE") or tmp_path_factory.mktemp("cache"))
    for command in (
        ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"],
        ["npm", "run", "build"],
    ):
        if command[1] == "ci" and (CLIENT / "node_modules" / ".package-lock.json").exists():
            continue
        made = subprocess.run(
            command,
            cwd=CLIENT,
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"npm_config_cache": str(cache / "npm")},
        )
        assert made.returncode == 0, made.stdout + made.stderr
    config = Config(address="127.0.0.1:0", http="127.0.0.1:0", workers=1, log_level="error")
    profile = tmp_path_factory.mktemp("profile")
    with (
        Server(config) as server,
        _pages(server.http_address) as (origin, results),
        _browser(f"{origin}/test/browser/index.html", profile),
    ):
        found = results.get(timeout=120)
    assert "error" not in found, found["error"]
    return found


def test_a_page_gets_the_answers_of_the_library(answers: dict[str, Any]) -> None:
    found = answers["connect"]
    shape = xs.Shape.parse(TILED)
    numbers = np.arange(COUNT) * 7919
    positions = xs.tiling.linear_indices(shape, np.stack([numbers % 3000, numbers % 4000], axis=1))
    module = xs.HloModule.load(ATTENTION)
    assert found["size"]["logicalBytes"] == str(xs.shape_util.byte_size_of(shape))
    assert found["sum"] == str(int(positions.sum()))
    assert found["isSame"]
    assert found["content"] == ATTENTION.stat().st_size
    assert not found["sent"]
    assert found["names"] == [
        instruction.name for computation in module.computations for instruction in computation.instructions
    ]
    assert found["mapped"] == [row.instruction for row in maps(module)]
    assert found["map"] == ["-1", "1"]
    assert found["closed"]


def test_a_page_gets_errors_with_details(answers: dict[str, Any]) -> None:
    found = answers["connect"]
    assert (
        found["parse"].items()
        >= {"code": "INVALID_ARGUMENT", "reason": "PARSE", "field": "shape.text", "line": 1, "column": 8}.items()
    )
    assert (
        found["index"].items()
        >= {"code": "INVALID_ARGUMENT", "reason": "INVALID_INDEX", "field": "indices[1000001]"}.items()
    )
    assert found["deadline"]["code"] == "DEADLINE_EXCEEDED"
    assert found["aborted"]["code"] == "CANCELLED"
    assert found["nobody"]["code"] == "UNAVAILABLE"
