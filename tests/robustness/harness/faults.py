"""The faults of a run. A fault begins, is held for some seconds, and ends; then the server must recover by itself."""

from __future__ import annotations

import os
import random
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from bound_processes import start_script
from server_processes import children
from small_disk import SmallDisk
from stepped_clock import SteppedClock

from harness.attacks import ATTACKS, PLAIN

__all__ = ["Kind", "NotPossibleError", "Setting", "kinds"]

# How long remounting as read-only is tried again while files of the file system are open for writing.
_REMOUNT_SECONDS = 10.0
# The most time until an attacker begins: it first imports grpc, on a machine that may be busy.
_READY_SECONDS = 60.0


class NotPossibleError(Exception):
    """A fault cannot be made on this machine, for the reason in the text. The server is not to blame."""


class Setting(Protocol):
    """The parts of a run that faults use and change. `Scene` implements it."""

    scratch: Path
    """A folder of the run."""
    disk: SmallDisk | None
    """The file system that holds the store; None if this user may not mount one."""

    clock: SteppedClock | None
    """The clock of the server; None if it cannot be built."""
    no_clock: str
    """Why `clock` is None."""

    def clock_offset(self) -> float:
        """How far the server's clock is from that of this process, in seconds."""
        ...

    def pid(self) -> int:
        """The process of the server."""
        ...

    def workers(self) -> list[int]:
        """The processes that answer calls."""
        ...

    def modules_at_rest(self) -> AbstractContextManager[None]:
        """While the block runs, no caller stores, reads or deletes a module."""
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

    def modules_removed(self) -> AbstractContextManager[None]:
        """While the block runs, the fault removes all modules."""
        ...

    def swap_certificate(self) -> None:
        """Replaces the files of the server's certificate."""
        ...


class Kind(NamedTuple):
    """A fault. `run` is a generator: it begins the fault before its `yield`, and ends it after that."""

    name: str
    run: Callable[[Setting, random.Random], Iterator[None]]
    seconds: float = 2.0
    """The seconds for which the fault is held."""
    stops: bool = False
    """Whether the fault stops processes, so that health cannot be answered."""
    is_attack: bool = False
    removes: bool = False
    """Whether the fault removes modules for good."""
    stops_main: bool = False
    """Whether the fault stops the main process, so that metrics cannot be answered."""


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):  # it has ended by itself, or was replaced
        os.kill(pid, number)


def _one_of(setting: Setting, r: random.Random) -> int:
    workers = setting.workers()
    if not workers:
        raise NotPossibleError("the server has no worker just now")
    return r.choice(workers)


def _kill_worker(setting: Setting, r: random.Random) -> Iterator[None]:
    _signal(_one_of(setting, r), signal.SIGKILL)
    yield


def _kill_workers(setting: Setting, r: random.Random) -> Iterator[None]:
    for pid in setting.workers():
        _signal(pid, signal.SIGKILL)
    yield


def _kill_children(setting: Setting, r: random.Random) -> Iterator[None]:
    """Kills the processes that compute for the workers, or the one that they are forked from."""
    for worker in setting.workers():
        with suppress(OSError):  # the worker was replaced
            zygotes = children(worker)
            for pid in zygotes if r.random() < 0.3 else [pid for zygote in zygotes for pid in children(zygote)]:
                _signal(pid, signal.SIGKILL)
    yield


