"""Opcodes compare as their names."""

import pytest

from xlashape.hlo import Opcode


def test_an_opcode_is_its_name():
    assert Opcode("get-tuple-element") is Opcode.GET_TUPLE_ELEMENT
    assert Opcode.FUSION == "fusion"
    assert f"{Opcode.AND} {Opcode.NOT!s:>4}" == "and  not"
    assert {Opcode.ADD: 1}["add"] == 1
    with pytest.raises(ValueError, match="frobnicate"):
        Opcode("frobnicate")


def test_names_follow_from_values():
    assert all(one.name == one.value.upper().replace("-", "_") for one in Opcode)
    assert len(Opcode) == 133
