"""Emulators of Google's and Azure's object stores: processes that keep objects in a folder. `.ci/cloud-emulators`
installs their programs.

with FakeGcsServer(folder) as emulator:
    emulator.make_bucket("bucket")
    os.environ.update(emulator.environments["account"])     # now gs://bucket/prefix leads there
    emulator.stop(); emulator.start()           # at the same port, with the same objects
"""

from __future__ import annotations

import base64
import hmac
import http.client
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from email.utils import formatdate
from pathlib import Path
from urllib.parse import unquote, urlencode

from optional import without

__all__ = ["EMULATORS", "Azurite", "Emulator", "FakeGcsServer"]

_START_SECONDS = 60.0


class Emulator:
    """An emulator, and how its process is started and stopped."""

    scheme = ""
    program = ""

    def __init__(self, folder: Path) -> None:
        cache = os.environ.get("XLASHAPE_BUILD_CACHE", "")
        path = os.pathsep.join([*([f"{cache}/bin"] if cache else []), os.environ.get("PATH", os.defpath)])
        found = shutil.which(self.program, path=path)
        if found is None:
            without(f"{self.program} is not installed: .ci/cloud-emulators does that")
        self._program = found
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the emulator's process, and returns once it answers."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, *self._arguments()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                start_new_session=True,
            )
        end = time.monotonic() + _START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > end:
                    self.stop()
                    raise RuntimeError((self._folder / "log").read_text()[-2000:]) from None
                time.sleep(0.05)

    def stop(self) -> None:
        """Ends the emulator's process. The objects that it stores are there again after `start`."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGINT)  # both emulators then write their objects to the folder
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def make_bucket(self, name: str) -> None:
        """Makes an empty bucket."""
        raise NotImplementedError

    @property
    def environments(self) -> dict[str, dict[str, str]]:
        """Name of a way to configure clients → the environment variables with which URLs of `scheme` lead to this
        emulator."""
        raise NotImplementedError

    def _arguments(self) -> list[str]:
        raise NotImplementedError

    def _ask(self, verb: str, path: str, body: bytes, headers: dict[str, str]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(verb, path, body, headers)
            answer = connection.getresponse()
            told = answer.read().decode(errors="replace")
        finally:
            connection.close()
        assert answer.status in (200, 201), (answer.status, told)

    def __enter__(self) -> Emulator:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


class FakeGcsServer(Emulator):
    """The emulator https://github.com/fsouza/fake-gcs-server, behind a proxy that turns uploads of the XML API into
    uploads of the JSON API.

    obstore speaks the XML API. The emulator has objects, listings and deletions of that API, but takes uploads in the
    JSON API only.
    """

    scheme = "gs"
    program = "fake-gcs-server"

    def start(self) -> None:
        super().start()
        handler = type("Own", (_Door,), {"port": self.port})
        self._door = _DoorServer(("127.0.0.1", self._door_port), handler)
        self._door_port = self._door.server_port
        threading.Thread(target=self._door.serve_forever, daemon=True).start()

    def stop(self) -> None:
        if self._door is not None:
            self._door.shutdown()
            self._door.server_close()
            self._door = None
        super().stop()

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._door: _DoorServer | None = None
        self._door_port = 0

    @property
    def environments(self) -> dict[str, dict[str, str]]:
        url = f"http://127.0.0.1:{self._door_port}"
        account = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
        return {
            "account": {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps({**account, "gcs_base_url": url})},
            "base_url": {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account), "GOOGLE_BASE_URL": url},
        }

    def _arguments(self) -> list[str]:
        here = f"127.0.0.1:{self.port}"
        address = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(self.port), "-public-host", here]
        return [*address, "-backend", "filesystem", "-filesystem-root", str(self._folder / "objects")]

    def make_bucket(self, name: str) -> None:
        body = json.dumps({"name": name}).encode()
        self._ask("POST", "/storage/v1/b?project=test", body, {"Content-Type": "application/json"})


class _Door(http.server.BaseHTTPRequestHandler):
    """The proxy before fake-gcs-server. It hands on every request as it is, except PUT of an object."""

    protocol_version = "HTTP/1.1"
    port: int

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        verb, path = self.command, self.path
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        if verb == "PUT":
            bucket, _, name = path[1:].partition("/")
            query = {"uploadType": "media", "name": unquote(name)}
            condition = self.headers.get("x-goog-if-generation-match")
            if condition is not None:
                query["ifGenerationMatch"] = condition
            verb, path = "POST", f"/upload/storage/v1/b/{bucket}/o?{urlencode(query)}"
        inner = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            inner.request(verb, path, body, headers)
            answer = inner.getresponse()
            content, told = answer.read(), dict(answer.getheaders())
        finally:
            inner.close()
        if self.command == "PUT" and answer.status == 200:
            stored = json.loads(content)
            told, content = {"ETag": stored["etag"], "x-goog-generation": stored["generation"]}, b""
        self.send_response(answer.status)
        for key, value in told.items():
            if key.lower() not in ("content-length", "transfer-encoding", "connection", "date"):
                self.send_header(key, value)
        self.send_header("Content-Length", str(told.get("Content-Length", 0) if verb == "HEAD" else len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_DELETE = do_POST = handle_any  # noqa: N815 (names of the library)

    def log_message(self, *_: object) -> None:
        pass


class _DoorServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing is written about an emulator that has ended: the caller finds its connection closed."""


class Azurite(Emulator):
    """The emulator https://github.com/Azure/Azurite."""

    scheme = "az"
    program = "azurite-blob"
    account = "devstoreaccount1"
    # The key of every Azurite, which its documentation publishes.
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        url = f"http://127.0.0.1:{self.port}"
        account = {"AZURE_STORAGE_ACCOUNT_NAME": self.account, "AZURE_STORAGE_ACCOUNT_KEY": self.key}
        self._environments = {
            "account": {**account, "AZURE_STORAGE_ENDPOINT": f"{url}/{self.account}"},
            "emulator": {"AZURE_STORAGE_USE_EMULATOR": "true", "AZURITE_BLOB_STORAGE_URL": url},
        }

    @property
    def environments(self) -> dict[str, dict[str, str]]:
        return self._environments

    def _arguments(self) -> list[str]:
        address = ["--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--location", str(self._folder / "objects")]
        return [*address, "--silent", "--disableTelemetry"]

    def make_bucket(self, name: str) -> None:
        date, version = formatdate(usegmt=True), "2021-08-06"
        resource = f"/{self.account}/{self.account}/{name}\nrestype:container"
        signed = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{version}\n{resource}"
        digest = hmac.digest(base64.b64decode(self.key), signed.encode(), "sha256")
        headers = {
            "x-ms-date": date,
            "x-ms-version": version,
            "Authorization": f"SharedKey {self.account}:{base64.b64encode(digest).decode()}",
        }
        self._ask("PUT", f"/{self.account}/{name}?restype=container", b"", headers)


EMULATORS: tuple[type[Emulator], ...] = (FakeGcsServer, Azurite)
