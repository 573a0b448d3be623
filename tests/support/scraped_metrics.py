"""Reads the metrics of a server, as Prometheus does, and makes calls that change them."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from server_processes import wait_until

from xlashape_client import Client
from xlashape_server import Server

SHAPE = "f32[3,5]{1,0:T(2,2)}"

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scraped(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=20) as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=")
        return response.read().decode()


def samples(server: Server) -> Samples:
    """Name and labels → value, of all samples."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(scraped(server.metrics_address))
        for sample in family.samples
    }


def value(server: Server, name: str, **labels: str) -> float:
    """The sum of the samples that have these labels."""
    wanted = set(labels.items())
    return sum(value for (each, found), value in samples(server).items() if each == name and wanted <= set(found))


def grows(server: Server, by: float, name: str, do: Callable[[], Any], **labels: str) -> None:
    before = value(server, name, **labels)
    do()
    wait_until(lambda: value(server, name, **labels) >= before + by)
    assert value(server, name, **labels) == before + by


def refused(server: Server, kind: type[Exception], call: Callable[[Client], Any]) -> None:
    with Client(server.address, timeout=20) as client, pytest.raises(kind):
        call(client)


def asks(server: Server, count: int) -> None:
    with Client(server.address, timeout=20) as client:
        for _ in range(count):
            assert client.linear_index(SHAPE, (2, 3)) == 17
