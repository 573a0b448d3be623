"""Random sequences of edits on copies of small modules: each step leaves a consistent module, or changes nothing, and
the modules that were copied stay as they are."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.edited_modules import check_consistent, everything
from xlashape.errors import XlashapeError
from xlashape.hlo import HloInstruction, HloModule

SCHEDULED: Final = """HloModule scheduled, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }

inner { q = f32[2,3] parameter(0)  ROOT iq = f32[2,3] negate(q) }
outer { s = f32[2,3] parameter(0)  oa = f32[2,3] abs(s)  ROOT os = f32[2,3] call(oa), to_apply=inner }
fused { u = f32[2,3] parameter(0)  v = f32[2,3] parameter(1)  ROOT w = f32[2,3] add(u, v) }

ENTRY e {
  p = f32[2,3] parameter(0)
  k = f32[2,3] constant({{1,2,3},{4,5,6}})
  a = f32[2,3] add(p, k)
  f = f32[2,3] fusion(a, k), kind=kLoop, calls=fused
  c = f32[2,3] copy(f), control-predecessors={a}
  l = f32[2,3] call(p), to_apply=outer
  d = f32[2,3] negate(k), control-predecessors={c, l}
  ROOT r = f32[2,3] multiply(c, d)
}
"""
LOOP: Final = """HloModule loop

body {
  bp = (s32[], f32[2,3]) parameter(0)
  i = s32[] get-tuple-element(bp), index=0
  x = f32[2,3] get-tuple-element(bp), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[2,3] add(x, x)
  ROOT bt = (s32[], f32[2,3]) tuple(next, y)
}
condition {
  cp = (s32[], f32[2,3]) parameter(0)
  ci = s32[] get-tuple-element(cp), index=0
  ten = s32[] constant(10)
  ROOT less = pred[] compare(ci, ten), direction=LT
}

