"""Authentication and authorization. The setting `auth` names a file in TOML, which is reloaded when it changes. Without
the setting every caller may call every RPC.

    [[token]]                        # a bearer token: `authorization: Bearer TOKEN`
    name = "ci"
    sha256 = "9f86d081…"             # of the token: printf %s "$TOKEN" | sha256sum
    access = "write"                 # upload and delete too; "read": all other RPCs

    [anonymous]                      # all other callers; without this section they are refused
    access = "read"

Health checks need no credentials.
"""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from xlashape.errors import InvalidArgumentError, PermissionDeniedError, UnauthenticatedError
from xlashape.proto import services
from xlashape_server.config import Config
from xlashape_server.settings import parsed_toml
from xlashape_server.tls import ChangingFiles

_MAX_TOKEN_BYTES = 8192
_ACCESS = ("read", "write")


class _Member(NamedTuple):
    """A caller whom the file with the rules admits, by the name that errors give it."""

    name: str
    may_write: bool


class _Rules(NamedTuple):
    """The content of the file: the tokens by their SHA-256, and whether callers without a token may write; None if the
    file does not admit them.
    """

    tokens: dict[str, _Member]
    anonymous: bool | None


def check(config: Config) -> None:
    """Checks the file that the setting `auth` names. InvalidArgumentError says what is wrong with it."""
    if config.auth:
        _read(config.auth)


def writing_rpcs() -> frozenset[str]:
    """The RPCs that change something, as SERVICE/METHOD: those that the schema does not mark as free of side effects.

    >>> sorted(writing_rpcs())
    ['HloService/DeleteModule', 'HloService/PutModule', 'HloService/UploadModule']
    """
    return frozenset(
        f"{service.name}/{method.name}"
        for service in services()
        for method in service.methods
        if method.GetOptions().idempotency_level != method.GetOptions().NO_SIDE_EFFECTS
    )


class Gate:
    """Admits callers by the current content of the file that the setting `auth` names. Threads may share a gate."""

    def __init__(self, config: Config) -> None:
        self._files = ChangingFiles("the tokens of callers", config.auth)
        self._read = partial(_read, config.auth)
        self._rules = self._read()
        self._writes = writing_rpcs()

    def admit(self, rpc: str, authorization: str | None) -> None:
        """Admits a caller with this header `authorization`. UnauthenticatedError or PermissionDeniedError if the caller
        may not call `rpc`.
        """
        if rpc.startswith("Health/"):
            return
        self._rules = self._files.renewed(self._read) or self._rules
        member = _member(self._rules, authorization)
        if rpc in self._writes and not member.may_write:
            raise PermissionDeniedError(f"{member.name} may read, and {rpc} needs the access write")


def _member(rules: _Rules, authorization: str | None) -> _Member:
    if authorization is not None:
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > _MAX_TOKEN_BYTES:
            raise UnauthenticatedError("authorization: expected Bearer and a token")
        member = rules.tokens.get(hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest())
        if member is None:
            raise UnauthenticatedError("the bearer token is not known")
        return member
    if rules.anonymous is not None:
        return _Member("a caller without a token", rules.anonymous)
    raise UnauthenticatedError("a bearer token is missing: expected the header authorization: Bearer TOKEN")


def _wrong(path: str, text: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{path}: {text}", field="auth")


def _read(path: str) -> _Rules:
    try:
        table = parsed_toml(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise _wrong(path, f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _wrong(path, f"{path} is not UTF-8") from None
    except ValueError as error:
        raise _wrong(path, f"not TOML: {error}") from None
    sections = _section(path, "the file", table, ("token", "anonymous"), ())
    tokens: dict[str, _Member] = {}
    entries = sections.get("token", [])
    if not isinstance(entries, list):
        raise _wrong(path, "token: expected [[token]], with two brackets")
    for number, each in enumerate(cast("list[object]", entries)):
        where = f"token[{number}]"
        entry = _section(path, where, each, ("name", "sha256", "access"))
        digest = entry["sha256"].lower()
        if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
            raise _wrong(path, f"{where}.sha256: expected 64 hexadecimal digits")
        if digest in tokens:
            raise _wrong(path, f"{where}.sha256: another token has the same")
        tokens[digest] = _Member(f"token:{entry['name']}", _may_write(path, where, entry))
    anonymous = None
    if "anonymous" in sections:
        anonymous = _may_write(path, "anonymous", _section(path, "anonymous", sections["anonymous"], ("access",)))
    if not tokens and anonymous is None:
        raise _wrong(path, "the file admits no caller: expected [[token]] or [anonymous]")
    return _Rules(tokens, anonymous)


def _section(
    path: str, where: str, found: object, known: tuple[str, ...], required: tuple[str, ...] | None = None
) -> dict[str, Any]:
    """A section with the entries `known`, each of which must be there unless `required` says otherwise."""
    if not isinstance(found, dict):
        raise _wrong(path, f"{where}: expected a section")
    section = cast("dict[str, Any]", found)
    for name in section:
        if name not in known:
            raise _wrong(path, f"{where}: there is no {name!r}; expected {', '.join(known)}")
    for name in known if required is None else required:
        if not isinstance(section.get(name), str) or not section[name]:
            raise _wrong(path, f"{where}.{name}: expected a text")
    return section


def _may_write(path: str, where: str, section: dict[str, Any]) -> bool:
    if section["access"] not in _ACCESS:
        raise _wrong(path, f"{where}.access: expected read or write, found {section['access']!r}")
    return section["access"] == "write"
