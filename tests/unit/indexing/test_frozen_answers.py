"""Answers are frozen values: callers share them, so they must not change."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError

import pytest

from xlashape.hlo import HloModule
from xlashape.indexing import (
    OperandIndexing,
    OperandIndexingSet,
    ReplicaIndexing,
    RuntimeVariable,
    output_to_input,
)
from xlashape.symbolic import IndexingMap

MODULE = HloModule.parse("""HloModule m
ENTRY e {
  p = f32[8,4] parameter(0)
  i = s32[] parameter(1)
  j = s32[] parameter(2)
  ROOT d = f32[2,4] dynamic-slice(p, i, j), dynamic_slice_sizes={2,4}
}
""")


def values() -> list[object]:
    reads = output_to_input(MODULE.entry.root)[0]
    return [reads, reads[0], reads.runtime[0], ReplicaIndexing(reads.map, ((0, 1),))]


@pytest.mark.parametrize("value", values(), ids=lambda value: type(value).__name__)
def test_nothing_of_an_answer_can_be_changed(value: object) -> None:
    for name in ("map", "members", "leaf", "anything"):
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, None)
    with pytest.raises(FrozenInstanceError):
        del value.map
    assert copy.copy(value) is value
    assert copy.deepcopy(value) is value


def test_fields_can_be_replaced() -> None:
    access = OperandIndexing(IndexingMap.parse("(d0) -> (d0), domain: d0 in [0, 3]"))
    changed = access.replace(leaf=2, is_conservative=True)
    assert (changed.map, changed.leaf, changed.is_conservative) == (access.map, 2, True)
    assert changed != access
    assert changed.replace(leaf=0, is_conservative=False) == access


def test_equal_values_have_equal_hashes() -> None:
    first, second = values(), values()
    assert first == second
    assert [hash(value) for value in first] == [hash(value) for value in second]
    assert len({*first, *second}) == len(first)


def test_a_set_is_equal_in_any_order() -> None:
    one, other = (OperandIndexing(IndexingMap.parse(f"(d0) -> (d0 + {n}), domain: d0 in [0, 3]")) for n in (1, 2))
    forward, backward = OperandIndexingSet([one, other]), OperandIndexingSet([other, one, other])
    assert forward == backward
    assert hash(forward) == hash(backward)
    assert list(backward) == [other, one]


def test_the_simplified_form_is_kept_and_needs_no_further_simplifying() -> None:
    access = OperandIndexing(IndexingMap.parse("(d0)[s0] -> (d0 + 0 * d0), domain: d0 in [0, 3], s0 in [0, 1]"))
    accesses = OperandIndexingSet([access])
    for value in (access, accesses):
        assert value.simplify() is value.simplify()
        assert value.simplify().simplify() is value.simplify()
        assert value.simplify() != value


def test_answers_without_instructions_are_pickled() -> None:
    access = OperandIndexing(IndexingMap.parse("(d0) -> (d0), domain: d0 in [0, 3]"), leaf=1)
    for value in (access, OperandIndexingSet([access]), ReplicaIndexing(access.map)):
        assert pickle.loads(pickle.dumps(value)) == value


def test_producers_are_equal_if_they_are_the_same_instruction() -> None:
    i, j = MODULE.instruction("i"), MODULE.instruction("j")
    scalar = IndexingMap.parse("(d0) -> (), domain: d0 in [0, 3]")
    assert RuntimeVariable(i, scalar) == RuntimeVariable(i, scalar)
    assert RuntimeVariable(i, scalar) != RuntimeVariable(j, scalar)
    assert RuntimeVariable(i, scalar).with_instruction(j) == RuntimeVariable(j, scalar)
