"""Instructions and computations are rewritten, inserted, replaced and removed; `verify` finds what breaks a rule."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.edited_modules import check_consistent
from xlashape.errors import InvalidModuleError, XlashapeError
from xlashape.hlo import HloModule, Opcode, Sharding, check, verify
from xlashape.hlo.literal import to_numpy
from xlashape.hlo.ops.operation import Contents
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


def _edited(*edits: Callable[[HloModule], object]) -> HloModule:
    before = MODULE.to_bytes(), MODULE.to_text()
    module = MODULE.copy()
    for edit in edits:
        edit(module)
        check_consistent(module)
    assert verify(module) == ()
    assert (MODULE.to_bytes(), MODULE.to_text()) == before
    again = HloModule.parse(module.to_text())
    assert _lines(again) == _lines(module) and verify(again) == ()
    return module


def test_a_rewritten_instruction_keeps_what_its_text_does_not_say():
    module = _edited(lambda m: m.instruction("%add.1").rewrite("multiply(p, %q)"))
    line = module.instruction("add.1").to_text()
    assert line == (
        '%add.1 = f32[4,8]{1,0} multiply(%p, %q), sharding={replicated}, frontend_attributes={a="b"}, '
        'metadata={op_name="jit(f)/add"}'
    )
    assert module.instruction("add.1").id == MODULE.instruction("add.1").id
    line = _edited(
        lambda m: m.instruction("add.1").rewrite('add.1 = f32[4,8] subtract(p, q), metadata={op_name="mine"}')
    )
    assert 'metadata={op_name="mine"}' in line.instruction("add.1").to_text()


def test_called_computations_and_attributes_are_rewritten():
    module = _edited(lambda m: m.instruction("r").rewrite("reduce(add.1, zero), dimensions={1}, to_apply=max"))
    assert [each.name for each in module.instruction("r").called_computations] == ["max"]
    assert [each.name for each in module.computations] == ["sum", "max", "e"]  # nothing is removed unasked
    body = "{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT t = f32[] minimum(a, b) }"
    module = _edited(
        lambda m: m.instruction("r").rewrite(f"reduce(add.1, zero), dimensions={{1}}, to_apply={body}"),
        HloModule.remove_dead,
    )
    (called,) = module.instruction("r").called_computations
    assert called.root.opcode is Opcode.MINIMUM and len(module.computations) == 2


def test_a_root_of_another_shape_changes_signatures():
    module = _edited(lambda m: m.instruction("n").rewrite("f32[2,2] bitcast(r)"))
    assert str(module.entry.root.shape) == "f32[2,2]{1,0}"
    assert "->f32[2,2]{1,0}}" in module.to_text().partition("\n")[0]
    assert "-> f32[2,2] {" in module.entry.to_text()


def test_an_instruction_goes_behind_its_operands_and_into_the_schedule():
    module = _edited(
        lambda m: m.entry.insert("twice = add(add.1, add.1)"), lambda m: m.instruction("add.1").replace_uses("twice")
    )
    assert [line.split()[0] for line in module.entry.to_text(print_percent=False).splitlines()[1:-1]] == [
        "p", "q", "add.1", "twice", "zero", "r", "ROOT"
    ]  # fmt: skip
    assert _lines(module)["r"] == "f32[4]{0} reduce(twice, zero), dimensions={1}, to_apply=sum"
    assert _lines(module)["twice"] == "f32[4,8]{1,0} add(add.1, add.1)"
    module = _edited(
        lambda m: m.entry.insert("k2 = f32[] constant(3)", before=m.instruction("add.1")),
        lambda m: m.entry.insert("k3 = f32[] constant(3)"),
    )
    order = [each.name for each in module.entry.instructions]
    assert order.index("k2") == order.index("add.1") - 1 and order[-1] == "k3"
    assert not module.instruction("k3").is_root


def test_an_instruction_may_become_the_root():
    module = _edited(lambda m: m.entry.insert("ROOT a = f32[4] abs(n)"))
    assert module.entry.root.name == "a"
    module = _edited(lambda m: m.entry.set_root("add.1"), HloModule.remove_dead)
    assert [each.name for each in module.entry.instructions] == ["p", "q", "add.1"]
    assert "->f32[4,8]{1,0}}" in module.to_text().partition("\n")[0]


def test_an_instruction_may_go_into_another_computation():
    module = _edited(lambda m: m.computation("sum").insert("ROOT t = multiply(s, s)"))
    assert module.computation("sum").root.name == "t"
    module = _edited(
        lambda m: m.computation("%sum").insert("one = f32[] constant(1)"),
        lambda m: m.computation("%sum").insert("o = add(s, one)"),
    )
    assert [each.name for each in module.computation("sum").instructions] == ["k", "l", "s", "one", "o"]


def test_asynchronous_instructions_bring_what_they_wrap():
    module = _edited(
        lambda m: m.entry.insert(
            "st = (f32[4,8], f32[4,16]) all-gather-start(add.1), dimensions={1}, replica_groups={{0,1}}"
        ),
        lambda m: m.entry.insert("dn = f32[4,16] all-gather-done(st)"),
    )
    assert "all-gather-start(%add.1)" in module.instruction("st").to_text()


def test_opcodes_operands_and_shapes():
    module = _edited(
        lambda m: m.instruction("add.1").set_opcode(Opcode.SUBTRACT),
        lambda m: m.instruction("add.1").set_operands(["q", m.instruction("p")]),
    )
    assert _lines(module)["add.1"].startswith("f32[4,8]{1,0} subtract(q, p), sharding")
    module = _edited(
        lambda m: m.instruction("p").set_shape("bf16[4,8]"),
        lambda m: m.entry.insert("wide = f32[4,8] convert(p)"),
        lambda m: m.instruction("add.1").set_operands(["wide", "q"]),
    )
    assert "(p: bf16[4,8], q: f32[4,8])" in module.entry.to_text()
    assert [str(each) for each in (module.entry.parameters[0].shape,)] == ["bf16[4,8]{1,0}"]


def test_attributes_are_typed_values_or_their_text():
    module = _edited(
        lambda m: m.instruction("r").set_attribute("to_apply", m.computation("max")),
        lambda m: m.instruction("add.1").set_attribute("sharding", "{manual}"),
    )
    assert [each.name for each in module.instruction("r").called_computations] == ["max"]
    assert str(module.instruction("add.1").attributes.sharding) == "{manual}"
    module = _edited(lambda m: m.instruction("add.1").set_attribute("sharding", Sharding.parse("{manual}")))
    assert "sharding={manual}" in module.instruction("add.1").to_text()
    module = _edited(
        lambda m: m.instruction("add.1").set_attribute("sharding", None),
        lambda m: m.instruction("add.1").set_attribute("backend_config", "x"),
    )
    assert module.instruction("add.1").attributes.sharding is None
    assert module.instruction("add.1").attributes.backend_config == "x"
    module = _edited(
        lambda m: m.instruction("r").set_attribute("dimensions", "{0}"),
        lambda m: m.instruction("r").set_shape("f32[8]"),
        lambda m: m.instruction("n").set_shape("f32[8]"),
    )
    assert module.instruction("r").attributes.dimensions == (0,)


def test_instructions_are_made_of_typed_values():
    module = _edited(
        lambda m: m.entry.insert_instruction("t", Opcode.TRANSPOSE, ["add.1"], attributes={"dimensions": (1, 0)}),
        lambda m: m.entry.insert_instruction(
            "m", "reduce", ["t", "zero"], attributes={"dimensions": [0], "to_apply": m.computation("max")}
        ),
        lambda m: m.entry.insert_instruction("less", "compare", ["m", "n"], attributes={"direction": "LT"}),
        lambda m: m.entry.insert_instruction(
            "first", "abs", [m.instruction("p")], shape="f32[4,8]{0,1}", before="add.1"
        ),
    )
    lines = _lines(module)
    assert lines["t"] == "f32[8,4]{0,1} transpose(add.1), dimensions={1,0}"
    assert lines["m"] == "f32[4]{0} reduce(t, zero), dimensions={0}, to_apply=max"
    assert lines["less"] == "pred[4]{0} compare(m, n), direction=LT"
    text = _edited(
        lambda m: m.entry.insert("t = transpose(add.1), dimensions={1,0}"),
        lambda m: m.entry.insert("m = reduce(t, zero), dimensions={0}, to_apply=max"),
        lambda m: m.entry.insert("less = compare(m, n), direction=LT"),
        lambda m: m.entry.insert("first = f32[4,8]{0,1} abs(p)", before="add.1"),
    )
    assert module.to_proto() == text.to_proto()


@pytest.mark.parametrize(
    "path",
    sorted((Path(__file__).parents[2] / "vectors" / "hlo").glob("*.before.hlo.pb.gz")),
    ids=lambda path: path.name,
)
def test_an_opcode_that_an_instruction_has_changes_nothing(path: Path):
    module = HloModule.load(path)
    edited = module.copy()
    count = 0
    for instruction in list(edited.instructions())[:60]:
        if instruction.kind.row.contents is Contents.OPERANDS:
            instruction.set_opcode(instruction.opcode)
            count += 1
    assert count > 3
    assert edited.to_proto() == module.to_proto()


def test_users_may_be_chosen():
    lines = _lines(
        _edited(
            lambda m: m.entry.insert("u = abs(p)"),
            lambda m: m.entry.insert("v = negate(p)"),
            lambda m: m.instruction("p").replace_uses("u", users=[m.instruction("v")]),
        )
    )
    assert (lines["v"], lines["u"]) == ("f32[4,8]{1,0} negate(u)", "f32[4,8]{1,0} abs(p)")
    assert lines["add.1"].startswith("f32[4,8]{1,0} add(p, q)")


def test_computations_are_added_and_called():
    text = "product { k = f32[] parameter(0)  l = f32[] parameter(1)  ROOT s = f32[] multiply(k, l) }"
    module = _edited(
        lambda m: m.add_computations(text),
        lambda m: m.computation("sum").replace_calls("product"),
        HloModule.remove_dead,
    )
    assert [each.name for each in module.computations] == ["product", "e"]
    assert sorted(each.name for each in module.computation("product").instructions) == ["k.1", "l.1", "s.1"]
    two = "f { a = f32[4,8] parameter(0)  ROOT b = negate(a) } g { c = f32[4,8] parameter(0) ROOT h = call(c), to_apply=f }"
    two = two.replace("c =", "cc =").replace("(c)", "(cc)")
    module = _edited(
        lambda m: m.add_computations(two),
        lambda m: m.entry.insert("i = f32[4,8] fusion(add.1), kind=kLoop, calls=g"),
    )
    assert (
        module.computation("g").proto.is_fusion_computation and not module.computation("f").proto.is_fusion_computation
    )
    assert [each.name for each in module.computations][-1] == "e"
    for new in ("f", "g"):
        edited = module.copy()
        edited.computation("g").replace_calls(edited.computation(new))
        check_consistent(edited)
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
    edited = HloModule.parse(text)
    edited.remove_dead()
    check_consistent(edited)
    assert sorted(each.name for each in edited.entry.instructions) == [
        "effect", "first", "p", "r", "second", "state", "sums", "talks", "unused"
    ]  # fmt: skip
    assert [each.name for each in edited.computations] == ["tell", "add", "e"]
    again = edited.copy()
    again.remove_dead()
    assert again.to_text() == edited.to_text()


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda m: m.instruction("n").set_shape("f32[5]"), r"instruction 'n': its shape is f32\[5\]\{0\}, its operands give f32\[4\]\{0\}"),
        (lambda m: m.instruction("p").set_shape("f32[4,9]"), "its operands must have equal dimensions"),
        (lambda m: m.entry.insert("y = f32[5] abs(n)"), "instruction 'y': its shape"),
        (lambda m: m.instruction("s").rewrite("f32[2] broadcast(k), dimensions={}"), "computation 'e': instruction 'r'"),
    ],
)  # fmt: skip
def test_verify_finds_the_rules_that_an_edit_breaks(edit: Callable[[HloModule], object], message: str):
    module = MODULE.copy()
    edit(module)
    assert any(re.search(message, str(problem)) for problem in verify(module))
    with pytest.raises(InvalidModuleError, match=message):
        check(module)
    check_consistent(module)
    assert module.entry.root.name == "n"


def test_what_was_broken_before_may_be_edited():
    proto = MODULE.to_proto()
    shape = next(each for each in proto.computations[2].instructions if each.name == "n").shape
    shape.dimensions[0] = 5
    module = HloModule.from_proto(proto)
    before = verify(module)
    module.entry.insert("y = abs(p)")
    assert before and verify(module) == before
    module.instruction("y").set_shape("f32[1]")
    assert [problem.instruction for problem in verify(module) if problem not in before] == ["y"]


def test_a_buffer_assignment_that_no_longer_fits_goes():
    whole = xla.HloProto(hlo_module=MODULE.proto)
    whole.buffer_assignment.buffer_allocations.add(size=4)
    module = HloModule.from_proto(whole)
    edited = module.copy()
    edited.instruction("n").rename("m")
    assert edited.hlo_proto.HasField("buffer_assignment")
    for edit in (
        lambda m: m.instruction("n").rewrite("abs(r)"),
        lambda m: m.computation("sum").replace_calls("max"),
        lambda m: m.entry.set_root("r"),
    ):
        edited = module.copy()
        edit(edited)
        assert not edited.hlo_proto.HasField("buffer_assignment")
    assert module.hlo_proto.HasField("buffer_assignment")


def test_a_constant_is_rewritten():
    module = _edited(lambda m: m.instruction("zero").rewrite("f32[] constant(7)"))
    assert to_numpy(module.instruction("zero").proto.literal) == np.float32(7)


def test_the_task_of_a_newcomer(tmp_path: Any):
    """Rewrite an instruction and save."""
    MODULE.save(tmp_path / "before.hlo")
    module = HloModule.load(tmp_path / "before.hlo")
    old = module.instruction("add.1").to_text()
    module.instruction("add.1").rewrite("multiply(p, q)")
    module.save(tmp_path / "after.hlo")
    before, after = (path.read_text().splitlines() for path in (tmp_path / "before.hlo", tmp_path / "after.hlo"))
    assert [new.strip() for old, new in zip(before, after, strict=True) if old != new] == [
        old.replace("add(", "multiply(")
    ]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_sequence_of_edits_gives_a_module_that_verifies(data: st.DataObject):
    module = MODULE.copy()
    for count in range(data.draw(st.integers(1, 8))):
        arrays = [each for each in module.entry.instructions if str(each.shape) == "f32[4,8]{1,0}"]
        one, other = data.draw(st.sampled_from(arrays)), data.draw(st.sampled_from(arrays))
        try:
            match data.draw(st.integers(0, 6)):
                case 0:
                    module.entry.insert(f"new.{count} = add({one.name}, {other.name})")
                case 1:
                    one.rewrite(f"subtract({other.name}, {other.name})")
                case 2:
                    one.replace_uses(other)
                case 3:
                    one.set_operands([other, other])
                case 4:
                    module.remove_dead()
                case 5:
                    one.delete(replace_with=other)
                case _:
                    one.set_opcode("maximum")
        except XlashapeError:
            pass
        assert verify(module) == ()
        check_consistent(module)
        assert _lines(HloModule.parse(module.to_text())) == _lines(module)


# -- what new computations bring ---------------------------------------------------------------------


def test_a_wrapped_operation_is_scheduled_and_named_anew():
    """XLA asks for a schedule of every computation that no fusion calls."""
    module = _edited(
        lambda m: m.entry.insert("start = ((f32[4,8]), f32[4,8]) negate-start(p)"),
        lambda m: m.entry.insert("other = ((f32[4,8]), f32[4,8]) abs-start(q)"),
        lambda m: m.entry.insert("done = f32[4,8] negate-done(start)"),
        lambda m: m.entry.insert("done.2 = f32[4,8] abs-done(other)"),
    )
    names = [each.name for each in module.computations]
    assert names == ["sum", "max", "async_wrapped", "async_wrapped.1", "e"]
    assert module.instruction("start").called_computations == (module.computation("async_wrapped"),)
    assert [each.name for each in module.computation("async_wrapped.1").instructions] == ["async_param.1", "abs"]


def test_what_an_instruction_brings_does_not_take_its_name():
    module = MODULE.copy()
    made = module.entry.insert("async_param = ((f32[4,8]), f32[4,8]) negate-start(p)")
    check_consistent(module)
    assert module.instruction("async_param") is made
    assert made.called_computations[0].parameters[0].name == "async_param.1"


def test_operands_that_a_later_step_brings_come_before_what_takes_them():
    text = """f {
      a = f32[4] parameter(0)
      b = f32[4] parameter(1)
      start = ((), f32[4], u32[]) add-start()
      update = ((f32[4], f32[4]), f32[4], u32[]) add-update(start, a, b)
      ROOT done = f32[4] add-done(update)
    }"""
    module = MODULE.copy()
    module.add_computations(text)
    check_consistent(module)
    (called,) = module.instruction("start").called_computations
    assert [each.opcode for each in called.instructions] == ["parameter", "parameter", "add"]


def test_computations_within_instructions_get_names_of_their_own():
    """Also where the module has one of that name, which the text does not name."""
    inner = "{ a = f32[4] parameter(0)  ROOT b = f32[4] abs(a) }"
    text = "f{} {{ p{} = f32[4] parameter(0)  ROOT c{} = f32[4] call(p{}), to_apply={} }}"
    module = _edited(
        lambda m: m.add_computations(text.format(1, 1, 1, 1, inner)),
        lambda m: m.add_computations(text.format(2, 2, 2, 2, inner)),
        lambda m: m.entry.insert(f"c3 = f32[4] call(n), to_apply={inner}"),
    )
    assert sorted(each.name for each in module.computations) == ["_", "_.1", "_.2", "e", "f1", "f2", "max", "sum"]


def test_ids_of_new_instructions_are_new_after_computations_were_added():
    many = " ".join(f"a{number} = f32[] add(a{number - 1}, a{number - 1})" for number in range(1, 40))
    module = _edited(
        lambda m: m.entry.insert("y = abs(n)"),
        lambda m: m.add_computations(f"f {{ a0 = f32[] parameter(0) {many} }}"),
        lambda m: m.computation("f").insert("b = abs(a3)"),
        lambda m: m.entry.insert("z = abs(n)"),
    )
    assert module.instruction("b").id & 0xFFFFFFFF == 40


def test_a_fusion_takes_the_schedule_of_what_it_fuses():
    text = "f { a = f32[4] parameter(0)  ROOT b = f32[4] negate(a) } g { c1 = f32[4] parameter(0)  ROOT d1 = f32[4] abs(c1) }"
    module = _edited(
        lambda m: m.add_computations(text),
        lambda m: m.entry.insert("c2 = f32[4] call(n), to_apply=f"),
        lambda m: m.entry.insert("f2 = f32[4] fusion(n), kind=kLoop, calls=g"),
        lambda m: m.computation("g").replace_calls("f"),
    )
    assert [each.name for each in module.computations if each.is_fused] == ["f"]


def test_text_may_name_the_stack_frames_of_the_module():
    module = HloModule.parse("""HloModule m
FileNames
1 "/home/user/train.py"

FunctionNames
1 "step"

FileLocations
1 {file_name_id=1 function_name_id=1 line=73 end_line=73 column=4 end_column=20}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY main { ROOT x = f32[8] parameter(0), metadata={stack_frame_id=1} }
""")
    module.entry.insert('n = negate(x), metadata={op_name="a" stack_frame_id=1}')
    module.entry.insert('a = abs(x), metadata={op_name="b" stack_frame_id=2}')
    assert module.instruction("n").metadata.source == "train.py:73"
    assert module.instruction("a").metadata.op_name == "b"
    assert not module.instruction("a").metadata.frames
