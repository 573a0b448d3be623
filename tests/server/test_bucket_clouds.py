"""Buckets of Google and Azure: their configuration in environment variables, a module that is stored and read, and the
errors of a wrong bucket.

The bucket is a small HTTP server in this process. It keeps objects as both services do: an object is created once, by
requests with a condition in a header.
"""

from __future__ import annotations

import http.server
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from bucket_stores import no_cloud, put, replica

from xlashape.errors import NotFoundError, UnavailableError
from xlashape_server import store as stores

pytest.importorskip("obstore", reason="obstore is not installed")

MODULE = "modules/" + "0" * 64


class Cloud(http.server.BaseHTTPRequestHandler):
    """A server with one bucket of the name `bucket`; or one that gives the same answer to every request."""

    protocol_version = "HTTP/1.1"
    objects: dict[str, bytes]
    answer: tuple[int, str] | None
    conditions: list[str]

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = unquote(urlsplit(self.path).path)
        if self.answer is not None:
            return self.say(*self.answer)
        if not path.startswith("/bucket"):
            return self.say(404, "<Error><Code>NoSuchBucket</Code><Message>There is no such bucket.</Message></Error>")
        if self.command == "PUT":
            condition = self.headers.get("if-none-match") or self.headers.get("x-goog-if-generation-match")
            self.conditions.append(str(condition))
            if condition is not None and path in self.objects:
                return self.say(
                    409 if condition == "*" else 412,
                    "<Error><Code>AlreadyExists</Code><Message>Is there.</Message></Error>",
                )
            self.objects[path] = body
            return self.say(201)
        if "comp=batch" in self.path:  # the client of Azure deletes objects with batch requests
            deleted = unquote(body.decode().partition("DELETE ")[2].partition(" ")[0]).partition("?")[0]
            self.objects.pop(deleted, None)
            part = "--b\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\nHTTP/1.1 202 Accepted\r\n\r\n"
            return self.say(202, f"{part}\r\n--b--\r\n", "multipart/mixed; boundary=b")
        if "comp=list" in self.path:
            return self.say(200, "<EnumerationResults><Blobs/><NextMarker/></EnumerationResults>")
        if "list-type" in self.path:
            return self.say(200, "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
        found = self.objects.get(path)
        if found is None:
            return self.say(404, "<Error><Code>NoSuchKey</Code><Message>There is no such object.</Message></Error>")
        if self.command == "DELETE":
            del self.objects[path]
            return self.say(202)
        return self.say(200, found)

    do_GET = do_HEAD = do_PUT = do_DELETE = do_POST = handle_any  # noqa: N815 (names of the library)

    def say(self, status: int, body: str | bytes = b"", kind: str = "application/xml") -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in (
            ("content-type", kind),
            ("content-length", str(len(data))),
            ("etag", '"1"'),
            ("last-modified", "Sun, 01 Feb 2026 10:00:00 GMT"),
            ("x-goog-generation", "1"),
        ):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def cloud() -> Iterator[tuple[str, type[Cloud]]]:
    kind = type("Own", (Cloud,), {"objects": {}, "answer": None, "conditions": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", kind
    server.shutdown()
    server.server_close()


@pytest.fixture(params=["gs", "az"])
def scheme(request: pytest.FixtureRequest, cloud: tuple[str, type[Cloud]], monkeypatch: pytest.MonkeyPatch) -> str:
    no_cloud(monkeypatch)
    if request.param == "gs":
        account = {"gcs_base_url": cloud[0], "disable_oauth": True, "client_email": "", "private_key": ""}
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps({**account, "private_key_id": ""}))
    else:
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", cloud[0])
    return str(request.param)


def test_a_module_goes_there_and_back(tmp_path: Path, scheme: str, cloud: tuple[str, type[Cloud]]) -> None:
    url = f"{scheme}://bucket/some/prefix"
    content = os.urandom(100_000)
    first, second = replica(tmp_path, "1", url), replica(tmp_path, "2", url)
    first.check_shared()
    stored, was_there = put(first, content)
    assert not was_there
    [path] = cloud[1].objects
    assert path.startswith("/bucket/some/prefix/v2/")
    assert second.read(stored.name) == content
    assert put(replica(tmp_path, "3", url), content)[1]
    # Objects are only created, never written over.
    assert set(cloud[1].conditions) == {"0" if scheme == "gs" else "*"}
    second.delete(stored.name)
    assert not cloud[1].objects
    with pytest.raises(NotFoundError, match="there is no module"):
        replica(tmp_path, "4", url).read(stored.name)


def test_a_bucket_that_is_missing_is_told(tmp_path: Path, scheme: str, cloud: tuple[str, type[Cloud]]) -> None:
    store = replica(tmp_path, "1", f"{scheme}://other/prefix")
    for question in (
        lambda: put(store, b"abc"),
        lambda: store.read(MODULE),
        lambda: store.find(MODULE),
        lambda: store.delete(MODULE),
        store.check_shared,
    ):
        with pytest.raises(UnavailableError, match="there is no such bucket: NoSuchBucket: There is no such bucket"):
            question()


def test_a_bucket_that_has_gone_takes_nothing_from_the_cache(
    tmp_path: Path, scheme: str, cloud: tuple[str, type[Cloud]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = replica(tmp_path, "1", f"{scheme}://bucket/prefix")
    stored, _ = put(store, b"abc")
    monkeypatch.setattr(stores, "_TRUST_SECONDS", 0.0)
    gone = "<Error><Code>NoSuchBucket</Code><Message>There is no such bucket.</Message></Error>"
    cloud[1].answer = 404, gone
    for _ in range(2):
        assert store.read(stored.name) == b"abc"
    cloud[1].answer = None
    cloud[1].objects.clear()  # the bucket is there again, without the object
    with pytest.raises(NotFoundError):
        store.read(stored.name)


@pytest.mark.parametrize("status", [401, 403])
def test_a_bucket_that_refuses_access_is_told(
    tmp_path: Path, scheme: str, cloud: tuple[str, type[Cloud]], status: int
) -> None:
    cloud[1].answer = status, json.dumps({"error": {"code": status, "message": "account has no permission"}})
    store = replica(tmp_path, "1", f"{scheme}://bucket/prefix")
    for question in (lambda: put(store, b"abc"), lambda: store.read(MODULE), store.check_shared):
        with pytest.raises(UnavailableError, match="the bucket refuses access: account has no permission"):
            question()


@pytest.mark.parametrize(
    ("url", "environment", "message"),
    [
        ("az://bucket/x", {}, "the bucket cannot be used: .*Account must be specified"),
        ("gs://bucket/x", {"GOOGLE_SERVICE_ACCOUNT": "/absent.json"}, "the bucket cannot be used: .*/absent.json"),
        ("gs://bucket/x", {"GOOGLE_SERVICE_ACCOUNT_KEY": "no JSON"}, "the bucket cannot be used: "),
    ],
)
def test_what_is_missing_in_the_environment_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, environment: dict[str, str], message: str
) -> None:
    no_cloud(monkeypatch)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UnavailableError, match=message):
        replica(tmp_path, "1", url)
