"""Quotas of one identity: processor time, and bytes of uploaded modules. They apply only where callers are
authenticated.

Time is a rate, kept as a token bucket. A running call may overdraw it; further calls are refused until it has refilled.
Stored bytes are counted in files beside the store, since all workers share them.
"""

from __future__ import annotations

import fcntl
import hashlib
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from xlashape.errors import LimitExceededError
from xlashape_server.store import faults

_BURST_SECONDS = 10.0  # an identity may use this many seconds' worth of its rate at once
_LEAST_SECONDS = 0.5  # a call begins only if its identity has this much processor time left
_LOCK, _PENDING = ".lock", "pending"  # parts of the names of files
_PENDING_SECONDS = 900.0  # an upload that has not ended after this time is taken for dead
_MAX_ACCOUNTS = 10_000  # accounts that a worker keeps; the least recently used are dropped


class Quota(NamedTuple):
    """The quota of one identity: time in one worker, and bytes in the store. None means no bound."""

    cpu_seconds_per_minute: float | None = None
    stored_bytes: int | None = None


class Account:
    """What an identity has used of its quota."""

    def __init__(self, identity: str, quota: Quota) -> None:
        self.identity = identity
        self.quota = quota
        self._lock = threading.Lock()
        self.counts_time = quota.cpu_seconds_per_minute is not None
        """Whether the quota bounds processor time. If so, `used` is called with the time of each call."""
        self._rate = (quota.cpu_seconds_per_minute or 0.0) / 60
        self._most = max(1.0, self._rate * _BURST_SECONDS)
        self._left = self._most
        self._time = time.monotonic()

    def check_time(self) -> None:
        """LimitExceededError "cpu_seconds_per_minute" if the identity has used its quota. A call begins if half a
        second is left.
        """
        maximum = self.quota.cpu_seconds_per_minute
        with self._lock:
            self._refill()
            missing = _LEAST_SECONDS - self._left
        if missing > 0 and maximum is not None:
            raise LimitExceededError(
                f"{self.identity} has used its quota of {maximum:g} CPU seconds per minute; try again in "
                f"{max(0.1, missing / self._rate):.1f} seconds",
                limit="cpu_seconds_per_minute",
                maximum=maximum,
            )

    def used(self, seconds: float) -> None:
        """Counts processor time that a call of the identity took."""
        with self._lock:
            self._refill()
            self._left -= seconds

    def _refill(self) -> None:
        now = time.monotonic()
        self._left = min(self._most, self._left + (now - self._time) * self._rate)
        self._time = now


class Accounts:
    """The accounts of a worker, by identity."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accounts: OrderedDict[str, Account] = OrderedDict()

    def of(self, identity: str, quota: Quota) -> Account:
        """The account of an identity; a new one if its quota has changed."""
        with self._lock:
            account = self._accounts.get(identity)
            if account is None or account.quota != quota:
                account = self._accounts[identity] = Account(identity, quota)
            self._accounts.move_to_end(identity)
            if len(self._accounts) > _MAX_ACCOUNTS:
                self._accounts.popitem(last=False)
        return account


class _Thread(threading.local):
    account: Account | None = None


_thread = _Thread()


def set_account(account: Account | None) -> None:
    """Sets `current_account` in this thread to the account of the call that the thread computes."""
    _thread.account = account


def current_account() -> Account | None:
    """The account of the call that this thread computes; None where callers are not authenticated."""
    return _thread.account


class Ledger:
    """Records who uploaded which modules, as empty files `owners/IDENTITY'S DIGEST/DIGEST.SIZE` in the directory of the
    store.

    While a module is being stored its file ends with `.pending` and a number, so that other uploads of the identity
    count it already.
    """

    def __init__(self, store_directory: str) -> None:
        self._is_used = bool(store_directory)
        self._root = Path(store_directory) / "owners"
        self._modules = Path(store_directory) / "modules"

    @contextmanager
    def counted(self, sha256: str, size: int, *, is_shared: bool) -> Generator[None]:
        """Counts a module that is stored within the block. LimitExceededError "stored_bytes" if the caller would have
        more than its quota. `is_shared`: the modules are in a bucket, so that their files here are a cache.
        """
        account = current_account()
        if account is None or account.quota.stored_bytes is None:
            yield
            return
        folder = self._folder(account)
        pending = folder / f"{sha256}.{size}.{_PENDING}{uuid.uuid4().hex}"
        with faults():
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / _LOCK).open("ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._check(account, account.quota.stored_bytes, sha256, size, is_shared=is_shared)
                pending.touch()
        try:
            yield
            with faults():
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{sha256}.{size}").touch()
        finally:
            with suppress(OSError):
                pending.unlink()

    def _check(self, account: Account, most: int, sha256: str, size: int, *, is_shared: bool) -> None:
        sizes = {sha256: size}
        now = time.time()
        for entry in sorted(self._folder(account).iterdir()):
            digest, _, facts = entry.name.partition(".")
            stored, _, state = facts.partition(".")
            if not digest:
                continue  # the lock
            if state:
                is_there = now - entry.stat().st_mtime < _PENDING_SECONDS
            else:
                is_there = is_shared or (self._modules / digest[:2] / digest).exists()
            if is_there:
                sizes[digest] = int(stored)
            else:
                entry.unlink(missing_ok=True)  # the module was deleted or evicted, or its upload did not end
        total = sum(sizes.values())
        if total > most:
            raise LimitExceededError(
                f"{account.identity} would have {total} bytes of modules in the store, of {most} allowed; delete some, "
                "or wait until they are too old",
                limit="stored_bytes",
                maximum=most,
                value=total,
            )

    def remove(self, sha256: str) -> None:
        """Forgets who uploaded a module, after it was deleted."""
        if self._is_used and self._root.is_dir():
            with faults():
                for path in self._root.glob(f"*/{sha256}.*"):
                    if _PENDING not in path.name:
                        path.unlink(missing_ok=True)

    def _folder(self, account: Account) -> Path:
        return self._root / hashlib.sha256(account.identity.encode()).hexdigest()
