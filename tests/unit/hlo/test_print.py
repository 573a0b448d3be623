"""The printer against XLA's own text: tests/vectors/hlo_print.jsonl holds protos and what XLA prints of them."""

import base64
import gzip
import json
import pickle
from pathlib import Path

import pytest
from jaxlib_versions import Jaxlib

from xlashape.errors import InvalidArgumentError, InvalidModuleError, LimitExceededError, XlashapeError
from xlashape.hlo import HloModule, Opcode
from xlashape.hlo.text.writer.printed_module import PrintOptions
from xlashape.proto import xla

VECTORS = Path(__file__).resolve().parents[2] / "vectors"

# What the names of option sets in the vectors stand for, where it is not a style of XLA's.
CHANGES = {
    "large": {"print_large_constants": True},
    "opshape": {"print_operand_shape": True},
    "nolayout": {"include_layout_in_shapes": False, "print_percent": False, "compact_operands": True},
    "nometa": {"print_metadata": False, "print_backend_config": False, "print_extra_attributes": False},
    "indent": {"indent_amount": 2, "print_ids": False},
    "nested": {"is_in_nested_computation": True, "print_result_shape": False},
    "noshape": {"print_operand_names": False, "print_program_shape": False, "print_control_dependencies": False},
    "canonidx": {"canonicalize_instruction_names": True},
}


def rows() -> list[dict]:
    with (VECTORS / "hlo_print.jsonl").open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def printed(module: HloModule, name: str) -> str:
    return module.to_text(**CHANGES[name]) if name in CHANGES else module.to_text(name)


def test_every_vector_prints_as_xla_prints_it():
    wrong, count = [], 0
    for row in rows():
        module = HloModule.from_proto(base64.b64decode(row["proto"]))
        for name, expected in row["prints"].items():
            count += 1
            if printed(module, name) != expected:
                wrong.append((row["name"], name))
    assert count > 900
    assert not wrong


# XLA's text of these is not recorded.
WITHOUT_VECTOR = {"collective-reduce", "exp2", "log2", "mulhi", "shuffle"}


def test_every_opcode_is_in_a_vector_or_listed():
    printed = {instruction.opcode for row in rows() for instruction in instructions_of(row)}
    missing = {str(opcode) for opcode in Opcode} - printed
    assert missing == WITHOUT_VECTOR, "record what XLA prints of these in tests/vectors/hlo_print.jsonl, or list them"


def instructions_of(row: dict) -> list:
    proto = xla.HloModuleProto.FromString(base64.b64decode(row["proto"]))
    return [instruction for computation in proto.computations for instruction in computation.instructions]


def test_modules_of_bytes_and_of_a_message_print_alike():
    for row in rows()[::25]:
        data = base64.b64decode(row["proto"])
        module = HloModule.from_proto(data)
        again = HloModule.from_proto(xla.HloModuleProto.FromString(data))
        assert module.to_text() == again.to_text()
        assert module.to_text(style="canonical") == module.to_text("canonical") == again.to_text("canonical")


def test_printing_leaves_the_module_as_it_is():
    for row in rows()[::25]:
        module = HloModule.from_proto(base64.b64decode(row["proto"]))
        before = module.proto.SerializeToString(deterministic=True)
        module.to_text("canonical")
        assert module.proto.SerializeToString(deterministic=True) == before


def test_jax_programs_print_as_jaxlib_prints_them_where_it_is_installed():
    jaxlib = Jaxlib()
    for row in rows()[::10]:
        data = base64.b64decode(row["proto"])
        text = HloModule.from_proto(data).to_text()
        if jaxlib.differs(text):
            continue
        try:
            module = jaxlib.hlo.HloModule.from_serialized_hlo_module_proto(data)
        except Exception:  # another version of jaxlib may refuse what this one took
            continue
        if not jaxlib.differs(module.to_string()):
            assert text == module.to_string()


def test_a_text_that_was_read_and_printed_twice_stays():
    """XLA numbers computations and stack frames as it reads them, so the first texts may change."""
    changed = 0
    for path in sorted([*(VECTORS / "hlo").glob("*.pb.gz"), *(VECTORS / "versions").glob("*.pb.gz")]):
        first = HloModule.from_bytes(gzip.decompress(path.read_bytes())).to_text()
        if "{...}" in first or len(first) > 20_000:  # values are left out; large ones take long
            continue
        second = HloModule.parse(first).to_text()
        third = HloModule.parse(second).to_text()
        changed += second != first
        assert HloModule.parse(third).to_text() == third, path.name
    assert changed > 10


def module(*instructions: xla.HloInstructionProto, **fields: object) -> xla.HloModuleProto:
    computation = xla.HloComputationProto(name="e", instructions=instructions, root_id=len(instructions) - 1)
    for number, each in enumerate(computation.instructions):
        each.id = number
        if not each.HasField("shape"):
            each.shape.element_type = xla.F32
    return xla.HloModuleProto(name="m", computations=[computation], **fields)


def instruction(opcode: str, *operands: int, **fields: object) -> xla.HloInstructionProto:
    return xla.HloInstructionProto(name=opcode.replace("-", "_"), opcode=opcode, operand_ids=operands, **fields)


