"""What one identity may use: calls, time of the processor, and bytes of modules it uploaded. Only where callers are authenticated.

Calls and time are rates, as buckets that fill again. A bucket of time may be overdrawn by the call that is under way; further calls wait until
it is filled. Stored bytes are kept in files beside the store, since all workers share them.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from xlashape.errors import LimitExceededError
from xlashape_server.store_faults import faults

__all__ = ["Account", "Accounts", "Ledger", "Quota", "current_account", "set_account"]

_BURST_SECONDS = 10.0  # of its rate that an identity may use at once
_MAX_ACCOUNTS = 10_000  # that a worker remembers; the least recently used are forgotten


class Quota(NamedTuple):
    """What one identity may use in one worker, and of the store. None: no bound."""

    calls_per_second: float | None = None
    cpu_seconds_per_minute: float | None = None
    stored_bytes: int | None = None


class Account:
    """What an identity has used."""

    def __init__(self, identity: str, quota: Quota) -> None:
        self.identity = identity
        self.quota = quota
        self._lock = threading.Lock()
        self._calls = _Bucket(quota.calls_per_second)
        cpu = quota.cpu_seconds_per_minute
        self._seconds = _Bucket(None if cpu is None else cpu / 60)
        self.has_rates = quota.calls_per_second is not None or cpu is not None
        """Whether calls are to be counted by `take_call`."""
        self.counts_time = cpu is not None
        """Whether the time of calls is to be told by `used`."""

    def take_call(self) -> None:
        """One call more. LimitExceededError "calls_per_second" or "cpu_seconds_per_minute" if the identity has used what it may."""
        with self._lock:
            now = time.monotonic()
            wait = self._seconds.wait(now)
            limit, maximum = "cpu_seconds_per_minute", self.quota.cpu_seconds_per_minute
            if not wait:
                wait = self._calls.wait(now)
                limit, maximum = "calls_per_second", self.quota.calls_per_second
            if not wait:
                self._calls.take(1.0)
                return
        assert maximum is not None
        raise LimitExceededError(
            f"{self.identity} has used its quota of {maximum:g} {limit.replace('_', ' ').replace('cpu', 'CPU')}; try again in {max(0.1, wait):.1f} seconds",
            limit=limit,
            maximum=int(maximum),
        )

    def used(self, seconds: float) -> None:
        """The processor computed so long for the identity."""
        with self._lock:
            self._seconds.wait(time.monotonic())
            self._seconds.take(seconds)


class _Bucket:
    """What may be used at once, which fills at a rate: of so much a second."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._most = max(1.0, (rate or 0.0) * _BURST_SECONDS)
        self._left = self._most
        self._time = time.monotonic()

    def wait(self, now: float) -> float:
        """Seconds until something can be taken; 0: now."""
        if self._rate is None:
            return 0.0
        self._left = min(self._most, self._left + (now - self._time) * self._rate)
        self._time = now
        # A call takes 1; time is taken when it was used, so that some must be left.
        needed = min(1.0, self._most) if self._most > 1.0 or self._rate >= 0.1 else 0.0
        return 0.0 if self._left >= needed else (needed - self._left) / self._rate

    def take(self, amount: float) -> None:
        if self._rate is not None:
            self._left -= amount


class Accounts:
    """The accounts of a worker, by identity. `forgotten` is called when the account of one is, so that nobody uses two accounts."""

    def __init__(self, forgotten: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._accounts: OrderedDict[str, Account] = OrderedDict()
        self._forgotten = forgotten

    def of(self, identity: str, quota: Quota) -> Account:
        """The account of an identity; a new one if its quota has changed."""
        with self._lock:
            account = self._accounts.get(identity)
            if account is None or account.quota != quota:
                account = self._accounts[identity] = Account(identity, quota)
            self._accounts.move_to_end(identity)
            if len(self._accounts) > _MAX_ACCOUNTS:
                self._accounts.popitem(last=False)
                self._forgotten()
        return account


class _Thread(threading.local):
    account: Account | None = None


_thread = _Thread()


def set_account(account: Account | None) -> None:
    """Makes `current_account` in this thread the one of the call that it computes."""
    _thread.account = account


def current_account() -> Account | None:
    """The account of the call that this thread computes; None where callers are not authenticated."""
    return _thread.account


class Ledger:
    """Who uploaded which modules: an empty file for each, `owners/IDENTITY'S DIGEST/DIGEST.SIZE`, in the directory of the store."""

    def __init__(self, store_directory: str) -> None:
        self._is_used = bool(store_directory)
        self._root = Path(store_directory) / "owners"
        self._modules = Path(store_directory) / "modules"

    def check(self, sha256: str, size: int, *, is_shared: bool) -> None:
        """LimitExceededError "stored_bytes" if the identity that calls may not store so many bytes more. `is_shared`: the modules are in a bucket, so that their files here are a cache."""
        account = current_account()
        if account is None or account.quota.stored_bytes is None:
            return
        total = size
        with faults():
            for entry in self._entries(account):
                digest, _, stored = entry.name.partition(".")
                if digest == sha256:
                    total -= size
                elif not is_shared and not (self._modules / digest[:2] / digest).exists():
                    entry.unlink(missing_ok=True)  # it was deleted, or made room for others
                    continue
                total += int(stored)
        if total > account.quota.stored_bytes:
            raise LimitExceededError(
                f"{account.identity} would have {total} bytes of modules in the store, of {account.quota.stored_bytes} allowed; delete some, or wait until they are too old",
                limit="stored_bytes",
                maximum=account.quota.stored_bytes,
                value=total,
            )

    def add(self, sha256: str, size: int) -> None:
        """The identity that calls has uploaded a module."""
        account = current_account()
        if account is None or account.quota.stored_bytes is None:
            return
        with faults():
            folder = self._folder(account)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{sha256}.{size}").touch()

    def remove(self, sha256: str) -> None:
        """A module was deleted, by whomever."""
        if self._is_used and self._root.is_dir():
            with faults():
                for path in self._root.glob(f"*/{sha256}.*"):
                    path.unlink(missing_ok=True)

    def _folder(self, account: Account) -> Path:
        return self._root / hashlib.sha256(account.identity.encode()).hexdigest()

    def _entries(self, account: Account) -> list[Path]:
        folder = self._folder(account)
        return sorted(folder.iterdir()) if folder.is_dir() else []
