"""A module that was read from bytes: its computations are made when they are touched, its instructions share kinds, and
its bytes stay as they are."""

from __future__ import annotations

import copy
import gzip
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

import xlashape as xs
from tests.support.corpus import text_of
from xlashape import HloModule
from xlashape.errors import DecodeError, InvalidModuleError, XlashapeError
from xlashape.hlo import verify
from xlashape.hlo.kind import OWN_FIELDS, own_channel
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


def without_own_fields(instruction: xla.HloInstructionProto) -> xla.HloInstructionProto:
    result = xla.HloInstructionProto()
    result.CopyFrom(instruction)
    for name in OWN_FIELDS:
        result.ClearField(name)
    own_channel(result)
    return result


# -- what is read --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PROTOS, ids=lambda path: path.name.removesuffix(".pb.gz"))
def test_a_module_says_what_its_message_says(path: Path) -> None:
    data = gzip.decompress(path.read_bytes())
    module = HloModule.from_proto(data)
    message = module.to_proto()
    assert module.name == message.name
    for computation, proto in zip(module.computations, message.computations, strict=True):
        assert (computation.name, computation.id) == (proto.name, proto.id)
        assert computation.execution_thread == proto.execution_thread
        assert computation.is_fused == proto.is_fusion_computation
        assert computation.root.id == proto.root_id
        for instruction, each in zip(computation.instructions, proto.instructions, strict=True):
            assert (instruction.name, instruction.id, instruction.opcode) == (each.name, each.id, each.opcode)
            assert instruction.number == each.parameter_number
            assert instruction.channel == each.channel_id
            assert [one.id & 0xFFFFFFFF for one in instruction.operands] == [i & 0xFFFFFFFF for i in each.operand_ids]
            assert [one.id for one in instruction.control_predecessors] == list(each.control_predecessor_ids)
            assert [one.id for one in instruction.called_computations] == list(each.called_computation_ids)
            assert instruction.has_metadata == each.HasField("metadata")
            assert instruction.op_metadata == each.metadata
            assert instruction.details == without_own_fields(each)
            assert instruction.shape == xs.Shape.from_proto(each.shape)
            assert instruction.proto == each
            assert list(instruction.output_operand_aliasing) == list(each.output_operand_aliasing)
        assert computation.proto == proto
    head = xla.HloModuleProto()
    head.CopyFrom(message)
    head.ClearField("computations")
    assert module.head.SerializeToString(deterministic=True) == head.SerializeToString(deterministic=True)
    assert module.to_text() == HloModule.from_proto(message).to_text()
    assert module.to_bytes() == data


def walk(module: HloModule) -> None:
    """Touches all of a module."""
    for each in module.instructions():
        for _ in (
            each.operands, each.users, each.shape, each.attributes, each.metadata, each.sharding, each.details,
            each.proto, each.to_text(), dict(each.attributes), each.is_root, each.op_metadata,
        ):  # fmt: skip
            pass
    for computation in module.computations:
        for _ in (computation.root, computation.parameters, computation.proto, computation.post_order()):
            pass
    module.to_text(), module.fingerprint(), module.table(), verify(module), module.proto, module.hlo_proto
    module.to_proto(for_version="0.4.30"), module.copy(), pickle.dumps(module)


@pytest.mark.parametrize("path", PROTOS, ids=lambda path: path.name.removesuffix(".pb.gz"))
def test_a_module_that_is_used_keeps_its_bytes(path: Path) -> None:
    data = gzip.decompress(path.read_bytes())
    given = [data]
    if HloModule.from_proto(data).beside is None:
        given.append(tag(1, BYTES) + sized(data))  # as an HloProto
    for each in given:
        module = HloModule.from_proto(each)
        walk(module)
        assert module.to_bytes() == each
        assert module.copy().to_bytes() == each
        assert len(given) < 2 or module.module_bytes() == data


def test_reports_keep_the_bytes() -> None:
    data = HloModule.parse(text_of(3)).to_bytes()
    module = HloModule.from_proto(data)
    for report in (xs.memory, xs.cost, xs.copies, xs.why, xs.reads):
        report(module)
    xs.diff(module, HloModule.parse(text_of(4)))
    for each in module.instructions():
        xs.indexing.output_to_input(each)
    assert module.to_bytes() is data


def test_a_message_is_new_each_time() -> None:
    module = HloModule.from_proto(HloModule.parse(TEXT).to_bytes())
    data, text = module.to_bytes(), module.to_text()
    for message in (module.proto, module.to_proto()):
        message.name = "other"
        message.computations[1].instructions[1].name = "renamed"
    module.entry.proto.name = "main"
    module.instruction("x").proto.backend_config = b"new"
    module.instruction("x").op_metadata.op_name = "new"
    assert module.to_bytes() == data
    assert module.to_text() == text
    message = module.proto
    message.name = "other"
    changed = HloModule(message)
    message.name = "third"  # the module has copied it
    assert changed.name == "other"
    assert module.name == "m"


