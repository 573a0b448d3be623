"""Modules are held as bytes and compact messages until somebody asks for a proto: both say the same."""

from __future__ import annotations

import copy
import gzip
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import xlashape as xs
from tests.support.corpus import text_of
from xlashape import HloModule
from xlashape.errors import DecodeError, InvalidModuleError
from xlashape.hlo import verify
from xlashape.hlo.module_proto.compact import ComputationFields, InstructionFields, ModuleFields
from xlashape.hlo.module_proto.structure import check_module
from xlashape.proto import xla
from xlashape.proto.wire import BYTES, VARINT, sized, tag, varint

VERSIONS = Path(__file__).resolve().parents[2] / "vectors" / "versions"
PROTOS = sorted(VERSIONS.glob("*.pb.gz"))
UNKNOWN = tag(1900, VARINT) + varint(7)

TEXT = """HloModule m, is_scheduled=true
f { a = f32[4]{0} parameter(0) ROOT n = f32[4]{0} negate(a), metadata={op_name="jit(f)/neg" source_file="a.py" source_line=7} }
ENTRY e {
  p = f32[4]{0} parameter(0), sharding={replicated}
  x = f32[4]{0} fusion(p), kind=kLoop, calls=f, backend_config={"a":1}
  ROOT c = f32[4]{0} custom-call(x), custom_call_target="t", output_to_operand_aliasing={{}: (0, {})}, control-predecessors={p}
}
"""


def names_of(protocol: type) -> list[str]:
    return [name for name in vars(protocol) if not name.startswith("_")]


def plain(value: object) -> object:
    """A field's value, messages as their bytes."""
    if isinstance(value, (str, int, bytes)):
        return value
    serialize = getattr(value, "SerializeToString", None)
    return [plain(each) for each in value] if serialize is None else serialize()  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", PROTOS, ids=lambda path: path.name.removesuffix(".pb.gz"))
def test_compact_messages_say_what_the_message_of_the_schema_says(path: Path) -> None:
    data = gzip.decompress(path.read_bytes())
    compact = HloModule.from_proto(data)
    message = compact.to_proto()
    assert compact.held.is_compact
    assert compact.to_bytes() == data
    whole = HloModule.from_proto(message)
    for name in names_of(ModuleFields):
        if name != "computations":
            assert getattr(compact.held.fields, name) == getattr(message, name)
    for one, other in zip(compact.computations, whole.computations, strict=True):
        for name in names_of(ComputationFields):
            if name != "instructions":
                assert getattr(one.fields, name) == getattr(other.fields, name)
        for mine, theirs in zip(one.instructions, other.instructions, strict=True):
            for name in names_of(InstructionFields):
                if name not in ("shape", "metadata", "output_operand_aliasing"):
                    assert plain(getattr(mine.fields, name)) == plain(getattr(theirs.fields, name))
            assert mine.details == theirs.proto
            assert mine.details.SerializeToString(deterministic=True) == theirs.proto.SerializeToString(
                deterministic=True
            )
            assert mine.shape == theirs.shape
            assert mine.op_metadata == theirs.proto.metadata
            assert list(mine.output_operand_aliasing) == list(theirs.proto.output_operand_aliasing)
    head = xla.HloModuleProto()
    head.CopyFrom(message)
    head.ClearField("computations")
    assert compact.head.SerializeToString(deterministic=True) == head.SerializeToString(deterministic=True)
    assert compact.to_text() == whole.to_text()
    assert compact.held.is_compact


def test_the_proto_takes_the_place_of_the_compact_messages() -> None:
    data = HloModule.parse(TEXT).to_bytes()
    module = HloModule.from_proto(data)
    fused, entry = module.computations
    names = [each.name for each in entry.instructions]  # views that were made before
    proto = module.proto
    assert module.proto is proto
    assert entry.proto is proto.computations[1]
    assert fused.instructions[0].proto is proto.computations[0].instructions[0]  # and after
    assert [each.proto.name for each in entry.instructions] == names
    entry.instructions[1].proto.name = "renamed"
    proto.name = "other"
    assert module.name == "other"
    assert "HloModule other" in module.to_text()
    assert "%renamed = " in module.to_text()
    assert module.to_bytes() == proto.SerializeToString() != data
    assert module.to_proto() == proto
    again = HloModule.from_proto(proto)
    assert again.proto is proto
    assert again.instruction("renamed").details is again.instruction("renamed").proto


