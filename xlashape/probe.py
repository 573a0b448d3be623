"""`xlashape health` in the forms that containers use, without loading the command line and gRPC.

The module makes one call of grpc.health.v1, whose HTTP/2 frames it writes and reads itself. Everything else, such as
TLS, other options and errors other than a timeout, is left to the command itself (`xlashape.cli.health`).
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence

DEFAULT_ADDRESS = "127.0.0.1:50051"
SERVICE = "ready"
SECONDS = 4.0

# Serialized HealthCheckResponse → the name of its status.
STATES = {b"": "UNKNOWN", b"\x08\x01": "SERVING", b"\x08\x02": "NOT_SERVING"}
# Host that a server listens on, if it listens on all of them → the host at which it is asked.
ANY_HOST = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
# The names, behind `XLASHAPE_`, of the environment variables with which a client uses TLS.
_OTHER_WAYS = ("CA", "CLIENT_KEY", "CLIENT_CERTIFICATE", "SERVER_NAME")
# The most bytes of a name or an address, so that their lengths take one byte.
_MAX_TEXT = 100
_MAX_ANSWER = 1 << 16

# Types of HTTP/2 frames, and their flags: those of data and headers, and that of settings.
_DATA, _HEADERS, _RESET, _SETTINGS, _GOAWAY = 0, 1, 3, 4, 7
_END_STREAM, _END_HEADERS, _PADDED = 1, 4, 8
_ACKNOWLEDGED = 1


def exit_code(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> int | None:
    """Asks the server that the arguments of `xlashape health` name, or else the environment, prints the answer, and
    returns the exit code. Returns None, and prints nothing, where the command itself has to ask.
    """
    given = dict(zip(arguments[::2], arguments[1::2], strict=False))
    service = given.pop("--service", SERVICE)
    server = given.pop("--server", None)
    seconds = _seconds(given.pop("--timeout", str(SECONDS)))
    if given or len(arguments) % 2 or seconds is None or len(arguments) > 6:
        return None
    address = _own_address(environment) if server is None else _other_address(server, environment)
    if address is None or not (address.isascii() and service.isascii()) or len(service) > _MAX_TEXT:
        return None
    try:
        status = _ask(address, service, time.monotonic() + seconds)
    except TimeoutError:
        sys.stderr.write(f"xlashape: {address}: no answer within {seconds:g} seconds\n")
        return 1
    except (OSError, ValueError):
        return None
    if status is None:
        return None
    sys.stdout.write(f"{address} {service or 'the server'}: {status}\n")
    return 0 if status == "SERVING" else 1


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 < seconds < 1e6 else None


def _own_address(environment: Mapping[str, str]) -> str | None:
    """The address of the server that the settings of this environment describe. None if the server speaks TLS, or if
    the file of settings cannot be read.
    """
    found: dict[str, object] = {"address": DEFAULT_ADDRESS}
    file = environment.get("XLASHAPE_CONFIG")
    if file:
        try:
            import tomllib  # Python 3.10 has none

            with open(file, "rb") as settings:  # noqa: PTH123 - pathlib takes longer to load than the file
                found.update(tomllib.load(settings))
        except (ImportError, OSError, ValueError):
            return None
    for name in ("address", "tls_certificate"):
        if f"XLASHAPE_{name.upper()}" in environment:
            found[name] = environment[f"XLASHAPE_{name.upper()}"]
    address = found["address"]
    if found.get("tls_certificate") or not isinstance(address, str):
        return None
    host, colon, port = address.rpartition(":")
    return address if address.startswith("unix:") else f"{ANY_HOST.get(host, host)}{colon}{port}"


def _other_address(server: str, environment: Mapping[str, str]) -> str | None:
    """The address `server`; None if variables of the environment ask for TLS or a proxy."""
    if any(f"XLASHAPE_{name}" in environment for name in _OTHER_WAYS):
        return None
    if any(name.lower().endswith("_proxy") for name in environment):  # gRPC knows which of these variables count
        return None
    return server


def _ask(address: str, service: str, end: float) -> str | None:
    """The status of the service on the server; None for a response without a known status. `end` is a value of
    `time.monotonic()`. Raises TimeoutError after `end`, OSError and ValueError for a server that cannot be reached.
    """
    with _connect(address, end) as connection:
        name = service.encode()
        message = bytes((0x0A, len(name))) + name if name else b""
        authority = b"localhost" if address.startswith("unix:") else address.encode()
        headers = (
            b"\x83\x86"  # :method POST, :scheme http
            + _literal(b"\x04", b"/grpc.health.v1.Health/Check")
            + _literal(b"\x01", authority)
            + _literal(b"\x0f\x10", b"application/grpc")
            + _literal(b"\x00" + _text(b"te"), b"trailers")
        )
        connection.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + _frame(_SETTINGS, 0, 0, b"")
            + _frame(_HEADERS, _END_HEADERS, 1, headers)
            + _frame(_DATA, _END_STREAM, 1, b"\0" + len(message).to_bytes(4, "big") + message)
        )
        received, answer = b"", b""
        while len(received) < _MAX_ANSWER:
            _wait(connection, end)
            part = connection.recv(4096)
            if not part:
                return None
            received += part
            while len(received) >= 9 and len(received) >= 9 + int.from_bytes(received[:3], "big"):
                size, kind, flags = int.from_bytes(received[:3], "big"), received[3], received[4]
                stream, content = int.from_bytes(received[5:9], "big"), received[9 : 9 + size]
                received = received[9 + size :]
                if kind == _SETTINGS and not flags & _ACKNOWLEDGED:
                    connection.sendall(_frame(_SETTINGS, _ACKNOWLEDGED, 0, b""))
                elif kind == _DATA and stream == 1:
                    if flags & _PADDED:
                        content = content[1 : max(1, size - content[0])] if content else b""
                    answer += content
                    if len(answer) >= 5 and answer[0] == 0 and len(answer) == 5 + int.from_bytes(answer[1:5], "big"):
                        return STATES.get(answer[5:])
                elif kind in (_RESET, _GOAWAY) or (kind == _HEADERS and flags & _END_STREAM):
                    return None
        return None


def _connect(address: str, end: float) -> socket.socket:
    if address.startswith("unix:/") and not address.startswith("unix://"):
        connection = socket.socket(socket.AF_UNIX)
        try:
            _wait(connection, end)
            connection.connect(address[len("unix:") :])
        except BaseException:
            connection.close()
            raise
        return connection
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 1 << 16 or not host or "/" in host or len(address) > _MAX_TEXT:
        raise OSError
    is_bracketed = host.startswith("[") and host.endswith("]")
    if ":" in host and not is_bracketed:
        raise OSError
    return socket.create_connection((host.strip("[]"), int(port)), _rest(end))


def _rest(end: float) -> float:
    rest = end - time.monotonic()
    if rest <= 0:
        raise TimeoutError
    return rest


def _wait(connection: socket.socket, end: float) -> None:
    connection.settimeout(_rest(end))


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return len(content).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + content


def _literal(name: bytes, value: bytes) -> bytes:
    return name + _text(value)


def _text(value: bytes) -> bytes:
    return bytes((len(value),)) + value
