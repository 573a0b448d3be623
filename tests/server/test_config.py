"""Settings of the server: checked when they are made, and read back from JSON by a worker."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from xlashape.errors import InvalidArgumentError
from xlashape_server import Config
from xlashape_server import config as config_module
from xlashape_server.config import FIELDS


def test_a_config_is_read_back_from_its_json() -> None:
    config = Config(address="[::1]:80", workers=3, grace_seconds=0.5, store_directory="/somewhere")
    assert Config(**json.loads(json.dumps(asdict(config)))) == config


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:65535", ("::1", 65535)),
        ("localhost:50051", ("localhost", 50051)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
    ],
)
def test_addresses(address: str, expected: tuple[str, int]) -> None:
    assert Config(address=address).host_and_port() == expected


@pytest.mark.parametrize(
    "address",
    [
        "",
        "localhost",
        ":50051",
        "localhost:",
        "localhost:65536",
        "localhost:-1",
        "::1:80",
        "localhost:٣",
        "h:" + "9" * 10_000,
    ],
)
def test_wrong_addresses_are_refused(address: str) -> None:
    with pytest.raises(InvalidArgumentError, match="address: expected HOST:PORT or unix:PATH") as caught:
        Config(address=address)
    assert caught.value.field == "address"


@pytest.mark.parametrize(
    "wrong",
    [
        {"workers": -1},
        {"max_worker_memory": 1 << 20},
        {"log_level": "loud"},
        {"store_bytes": 0},
        {"store_age_seconds": 0},
        {"grace_seconds": -1},
        {"max_call_seconds": float("nan")},
        {"max_call_seconds": float("inf")},
        {"tls_certificate": "a.pem"},
        {"tls_key": "a.pem"},
        {"tls_client_ca": "a.pem"},
    ],
    ids=str,
)
def test_a_wrong_setting_is_named(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Config(**wrong)
    [name] = wrong
    assert name.partition("_")[0] in (caught.value.field or "")


def test_every_setting_is_bounded_or_checked() -> None:
    numbers = [f.name for f in FIELDS.values() if type(f.default) in (int, float)]
    for name in numbers:
        with pytest.raises(InvalidArgumentError, match=name):
            Config(**{name: -5})


@pytest.mark.parametrize(
    ("text", "expected"),
    [("max 100000\n", math.inf), ("150000 100000\n", 1.5), ("", math.inf), ("x y", math.inf), ("1 0", math.inf)],
)
def test_the_quota_of_processor_time_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: float
) -> None:
    (tmp_path / "cpu.max").write_text(text)
    monkeypatch.setattr(config_module, "_GROUPS", tmp_path)
    assert config_module._processor_quota() == expected


GIB = 1 << 30


@pytest.mark.parametrize(
    ("limit", "machine", "workers", "expected"),
    [
        ("max", 64 * GIB, 1, 2 * GIB),
        (str(4 * GIB), 64 * GIB, 2, 1464 << 20),
        (str(560 << 20), 64 * GIB, 1, 348 << 20),
        (str(560 << 20), 64 * GIB, 8, 128 << 20),
        ("max", 4 * GIB, 3, 952 << 20),
        ("", 64 * GIB, 1, 2 * GIB),
    ],
)
def test_the_memory_of_a_worker_follows_the_control_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, machine: float, workers: int, expected: float
) -> None:
    (tmp_path / "memory.max").write_text(limit)
    monkeypatch.setattr(config_module, "_GROUPS", tmp_path)
    monkeypatch.setattr(config_module, "_machine_memory", lambda: machine)
    assert Config(workers=workers).worker_memory() == expected
    assert Config(workers=workers, max_worker_memory=GIB).worker_memory() == GIB


def test_the_smallest_limit_of_the_groups_around_a_process_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "group").write_text("0::/outer/inner\n")
    (inner / "memory.max").write_text("max")
    (inner.parent / "memory.max").write_text(str(GIB))
    monkeypatch.setattr(config_module, "_GROUPS", tmp_path)
    monkeypatch.setattr(config_module, "_GROUP", tmp_path / "group")
    monkeypatch.setattr(config_module, "_machine_memory", lambda: 64 * GIB)
    assert Config(workers=1).worker_memory() == 696 << 20


def test_workers_follow_the_quota_and_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(config_module, "_available_memory", lambda: math.inf)
    for quota, count, cores in ((1.5, 2, 0), (0.2, 1, 0), (math.inf, 64, 64), (64.0, 64, 64)):
        monkeypatch.setattr(config_module, "_processor_quota", lambda quota=quota: quota)
        assert Config().worker_count() == count
        assert len(Config().cores()) == cores
    monkeypatch.setattr(config_module, "_available_memory", lambda: 1600 << 20)
    assert Config().worker_count() == 3
    monkeypatch.setattr(config_module, "_available_memory", lambda: 200 << 20)
    assert Config().worker_count() == 1
    assert Config(pin=False).cores() == []
    assert Config(workers=3).worker_count() == 3
