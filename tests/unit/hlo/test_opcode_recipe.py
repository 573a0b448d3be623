"""One row is all that an opcode needs: a made-up opcode is read, completed, inferred, verified, written and
analysed."""

from collections.abc import Iterator
from typing import Any

import pytest

from xlashape.errors import ParseError
from xlashape.hlo import HloModule, Opcode, UnknownOpcode, verify
from xlashape.hlo.ops.attributes import CannotComplete, Written, optional, required
from xlashape.hlo.ops.calls import TO_APPLY
from xlashape.hlo.ops.exchange import ALL_TO_ALL
from xlashape.hlo.ops.inference import array
from xlashape.hlo.ops.operation import CannotInfer, Given, Operation, exactly
from xlashape.hlo.ops.registry import OPERATIONS, operation_of, register, unregister
from xlashape.hlo.ops.verification import check_one_call
from xlashape.hlo.values.attribute import FIELDS
from xlashape.hlo.values.plain import DIMENSIONS, LARGEST
from xlashape.indexing.reports.reads import executed_readers
from xlashape.indexing.walk.dependencies import dependencies, origin
from xlashape.proto import xla
from xlashape.shape import Shape

NAME = "blend"


def infer(given: Given) -> Shape:
    """The result has the first operand's shape without the dimensions that are named."""
    first, second = map(array, given.operands)
    if second != first:
        raise CannotInfer(f"operands {first} and {second} differ")
    kept = [size for dim, size in enumerate(first.dimensions) if dim not in given.message.dimensions]
    return Shape.array(first.element_type, kept)


def check(written: Written) -> None:
    if any(operand.is_tuple for operand in written.operands):
        raise CannotComplete("tuples cannot be blended")


@pytest.fixture
def blend() -> Iterator[Opcode]:
    """A member of Opcode and its row, for the time of a test."""
    member = str.__new__(Opcode, NAME)
    member._name_, member._value_ = NAME.upper(), NAME
    Opcode._member_map_[NAME.upper()] = member
    Opcode._value2member_map_[NAME] = member
    register(
        Operation(
            member,
            operands=exactly(2),
            attributes=(required(DIMENSIONS), optional(LARGEST, default=FIELDS.integer("largest", 1))),
            calls=TO_APPLY,
            check=check,
            infer=infer,
            verify_calls=lambda result: check_one_call(result.parameters),
        )
    )
    yield member
    unregister(NAME)
    del Opcode._member_map_[NAME.upper()], Opcode._value2member_map_[NAME]


TEXT = """HloModule m, entry_computation_layout={(f32[4,6]{1,0}, f32[4,6]{1,0})->f32[4]{0}}

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}

ENTRY %e (p: f32[4,6], q: f32[4,6]) -> f32[4] {
  %p = f32[4,6]{1,0} parameter(0)
  %q = f32[4,6]{1,0} parameter(1)
  ROOT %r = f32[4]{0} blend(%p, %q), dimensions={1}, largest=true, to_apply=%sum, metadata={op_name="x"}
}

"""


@pytest.mark.usefixtures("blend")
def test_text_is_read_completed_and_written():
    module = HloModule.parse(TEXT.replace(", largest=true", ""))
    root = module.entry.root
    assert root.opcode is Opcode("blend")
    assert (list(root.proto.dimensions), root.proto.largest) == ([1], True)
    assert [computation.name for computation in root.called_computations] == ["sum"]
    assert module.to_text() == TEXT
    assert HloModule.parse(module.to_text()).to_proto() == module.to_proto()


@pytest.mark.usefixtures("blend")
def test_bytes_are_written_back():
    data = HloModule.parse(TEXT).to_proto().SerializeToString(deterministic=True)
    assert HloModule.from_bytes(data).to_proto().SerializeToString(deterministic=True) == data
    assert HloModule.from_bytes(data).to_text() == TEXT


@pytest.mark.usefixtures("blend")
def test_a_shape_that_text_leaves_out_is_inferred():
    assert HloModule.parse(TEXT.replace("%r = f32[4]{0} blend", "%r = blend")).to_text() == TEXT


@pytest.mark.usefixtures("blend")
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("blend(%p, %q)", "blend(%p)", "blend takes 2 operands, found 1"),
        (", dimensions={1}", "", "blend needs the attribute dimensions"),
        (", to_apply=%sum", "", "blend needs the attribute to_apply"),
        ("largest=true", "kind=kLoop", "blend has no attribute kind; it may have backend_config,"),
    ],
)
def test_text_that_the_row_refuses_is_an_error(old, new, message):
    with pytest.raises(ParseError) as caught:
        HloModule.parse(TEXT.replace(old, new))
    assert caught.value.message.startswith(message)


