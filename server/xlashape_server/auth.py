"""Authentication and authorization: the certificates of TLS, and who may call what. Both are checked before a worker
starts, and their files are reloaded without a restart when they change. New certificates are used once certificate and
key match: until both files are replaced, the old pair stays in use.

The setting `auth` names a file in TOML. Without the setting every caller may call every RPC.

    [[token]]                        # a bearer token: `authorization: Bearer TOKEN`
    name = "ci"
    sha256 = "9f86d081…"             # of the token: printf %s "$TOKEN" | sha256sum
    access = "write"                 # upload and delete too; "read": all other RPCs

    [anonymous]                      # all other callers; without this section they are refused
    access = "read"

Health checks need no credentials.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import ssl
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast
from weakref import WeakSet

from xlashape.errors import InvalidArgumentError, PermissionDeniedError, UnauthenticatedError
from xlashape.proto import services
from xlashape_server.config import Config, read_toml

if TYPE_CHECKING:
    from collections.abc import Callable

    import grpc

T = TypeVar("T")

_log = logging.getLogger("xlashape_server.tls")

_CHECK_SECONDS = 1.0  # seconds between checks for changed files


def check(config: Config) -> None:
    """InvalidArgumentError, which names the setting, if the certificates of `config` cannot be used, or its file of
    those who may call.
    """
    if config.tls_certificate:
        _tls_context(config)
    if config.auth:
        _read(config.auth)


def _tls_context(config: Config) -> ssl.SSLContext:
    """TLS with the certificates of the settings. InvalidArgumentError, which names the setting."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate, key, authority = config.tls_certificate, config.tls_key, config.tls_client_ca
    for name, path in (("tls_certificate", certificate), ("tls_key", key), ("tls_client_ca", authority)):
        kind = "private key" if name == "tls_key" else "certificate"
        try:
            if path and f"{kind.upper()}-----".encode() not in Path(path).read_bytes():
                raise InvalidArgumentError(f"{name}: {path!r} has no {kind} in PEM", field=name)
        except OSError as error:
            raise InvalidArgumentError(f"{name}: {path!r} cannot be read: {error.strerror}", field=name) from None
    name, text = "tls_certificate", f"{certificate!r} cannot be used with {key!r}"
    try:
        # An empty password fits no encrypted key. Without one OpenSSL would ask on the terminal.
        context.load_cert_chain(certificate, key, password="")
        name, text = "tls_client_ca", f"{authority!r} cannot be used"
        if authority:
            context.load_verify_locations(authority)
            context.verify_mode = ssl.CERT_REQUIRED
    except (ssl.SSLError, OSError, ValueError) as error:
        raise InvalidArgumentError(f"{name}: {text}: {error}", field=name) from None
    return context


def server_credentials(config: Config) -> grpc.ServerCredentials:
    """gRPC credentials that reload certificates when their files change."""
    import grpc  # the watching process, the parent of the workers, calls `check` and never loads grpc

    def read() -> grpc.ServerCertificateConfiguration:
        _tls_context(config)
        key, chain = Path(config.tls_key).read_bytes(), Path(config.tls_certificate).read_bytes()
        authority = Path(config.tls_client_ca).read_bytes() if config.tls_client_ca else None
        return grpc.ssl_server_certificate_configuration([(key, chain)], root_certificates=authority)

    files = _files(config)
    # By grpc's documentation this function, which it calls at each handshake, may return None if nothing has changed;
    # grpc's type does not allow that.
    fetch = cast("Callable[[], grpc.ServerCertificateConfiguration]", lambda: files.renewed(read))
    return grpc.dynamic_ssl_server_credentials(read(), fetch, require_client_authentication=bool(config.tls_client_ca))


def http_context(config: Config) -> ssl.SSLContext:
    """TLS for HTTP/1.1 that reloads certificates when their files change."""
    return _FollowingContext(config)


