"""Errors of HLO text: their positions, what was expected, several at once. Hostile text raises an error, too."""

import gzip
import re
import time

import pytest

from xlashape.base.text import Source
from xlashape.errors import DeadlineExceededError, InvalidArgumentError, LimitExceededError, ParseError
from xlashape.hlo import HloModule, ModuleConfig
from xlashape.hlo.files.convert import decode_text
from xlashape.limits import budget

HEAD = "HloModule m\n\nENTRY e {\n  p0 = f32[2] parameter(0)\n"


def error(line, source=None):
    with pytest.raises(ParseError) as caught:
        HloModule.parse(Source(f"{HEAD}{line}\n}}\n", source))
    return caught.value


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("  a = f32[2] negate(q)", 21, "no instruction 'q' is defined before this"),
        ("  a = f32[2] negate(a)", 21, "no instruction 'a' is defined before this"),
        ("  a = f32[2] frobnicate(p0)", 14, "unknown opcode 'frobnicate'"),
        ("  a = f32[2] add(p0)", 14, "add takes 2 operands, found 1"),
        ("  a = f33[2] negate(p0)", 7, "'f33' is not an element type"),
        (
            "  a = (f32[2]{0:#(u8)}) tuple(p0)",
            7,
            "the layout of an array in a tuple has no type of indices or pointers",
        ),
        ("  a = f32[2 negate(p0)", 13, "expected ',' or ']' of the dimensions"),
        ("  a = f32[2] negate(f32[3] p0)", 21, "operand 'p0' has shape f32[2], not f32[3]"),
        ("  p0 = f32[2] negate(p0)", 3, "instruction 'p0' is already defined in this computation"),
        ("  a = f32[2] parameter(0)", 14, "parameter 0 is already defined in this computation"),
        (
            "  a = f32[2] negate(p0), dimensions={0}",
            26,
            "negate has no attribute dimensions; it may have backend_config",
        ),
        ('  a = f32[2] negate(p0), metadata={op_nam="x"}', 36, "metadata has no 'op_nam'; it has deduplicated_name"),
        ("  a = f32[2] transpose(p0)", 27, "transpose needs the attribute dimensions"),
        ("  a = f32[2] negate(p0), sharding={replicatd}", 36, "expected a kind of sharding, found 'replicatd'"),
        ("  a = f32[2] negate(p0), sharding={manual}, sharding={manual}", 45, "attribute sharding is given twice"),
        ("  a = f32[2] call(p0), to_apply=g", 33, "no computation 'g' is defined before this"),
        (
            "  a = f32[] compare(p0, p0), direction=LESS",
            40,
            "expected a direction of comparison (EQ, GE, GT, LE, LT, NE)",
        ),
        ("  a = f32[2] slice(p0), slice={[0:2:1}", 38, "expected ']', found '}'"),
        ("  f32 = f32[2] negate(p0)", 3, "'f32' cannot be a name"),
        ("  a = f32[2] constant({1, 2, 3})", 30, "expected 2 elements in this dimension, found more"),
        ("  a = (f32[2]) tuple(p0, p0)", 16, "a tuple of 1 elements needs as many operands, found 2"),
        ('  a = f32[2] negate(p0), backend_config="x', 41, "this string is never closed"),
    ],
)
def test_an_error_has_the_position_of_the_mistake(line, column, message):
    found = error(line)
    assert (found.line, found.message[: len(message)]) == (
        5,
        message,
    ) or message == "'f32' cannot be a name"
    assert found.message.startswith(message)
    assert (found.line, found.column) == (5, column)
    shown = str(found).splitlines()
    assert shown[1].strip() == line.strip()
    assert shown[2].index("^") - shown[1].index(line.strip()) == found.column - 1 - (len(line) - len(line.lstrip()))


def test_the_name_of_the_file_and_what_was_expected():
    found = error("  a = f32[2] negate(p0), sharding=manual", "dump.hlo")
    assert str(found) == (
        "dump.hlo:5:35: expected '{', found 'manual'\n    a = f32[2] negate(p0), sharding=manual\n                     "
        "               ^"
    )
    assert (found.expected, found.found) == ("'{'", "'manual'")


