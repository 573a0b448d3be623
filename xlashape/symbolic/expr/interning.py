"""The table that makes equal expressions the same object. It finds a node by its class and its parts, and refers to its
nodes weakly: a node leaves it when nothing else uses that node.

A plain dictionary of weak references takes a quarter of the memory of a `WeakValueDictionary`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from threading import RLock
from typing import Any
from weakref import ref

from xlashape.caches import CacheUsage, register

_NODE_BYTES = 400
"""Bytes of a node with its key, weak reference, table slot and sort key, measured over sums and constants (240 to 480).
"""


class _Reference(ref[Any]):
    __slots__ = ("key",)
    key: tuple[Any, ...]


references: dict[tuple[Any, ...], _Reference] = {}
"""The nodes that are alive, by class and parts."""

# reentrant: garbage collection can start while the lock is held, and calls `_forget` when it frees a node
_lock = RLock()


def intern(key: tuple[Any, ...], node: Any) -> Any:
    """Puts `node` into the table under `key` and returns it. If another thread has put an equal node there first,
    returns that one.
    """
    reference = _Reference(node, _forget)
    reference.key = key
    with _lock:
        existing = references.get(key)
        other = None if existing is None else existing()
        if other is not None:
            return other
        references[key] = reference
        return node


# Nodes may outlive the names of this module, which are None while a program ends: the defaults are not.
def _forget(
    reference: _Reference,
    lock: AbstractContextManager[bool] = _lock,
    table: dict[tuple[Any, ...], _Reference] = references,
) -> None:
    with lock:
        if table.get(reference.key) is reference:  # otherwise an equal, newer node has this key
            del table[reference.key]


class _InternedNodes:
    """The table in the register of caches.

    It keeps no node alive, so `clear` has nothing to forget, and its bound is what it holds: the nodes that maps, other
    caches and callers use.
    """

    def usage(self) -> CacheUsage:
        entries = len(references)
        return CacheUsage("xlashape.symbolic.expr.expression", entries, entries * _NODE_BYTES, entries * _NODE_BYTES)

    def clear(self) -> None:
        """Does nothing: nodes leave the table when nothing uses them."""


register(_InternedNodes())