ENTRY e {
  p = f32[2,3] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[2,3]) tuple(zero, p)
  w = (s32[], f32[2,3]) while(t), body=body, condition=condition
  g = f32[2,3] get-tuple-element(w), index=1
  st = ((f32[2,3]), f32[2,3], u32[]) abs-start(g)
  dn = f32[2,3] abs-done(st)
  after = f32[2,3] exponential(p), control-predecessors={g}
  ROOT o = (f32[2,3], f32[2,3]) tuple(dn, after)
}
"""
MODULES: Final = {
    "text of a schedule": HloModule.parse(SCHEDULED),
    "bytes of a schedule": HloModule.from_proto(HloModule.parse(SCHEDULED).to_bytes()),
    "text of a loop": HloModule.parse(LOOP),
    "bytes of a loop": HloModule.from_proto(HloModule.parse(LOOP).to_bytes()),
}
ADDED: Final = (
    """added{n} {{ aa = f32[2,3] parameter(0)  ab = f32[2,3] {called}  ROOT ac = f32[2,3] multiply(ab, aa) }}"""
)
LAYOUTS: Final = ("{0,1}", "{1,0}", "{1,0:T(8,128)}")
LINES: Final = (
    "add({one}, {other})",
    "negate({one})",
    "tuple({one}, {other}, {one})",
    "copy({one}), control-predecessors={{{other}}}",
    "f32[2,3] constant({{{{1,2,3}},{{4,5,6}}}})",
    "f32[2,3] fusion({one}), kind=kLoop, calls={called}",
    "f32[2,3] call({one}), to_apply={called}",
    "f32[2,3] call({one}), to_apply={{ ia = f32[2,3] parameter(0)  ROOT ib = f32[2,3] abs(ia) }}",
    "((f32[2,3]), f32[2,3], u32[]) negate-start({one})",
    "((f32[2,3]), f32[2,3], u32[]) async-start({one}), calls={called}",
    'f32[2,3] abs({one}), metadata={{op_name="made" stack_frame_id=1}}, sharding={{replicated}}',
)
EDITS: Final = (
    "insert", "insert", "delete", "replace_uses", "replace_some", "set_operands", "rewrite", "rename", "set_root",
    "set_layout", "set_attribute", "set_shape", "add_computations", "replace_calls", "rename_computation", "remove_dead",
    "insert_instruction",
)  # fmt: skip


def edit(data: st.DataObject, module: HloModule, count: int) -> None:
    """Makes an edit, which may be refused."""

    def any_of(values: object) -> object:
        return data.draw(st.sampled_from(list(values)))  # type: ignore[call-overload]

    computation = any_of(module.computations)
    one, other = any_of(computation.instructions), any_of(computation.instructions)
    if one.opcode == "parameter":  # most edits refuse it
        one = any_of(computation.instructions)
    called = any_of(module.computations).name
    line = any_of(LINES).format(one=one.name, other=other.name, called=called)
    match any_of(EDITS):
        case "insert":
            root = any_of(("", "", "ROOT "))
            before = any_of((None, None, other, other.name))
            computation.insert(f"{root}new.{count} = {line}", before)
        case "insert_instruction":
            computation.insert_instruction(f"made.{count}", any_of(("add", "tuple", "abs")), [one, other.name])
        case "delete":
            one.delete(any_of((None, other, other.name)))
        case "replace_uses":
            one.replace_uses(any_of((other, other.name)))
        case "replace_some":
            one.replace_uses(other, [each for each in one.users if data.draw(st.booleans())])
        case "set_operands":
            one.set_operands([any_of(computation.instructions) for _ in one.operands])
        case "rewrite":
            before = computation.instructions[: one.index] or computation.instructions
            one.rewrite(any_of(LINES).format(one=any_of(before).name, other=any_of(before).name, called=called))
        case "rename":
            one.rename(any_of((f"x.{count}", other.name, "y", "not a name")))
        case "set_root":
            computation.set_root(one)
        case "set_layout":
            one.set_layout(any_of(LAYOUTS), any_of(((), (), (1,))))
        case "set_attribute":
            name, value = any_of((("sharding", "{replicated}"), ("to_apply", called), ("calls", called), ("index", 0)))
            one.set_attribute(name, value)
        case "set_shape":
            one.set_shape(any_of(("f32[2,3]", "f32[3,2]", "(f32[2,3], s32[])")))
        case "add_computations":
            operation = any_of((f"call(aa), to_apply={called}", "abs(aa)", f"fusion(aa), kind=kLoop, calls={called}"))
            module.add_computations(ADDED.format(n=count, called=operation))
        case "replace_calls":
            computation.replace_calls(called)
        case "rename_computation":
            computation.rename(any_of((f"z.{count}", called)))
        case "remove_dead":
            module.remove_dead()


@pytest.mark.parametrize("name", MODULES)
@settings(max_examples=15, deadline=None)
@given(st.data())
def test_any_sequence_of_edits_leaves_a_consistent_module(name: str, data: st.DataObject):
    original = MODULES[name]
    copied = [(original, original.to_bytes())]
    module = original.copy()
    for count in range(data.draw(st.integers(1, 8))):
        if data.draw(st.booleans()):
            copied.append((module, module.to_bytes()))
            module = module.copy()
        before = everything(module)
        try:
            edit(data, module, count)
        except XlashapeError:
            assert everything(module) == before
            continue
        check_consistent(module)
    for earlier, written in copied:
        assert earlier.to_bytes() == written
    for earlier, _ in copied[1:]:
        check_consistent(earlier)


# -- copies ------------------------------------------------------------------------------------------


def all_edits(module: HloModule) -> None:
    """Edits of every kind."""
    module.instruction("a").rename("b")
    module.instruction("k").set_layout("{0,1}")
    module.instruction("c").delete(replace_with="f")
    module.instruction("os").rewrite("negate(oa)")
    module.instruction("p").set_shape("f32[3,2]")
    module.entry.insert("ROOT n = f32[2,3] fusion(r), kind=kLoop, calls=outer")
    module.entry.rename("main")
    module.add_computations("f { fp = f32[] parameter(0)  ROOT fr = f32[] abs(fp) }")
    module.instruction("f").set_attribute("sharding", "{replicated}")
    module.computation("outer").set_root("oa")
    module.remove_dead()


def test_a_copy_shares_kinds_and_nothing_that_changes():
    for original in (MODULES["text of a schedule"].copy(), MODULES["bytes of a schedule"].copy()):
        before = everything(original)
        copy = original.copy()
        assert copy.kinds is original.kinds
        assert everything(copy)["bytes"] == before["bytes"]
        assert copy.to_text() == original.to_text()
        for one, other in zip(original.instructions(), copy.instructions(), strict=True):
            assert one is not other
            assert one.kind is other.kind
            assert other.computation.module is copy
        all_edits(copy)
        check_consistent(copy)
        assert everything(original) == before
        after = everything(copy)
        all_edits(original)
        assert everything(copy) == after
        assert original.to_text() == copy.to_text()


def test_a_copy_of_a_module_that_was_not_read_is_not_read_either():
    data = HloModule.parse(SCHEDULED).to_bytes()
    original = HloModule.from_proto(data)
    copy = original.copy()
    assert not any(each.is_filled for module in (original, copy) for each in module.computations)
    copy.computation("fused").instruction("w").set_opcode("subtract")
    assert not any(each.is_filled for each in original.computations)
    assert [each.name for each in copy.computations if each.is_filled] == ["fused"]
    assert original.to_bytes() == data
    assert original.instruction("w").opcode == "add"
    assert HloModule.from_proto(copy.to_bytes()).instruction("w").opcode == "subtract"
    original.instruction("w").set_opcode("multiply")
    assert copy.instruction("w").opcode == "subtract"


# -- bytes -------------------------------------------------------------------------------------------


def serialized_computations(module: HloModule) -> dict[str, bytes]:
    return {each.name: each.SerializeToString() for each in module.proto.computations}


def test_computations_that_an_edit_does_not_change_keep_their_bytes():
    data = HloModule.parse(SCHEDULED).to_bytes()
    for name in ("inner", "outer", "fused", "e"):
        module = HloModule.from_proto(data)
        sources = {each.name: bytes(each.source or b"") for each in module.computations}
        root = module.computation(name).root
        root.set_attribute("frontend_attributes", '{a="b"}')
        written = {each.name: each.source for each in module.computations}
        assert {each for each, source in written.items() if source is None} == {name}
        for other, source in sources.items():
            assert (source in module.to_bytes()) == (other != name)
        assert [each for each in written if written[each] is not None and bytes(written[each]) != sources[each]] == []
        check_consistent(module)


def test_edits_that_change_nothing_keep_the_bytes():
    data = HloModule.parse(SCHEDULED).to_bytes()
    module = HloModule.from_proto(data)
    module.instruction("a").rename("a")
    module.entry.rename("e")
    module.remove_dead()
    module.computation("inner").replace_calls("inner")
    assert module.to_bytes() is data


def test_users_follow_an_edit():
    def users(instruction: HloInstruction) -> list[str]:
        return sorted(each.name for each in instruction.users)

    module = HloModule.parse(SCHEDULED)
    k = module.instruction("k")
    assert users(k) == ["a", "d", "f"]
    module.instruction("a").set_operands(["p", "p"])
    made = module.entry.insert("new = add(k, k)")
    assert users(k) == ["d", "f", "new"]
    assert users(module.instruction("p")) == ["a", "l"]
    assert made.users == ()
    k.replace_uses(made)
    assert users(k) == ["new"]
    assert users(made) == ["d", "f"]
    module.instruction("d").delete(replace_with=made)
    assert users(made) == ["f", "r"]