def test_independent_errors_are_reported_together():
    text = (
        HEAD
        + "  a = f32[2] neg(p0)\n  b = f32[2] add(p0, p0)\n  c = f32[2] negate(a)\n  d = f32[2] add(b)\n  e = f32[2] copy(zz)\n}\n"
    )
    with pytest.raises(ParseError) as caught:
        HloModule.parse(text)
    found = [caught.value, *caught.value.others]
    # c uses a, which could not be read; that is not a second error.
    assert [(one.line, one.message) for one in found] == [
        (5, "unknown opcode 'neg'"),
        (8, "add takes 2 operands, found 1"),
        (9, "no instruction 'zz' is defined before this"),
    ]
    assert str(caught.value).count("^") == 3


def test_a_mistake_is_told_once():
    """What follows from a mistake is no further one: neither lines behind a bracket that is missing, nor uses of what
    could not be read."""
    text = """HloModule m
f {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b
}
g {
  c = f32[] parameter(0)
  ROOT d == f32[] negate(c)
}
ENTRY e {
  p = f32[8,16] parameter(0)
  z := f32[] constant(0)
  m = (f32[8,16], f32[8 tuple(p, p)
  ROOT r = f32[8] reduce(m, z), dimensions={1}, to_apply=f
}
"""
    with pytest.raises(ParseError) as caught:
        HloModule.parse(text)
    found = [caught.value, *caught.value.others]
    assert [(one.line, one.message) for one in found] == [
        (6, "expected ',' or ')' after an operand, found '}'"),
        (9, "expected a shape, found '='"),
        (13, "expected ' = ', found ':'"),
        (14, "expected ',' or ']' of the dimensions, found 'tuple'"),
    ]


@pytest.mark.parametrize("labels", ["b0?f_0io->b0f", "?b0f_0io->b0f", "b0f_0io->b0?f"])
def test_labels_of_dimensions_that_operands_do_not_have_are_an_error(labels: str):
    text = "HloModule m ENTRY e {{ p = f32[1,8,2] parameter(0) q = f32[3,2,4] parameter(1) ROOT r = convolution(p, q), window={{size=3}}, dim_labels={} }}"
    with pytest.raises(ParseError, match="convolution: its attributes do not fit its operands"):
        HloModule.parse(text.format(labels))


def test_at_most_twenty_errors_are_reported():
    with pytest.raises(ParseError) as caught:
        HloModule.parse(HEAD + "".join(f"  a{n} = f32[2] neg(p0)\n" for n in range(1000)) + "}\n")
    assert len(caught.value.others) == 19


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a shape, found the end of the text"),
        ("HloModule", "expected the name of the module"),
        ("HloModule m", "expected the name of a computation"),
        ("HloModule m, is_scheduled=maybe", "expected 'true' or 'false'"),
        ("HloModule m, colour=red", "a module has no attribute colour; it may have alias_passthrough_params"),
        ("HloModule m\ne { }", "expected an instruction"),
        ("HloModule m\ne { ROOT a = f32[] constant(1) ROOT b = f32[] constant(1) }", "a computation has only one ROOT"),
        ("ENTRY a { x = f32[] constant(1) } ENTRY b { x = f32[] constant(1) }", "a module has only one ENTRY"),
        ("a { x = f32[] constant(1) } a { x = f32[] constant(1) }", "computation 'a' is already defined"),
        (
            "ENTRY a (p: f32[2]) -> f32[3] { p = f32[2] parameter(0) }",
            "computation 'a' declares the result f32[3], its root 'p' is f32[2]",
        ),
        ("ENTRY a { p = f32[2] parameter(1) }", "computation 'a' has 1 parameters: parameter(0) is missing"),
        ("a = f32[2] add(x, y)", "no instruction 'x' is defined before this"),
        (
            "HloModule m, input_output_alias={ {1}: (0, {}) }\nENTRY a { p = f32[2] parameter(0) }",
            "[1] is not an index into the result",
        ),
        ('HloModule m\nFileNames\n1 "a"\nENTRY e { c = f32[] constant(1) }', "expected the table FunctionNames"),
    ],
)
def test_errors_around_computations(text, message):
    with pytest.raises(ParseError) as caught:
        HloModule.parse(text)
    assert caught.value.message.startswith(message)