def test_the_proto_of_a_part_is_that_of_the_module() -> None:
    module = HloModule.from_proto(HloModule.parse(TEXT).to_bytes())
    instruction = module.instruction("x").proto
    instruction.backend_config = b"new"
    assert module.proto.computations[1].instructions[1].backend_config == b"new"
    module = HloModule.from_proto(HloModule.parse(TEXT).to_bytes())
    module.entry.proto.name = "main"
    assert module.proto.computations[1].name == "main"


def test_threads_get_one_proto() -> None:
    data = HloModule.parse(TEXT).to_bytes()
    for _ in range(50):
        module = HloModule.from_proto(data)
        with ThreadPoolExecutor(8) as pool:
            written = pool.map(lambda _, module=module: module.to_bytes(), range(8))
            protos = pool.map(lambda _, module=module: module.instruction("x").proto, range(8))
        assert {id(each) for each in protos} == {id(module.proto.computations[1].instructions[1])}
        assert set(written) == {data}


def test_the_hlo_proto_around_a_module_is_kept() -> None:
    inner = HloModule.parse(TEXT).to_proto()
    outer = xla.HloProto(
        hlo_module=inner,
        buffer_assignment=xla.BufferAssignmentProto(buffer_allocations=[xla.BufferAllocationProto(size=7)]),
    )
    outer.buffer_assignment.MergeFromString(UNKNOWN)
    data = outer.SerializeToString()
    module = HloModule.from_proto(data)
    assert module.to_bytes() == data
    assert module.held.beside.buffer_assignment.buffer_allocations[0].size == 7
    assert module.to_proto() == inner
    assert module.held.is_compact
    assert module.hlo_proto == outer
    assert module.proto is module.hlo_proto.hlo_module
    assert module.to_bytes() == data


def test_reports_and_texts_ask_for_no_proto() -> None:
    module = HloModule.from_proto(HloModule.parse(text_of(3)).to_bytes())
    for report in (xs.memory, xs.cost, xs.copies, xs.why, xs.reads):
        report(module)
    xs.diff(module, HloModule.parse(text_of(4)))
    module.to_text(), module.fingerprint(), module.table(), verify(module), module.to_proto(for_version="0.4.30")
    for each in module.instructions():
        each.attributes, each.metadata, each.sharding, each.to_text(), xs.indexing.output_to_input(each)
    assert module.held.is_compact


def test_unknown_fields_stay_where_they_are() -> None:
    message = HloModule.parse(TEXT).to_proto()
    for part in (message, message.computations[0], message.computations[0].instructions[1]):
        part.MergeFromString(UNKNOWN)
    message.computations[0].instructions[1].shape.MergeFromString(UNKNOWN)
    data = message.SerializeToString()
    module = HloModule.from_proto(data)
    assert module.to_bytes() == data == module.to_proto().SerializeToString()
    root = module.computations[0].instructions[1]
    assert root.details.SerializeToString() == message.computations[0].instructions[1].SerializeToString()
    assert root.shape.unknown_fields == UNKNOWN
    assert module.proto.SerializeToString() == data


def test_a_shape_that_is_set_and_empty_is_set() -> None:
    proto = xla.HloInstructionProto(name="t", opcode="tuple")
    for is_set in (False, True):
        if is_set:
            proto.shape.SetInParent()
        computation = xla.HloComputationProto(name="e", instructions=[proto])
        module = HloModule.from_proto(xla.HloModuleProto(computations=[computation]).SerializeToString())
        assert module.entry.root.details.HasField("shape") == is_set


