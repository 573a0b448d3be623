"""The places, turns and memory of a worker: which calls get them, and in which order."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
import time

import pytest

from xlashape.errors import DeadlineExceededError, LimitExceededError
from xlashape.limits import budget, set_checkpoint, spend
from xlashape_server.callers import Caller, Places, Shares, caller_at
from xlashape_server.calls import Call, CutOff, Watch
from xlashape_server.config import Config
from xlashape_server.guard import Guard
from xlashape_server.memory import Lease, Memory, keeping_freed_memory, reserve, set_lease
from xlashape_server.turns import Turns

HALF = Shares(0.75, 0.5)
MIB = 1 << 20


def caller(address: str, connection: int = 1) -> Caller:
    return Caller(address, f"{address}:{connection}")


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:192.0.2.7:50123", "ipv4:192.0.2.7"),
        ("ipv6:%5B2001:db8::7%5D:50123", "ipv6:2001:db8::/64"),
        ("ipv6:%5B2001:db8::ffff:0:0:9%5D:1", "ipv6:2001:db8::/64"),
        ("ipv6:%5B2001:db8:0:1::7%5D:50123", "ipv6:2001:db8:0:1::/64"),
        ("ipv6:[2001:db8::7]:50123", "ipv6:2001:db8::/64"),
        ("ipv6:%5Bfe80::1%25eth0%5D:50123", "ipv6:fe80::/64"),
        ("ipv6:%5B::ffff:192.0.2.7%5D:50123", "ipv4:192.0.2.7"),
        ("ipv6:what:1", "ipv6:what"),
        ("unix:", "unix:"),
        ("unix:/run/x.sock", "unix:/run/x.sock"),
        ("", ""),
    ],
)
def test_a_caller_is_an_address_without_its_port_or_a_network_of_ipv6(peer: str, address: str) -> None:
    assert caller_at(peer) == (address, peer)


def test_places_go_to_anyone_first_and_by_shares_then() -> None:
    places = Places("concurrent_calls", 16, HALF)
    assert sum(places.take_open() for _ in range(16)) == 4
    mine = caller("a")
    for _ in range(4):
        places.take(mine)
    with pytest.raises(LimitExceededError, match="this connection has its share of 16 under way") as caught:
        places.take(mine)
    assert (caught.value.limit, caught.value.maximum) == ("concurrent_calls", 16)
    for _ in range(4):
        places.take(caller("a", 2))
    with pytest.raises(LimitExceededError, match="this caller has its share"):
        places.take(caller("a", 3))
    for _ in range(2):  # two of the four places that the other caller leaves
        places.take(caller("b"))
    with pytest.raises(LimitExceededError, match="this caller has its share"):
        places.take(caller("b", 2))
    for each in "cd":
        places.take(caller(each))
        with pytest.raises(LimitExceededError):
            places.take(caller(each, 2))
    assert places.taken == 16
    with pytest.raises(LimitExceededError, match="16 are under way"):
        places.take(caller("e"))
    places.give_back(mine)
    places.take(caller("e"))
    for _ in range(4):
        places.give_back_open()
    assert places.taken == 12


@pytest.mark.parametrize("maximum", [1, 2, 3, 4, 16, 100, 2048])
@pytest.mark.parametrize("shares", [HALF, Shares(0.5, 0.25), Shares(0.1, 0.1), Shares(1.0, 1.0), Shares(0.01, 1.0)])
def test_no_caller_has_more_than_its_share_and_some_are_left_for_others(maximum: int, shares: Shares) -> None:
    places = Places("concurrent_calls", maximum, shares)

    def take_all(name: str) -> int:
        """Begins one call on each of many connections until no place is left."""
        count = 0
        while places.take_open():
            count += 1
        try:
            while True:
                places.take(caller(name, count))
                count += 1
        except LimitExceededError:
            return count

    held = [take_all(f"caller {i}") for i in range(3)]
    assert held[0] <= max(1, shares.address * maximum)
    if shares.address <= 0.75 and maximum >= 16:
        assert sum(held[:2]) <= maximum * 11 / 12
        assert sum(held) < maximum


def test_connections_of_a_unix_socket_are_not_told_apart() -> None:
    places = Places("concurrent_calls", 4, HALF)
    local = caller_at("unix:")
    for _ in range(2):
        places.take(local)
    with pytest.raises(LimitExceededError, match="this caller"):
        places.take(local)


class Worker:
    """Turns and a watch without a server."""

    def __init__(self, short: int = 1) -> None:
        self.turns = Turns(short, Shares(1.0, 1.0))
        self.watch = Watch(Memory(1 << 40), self.turns, receive_seconds=10, send_seconds=10)

    def call(self, who: Caller, seconds: float = 30.0, cut_off: CutOff = lambda call, error: None) -> Call:
        return self.watch.admit("A/B", lambda: who, seconds, cut_off, ())


def test_turns_go_round_callers_and_their_connections() -> None:
    worker = Worker()
    order: list[str] = []
    first = worker.call(caller("z"))
    first.take_turn()

    def run(who: Caller) -> None:
        with worker.call(who):
            order.append(who.connection)

    threads: list[threading.Thread] = []
    for who in [caller("a", 1)] * 3 + [caller("a", 2), caller("b", 1)]:
        thread = threading.Thread(target=run, args=(who,))
        thread.start()
        threads.append(thread)
        waiting = len(threads)
        while sum(len(q) for c in worker.turns.short.waiting.values() for q in c.values()) < waiting:
            time.sleep(0.001)
    first.give_back_turn()
    for thread in threads:
        thread.join(10)
    assert order == ["a:1", "b:1", "a:2", "a:1", "a:1"]


def test_waiting_for_a_turn_ends_with_the_deadline_and_leaves_the_queue() -> None:
    worker = Worker()
    holder = worker.call(caller("a"))
    holder.take_turn()
    late = worker.call(caller("b"), seconds=0.1)
    with pytest.raises(DeadlineExceededError):
        late.take_turn()
    assert not late.has_turn
    assert not worker.turns.short.waiting
    holder.give_back_turn()
    with worker.call(caller("b")):
        pass


def test_large_requests_take_long_turns_so_that_small_ones_do_not_wait_for_them() -> None:
    guard = Guard(Config())

    def began(size: int) -> Call:
        call = guard.begin("A/B", lambda: caller("a"), 0.3, lambda call, error: None)
        assert len(guard.message(call, bytes(size))) == size
        return call

    first, second = began(1 << 20), began(1 << 20)
    first.take_turn()
    first.turn_end += 60
    with pytest.raises(DeadlineExceededError):
        second.take_turn()
    with began(100):
        pass
    first.give_back_turn()
    with began(1 << 20):
        pass


def test_a_call_that_does_not_end_its_long_turn_loses_it() -> None:
    worker = Worker()
    stuck, second, third = (worker.call(caller(name)) for name in "abc")
    for call in (stuck, second, third):
        call.is_large = True
    stuck.take_turn()
    second.take_turn()  # `stuck` computes without a check
    third.deadline = time.monotonic() + 0.1
    second.turn_end += 60
    with pytest.raises(DeadlineExceededError):
        third.take_turn()  # `second` has the only long turn

    taken: list[str] = []

    def check() -> None:
        stuck.turn_end = 0.0
        stuck.checkpoint()
        taken.append("stuck")

    thread = threading.Thread(target=check)
    thread.start()
    while not worker.turns.long.waiting:
        time.sleep(0.001)
    assert not taken  # the call that lost its turn waits for a turn as all others do
    second.give_back_turn()
    thread.join(10)
    assert taken
    stuck.give_back_turn()
    with worker.call(caller("d")) as last:
        last.yield_turn(0.0)


def test_a_call_that_computes_for_long_lets_others_in_between() -> None:
    worker = Worker()
    done: list[str] = []
    started = threading.Event()

    def long() -> None:
        with worker.call(caller("a")), budget():
            started.set()
            end = time.monotonic() + 20
            while "short" not in done and time.monotonic() < end:
                spend(256)
        done.append("long")

    thread = threading.Thread(target=long)
    thread.start()
    started.wait(10)
    with worker.call(caller("b")):
        done.append("short")
    thread.join(30)
    assert done == ["short", "long"]


def test_long_turns_alternate() -> None:
    worker = Worker(short=4)
    running = {"a": 0, "b": 0, "c": 0, "d": 0}
    stop = threading.Event()

    def long(name: str) -> None:
        with worker.call(caller(name)), budget():
            while not stop.is_set():
                running[name] += 1
                spend(256)

    threads = [threading.Thread(target=long, args=(name,)) for name in running]
    for thread in threads:
        thread.start()
    time.sleep(1.5)
    stop.set()
    for thread in threads:
        thread.join(10)
    assert min(running.values()) > max(running.values()) / 20


def test_a_call_whose_caller_is_gone_ends_at_its_next_step() -> None:
    worker = Worker()
    call = worker.call(caller("a"))
    with pytest.raises(DeadlineExceededError, match="the caller has gone"), call, budget(subject="m"):
        spend(256)
        call.transport_ended()
        for _ in range(10):
            spend(256)
    call.work_ended()
    assert not worker.watch.calls


def test_the_watch_cuts_off_what_lasts_too_long() -> None:
    ended = threading.Event()
    worker = Worker()
    worker.watch.send_seconds = 0.2
    worker.watch.start()
    call = worker.call(caller("a"), cut_off=lambda call, error: ended.set())
    call.sends(10)
    assert ended.wait(10)
    other = worker.call(caller("a"), cut_off=lambda call, error: ended.clear())
    other.sends(1 << 40)  # an answer that takes hours to read
    time.sleep(0.6)
    assert ended.is_set()


def test_the_watch_cuts_off_thousands_of_calls_bit_by_bit_the_latest_first() -> None:
    ended: list[int] = []
    worker = Worker()
    calls = [worker.call(caller("a"), cut_off=lambda call, error, i=i: ended.append(i)) for i in range(250)]
    for i, call in enumerate(calls):
        call.stage_end = time.monotonic() - 1000 + i
    worker.watch.start()
    end = time.monotonic() + 20
    while len(ended) < 250 and time.monotonic() < end:
        time.sleep(0.01)
    assert ended[:250] == [*range(250)]


def test_the_watch_lets_calls_go_on_that_do_so_while_it_cuts_off_others() -> None:
    ended: list[int] = []
    worker = Worker()
    calls: list[Call] = []

    def cut_off(number: int) -> None:
        ended.append(number)
        calls[-1].received()  # the message of the last call arrives

    for i in range(10):
        calls.append(worker.call(caller("a"), cut_off=lambda call, error, i=i: cut_off(i)))
        calls[-1].receives(is_first=True)
        calls[-1].stage_end = time.monotonic() - 1000 + i
    worker.watch.start()
    end = time.monotonic() + 20
    while len(ended) < 9 and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.3)
    assert ended == [*range(9)]
    assert calls[-1].stage == "working"


def test_a_call_may_be_checked_before_its_first_turn() -> None:
    call = Worker().call(caller("a"))
    call.checkpoint()
    assert not call.has_turn


def test_freed_blocks_that_the_allocator_keeps_are_memory_for_calls() -> None:
    code = """
