"""What a newer XLA writes and this schema does not know is kept: the module loads, is walked, and is written back byte
for byte."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from xlashape.errors import InvalidModuleError, LossyConversionError
from xlashape.hlo import HloModule, Opcode, check, convert, verify
from xlashape.hlo.ops.opcode import UnknownOpcode
from xlashape.proto import is_repeated, xla
from xlashape.proto.wire import BYTES, END_GROUP, FIXED32, FIXED64, GROUP, VARINT, sized, tag, varint

VECTORS = Path(__file__).resolve().parents[2] / "vectors"
NUMBER = 4711
"""Of no enum of the schema."""
UNKNOWN_FIELDS = [
    tag(2001, BYTES) + sized(b"hello"),
    tag(2002, VARINT) + varint(300),
    tag(2003, FIXED64) + bytes(range(8)),
    tag(2004, FIXED32) + bytes(range(4)),
    tag(2005, GROUP) + tag(1, VARINT) + varint(7) + tag(2005, END_GROUP),
]
TEXT = """HloModule m
f { p = f32[4] parameter(0)  ROOT n = f32[4] negate(p) }
ENTRY e {
  p = f32[4] parameter(0)
  c = f32[4] fusion(p), kind=kLoop, calls=f
  ROOT n = f32[4] exponential(c)
}"""


def protos(step: int) -> list[xla.HloModuleProto]:
    with (VECTORS / "hlo_print.jsonl").open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [xla.HloModuleProto.FromString(base64.b64decode(row["proto"])) for row in rows if "text" in row][::step]


def messages(message: Message) -> Iterator[Message]:
    """A message and everything within it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is not None:
                for key in sorted(value):
                    yield from messages(value[key])
        elif is_repeated(field):
            for part in value:
                yield from messages(part)
        else:
            yield from messages(value)


def enum_fields(message: Message) -> Iterator[tuple[Message, FieldDescriptor]]:
    """Every enum that is set, and the message that it is in."""
    for part in messages(message):
        for field, _ in part.ListFields():
            if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
                yield part, field


def set_unknown(message: Message, field: FieldDescriptor) -> None:
    if is_repeated(field):
        getattr(message, field.name)[0] = NUMBER
    else:
        setattr(message, field.name, NUMBER)


def walk(module: HloModule) -> None:
    """Asks every view for everything."""
    for computation in module.computations:
        assert computation.root in computation.instructions
        for instruction in computation.instructions:
            views: list[Any] = [*instruction.operands, *instruction.users, *instruction.control_predecessors]
            assert all(view.computation is computation for view in views)
            assert instruction.opcode == instruction.proto.opcode
            assert instruction.shape.to_proto() == instruction.proto.shape
            assert all(called in module.computations for called in instruction.called_computations)


def check_kept(data: bytes) -> None:
    """Whatever is in `data` loads and is kept or, by a form that cannot hold it, refused."""
    module = HloModule.from_proto(data)
    walk(module)
    assert module.to_proto().SerializeToString(deterministic=True) == data
    for form in ("pb", "hlo.pb"):
        decoded = HloModule.from_bytes(convert.encode(module, form))
        assert decoded.proto.SerializeToString(deterministic=True) == data
    for form in ("json", "pbtxt"):
        try:
            encoded = convert.encode(module, form)
        except LossyConversionError:
            assert convert.encode(module, form, lossy=True)
        else:
            assert HloModule.from_bytes(encoded).proto.SerializeToString(deterministic=True) == data
    with suppress(InvalidModuleError):
        assert module.to_text()
    verify(module)


@pytest.mark.parametrize("index", range(10))
def test_unknown_fields_stay_wherever_they_are(index: int) -> None:
    r = random.Random(index)
    for proto in protos(3)[index::10]:
        for part in r.sample(list(messages(proto)), 3):
            part.MergeFromString(r.choice(UNKNOWN_FIELDS))
        data = proto.SerializeToString(deterministic=True)
        check_kept(data)
        with pytest.raises(LossyConversionError, match="fields that this schema does not know"):
            convert.encode(HloModule.from_proto(data), "json")


