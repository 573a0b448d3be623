"""Views over modules: structure, lookup, sharing, and what is refused."""

import copy
import gzip
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from xlashape.errors import DecodeError, InvalidArgumentError, InvalidModuleError, NotFoundError
from xlashape.hlo import HloComputation, HloInstruction, HloModule, Opcode
from xlashape.proto import pool, xla

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "hlo"
F32 = xla.ShapeProto(element_type=xla.F32, dimensions=[4], is_dynamic_dimension=[False])


def instruction(name, number, operands=(), *, opcode="add", calls=(), control=(), shape=F32, parameter=0):
    return xla.HloInstructionProto(
        name=name,
        id=number,
        opcode=opcode,
        shape=shape,
        operand_ids=operands,
        called_computation_ids=calls,
        control_predecessor_ids=control,
        parameter_number=parameter,
    )


def diamond():
    """negate(p) is called f; the entry adds f(a) and b, with a used twice."""
    callee = xla.HloComputationProto(
        name="f",
        id=1,
        root_id=(1 << 32) + 1,
        instructions=[
            instruction("p", 1 << 32, opcode="parameter"),
            instruction("n", (1 << 32) + 1, [1 << 32], opcode="negate"),
        ],
    )
    entry = xla.HloComputationProto(
        name="main",
        id=2,
        root_id=(2 << 32) + 4,
        instructions=[
            instruction("b", (2 << 32) + 1, opcode="parameter", parameter=1),
            instruction("a", 2 << 32, opcode="parameter"),
            instruction("square", (2 << 32) + 2, [2 << 32, 2 << 32], opcode="multiply"),
            instruction("c", (2 << 32) + 3, [(2 << 32) + 2], opcode="fusion", calls=[1], control=[(2 << 32) + 1]),
            instruction("sum", (2 << 32) + 4, [(2 << 32) + 3, (2 << 32) + 1]),
        ],
    )
    return xla.HloModuleProto(
        name="m", computations=[callee, entry], entry_computation_id=2, entry_computation_name="main"
    )


def names(instructions):
    return [view.name for view in instructions]


def test_the_structure_of_a_module():
    module = HloModule.from_proto(diamond())
    assert module.name == "m"
    assert names(module.computations) == ["f", "main"]
    assert module.entry is module.computation("main") is module.computation("%main")
    assert module.entry.root is module.instruction("sum")
    assert module.entry.root.is_root
    assert not module.instruction("c").is_root
    assert names(module.entry.parameters) == ["a", "b"]
    assert [parameter.parameter_number for parameter in module.entry.parameters] == [0, 1]
    assert names(module.instruction("square").operands) == ["a", "a"]
    assert names(module.instruction("a").users) == ["square"]
    assert names(module.instruction("b").users) == ["sum"]
    assert names(module.instruction("sum").users) == []
    assert module.instruction("c").called_computations == (module.computation("f"),)
    assert module.instruction("c").control_predecessors == (module.instruction("b"),)
    assert module.instruction("c").opcode is Opcode.FUSION
    assert module.instruction("c").opcode == "fusion"
    assert module.instruction("%c").id == (2 << 32) + 3
    assert module.instruction("c").proto.shape == F32
    assert names(module.instructions()) == ["p", "n", "b", "a", "square", "c", "sum"]
    assert module.instruction("n").computation.module is module
    assert repr(module.entry.root) == "<HloInstruction 'sum': add>"


def test_equal_shapes_are_one_object():
    module = HloModule.from_proto(diamond())
    assert str(module.entry.root.shape) == "f32[4]"
    assert len({id(view.shape) for view in module.instructions()}) == 1