def _stop_worker(setting: Setting, r: random.Random) -> Iterator[None]:
    pid = _one_of(setting, r)
    _signal(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(pid, signal.SIGCONT)


def _stop_server(setting: Setting, r: random.Random) -> Iterator[None]:
    """Stops only the main process; the workers go on."""
    _signal(setting.pid(), signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(setting.pid(), signal.SIGCONT)


def _kill_server(setting: Setting, r: random.Random) -> Iterator[None]:
    _signal(setting.pid(), signal.SIGKILL)
    yield
    setting.start_server()


def _full_disk(setting: Setting, r: random.Random) -> Iterator[None]:
    assert setting.disk is not None
    filler = setting.disk.path / "filler"
    try:
        setting.disk.fill()
        yield
    finally:
        filler.unlink(missing_ok=True)


def _read_only(setting: Setting, r: random.Random) -> Iterator[None]:
    assert setting.disk is not None
    # Linux refuses while a file is open for writing, and the server may be writing one.
    end = time.monotonic() + _REMOUNT_SECONDS
    with setting.modules_at_rest():
        while True:
            try:
                setting.disk.set_writable(False)
                break
            except subprocess.CalledProcessError as error:
                if time.monotonic() > end:
                    raise NotPossibleError(f"{error}: {error.stderr.decode(errors='replace').strip()}") from None
                time.sleep(0.02)
    try:
        yield
    finally:
        setting.disk.set_writable(True)


def _empty(folder: Path) -> None:
    """Removes the content of a folder that other processes may be writing to."""
    with suppress(FileNotFoundError):
        for entry in list(folder.iterdir()):
            shutil.rmtree(entry, ignore_errors=True)


def _store_removed(setting: Setting, r: random.Random) -> Iterator[None]:
    with setting.modules_removed():
        store = setting.store()
        _empty(store)
        if setting.disk is None:
            shutil.rmtree(store, ignore_errors=True)
        yield


def _swap_certificate(setting: Setting, r: random.Random) -> Iterator[None]:
    setting.swap_certificate()
    yield


def _clock(name: str, seconds: int) -> Kind:
    def run(setting: Setting, r: random.Random) -> Iterator[None]:
        assert setting.clock is not None
        setting.clock.step(seconds)
        try:
            found = setting.clock_offset()
            if abs(found - seconds) > 600:
                raise NotPossibleError(f"the server's clock did not move: it is {found:.0f} s from that of the machine")
            yield
        finally:
            setting.clock.step(0)

    return Kind(name, run, 4.0)


def _attack(name: str) -> Kind:
    def run(setting: Setting, r: random.Random) -> Iterator[None]:
        script = Path(__file__).with_name("attacks.py")
        with (
            tempfile.TemporaryFile("w+") as errors,
            start_script(script, name, *setting.target(), stdout=subprocess.PIPE, stderr=errors) as process,
        ):
            try:
                _await_line(process, _READY_SECONDS)
                yield
                has_ended = process.poll() is not None
            finally:
                process.kill()
            if has_ended:
                errors.seek(0)
                raise RuntimeError(f"the attacker ended by itself: {errors.read()[-2000:]}")

    return Kind(name, run, 5.0, is_attack=True)


def _await_line(process: subprocess.Popen[str], seconds: float) -> None:
    """Returns once the process has written a line, or has ended. NotPossibleError if it does neither."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(seconds):
            raise NotPossibleError(f"the attacker had not started after {seconds:g} s")
    process.stdout.readline()


def kinds(setting: Setting, *, tls: bool, skipped: Callable[[str, str], None]) -> list[Kind]:
    """The faults that this machine can run. `skipped` is called with each other fault and the reason."""
    found = [
        Kind("kill_worker", _kill_worker, 0.0, stops=True),
        Kind("kill_workers", _kill_workers, 0.0, stops=True),
        Kind("kill_children", _kill_children, 0.0),
        Kind("stop_worker", _stop_worker, 7.0, stops=True),
        Kind("stop_server", _stop_server, stops_main=True),
        Kind("kill_server", _kill_server, 1.0, stops=True, stops_main=True),
    ]
    if setting.disk is not None:
        found += [Kind("full_disk", _full_disk, 3.0), Kind("read_only", _read_only, 3.0)]
    else:
        skipped("full_disk, read_only", "this user cannot mount a file system")
    found.append(Kind("store_removed", _store_removed, removes=True))
    if tls:
        found.append(Kind("swap_certificate", _swap_certificate, 3.0))
    for name in ATTACKS:
        if tls and name in PLAIN:
            skipped(name, "it speaks no TLS; the run without TLS has it")
        else:
            found.append(_attack(name))
    if setting.clock is not None:
        found += [_clock("clock_forward", 3600), _clock("clock_back", -3600)]
    else:
        skipped("clock_forward, clock_back", setting.no_clock)
    return found
