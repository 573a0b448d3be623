"""The table that makes equal expressions the same object. It finds a node by its class and its parts. It holds weak
references only: a node leaves the table when nothing else uses it.

A plain dictionary of weak references takes a quarter of the memory of a `WeakValueDictionary`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from threading import RLock
from typing import Any
from weakref import ref

from xlashape.base.caches import CacheUsage, register

_NODE_BYTES = 400
"""Bytes of a node with its key, weak reference, table slot and sort key. Sums and constants take 240 to 480 by
measurement.
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


# When a program ends, Python sets the names of this module to None, and may free nodes afterwards. The defaults of the
# parameters keep the lock and the table for that case.
def _forget(
    reference: _Reference,
    lock: AbstractContextManager[bool] = _lock,
    table: dict[tuple[Any, ...], _Reference] = references,
) -> None:
    with lock:
        if table.get(reference.key) is reference:  # otherwise an equal, newer node has this key
            del table[reference.key]


class _InternedNodes:
    """The table's entry in the register of caches (`xlashape/base/caches.py`).

    The table keeps no node alive, so `clear` has nothing to forget. The table has no bound of its own: it holds the
    nodes that maps, other caches and callers use, so its present size is reported as the bound.
    """

    def usage(self) -> CacheUsage:
        entries = len(references)
        return CacheUsage("xlashape.symbolic.expr.expression", entries, entries * _NODE_BYTES, entries * _NODE_BYTES)

    def clear(self) -> None:
        """Does nothing: nodes leave the table when nothing uses them."""


register(_InternedNodes())
