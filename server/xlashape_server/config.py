"""The settings of a server: each is a field of `Config` with a default that is safe on a shared machine, and with a
meaning that help and documentation show.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from xlashape.errors import InvalidArgumentError
from xlashape_server.hosts import is_loopback

T = TypeVar("T")

MIB = 1 << 20

_LOG_LEVELS = ("debug", "info", "warning", "error")


def _setting(default: T, meaning: str) -> T:
    """A field with the default of a setting, and its meaning, which the command line shows as help."""
    return field(default=default, metadata={"help": meaning})


# A dataclass, not a FrozenValue: the command line derives its options from the fields' types, defaults and meanings.
@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of a server. Raises InvalidArgumentError, which names the setting, for a value that is not allowed.

    >>> Config(address="127.0.0.1:0", workers=2).with_port(50051).address
    '127.0.0.1:50051'
    """

    address: str = _setting(
        "127.0.0.1:50051",
        "HOST:PORT or [IPv6]:PORT; port 0 picks a free port. Or unix:PATH, a socket in the file system, which one "
        "worker serves.",
    )
    socket_mode: str = _setting("0600", "Who may connect to a unix: address, as permissions of the file in octal.")
    http: str = _setting(
        "",
        "HOST:PORT where RPCs are answered over HTTP/1.1 too (Connect with JSON or proto), with the page, for browsers "
        "and curl. Empty: nowhere.",
    )
    metrics: str = _setting(
        "",
        "HOST:PORT where Prometheus asks for metrics over HTTP, at /metrics. Empty: nowhere. For whoever reaches it.",
    )
    workers: int = _setting(
        0,
        "Processes. 0: one for each core this process may use, by affinity and quota (only one where processes cannot "
        "share a port).",
    )
    pin: bool = _setting(
        True,
        "Whether each worker is bound to one core, where the system supports that and there is no quota of processor "
        "time.",
    )
    threads: int = _setting(16, "Calls that one worker computes at a time; further calls wait for a turn.")
    log_level: str = _setting("info", "debug (a line for each call), info (for some), warning or error.")
    log_calls_per_second: float = _setting(
        10.0, "Lines about calls that succeeded, of one worker at the level info; refused calls have a line each."
    )

    tls_certificate: str = _setting(
        "", "File of the certificate chain in PEM. With `tls_key`, the server speaks TLS only."
    )
    tls_key: str = _setting("", "File of the private key in PEM.")
    tls_client_ca: str = _setting(
        "",
        "File of the certificates in PEM that clients' certificates are checked against. Empty: clients need no "
        "certificate.",
    )

    auth: str = _setting(
        "",
        "File in TOML that says who may ask, by bearer tokens. Empty: everybody may do everything.",
    )

    max_concurrent_calls: int = _setting(
        2048,
        "Calls in one worker, including those that wait and those whose caller is slow; further calls are refused.",
    )
    max_concurrent_uploads: int = _setting(
        128, "Uploads in one worker, each of which is a call too; further ones are refused."
    )
    max_concurrent_streams: int = _setting(
        128, "Calls in one worker that answer a stream with a stream; further ones are refused."
    )
    max_reflection_streams: int = _setting(
        64, "Streams of questions about the schema in one worker; further ones are refused."
    )
    max_connections: int = _setting(
        2048, "Connections of gRPC, and as many of HTTP, in one worker; further ones are closed."
    )
    caller_share: float = _setting(
        0.75,
        "Part of the places for calls, uploads, streams and connections, and of the turns, that one caller may hold: "
        "0.01 to 1. Of IPv6 a network of 64 bits is one caller.",
    )
    connection_share: float = _setting(0.5, "The same for one connection of a caller: 0.01 to 1.")
    max_worker_memory: int = _setting(
        2048 * MIB, "Bytes of memory of one worker; calls that would need more are refused."
    )
    max_receive_seconds: float = _setting(
        30.0, "Seconds within which the first message of a call must have come; then the call is cut off."
    )
    max_send_seconds: float = _setting(
        30.0,
        "Seconds within which a caller must read a message of an answer, and a second more for each 8 MiB; then the "
        "call is cut off.",
    )
    max_request_bytes: int = _setting(64 * MIB, "Bytes of one request message.")
    max_json_bytes: int = _setting(
        4 * MIB,
        "Bytes of one request message in JSON, and serialized bytes of an answer that is written as JSON, which takes "
        "far longer than proto.",
    )
    max_batch: int = _setting(100_000, "Shapes, maps or chains in one request.")
    max_shape_elements: int = _setting(
        100_000, "Shapes within one shape: elements of tuples, and of tuples in them; in text, commas are counted."
    )
    max_text_bytes: int = _setting(2 * MIB, "Characters of the text of one shape or map.")
    max_indices: int = _setting(16_000_000, "Indices, positions or points in one request.")
    max_module_bytes: int = _setting(256 * MIB, "Bytes of one module, uploaded or inline.")
    max_module_text_bytes: int = _setting(32 * MIB, "Bytes of one module in text form, which takes far longer to read.")
    max_module_instructions: int = _setting(250_000, "Instructions of one module.")
    max_module_memory: int = _setting(
        512 * MIB, "Bytes of memory that the decoded messages of one module may take, estimated before decoding."
    )
    max_page_size: int = _setting(
        10_000, "Instructions in one page; also the page size where the request does not give one."
    )
    max_analysis_steps: int = _setting(
        500_000_000,
        "Steps of analysis that one instruction, or one request about maps, may take; a step is about one visit of an "
        "expression.",
    )
    max_call_seconds: float = _setting(120.0, "Seconds that one call may take, even if its deadline is later.")

    connection_age_seconds: float = _setting(
        300.0,
        "Seconds after which a connection is ended once its calls are done, give or take a tenth, so that clients "
        "spread over workers again. 0: never.",
    )
    keepalive_seconds: float = _setting(
        60.0,
        "Seconds without traffic after which a client is asked for a sign of life; without one, its connection ends.",
    )
    watchdog_seconds: float = _setting(
        10.0, "Seconds without a sign of life after which a worker is replaced. 0: never, such as under a debugger."
    )

    store_directory: str = _setting(
        "",
        "Directory where modules are kept, also over restarts. Empty: a temporary directory, removed when the server "
        "stops.",
    )
    store: str = _setting(
        "",
        "Bucket that servers share modules in: s3://BUCKET/PREFIX, gs://…, az://… or file:/DIRECTORY. The directory is "
        "then a cache in front of it.",
    )
    store_bytes: int = _setting(
        2048 * MIB, "Bytes of all modules together; the least recently used are removed to make room."
    )
    store_age_seconds: float = _setting(24 * 3600.0, "Seconds after its last use that a module is removed.")
    module_cache_bytes: int = _setting(
        1024 * MIB,
        "Bytes of memory that the modules one worker keeps decoded may take; a module takes 10 to 40 times its size. "
        "What is larger is read again for each call. Calls that need the memory get it.",
    )

    grace_seconds: float = _setting(30.0, "Seconds that calls in flight may take to finish when the server stops.")
    drain_seconds: float = _setting(
        0.0, "Seconds between reporting NOT_SERVING and refusing calls, for load balancers that poll."
    )

    def __post_init__(self) -> None:
        if self.unix_path is None:
            self.host_and_port()
        elif not 0 < len(os.fsencode(self.unix_path)) <= _MAX_UNIX_PATH_BYTES or "\0" in self.unix_path:
            raise InvalidArgumentError(
                f"address: expected unix: and a path of 1 to {_MAX_UNIX_PATH_BYTES} bytes, found {self.address!r}",
                field="address",
            )
        if self.http:
            self.http_host_and_port()
        if self.metrics:
            self.metrics_host_and_port()
        if self.log_level not in _LOG_LEVELS:
            raise InvalidArgumentError(
                f"log_level: expected one of {', '.join(_LOG_LEVELS)}, found {self.log_level!r}", field="log_level"
            )
        if not _MODE.fullmatch(self.socket_mode):
            raise InvalidArgumentError(
                f"socket_mode: expected permissions in octal such as 0660, found {self.socket_mode!r}",
                field="socket_mode",
            )
        if self.unix_path and self.workers > 1:
            raise InvalidArgumentError(
                f"workers: processes cannot share {self.address}; one worker serves it", field="workers"
            )
        if self.store and not _BUCKET.fullmatch(self.store):
            raise InvalidArgumentError(
                f"store: expected s3://BUCKET/PREFIX, gs://…, az://… or file:/DIRECTORY, found {self.store!r}",
                field="store",
            )
        for name, minimum in _MINIMUM.items():
            value = getattr(self, name)
            if not minimum <= value < float("inf"):
                raise InvalidArgumentError(f"{name}: expected a number from {minimum} on, found {value}", field=name)
        for name in ("caller_share", "connection_share"):
            if getattr(self, name) > 1:
                raise InvalidArgumentError(
                    f"{name}: expected a number up to 1, found {getattr(self, name)}", field=name
                )
        if self.max_request_bytes > _MAX_MESSAGE_BYTES:
            raise InvalidArgumentError(
                f"max_request_bytes: a gRPC message has at most {_MAX_MESSAGE_BYTES} bytes", field="max_request_bytes"
            )
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise InvalidArgumentError(
                "TLS needs both, a certificate and a key",
                field="tls_key" if self.tls_certificate else "tls_certificate",
            )
        if self.tls_client_ca and not self.tls_certificate:
            raise InvalidArgumentError("tls_client_ca: clients have certificates under TLS only", field="tls_client_ca")

    @property
    def unix_path(self) -> str | None:
        """The path of a unix: address; None for another address."""
        return self.address[len(_UNIX) :] if self.address.startswith(_UNIX) else None

    @property
    def is_loopback(self) -> bool:
        """Whether only callers on this machine can reach `address` and `http`."""
        if self.http and not is_loopback(self.http_host_and_port()[0]):
            return False
        return self.unix_path is not None or is_loopback(self.host_and_port()[0])

    def exposures(self) -> list[tuple[str, str]]:
        """What unauthenticated callers from other machines can do because of these settings, as pairs: the setting with
        the address that they reach, and a sentence.

        >>> [setting for setting, _ in Config(address="127.0.0.1:0", metrics="0.0.0.0:9464").exposures()]
        ['metrics']
        """
        found: list[tuple[str, str]] = []
        if not self.is_loopback:
            setting = "address" if self.unix_path is None and not is_loopback(self.host_and_port()[0]) else "http"
            if not self.tls_certificate:
                found.append(
                    (
                        setting,
                        "without TLS, modules and answers can be read and changed on the network; tls_certificate and "
                        "tls_key turn TLS on",
                    )
                )
            if not self.tls_client_ca and not self.auth:
                found.append(
                    (
                        setting,
                        "callers are not authenticated: anyone who reaches this address may upload, read and delete "
                        "modules; auth names those who may, tls_client_ca asks for certificates",
                    )
                )
        if self.metrics and not is_loopback(self.metrics_host_and_port()[0]):
            found.append(
                (
                    "metrics",
                    "metrics are shown without TLS to anyone who reaches this address; they name no caller and no "
                    "module, but say how the server is used: let only those who watch reach it",
                )
            )
        return found

    def host_and_port(self) -> tuple[str, int]:
        """Host and port of `address`, without the brackets of IPv6. InvalidArgumentError for a unix: address."""
        return _host_and_port(self.address, "address", "HOST:PORT or unix:PATH")

    def http_host_and_port(self) -> tuple[str, int]:
        """Host and port of the setting `http`, as in `host_and_port`."""
        return _host_and_port(self.http, "http", "HOST:PORT")

    def metrics_host_and_port(self) -> tuple[str, int]:
        """Host and port of the setting `metrics`, as in `host_and_port`."""
        return _host_and_port(self.metrics, "metrics", "HOST:PORT")

    def with_port(self, port: int) -> Config:
        """The same settings with another port."""
        return dataclasses.replace(self, address=f"{self.address.rpartition(':')[0]}:{port}")

    def worker_count(self) -> int:
        """How many processes to start."""
        if self.workers or self.unix_path is not None:
            return self.workers or 1
        if sys.platform != "linux":
            return 1
        return max(1, math.ceil(min(len(os.sched_getaffinity(0)), _processor_quota())))

    def cores(self) -> list[int]:
        """The cores that workers are bound to in turn; empty if they are not bound.

        They are not bound in a container with a quota of processor time, which may run on all cores of its machine:
        the workers of all containers would be bound to the same first cores.
        """
        if not self.pin or sys.platform != "linux":
            return []
        allowed = sorted(os.sched_getaffinity(0))
        return allowed if _processor_quota() >= len(allowed) else []

    def check_files(self) -> None:
        """Raises InvalidArgumentError for the first file of the settings that cannot be read, or if `store_directory`
        is not a directory.
        """
        for name in ("tls_certificate", "tls_key", "tls_client_ca", "auth"):
            path = getattr(self, name)
            if path and not os.access(path, os.R_OK):
                raise InvalidArgumentError(f"{name}: {path!r} cannot be read", field=name)
        if self.store_directory and Path(self.store_directory).exists() and not Path(self.store_directory).is_dir():
            raise InvalidArgumentError(
                f"store_directory: {self.store_directory!r} is not a directory", field="store_directory"
            )

    def to_json(self) -> str:
        """The settings as one line of JSON; the inverse of `from_json`."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Config:
        """The settings that `to_json` wrote."""
        return cls(**json.loads(text))


def _host_and_port(address: str, name: str, expected: str) -> tuple[str, int]:
    """Host and port of the address in the setting `name`. InvalidArgumentError if it is not of the `expected` form."""
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if (
        not colon
        or not host
        or not (port.isascii() and port.isdigit())
        or int(port[:6]) > 65535
        or (":" in host and not bracketed)
    ):
        raise InvalidArgumentError(f"{name}: expected {expected}, found {address!r}", field=name)
    return (host[1:-1] if bracketed else host), int(port)


def _processor_quota(path: str = "/sys/fs/cgroup/cpu.max") -> float:
    """The processor quota of this process's control group, in cores; infinite without a quota. Only the quotas of
    Linux's cgroup v2 are known.
    """
    try:
        quota, period = Path(path).read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf


_UNIX = "unix:"
_MAX_UNIX_PATH_BYTES = 107 if sys.platform == "linux" else 103  # the room for a path in the system's sockaddr_un
_BUCKET = re.compile(r"(s3|gs|az)://[A-Za-z0-9][\w.-]*(/[^?#\s]*)?|file:(//)?/[^\0]+")
_MODE = re.compile(r"0?[0-7]{3}")
_MAX_MESSAGE_BYTES = (1 << 31) - 1 - MIB

_MINIMUM: dict[str, float] = {
    "workers": 0,
    "threads": 1,
    "max_concurrent_calls": 1,
    "max_concurrent_uploads": 1,
    "max_connections": 1,
    "max_concurrent_streams": 1,
    "max_reflection_streams": 1,
    "caller_share": 0.01,
    "connection_share": 0.01,
    "max_worker_memory": 128 * MIB,
    "max_receive_seconds": 0.001,
    "max_send_seconds": 0.001,
    "max_request_bytes": 1024,
    "max_json_bytes": 1024,
    "max_batch": 1,
    "max_shape_elements": 1,
    "max_text_bytes": 1,
    "max_indices": 1,
    "max_module_bytes": 1,
    "max_module_text_bytes": 1,
    "max_module_instructions": 1,
    "max_module_memory": 1,
    "max_page_size": 1,
    "max_analysis_steps": 1,
    "max_call_seconds": 0.001,
    "log_calls_per_second": 0,
    "connection_age_seconds": 0,
    "keepalive_seconds": 1,
    "watchdog_seconds": 0,
    "store_bytes": 1,
    "store_age_seconds": 0.001,
    "module_cache_bytes": 0,
    "grace_seconds": 0,
    "drain_seconds": 0,
}
