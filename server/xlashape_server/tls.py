"""TLS certificates: checked before a worker starts, and reloaded without a restart when their files change.

New files are used once certificate and key match: until both files are replaced, the old pair stays in use.
"""

from __future__ import annotations

import logging
import os
import ssl
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from xlashape.errors import InvalidArgumentError
from xlashape_server.config import Config

if TYPE_CHECKING:
    from collections.abc import Callable

    import grpc

_log = logging.getLogger("xlashape_server.tls")

_CHECK_SECONDS = 1.0  # seconds between checks for changed files


def check(config: Config) -> None:
    """InvalidArgumentError, which names the setting, if the certificates of `config` cannot be used."""
    if not config.tls_certificate:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for name in ("tls_certificate", "tls_key", "tls_client_ca"):
        path: str = getattr(config, name)
        if path and not os.access(path, os.R_OK):
            raise InvalidArgumentError(f"{name}: {path!r} cannot be read", field=name)
    _check_pem(config.tls_certificate, "tls_certificate", b"CERTIFICATE-----")
    _check_pem(config.tls_key, "tls_key", b"PRIVATE KEY-----")
    try:
        # Without a password callback, OpenSSL would ask on the terminal.
        context.load_cert_chain(config.tls_certificate, config.tls_key, password=_no_password)
    except _EncryptedKey:
        raise InvalidArgumentError(
            f"tls_key: the key in {config.tls_key!r} is encrypted; expected one without a password", field="tls_key"
        ) from None
    except (ssl.SSLError, OSError) as error:
        if "MISMATCH" in str(error):
            raise InvalidArgumentError(
                f"tls_key: the key in {config.tls_key!r} does not belong to the certificate in "
                f"{config.tls_certificate!r}",
                field="tls_key",
            ) from None
        raise InvalidArgumentError(
            f"tls_certificate: {config.tls_certificate!r} and {config.tls_key!r} cannot be used: {error}",
            field="tls_certificate",
        ) from None
    if config.tls_client_ca:
        _check_pem(config.tls_client_ca, "tls_client_ca", b"CERTIFICATE-----")
        try:
            context.load_verify_locations(config.tls_client_ca)
        except (ssl.SSLError, OSError) as error:
            raise InvalidArgumentError(
                f"tls_client_ca: {config.tls_client_ca!r} cannot be used: {error}", field="tls_client_ca"
            ) from None


def server_credentials(config: Config) -> grpc.ServerCredentials:
    """gRPC credentials that reload certificates when their files change."""
    import grpc  # the watching process, the parent of the workers, calls `check` and never loads grpc

    files = _Files(config)
    first = files.configuration()
    # By grpc's documentation this function may return None if nothing has changed; grpc's type does not allow that.
    fetch = cast("Callable[[], grpc.ServerCertificateConfiguration]", files.changed)
    return grpc.dynamic_ssl_server_credentials(first, fetch, require_client_authentication=bool(config.tls_client_ca))


def http_context(config: Config) -> ssl.SSLContext:
    """TLS for HTTP/1.1 that reloads certificates when their files change."""
    return _FollowingContext(config)


class _FollowingContext(ssl.SSLContext):
    """An SSLContext that uses the current content of the files for each new connection."""

    def __new__(cls, config: Config) -> _FollowingContext:
        del config  # SSLContext.__new__ takes the protocol in this place
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, config: Config) -> None:
        self._config = config
        self._files = _Files(config)
        self._current = _http_context(config)

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        """The TLS of a new connection. asyncio calls this for each connection that it accepts."""
        if self._files.are_new():
            self._current = _http_context(self._config)
        return self._current.wrap_bio(*arguments, **options)


def _http_context(config: Config) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(config.tls_certificate, config.tls_key, password=_no_password)
    if config.tls_client_ca:
        context.load_verify_locations(config.tls_client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class _Files:
    """Watches the files of certificate, key and authority for new content."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._paths = [path for path in (config.tls_certificate, config.tls_key, config.tls_client_ca) if path]
        self._seen = self._state()
        self._next_check = time.monotonic() + _CHECK_SECONDS
        self._lock = threading.Lock()

    def configuration(self) -> grpc.ServerCertificateConfiguration:
        """The content of the files."""
        import grpc  # see server_credentials

        config = self._config
        key, chain = Path(config.tls_key).read_bytes(), Path(config.tls_certificate).read_bytes()
        authority = Path(config.tls_client_ca).read_bytes() if config.tls_client_ca else None
        return grpc.ssl_server_certificate_configuration([(key, chain)], root_certificates=authority)

    def changed(self) -> grpc.ServerCertificateConfiguration | None:
        """The content of the files if it is new and usable; otherwise None. gRPC calls this at each handshake."""
        found: list[grpc.ServerCertificateConfiguration] = []
        return found[0] if self.are_new(lambda: found.append(self.configuration())) else None

    def are_new(self, read: Callable[[], object] | None = None) -> bool:
        """Whether the files have new content that is usable. If so, `read` was called to read it. Looks at the files
        once a second at most, so it may be called at each handshake.
        """
        with self._lock:
            now = time.monotonic()
            if now < self._next_check:
                return False
            self._next_check = now + _CHECK_SECONDS
            state = self._state()
            if state == self._seen:
                return False
            try:
                check(self._config)
                if read is not None:
                    read()
            except (InvalidArgumentError, OSError) as error:
                _log.warning("the certificates were replaced and cannot be used yet, so the old ones stay: %s", error)
                return False
            if self._state() != state:
                return False  # replaced while they were read: the next check finds them
            self._seen = state
        _log.info("the certificates were replaced; new connections get the new ones")
        return True

    def _state(self) -> list[tuple[int, int, int] | None]:
        """Inode, size and time of change of each file; None for a file that is missing."""
        found: list[tuple[int, int, int] | None] = []
        for path in self._paths:
            try:
                status = Path(path).stat()
            except OSError:
                found.append(None)
            else:
                found.append((status.st_ino, status.st_size, status.st_mtime_ns))
        return found


class _EncryptedKey(Exception):
    pass


def _no_password() -> str:
    raise _EncryptedKey


def _check_pem(path: str, name: str, mark: bytes) -> None:
    if mark not in Path(path).read_bytes():
        raise InvalidArgumentError(f"{name}: {path!r} has no {mark.decode().strip('-').lower()} in PEM", field=name)
