"""Frozen objects cannot be changed; frozen values are compared, hashed, copied and pickled by their fields."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError

import pytest

from xlashape.base.frozen import FrozenValue, set_field


class Pair(FrozenValue):
    __slots__ = ("left", "right", "total")
    _fields = ("left", "right")
    left: int
    right: int
    total: int

    def __init__(self, left: int, right: int = 0) -> None:
        set_field(self, "left", left)
        set_field(self, "right", right)
        set_field(self, "total", left + right)


class Other(Pair):
    __slots__ = ()


def test_attributes_cannot_be_set_or_deleted() -> None:
    pair = Pair(1, 2)
    with pytest.raises(FrozenInstanceError, match="Pair is frozen: cannot set left"):
        pair.left = 3
    with pytest.raises(FrozenInstanceError, match="Pair is frozen: cannot delete right"):
        del pair.right
    with pytest.raises(AttributeError):
        pair.new = 1  # pyright: ignore[reportAttributeAccessIssue]
    assert (pair.left, pair.right) == (1, 2)


def test_equality_and_hash_go_by_fields_and_class() -> None:
    assert Pair(1, 2) == Pair(1, 2)
    assert hash(Pair(1, 2)) == hash(Pair(1, 2))
    assert Pair(1, 2) != Pair(2, 1)
    assert Pair(1, 2) != Other(1, 2)
    assert Pair(1, 2) != (1, 2)


def test_copies_and_pickles() -> None:
    pair = Pair(1, 2)
    assert copy.copy(pair) is pair
    assert copy.deepcopy([pair])[0] is pair
    again = pickle.loads(pickle.dumps(pair))
    assert again == pair
    assert again.total == 3


def test_replace() -> None:
    assert Pair(1, 2).replace(left=5) == Pair(5, 2)
    assert Pair(1, 2).replace(left=5).total == 7
    with pytest.raises(TypeError, match="Pair has no field 'middle'"):
        Pair(1).replace(middle=2)