from xlashape_server.memory import Memory
memory = Memory(1 << 40)
memory.maximum = memory.base + (64 << 20)
blocks = [bytes(bytearray(6 << 20)) for _ in range(8)]
above = bytes(bytearray(1 << 20))
memory.relieve()  # the next one within a second does less
del blocks
memory.take(40 << 20)
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | keeping_freed_memory(8 << 30))


def test_memory_is_given_to_those_who_reserve_it() -> None:
    relieved: list[bool] = []
    memory = Memory(1 << 40, lambda: relieved.append(True))
    memory.maximum = memory.base + 100 * MIB
    lease, other = Lease(memory), Lease(memory)
    lease.take(1000)
    assert memory.reserved == 0  # reservations this small are not counted
    lease.take(60 * MIB)
    with pytest.raises(LimitExceededError, match="try again") as caught:
        other.take(60 * MIB)
    assert caught.value.limit == "worker_memory"
    assert relieved == [True]
    lease.keep(10 * MIB)
    assert memory.reserved == 10 * MIB
    other.take(60 * MIB)
    other.release()
    other.release()
    lease.release()
    assert memory.reserved == 0


def test_code_reserves_for_the_call_of_its_thread() -> None:
    reserve(1 << 50)  # nothing happens where there is no call
    memory = Memory(1 << 40)
    lease = Lease(memory)
    set_lease(lease)
    try:
        reserve(MIB)
        assert lease.size == MIB
        with pytest.raises(LimitExceededError):
            reserve(1 << 41)
    finally:
        set_lease(None)
        lease.release()


def test_a_checkpoint_is_asked_every_256_steps() -> None:
    asked: list[int] = []
    set_checkpoint(lambda: asked.append(1))
    try:
        with budget(), budget(steps=10**9):
            for _ in range(1024):
                spend(1)
    finally:
        set_checkpoint(None)
    assert 3 <= len(asked) <= 6
    with budget():
        spend(1024)
    assert len(asked) <= 6


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's allocator has these settings")
def test_a_worker_keeps_large_blocks_for_the_next_call() -> None:
    code = """
import resource, threading
def use():
    for _ in range(100):
        bytes(memoryview(bytearray(16 << 20)))
def used(count):
    threads = [threading.Thread(target=use) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
first = used(3)
print(used(3) - first)
"""
    environment = os.environ | keeping_freed_memory(8 << 30)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    # Three threads use 16 MiB six hundred times. That would be 2.4 million page faults if each block were new.
    assert int(done.stdout) < 24_000
