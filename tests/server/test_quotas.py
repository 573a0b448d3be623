"""Quotas of identities, and the log lines of uploads and deletions."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
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
from xlashape_server.accounts import Account, Ledger, Quota, set_account

TILED = "f32[3,5]{1,0:T(2,2)}"


def test_time_of_the_processor_has_a_rate() -> None:
    account = Account("token:ann", Quota(cpu_seconds_per_minute=60))
    account.check_time()
    account.used(10.5)  # more than was left: the call was not stopped while it computed
    with pytest.raises(LimitExceededError, match="its quota of 60 CPU seconds per minute") as caught:
        account.check_time()
    assert (caught.value.limit, caught.value.maximum) == ("cpu_seconds_per_minute", 60)


def test_a_quota_of_half_a_second_is_in_the_message_alone() -> None:
    """`maximum` is a whole number in the details of an error; half a second would be 0 there."""
    account = Account("token:ann", Quota(cpu_seconds_per_minute=0.5))
    account.used(1.0)
    with pytest.raises(LimitExceededError, match=r"its quota of 0\.5 CPU seconds per minute") as caught:
        account.check_time()
    assert caught.value.maximum is None
    assert "maximum" not in caught.value.details()


def test_parallel_uploads_do_not_exceed_the_quota(tmp_path: Path, wide: Callable[[int], bytes]) -> None:
    """64 uploads of different modules at once, to two processes. The quota has room for ten."""
    modules = [wide(20).replace(b"wide", f"w{i:03}".encode()) for i in range(64)]
    size = len(modules[0])
    assert len(set(modules)) == 64
    path = tmp_path / "auth.toml"
    path.write_text(f'{BOTH}[quotas."token:bob"]\nstored_bytes = {10 * size + 1}\n')
    config = Config(
        address="127.0.0.1:0", workers=2, auth=str(path), store_directory=str(tmp_path / "store"), log_level="error"
    )
    with Server(config) as running, ExitStack() as stack:
        clients = [stack.enter_context(Client(running.address, token=WRITER)) for _ in range(8)]

        def upload(i: int) -> bool:
            try:
                clients[i % 8].upload_module(modules[i])
            except LimitExceededError:
                return False
            return True

        with ThreadPoolExecutor(64) as threads:
            taken = [i for i, stored in enumerate(threads.map(upload, range(64))) if stored]
        assert len(taken) == 10
        kept = [each for each in (tmp_path / "store" / "modules").glob("??/*") if each.is_file()]
        assert len(kept) == 10
        owned = [each.name for each in (tmp_path / "store" / "owners").glob("*/*") if each.name != ".lock"]
        assert len(owned) == 10
        assert not any("pending" in name for name in owned)
        assert upload(taken[0])  # the store has this module already
        assert not upload(next(i for i in range(64) if i not in taken))
        clients[0].delete_module(f"modules/{hashlib.sha256(modules[taken[0]]).hexdigest()}")
        assert upload(next(i for i in range(64) if i not in taken))


def test_uploads_that_failed_are_not_counted(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    set_account(Account("token:ann", Quota(stored_bytes=100)))
    try:
        for _ in range(3):
            with pytest.raises(ZeroDivisionError), ledger.counted("a" * 64, 90, is_shared=True):
                raise ZeroDivisionError
        with ledger.counted("b" * 64, 60, is_shared=True):
            with pytest.raises(LimitExceededError), ledger.counted("c" * 64, 60, is_shared=True):
                pytest.fail("it was not refused")
            with ledger.counted("d" * 64, 40, is_shared=True):
                pass
        (folder,) = (tmp_path / "owners").iterdir()
        died = folder / f"{'e' * 64}.90.pending0"
        died.touch()
        os.utime(died, (1, 1))
        ledger.remove("b" * 64)
        with ledger.counted("f" * 64, 60, is_shared=True):
            assert not died.exists()
    finally:
        set_account(None)


def test_quotas_are_of_identities(tmp_path: Path, wide: Callable[[int], bytes]) -> None:
    path = tmp_path / "auth.toml"
    quotas = '[quotas."token:bob"]\nstored_bytes = 4000\n[quotas."token:ann"]\ncpu_seconds_per_minute = 0.001\n'
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
        used = pytest.raises(LimitExceededError, match="token:ann has used its quota of 0.001 CPU seconds per minute")
        with Client(running.address, token=READER) as ann, used:
            for _ in range(100_000):
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
            "HloService/PutModule",
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