def test_truncated_text_is_refused_unless_it_is_complete():
    text = (
        HEAD
        + '  ROOT a = f32[2]{0} negate(p0), sharding={devices=[2]<=[2]}, metadata={op_name="x"}, backend_config={"a":"}"}\n}\n'
    )
    for cut in range(len(text) - 2):
        with pytest.raises(ParseError):
            HloModule.parse(text[:cut])
    HloModule.parse(text[:-1])


@pytest.mark.parametrize(
    "text",
    [
        "(" * 20_000,
        HEAD + " a = " + "(" * 20_000 + ")" * 20_000 + " tuple()\n}",
        HEAD + " a = f32[] negate(" + "negate(" * 20_000,
        HEAD + " a = f32[] call(), to_apply={ b = f32[] call(), to_apply=" * 20_000,
        HEAD + " a = f32[2] negate(p0), sharding=" + "{" * 20_000,
        HEAD + " a = f32[2] negate(p0), backend_config=" + "{" * 20_000,
        HEAD + " a = f32[2] negate(p0), origin={" + "(" * 20_000,
        HEAD + ' a = f32[2] custom-call(), custom_call_target="x", literal=' + "(" * 20_000,
        HEAD + " a = f32[2] constant(" + "{" * 20_000,
        HEAD + ' a = f32[2] negate(p0), backend_config="' + "\\" * 200_001,
        HEAD + "/*" * 100_000,
        HEAD + " a = f32[" + "9" * 100_000 + "] negate(p0)\n}",
        HEAD + " a = f32[2] parameter(" + "9" * 100_000 + ")\n}",
        HEAD + " a = f32[2] batch-norm-inference(p0,p0,p0,p0,p0), feature_index=0, epsilon=" + "9" * 100_000,
        HEAD + " a = f32[2] negate(p0), sharding={devices=[1000000,1000000]<=[1000000,1000000]T(1,0)}\n}",
        HEAD + ' a = f32[2] negate(p0), metadata={op_name="\\xff"}\n}',
        HEAD + ' a = f32[2] negate(p0), metadata={op_name="\ud800"}\n}',
        HEAD + " a\0 = f32[2] negate(p0)\n}",
        "\0" * 1000,
        "\ufeff" * 3,
    ],
    ids=lambda text: repr(text[-60:][:24]),
)
def test_hostile_text_ends_in_an_error(text):
    with pytest.raises(ParseError):
        HloModule.parse(text)


def test_the_size_of_all_elided_constants_is_bounded(monkeypatch):
    monkeypatch.setattr("xlashape.hlo.literal.parse.MAX_ELIDED_BYTES", 10_000)
    with pytest.raises(LimitExceededError, match="elided constants"):
        HloModule.parse(HEAD + "".join(f" a{n} = f32[1000] constant({{...}})\n" for n in range(3)) + "}\n")


def test_values_of_elided_constants_continue_from_one_constant_to_the_next():
    module = HloModule.parse(
        "e { a = s32[3] constant({...}) b = s32[2] constant({...}) ROOT t = (s32[3], s32[2]) tuple(a, b) }"
    )
    assert list(module.instruction("a").proto.literal.s32s) == [0, 1, 2]
    assert list(module.instruction("b").proto.literal.s32s) == [3, 4]


def test_bytes_that_are_not_text():
    with pytest.raises(ParseError, match=r"a\.hlo:2:7: byte 0xe9 is not UTF-8"):
        decode_text("HloModule m\nENTRY é {".encode("latin-1"), "a.hlo")
    assert decode_text("\ufeffHloModule m".encode()).text == "HloModule m"
    with pytest.raises(InvalidArgumentError):
        HloModule.parse(b"HloModule m")


def test_the_configuration_of_a_text_is_kept_and_written():
    text = (
        "HloModule m, alias_passthrough_params=true, entry_computation_layout={()->f32[]}, "
        "allow_spmd_sharding_propagation_to_parameters={false,true}, replica_count=2, num_partitions=4\n\n"
        "ENTRY %e () -> f32[] {\n  ROOT %c = f32[] constant(1)\n}\n\n"
    )
    module = HloModule.parse(text)
    assert module.config == ModuleConfig(
        replica_count=2,
        num_partitions=4,
        alias_passthrough_params=True,
        allow_spmd_sharding_propagation_to_parameters=(False, True),
    )
    assert module.to_text() == text
    assert HloModule.from_proto(module.proto).config == ModuleConfig()