@pytest.mark.parametrize("index", range(10))
def test_unknown_numbers_of_enums_stay_wherever_they_are(index: int) -> None:
    r = random.Random(index)
    for proto in protos(2)[index::10]:
        places = list(enum_fields(proto))
        for message, field in r.sample(places, min(3, len(places))):
            set_unknown(message, field)
        check_kept(proto.SerializeToString(deterministic=True))


def test_every_enum_of_the_vectors_may_have_an_unknown_number() -> None:
    seen: set[str] = set()
    for proto in protos(1):
        for message, field in list(enum_fields(proto)):
            if field.full_name in seen:
                continue
            seen.add(field.full_name)
            changed = xla.HloModuleProto()
            before = message.SerializeToString()
            set_unknown(message, field)
            changed.CopyFrom(proto)
            message.ParseFromString(before)
            check_kept(changed.SerializeToString(deterministic=True))
    assert {"xla.ShapeProto.element_type", "xla.OpSharding.type", "xla.PrecisionConfig.operand_precision"} <= seen


def test_an_unknown_opcode_has_its_name() -> None:
    proto = HloModule.parse(TEXT).to_proto()
    proto.computations[1].instructions[2].opcode = "frobnicate-all"
    module = HloModule.from_proto(proto)
    root = module.entry.root
    assert isinstance(root.opcode, UnknownOpcode)
    assert not isinstance(root.opcode, Opcode)
    assert root.opcode == "frobnicate-all"
    assert root.opcode.name == "FROBNICATE_ALL"
    assert repr(root) == "<HloInstruction 'n.1': frobnicate-all>"
    assert [operand.name for operand in root.operands] == ["c"]
    assert "ROOT %n.1 = f32[4]{0} frobnicate-all(%c)" in module.to_text()
    assert [str(problem) for problem in verify(module)] == [
        "computation 'e': instruction 'n.1': has the unknown opcode 'frobnicate-all'"
    ]
    check_kept(proto.SerializeToString(deterministic=True))


def test_an_unknown_element_type_is_named_printed_and_read_back() -> None:
    proto = HloModule.parse(TEXT).to_proto()
    for part in messages(proto):
        if isinstance(part, xla.ShapeProto):
            part.element_type = NUMBER
    module = HloModule.from_proto(proto)
    assert str(module.entry.root.shape) == "unknown_4711[4]{0}"
    text = module.to_text()
    assert "ROOT %n.1 = unknown_4711[4]{0} exponential(%c)" in text
    assert "ENTRY %e (p.1: unknown_4711[4]) -> unknown_4711[4] {" in text
    assert HloModule.parse(text).to_text() == text
    assert HloModule.parse(module.to_text("short_parsable")).proto == HloModule.parse(text).proto
    check_kept(proto.SerializeToString(deterministic=True))


def test_a_constant_of_an_unknown_element_type() -> None:
    proto = HloModule.parse("ENTRY e { ROOT c = f32[2] constant({1, 2}) }").to_proto()
    for part in messages(proto):
        if isinstance(part, xla.ShapeProto):
            part.element_type = NUMBER
    check_kept(proto.SerializeToString(deterministic=True))
    assert "unknown_4711[2]{0} constant(" in HloModule.from_proto(proto).to_text()


def test_an_unknown_kind_of_fusion_is_printed() -> None:
    proto = HloModule.parse(TEXT).to_proto()
    proto.computations[1].instructions[1].fusion_kind = "kNew"
    assert "fusion(%p.1), kind=kNew, calls=%f" in HloModule.from_proto(proto).to_text()
    check_kept(proto.SerializeToString(deterministic=True))


def test_the_module_of_a_known_xla_has_nothing_unknown() -> None:
    check(HloModule.parse(TEXT))
