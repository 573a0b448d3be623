"""New connections go to the worker with the fewest; a worker that was started again gets its share."""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
import time
from collections import Counter
from contextlib import ExitStack, suppress

import grpc
import pytest
from server_processes import connections, wait_until

from xlashape.proto import v1
from xlashape_server import Config, Server
from xlashape_server.placement import SocketOrder, listening_sockets, program, steer, weights

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux runs a program that chooses the socket of a connection"
)


def listeners(count: int) -> list[socket.socket]:
    made: list[socket.socket] = []
    for _ in range(count):
        each = socket.socket()
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        each.bind(("127.0.0.1", made[0].getsockname()[1] if made else 0))
        each.listen(1024)
        each.setblocking(False)
        made.append(each)
    return made


def accepted(listener: socket.socket) -> int:
    count = 0
    while True:
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1


@pytest.mark.parametrize("chances", [[(0, 1)], [(1, 5)], [(0, 1), (1, 0), (2, 3)], [(2, 1), (0, 1), (1, 2)]])
def test_the_system_chooses_with_the_weights(chances: list[tuple[int, int]]) -> None:
    with ExitStack() as stack:
        opened = [stack.enter_context(each) for each in listeners(3)]
        port = opened[0].getsockname()[1]
        found = [stack.enter_context(each) for each in listening_sockets(port)]
        assert len(found) == 3
        assert steer(found[:1], chances)
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(300)]
        counts = [accepted(each) for each in opened]
        assert sum(counts) == len(clients)
        total = sum(weight for _, weight in chances)
        for index, weight in chances:
            # Four standard deviations of a binomial distribution: less often than once in 10,000 runs.
            share = weight / total
            assert abs(counts[index] - 300 * share) <= 4 * (300 * share * (1 - share)) ** 0.5


def test_a_program_holds_any_number_of_workers() -> None:
    made = program([(i, 1) for i in range(256)])
    assert len(made) == struct.calcsize("HBBI") * (1 + 2 * 255 + 1)
    assert not steer([], [(0, 1)])
    with ExitStack() as stack:
        [opened] = [stack.enter_context(each) for each in listeners(1)]
        assert not steer([opened], [(0, 0)])


def test_weights_even_out() -> None:
    counts = [32, 0, 0]
    for _ in range(64):
        chosen = weights(counts)
        assert all(weight >= 0 for weight in chosen)
        counts[chosen.index(max(chosen))] += 1
    assert max(counts) - min(counts) <= 1


def test_the_order_is_that_of_the_system() -> None:
    """After every change, a connection for each index reaches the worker that has the index by our account."""
    with ExitStack() as stack:
        order, workers = SocketOrder(), {}
        first, *rest = [stack.enter_context(each) for each in listeners(6)]
        port = first.getsockname()[1]
        for number, each in enumerate((first, *rest)):
            workers[number] = each
            order.listens(number, number)
        for closed in (1, 0, 3):  # one after the other, each known before the next
            workers.pop(closed).close()
            order.closed(closed)
            for worker, index in order.indices().items():
                assert steer([workers[worker]], [(index, 1)])
                with socket.create_connection(("127.0.0.1", port)):
                    assert {number: accepted(each) for number, each in workers.items()} == {
                        number: int(number == worker) for number in workers
                    }


def test_sockets_that_close_together_leave_the_order_uncertain(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    order = SocketOrder()
    for number in range(5):
        order.listens(number, number)
    order.closed(0)
    now[0] += 10
    order.closed(1)
    assert order.is_certain
    now[0] += 0.5
    order.closed(2)
    assert not order.is_certain
    for number in (0, 1, 2):
        order.listens(number, now[0])
    assert not order.is_certain  # 3 and 4 may have each other's index
    now[0] += 10
    for number in (0, 1, 2, 3):
        order.closed(number)
        now[0] += 10
    assert order.is_certain


def asked(stack: ExitStack, address: str) -> grpc.Channel:
    """A channel that has asked once, and so has a connection of its own."""
    channel = stack.enter_context(grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]))
    ask(channel)
    return channel


def ask(channel: grpc.Channel) -> None:
    request = v1.ByteSizeRequest(shapes=[v1.ShapeInput(text="f32[3]")]).SerializeToString()
    channel.unary_unary("/xlashape.v1.ShapeService/ByteSize")(request, timeout=20, wait_for_ready=True)


def test_two_clients_have_a_worker_each() -> None:
    """By chance half of the pairs would share a worker, and nine of ten pairs be apart once in 90 runs."""
    with Server(Config(address="127.0.0.1:0", workers=2)) as server:
        port = server.config.host_and_port()[1]
        apart = 0
        for _ in range(10):
            with ExitStack() as stack:
                for count in (1, 2):
                    asked(stack, server.address)
                    wait_until(lambda count=count: sum(server.connections.values()) == count)
                    time.sleep(0.2)  # until the workers have placed the next connection
                apart += sorted(connections(server.worker_pids, port).values()) == [1, 1]
            wait_until(lambda: sum(server.connections.values()) == 0)
            time.sleep(0.2)
        assert apart >= 9


def test_a_worker_that_was_started_again_gets_its_share() -> None:
    with Server(Config(address="127.0.0.1:0", workers=2, connection_age_seconds=1)) as server, ExitStack() as stack:
        port = server.config.host_and_port()[1]
        channels = [asked(stack, server.address) for _ in range(32)]
        victim = server.worker_pids[0]
        os.kill(victim, signal.SIGKILL)

        def spread() -> int:
            for channel in channels:
                with suppress(grpc.RpcError):  # those of the worker that was killed, once
                    ask(channel)
            counts = connections(server.worker_pids, port)
            return min(counts.values()) if len(counts) == 2 and victim not in counts else 0

        # Random choice would put 10 to 22 of 32 on each with a probability of 98 %.
        wait_until(lambda: spread() >= 10, 30)


def test_connections_are_counted(server: Server) -> None:
    assert Counter(server.connections).keys() == set(server.worker_pids)