def test_loading_text_from_files(tmp_path):
    text = "ENTRY main { ROOT c = f32[] constant(1) }"
    for name, data in (
        ("a.hlo", text.encode()),
        ("b.gz", gzip.compress(text.encode())),
        ("c", b"\n// a comment\n" + text.encode()),
    ):
        (tmp_path / name).write_bytes(data)
        assert HloModule.load(tmp_path / name).entry.root.opcode == "constant"
    (tmp_path / "bad.hlo").write_text("ENTRY main { ROOT c = f32[] konstant(1) }")
    with pytest.raises(ParseError, match=r"bad\.hlo:1:29: unknown opcode 'konstant'"):
        HloModule.load(tmp_path / "bad.hlo")


def test_a_budget_bounds_the_reading_of_a_text():
    lines = "".join(f"  n{i} = f32[] negate(n{i - 1})\n" for i in range(1, 2000))
    text = f"ENTRY e {{\n  n0 = f32[] parameter(0)\n{lines}}}"
    with budget(deadline=time.monotonic() - 1), pytest.raises(DeadlineExceededError):
        HloModule.parse(text)
    with budget(steps=10_000), pytest.raises(LimitExceededError):
        HloModule.parse(text)
    with budget(steps=1_000_000) as spent:
        HloModule.parse(text)
    assert spent.steps > 2000


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ("parametr(0)", "unknown opcode 'parametr'"),
        ("parameter(9223372036854775807)", "is not between 0 and"),
        ("parameter(2)", "parameter(0) is missing"),
    ],
)
def test_a_mistake_in_a_parameter_of_a_computation_that_is_called(parameter: str, message: str):
    """Reading goes on behind the mistake, at an instruction whose shape follows from the computation."""
    text = f"""HloModule m
f {{
  x = f32[] {parameter}
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}}
ENTRY e {{
  p = f32[8] parameter(0)
  c = f32[] constant(0)
  ROOT r = reduce-window(p, c), window={{size=2}}, to_apply=f
}}
"""
    with pytest.raises(ParseError, match=re.escape(message)):
        HloModule.parse(text)


_LIKE = """HloModule m

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %z = f32[] add(%x, %y)
}

%f (p: f32[2]) -> f32[2] {
  ROOT %p = f32[2]{0} parameter(0)
}

ENTRY %e (a: f32[2], i: s32[], zero: f32[]) -> f32[2] {
  %a = f32[2]{0} parameter(0)
  %i = s32[] parameter(1)
  %zero = f32[] parameter(2)
  LINE  ROOT %root = f32[2]{0} negate(%a)
}
"""


@pytest.mark.parametrize(
    "line",
    [
        '%n = f32[2]{0} fusion(%a), kind=kLoop, calls=%f, metadata={op_name="x" source_line=3}',
        "%n = f32[2]{0} conditional(%i, %a, %a), branch_computations={%f, %f}",
        "%n = f32[2]{0} all-reduce(%a), channel_id=1, replica_groups={{0,1}}, to_apply=%add",
        "%n = f32[] reduce(%a, %zero), dimensions={0}, to_apply=%add",
        "%n = f32[2]{0} add(f32[2]{0} %a, f32[2]{0} %a), sharding={replicated}",
        '%n = f32[2]{0} custom-call(%a, %a), custom_call_target="t", called_computations={%f, %f}',
        "%n = f32[2]{0} constant({1, 2})",
    ],
)
def test_a_line_is_read_alike_after_a_line_of_its_kind(line: str) -> None:
    """A line without one of its tokens means the same, or is the same mistake, whether its kind is known or not."""

    def read(*lines: str) -> str:
        try:
            module = HloModule.parse(_LIKE.replace("LINE", "".join(f"{each}\n  " for each in lines)))
        except ParseError as error:
            return str(error).split(": ", 1)[1].splitlines()[0]
        return "\n".join(sorted(each for each in module.to_text().splitlines() if "%known = " not in each))

    tokens = re.findall(r'"[^"]*"|%?[\w.\-]+|\s+|.', line)
    known = line.replace("%n", "%known", 1)
    for at in range(len(tokens)):
        for changed in ("", tokens[at] * 2):
            mutated = "".join([*tokens[:at], changed, *tokens[at + 1 :]])
            assert read(known, mutated) == read(mutated), mutated
