"""Compute children: processes that answer one call at a time, are killed, and are replaced."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pytest

from xlashape.errors import DeadlineExceededError, LimitExceededError
from xlashape.proto import v1
from xlashape_server.children import Children, Question, RefusedError
from xlashape_server.config import Config
from xlashape_server.handlers import rpcs
from xlashape_server.modules import Modules
from xlashape_server.store import Store

NUMBERS = {}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return Config(store_directory=str(tmp_path_factory.mktemp("store")), max_worker_memory=512 << 20)


@pytest.fixture(scope="module")
def children(config: Config) -> Iterator[Children]:
    for number, rpc in enumerate(rpcs(config, Modules(config, Store.of(config)))):
        NUMBERS[rpc.method.name] = number
    started = Children(config)
    started.start()
    yield started
    started.stop()


def question(rpc: str, request: object, seconds: float = 30, **more: object) -> Question:
    return Question(NUMBERS[rpc], request.SerializeToString(), seconds, more.pop("is_over", bool), **more)


def module_text(count: int) -> str:
    lines = [f"  n.{i} = f32[8,128]{{1,0}} negate({'p' if not i else f'n.{i - 1}'})" for i in range(count)]
    return "\n".join(["HloModule m", "", "ENTRY e {", "  p = f32[8,128]{1,0} parameter(0)", *lines, "}"])


def slow(count: int = 60_000) -> v1.VerifyRequest:
    """A question that takes a second or more."""
    return v1.VerifyRequest(module=v1.ModuleInput(text=module_text(count)))


def test_a_child_answers_as_the_handler_does(children: Children, config: Config) -> None:
    request = v1.ListInstructionsRequest(module=v1.ModuleInput(text=module_text(3000)))
    handler = next(
        rpc.handler for rpc in rpcs(config, Modules(config, Store.of(config))) if rpc.method.name == "ListInstructions"
    )
    answer = children.ask(question("ListInstructions", request))
    assert len(answer) > 64 << 10  # more than the socket holds
    assert answer == handler(request.SerializeToString(), time.monotonic() + 30)


def test_an_error_of_the_library_comes_as_its_status(children: Children) -> None:
    request = v1.ListInstructionsRequest(module=v1.ModuleInput(text="no module"))
    with pytest.raises(RefusedError, match="module.text") as caught:
        children.ask(question("ListInstructions", request))
    assert caught.value.status.details


def kill_all(children: Children) -> None:
    for pid in children.pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_call_whose_child_is_killed_is_answered_by_another(children: Children) -> None:
    before = children.ended["killed"]
    asked = question("ListInstructions", v1.ListInstructionsRequest(module=v1.ModuleInput(text=module_text(40_000))))
    expected = children.ask(asked)
    killed = threading.Timer(0.1, kill_all, (children,))
    killed.start()
    assert children.ask(asked._replace(about=("other",))) == expected
    killed.join()
    assert children.ended["killed"] in (before, before + 1)  # a fast machine has answered before
    assert children.ask(asked) == expected


def test_a_call_that_ends_two_children_is_refused_and_remembered(children: Children) -> None:
    asked = question("Verify", slow(), key=b"ends two")
    stop = threading.Event()

    def kill() -> None:
        while not stop.wait(0.05):
            kill_all(children)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(LimitExceededError, match="twice"):
        children.ask(asked)
    stop.set()
    killer.join()
    began = time.monotonic()
    with pytest.raises(LimitExceededError, match="twice"):
        children.ask(asked)
    assert time.monotonic() - began < 0.1


def test_a_child_that_does_not_end_in_time_is_killed(children: Children) -> None:
    """A child that is stopped is as one in compiled code that never returns."""
    stopped: set[int] = set()
    ended = threading.Event()

    def stop() -> None:
        while not ended.wait(0.02):
            for pid in children.pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                stopped.add(pid)

    children.ask(question("ParseMap", v1.ParseMapRequest(maps=[v1.MapInput(text="() -> (1)")])))
    stopper = threading.Thread(target=stop)
    stopper.start()
    began = time.monotonic()
    with pytest.raises(DeadlineExceededError):
        children.ask(question("Verify", slow(), seconds=0.5))
    assert time.monotonic() - began < 5
    ended.set()
    stopper.join()
    assert children.ended["late"]
    for pid in stopped & set(children.pids):
        os.kill(pid, signal.SIGCONT)


def test_a_caller_that_goes_away_ends_its_call(children: Children) -> None:
    gone = threading.Event()
    threading.Timer(0.2, gone.set).start()
    began = time.monotonic()
    with pytest.raises((RefusedError, DeadlineExceededError)):
        children.ask(question("Verify", slow(200_000), is_over=gone.is_set))
    assert time.monotonic() - began < 4


def test_more_memory_than_a_child_may_have_is_refused(config: Config) -> None:
    small = Children(Config(store_directory=config.store_directory, max_worker_memory=128 << 20))
    small.start()
    try:
        with pytest.raises(LimitExceededError) as caught:
            small.ask(question("Verify", slow(240_000), key=b"much"))
        assert caught.value.limit == "memory"
        assert small.ask(question("ParseMap", v1.ParseMapRequest(maps=[v1.MapInput(text="() -> (1)")])))
    finally:
        small.stop()


@pytest.mark.usefixtures("children")
def test_calls_that_fit_one_by_one_are_all_answered(config: Config) -> None:
    """Each of them takes a good half of the memory, so that a call which began later gives way and is asked again."""
    small = Children(Config(store_directory=config.store_directory, max_worker_memory=128 << 20))
    small.start()
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            small.look()

    threading.Thread(target=look).start()
    try:
        with ThreadPoolExecutor(6) as threads:
            asked = [question("Verify", slow(40_000 + count)) for count in range(6)]
            answers = list(threads.map(small.ask, asked))
        assert [v1.VerifyResponse.FromString(answer).row_count for answer in answers] == [0] * 6
        assert small.ended["killed"] == 0
    finally:
        ended.set()
        small.stop()


def test_while_memory_is_tight_an_address_has_one_call_at_a_time(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    def ask(name: str, request: object, address: str) -> None:
        children.ask(question("Verify", request, caller=(address, f"{address}:{name}")))
        ended.append(name)

    with ThreadPoolExecutor(3) as threads:
        threads.submit(ask, "slow", slow(59_000), "a")
        while not children._busy["a"]:
            time.sleep(0.01)
        monkeypatch.setattr(children, "_is_tight", True)
        asked = [threads.submit(ask, name, slow(3), name[0]) for name in ("a, later", "b")]
        asked[1].result()
        asked[0].result()
    assert ended == ["b", "slow", "a, later"]


def test_busy_children_get_company_and_idle_ones_end(children: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    callers = [threading.Thread(target=children.ask, args=(question("Verify", slow()),)) for _ in range(3)]
    for caller in callers:
        caller.start()
    most = 0
    while any(caller.is_alive() for caller in callers):
        most = max(most, len(children.pids))
        time.sleep(0.01)
    assert most == 3
    monkeypatch.setattr("xlashape_server.children._IDLE_SECONDS", 0.0)
    children.look()
    assert len(children.pids) == 1


def test_children_end_with_their_front(config: Config) -> None:
    """The front is a process that is killed."""
    program = (
        "import json, sys, time; from xlashape_server.children import Children; from xlashape_server.config import Config; "
        "c = Children(Config(**json.loads(sys.argv[1]))); c.start(); print(*c.pids, flush=True); time.sleep(60)"
    )
    import subprocess
    import sys

    front = subprocess.Popen(
        [sys.executable, "-c", program, json.dumps(asdict(config))], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert front.stdout is not None
    [pid] = map(int, front.stdout.readline().split())
    front.kill()
    front.wait()
    front.stdout.close()
    end = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()


def test_a_stopped_child_does_not_hold_a_long_request(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is too long for the buffers of the socket. Another child answers."""
    monkeypatch.setattr("xlashape_server.children._MESSAGE_SECONDS", 1)
    children = Children(config)
    children.start()
    try:
        [pid] = children.pids
        os.kill(pid, signal.SIGSTOP)
        request = v1.ListInstructionsRequest(module=v1.ModuleInput(text=module_text(20_000)))
        assert children.ask(question("ListInstructions", request))
        assert pid not in children.pids
    finally:
        children.stop()