def test_bytes_messages_and_hlo_protos_give_the_same_module():
    proto = diamond()
    data = proto.SerializeToString(deterministic=True)
    dump = xla.HloProto(
        hlo_module=proto, buffer_assignment=xla.BufferAssignmentProto(buffer_allocations=[{"index": 1}])
    )
    for value in (data, bytearray(data), memoryview(data), proto, dump, dump.SerializeToString()):
        module = HloModule.from_proto(value)
        assert module.to_proto() == proto
    assert HloModule.from_proto(dump).hlo_proto == dump
    assert HloModule.from_proto(data).hlo_proto is None


def test_messages_are_copies():
    dump = xla.HloProto(hlo_module=diamond())
    module = HloModule.from_proto(dump)
    expected = module.to_text()
    dump.hlo_module.name = "other"
    assert module.hlo_proto is not None
    for message in (module.proto, module.to_proto(), module.hlo_proto.hlo_module):
        message.name = "other"
        del message.computations[:]
    module.entry.proto.instructions[0].name = "other"
    module.entry.root.proto.operand_ids[0] = 77
    assert module.to_text() == expected
    assert module.proto == diamond()
    assert module.hlo_proto == xla.HloProto(hlo_module=diamond())


def test_messages_of_another_package_are_taken():
    files = descriptor_pb2.FileDescriptorSet()
    seen = set()

    def add(file):
        if file.name not in seen:
            seen.add(file.name)
            for dependency in file.dependencies:
                add(dependency)
            file.CopyToProto(files.file.add())

    add(pool.FindFileByName("xla/service/hlo.proto"))
    other = descriptor_pool.DescriptorPool()
    for file in files.file:
        other.Add(file)
    for kind, proto in (("xla.HloModuleProto", diamond()), ("xla.HloProto", xla.HloProto(hlo_module=diamond()))):
        foreign = message_factory.GetMessageClass(other.FindMessageTypeByName(kind))
        assert not isinstance(proto, foreign)
        assert HloModule.from_proto(foreign.FromString(proto.SerializeToString())).to_proto() == diamond()
    with pytest.raises(InvalidArgumentError, match=r"xla\.ShapeProto"):
        HloModule.from_proto(F32)
    with pytest.raises(InvalidArgumentError, match="found int"):
        HloModule.from_proto(7)


def test_a_small_module_is_not_taken_for_an_hlo_proto():
    # Fields 1 and 3 alone, as an HloProto has them: ids of 0 are not written.
    proto = xla.HloModuleProto(
        name="m", computations=[xla.HloComputationProto(name="e", instructions=[instruction("p", 0)])]
    )
    for value in (proto, xla.HloProto(hlo_module=proto)):
        assert HloModule.from_proto(value.SerializeToString()).entry.root.name == "p"


def test_unknown_fields_stay():
    data = diamond().SerializeToString() + bytes.fromhex("8a7d0568656c6c6f")  # field 2001, "hello"
    assert HloModule.from_proto(data).to_proto().SerializeToString() == data


def test_older_ids_are_resolved_by_their_low_bits():
    proto = diamond()
    for computation in proto.computations:
        for view in computation.instructions:
            view.operand_ids[:] = [number & 0xFFFFFFFF for number in view.operand_ids]
    module = HloModule.from_proto(proto)
    assert names(module.entry.root.operands) == ["c", "b"]


def test_operands_may_stand_behind_their_users():
    proto = diamond()
    entry = list(proto.computations[1].instructions)[::-1]
    del proto.computations[1].instructions[:]
    proto.computations[1].instructions.extend(entry)
    assert names(HloModule.from_proto(proto).instruction("sum").operands) == ["c", "b"]


