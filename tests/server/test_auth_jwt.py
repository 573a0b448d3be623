"""JSON Web Tokens: which are accepted, and with which keys."""

from __future__ import annotations

import base64
import contextlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

import jwt_issuer
import pytest
from server_processes import wait_until

from xlashape.errors import (
    InvalidArgumentError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from xlashape_server import Config
from xlashape_server.auth import Credentials, Gate, check
from xlashape_server.callers import Caller


class Issuer(jwt_issuer.Issuer):
    """An issuer, and the gate that admits its tokens."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.gate = Gate(Config(auth=self.auth))

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
    issuer.publish(new.public)

    def is_known() -> bool:
        with contextlib.suppress(UnauthenticatedError):
            return bool(issuer.identity(new.token()))
        return False

    wait_until(is_known)
    with pytest.raises(UnauthenticatedError):
        issuer.identity(old)