class _FollowingContext(ssl.SSLContext):
    """An SSLContext that uses the current content of the files for each new connection, up to the number of connections
    that there may be. uvicorn counts a connection only after its handshake, and one takes 270 KB from its start on.
    """

    def __new__(cls, config: Config) -> _FollowingContext:
        del config  # SSLContext.__new__ takes the protocol in this place
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, config: Config) -> None:
        self._config = config
        self._files = _files(config)
        self._current = _http_context(config)
        self._open: WeakSet[ssl.SSLObject] = WeakSet()
        self._next_collection = 0.0

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        """The TLS of a new connection. asyncio calls this for each connection that it accepts, and closes it if this
        raises OSError.
        """
        if len(self._open) >= self._config.max_connections and time.monotonic() >= self._next_collection:
            gc.collect()  # asyncio leaves some connections that have ended in cycles
            self._next_collection = time.monotonic() + _CHECK_SECONDS
        if len(self._open) >= self._config.max_connections:
            raise ConnectionRefusedError("there are too many connections")
        self._current = self._files.renewed(lambda: _http_context(self._config)) or self._current
        made = self._current.wrap_bio(*arguments, **options)
        self._open.add(made)
        return made


def _http_context(config: Config) -> ssl.SSLContext:
    context = _tls_context(config)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


class ChangingFiles:
    """The files at `paths`, which are read again when they change. `what` they are is for the log."""

    def __init__(self, what: str, *paths: str) -> None:
        self._what = what
        self._paths = [Path(path) for path in paths if path]
        # The state is taken before the files are read, so that the next check notices a change in between.
        self._seen = self._state()
        self._next_check = time.monotonic() + _CHECK_SECONDS
        self._lock = threading.Lock()

    def renewed(self, read: Callable[[], T]) -> T | None:
        """What `read` makes of the files if they have changed and can be used, else None. Looks at the files once a
        second at most, so it may be called often. `read` raises InvalidArgumentError or OSError for files that cannot
        be used.
        """
        if time.monotonic() < self._next_check:
            return None
        with self._lock:
            if time.monotonic() < self._next_check:
                return None
            self._next_check = time.monotonic() + _CHECK_SECONDS
            state = self._state()
            if state == self._seen:
                return None
            found = None
            try:
                found = read()
            except (InvalidArgumentError, OSError) as error:
                _log.warning("%s changed and cannot be used yet, so what was read before stays: %s", self._what, error)
            if self._state() != state:
                return None  # changed while they were read: the next check finds that
            self._seen = state
        if found is not None:
            _log.info("%s changed and were read again", self._what)
        return found

    def _state(self) -> list[tuple[int, int, int] | None]:
        """Inode, size and time of change of each file; None for a file that is missing."""
        found: list[tuple[int, int, int] | None] = []
        for path in self._paths:
            try:
                status = path.stat()
                found.append((status.st_ino, status.st_size, status.st_mtime_ns))
            except OSError:
                found.append(None)
        return found


def _files(config: Config) -> ChangingFiles:
    return ChangingFiles("certificates", config.tls_certificate, config.tls_key, config.tls_client_ca)


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
    table = read_toml(path, "auth")
    for name in table:
        if name not in ("token", "anonymous"):
            raise _wrong(path, f"the file: there is no {name!r}; expected token, anonymous")
    entries: object = table.get("token", [])
    if not isinstance(entries, list):
        raise _wrong(path, "token: expected [[token]], with two brackets")
    tokens: dict[str, _Member] = {}
    for number, each in enumerate(cast("list[object]", entries)):
        where = f"token[{number}]"
        name, digest, access = _section(path, where, each, "name", "sha256", "access")
        digest = digest.lower()
        if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
            raise _wrong(path, f"{where}.sha256: expected 64 hexadecimal digits")
        if digest in tokens:
            raise _wrong(path, f"{where}.sha256: another token has the same")
        tokens[digest] = _Member(f"token:{name}", access == "write")
    anonymous = None
    if "anonymous" in table:
        [access] = _section(path, "anonymous", table["anonymous"], "access")
        anonymous = access == "write"
    if not tokens and anonymous is None:
        raise _wrong(path, "the file admits no caller: expected [[token]] or [anonymous]")
    return _Rules(tokens, anonymous)


def _section(path: str, where: str, found: object, *known: str) -> list[str]:
    """The texts that a section has under the names `known`, all of which it must have, and no others."""
    if not isinstance(found, dict):
        raise _wrong(path, f"{where}: expected a section")
    section = cast("dict[str, Any]", found)
    for name in section:
        if name not in known:
            raise _wrong(path, f"{where}: there is no {name!r}; expected {', '.join(known)}")
    for name in known:
        if not isinstance(section.get(name), str) or not section[name]:
            raise _wrong(path, f"{where}.{name}: expected a text")
    if section["access"] not in _ACCESS:
        raise _wrong(path, f"{where}.access: expected read or write, found {section['access']!r}")
    return [section[name] for name in known]
