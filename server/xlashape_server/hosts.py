"""Which hosts a request over HTTP may name. A page can make its own name lead to this machine after it was loaded (DNS
rebinding), and then its browser takes the server for the page's own. So a server that only this machine reaches answers
to its own names alone. A server that other machines reach does not know its names, and answers to any: the proxy in
front of it knows them.
"""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host, which is a name or an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def may_name(named: str | None, listening: str) -> bool:
    """Whether a request may name the host `named`, perhaps with a port, at a server that listens at the host
    `listening`. At a server on loopback that is an address in numbers, or `localhost`. `named` is None in requests of
    HTTP/1.0, which browsers do not send.

    >>> may_name("localhost:8080", "127.0.0.1"), may_name("evil.example", "127.0.0.1"), may_name("x", "0.0.0.0")
    (True, False, True)
    """
    if named is None or not is_loopback(listening):
        return True
    name = named.lower()
    bare, colon, port = name.rpartition(":")
    if colon and (port.isdigit() or not port) and not bare.endswith(":"):
        name = bare
    name = name.removesuffix(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
