"""Every opcode is answered in both directions, or is listed with the reason why not."""

from __future__ import annotations

import pytest
from hlo_builder import one_op

from xlashape import indexing
from xlashape.hlo import Opcode
from xlashape.indexing.ops import register

WITHOUT_OPERANDS = {"constant", "iota", "parameter", "partition-id", "replica-id", "rng-get-and-update-state"}


@pytest.mark.parametrize("opcode", [str(opcode) for opcode in Opcode])
def test_every_opcode_is_registered_or_knowingly_unknown(opcode: str) -> None:
    places = [opcode in register.OUTPUT_TO_INPUT, opcode in register.CALLS, opcode in register.UNKNOWN]
    assert any(places), f"{opcode} has no rule in xlashape/indexing/ops/, and `unknown` there gives no reason"
    assert places.count(True) == 1
    if opcode in register.UNKNOWN:
        assert len(register.UNKNOWN[opcode]) > 20
    assert (opcode in register.INPUT_TO_OUTPUT) == (places[0] and opcode not in WITHOUT_OPERANDS)


def test_nothing_else_is_registered() -> None:
    known = {str(opcode) for opcode in Opcode}
    assert {*register.OUTPUT_TO_INPUT, *register.INPUT_TO_OUTPUT, *register.CALLS, *register.UNKNOWN} <= known


def test_an_opcode_has_one_rule_a_direction() -> None:
    with pytest.raises(ValueError, match="transpose is registered twice"):
        register.output_to_input("transpose")(lambda op, output: ())


def test_every_opcode_of_this_version_is_answered() -> None:
    assert register.UNKNOWN.keys() == {Opcode.SHUFFLE}  # XLA 0.12 has no maps of it


def test_unknown_is_the_answer_where_nothing_is_known() -> None:
    root = one_op("reverse", "f32[?,4]", ["f32[?,4]"], dimensions=[0])
    (read,) = indexing.output_to_input(root)
    assert read.map.is_undefined
    assert read.knowledge is indexing.Knowledge.UNKNOWN
    assert str(read[0]) == "UNDEFINED"
    assert indexing.input_to_output(root)[0].map.is_undefined


def test_an_opcode_of_another_version_is_unknown() -> None:
    root = one_op("frobnicate", "f32[4]", ["f32[4]", "f32[4]"])
    assert [one.map.is_undefined for one in indexing.output_to_input(root)] == [True, True]
    assert [one.map.is_undefined for one in indexing.input_to_output(root, 1)] == [True]


def test_a_custom_call_may_need_every_element() -> None:
    root = one_op("custom-call", "(f32[4], s32[])", ["f32[2,3]", "s32[]"], custom_call_target="x")
    first, second = indexing.output_to_input(root)
    assert first.knowledge is second.knowledge is indexing.Knowledge.EVERY_ELEMENT
    assert str(first.map) == "(d0)[s0, s1] -> (s0, s1), domain: d0 in [0, 3], s0 in [0, 1], s1 in [0, 2]"
    assert str(second.map) == "(d0) -> (), domain: d0 in [0, 3]"
    assert [one.knowledge for one in indexing.input_to_output(root, 0)] == [indexing.Knowledge.EVERY_ELEMENT] * 2


WIDE: dict[str, tuple[str, list[str], dict[str, object]]] = {
    "custom-call": ("f32[4]", ["f32[2,3]", "s32[]"], {}),
    "rng-bit-generator": ("(u64[2], u32[5])", ["u64[2]"], {"rng_algorithm": 0}),
    "dynamic-reshape": ("f32[<=6]", ["f32[2,<=3]", "s32[]"], {}),
    "all-to-all": ("f32[4,2]", ["f32[4,2]"], {"dimensions": [0]}),
    "collective-permute": ("f32[4]", ["f32[8]", "f32[4]", "s32[1]", "s32[1]"], {}),
}
"""Operations, or forms of them, that may read any element."""


@pytest.mark.parametrize("opcode", WIDE)
def test_what_may_need_any_element_is_marked(opcode: str) -> None:
    shape, operands, fields = WIDE[opcode]
    root = one_op(opcode, shape, operands, **fields)
    read = indexing.output_to_input(root)
    assert read[0].knowledge is indexing.Knowledge.EVERY_ELEMENT
    assert indexing.input_to_output(root)[0].knowledge is indexing.Knowledge.EVERY_ELEMENT
    assert all(not one.map.is_undefined for one in read)
