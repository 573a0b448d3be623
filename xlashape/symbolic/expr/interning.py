"""The table of nodes: two equal expressions are the same object.

A node is found by its class and parts; parts are interned themselves, so the key is hashed by identity. The table holds its nodes weakly: a plain
dictionary of references costs a quarter of a WeakValueDictionary.
"""

from __future__ import annotations

from threading import RLock
from typing import Any
from weakref import ref

__all__ = ["intern", "references"]


class _Reference(ref[Any]):
    __slots__ = ("key",)
    key: tuple[Any, ...]


references: dict[tuple[Any, ...], _Reference] = {}
"""The nodes that are alive, by class and parts."""

_lock = RLock()  # taken again where collecting garbage, which can begin anywhere, ends a node


def intern(key: tuple[Any, ...], node: Any) -> Any:
    """The node known by `key`: this one, unless another thread made an equal one first."""
    made = _Reference(node, _ended)
    made.key = key
    with _lock:
        reference = references.get(key)
        found = None if reference is None else reference()
        if found is not None:
            return found
        references[key] = made
        return node


def _ended(reference: _Reference) -> None:
    with _lock:
        if references.get(reference.key) is reference:  # else an equal node has taken its place
            del references[reference.key]
