"""Channels: the number belongs to an instruction, and whether there is a channel to its kind. Any number, in every kind
of attribute beside it, is read, printed, edited and written as it stands."""

from __future__ import annotations

import pytest

import xlashape as xs
from xlashape.hlo import HloInstruction, HloModule
from xlashape.proto import xla

ALL_REDUCE = (
    "HloModule m\n\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n\n"
    "ENTRY e {\n  p = f32[4]{0} parameter(0)\n  ar.1 = f32[4]{0} all-reduce(p), channel_id=1, to_apply=add\n"
    "  ar.2 = f32[4]{0} all-reduce(ar.1), channel_id=7, to_apply=add\n"
    "  ROOT ar.3 = f32[4]{0} all-reduce(ar.2), channel_id=912345678901, to_apply=add\n}\n"
)
IN_QUOTES = 'frontend_attributes={a=", channel_id=1",b=", channel_id=9"}'


def channels(module: HloModule) -> list[int]:
    return [each.channel for each in module.entry.instructions if each.channel]


def root_with(channel: int, opcode: str, attributes: str = "") -> HloInstruction:
    """The root of a module with one instruction of this channel."""
    text = ALL_REDUCE.replace("channel_id=912345678901, to_apply=add", f"channel_id={channel}{attributes}")
    return HloModule.parse(text.replace("f32[4]{0} all-reduce(ar.2)", f"f32[4]{{0}} {opcode}(ar.2)")).entry.root


def test_instructions_of_different_channels_share_a_kind() -> None:
    for module in (HloModule.parse(ALL_REDUCE), HloModule.from_proto(HloModule.parse(ALL_REDUCE).to_proto())):
        assert channels(module) == [1, 7, 912345678901]
        assert len({each.kind for each in module.entry.instructions[1:]}) == 1
        assert [each.attributes["channel_id"] for each in module.entry.instructions[1:]] == [1, 7, 912345678901]
        assert [each.proto.channel_id for each in module.entry.instructions] == [0, 1, 7, 912345678901]
        assert [each.channel_id for each in module.proto.computations[-1].instructions] == [0, 1, 7, 912345678901]
        text = module.to_text()
        assert channels(HloModule.parse(text)) == channels(module)
        assert HloModule.parse(text).to_text() == text


@pytest.mark.parametrize("channel", [-5, 0, 1, 2, 10, 1 << 62])
@pytest.mark.parametrize("opcode", ["all-reduce", "add", "send", "custom-call", "parameter", "unknown-thing"])
def test_a_message_comes_back_with_its_channel(channel: int, opcode: str) -> None:
    """Also where the opcode has no channel."""
    proto = HloModule.parse(ALL_REDUCE).to_proto()
    each = proto.computations[-1].instructions[-1]
    each.opcode, each.channel_id, each.parameter_number = opcode, channel, 3
    each.frontend_attributes.map["a"] = ", channel_id=1"
    module = HloModule.from_proto(proto)
    assert module.entry.root.proto == each
    copy = module.copy()
    copy.entry.root.rename("renamed")  # the computation is written from its instructions
    each.name = "renamed"
    assert copy.entry.root.proto == each
    written = xla.HloModuleProto.FromString(copy.to_bytes())
    assert written.computations[-1].instructions[-1] == each


def test_a_text_in_quotes_is_no_channel() -> None:
    for channel in (1, 2, 30):
        root = root_with(channel, "all-reduce", f", to_apply=add, {IN_QUOTES}")
        assert root.channel == channel
        assert f"(%ar.2), channel_id={channel}, replica_groups={{}}" in root.to_text()
        assert IN_QUOTES in root.to_text()
    text = ALL_REDUCE.replace("channel_id=912345678901, to_apply=add", f"to_apply=add, {IN_QUOTES}")
    root = HloModule.parse(text).entry.root
    assert root.channel == 0
    assert IN_QUOTES in root.to_text()


@pytest.mark.parametrize("channel", [1, 2, 305])
def test_an_asynchronous_operation_shows_the_channel_that_it_wraps(channel: int) -> None:
    text = (
        "HloModule m\n\nENTRY e {\n  p = f32[4]{0} parameter(0)\n"
        f"  s = ((f32[4]{{0}}), f32[8]{{0}}) reduce-scatter-start(p), channel_id={channel}, "
        "replica_groups={{0,1}}, dimensions={0}, to_apply=add\n"
        "  ROOT d = f32[8]{0} reduce-scatter-done(s)\n}\n"
    )
    text = ALL_REDUCE[: ALL_REDUCE.index("ENTRY")] + text[text.index("ENTRY") :]
    module = HloModule.parse(text.replace("f32[8]", "f32[2]"))
    assert f"channel_id={channel}," in module.entry.instructions[1].to_text()
    assert HloModule.parse(module.to_text()).to_text() == module.to_text()


def test_edits_of_a_channel() -> None:
    module = HloModule.parse(ALL_REDUCE)
    first, second, third = module.entry.instructions[1:]
    first.set_attribute("channel_id", 40)
    second.set_attribute("channel_id", "41")
    third.set_attribute("channel_id", None)
    assert channels(module) == [40, 41]
    assert "channel_id" not in third.attributes
    assert third.to_text() == "%ar.3 = f32[4]{0} all-reduce(%ar.2), replica_groups={}, to_apply=%add"
    second.rewrite("f32[4] all-reduce(ar.1), channel_id=8, to_apply=add")
    assert second.channel == 8
    second.set_shape("f32[4]{0}")
    second.set_opcode("all-reduce")
    assert second.channel == 8
    new = module.entry.insert("n = f32[4] all-reduce(ar.1), channel_id=12, to_apply=add")
    other = module.entry.insert_instruction(
        "o", "all-reduce", [new], shape="f32[4]", attributes={"channel_id": 13, "to_apply": "add"}
    )
    assert (new.channel, other.channel) == (12, 13)
    assert HloModule.from_proto(module.to_proto()).to_text() == module.to_text()
    assert not xs.hlo.verify(HloModule.parse(module.to_text()))


def test_a_fingerprint_tells_who_shares_a_channel_and_not_its_number() -> None:
    text = ALL_REDUCE
    assert HloModule.parse(text.replace("=7,", "=8,")).fingerprint() == HloModule.parse(text).fingerprint()
    assert HloModule.parse(text.replace("=7,", "=1,")).fingerprint() != HloModule.parse(text).fingerprint()