P = instruction("parameter")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (
            module(instruction("no such")),
            "computation 'e': instruction 'no such': 'no such' is not the name of an opcode",
        ),
        (module(P, instruction("negate", 7)), "instruction 'negate' has as operand 0 the id 7, which is not in"),
        (
            module(P, instruction("call", 0, called_computation_ids=[9])),
            "instruction 'call' calls a computation of id 9, which is not in the module",
        ),
        (
            module(
                P, instruction("copy", 0, sharding={"type": xla.OpSharding.OTHER, "tile_assignment_dimensions": [4]})
            ),
            "0 devices do not fill tiles of [4]",
        ),
        (
            module(
                P,
                instruction(
                    "copy",
                    0,
                    sharding={
                        "type": xla.OpSharding.OTHER,
                        "tile_assignment_dimensions": [2, 2],
                        "last_tile_dims": [xla.OpSharding.REPLICATED, xla.OpSharding.MANUAL],
                        "iota_reshape_dims": [3],
                        "iota_transpose_perm": [0],
                    },
                ),
            ),
            "3 devices do not fill tiles of [2, 2]",
        ),
        (
            module(P, instruction("convolution", 0, 0, convolution_dimension_numbers={"input_batch_dimension": 5})),
            "not a permutation",
        ),
        (module(instruction("constant", literal={"shape": {"element_type": xla.F32}})), "holds 0 elements, not 1"),
        (module(P, instruction("copy", 0, metadata={"metadata_payload": {"id": 3}})), "there is no payload 3"),
        (module(P, instruction("copy", 0, shape={"element_type": xla.F32, "dimensions": [-1]})), "instruction 'copy'"),
        (module(P, schedule={"sequences": {0: {"instruction_ids": [0, 0]}}}), "its schedule is not an order"),
    ],
)
def test_a_broken_module_is_one_clear_error(broken, message):
    with pytest.raises(InvalidModuleError, match=message.replace("[", r"\[").replace("]", r"\]")):
        HloModule(broken).to_text()


def test_unknown_styles_and_options_are_refused():
    with pytest.raises(InvalidArgumentError, match="'pretty' is not a print style; there are default, short_parsable"):
        HloModule(module(P)).to_text("pretty")
    with pytest.raises(InvalidArgumentError, match="'print_colour' is not a print option"):
        HloModule(module(P)).to_text(print_colour=True)
    with pytest.raises(InvalidArgumentError, match="expected a xla.HloModuleProto"):
        HloModule.from_proto(xla.ShapeProto())


def test_options_are_values():
    options = PrintOptions.of("short_parsable", print_metadata=True)
    assert options == PrintOptions.of(PrintOptions.named("short_parsable"), print_metadata=True)
    assert pickle.loads(pickle.dumps(options)) == options
    made = HloModule(module(P))
    assert made.to_text(options) == made.to_text("short_parsable", print_metadata=True)


def test_bodies_within_bodies_end(monkeypatch):
    """A chain of computations that each call the one before twice has 2^n bodies; a long chain has as many levels."""
    with pytest.raises(LimitExceededError, match="more than 100 levels deep"):
        chain_of_calls(150, each=1).to_text("canonical")
    monkeypatch.setattr("xlashape.hlo.text.writer.module._MAX_BODIES", 1 << 10)
    module = chain_of_calls(40, each=2)
    with pytest.raises(LimitExceededError, match="bodies within bodies"):
        module.to_text("canonical")
    assert "to_apply=%c38" in module.to_text()


def chain_of_calls(count: int, *, each: int) -> HloModule:
    computations = [
        xla.HloComputationProto(name="c0", id=0, instructions=[xla.HloInstructionProto(name="p", opcode="parameter")])
    ]
    for number in range(1, count):
        calls = [
            xla.HloInstructionProto(name=f"x{i}", opcode="call", id=i, called_computation_ids=[number - 1])
            for i in range(each)
        ]
        computations.append(xla.HloComputationProto(name=f"c{number}", id=number, root_id=each - 1, instructions=calls))
    proto = xla.HloModuleProto(computations=computations, entry_computation_id=count - 1)
    for computation in proto.computations:
        for instruction in computation.instructions:
            instruction.shape.element_type = xla.F32
    return HloModule(proto)


def test_circles_of_operands_and_predecessors_are_refused():
    proto = module(P, instruction("add", 1, 2), instruction("negate", 1, control_predecessor_ids=[1]))
    with pytest.raises(InvalidModuleError, match="instruction 'add' is its own operand"):
        HloModule(proto)


def test_hostile_names_stay_text():
    proto = module(instruction("parameter", frontend_attributes={"map": {"k": 'a"\n\0'}}))
    proto.name = "a\n}\0é"
    proto.computations[0].instructions[0].name = 'x" = {'
    text = HloModule(proto).to_text()
    assert text.startswith("HloModule a_____, entry")
    assert '%x_____ = f32[] parameter(0), frontend_attributes={k="a\\"\\n\\000"}' in text