def broken(change):
    proto = diamond()
    change(proto, proto.computations[1])
    return proto


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda module, entry: entry.instructions[4].operand_ids.append(99),
            r"computation 'main': instruction 'sum' has as operand 2 the id 99",
        ),
        (
            lambda module, entry: setattr(entry.instructions[2], "id", 2 << 32),
            r"instruction 'square' has the same id 8589934592 as instruction 'a'",
        ),
        (
            lambda module, entry: entry.instructions[2].operand_ids.append((2 << 32) + 3),
            r"is its own operand, through 'square' → 'c' → 'square'",
        ),
        (
            lambda module, entry: entry.instructions[2].operand_ids.append((2 << 32) + 2),
            r"'square' is its own operand, through 'square' → 'square'",
        ),
        (
            lambda module, entry: setattr(entry, "root_id", 77),
            r"computation 'main': its root, id 77, is not among its 5 instructions",
        ),
        (
            lambda module, entry: setattr(module, "entry_computation_id", 9),
            r"module 'm': its entry computation, id 9, is not there",
        ),
        (
            lambda module, entry: setattr(module.computations[0], "id", 2),
            r"computations 'f' and 'main' have the same id 2",
        ),
        (
            lambda module, entry: entry.instructions[3].called_computation_ids.append(5),
            r"instruction 'c' calls a computation of id 5",
        ),
        (
            lambda module, entry: entry.instructions[3].control_predecessor_ids.append(50),
            r"instruction 'c' names a control predecessor of id 50",
        ),
        (
            lambda module, entry: module.computations[0].instructions[1].called_computation_ids.append(2),
            r"call each other in a cycle, 'f' → 'main' → 'f', by instruction 'n'",
        ),
        (lambda module, entry: module.ClearField("computations"), r"module 'm': it has no computations"),
        (
            lambda module, entry: entry.ClearField("instructions"),
            r"its root, id 8589934596, is not among its 0 instructions",
        ),
    ],
)
def test_what_breaks_the_rules_is_named(change, message):
    with pytest.raises(InvalidModuleError, match=message):
        HloModule.from_proto(broken(change).SerializeToString())


def test_what_is_wrong_with_one_instruction_waits_until_it_is_asked():
    proto = diamond()
    proto.computations[1].instructions[3].shape.dimensions.append(-7)
    module = HloModule.from_proto(proto)
    with pytest.raises(InvalidModuleError, match="instruction 'c' has an invalid shape"):
        _ = module.instruction("c").shape
    with pytest.raises(InvalidArgumentError, match="'c' is not a parameter but 'fusion'"):
        _ = module.instruction("c").parameter_number


def test_parameters_are_numbered_without_gaps():
    with pytest.raises(InvalidModuleError, match="instruction 'b' is parameter 2 where parameter 1 was expected"):
        _ = HloModule.from_proto(
            broken(lambda module, entry: setattr(entry.instructions[0], "parameter_number", 2))
        ).entry.parameters


def test_names_that_are_not_there_and_names_that_are_there_twice():
    module = HloModule.from_proto(diamond())
    with pytest.raises(NotFoundError, match="no instruction 'nope'"):
        module.instruction("nope")
    with pytest.raises(NotFoundError, match="no computation 'nope'"):
        module.computation("nope")
    with pytest.raises(NotFoundError, match="'main' has no instruction 'p'"):
        module.entry.instruction("p")
    proto = diamond()
    proto.computations[0].instructions[0].name = "a"
    assert HloModule.from_proto(proto).instruction("a").computation.name == "main"
    twin = copy.deepcopy(proto.computations[0])
    twin.id = 3
    proto.computations.append(twin)
    with pytest.raises(InvalidArgumentError, match="several instructions 'n'"):
        HloModule.from_proto(proto).instruction("n")


def test_garbage_and_truncated_bytes():
    data = diamond().SerializeToString()
    for cut in range(1, len(data)):
        with pytest.raises((DecodeError, InvalidModuleError)):
            HloModule.from_proto(data[:cut])
    for garbage in (b"\xff" * 50, b"hello world", bytes(100), b"\n\xff\xff\xff\xff\x0f"):
        with pytest.raises(DecodeError, match=r"not a xla\.HloModuleProto"):
            HloModule.from_proto(garbage)
    with pytest.raises(InvalidModuleError, match="no computations"):
        HloModule.from_proto(b"")


