"""The parser's parts on their own: unique names, the order of instructions, the wire format, inferred shapes,
strings."""

import pytest

from xlashape.errors import ParseError
from xlashape.hlo import HloModule
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import CannotInfer, Given
from xlashape.hlo.ops.registry import OPERATIONS, operation_of
from xlashape.hlo.text.reader.module import UniqueNames
from xlashape.hlo.tokens import HloCursor
from xlashape.proto import xla
from xlashape.proto.wire import Fields
from xlashape.shape import Shape


def test_unique_names():
    names = UniqueNames()
    given = [
        "x.1",
        "x.01",
        "x",
        "x.10",
        "x",
        "y",
        "y.0",
        "z.",
        "z.",
        "w.-1",
        "w.-1",
        "v.99999999999999999999",
        "v.99999999999999999999",
    ]
    assert [names.take(name) for name in given] == [
        "x.1",
        "x.0",
        "x.2",
        "x.10",
        "x.3",
        "y",
        "y.1",
        "z.",
        "z..1",
        "w.-1",
        "w.0",
        "v.99999999999999999999",
        "v.99999999999999999999.1",
    ]


def test_the_wire_format_is_protobufs():
    fields = Fields(xla.HloInstructionProto)
    for value in (1, 127, 128, 300, 1 << 32, (1 << 63) - 1, -1, -(1 << 63)):
        message = xla.HloInstructionProto.FromString(
            fields.integer("id", value) + fields.integers("operand_ids", [value, 0])
        )
        assert message.id == value
        assert list(message.operand_ids) == [value, 0]


def test_every_opcode_has_a_row():
    assert set(OPERATIONS) == {opcode.value for opcode in Opcode}
    for row in OPERATIONS.values():
        assert set(row.readable) >= set(row.required)


@pytest.mark.parametrize(
    ("opcode", "operands", "expected"),
    [
        ("add", ["f32[2,3]{0,1}", "f32[2,3]"], "f32[2,3]{0,1}"),
        ("add", ["f32[]", "f32[2,3]"], "f32[2,3]{1,0}"),
        ("add", ["bf16[2]", "f32[2]"], "f32[2]{0}"),
        ("abs", ["c64[2]"], "f32[2]{0}"),
        ("compare", ["f32[2,1]", "f32[2,3]"], "pred[2,3]{1,0}"),
        ("tuple", ["f32[2]", "()"], "(f32[2]{0}, ())"),
        ("add", ["f32[2]", "f32[3]"], "add: operands f32[2]{0} and f32[3]{0} have different sizes"),
        ("tanh", ["s32[2]"], "tanh: its operand must be floating or complex, found s32[2]{0}"),
        ("reshape", ["s32[2]"], "the shape of reshape must be written"),
    ],
)
def test_inferred_shapes(opcode, operands, expected):
    shapes = [Shape.parse(text) for text in operands]
    try:
        found = str(operation_of(opcode).infer_shape(Given(xla.HloInstructionProto(opcode=opcode), shapes)))
    except CannotInfer as error:
        found = str(error)
    assert found == expected


def test_strings_and_their_escapes():
    def content(text):
        cursor = HloCursor(text)
        found = cursor.parse_string()
        cursor.expect_end()
        return found

    assert content(r'"a\n\t\"\\\x41\101\?"') == b'a\n\t"\\AA?'
    assert content("'it''"[:-1]) == b"it"
    assert content('"' + r"\\" * 5000 + '"') == b"\\" * 5000
    assert content('"a\nb"') == b"a\nb"
    for wrong in (r'"\q"', r'"\400"', r'"\x100"', '"', '"\\"', "'a\"", r'"\x"'):
        with pytest.raises(ParseError):
            content(wrong)


def test_rows_of_the_tables_count_by_where_they_stand():
    text = """HloModule m
FileNames
-7 "b.py"
7 "a.py"
FunctionNames
0 "f"
FileLocations
3 {file_name_id=1 function_name_id=1 line=4 end_line=4 column=1 end_column=2}
3 {file_name_id=9 function_name_id=1 line=5 end_line=5 column=1 end_column=2}
StackFrames
2 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
1 {file_location_id=1 parent_frame_id=5}
5 {file_location_id=1 parent_frame_id=5}
ENTRY e {
  a = f32[] parameter(0), metadata={stack_frame_id=2}
  b = f32[] negate(a), metadata={stack_frame_id=3}
  c = f32[] negate(b), metadata={stack_frame_id=4}
  ROOT d = f32[] negate(c), metadata={stack_frame_id=1}
}
"""
    module = HloModule.parse(text).proto
    assert [one.metadata.stack_frame_id for one in module.computations[0].instructions] == [0, 0, 0, 1]
    assert list(module.stack_frame_index.file_names) == ["b.py"]
    assert len(module.stack_frame_index.stack_frames) == 1


@pytest.mark.parametrize(
    ("written", "flags"), [("true", (True,)), ("false", (False,)), ("{true,false}", (True, False))]
)
def test_a_flag_alone_needs_no_braces(written, flags):
    for side in ("parameters", "output"):
        name = f"allow_spmd_sharding_propagation_to_{side}"
        text = f"HloModule m, {name}={written}\nENTRY e {{ ROOT c = f32[] constant(1) }}"
        assert getattr(HloModule.parse(text).config, name) == flags
