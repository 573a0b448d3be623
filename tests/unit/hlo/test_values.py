"""Attribute values that are written and read back: numbers without a name, unknown opcodes, aliasing of asynchronous
operations."""

import pytest

from xlashape.errors import InvalidModuleError, ParseError
from xlashape.hlo import HloModule
from xlashape.hlo.tokens import HloCursor
from xlashape.hlo.values.enums import EnumWords
from xlashape.proto import xla

# The line of an instruction, and the field that its number 77 is in.
ENUMS = {
    "fft_type": ("c64[8] fft(c), fft_type=unknown_77, fft_length={8}", "fft_type"),
    "distribution": ("f32[8] rng(s, s), distribution=unknown_77", "distribution"),
    "rng_algorithm": ("(u64[2], u32[8]) rng-bit-generator(u), algorithm=unknown_77", "rng_algorithm"),
    "padding_type": ('f32[8] custom-call(f), padding_type=unknown_77, custom_call_target="t"', "padding_type"),
    "schedule": ('f32[8] custom-call(f), custom_call_target="t", schedule=unknown_77', "custom_call_schedule"),
    "api_version": ('f32[8] custom-call(f), custom_call_target="t", api_version=unknown_77', "custom_call_api_version"),
    "convolution_kind": (
        "f32[1,8,1] convolution(v, w), window={size=1}, dim_labels=b0f_0io->b0f, convolution_kind=unknown_77",
        "conv_kind",
    ),
    "operand_precision": (
        "f32[] dot(f, f), lhs_contracting_dims={0}, rhs_contracting_dims={0}, operand_precision={default,unknown_77}",
        "precision_config.operand_precision",
    ),
    "dot_algorithm": (
        "f32[] dot(f, f), lhs_contracting_dims={0}, rhs_contracting_dims={0}, algorithm=unknown_77",
        "precision_config.algorithm",
    ),
    "result_accuracy": ("f32[8] tanh(f), result_accuracy={mode=unknown_77}", "result_accuracy.mode"),
    "transpose_a": (
        "f32[2,2] triangular-solve(m, m), left_side=true, transpose_a=unknown_77",
        "triangular_solve_options.transpose_a",
    ),
    "is_associative": (
        "(f32[8], f32[]) scan(f, s), dimensions={0}, num_carries=1, is_associative=unknown_77, to_apply=step",
        "is_associative",
    ),
    "sharding": ("f32[8] negate(f), sharding={unknown_77}", "sharding.type"),
    "subgroup": (
        "f32[8] negate(f), sharding={devices=[2,2]<=[4] last_tile_dims={unknown_77}}",
        "sharding.last_tile_dims",
    ),
}

MODULE = """HloModule m{head}

step {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] add(a, b)
  ROOT t = (f32[], f32[]) tuple(c, c)
}}

ENTRY e {{
  f = f32[8] parameter(0)
  c = c64[8] parameter(1)
  s = f32[] parameter(2)
  u = u64[2] parameter(3)
  v = f32[1,8,1] parameter(4)
  w = f32[1,1,1] parameter(5)
  m = f32[2,2] parameter(6)
  ROOT r = {line}
}}
"""


def root(module: HloModule) -> xla.HloInstructionProto:
    return module.proto.computations[-1].instructions[-1]


@pytest.mark.parametrize("name", ENUMS)
def test_a_number_without_a_name_is_written_as_unknown_and_read_back(name):
    line, path = ENUMS[name]
    module = HloModule.parse(MODULE.format(head="", line=line))
    value: object = root(module)
    for field in path.split("."):
        value = getattr(value, field)
    assert value == 77 or 77 in value
    written = module.to_text()
    assert "unknown_77" in next(text for text in written.splitlines() if "ROOT %r = " in text)
    again = HloModule.parse(written)
    assert again.to_text() == written
    roots = root(again), root(module)
    for each in roots:
        each.ClearField("operand_ids")  # parameters are numbered in the order of the walk
    assert roots[0] == roots[1]


def test_a_kind_of_aliasing_without_a_name_is_written_and_read_back():
    head = ", input_output_alias={ {}: (0, {}, unknown_9) }"
    module = HloModule.parse(MODULE.format(head=head, line="f32[8] negate(f)"))
    assert module.proto.input_output_alias.entries[0].kind == 9
    written = module.to_text()
    assert "input_output_alias={ {}: (0, {}, unknown_9) }" in written
    assert HloModule.parse(written).proto.input_output_alias == module.proto.input_output_alias


def test_words_for_numbers():
    words = EnumWords([("a", 0), ("b", 1)], "a letter")
    assert [words.text(number) for number in (0, 1, 2, -1)] == ["a", "b", "unknown_2", "unknown_-1"]
    assert [words.parse(HloCursor(text)) for text in ("b", "unknown_2", "UNKNOWN_-1")] == [1, 2, -1]
    for wrong in ("c", "unknown_", "unknown_1x", "unknown"):
        with pytest.raises(ParseError, match="expected a letter"):
            words.parse(HloCursor(wrong))
    with pytest.raises(ParseError, match="does not fit int32"):
        words.parse(HloCursor("unknown_3000000000"))