def test_shapes_nested_beyond_what_protobuf_decodes():
    shape = F32.SerializeToString()
    for _ in range(500):
        size = len(shape)
        shape = b"\x10\x0d\x22" + bytes(_varint(size)) + shape
    data = b"".join((b"\x1a", bytes(_varint(len(shape))), shape))
    with pytest.raises(DecodeError):
        HloModule.from_proto(b"\x1a" + bytes(_varint(len(data) + 2)) + b"\x12" + bytes(_varint(len(data))) + data)


def _varint(value):
    while value > 127:
        yield value & 127 | 128
        value >>= 7
    yield value


def test_a_long_chain_and_a_long_circle_need_no_stack():
    count = 50_000
    chain = [instruction(f"i{n}", n, [n - 1] if n else []) for n in range(count)]
    proto = xla.HloModuleProto(
        name="m", computations=[xla.HloComputationProto(name="e", root_id=count - 1, instructions=chain[::-1])]
    )
    module = HloModule.from_proto(proto)
    assert names(module.instruction("i7").users) == ["i8"]
    proto.computations[0].instructions[-1].operand_ids.append(count - 1)
    with pytest.raises(InvalidModuleError, match="is its own operand"):
        HloModule.from_proto(proto)


def test_load_finds_the_kind_out_from_the_content(tmp_path):
    proto = diamond()
    path = tmp_path / "anything.at.all"
    for value in (proto, xla.HloProto(hlo_module=proto)):
        path.write_bytes(value.SerializeToString())
        assert HloModule.load(path).to_proto() == proto
        assert HloModule.load(str(path)).to_proto() == proto
    path.write_bytes(proto.SerializeToString()[:40])
    with pytest.raises(DecodeError):
        HloModule.load(path)
    with pytest.raises(NotFoundError, match="there is no file"):
        HloModule.load(tmp_path / "missing")
    with pytest.raises(InvalidArgumentError, match="cannot read"):
        HloModule.load(tmp_path)
    with pytest.raises(InvalidArgumentError, match="not a path"):
        HloModule.load("a\0b")


@pytest.mark.parametrize("path", sorted(VECTORS.glob("*.pb.gz")), ids=lambda path: path.name)
def test_real_modules_hang_together(path):
    data = gzip.decompress(path.read_bytes())
    module = HloModule.from_proto(data)
    assert xla.HloModuleProto.FromString(data) == module.proto
    assert module.entry.name == module.proto.entry_computation_name
    for computation in module.computations:
        assert computation.root in computation.instructions
        assert [view.parameter_number for view in computation.parameters] == list(range(len(computation.parameters)))
        for view in computation.instructions:
            assert isinstance(view.opcode, Opcode)
            assert module.instruction(view.name) is view
            assert [operand.id for operand in view.operands] == list(view.proto.operand_ids)
            assert all(view in operand.users for operand in view.operands)
            assert all(view in user.operands for user in view.users)
            assert view.shape.to_proto() == view.proto.shape


def test_threads_that_ask_first_get_the_same_instructions() -> None:
    lines = "\n".join(f"  a{i} = f32[4] add({'p' if i == 0 else f'a{i - 1}'}, p)" for i in range(2000))
    text = f"HloModule m\n\nENTRY e {{\n  p = f32[4] parameter(0)\n{lines}\n  ROOT r = f32[4] negate(a1999)\n}}\n"
    data = HloModule.parse(text).to_proto()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(5):
            entry = HloModule.from_proto(data).entry
            barrier = threading.Barrier(4)

            def ask(entry: HloComputation = entry, barrier: threading.Barrier = barrier) -> tuple[HloInstruction, ...]:
                barrier.wait()
                return entry.instructions

            with ThreadPoolExecutor(4) as pool:
                found = [each.result() for each in [pool.submit(ask) for _ in range(4)]]
            assert all(each is found[0] for each in found)
    finally:
        sys.setswitchinterval(interval)
