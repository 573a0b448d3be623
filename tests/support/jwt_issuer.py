"""An issuer of JSON Web Tokens for tests."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.support.optional import needed_in_ci

__all__ = ["Issuer"]


class Issuer:
    """An issuer of tokens. `content` is the JWKS document with its public keys."""

    def __init__(self) -> None:
        jwt = needed_in_ci("jwt")
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

        self.keys = {
            "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
            "ES256": ec.generate_private_key(ec.SECP256R1()),
            "EdDSA": ed25519.Ed25519PrivateKey.generate(),
        }
        self.public: list[dict[str, Any]] = []
        for name, key in self.keys.items():
            found = jwt.get_algorithm_by_name(name).to_jwk(key.public_key(), as_dict=True)
            self.public.append({**found, "kid": name, "use": "sig"})
        self.content = json.dumps({"keys": self.public}).encode()

    def token(
        self, algorithm: str = "RS256", *, key: Any = None, headers: dict[str, str] | None = None, **claims: Any
    ) -> str:
        """A token for ann that holds for five minutes, unless `claims` say otherwise."""
        import jwt

        usual = {"iss": "https://issuer.example", "aud": "xlashape", "sub": "ann", "exp": time.time() + 300}
        found = {name: value for name, value in (usual | claims).items() if value is not None}
        return jwt.encode(found, key or self.keys[algorithm], algorithm, headers or {"kid": algorithm})