@pytest.mark.parametrize("change", [lambda _: None, lambda module: module.proto])
def test_modules_are_pickled_and_copied(change: object) -> None:
    module = HloModule.parse(TEXT)
    change(module)  # type: ignore[operator]
    for made in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        assert made.to_bytes() == module.to_bytes()
        assert made.to_text() == module.to_text()
    computation, instruction = pickle.loads(pickle.dumps((module.entry, module.instruction("x"))))
    assert instruction.computation is computation
    assert computation.instruction("x") is instruction


def test_a_text_is_read_as_protobuf_writes_it() -> None:
    for text in (TEXT, *map(text_of, range(8))):
        data = HloModule.parse(text).to_bytes()
        assert xla.HloModuleProto.FromString(data).SerializeToString() == data


def test_what_the_reader_of_text_makes_needs_no_check() -> None:
    texts = [gzip.decompress(path.read_bytes()).decode() for path in sorted(VERSIONS.glob("*.txt.gz"))]
    for text in (TEXT, "x = f32[4] add(f32[4] a, f32[4] b)", *map(text_of, range(8)), *texts):
        module = HloModule.parse(text)
        assert module.held.is_consistent
        found = check_module(module.held.fields)
        assert [module.resolve([each.id])[0].index for each in module.computations] == list(found.values())


@pytest.mark.parametrize("field", ["sharding", "window", "custom_call_target", "backend_config", "frontend_attributes"])
def test_broken_bytes_of_an_attribute_are_an_error_when_it_is_asked_for(field: str) -> None:
    number = xla.HloInstructionProto.DESCRIPTOR.fields_by_name[field].number
    broken = tag(number, BYTES) + sized(b"\xff\xff")
    computation = tag(2, BYTES) + sized(
        xla.HloInstructionProto(
            name="c", opcode="custom-call", shape=xs.Shape.parse("f32[4]").to_proto()
        ).SerializeToString()
        + broken
    )
    module = HloModule.from_proto(tag(3, BYTES) + sized(computation))
    assert module.to_bytes() == tag(3, BYTES) + sized(computation)
    if field == "backend_config":  # any bytes
        assert module.proto.computations[0].instructions[0].backend_config == b"\xff\xff"
        return
    for ask in (HloModule.to_proto, lambda module: module.proto, lambda module: module.entry.root.details):
        with pytest.raises(DecodeError):
            ask(module)
    for ask in (HloModule.to_text, HloModule.fingerprint, xs.cost, lambda module: dict(module.entry.root.attributes)):
        with pytest.raises((DecodeError, InvalidModuleError)):
            ask(module)


_CHILD = """
import sys
from xlashape import HloModule

lines = [f'p.{i} = f32[128,256]{{1,0}} add(p.{i - 1}, p.{i - 2}), metadata={{op_name="jit(step)/layer_{i // 500}/add"}}' for i in range(2, 40_000)]
text = "HloModule m ENTRY e { p.0 = f32[128,256]{1,0} parameter(0) p.1 = f32[128,256]{1,0} parameter(1) ROOT r = f32[128,256]{1,0} negate(p.1) "
with open(sys.argv[1], "wb") as file:
    file.write(HloModule.parse(text + "\\n".join(lines) + "}").to_bytes())
"""
_LOAD = """
import os, sys
from xlashape import HloModule
def most():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
HloModule.from_bytes(HloModule.parse("HloModule m ENTRY e { ROOT p = f32[4] parameter(0) }").to_bytes())
before = most()
module = HloModule.load(sys.argv[1])
print((most() - before) / os.path.getsize(sys.argv[1]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the most memory that a process has had")
def test_a_loaded_module_takes_a_few_times_its_bytes(tmp_path: Path) -> None:
    path = str(tmp_path / "m.pb")
    subprocess.run([sys.executable, "-c", _CHILD, path], check=True)
    child = subprocess.run([sys.executable, "-c", _LOAD, path], capture_output=True, text=True, check=True)
    assert float(child.stdout) < 8  # the message of the schema takes 17 times