# -- what is made when -----------------------------------------------------------------------------------


def test_a_computation_is_made_when_it_is_touched() -> None:
    module = HloModule.from_proto(HloModule.parse(TEXT).to_bytes())
    fused, entry = module.computations
    assert not fused.is_filled
    assert not entry.is_filled
    assert (fused.name, fused.is_fused, entry.is_fused) == ("f", True, False)
    assert entry.root.name == "c"
    assert entry.is_filled
    assert not fused.is_filled
    assert entry.instruction("x").called_computations == (fused,)
    assert len(fused) == 2
    assert not fused.is_filled
    assert fused.root.name == "n"
    assert fused.is_filled
    assert [each.name for each in module.instructions()] == ["a", "n", "p", "x", "c"]


@pytest.mark.parametrize(
    "touch",
    [
        lambda module: module.entry.instructions,
        lambda module: (module.entry.root,),
        lambda module: (module.instruction("p499"),),
        lambda module: module.instruction("p0").users,
        lambda module: tuple(module.instructions()),
        lambda module: module.entry.parameters,
    ],
)
def test_threads_that_touch_a_computation_at_once_get_the_same_objects(
    touch: Callable[[HloModule], tuple[object, ...]],
) -> None:
    lines = " ".join(f"p{number} = f32[4] add(p{number - 1}, p0)" for number in range(1, 500))
    data = HloModule.parse(f"ENTRY e {{ p0 = f32[4] parameter(0) {lines} }}").to_bytes()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(10):
            module, barrier = HloModule.from_proto(data), Barrier(8)

            def ask(_: int, module: HloModule = module, barrier: Barrier = barrier) -> list[int]:
                barrier.wait()
                return [id(each) for each in touch(module)]

            with ThreadPoolExecutor(8) as pool:
                found = list(pool.map(ask, range(8)))
            assert all(each == found[0] for each in found)
    finally:
        sys.setswitchinterval(interval)


def test_alike_instructions_share_a_kind_and_a_shape() -> None:
    lines = " ".join(
        f'p{number} = f32[4] add(p{number - 1}, p0), metadata={{op_name="{number}"}}' for number in range(1, 100)
    )
    text = f"ENTRY e {{ p0 = f32[4] parameter(0) p = f32[4] parameter(1) {lines} ROOT n = f32[4] negate(p99) }}"
    for module in (HloModule.parse(text), HloModule.from_proto(HloModule.parse(text).to_bytes())):
        by_opcode = {}
        for each in module.instructions():
            by_opcode.setdefault(each.opcode, set()).add(each.kind)
        assert {opcode: len(kinds) for opcode, kinds in by_opcode.items()} == {"parameter": 1, "add": 1, "negate": 1}
        assert len({id(each.shape) for each in module.instructions()}) == 1
        assert len(module.kinds) == 3
        assert module.instruction("p").parameter_number == 1
        assert module.instruction("p7").metadata.op_name == "7"


# -- fields that are not read ------------------------------------------------------------------------------


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
    assert module.assignment is not None
    assert module.assignment.buffer_allocations[0].size == 7
    assert module.to_proto() == inner
    assert module.hlo_proto == outer
    module.instruction("x").rename("y")
    assert UNKNOWN in module.to_bytes()


def test_unknown_fields_stay_where_they_are() -> None:
    message = HloModule.parse(TEXT).to_proto()
    for part in (message, message.computations[0], message.computations[0].instructions[1]):
        part.MergeFromString(UNKNOWN)
    message.computations[0].instructions[1].shape.MergeFromString(UNKNOWN)
    data = message.SerializeToString()
    module = HloModule.from_proto(data)
    assert module.to_bytes() == data == module.to_proto().SerializeToString()
    root = module.computations[0].instructions[1]
    assert (
        root.details.SerializeToString()
        == without_own_fields(message.computations[0].instructions[1]).SerializeToString()
    )
    assert root.shape.unknown_fields == UNKNOWN
    assert module.proto.SerializeToString() == data
    module.instruction("a").rename("b")  # an edit keeps them too
    written = xla.HloModuleProto.FromString(module.to_bytes())
    assert (
        written.computations[0].instructions[1].SerializeToString()
        == message.computations[0].instructions[1].SerializeToString()
    )
    assert module.to_bytes().count(UNKNOWN) == data.count(UNKNOWN)


def test_a_shape_that_is_set_and_empty_is_set() -> None:
    proto = xla.HloInstructionProto(name="t", opcode="tuple")
    for is_set in (False, True):
        if is_set:
            proto.shape.SetInParent()
        computation = xla.HloComputationProto(name="e", instructions=[proto])
        module = HloModule.from_proto(xla.HloModuleProto(computations=[computation]).SerializeToString())
        assert module.entry.root.details.HasField("shape") == is_set