def test_truncated_and_random_bytes_are_errors_or_text():
    data = base64.b64decode(rows()[40]["proto"])
    for end in range(0, len(data), 7):
        for cut in (data[:end], data[:end] + b"\xff" + data[end + 1 :]):
            try:
                text = HloModule.from_proto(cut).to_text()
            except XlashapeError:
                continue
            assert text.startswith("HloModule ")


def test_an_inferred_dimension_of_a_reshape_is_shown():
    text = "HloModule m\n\nENTRY e {\n  p = f32[4,8] parameter(0)\n  ROOT r = f32[32] reshape(p), inferred_dimension=0\n}\n"
    assert "ROOT %r = f32[32]{0} reshape(%p), inferred_dimension=0\n" in HloModule.parse(text).to_text()


@pytest.mark.parametrize(
    "body", ["ROOT a = f32[4] parameter(0)", "ROOT a = f32[4] parameter(0)\n  b = f32[4] parameter(1)"]
)
def test_an_asynchronous_parameter_is_written_as_one_too(body):
    count = body.count("parameter")
    operands = ", ".join(["p"] * count)
    shapes = ", ".join(["f32[4]"] * count)
    text = f"""HloModule m
wrapped {{
  {body}
}}
ENTRY e {{
  p = f32[4] parameter(0)
  ROOT s = (({shapes}), f32[4], u32[]) async-start({operands}), calls=wrapped
}}
"""
    printed = HloModule.parse(text).to_text()
    assert " parameter-start(%p" in printed
    assert "wrapped" not in printed


@pytest.mark.parametrize(
    ("start", "wrapped", "shown"),
    [
        ({"k": "v"}, {"k": "w"}, 'frontend_attributes={k="v"}'),
        ({}, {"k": "w"}, 'frontend_attributes={k="w"}'),
        ({"k": "v"}, {}, 'frontend_attributes={k="v"}'),
    ],
)
def test_frontend_attributes_of_a_start_stand_for_those_of_what_it_wraps(start, wrapped, shown):
    text = """HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  s = ((f32[4]), f32[4], u32[]) negate-start(p)
  ROOT d = f32[4] negate-done(s)
}
"""
    proto = HloModule.parse(text).proto
    for computation in proto.computations:
        for each in computation.instructions:
            if each.opcode == "async-start":
                each.frontend_attributes.map.update(start)
            if each.opcode == "negate":
                each.frontend_attributes.map.update(wrapped)
    line = next(line for line in HloModule(proto).to_text().splitlines() if "negate-start" in line)
    assert line.endswith(f"negate-start(%p), {shown}")


@pytest.mark.parametrize(("values", "shown"), [("false", False), ("true", True), ("false,false", True)])
def test_a_lone_false_of_propagation_is_its_default(values, shown):
    attribute = f", allow_spmd_sharding_propagation_to_parameters={{{values}}}"
    text = f"HloModule m{attribute}\n\nENTRY e {{\n  ROOT p = f32[] parameter(0)\n}}\n"
    assert (attribute in HloModule.parse(text).to_text()) is shown


XLA_COMPACT = """HloModule gtes, entry_computation_layout={(f32[4]{0}, s32[2]{0})->(f32[4]{0}, s32[2]{0})}

ENTRY %main.1 (Arg_0.1: f32[4], Arg_1.1: s32[2]) -> (f32[4], s32[2]) {
  %Arg_0.1 = f32[4]{0} parameter(0)
  %Arg_1.1 = s32[2]{0} parameter(1)
  %custom-call.2 = (f32[4]{0}, (f32[4]{0}, s32[2]{0})) custom-call(%Arg_0.1, %Arg_1.1), custom_call_target="foo"
  %custom-call.3 = (f32[4]{0}, s32[2]{0}) custom-call(%custom-call.2#1), custom_call_target="bar", custom_call_has_side_effect=true
  %add.1 = f32[4]{0} add(%custom-call.2#0, %custom-call.2#1#0)
  ROOT %tuple.1 = (f32[4]{0}, s32[2]{0}) tuple(%add.1, %custom-call.2#1#1)
}

"""
"""What XLA 0.12 dumps with --xla_dump_compact_gte, without metadata."""


def test_elements_of_tuples_are_written_as_xla_dumps_them_with_compact_gte():
    module = HloModule.parse(XLA_COMPACT)
    assert module.to_text(compact_get_tuple_elements=True) == XLA_COMPACT
    written_out = module.to_text()
    assert "#" not in written_out
    assert written_out.count("get-tuple-element(") == 4
    assert HloModule.parse(written_out).to_text(compact_get_tuple_elements=True) == XLA_COMPACT


def test_elements_that_are_named_otherwise_keep_their_lines():
    text = """HloModule m
ENTRY e {
  p = (f32[4], (f32[4], s32[2])) parameter(0)
  a = f32[4] get-tuple-element(p), index=0
  n = f32[4] negate(a), control-predecessors={a}
  b = (f32[4], s32[2]) get-tuple-element(p), index=1, control-predecessors={n}
  ROOT c = f32[4] get-tuple-element(b), index=0
}
"""
    module = HloModule.parse(text)
    assert module.to_text(compact_get_tuple_elements=True) == module.to_text()
