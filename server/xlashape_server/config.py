"""The settings of a server: each is a field of `Config` with a default that is safe on a shared machine, and with a
meaning that help and documentation show. Fields without such a meaning are bounds, which no installation sets.

Settings come from a file in TOML, variables XLASHAPE_… and options of the command line (`settings_of`). Options
override variables, and variables override the file. All three use the names of the fields of `Config`, and take the
same values:

    store_bytes = "2GiB"        in the file: numbers, strings and booleans; bytes and seconds also as strings with units
    XLASHAPE_STORE_BYTES=2GiB   in the environment
    --store-bytes 2GiB          on the command line

>>> read_value("store_bytes", "2GiB"), read_value("grace_seconds", "1.5m"), read_value("pin", "off")
(2147483648, 90.0, False)
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from xlashape.errors import InvalidArgumentError
from xlashape_server.callers import is_loopback

T = TypeVar("T")

MIB = 1 << 20

_LOG_LEVELS = ("debug", "info", "warning", "error")


def _setting(default: T, meaning: str, least: float = 0) -> T:
    """A field with the default of a setting, its meaning, which the command line shows as help, and the least number
    that it may be.
    """
    return field(default=default, metadata={"help": meaning, "least": least})


# A dataclass, not a FrozenValue: the command line derives its options from the fields' types, defaults and meanings.
@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of a server. Raises InvalidArgumentError, which names the setting, for a value that is not allowed.

    >>> Config(address="127.0.0.1:0", workers=2).with_port("address", 50051).address
    '127.0.0.1:50051'
    """

    address: str = _setting(
        "127.0.0.1:50051",
        "HOST:PORT or [IPv6]:PORT; port 0 picks a free port. Or unix:PATH, a socket in the file system, which one "
        "worker serves, and whose permissions follow the umask.",
    )
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
        "Processes. 0: one for each core this process may use, by affinity and quota, that has 512 MiB of memory (only "
        "one where processes cannot share a port).",
    )
    pin: bool = _setting(
        True,
        "Whether each worker is bound to one core, where the system supports that and there is no quota of processor "
        "time.",
    )
    log_level: str = _setting("info", "debug (a line for each call), info, warning or error.")

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

    max_worker_memory: int = _setting(
        0,
        "Bytes of memory of one worker; calls that would need more are refused. 0: three quarters of its part of what "
        "the control group or the machine has, beyond 96 MiB of its own; at most 2 GiB.",
    )
    max_call_seconds: float = _setting(120.0, "Seconds that one call may take, even if its deadline is later.", 0.001)

    store_directory: str = _setting(
        "",
        "Directory where modules are kept, also over restarts. Empty: a temporary directory, removed when the server "
        "stops.",
    )
    store_bytes: int = _setting(
        2048 * MIB, "Bytes of all modules together; the least recently used are removed to make room.", 1
    )
    store_age_seconds: float = _setting(24 * 3600.0, "Seconds after its last use that a module is removed.", 0.001)

    grace_seconds: float = _setting(30.0, "Seconds that calls in flight may take to finish when the server stops.")
    # -- bounds: no settings. The command line lifts some where it answers without a server, and tests lower them.

    max_concurrent_calls: int = 2048
    """Calls in one worker, including those that wait and those whose caller is slow; further calls are refused."""
    max_request_bytes: int = 16 * MIB
    """Bytes of one request message over gRPC, and a quarter of those over HTTP. Uploads are streams."""
    max_module_bytes: int = 256 * MIB
    """Bytes of one module, uploaded or inline."""
    max_concurrent_uploads: int = 128
    """Uploads in one worker, each of which is a call too."""
    max_reflection_streams: int = 64
    """Streams of questions about the schema in one worker."""
    max_connections: int = 2048
    """Connections of gRPC, and as many of HTTP, in one worker; further ones are closed."""
    caller_share: float = 0.75
    """Part of the places for calls, uploads, streams and connections that one address may hold."""
    max_receive_seconds: float = 30.0
    """Time for the first message of a call to come."""
    max_send_seconds: float = 30.0
    """Time to read a message of an answer, and a second more for each 8 MiB."""
    max_analysis_steps: int = 500_000_000
    """Steps of analysis of one instruction or of one request about maps; a step is about one visit of an expression."""
    max_batch: int = 100_000
    """Shapes, maps or chains in one request."""
    max_shape_elements: int = 100_000
    """Shapes within one shape; in text, commas are counted."""
    max_text_bytes: int = 2 * MIB
    """Characters of the text of one shape or map."""
    max_module_text_bytes: int = 32 * MIB
    """Bytes of one module in text."""
    max_page_size: int = 10_000
    """Instructions in one page; also the page size where the request does not give one."""
    connection_age_seconds: float = 300.0
    """Life of a connection, give or take a tenth, so that clients spread over workers again."""
    keepalive_seconds: float = 60.0
    """Time without traffic after which a client is asked for a sign of life."""
    store_is_durable: bool = True
    """Whether an upload is on the disk before it is acknowledged. The server's own temporary directory needs none."""
    watchdog_seconds: float = 5.0
    """Time without a sign of life after which a worker is replaced. 0: never, such as under a debugger."""

    def __post_init__(self) -> None:
        if not self.unix_path:
            self.host_and_port()
        elif self.workers > 1:
            raise InvalidArgumentError(
                f"workers: processes cannot share {self.address}; one worker serves it", field="workers"
            )
        for name in ("http", "metrics"):
            if getattr(self, name):
                self.host_and_port(name)
        if self.log_level not in _LOG_LEVELS:
            raise _wrong("log_level", f"expected one of {', '.join(_LOG_LEVELS)}", self.log_level)
        for name, setting in FIELDS.items():
            value, least = getattr(self, name), setting.metadata["least"]
            if name == "max_worker_memory" and value:
                least = _LEAST_MEMORY
            if not isinstance(value, (str, bool)) and not least <= value < math.inf:
                raise _wrong(name, f"expected a number from {least} on", value)
        if bool(self.tls_certificate) != bool(self.tls_key):
            name = "tls_key" if self.tls_certificate else "tls_certificate"
            raise InvalidArgumentError("TLS needs both, a certificate and a key", field=name)
        if self.tls_client_ca and not self.tls_certificate:
            raise InvalidArgumentError("tls_client_ca: clients have certificates under TLS only", field="tls_client_ca")

    @property
    def unix_path(self) -> str:
        """The path of a unix: address; empty for another address."""
        return self.address[len(_UNIX) :] if self.address.startswith(_UNIX) else ""

    def is_loopback(self, name: str = "address") -> bool:
        """Whether only callers on this machine can reach the address in the setting `name`, or it is empty."""
        address = getattr(self, name)
        return not address or address.startswith(_UNIX) or is_loopback(self.host_and_port(name)[0])

    @property
    def max_body_bytes(self) -> int:
        """Bytes of one request message over HTTP."""
        return 4 * self.max_request_bytes

    def host_and_port(self, name: str = "address") -> tuple[str, int]:
        """Host and port of the address in the setting `name`, without the brackets of IPv6. InvalidArgumentError for an
        address of another form.
        """
        address: str = getattr(self, name)
        host, colon, port = address.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        is_port = port.isascii() and port.isdigit() and int(port[:6]) <= 65535
        if not (colon and host and is_port) or (":" in host and not bracketed):
            expected = "HOST:PORT or unix:PATH" if name == "address" else "HOST:PORT"
            raise _wrong(name, f"expected {expected}", address)
        return (host[1:-1] if bracketed else host), int(port)

    def with_port(self, name: str, port: int) -> Config:
        """The same settings with another port in the setting `name`."""
        return dataclasses.replace(self, **{name: f"{getattr(self, name).rpartition(':')[0]}:{port}"})

    def worker_count(self) -> int:
        """How many processes to start."""
        if self.workers or self.unix_path:
            return self.workers or 1
        if sys.platform != "linux":
            return 1
        cores = math.ceil(min(len(os.sched_getaffinity(0)), _processor_quota()))
        return max(1, min(cores, int(min(_available_memory(), 1 << 60)) // _WORKER_MEMORY))

    def worker_memory(self) -> int:
        """Bytes of memory that one worker may have."""
        if self.max_worker_memory:
            return self.max_worker_memory
        part = min(_available_memory(), 1 << 60) / self.worker_count() - _OWN_MEMORY
        return max(_LEAST_MEMORY, min(int(part * 0.75), _MOST_MEMORY))

    def cores(self) -> list[int]:
        """The cores that workers are bound to in turn; empty if they are not bound.

        They are not bound in a container with a quota of processor time, which may run on all cores of its machine:
        the workers of all containers would be bound to the same first cores.
        """
        if not self.pin or sys.platform != "linux":
            return []
        allowed = sorted(os.sched_getaffinity(0))
        return allowed if _processor_quota() >= len(allowed) else []


def _wrong(name: str, text: str, found: object) -> InvalidArgumentError:
    shown = repr(found)
    shown = shown if len(shown) <= 80 else shown[:80] + "…"
    return InvalidArgumentError(f"{name}: {text}, found {shown}", field=name)


def _least_of_groups(file: str, number: Callable[[str], float]) -> float:
    """The least number in this file of the control group that this process is in, and of each group around it; infinite
    if none has one.
    """
    found = [math.inf]
    with suppress(OSError):
        own = Path(_GROUP.read_text().partition("::")[2].strip().strip("/"))
        for folder in (own, *own.parents):
            with suppress(OSError, ValueError, ZeroDivisionError):  # "max" stands for no limit
                found.append(number((_GROUPS / folder / file).read_text()))
    return min(found)


def _processor_quota() -> float:
    """The processor quota of this process's control groups, in cores; infinite without a quota."""

    def cores(text: str) -> float:
        quota, period = map(int, text.split())
        return quota / period

    return _least_of_groups("cpu.max", cores)


def _available_memory() -> float:
    """The bytes of memory that a server may take; infinite where the system does not say."""
    return min(_least_of_groups("memory.max", int), _machine_memory())


def _machine_memory() -> float:
    """The bytes of memory of this machine; infinite where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return math.inf


_GROUP, _GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
_LEAST_MEMORY, _MOST_MEMORY = 128 * MIB, 2048 * MIB  # of one worker
_OWN_MEMORY = 96 * MIB  # of the processes of one worker, before they answer a call
_WORKER_MEMORY = 512 * MIB  # for each worker, where their number is not set
_UNIX = "unix:"


PREFIX = "XLASHAPE_"
"""The prefix of the variables' names."""

FIELDS = {setting.name: setting for setting in dataclasses.fields(Config) if "help" in setting.metadata}
"""Name of a setting → the field of `Config`."""

_DEFAULTS: dict[str, Any] = {name: setting.default for name, setting in FIELDS.items()}
_BYTES = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_QUANTITY = re.compile(r"([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?)\s*([A-Za-z]*)")
_SWITCH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def settings_of(file: str | None, environment: Mapping[str, str], options: Mapping[str, str | None]) -> Config:
    """The settings of a file in TOML, of the variables XLASHAPE_… and of options; None stands for no file, and for an
    option that is not given. Later ones count. InvalidArgumentError names the setting and where it stands.
    """
    places = {} if file is None else {name: (value, file) for name, value in _read(file).items()}
    for name in FIELDS:
        variable = PREFIX + name.upper()
        if variable in environment:
            places[name] = environment[variable], variable
        if options.get(name) is not None:
            places[name] = options[name], ""
    values: dict[str, Any] = {}
    for name, (value, place) in places.items():
        try:
            values[name] = read_value(name, value)
        except InvalidArgumentError as error:
            message = f"{place}: {error.message}" if place else error.message
            raise InvalidArgumentError(message, field=name) from None
    return Config(**values)


def _read(path: str) -> dict[str, Any]:
    """The content of a file of settings."""
    found = read_toml(path, "config")
    for name in found:
        if name not in FIELDS:
            raise InvalidArgumentError(f"{path}: there is no setting {name!r}", field=name)
    return found


def read_value(name: str, value: object) -> Any:
    """The value of the setting `name`. `value` is of the setting's type or a text that says it; InvalidArgumentError if
    it is neither.
    """
    kind = cast("type[Any]", type(_DEFAULTS[name]))
    expected = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}[kind]
    found = value
    if kind is bool and isinstance(value, str):
        found = _SWITCH.get(value.strip().lower())
    elif kind is not str and isinstance(value, str):
        units: Mapping[str, int] = {"": 1}
        if name.endswith(("_bytes", "_memory")):
            units, expected = _BYTES, "bytes such as 64MiB"
        elif name.endswith("_seconds"):
            units, expected = _SECONDS, "seconds such as 90, 1.5m or 24h"
        match = _QUANTITY.fullmatch(value.strip())
        found = float(match[1]) * units[match[2]] if match is not None and match[2] in units else None
    if kind in (int, float) and isinstance(found, (int, float)) and not isinstance(found, bool):
        if kind is float or found % 1 == 0:
            return kind(found)
    elif type(found) is kind:
        return found
    raise _wrong(name, f"expected {expected}", value)


def read_toml(path: str, setting: str) -> dict[str, Any]:
    """The content of a file in TOML, which `setting` names. InvalidArgumentError if it is not TOML, or unreadable."""
    if sys.version_info >= (3, 11):
        import tomllib  # not in Python 3.10
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        reason = "cannot be read: it is not UTF-8"
    except ValueError as error:
        reason = f"not TOML: {error}"
    except RecursionError:
        reason = "not TOML: its values are nested too deeply"
    raise InvalidArgumentError(f"{path}: {reason}", field=setting)
