"""Who may ask: tokens, JWTs, certificates, read and write apart, quotas, and the lines about what was changed."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import http.client
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from awaited_client import AwaitedClient
from grpc_health.v1 import health_pb2, health_pb2_grpc
from server_processes import ServerProcess, wait_until

from xlashape.errors import (
    InvalidArgumentError,
    LimitExceededError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from xlashape.proto import xla
from xlashape_client import Client
from xlashape_server import Config, Server, accounts
from xlashape_server.accounts import Account, Quota
from xlashape_server.auth import NOTHING, Credentials, Gate, check
from xlashape_server.callers import Caller

TILED = "f32[3,5]{1,0:T(2,2)}"
READER, WRITER = "reader-" + "a" * 32, "writer-" + "b" * 32


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def tokens(**names: tuple[str, str]) -> str:
    return "".join(
        f'[[token]]\nname = "{name}"\nsha256 = "{digest(token)}"\naccess = "{access}"\n'
        for name, (token, access) in names.items()
    )


BOTH = tokens(ann=(READER, "read"), bob=(WRITER, "write"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("auth") / "auth.toml"
    path.write_text(BOTH)
    config = Config(address="127.0.0.1:0", workers=1, auth=str(path), log_level="error")
    with Server(config) as running:
        yield running


@pytest.fixture(params=[Client, AwaitedClient])
def kind(request: pytest.FixtureRequest) -> type[Client]:
    """The blocking client; the one for asyncio, driven like the blocking one."""
    return request.param


def test_a_token_that_is_known_may_ask(server: Server, kind: type[Client]) -> None:
    for token in (READER, lambda: WRITER):
        with kind(server.address, token=token) as client:
            assert client.linear_index(TILED, (2, 3)) == 17
            assert client.evaluate_map_batch("(d0) -> (d0), domain: d0 in [0, 9]", [[3]] * 300_000)[1].all()


def test_a_token_may_be_awaited(server: Server) -> None:
    async def token() -> str:
        await asyncio.sleep(0)
        return READER

    with AwaitedClient(server.address, token=token) as client:
        assert client.linear_index(TILED, (2, 3)) == 17
        with pytest.raises(NotFoundError):
            list(client.indexing_maps("modules/" + "0" * 64))


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (None, "a bearer token is missing"),
        ("wrong", "the bearer token is not known"),
        (digest(READER), "the bearer token is not known"),
        ("a.b.c", "the bearer token is not known"),
        ("", "authorization: expected Bearer and a token"),
        ("x" * 8193, "authorization: expected Bearer and a token|metadata"),
    ],
    ids=["none", "wrong", "digest", "jwt", "empty", "long"],
)
def test_others_may_not(server: Server, kind: type[Client], token: str | None, message: str) -> None:
    with kind(server.address, token=token) as client:
        with pytest.raises((UnauthenticatedError, LimitExceededError), match=message):
            client.linear_index(TILED, (2, 3))
        with pytest.raises((UnauthenticatedError, LimitExceededError), match=message):
            list(client.indexing_maps("modules/" + "0" * 64))


def test_the_status_of_a_refusal_has_details(server: Server) -> None:
    with grpc.insecure_channel(server.address) as channel:
        connected: Any = channel
        call = connected.unary_unary("/xlashape.v1.ShapeService/ByteSize")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", timeout=10)
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.UNAUTHENTICATED
    assert any(key == "grpc-status-details-bin" for key, _ in error.trailing_metadata())


def test_who_may_read_may_not_write(server: Server, module: xla.HloModuleProto) -> None:
    with Client(server.address, token=READER) as reader, Client(server.address, token=WRITER) as writer:
        with pytest.raises(
            PermissionDeniedError, match="token:ann may read, and HloService/UploadModule needs the access write"
        ):
            reader.upload_module(module.SerializeToString())
        with pytest.raises(PermissionDeniedError, match="HloService/PutModule"):
            reader.put_module(module.SerializeToString())
        stored = writer.upload_module(module.SerializeToString())
        assert reader.get_module(stored.name).name == stored.name
        with pytest.raises(PermissionDeniedError, match="HloService/DeleteModule"):
            reader.delete_module(stored.name)
        writer.delete_module(stored.name)


def test_health_needs_no_credentials(server: Server) -> None:
    with grpc.insecure_channel(server.address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        assert stub.Check(health_pb2.HealthCheckRequest(), timeout=10).status == 1


def test_reflection_needs_credentials(server: Server) -> None:
    from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

    with grpc.insecure_channel(server.address) as channel:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        with pytest.raises(grpc.RpcError) as caught:
            next(stub.ServerReflectionInfo(iter([asked]), timeout=10))
        error: Any = caught.value
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        metadata = (("authorization", f"Bearer {READER}"),)
        assert next(
            stub.ServerReflectionInfo(iter([asked]), timeout=10, metadata=metadata)
        ).list_services_response.service


def test_the_command_line_takes_the_token_of_a_variable(server: Server) -> None:
    from click.testing import CliRunner

    from xlashape.cli import main

    command = ["index", TILED, "2,3", "--server", server.address]
    refused = CliRunner().invoke(main, command)
    assert refused.exit_code
    assert "a bearer token is missing" in refused.output
    assert CliRunner(env={"XLASHAPE_TOKEN": READER}).invoke(main, command).output.strip().startswith("17")


# HTTP


def test_http_has_the_same_rules(tmp_path: Path) -> None:
    pytest.importorskip("connectrpc", reason="connectrpc needs Python 3.11")
    pytest.importorskip("hypercorn", reason="hypercorn is not installed")
    path = tmp_path / "auth.toml"
    path.write_text(BOTH)
    config = Config(address="127.0.0.1:0", http="127.0.0.1:0", workers=1, auth=str(path), log_level="error")
    with Server(config) as running:

        def ask(rpc: str, token: str | None, method: str = "POST") -> tuple[int, dict[str, str], Any]:
            connection = http.client.HTTPConnection(running.http_address, timeout=20)
            headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
            path, body = f"/xlashape.v1.{rpc}", "{}"
            if method == "GET":
                path, body = f"{path}?connect=v1&encoding=json&message=%7B%7D", ""
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            found = response.status, {k.lower(): v for k, v in response.getheaders()}, json.loads(response.read())
            connection.close()
            return found

        status, headers, answer = ask("ShapeService/ByteSize", None)
        assert (status, headers["www-authenticate"], answer["code"]) == (401, "Bearer", "unauthenticated")
        assert ask("ShapeService/ByteSize", "wrong")[0] == 401
        assert ask("ShapeService/ByteSize", READER)[0] == 200
        status, headers, _ = ask("ShapeService/ByteSize", READER, "GET")
        assert (status, headers["cache-control"], headers["vary"]) == (200, "private, max-age=3600", "Authorization")
        status, _, answer = ask("HloService/PutModule", READER)
        assert (status, answer["code"]) == (403, "permission_denied")
        assert ask("HloService/PutModule", WRITER)[2]["code"] == "invalid_argument"


# The file


def test_the_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "auth.toml"
    path.write_text(BOTH)
    gate = Gate(Config(auth=str(path)))
    caller = Caller("ipv4:192.0.2.7", "ipv4:192.0.2.7:1234")

    def is_known(token: str) -> bool:
        with contextlib.suppress(UnauthenticatedError):
            gate.admit("ShapeService/ByteSize", caller, Credentials(f"Bearer {token}"))
            return True
        return False

    assert (is_known(READER), is_known("new")) == (True, False)
    path.write_text(tokens(new=("new", "read")))
    wait_until(lambda: is_known("new"))
    assert not is_known(READER)
    path.write_text("[[token")  # cannot be used: the old one stays
    time.sleep(1.2)
    assert is_known("new")
    path.unlink()
    time.sleep(1.2)
    assert is_known("new")
    path.write_text(BOTH)
    wait_until(lambda: is_known(READER))
    assert not is_known("new")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file admits no caller: expected"),
        ("[", "not TOML"),
        ("[token]\nname = 'a'", r"token: expected \[\[token\]\], with two brackets"),
        ("[[token]]\nname = 'a'\naccess = 'read'", r"token\[0\].sha256: expected a text"),
        (
            "[[token]]\nname = 'a'\nsha256 = 'secret'\naccess = 'read'",
            r"token\[0\].sha256: expected 64 hexadecimal digits",
        ),
        (BOTH.replace('"write"', '"all"'), r"token\[1\].access: expected read or write, found 'all'"),
        (BOTH + BOTH, r"token\[2\].sha256: another token has the same"),
        (BOTH + "[qouta]\n", "there is no 'qouta'; expected token, jwt"),
        (BOTH + "[quota]\ncalls = 3\n", "quota: there is no 'calls'"),
        (BOTH + "[quota]\ncalls_per_second = 0\n", "quota.calls_per_second: expected a number above 0, found 0"),
        (BOTH + "[quota]\nstored_bytes = 'much'\n", "quota.stored_bytes: expected bytes such as 64MiB, found 'much'"),
        (BOTH + "[jwt]\nkeys = 'absent.json'\nissuer = 'i'\naudience = 'a'\n", "absent.json cannot be read"),
        (BOTH + "[jwt]\nkeys = 'auth.toml'\nissuer = 'i'\naudience = 'a'\n", "is no JWKS that can be used"),
        ("[anonymous]\n", "anonymous.access: expected a text"),
    ],
)
def test_what_is_wrong_in_the_file_is_named_before_the_server_starts(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "auth.toml"
    path.write_text(text)
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        Server(Config(address="127.0.0.1:0", auth=str(path))).start()
    assert caught.value.field == "auth"


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="auth: .*absent.toml' cannot be read"):
        Server(Config(address="127.0.0.1:0", auth=str(tmp_path / "absent.toml"))).start()


def test_everybody_may_read_if_the_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "auth.toml"
    path.write_text(BOTH + '[anonymous]\naccess = "read"\n')
    gate = Gate(Config(auth=str(path)))
    caller = Caller("ipv4:192.0.2.7", "ipv4:192.0.2.7:1234")
    assert gate.admit("ShapeService/ByteSize", caller, NOTHING)[0] == caller
    with pytest.raises(PermissionDeniedError, match="ipv4:192.0.2.7 may read"):
        gate.admit("HloService/PutModule", caller, NOTHING)
    with pytest.raises(UnauthenticatedError):  # who shows a token means it
        gate.admit("ShapeService/ByteSize", caller, Credentials("Bearer wrong"))
    for scheme in ("Basic YTpi", "Bearer", "bearer ", READER):
        with pytest.raises(UnauthenticatedError, match="expected Bearer and a token"):
            gate.admit("ShapeService/ByteSize", caller, Credentials(scheme))


# JWT


class Issuer:
    """An issuer of tokens, whose public keys are in `jwks.json` beside `auth.toml`."""

    def __init__(self, folder: Path) -> None:
        jwt = pytest.importorskip("jwt", reason="PyJWT is not installed")
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

        self.folder = folder
        self.keys = {
            "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
            "ES256": ec.generate_private_key(ec.SECP256R1()),
            "EdDSA": ed25519.Ed25519PrivateKey.generate(),
        }
        self.public: list[dict[str, Any]] = []
        for name, key in self.keys.items():
            found = jwt.get_algorithm_by_name(name).to_jwk(key.public_key(), as_dict=True)
            self.public.append({**found, "kid": name, "use": "sig"})
        (folder / "jwks.json").write_text(json.dumps({"keys": self.public}))
        (folder / "auth.toml").write_text(
            '[jwt]\nkeys = "jwks.json"\nissuer = "https://issuer.example"\naudience = "xlashape"\n'
        )
        self.gate = Gate(Config(auth=str(folder / "auth.toml")))

    def token(
        self, algorithm: str = "RS256", *, key: Any = None, headers: dict[str, str] | None = None, **claims: Any
    ) -> str:
        import jwt

        usual = {"iss": "https://issuer.example", "aud": "xlashape", "sub": "ann", "exp": time.time() + 300}
        found = {name: value for name, value in (usual | claims).items() if value is not None}
        return jwt.encode(found, key or self.keys[algorithm], algorithm, headers or {"kid": algorithm})

    def identity(self, token: str, rpc: str = "ShapeService/ByteSize") -> str:
        return self.gate.admit(rpc, Caller("a", "a:1"), Credentials(f"Bearer {token}"))[0].identity


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("issuer"))


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_jwt_of_the_issuer_is_known(issuer: Issuer, algorithm: str) -> None:
    token = issuer.token(algorithm)
    assert issuer.identity(token) == "jwt:ann"
    assert issuer.identity(token) == "jwt:ann"  # remembered
    with pytest.raises(PermissionDeniedError, match="jwt:ann may read"):
        issuer.identity(token, "HloService/PutModule")
    for scope in ("openid xlashape.write", ["xlashape.write"]):
        assert issuer.identity(issuer.token(algorithm, scope=scope), "HloService/PutModule") == "jwt:ann"


def test_a_jwt_without_the_name_of_its_key_is_tried_with_all(issuer: Issuer) -> None:
    import jwt

    token = jwt.encode(
        {"iss": "https://issuer.example", "aud": "xlashape", "sub": "bob", "exp": time.time() + 60},
        issuer.keys["ES256"],
        "ES256",
    )
    assert issuer.identity(token) == "jwt:bob"


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"exp": 1}, "expired"),
        ({"exp": None}, 'missing the "exp" claim'),
        ({"iss": "https://evil.example"}, "issuer"),
        ({"aud": "other"}, "[Aa]udience"),
        ({"aud": None}, 'missing the "aud" claim'),
        ({"sub": None}, 'missing the "sub" claim'),
        ({"sub": ""}, "sub: expected a text"),
        ({"nbf": time.time() + 9999}, "not yet valid"),
    ],
)
def test_a_jwt_that_is_not_valid_is_refused(issuer: Issuer, claims: dict[str, Any], message: str) -> None:
    with pytest.raises(UnauthenticatedError, match=message):
        issuer.identity(issuer.token(**claims))


def symmetric(claims: dict[str, Any], secret: bytes) -> str:
    def coded(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    head = {"alg": "HS256", "typ": "JWT", "kid": "RS256"}
    signed = ".".join(coded(json.dumps(part).encode()) for part in (head, claims))
    return f"{signed}.{coded(hmac.digest(secret, signed.encode(), 'sha256'))}"


def test_a_jwt_that_others_signed_is_refused(issuer: Issuer) -> None:
    import jwt
    from cryptography.hazmat.primitives.asymmetric import rsa

    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    claims = {"iss": "https://issuer.example", "aud": "xlashape", "sub": "ann", "exp": time.time() + 300}
    forged = [
        issuer.token(key=other),
        issuer.token(headers={"kid": "unknown"}),
        issuer.token("ES256", headers={"kid": "RS256"}),
        jwt.encode(claims, "", "none"),
        jwt.encode(claims, "", "none", {"kid": "RS256"}),
        # The public key, which everybody knows, as the secret of a symmetric signature.
        symmetric(claims, json.dumps(issuer.public[0]).encode()),
        issuer.token()[:-4] + "AAAA",
        "a.b.c",
        "..",
    ]
    for token in forged:
        with pytest.raises(UnauthenticatedError):
            issuer.identity(token)


def test_symmetric_keys_are_not_taken(tmp_path: Path) -> None:
    pytest.importorskip("jwt", reason="PyJWT is not installed")
    (tmp_path / "jwks.json").write_text(
        json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"}]})
    )
    (tmp_path / "auth.toml").write_text('[jwt]\nkeys = "jwks.json"\nissuer = "i"\naudience = "a"\n')
    with pytest.raises(InvalidArgumentError, match=r"a key is of the kind oct; expected public keys|no JWKS"):
        check(Config(auth=str(tmp_path / "auth.toml")))


def test_new_keys_count_without_a_restart(tmp_path: Path) -> None:
    issuer = Issuer(tmp_path)
    old = issuer.token()
    assert issuer.identity(old) == "jwt:ann"
    another = tmp_path / "another"
    another.mkdir()
    new = Issuer(another)
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": new.public}))

    def is_known() -> bool:
        with contextlib.suppress(UnauthenticatedError):
            return bool(issuer.identity(new.token()))
        return False

    wait_until(is_known)
    with pytest.raises(UnauthenticatedError):
        issuer.identity(old)


# Certificates


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_certificate_is_an_identity(tmp_path: Path, module: xla.HloModuleProto) -> None:
    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=tmp_path, check=True, capture_output=True)

    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")  # which Python asks for from 3.13 on
    openssl(*new, "-x509", *usage, "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    (tmp_path / "san").write_text("subjectAltName=IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n")
    for name in ("server", "trainer", "stranger"):
        openssl(*new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "san")
        openssl("x509", "-req", "-days", "2", "-in", f"{name}.csr", *signing, "-out", f"{name}.pem")
    (tmp_path / "auth.toml").write_text('[[certificate]]\nname = "trainer"\naccess = "write"\n' + BOTH)
    config = Config(
        address="127.0.0.1:0",
        workers=1,
        tls_certificate=str(tmp_path / "server.pem"),
        tls_key=str(tmp_path / "server.key"),
        tls_client_ca=str(tmp_path / "ca.pem"),
        auth=str(tmp_path / "auth.toml"),
        log_level="error",
    )
    with Server(config) as running:

        def client(name: str, token: str | None = None) -> Client:
            return Client(
                running.address,
                root_certificates=(tmp_path / "ca.pem").read_bytes(),
                private_key=(tmp_path / f"{name}.key").read_bytes(),
                certificate_chain=(tmp_path / f"{name}.pem").read_bytes(),
                token=token,
            )

        with client("trainer") as trainer:
            assert trainer.upload_module(module.SerializeToString()).module_name == "example"
        unknown = pytest.raises(UnauthenticatedError, match=r"the certificate's names \(stranger")
        with client("stranger") as stranger, unknown:
            stranger.linear_index(TILED, (2, 3))
        with client("stranger", READER) as reader:
            assert reader.linear_index(TILED, (2, 3)) == 17


# Quotas and lines


def test_calls_have_a_rate() -> None:
    account = Account("token:ann", Quota(calls_per_second=2))
    for _ in range(20):  # ten seconds' worth at once
        account.take_call()
    with pytest.raises(
        LimitExceededError, match="token:ann has used its quota of 2 calls per second; try again in"
    ) as caught:
        account.take_call()
    assert (caught.value.limit, caught.value.maximum) == ("calls_per_second", 2)
    time.sleep(0.6)
    account.take_call()


def test_time_of_the_processor_has_a_rate() -> None:
    account = Account("token:ann", Quota(cpu_seconds_per_minute=60))
    account.take_call()
    account.used(10.5)  # more than there was: the call that computed it was not stopped
    with pytest.raises(LimitExceededError, match="its quota of 60 CPU seconds per minute") as caught:
        account.take_call()
    assert caught.value.limit == "cpu_seconds_per_minute"


def test_an_identity_whose_account_was_forgotten_has_one_account_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "_MAX_ACCOUNTS", 1)
    path = tmp_path / "auth.toml"
    path.write_text(tokens(ann=("a", "read"), bob=("b", "read")) + "[quota]\ncalls_per_second = 100\n")
    gate = Gate(Config(auth=str(path)))

    def account_of(token: str) -> Account | None:
        return gate.admit("ShapeService/ByteSize", Caller("x", "x:1"), Credentials(f"Bearer {token}"))[1]

    first = account_of("a")
    assert account_of("a") is first  # by its header
    assert account_of("b") is not None  # forgets that of ann
    again = account_of("a")
    assert again is not first
    # The same by another header: the account that the header was remembered with is not used beside a new one.
    caller, account = gate.admit("ShapeService/ByteSize", Caller("x", "x:1"), Credentials("bearer  a"))
    assert (caller.identity, account) == ("token:ann", again)


def test_quotas_are_of_identities(tmp_path: Path, wide: Callable[[int], bytes]) -> None:
    path = tmp_path / "auth.toml"
    quotas = '[quotas."token:bob"]\nstored_bytes = 4000\n[quotas."token:ann"]\ncalls_per_second = 0.5\n'
    path.write_text(BOTH + quotas)
    config = Config(
        address="127.0.0.1:0", workers=1, auth=str(path), store_directory=str(tmp_path / "store"), log_level="error"
    )
    with Server(config) as running, Client(running.address, token=WRITER) as bob:
        first = bob.upload_module(wide(20))
        assert bob.upload_module(wide(20)).name == first.name  # the same content counts once
        with pytest.raises(LimitExceededError, match="token:bob would have .* of 4000 allowed") as caught:
            bob.upload_module(wide(200))
        assert caught.value.limit == "stored_bytes"
        second = next(count for count in range(21, 200) if len(wide(count)) > 4000 - len(wide(20)))
        with pytest.raises(LimitExceededError):
            bob.upload_module(wide(second))
        bob.delete_module(first.name)
        assert bob.upload_module(wide(second)).instruction_count == second
        used = pytest.raises(LimitExceededError, match="token:ann has used its quota of 0.5 calls per second")
        with Client(running.address, token=READER) as ann, used:
            for _ in range(10):
                ann.linear_index(TILED, (2, 3))
        assert bob.linear_index(TILED, (2, 3)) == 17


def test_uploads_and_deletions_have_a_line_at_every_level(tmp_path: Path, module: xla.HloModuleProto) -> None:
    path = tmp_path / "auth.toml"
    path.write_text(BOTH)
    with ServerProcess(Config(address="127.0.0.1:0", workers=1, auth=str(path), log_level="error")) as running:
        with Client(running.event["address"], token=WRITER) as client:
            name = client.upload_module(module.SerializeToString()).name
            client.delete_module(name)

        def lines() -> list[dict[str, Any]]:
            return [line for line in running.lines() if line.get("message") == "changed the store"]

        wait_until(lambda: len(lines()) == 2)
        uploaded, deleted = lines()
        assert (uploaded["rpc"], uploaded["identity"], uploaded["module"]) == (
            "HloService/UploadModule",
            "token:bob",
            name,
        )
        assert uploaded["peer"].startswith("ipv4:127.0.0.1:")
        assert (deleted["rpc"], deleted["identity"], deleted["module"]) == (
            "HloService/DeleteModule",
            "token:bob",
            name,
        )
        assert not any(WRITER in json.dumps(line) for line in running.lines())