def module_of(*instructions: xla.HloInstructionProto) -> HloModule:
    shape = xla.ShapeProto(element_type=xla.F32)
    computation = xla.HloComputationProto(
        name="e", instructions=[xla.HloInstructionProto(name="p", opcode="parameter", shape=shape), *instructions]
    )
    for number, instruction in enumerate(computation.instructions):
        instruction.id = number
        instruction.shape.CopyFrom(shape)
    return HloModule(xla.HloModuleProto(name="m", computations=[computation]))


def test_an_unknown_opcode_is_written_with_all_that_any_instruction_has():
    made = xla.HloInstructionProto(
        name="x", opcode="no-such-yet", operand_ids=[0], sharding={"type": xla.OpSharding.MANUAL}, backend_config=b"b"
    )
    made.metadata.op_name = "n"
    text = module_of(made).to_text()
    assert '%x = f32[] no-such-yet(%p), sharding={manual}, metadata={op_name="n"}, backend_config="b"' in text
    made.opcode = "no such(yet"
    with pytest.raises(InvalidModuleError, match=r"'no such\(yet' is not the name of an opcode"):
        module_of(made).to_text()


def test_unknown_words_are_written_as_they_are():
    compare = xla.HloInstructionProto(
        name="c", opcode="compare", operand_ids=[0, 0], comparison_direction="XX", comparison_type="YY"
    )
    fusion = xla.HloInstructionProto(name="f", opcode="fusion", operand_ids=[0], fusion_kind="kNew")
    text = module_of(compare, fusion).to_text()
    assert "compare(%p, %p), direction=XX, order=YY" in text
    assert "fusion(%p), kind=kNew" in text


ASYNC = """HloModule m

w {
  a = f32[4]{0} parameter(0)
  b = f32[4]{0} negate(a)
  ROOT n = f32[4]{0} negate(b)
}

ENTRY e {
  p = f32[4]{0} parameter(0)
  s = ((f32[4]{0}), f32[4]{0}, u32[]) async-start(p), async_execution_thread="t", output_to_operand_aliasing={{1}: (0, {})}, calls=w
  ROOT d = f32[4]{0} async-done(s)
}
"""


def test_the_aliasing_of_an_async_start_is_written():
    module = HloModule.parse(ASYNC)
    line = next(line for line in module.to_text().splitlines() if "async-start" in line)
    # What jaxlib 0.10.2 writes.
    assert line.endswith(
        'async-start(%p), async_execution_thread="t", output_to_operand_aliasing={{1}: (0, {})}, calls=%w'
    )
    assert HloModule.parse(module.to_text()).to_proto() == module.to_proto()


def test_the_aliasing_of_a_start_that_is_written_as_what_it_wraps():
    module = HloModule.parse(ASYNC.replace("  b = f32[4]{0} negate(a)\n", "").replace("negate(b)", "negate(a)"))
    line = next(line for line in module.to_text().splitlines() if "-start" in line)
    # What jaxlib 0.10.2 writes.
    assert line.endswith('negate-start(%p), async_execution_thread="t", output_to_operand_aliasing={{1}: (0, {})}')
    assert HloModule.parse(module.to_text()).to_text() == module.to_text()


@pytest.mark.parametrize(
    ("operation", "owner"),
    [
        ("negate-start(p)", "async-start"),
        ('custom-call-start(p), custom_call_target="t"', "custom-call"),
    ],
)
def test_the_aliasing_of_a_start_is_the_wrapped_operations_where_that_may_have_it(operation, owner):
    wrapped = operation.partition("-start")[0]
    module = HloModule.parse(
        "HloModule m ENTRY e { p = f32[4]{0} parameter(0) s = ((f32[4]{0}), f32[4]{0}, u32[]) "
        f"{operation}, output_to_operand_aliasing={{{{1}}: (0, {{}})}} ROOT d = f32[4]{{0}} {wrapped}-done(s) }}"
    )
    owners = [
        instruction.opcode
        for computation in module.computations
        for instruction in computation.instructions
        if instruction.proto.output_operand_aliasing
    ]
    # What jaxlib 0.10.2 reads.
    assert owners == [owner]
    assert HloModule.parse(module.to_text()).to_text() == module.to_text()


@pytest.mark.parametrize("labels", ["b0?f_0io->b0f", "b?0f_0io->b0f", "b0f_0io->?b0f"])
def test_a_dimension_of_a_convolution_without_a_label_is_written_as_jaxlib_writes_it(labels):
    ranks = [len(side) for side in labels.replace("->", "_").split("_")]
    lhs, rhs, result = (f"f32[{','.join('1' * rank)}]" for rank in ranks)
    line = f"{result} convolution(v, w), window={{size=1}}, dim_labels={labels}"
    text = (
        MODULE.format(head="", line=line)
        .replace("v = f32[1,8,1]", f"v = {lhs}")
        .replace("w = f32[1,1,1]", f"w = {rhs}")
    )
    assert f"dim_labels={labels}" in HloModule.parse(text).to_text()


def test_two_labels_of_one_dimension_of_a_convolution_are_an_error():
    numbers = {"input_batch_dimension": 1, "input_feature_dimension": 1}
    made = xla.HloInstructionProto(
        name="c", opcode="convolution", operand_ids=[0, 0], convolution_dimension_numbers=numbers
    )
    with pytest.raises(InvalidModuleError, match="not a permutation: 'f' is dimension 1"):
        module_of(made).to_text()
