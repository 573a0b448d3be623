"""Exchange: what a collective does with the data of a group of devices, and how many bytes that moves. The row of each
collective opcode names its exchange.

    kind                   what a device sends, on a ring or in pairs      what it lacked of its result
    all-gather             R (n - 1) / n                                   R (n - 1) / n
    reduce-scatter         A (n - 1) / n                                   R
    all-reduce             2 A (n - 1) / n                                 A
    all-to-all             A (n - 1) / n                                   A (n - 1) / n
    collective-broadcast   A, along a chain                                R
    collective-reduce      A, along a chain                                A, at the root
    collective-permute     A, if it is a source                            R, if it is a target
    send, recv             A                                               R

n is the number of devices of the group, A the bytes of all operands of a device, R those of all results. The ring sends
the least: an element to which n devices contribute takes n - 1 messages to combine, one that n devices need takes n - 1
messages to spread.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple


class Exchanged(NamedTuple):
    """The bytes that one execution of a collective moves."""

    sent: int = 0
    """What the busiest device sends; of an all-reduce the mean of all devices, rounded down."""
    received: int = 0
    """What the device that lacked most lacked of its result."""
    sent_all: int = 0
    """What all devices together send."""
    received_all: int = 0
    """What all devices together lacked."""

    def beside(self, other: Exchanged) -> Exchanged:
        """What this group and another one move at the same time."""
        return Exchanged(
            max(self.sent, other.sent),
            max(self.received, other.received),
            self.sent_all + other.sent_all,
            self.received_all + other.received_all,
        )


class GroupNumbers(Enum):
    """What the numbers mean by which an opcode names devices, if it has a channel. Without one they are replicas."""

    DEVICES = "devices with use_global_device_ids; otherwise replicas, of which all partitions are in the group"
    PARTITIONS = "partitions"
    PAIRS = "partitions, in pairs of a source and a target"


class ExchangeRule(NamedTuple):
    """What a collective does with the data of a group."""

    kind: str
    """`all-gather`, `all-reduce`, …: the opcode without `-start`."""
    numbers: GroupNumbers
    per_group: Callable[[int, int, int], Exchanged]
    """A function of (number of devices or of pairs, bytes of a device's operands, bytes of its results)."""
    has_own_data_for_each: bool = False
    """Whether a device has other data for each member, so that what leaves a part of the group grows with the part."""
    is_one_sided: bool = False
    """Whether the instruction is one side of a transfer, of which another instruction is the other side."""
    is_bound: bool = False
    """Whether the sizes are known when the program runs, so that the bytes are the most that it may move."""

    def moved(self, count: int, operands: int, results: int) -> Exchanged:
        """The bytes that a group of `count` devices moves, or that so many pairs do. One device moves nothing.

        >>> ALL_REDUCE.moved(4, 100, 100)
        Exchanged(sent=150, received=100, sent_all=600, received_all=400)
        """
        least = 1 if self.numbers is GroupNumbers.PAIRS else 2
        return self.per_group(count, operands, results) if count >= least else Exchanged()


def _each(sent: int, received: int, count: int) -> Exchanged:
    """What a group moves that sends `sent` and lacks `received` bytes together, each device as much as the others."""
    return Exchanged(sent // count, received // count, sent, received)


def _all_gather(n: int, _operands: int, results: int) -> Exchanged:
    return _each(results * (n - 1), results * (n - 1), n)


def _all_reduce(n: int, operands: int, _results: int) -> Exchanged:
    return _each(2 * operands * (n - 1), operands * n, n)


def _reduce_scatter(n: int, operands: int, results: int) -> Exchanged:
    return _each(operands * (n - 1), results * n, n)


def _all_to_all(n: int, operands: int, _results: int) -> Exchanged:
    return _each(operands * (n - 1), operands * (n - 1), n)


def _ragged(n: int, operands: int, results: int) -> Exchanged:
    return _each(operands * n, results * n, n)


def _broadcast(n: int, operands: int, results: int) -> Exchanged:
    return Exchanged(operands, results, operands * (n - 1), results * (n - 1))


def _reduce(n: int, operands: int, _results: int) -> Exchanged:
    return Exchanged(operands, operands, operands * (n - 1), operands)


def _permute(n: int, operands: int, results: int) -> Exchanged:
    return Exchanged(operands, results, operands * n, results * n)


def _send(n: int, operands: int, _results: int) -> Exchanged:
    return Exchanged(sent=operands, sent_all=operands * n)


def _recv(n: int, _operands: int, results: int) -> Exchanged:
    return Exchanged(received=results, received_all=results * n)


ALL_GATHER: Final = ExchangeRule("all-gather", GroupNumbers.DEVICES, _all_gather)
ALL_REDUCE: Final = ExchangeRule("all-reduce", GroupNumbers.DEVICES, _all_reduce)
REDUCE_SCATTER: Final = ExchangeRule("reduce-scatter", GroupNumbers.DEVICES, _reduce_scatter)
ALL_TO_ALL: Final = ExchangeRule("all-to-all", GroupNumbers.PARTITIONS, _all_to_all, has_own_data_for_each=True)
RAGGED_ALL_TO_ALL: Final = ExchangeRule(
    "ragged-all-to-all", GroupNumbers.PARTITIONS, _ragged, has_own_data_for_each=True, is_bound=True
)
COLLECTIVE_BROADCAST: Final = ExchangeRule("collective-broadcast", GroupNumbers.PARTITIONS, _broadcast)
COLLECTIVE_REDUCE: Final = ExchangeRule("collective-reduce", GroupNumbers.DEVICES, _reduce)
COLLECTIVE_PERMUTE: Final = ExchangeRule("collective-permute", GroupNumbers.PAIRS, _permute)
SEND: Final = ExchangeRule("send", GroupNumbers.PAIRS, _send, is_one_sided=True)
RECV: Final = ExchangeRule("recv", GroupNumbers.PAIRS, _recv, is_one_sided=True)
