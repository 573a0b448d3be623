"""What goes wrong in a run. A fault begins, is held for some seconds, and ends; then the server has to get back to normal by itself."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from server_processes import children
from small_disk import SmallDisk

from harness.attacks import ATTACKS, PLAIN

__all__ = ["Kind", "Setting", "kinds"]


class Setting(Protocol):
    """What faults are done to."""

    scratch: Path
    """A folder of the run."""
    disk: SmallDisk | None
    """The file system of the store, where this user may mount one."""

    def pid(self) -> int:
        """The process of the server."""
        ...

    def start_server(self) -> None:
        """Starts the server again, at its address and with its store."""
        ...

    def target(self) -> tuple[str, str]:
        """The address that attackers call, and the file of root certificates (empty without TLS)."""
        ...

    def store(self) -> Path:
        """The directory of the store."""
        ...

    def modules_are_gone(self) -> None:
        """The fault has removed all modules."""
        ...

    def set_bucket_fault(self, fault: str) -> None:
        """Sets what is wrong with the bucket."""
        ...

    def swap_certificate(self) -> None:
        """Puts the files of another certificate in place of the server's."""
        ...


class Kind(NamedTuple):
    """A fault. `run` is a generator: it begins the fault before its `yield`, and ends it after that."""

    name: str
    run: Callable[[Setting, random.Random], Iterator[None]]
    seconds: float = 2.0
    """How long it is held."""
    stops: bool = False
    """Whether it stops processes, so that health cannot be answered."""
    is_attack: bool = False
    removes: bool = False
    """Whether it removes modules for good."""


def _kill_worker(setting: Setting, r: random.Random) -> Iterator[None]:
    os.kill(r.choice(children(setting.pid())), signal.SIGKILL)
    yield


def _kill_workers(setting: Setting, r: random.Random) -> Iterator[None]:
    for pid in children(setting.pid()):
        os.kill(pid, signal.SIGKILL)
    yield


def _stop_worker(setting: Setting, r: random.Random) -> Iterator[None]:
    pid = r.choice(children(setting.pid()))
    os.kill(pid, signal.SIGSTOP)
    yield
    with suppress(ProcessLookupError):  # it was replaced
        os.kill(pid, signal.SIGCONT)


def _stop_server(setting: Setting, r: random.Random) -> Iterator[None]:
    """The watching process alone: the workers go on."""
    os.kill(setting.pid(), signal.SIGSTOP)
    yield
    os.kill(setting.pid(), signal.SIGCONT)


def _kill_server(setting: Setting, r: random.Random) -> Iterator[None]:
    os.kill(setting.pid(), signal.SIGKILL)
    yield
    setting.start_server()


def _full_disk(setting: Setting, r: random.Random) -> Iterator[None]:
    assert setting.disk is not None
    filler = setting.disk.fill()
    yield
    filler.unlink()


def _read_only(setting: Setting, r: random.Random) -> Iterator[None]:
    assert setting.disk is not None
    for attempt in range(50):
        try:
            setting.disk.set_writable(False)
            break
        except subprocess.CalledProcessError:  # a file is being written just now
            if attempt == 49:
                raise
            time.sleep(0.02)
    yield
    setting.disk.set_writable(True)


def _store_removed(setting: Setting, r: random.Random) -> Iterator[None]:
    setting.modules_are_gone()
    store = setting.store()
    for entry in list(store.iterdir()):
        shutil.rmtree(entry, ignore_errors=True)
    if setting.disk is None:
        shutil.rmtree(store, ignore_errors=True)
    yield
    setting.modules_are_gone()  # those that were acknowledged while files were being removed


def _cache_removed(setting: Setting, r: random.Random) -> Iterator[None]:
    """The directory in front of a bucket: nothing may be lost."""
    for entry in list(setting.store().iterdir()):
        shutil.rmtree(entry, ignore_errors=True)
    yield


def _bit_flips(setting: Setting, r: random.Random) -> Iterator[None]:
    """A byte of every module of the cache: the bucket has the right ones."""
    for path in setting.store().rglob("*"):
        with suppress(OSError):
            if path.is_file() and path.stat().st_size > 50:
                with path.open("r+b") as file:
                    file.seek(r.randrange(path.stat().st_size))
                    byte = file.read(1)
                    file.seek(-1, os.SEEK_CUR)
                    file.write(bytes([byte[0] ^ 1 << r.randrange(8)]))
    yield


def _bucket(fault: str) -> Kind:
    def run(setting: Setting, r: random.Random) -> Iterator[None]:
        setting.set_bucket_fault(fault)
        yield
        setting.set_bucket_fault("")

    return Kind(f"bucket_{fault.replace(' ', '_')}", run, 4.0)


def _swap_certificate(setting: Setting, r: random.Random) -> Iterator[None]:
    setting.swap_certificate()
    yield


def _attack(name: str) -> Kind:
    def run(setting: Setting, r: random.Random) -> Iterator[None]:
        script = str(Path(__file__).with_name("attacks.py"))
        with subprocess.Popen([sys.executable, script, name, *setting.target()], stderr=subprocess.DEVNULL) as process:
            try:
                yield
            finally:
                process.kill()

    return Kind(name, run, 5.0, is_attack=True)


def kinds(*, bucket: bool, tls: bool, disk: bool, skipped: Callable[[str, str], None]) -> list[Kind]:
    """The faults that a run can have. `skipped` is told the others, with the reason."""
    found = [
        Kind("kill_worker", _kill_worker, 0.0, stops=True),
        Kind("kill_workers", _kill_workers, 0.0, stops=True),
        Kind("stop_worker", _stop_worker, 4.0, stops=True),
        Kind("stop_server", _stop_server),
        Kind("kill_server", _kill_server, 1.0, stops=True),
    ]
    if disk:
        found += [Kind("full_disk", _full_disk, 3.0), Kind("read_only", _read_only, 3.0)]
    else:
        skipped("full_disk, read_only", "this user cannot mount a file system")
    if bucket:
        found += [_bucket(fault) for fault in ("errors", "cut", "slow", "hangs", "wrong bytes")]
        found += [Kind("cache_removed", _cache_removed), Kind("bit_flips", _bit_flips)]
    else:
        found.append(Kind("store_removed", _store_removed, removes=True))
    if tls:
        found.append(Kind("swap_certificate", _swap_certificate, 3.0))
    for name in ATTACKS:
        if tls and name in PLAIN:
            skipped(name, "it speaks no TLS; the run without TLS has it")
        else:
            found.append(_attack(name))
    skipped("clock_step", "a step of the machine's clock would meet everything else that runs on it")
    return found