@pytest.mark.parametrize(
    "change", [lambda _: None, lambda module: module.proto, lambda module: module.entry.rename("z")]
)
def test_modules_are_pickled_and_copied(change: Callable[[HloModule], object]) -> None:
    module = HloModule.parse(TEXT)
    change(module)
    for made in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module), module.copy()):
        assert made.to_bytes() == module.to_bytes()
        assert made.to_text() == module.to_text()
    computation, instruction = pickle.loads(pickle.dumps((module.entry, module.instruction("x"))))
    assert instruction.computation is computation
    assert computation.instruction("x") is instruction


def test_a_text_is_written_as_protobuf_writes_it() -> None:
    for text in (TEXT, *map(text_of, range(8))):
        data = HloModule.parse(text).to_bytes()
        assert xla.HloModuleProto.FromString(data).SerializeToString() == data
        module = HloModule.from_proto(data)
        module.entry.rename("main")  # so is what an edit has changed
        written = module.to_bytes()
        assert xla.HloModuleProto.FromString(written).SerializeToString() == written


def test_what_the_reader_of_text_makes_is_consistent() -> None:
    texts = [gzip.decompress(path.read_bytes()).decode() for path in sorted(VERSIONS.glob("*.txt.gz"))]
    for text in (TEXT, "x = f32[4] add(f32[4] a, f32[4] b)", *map(text_of, range(8)), *texts):
        module = HloModule.parse(text)
        proto = module.proto
        found = check_module(proto.name, proto.entry_computation_id, proto.computations, proto.computations)
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


# -- memory ----------------------------------------------------------------------------------------------


_WRITE = """
import sys
from xlashape import HloModule

lines = [f'p.{i} = f32[128,256]{{1,0}} add(p.{i - 1}, p.{i - 2}), metadata={{op_name="jit(step)/layer_{i // 500}/add"}}' for i in range(2, 40_000)]
text = "HloModule m ENTRY e { p.0 = f32[128,256]{1,0} parameter(0) p.1 = f32[128,256]{1,0} parameter(1) ROOT r = f32[128,256]{1,0} negate(p.1) "
with open(sys.argv[1], "wb") as file:
    file.write(HloModule.parse(text + "\\n".join(lines) + "}").to_bytes())
"""
_LOAD = """
import os, sys, tracemalloc
from xlashape import HloModule
def most():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
HloModule.from_bytes(HloModule.parse("HloModule m ENTRY e { ROOT p = f32[4] parameter(0) }").to_bytes())
before = most()
module = HloModule.load(sys.argv[1])
print((most() - before) / os.path.getsize(sys.argv[1]))
tracemalloc.start()
print(tracemalloc.get_traced_memory()[0])
count = len(module.entry.instructions)
print(tracemalloc.get_traced_memory()[0] / count)
copy = module.copy()
print(tracemalloc.get_traced_memory()[0] / count)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the most memory that a process has had")
def test_modules_take_little_memory(tmp_path: Path) -> None:
    path = str(tmp_path / "m.pb")
    subprocess.run([sys.executable, "-c", _WRITE, path], check=True)
    child = subprocess.run([sys.executable, "-c", _LOAD, path], capture_output=True, text=True, check=True)
    loaded, _, touched, copied = map(float, child.stdout.split())
    print(loaded, touched, copied)
    assert loaded < 8  # times its bytes; the message of the schema takes 17 times
    assert touched < 600  # bytes for each instruction
    assert copied - touched < 400


@pytest.mark.parametrize("number", range(1, 20))
@pytest.mark.parametrize("wire_type", [0, 1, 2, 5])
def test_a_field_of_any_number_and_wire_type_is_read_and_kept_or_refused(number: int, wire_type: int) -> None:
    """Beside the module's own fields, in front of them and behind them; a field that holds another type than its number
    is one that the schema does not know."""
    text = "HloModule m f { ROOT q = f32[4] parameter(0) } ENTRY e { p = f32[4] parameter(0) ROOT n = f32[4] call(p), to_apply=f }"
    data = HloModule.parse(text).to_bytes()
    more = tag(number, wire_type) + {0: b"\x01", 1: bytes(8), 2: b"\x02\x08\x01", 5: bytes(4)}[wire_type]
    for content in (more + data, data + more):
        try:
            module = HloModule.from_proto(content)
            module.to_text()
        except XlashapeError:
            continue
        assert module.to_bytes() == content
        module.entry.root.rename("other")
        again = HloModule.from_proto(module.to_bytes())
        assert again.entry.root.name == "other"
        if wire_type != 2:
            assert len(module.to_bytes()) >= len(data) + len(more)
