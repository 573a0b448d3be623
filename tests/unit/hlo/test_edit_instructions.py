"""The editor: instructions and computations rewritten, inserted, replaced and removed; what breaks a rule is
refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xlashape.errors import InvalidArgumentError, InvalidModuleError, NotFoundError, ParseError, XlashapeError
from xlashape.hlo import Editor, HloModule, Opcode, Sharding, verify
from xlashape.hlo.literal import to_numpy
from xlashape.hlo.ops.operation import Contents
from xlashape.hlo.ops.registry import operation_of
from xlashape.proto import xla

TEXT = """HloModule m, is_scheduled=true

sum {
  k = f32[] parameter(0)
  l = f32[] parameter(1)
  ROOT s = f32[] add(k, l)
}

max {
  c = f32[] parameter(0)
  d = f32[] parameter(1)
  ROOT x = f32[] maximum(c, d)
}

ENTRY e {
  p = f32[4,8]{1,0} parameter(0)
  q = f32[4,8]{1,0} parameter(1)
  add.1 = f32[4,8]{1,0} add(p, q), sharding={replicated}, metadata={op_name="jit(f)/add"}, frontend_attributes={a="b"}
  zero = f32[] constant(0)
  r = f32[4]{0} reduce(add.1, zero), dimensions={1}, to_apply=sum
  ROOT n = f32[4]{0} negate(r)
}
"""
MODULE = HloModule.parse(TEXT)


def _lines(module: HloModule) -> dict[str, str]:
    return {
        each.name: each.to_text(print_percent=False, print_metadata=False).partition(" = ")[2]
        for each in module.instructions()
    }


def _edited(edit: Callable[[Editor], Editor]) -> HloModule:
    before = MODULE.to_text()
    module = edit(Editor(MODULE)).module()
    assert verify(module) == () and MODULE.to_text() == before
    again = HloModule.parse(module.to_text())
    assert _lines(again) == _lines(module) and verify(again) == ()
    return module


def test_a_rewritten_instruction_keeps_what_its_text_does_not_say():
    module = _edited(lambda e: e.rewrite("%add.1", "multiply(p, %q)"))
    line = module.instruction("add.1").to_text()
    assert line == (
        '%add.1 = f32[4,8]{1,0} multiply(%p, %q), sharding={replicated}, frontend_attributes={a="b"}, '
        'metadata={op_name="jit(f)/add"}'
    )
    assert module.instruction("add.1").id == MODULE.instruction("add.1").id
    line = _edited(lambda e: e.rewrite("add.1", 'add.1 = f32[4,8] subtract(p, q), metadata={op_name="mine"}'))
    assert 'metadata={op_name="mine"}' in line.instruction("add.1").to_text()


def test_called_computations_and_attributes_are_rewritten():
    module = _edited(lambda e: e.rewrite("r", "reduce(add.1, zero), dimensions={1}, to_apply=max"))
    assert [each.name for each in module.instruction("r").called_computations] == ["max"]
    assert [each.name for each in module.computations] == ["sum", "max", "e"]  # nothing is removed unasked
    body = "{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT t = f32[] minimum(a, b) }"
    module = _edited(lambda e: e.rewrite("r", f"reduce(add.1, zero), dimensions={{1}}, to_apply={body}").remove_dead())
    (called,) = module.instruction("r").called_computations
    assert called.root.opcode is Opcode.MINIMUM and len(module.computations) == 2


def test_a_root_of_another_shape_changes_signatures():
    module = _edited(lambda e: e.rewrite("n", "f32[2,2] bitcast(r)"))
    assert str(module.entry.root.shape) == "f32[2,2]{1,0}"
    assert "->f32[2,2]{1,0}}" in module.to_text().partition("\n")[0]
    assert "-> f32[2,2] {" in module.entry.to_text()


def test_an_instruction_goes_behind_its_operands_and_into_the_schedule():
    module = _edited(lambda e: e.insert("twice = add(add.1, add.1)").replace_uses("add.1", "twice"))
    assert [line.split()[0] for line in module.entry.to_text(print_percent=False).splitlines()[1:-1]] == [
        "p", "q", "add.1", "twice", "zero", "r", "ROOT"
    ]  # fmt: skip
    assert _lines(module)["r"] == "f32[4]{0} reduce(twice, zero), dimensions={1}, to_apply=sum"
    assert _lines(module)["twice"] == "f32[4,8]{1,0} add(add.1, add.1)"
    module = _edited(lambda e: e.insert("k2 = f32[] constant(3)", before="add.1").insert("k3 = f32[] constant(3)"))
    order = [each.name for each in module.entry.instructions]
    assert order.index("k2") == order.index("add.1") - 1 and order[-1] == "k3"
    assert not module.instruction("k3").is_root


def test_an_instruction_may_become_the_root():
    module = _edited(lambda e: e.insert("ROOT a = f32[4] abs(n)"))
    assert module.entry.root.name == "a"
    module = _edited(lambda e: e.set_root("add.1").remove_dead())
    assert [each.name for each in module.entry.instructions] == ["p", "q", "add.1"]
    assert "->f32[4,8]{1,0}}" in module.to_text().partition("\n")[0]


def test_an_instruction_may_go_into_another_computation():
    module = _edited(lambda e: e.insert("ROOT t = multiply(s, s)"))
    assert module.computation("sum").root.name == "t"
    module = _edited(lambda e: e.insert("one = f32[] constant(1)", computation="%sum").insert("o = add(s, one)"))
    assert [each.name for each in module.computation("sum").instructions] == ["k", "l", "s", "one", "o"]


def test_asynchronous_instructions_bring_what_they_wrap():
    module = _edited(
        lambda e: e.insert(
            "st = (f32[4,8], f32[4,16]) all-gather-start(add.1), dimensions={1}, replica_groups={{0,1}}"
        ).insert("dn = f32[4,16] all-gather-done(st)")
    )
    assert "all-gather-start(%add.1)" in module.instruction("st").to_text()


def test_opcodes_operands_and_shapes():
    module = _edited(lambda e: e.set_opcode("add.1", Opcode.SUBTRACT).set_operands("add.1", ["q", "p"]))
    assert _lines(module)["add.1"].startswith("f32[4,8]{1,0} subtract(q, p), sharding")
    module = _edited(
        lambda e: (
            e.set_shape("p", "bf16[4,8]").insert("wide = f32[4,8] convert(p)").set_operands("add.1", ["wide", "q"])
        )
    )
    assert "(p: bf16[4,8], q: f32[4,8])" in module.entry.to_text()
    assert [str(each) for each in (module.entry.parameters[0].shape,)] == ["bf16[4,8]{1,0}"]


def test_attributes_are_typed_values_or_their_text():
    module = _edited(lambda e: e.set_attribute("r", "to_apply", "max").set_attribute("add.1", "sharding", "{manual}"))
    assert [each.name for each in module.instruction("r").called_computations] == ["max"]
    assert str(module.instruction("add.1").attributes.sharding) == "{manual}"
    module = _edited(lambda e: e.set_attribute("add.1", "sharding", Sharding.parse("{manual}")))
    assert "sharding={manual}" in module.instruction("add.1").to_text()
    module = _edited(lambda e: e.set_attribute("add.1", "sharding", None).set_attribute("add.1", "backend_config", "x"))
    assert module.instruction("add.1").attributes.sharding is None
    assert module.instruction("add.1").attributes.backend_config == "x"
    module = _edited(
        lambda e: e.set_attribute("r", "dimensions", "{0}").set_shape("r", "f32[8]").set_shape("n", "f32[8]")
    )
    assert module.instruction("r").attributes.dimensions == (0,)


def test_instructions_are_made_of_typed_values():
    module = _edited(
        lambda e: (
            e.insert_instruction("t", Opcode.TRANSPOSE, ["add.1"], attributes={"dimensions": (1, 0)})
            .insert_instruction("m", "reduce", ["t", "zero"], attributes={"dimensions": [0], "to_apply": "max"})
            .insert_instruction("less", "compare", ["m", "n"], attributes={"direction": "LT"})
            .insert_instruction("first", "abs", ["p"], shape="f32[4,8]{0,1}", before="add.1")
        )
    )
    lines = _lines(module)
    assert lines["t"] == "f32[8,4]{0,1} transpose(add.1), dimensions={1,0}"
    assert lines["m"] == "f32[4]{0} reduce(t, zero), dimensions={0}, to_apply=max"
    assert lines["less"] == "pred[4]{0} compare(m, n), direction=LT"
    text = _edited(
        lambda e: (
            e.insert("t = transpose(add.1), dimensions={1,0}")
            .insert("m = reduce(t, zero), dimensions={0}, to_apply=max")
            .insert("less = compare(m, n), direction=LT")
            .insert("first = f32[4,8]{0,1} abs(p)", before="add.1")
        )
    )
    assert module.to_proto() == text.to_proto()


@pytest.mark.parametrize(
    "path",
    sorted((Path(__file__).parents[2] / "vectors" / "hlo").glob("*.before.hlo.pb.gz")),
    ids=lambda path: path.name,
)
def test_an_opcode_that_an_instruction_has_changes_nothing(path: Path):
    module = HloModule.load(path)
    editor = Editor(module)
    count = 0
    for instruction in list(module.instructions())[:60]:
        if operation_of(instruction.proto.opcode).contents is Contents.OPERANDS:
            editor.set_opcode(instruction.name, instruction.proto.opcode)
            count += 1
    assert count > 3
    assert editor.module(check=False).to_proto() == module.to_proto()


def test_users_may_be_chosen():
    def edit(editor: Editor) -> Editor:
        return editor.insert("u = abs(p)").insert("v = negate(p)").replace_uses("p", "u", users=["v"])

    lines = _lines(_edited(edit))
    assert (lines["v"], lines["u"]) == ("f32[4,8]{1,0} negate(u)", "f32[4,8]{1,0} abs(p)")
    assert lines["add.1"].startswith("f32[4,8]{1,0} add(p, q)")


def test_computations_are_added_and_called():
    text = "product { k = f32[] parameter(0)  l = f32[] parameter(1)  ROOT s = f32[] multiply(k, l) }"
    module = _edited(lambda e: e.add_computations(text).replace_calls("sum", "product").remove_dead())
    assert [each.name for each in module.computations] == ["product", "e"]
    assert sorted(each.name for each in module.computation("product").instructions) == ["k.1", "l.1", "s.1"]
    two = "f { a = f32[4,8] parameter(0)  ROOT b = negate(a) } g { c = f32[4,8] parameter(0) ROOT h = call(c), to_apply=f }"
    two = two.replace("c =", "cc =").replace("(c)", "(cc)")
    module = _edited(lambda e: e.add_computations(two).insert("i = f32[4,8] fusion(add.1), kind=kLoop, calls=g"))
    assert (
        module.computation("g").proto.is_fusion_computation and not module.computation("f").proto.is_fusion_computation
    )
    assert [each.name for each in module.computations][-1] == "e"
    for new in ("f", "g"):
        edited = Editor(module).replace_calls("g", new).module()
        for one in (edited, HloModule.parse(edited.to_text())):
            assert [each.name for each in one.computations if each.proto.is_fusion_computation] == [new]


def test_what_is_dead_and_what_stays():
    text = """HloModule m
    tell { t = f32[] parameter(0)  tok = token[] after-all()  o = token[] outfeed(t, tok)  ROOT u = f32[] copy(t) }
    quiet { v = f32[] parameter(0)  ROOT w = f32[] negate(v) }
    ENTRY e {
      p = f32[] parameter(0)
      unused = f32[] parameter(1)
      dead1 = f32[] abs(p)
      dead2 = f32[] negate(dead1)
      dead3 = f32[] call(p), to_apply=quiet
      talks = f32[] call(p), to_apply=tell
      effect = f32[] custom-call(p), custom_call_target="x", custom_call_has_side_effect=true
      none = f32[] custom-call(p), custom_call_target="y"
      sums = f32[] all-reduce(p), replica_groups={}, to_apply=add
      first = f32[] abs(p)
      second = f32[] abs(p), control-predecessors={first}
      state = u64[] rng-get-and-update-state(), delta=1
      ROOT r = f32[] exponential(p)
    }""".replace(
        "quiet {", "add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }\n    quiet {"
    )
    edited = Editor(HloModule.parse(text)).remove_dead().module()
    assert sorted(each.name for each in edited.entry.instructions) == [
        "effect", "first", "p", "r", "second", "state", "sums", "talks", "unused"
    ]  # fmt: skip
    assert [each.name for each in edited.computations] == ["tell", "add", "e"]
    assert Editor(edited).remove_dead().module().to_text() == edited.to_text()


@pytest.mark.parametrize(
    ("edit", "error", "message"),
    [
        (lambda e: e.rewrite("nope", "abs(p)"), NotFoundError, "module 'm' has no instruction 'nope'"),
        (lambda e: e.rewrite("p", "abs(q)"), InvalidArgumentError, "'p' is a parameter: the computation's callers give it"),
        (lambda e: e.rewrite("n", "m = abs(r)"), InvalidArgumentError, "the text names 'm', not 'n': use rename"),
        (lambda e: e.rewrite("n", "abs(n)"), ParseError, r"line 1, column 5: no instruction 'n' is defined before this"),
        (lambda e: e.rewrite("r", "f32[4] slice(n), slice={[0:4]}"), InvalidArgumentError, "'n' needs 'r': it cannot be its operand"),
        (lambda e: e.rewrite("n", "f32[4] abs(nn)"), ParseError, r"line 1, column 12: no instruction 'nn' .*\n  f32\[4\] abs\(nn\)\n {13}\^"),
        (lambda e: e.rewrite("n", "abs(r), to_apply=sum"), ParseError, "abs has no attribute to_apply"),
        (lambda e: e.rewrite("n", "abs(r"), ParseError, r"line 1, column 6: expected ',' or '\)'"),
        (lambda e: e.rewrite("n", ""), ParseError, "line 1, column 1"),
        (lambda e: e.rewrite("n", 3), InvalidArgumentError, "text takes a line of HLO text, not int"),
        (lambda e: e.insert("abs(n)"), InvalidArgumentError, r"'abs\(n\)' has no name: write `name = …`"),
        (lambda e: e.insert("k = abs(n)"), InvalidArgumentError, "there is an instruction 'k' already"),
        (lambda e: e.insert("y = abs(n)\nz = abs(n)"), InvalidArgumentError, "the text has several instructions"),
        (lambda e: e.insert("y = add(k, n)"), InvalidArgumentError, "the text names instructions of 'sum', 'e': say which `computation`"),
        (lambda e: e.insert("y = f32[4] add(k, n)", computation="e"), ParseError, "line 1, column 16: no instruction 'k'"),
        (lambda e: e.insert("y = abs(n) }"), ParseError, "line 1, column 12: expected the end of the instruction, found '}'"),
        (lambda e: e.insert("y = abs(n)\n  z"), ParseError, "line 2, column 3: expected the end of the instruction, found 'z'"),
        (lambda e: e.insert("y = add(abs(n), n)"), InvalidArgumentError, "the text has several instructions"),
        (lambda e: e.insert("y = abs(n)", before="r"), InvalidArgumentError, "'y' needs 'r': it cannot be before it"),
        (lambda e: e.insert("y = abs(n)", before="k", computation="e"), InvalidArgumentError, "'k' is in computation 'sum', not in 'e'"),
        (lambda e: e.insert("y = f32[] parameter(2)"), InvalidArgumentError, "a parameter is given its value by the callers"),
        (lambda e: e.insert("y = abz(n)"), ParseError, "line 1, column 5: unknown opcode 'abz'"),
        (lambda e: e.insert("y = f32[4] map(n), dimensions={0}, to_apply=e"), ParseError, "no computation 'e' is defined before this"),
        (lambda e: e.set_opcode("r", "negate"), InvalidArgumentError, "negate has no attribute dimensions"),
        (lambda e: e.set_opcode("n", "nope"), InvalidArgumentError, "'nope' is not an opcode"),
        (lambda e: e.set_opcode("p", "abs"), InvalidArgumentError, "'p' is a parameter|contains"),
        (lambda e: e.rewrite("ad.1", "abs(p)"), NotFoundError, r"has no instruction 'ad.1': did you mean 'add.1'\?"),
        (lambda e: e.replace_calls("summ", "max"), NotFoundError, r"has no computation 'summ': did you mean 'sum'\?"),
        (lambda e: e.set_opcode("n", "negat"), InvalidArgumentError, r"'negat' is not an opcode: did you mean 'negate'\?"),
        (lambda e: e.set_opcode("zero", "negate"), InvalidArgumentError, "'zero' is a constant, which is not made of operands"),
        (lambda e: e.set_opcode("n", "constant"), InvalidArgumentError, "a constant is not made of operands"),
        (lambda e: e.set_opcode("n", "async-start"), InvalidArgumentError, "async-start is written as what it wraps"),
        (lambda e: e.set_opcode("n", "add"), InvalidArgumentError, "add takes 2 operands, not 1"),
        (lambda e: e.set_opcode("n", "transpose"), InvalidArgumentError, "transpose needs the attribute dimensions"),
        (lambda e: e.set_attribute("r", "dimension", (0,)), InvalidArgumentError, r"reduce has no attribute dimension: did you mean 'dimensions'\?"),
        (lambda e: e.set_attribute("r", "dimensions", None), InvalidArgumentError, "reduce needs the attribute dimensions"),
        (lambda e: e.set_attribute("r", "dimensions", 1), InvalidArgumentError, "dimensions takes a list of integers, not 1"),
        (lambda e: e.set_attribute("r", "dimensions", "{1"), ParseError, "line 1, column 3"),
        (lambda e: e.set_attribute("r", "to_apply", "summ"), NotFoundError, r"no computation 'summ': did you mean 'sum'\?"),
        (lambda e: e.set_attribute("r", "to_apply", "e"), InvalidArgumentError, "'e' is the entry, which nothing may call"),
        (lambda e: e.set_attribute("r", "to_apply", ["sum", "max"]), InvalidArgumentError, "to_apply takes one computation, not 2"),
        (lambda e: e.set_attribute("n", "sharding", 3), InvalidArgumentError, "sharding takes a Sharding, not 3"),
        (lambda e: e.insert_instruction("y", "negat", ["n"]), InvalidArgumentError, "did you mean 'negate'"),
        (lambda e: e.insert_instruction("y", "negate", ["m"]), NotFoundError, "has no instruction 'm'"),
        (lambda e: e.insert_instruction("n", "negate", ["n"]), InvalidArgumentError, "there is an instruction 'n' already"),
        (lambda e: e.insert_instruction("y", "add", ["n", "p"]), InvalidArgumentError, "add: "),
        (lambda e: e.insert_instruction("y", "transpose", ["n"], attributes={"dims": (0,)}), InvalidArgumentError, "transpose has no attribute dims"),
        (lambda e: e.insert_instruction("y", "custom-call", ["n"], attributes={"custom_call_target": "t"}), InvalidArgumentError, "the shape of custom-call must be written"),
        (lambda e: e.insert_instruction("y", "negate", ["n"], before="r"), InvalidArgumentError, "'y' needs 'r': it cannot be before it"),
        (lambda e: e.insert_instruction("y", "negate", "n"), InvalidArgumentError, "operands takes a list of names, not text"),
        (lambda e: e.set_operands("n", "r"), InvalidArgumentError, "operands takes a list of names, not text"),
        (lambda e: e.set_operands("n", ["r", "r"]), InvalidArgumentError, "negate takes 1 operands, not 2"),
        (lambda e: e.set_operands("p", ["q"]), InvalidArgumentError, "parameter takes 0 operands, not 1"),
        (lambda e: e.set_operands("n", ["k"]), InvalidArgumentError, "'k' is in computation 'sum', not in 'e'"),
        (lambda e: e.set_operands("n", ["n"]), InvalidArgumentError, "'n' is the instruction itself: it cannot be its operand"),
        (lambda e: e.set_operands("r", ["n", "zero"]), InvalidArgumentError, "'n' needs 'r': it cannot be its operand"),
        (lambda e: e.set_shape("zero", "f32[3]"), InvalidArgumentError, "'zero' is a constant, whose elements have its shape"),
        (lambda e: e.set_shape("n", "f33[3]"), ParseError, "'f33' is not an element type"),
        (lambda e: e.replace_uses("p", "r"), InvalidArgumentError, r"'r' is f32\[4\]\{0\}, 'p' is f32\[4,8\]\{1,0\}"),
        (lambda e: e.replace_uses("p", "add.1", users=["add.1"]), InvalidArgumentError, "'add.1' needs 'add.1'"),
        (lambda e: e.set_root("nope"), NotFoundError, "has no instruction 'nope'"),
        (lambda e: e.add_computations(""), InvalidArgumentError, "the text has no computation"),
        (lambda e: e.add_computations("ENTRY f { ROOT a = f32[] parameter(0) }"), InvalidArgumentError, "without HloModule and ENTRY"),
        (lambda e: e.add_computations("sum { a = f32[] parameter(0) }"), InvalidArgumentError, "there is a computation 'sum' already"),
        (lambda e: e.add_computations("f { a = f32[] parameter(0)\n  b = f33[] abs(a) }"), ParseError, "line 2, column 7: 'f33' is not an element type"),
        (lambda e: e.add_computations("f { a = f32[] parameter(0)"), ParseError, "line 1, column 27"),
        (lambda e: e.replace_calls("sum", "nope"), NotFoundError, "module 'm' has no computation 'nope'"),
        (lambda e: e.replace_calls("sum", "e"), InvalidArgumentError, "'e' is the entry, which nothing may call"),
    ],
)  # fmt: skip
def test_what_is_refused_changes_nothing(edit: Callable[[Editor], Editor], error: type[XlashapeError], message: str):
    editor = Editor(MODULE)
    with pytest.raises(error, match=message):
        edit(editor)
    assert editor.module().to_proto() == MODULE.to_proto()


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda e: e.set_shape("n", "f32[5]"), r"instruction 'n': its shape is f32\[5\]\{0\}, its operands give f32\[4\]\{0\}"),
        (lambda e: e.set_shape("p", "f32[4,9]"), "its operands must have equal dimensions"),
        (lambda e: e.insert("y = f32[5] abs(n)"), "instruction 'y': its shape"),
        (lambda e: e.rewrite("s", "f32[2] broadcast(k), dimensions={}"), "computation 'e': instruction 'r'"),
    ],
)  # fmt: skip
def test_a_module_that_breaks_a_rule_is_not_given_out(edit: Callable[[Editor], Editor], message: str):
    editor = edit(Editor(MODULE))
    assert editor.problems()
    with pytest.raises(InvalidModuleError, match=message):
        editor.module()
    assert editor.module(check=False).entry.root.name == "n"


def test_rules_that_were_broken_before_do_not_count():
    proto = MODULE.to_proto()
    shape = next(each for each in proto.computations[2].instructions if each.name == "n").shape
    shape.dimensions[0] = 5
    editor = Editor(HloModule.from_proto(proto)).insert("y = abs(p)")
    assert editor.problems() and editor.module().instruction("y")
    with pytest.raises(InvalidModuleError, match="instruction 'y'"):
        editor.set_shape("y", "f32[1]").module()


def test_a_buffer_assignment_that_no_longer_fits_goes():
    whole = xla.HloProto(hlo_module=MODULE.proto)
    whole.buffer_assignment.buffer_allocations.add(size=4)
    module = HloModule.from_proto(whole)
    assert Editor(module).rename("n", "m").module().hlo_proto.HasField("buffer_assignment")
    for edit in (
        lambda e: e.rewrite("n", "abs(r)"),
        lambda e: e.replace_calls("sum", "max"),
        lambda e: e.set_root("r"),
    ):
        assert not edit(Editor(module)).module().hlo_proto.HasField("buffer_assignment")


def test_a_constant_is_rewritten():
    module = _edited(lambda e: e.rewrite("zero", "f32[] constant(7)"))
    assert to_numpy(module.instruction("zero").proto.literal) == np.float32(7)


def test_the_task_of_a_newcomer(tmp_path: Any):
    """Rewrite an instruction and save."""
    MODULE.save(tmp_path / "before.hlo")
    module = HloModule.load(tmp_path / "before.hlo")
    Editor(module).rewrite("add.1", "multiply(p, q)").module().save(tmp_path / "after.hlo")
    before, after = (path.read_text().splitlines() for path in (tmp_path / "before.hlo", tmp_path / "after.hlo"))
    assert [new.strip() for old, new in zip(before, after, strict=True) if old != new] == [
        module.instruction("add.1").to_text().replace("add(", "multiply(")
    ]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_sequence_of_edits_gives_a_module_that_verifies(data: st.DataObject):
    editor = Editor(MODULE)
    for count in range(data.draw(st.integers(1, 8))):
        arrays = [each.name for each in editor.module().entry.instructions if str(each.shape) == "f32[4,8]{1,0}"]
        one, other = data.draw(st.sampled_from(arrays)), data.draw(st.sampled_from(arrays))
        try:
            match data.draw(st.integers(0, 6)):
                case 0:
                    editor.insert(f"new.{count} = add({one}, {other})")
                case 1:
                    editor.rewrite(one, f"subtract({other}, {other})")
                case 2:
                    editor.replace_uses(one, other)
                case 3:
                    editor.set_operands(one, [other, other])
                case 4:
                    editor.remove_dead()
                case 5:
                    editor.delete(one, replace_with=other)
                case _:
                    editor.set_opcode(one, "maximum")
        except XlashapeError:
            pass
        module = editor.module()
        assert verify(module) == ()
        assert _lines(HloModule.parse(module.to_text())) == _lines(module)
