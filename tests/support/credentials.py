"""Makes the content of files of credentials, as the server's setting `auth` names them."""

from __future__ import annotations

import hashlib

__all__ = ["BOTH", "READER", "WRITER", "digest", "tokens"]
READER, WRITER = "reader-" + "a" * 32, "writer-" + "b" * 32


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def tokens(**names: tuple[str, str]) -> str:
    return "".join(
        f'[[token]]\nname = "{name}"\nsha256 = "{digest(token)}"\naccess = "{access}"\n'
        for name, (token, access) in names.items()
    )


BOTH = tokens(ann=(READER, "read"), bob=(WRITER, "write"))
