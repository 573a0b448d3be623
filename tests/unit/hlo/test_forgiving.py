"""HLO text as people have it in hand: out of logs, a part of a dump, a dump that is cut off."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xlashape.errors import ParseError
from xlashape.hlo import HloModule, Opcode
from xlashape.hlo.files.forgiving import completed, mended, unwrapped

FILES = sorted((Path(__file__).parents[2] / "vectors" / "hlo").glob("*.hlo"))
LOG_PREFIXES = (
    "I0101 10:00:00.000000  77 dump.cc:72] ",
    "2026-01-01 10:00:00.123456: I xla/service/dump.cc:72] ",
    "(train pid=12, ip=10.0.0.1) I0101 10:00:00.000000  77 dump.cc:72] ",
    "[rank0]: ",
    "> ",
    "> > ",
    "2026-01-01T10:00:00.1234567Z ",
    "INFO:absl:",
    "worker-0: ",
    "\x1b[32mINFO\x1b[0m 06-03 07:41:11 [core.py:1184] ",
)
STEP = """HloModule jit_step, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }, entry_computation_layout={(f32[64,64]{1,0})->f32[64,64]{1,0}}

%fused (p: f32[64,64]) -> f32[64,64] {
  %p = f32[64,64]{1,0} parameter(0)
  ROOT %n = f32[64,64]{1,0} negate(%p), metadata={op_name="jit(step)/neg(\\"a{\\")" source_line=3}
}

ENTRY %main (a: f32[64,64]) -> f32[64,64] {
  %a = f32[64,64]{1,0} parameter(0)
  %f.1 = f32[64,64]{1,0} fusion(%a), kind=kLoop, calls=%fused
  %d.2 = f32[64,64]{1,0} dot(%f.1, %a), lhs_contracting_dims={1}, rhs_contracting_dims={0}, control-predecessors={%f.1}
  ROOT %t.3 = f32[64,64]{1,0} copy(%d.2)
}
"""


def read(text: str) -> tuple[HloModule, tuple[str, ...]] | None:
    """The module that the first of the mended texts gives."""
    for made in mended(text):
        try:
            return HloModule.parse(made.text), made.notes
        except ParseError:
            pass
    return None


@pytest.mark.parametrize("prefix", LOG_PREFIXES)
def test_lines_of_a_log_are_the_module_without_their_prefixes(prefix: str) -> None:
    logged = "".join([f"{prefix}{line}\n" for line in STEP.splitlines()])
    with pytest.raises(ParseError):
        HloModule.parse(logged)
    found = read(logged)
    assert found is not None
    module, notes = found
    assert module.to_text() == HloModule.parse(STEP).to_text()
    assert notes == ("Prefixes of log lines, colours and quotation marks were left out.",)


def test_markdown_and_what_stands_before_a_module_are_left_out() -> None:
    found = read(f"This is what I get:\n\n```\n# after optimizations\n{STEP}```\n")
    assert found is not None
    module, notes = found
    assert module.to_text() == HloModule.parse(STEP).to_text()
    assert notes == ("2 lines before the module were left out.", "Fences of Markdown were left out.")


def test_errors_keep_the_lines_of_the_text() -> None:
    text = f"note\n{STEP}"
    assert unwrapped(text).text.split("\n")[1:] == text.split("\n")[1:]


@given(st.integers(0, len(STEP)))
def test_a_module_that_is_cut_off_is_what_stands_there_whole(end: int) -> None:
    """The instructions of the answer are those whose lines are whole, in both computations."""
    text = STEP[:end]
    whole = re.findall(r"%([\w.]+) = [^\n]*\n", text)
    found = read(text)
    if found is None:
        assert len(whole) == 0 or whole == ["p"] or not text.startswith("HloModule jit_step")
        return
    module, notes = found
    names = [each.name for each in module.instructions()]
    assert set(whole) <= set(names) | {"p"}
    assert len(names) <= len(whole) + 1  # the last line may be whole without its end
    if text.rstrip() != STEP.rstrip():
        assert any("the rest is missing" in note or "ENTRY" in note or "entry" in note for note in notes)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_texts_of_programs_can_be_cut_anywhere_and_any_lines_be_taken(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    begins = [number for number, line in enumerate(lines) if re.match(r"\s*(?:ROOT )?%?[\w.\-]+ = ", line)]
    if len(begins) < 4:
        pytest.skip("its instructions are not one a line")
    for part in range(1, 8):
        cut = text[: len(text) * part // 8]
        if cut.count(" = ") > 2 and cut.count("\n") > begins[1]:
            assert read(cut) is not None, cut[-200:]
        first = begins[len(begins) * part // 8]
        fragment = "\n".join(lines[first : first + 5])
        assert read(fragment) is not None, fragment


def test_what_is_not_defined_becomes_a_parameter_or_something_unknown() -> None:
    made = completed(
        "  %f = (f32[4]{0}, s32[]) fusion(f32[4]{0} %a, s32[] %b), kind=kLoop, calls=%gone, control-predecessors={%c}\n"
        "  %g = f32[4]{0} get-tuple-element(%f), index=0\n"
        "  %h = f32[4]{0} add(%g, %x)\n"
        "  %r = f32[] reduce(%h, f32[] %zero), dimensions={0}, to_apply=%sum\n"
        "  %t = f32[2,2]{1,0} reshape(%y)\n"
    )
    assert made is not None
    module = HloModule.parse(made.text)
    assert [(each.name, str(each.shape)) for each in module.entry.parameters] == [
        ("a", "f32[4]{0}"), ("b", "s32[]"), ("x", "f32[4]{0}"), ("zero", "f32[]"), ("t", "f32[2,2]{1,0}"),
    ]  # fmt: skip
    assert made.notes == (
        "a, b, zero are not defined: they are parameters of the shapes beside them.",
        "x is not defined: it is a parameter of the shape that an elementwise operation makes of it.",
        "t has an operand whose shape the text does not say: its result is taken as a parameter.",
        "gone, sum are called and not in the text: what they compute is not known.",
        "Control predecessors that are not defined were left out.",
    )


@pytest.mark.parametrize(
    "text", ["", "\n", "HloModule m", "no HLO at all", "{", "}\n}", "%a = f32[4]", '%a = f32[4] add("', "a = b"]
)
def test_text_without_an_instruction_is_no_module(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize("opcode", sorted(map(str, Opcode)))
def test_an_instruction_with_any_number_of_operands_is_read_or_refused(opcode: str) -> None:
    for operands in ("", "%x", "%x, %y", "f32[4] %x, %y", "%x, %y, f32[4] %z", "%x, %y, %z, %w"):
        read(f"%a = f32[4] {opcode}({operands})")


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from([*STEP.splitlines(), "```", "# x", "}", "{", '"', "%q = f32[2] negate(f32[2] %w", "/* "]),
        max_size=12,
    )
)
def test_lines_in_any_order_are_read_or_refused(lines: list[str]) -> None:
    read("\n".join(lines))


def test_many_lines_take_linear_time() -> None:
    text = "I0101 10:00:00.000000  77 dump.cc:72] " + "((((" * 50_000 + "\n" + "%a = f32[] add(\n" * 50_000
    assert read(text) is None


@pytest.mark.parametrize(
    "said", ["input_output_alias={ {}: (0, {}, may-alias) }", "entry_computation_layout={(f32[4]{0})->f32[4]{0}}"]
)
@pytest.mark.parametrize("is_cut", [True, False])
def test_what_the_header_says_is_not_dropped_silently(said: str, is_cut: bool) -> None:
    made = completed(
        f"HloModule m, {said}\n\nENTRY %e {{\n  %p = f32[4] parameter(0)\n  %n = f32[4] negate(%p)\n"
        + ("" if is_cut else "}\n")
    )
    assert made is not None
    assert said not in made.text
    assert "What the header says of arguments, results and their aliases was left out." in made.notes
