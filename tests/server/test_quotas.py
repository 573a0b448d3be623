"""Quotas of identities, and the log lines of uploads and deletions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from credentials import BOTH, READER, WRITER
from server_processes import ServerProcess, wait_until

from xlashape.errors import (
    LimitExceededError,
)
from xlashape.proto import xla
from xlashape_client import Client
from xlashape_server import Config, Server
from xlashape_server.accounts import Account, Quota

TILED = "f32[3,5]{1,0:T(2,2)}"


def test_calls_have_a_rate() -> None:
    account = Account("token:ann", Quota(calls_per_second=2))
    for _ in range(20):  # ten seconds' worth at once
        account.take_call()
    with pytest.raises(
        LimitExceededError, match="token:ann has used its quota of 2 calls per second; try again in"
    ) as caught:
        account.take_call()
    assert (caught.value.limit, caught.value.maximum) == ("calls_per_second", 2)
    time.sleep(0.6)
    account.take_call()


def test_time_of_the_processor_has_a_rate() -> None:
    account = Account("token:ann", Quota(cpu_seconds_per_minute=60))
    account.take_call()
    account.used(10.5)  # more than there was: the call that computed it was not stopped
    with pytest.raises(LimitExceededError, match="its quota of 60 CPU seconds per minute") as caught:
        account.take_call()
    assert caught.value.limit == "cpu_seconds_per_minute"


def test_quotas_are_of_identities(tmp_path: Path, wide: Callable[[int], bytes]) -> None:
    path = tmp_path / "auth.toml"
    quotas = '[quotas."token:bob"]\nstored_bytes = 4000\n[quotas."token:ann"]\ncalls_per_second = 0.5\n'
    path.write_text(BOTH + quotas)
    config = Config(
        address="127.0.0.1:0", workers=1, auth=str(path), store_directory=str(tmp_path / "store"), log_level="error"
    )
    with Server(config) as running, Client(running.address, token=WRITER) as bob:
        first = bob.upload_module(wide(20))
        assert bob.upload_module(wide(20)).name == first.name  # the same content counts once
        with pytest.raises(LimitExceededError, match="token:bob would have .* of 4000 allowed") as caught:
            bob.upload_module(wide(200))
        assert caught.value.limit == "stored_bytes"
        second = next(count for count in range(21, 200) if len(wide(count)) > 4000 - len(wide(20)))
        with pytest.raises(LimitExceededError):
            bob.upload_module(wide(second))
        bob.delete_module(first.name)
        assert bob.upload_module(wide(second)).instruction_count == second
        used = pytest.raises(LimitExceededError, match="token:ann has used its quota of 0.5 calls per second")
        with Client(running.address, token=READER) as ann, used:
            for _ in range(10):
                ann.linear_index(TILED, (2, 3))
        assert bob.linear_index(TILED, (2, 3)) == 17


def test_uploads_and_deletions_have_a_line_at_every_level(tmp_path: Path, module: xla.HloModuleProto) -> None:
    path = tmp_path / "auth.toml"
    path.write_text(BOTH)
    with ServerProcess(Config(address="127.0.0.1:0", workers=1, auth=str(path), log_level="error")) as running:
        with Client(running.event["address"], token=WRITER) as client:
            name = client.upload_module(module.SerializeToString()).name
            client.delete_module(name)

        def lines() -> list[dict[str, Any]]:
            return [line for line in running.lines() if line.get("message") == "changed the store"]

        wait_until(lambda: len(lines()) == 2)
        uploaded, deleted = lines()
        assert (uploaded["rpc"], uploaded["identity"], uploaded["module"]) == (
            "HloService/UploadModule",
            "token:bob",
            name,
        )
        assert uploaded["peer"].startswith("ipv4:127.0.0.1:")
        assert (deleted["rpc"], deleted["identity"], deleted["module"]) == (
            "HloService/DeleteModule",
            "token:bob",
            name,
        )
        assert not any(WRITER in json.dumps(line) for line in running.lines())