@pytest.mark.usefixtures("blend")
def test_what_the_row_checks_and_cannot_infer_is_an_error():
    with pytest.raises(ParseError, match="tuples cannot be blended"):
        HloModule.parse(
            "s { ROOT a = f32[] parameter(0) } e { t = () tuple() ROOT r = f32[] blend(t, t), dimensions={}, "
            "to_apply=s }"
        )
    with pytest.raises(ParseError, match=r"blend: operands f32\[2\]\{0\} and f32\[3\]\{0\} differ"):
        HloModule.parse(
            "s { ROOT a = f32[] parameter(0) } e { p = f32[2] parameter(0) q = f32[3] parameter(1) "
            "ROOT r = blend(p, q), dimensions={}, to_apply=s }"
        )


@pytest.mark.usefixtures("blend")
def test_shapes_and_calls_are_verified():
    proto = HloModule.parse(TEXT).to_proto()
    assert verify(proto) == ()
    root = proto.computations[-1].instructions[-1]
    root.dimensions[0] = 0
    assert [str(problem) for problem in verify(proto)] == [
        "computation 'e': instruction 'r': its shape is f32[4]{0}, its operands give f32[6]{0}"
    ]
    root.dimensions[0] = 1
    root.called_computation_ids.append(root.called_computation_ids[0])
    assert [problem.message for problem in verify(proto)] == ["calls 2 computations, not one"]


@pytest.mark.usefixtures("blend")
def test_the_asynchronous_form_follows_from_the_row():
    text = TEXT.replace(
        'ROOT %r = f32[4]{0} blend(%p, %q), dimensions={1}, largest=true, to_apply=%sum, metadata={op_name="x"}',
        "%s = ((f32[4,6]{1,0}, f32[4,6]{1,0}), f32[4]{0}) blend-start(%p, %q), dimensions={1}, largest=true, "
        "to_apply=%sum\n"
        "  ROOT %r = f32[4]{0} blend-done(%s)",
    )
    assert HloModule.parse(text).to_text() == text


def test_analyses_see_the_flags_of_a_row(blend):
    def module_with(**flags: Any) -> HloModule:
        unregister(NAME)
        register(Operation(blend, operands=exactly(1), **flags))
        return HloModule.parse(
            "HloModule m ENTRY e { p = f32[4] parameter(0) t = (f32[4]) tuple(p) b = (f32[4]) blend(t) "
            "ROOT g = f32[4] get-tuple-element(b), index=0 }"
        )

    module = module_with()
    assert [instruction.name for instruction in executed_readers(module)] == ["b"]
    assert origin(module.entry.root, 0)[0].name == "b"
    assert not dependencies(module.entry, {}).contents.exchanges
    assert executed_readers(module_with(moves_no_data=True)) == []
    assert origin(module_with(passes_first_operand_through=True).entry.root, 0)[0].name == "p"
    assert dependencies(module_with(exchange=ALL_TO_ALL).entry, {}).contents.exchanges


def test_an_opcode_without_a_row_is_unknown():
    """What the recipe's fixture takes away again: text with the opcode is refused, a proto is kept and named as
    unknown."""
    assert NAME not in OPERATIONS
    with pytest.raises(ParseError, match="unknown opcode 'blend'"):
        HloModule.parse(TEXT)
    assert isinstance(operation_of(NAME).opcode, UnknownOpcode)


def unknown() -> xla.HloModuleProto:
    proto = HloModule.parse(
        TEXT.replace("blend(%p, %q), dimensions={1}, largest=true", "reduce(%p, %q), dimensions={1}")
    ).to_proto()
    root = proto.computations[-1].instructions[-1]
    root.opcode = NAME
    root.sharding.type = xla.OpSharding.REPLICATED
    return proto


def test_a_proto_with_an_unknown_opcode_is_kept():
    """It loads, is named as unknown, is one problem, is written as far as its fields mean the same for every opcode,
    and keeps its bytes."""
    proto = unknown()
    data = proto.SerializeToString(deterministic=True)
    module = HloModule.from_bytes(data)
    assert module.entry.root.opcode == UnknownOpcode(NAME)
    assert repr(module.entry.root.opcode) == "UnknownOpcode('blend')"
    assert [str(problem) for problem in verify(module)] == [
        "computation 'e': instruction 'r': has the unknown opcode 'blend'"
    ]
    assert (
        '  ROOT %r = f32[4]{0} blend(%p, %q), calls=%sum, sharding={replicated}, metadata={op_name="x"}\n'
        in module.to_text()
    )
    assert module.to_proto().SerializeToString(deterministic=True) == data
