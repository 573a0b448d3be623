"""An issuer of JSON Web Tokens, for the setting `auth`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Issuer"]


class Issuer:
    """An issuer of tokens, whose public keys are in `jwks.json` beside `auth.toml`, which is the setting `auth`."""

    def __init__(self, folder: Path) -> None:
        jwt = pytest.importorskip("jwt", reason="PyJWT is not installed")
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

        self.folder = folder
        self.auth = str(folder / "auth.toml")
        self.keys = {
            "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
            "ES256": ec.generate_private_key(ec.SECP256R1()),
            "EdDSA": ed25519.Ed25519PrivateKey.generate(),
        }
        self.public: list[dict[str, Any]] = []
        for name, key in self.keys.items():
            found = jwt.get_algorithm_by_name(name).to_jwk(key.public_key(), as_dict=True)
            self.public.append({**found, "kid": name, "use": "sig"})
        self.publish(self.public)
        Path(self.auth).write_text(
            '[jwt]\nkeys = "jwks.json"\nissuer = "https://issuer.example"\naudience = "xlashape"\n'
        )

    def publish(self, public: list[dict[str, Any]]) -> None:
        """Replaces the public keys."""
        new = self.folder / "jwks.json.new"
        new.write_text(json.dumps({"keys": public}))
        new.replace(self.folder / "jwks.json")

    @staticmethod
    def now() -> float:
        """The issuer's time, in seconds since 1970."""
        return time.time()

    def token(
        self, algorithm: str = "RS256", *, key: Any = None, headers: dict[str, str] | None = None, **claims: Any
    ) -> str:
        """A token for ann that holds for five minutes, unless `claims` say otherwise."""
        import jwt

        usual = {"iss": "https://issuer.example", "aud": "xlashape", "sub": "ann", "exp": time.time() + 300}
        found = {name: value for name, value in (usual | claims).items() if value is not None}
        return jwt.encode(found, key or self.keys[algorithm], algorithm, headers or {"kid": algorithm})
