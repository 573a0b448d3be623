"""Opcodes, and what their rows say of them."""

import pytest

from xlashape.hlo import Opcode
from xlashape.hlo.ops.attributes import Presence
from xlashape.hlo.ops.calls import CALLED
from xlashape.hlo.ops.operation import WHOLE, InPlace, MemoryTraffic, Movement, ResultSource
from xlashape.hlo.ops.registry import OPERATIONS


def test_an_opcode_is_its_name():
    assert Opcode("get-tuple-element") is Opcode.GET_TUPLE_ELEMENT
    assert Opcode.FUSION == "fusion"
    assert f"{Opcode.AND} {Opcode.NOT!s:>4}" == "and  not"
    assert {Opcode.ADD: 1}["add"] == 1
    with pytest.raises(ValueError, match="frobnicate"):
        Opcode("frobnicate")


def test_names_follow_from_values():
    assert all(one.name == one.value.upper().replace("-", "_") for one in Opcode)
    assert len(Opcode) == 137, "XLA 0.12 has 137; change the number with the version that is followed"


def test_every_opcode_has_a_row():
    missing = [one.value for one in Opcode if one not in OPERATIONS]
    assert not missing, f"no row in xlashape/hlo/ops/: {missing}"


def having(flag: str) -> set[Opcode]:
    return {row.opcode for row in OPERATIONS.values() if getattr(row, flag)}


def test_rows_are_found_by_opcode_and_by_name():
    for opcode in Opcode:
        assert OPERATIONS[opcode] is OPERATIONS[opcode.value]
        assert OPERATIONS[opcode].opcode is opcode


@pytest.mark.parametrize("row", OPERATIONS.values(), ids=str)
def test_attributes_of_a_row_are_consistent(row):
    uses = (*row.attributes, *row.attributes_after_calls)
    names = [use.attribute.name for use in uses]
    assert len(set(names)) == len(names)
    for use in uses:
        if use.presence is Presence.WRITTEN_ONLY:
            assert use.fill is None
        else:
            assert row.readable[use.attribute.name] is use.attribute
    assert all(name == attribute.name for name, attribute in row.readable.items())
    assert set(row.call_names) <= set(CALLED)
    assert set(row.required) <= set(row.readable)
    assert row.operands.least <= row.operands.most


def test_facts_of_a_row_agree():
    for row in OPERATIONS.values():
        if row.moves_no_data or row.ends_a_start or row.runs_called_instructions:
            assert row.traffic is MemoryTraffic.NOTHING, row
        assert not (row.begins_asynchronously and row.ends_a_start), row
        assert row.source is ResultSource.OPERAND or row.same == WHOLE, row
        assert row.source is ResultSource.COMPUTED or row.in_place is InPlace.NO, row
        if row.passes_first_operand_through:
            assert row.source is ResultSource.OPERAND or row.movement is Movement.COPY, row


def test_operations_that_are_begun_and_ended():
    begins, ends = having("begins_asynchronously"), having("ends_a_start")
    assert {f"{opcode.removesuffix('-start')}-done" for opcode in begins} == ends
    assert {row.opcode for row in OPERATIONS.values() if row.repeated_operand is not None} <= begins


def test_where_results_come_from():
    sources = {source: {row.opcode for row in OPERATIONS.values() if row.source is source} for source in ResultSource}
    assert sources[ResultSource.OPERAND] == {
        Opcode.ADD_DEPENDENCY,
        Opcode.ALL_GATHER_DONE,
        Opcode.ALL_REDUCE_DONE,
        Opcode.ASYNC_DONE,
        Opcode.ASYNC_UPDATE,
        Opcode.BITCAST,
        Opcode.COLLECTIVE_PERMUTE_DONE,
        Opcode.COPY_DONE,
        Opcode.DOMAIN,
        Opcode.OPT_BARRIER,
        Opcode.RECV_DONE,
    }
    del sources[ResultSource.OPERAND], sources[ResultSource.COMPUTED]
    assert sources == {
        ResultSource.ELEMENT: {Opcode.GET_TUPLE_ELEMENT},
        ResultSource.OPERANDS: {Opcode.TUPLE},
        ResultSource.ARGUMENT: {Opcode.PARAMETER},
        ResultSource.CALLED: {Opcode.CALL},
        ResultSource.BRANCH: {Opcode.CONDITIONAL},
        ResultSource.STATE: {Opcode.WHILE},
    }


def test_movements_are_told_apart():
    movements = [row.movement for row in OPERATIONS.values() if row.movement is not None]
    assert sorted(movements) == list(Movement)


def test_effects():
    assert having("has_effect") == {
        Opcode.INFEED,
        Opcode.OUTFEED,
        Opcode.RECV,
        Opcode.RECV_DONE,
        Opcode.RNG,
        Opcode.RNG_GET_AND_UPDATE_STATE,
        Opcode.SEND,
        Opcode.SEND_DONE,
    }


def test_flags_that_analyses_read():
    assert having("passes_first_operand_through") == {
        Opcode.ADD_DEPENDENCY,
        Opcode.COPY,
        Opcode.DOMAIN,
        Opcode.OPT_BARRIER,
    }
    assert having("moves_no_data") == {
        Opcode.ADD_DEPENDENCY,
        Opcode.AFTER_ALL,
        Opcode.BITCAST,
        Opcode.DOMAIN,
        Opcode.GET_TUPLE_ELEMENT,
        Opcode.OPT_BARRIER,
        Opcode.TUPLE,
    }
    asynchronous = {Opcode.ASYNC_START, Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE}
    assert having("async_step") == asynchronous
    assert having("runs_called_instructions") == {Opcode.CALL, Opcode.CONDITIONAL, Opcode.WHILE, *asynchronous}
    assert having("fuses_called_computation") == {Opcode.FUSION}
    assert having("exchanges_with_replicas") == {
        Opcode.ALL_GATHER,
        Opcode.ALL_GATHER_START,
        Opcode.ALL_REDUCE,
        Opcode.ALL_REDUCE_START,
        Opcode.ALL_TO_ALL,
        Opcode.COLLECTIVE_BROADCAST,
        Opcode.COLLECTIVE_PERMUTE,
        Opcode.COLLECTIVE_PERMUTE_START,
        Opcode.COLLECTIVE_REDUCE,
        Opcode.RAGGED_ALL_TO_ALL,
        Opcode.REDUCE_SCATTER,
    }
