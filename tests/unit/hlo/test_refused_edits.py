"""Edits that are refused: the error says why, and nothing has changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.edited_modules import check_consistent, everything
from xlashape.errors import (
    DecodeError,
    InvalidArgumentError,
    InvalidShapeError,
    NotFoundError,
    ParseError,
    XlashapeError,
)
from xlashape.hlo import HloModule, Opcode
from xlashape.limits import budget
from xlashape.proto import xla
from xlashape.proto.wire import BYTES, sized, tag

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

inner { iq = f32[4,8] parameter(0)  ROOT ir = f32[4,8] negate(iq) }

outer { oq = f32[4,8] parameter(0)  ROOT or = f32[4,8] call(oq), to_apply=inner }

ENTRY e {
  p = f32[4,8]{1,0} parameter(0)
  q = f32[4,8]{1,0} parameter(1)
  add.1 = f32[4,8]{1,0} add(p, q), sharding={replicated}, metadata={op_name="jit(f)/add"}, frontend_attributes={a="b"}
  zero = f32[] constant(0)
  called = f32[4,8]{1,0} call(add.1), to_apply=outer, control-predecessors={zero}
  r = f32[4]{0} reduce(add.1, zero), dimensions={1}, to_apply=sum
  ROOT n = f32[4]{0} negate(r)
}
"""
MODULE = HloModule.parse(TEXT)


@pytest.mark.parametrize(
    ("edit", "error", "message"),
    [
        (lambda m: m.instruction("nope").rewrite("abs(p)"), NotFoundError, "module 'm' has no instruction 'nope'"),
        (lambda m: m.instruction("p").rewrite("abs(q)"), InvalidArgumentError, "'p' is a parameter: the computation's callers give it"),
        (lambda m: m.instruction("n").rewrite("m = abs(r)"), InvalidArgumentError, "the text names 'm', not 'n': use rename"),
        (lambda m: m.instruction("n").rewrite("abs(n)"), ParseError, r"line 1, column 5: no instruction 'n' is defined before this"),
        (lambda m: m.instruction("r").rewrite("f32[4] slice(n), slice={[0:4]}"), InvalidArgumentError, "'n' needs 'r': it cannot be its operand"),
        (lambda m: m.instruction("n").rewrite("f32[4] abs(nn)"), ParseError, r"line 1, column 12: no instruction 'nn' .*\n  f32\[4\] abs\(nn\)\n {13}\^"),
        (lambda m: m.instruction("n").rewrite("abs(r), to_apply=sum"), ParseError, "abs has no attribute to_apply"),
        (lambda m: m.instruction("n").rewrite("abs(r"), ParseError, r"line 1, column 6: expected ',' or '\)'"),
        (lambda m: m.instruction("n").rewrite(""), ParseError, "line 1, column 1"),
        (lambda m: m.instruction("n").rewrite(3), InvalidArgumentError, "text takes a line of HLO text, not int"),
        (lambda m: m.entry.insert("abs(n)"), InvalidArgumentError, r"'abs\(n\)' has no name: write `name = …`"),
        (lambda m: m.entry.insert("k = abs(n)"), InvalidArgumentError, "there is an instruction 'k' already"),
        (lambda m: m.entry.insert("y = abs(n)\nz = abs(n)"), InvalidArgumentError, "the text has several instructions"),
        (lambda m: m.entry.insert("y = add(k, n)"), ParseError, "line 1, column 9: no instruction 'k'"),
        (lambda m: m.entry.insert("y = f32[4] add(k, n)"), ParseError, "line 1, column 16: no instruction 'k'"),
        (lambda m: m.entry.insert("y = abs(n) }"), ParseError, "line 1, column 12: expected the end of the instruction, found '}'"),
        (lambda m: m.entry.insert("y = abs(n)\n  z"), ParseError, "line 2, column 3: expected the end of the instruction, found 'z'"),
        (lambda m: m.entry.insert("y = add(abs(n), n)"), InvalidArgumentError, "the text has several instructions"),
        (lambda m: m.entry.insert("y = abs(n)", before="r"), InvalidArgumentError, "'y' needs 'r': it cannot be before it"),
        (lambda m: m.entry.insert("y = abs(n)", before="k"), InvalidArgumentError, "'k' is in computation 'sum', not in 'e'"),
        (lambda m: m.entry.insert("y = f32[] parameter(2)"), InvalidArgumentError, "a parameter is given its value by the callers"),
        (lambda m: m.entry.insert("y = abz(n)"), ParseError, "line 1, column 5: unknown opcode 'abz'"),
        (lambda m: m.entry.insert("y = f32[4] map(n), dimensions={0}, to_apply=e"), ParseError, "no computation 'e' is defined before this"),
        (lambda m: m.instruction("r").set_opcode("negate"), InvalidArgumentError, "negate has no attribute dimensions"),
        (lambda m: m.instruction("n").set_opcode("nope"), InvalidArgumentError, "'nope' is not an opcode"),
        (lambda m: m.instruction("p").set_opcode("abs"), InvalidArgumentError, "'p' is a parameter|contains"),
        (lambda m: m.instruction("ad.1").rewrite("abs(p)"), NotFoundError, r"has no instruction 'ad.1': did you mean 'add.1'\?"),
        (lambda m: m.computation("summ").replace_calls("max"), NotFoundError, r"has no computation 'summ': did you mean 'sum'\?"),
        (lambda m: m.instruction("n").set_opcode("negat"), InvalidArgumentError, r"'negat' is not an opcode: did you mean 'negate'\?"),
        (lambda m: m.instruction("zero").set_opcode("negate"), InvalidArgumentError, "'zero' is a constant, which is not made of operands"),
        (lambda m: m.instruction("n").set_opcode("constant"), InvalidArgumentError, "a constant is not made of operands"),
        (lambda m: m.instruction("n").set_opcode("async-start"), InvalidArgumentError, "async-start is written as what it wraps"),
        (lambda m: m.instruction("n").set_opcode("add"), InvalidArgumentError, "add takes 2 operands, not 1"),
        (lambda m: m.instruction("n").set_opcode("transpose"), InvalidArgumentError, "transpose needs the attribute dimensions"),
        (lambda m: m.instruction("r").set_attribute("dimension", (0,)), InvalidArgumentError, r"reduce has no attribute dimension: did you mean 'dimensions'\?"),
        (lambda m: m.instruction("r").set_attribute("dimensions", None), InvalidArgumentError, "reduce needs the attribute dimensions"),
        (lambda m: m.instruction("r").set_attribute("dimensions", 1), InvalidArgumentError, "dimensions takes a list of integers, not 1"),
        (lambda m: m.instruction("r").set_attribute("dimensions", "{1"), ParseError, "line 1, column 3"),
        (lambda m: m.instruction("r").set_attribute("to_apply", "summ"), NotFoundError, r"no computation 'summ': did you mean 'sum'\?"),
        (lambda m: m.instruction("r").set_attribute("to_apply", "e"), InvalidArgumentError, "'e' is the entry, which nothing may call"),
        (lambda m: m.instruction("r").set_attribute("to_apply", ["sum", "max"]), InvalidArgumentError, "to_apply takes one computation, not 2"),
        (lambda m: m.instruction("n").set_attribute("sharding", 3), InvalidArgumentError, "sharding takes a Sharding, not 3"),
        (lambda m: m.entry.insert_instruction("y", "negat", ["n"]), InvalidArgumentError, "did you mean 'negate'"),
        (lambda m: m.entry.insert_instruction("y", "negate", ["m"]), NotFoundError, "has no instruction 'm'"),
        (lambda m: m.entry.insert_instruction("n", "negate", ["n"]), InvalidArgumentError, "there is an instruction 'n' already"),
        (lambda m: m.entry.insert_instruction("y", "add", ["n", "p"]), InvalidArgumentError, "add: "),
        (lambda m: m.entry.insert_instruction("y", "transpose", ["n"], attributes={"dims": (0,)}), InvalidArgumentError, "transpose has no attribute dims"),
        (lambda m: m.entry.insert_instruction("y", "custom-call", ["n"], attributes={"custom_call_target": "t"}), InvalidArgumentError, "the shape of custom-call must be written"),
        (lambda m: m.entry.insert_instruction("y", "negate", ["n"], before="r"), InvalidArgumentError, "'y' needs 'r': it cannot be before it"),
        (lambda m: m.entry.insert_instruction("y", "negate", "n"), InvalidArgumentError, "operands takes a list of instructions or names, not text"),
        (lambda m: m.instruction("n").set_operands("r"), InvalidArgumentError, "operands takes a list of instructions or names, not text"),
        (lambda m: m.instruction("n").set_operands(["r", "r"]), InvalidArgumentError, "negate takes 1 operands, not 2"),
        (lambda m: m.instruction("p").set_operands(["q"]), InvalidArgumentError, "parameter takes 0 operands, not 1"),
        (lambda m: m.instruction("n").set_operands(["k"]), InvalidArgumentError, "'k' is in computation 'sum', not in 'e'"),
        (lambda m: m.instruction("n").set_operands(["n"]), InvalidArgumentError, "'n' is the instruction itself: it cannot be its operand"),
        (lambda m: m.instruction("r").set_operands(["n", "zero"]), InvalidArgumentError, "'n' needs 'r': it cannot be its operand"),
        (lambda m: m.instruction("zero").set_shape("f32[3]"), InvalidArgumentError, "'zero' is a constant, whose elements have its shape"),
        (lambda m: m.instruction("n").set_shape("f33[3]"), ParseError, "'f33' is not an element type"),
        (lambda m: m.instruction("p").replace_uses("r"), InvalidArgumentError, r"'r' is f32\[4\]\{0\}, 'p' is f32\[4,8\]\{1,0\}"),
        (lambda m: m.instruction("p").replace_uses("add.1", users=["add.1"]), InvalidArgumentError, "'add.1' needs 'add.1'"),
        (lambda m: m.entry.set_root("nope"), NotFoundError, "has no instruction 'nope'"),
        (lambda m: m.add_computations(""), InvalidArgumentError, "the text has no computation"),
        (lambda m: m.add_computations("ENTRY f { ROOT a = f32[] parameter(0) }"), InvalidArgumentError, "without HloModule and ENTRY"),
        (lambda m: m.add_computations("sum { a = f32[] parameter(0) }"), InvalidArgumentError, "there is a computation 'sum' already"),
        (lambda m: m.add_computations("f { a = f32[] parameter(0)\n  b = f33[] abs(a) }"), ParseError, "line 2, column 7: 'f33' is not an element type"),
        (lambda m: m.add_computations("f { a = f32[] parameter(0)"), ParseError, "line 1, column 27"),
        (lambda m: m.computation("sum").replace_calls("nope"), NotFoundError, "module 'm' has no computation 'nope'"),
        (lambda m: m.computation("sum").replace_calls("e"), InvalidArgumentError, "'e' is the entry, which nothing may call"),
        (lambda m: m.instruction("nope").rename("x"), NotFoundError, "module 'm' has no instruction 'nope'"),
        (lambda m: m.instruction("r").rename("k"), InvalidArgumentError, "there is an instruction 'k' already"),
        (lambda m: m.instruction("r").rename("a b"), InvalidArgumentError, "'a b' is not a valid name"),
        (lambda m: m.instruction("r").rename(""), InvalidArgumentError, "'' is not a valid name"),
        (lambda m: m.instruction("r").rename("%y"), InvalidArgumentError, "'%y' is not a valid name"),
        (lambda m: m.instruction("r").rename(3), InvalidArgumentError, "name takes text, not int"),
        (lambda m: m.computation("y").rename("z"), NotFoundError, "no computation 'y'"),
        (lambda m: m.entry.rename("sum"), InvalidArgumentError, "there is a computation 'sum' already"),
        (lambda m: m.entry.rename("a b"), InvalidArgumentError, "'a b' is not a valid name"),
        (lambda m: m.instruction("p").delete(), InvalidArgumentError, "'p' is a parameter"),
        (lambda m: m.instruction("r").delete(), InvalidArgumentError, "'r' is used by 'n': name its replacement in `replace_with`"),
        (lambda m: m.instruction("n").delete(), InvalidArgumentError, "'n' is the root of 'e'"),
        (lambda m: m.instruction("n").delete("k"), InvalidArgumentError, "'k' is in computation 'sum', not in 'e'"),
        (lambda m: m.instruction("r").delete("n"), InvalidArgumentError, "'n' depends on 'r'"),
        (lambda m: m.instruction("r").delete("r"), InvalidArgumentError, "'r' depends on 'r'"),
        (lambda m: m.instruction("r").delete("p"), InvalidArgumentError, r"'p' is f32\[4,8\]\{1,0\}, 'r' is f32\[4\]\{0\}"),
        (lambda m: m.instruction("add.1").set_layout("{0}"), InvalidShapeError, "layout"),
        (lambda m: m.instruction("add.1").set_layout("{1,0}", [0]), InvalidShapeError, "has no element 0"),
        (lambda m: m.instruction("n").set_shape(3), InvalidArgumentError, "shape takes a Shape or its text, not int"),
        (lambda m: m.instruction("n").set_operands(m.instruction("r")), InvalidArgumentError, "operands takes a list of instructions or names, not one instruction"),
        (lambda m: m.instruction("n").set_operands([3]), InvalidArgumentError, "operands takes an instruction or its name, not int"),
        (lambda m: m.instruction("n").set_operands([MODULE.instruction("r")]), InvalidArgumentError, "'r' is in another module, not in 'e'"),
        (lambda m: m.instruction("p").replace_uses("q", "add.1"), InvalidArgumentError, "users takes a list of instructions or names, not text"),
        (lambda m: m.instruction("p").replace_uses(MODULE.instruction("q")), InvalidArgumentError, "'q' is in another module, not in 'e'"),
        (lambda m: m.entry.set_root("s"), InvalidArgumentError, "'s' is in computation 'sum', not in 'e'"),
        (lambda m: m.computation("sum").replace_calls(MODULE.computation("max")), InvalidArgumentError, "'max' is a computation of another module"),
        (lambda m: m.computation("sum").replace_calls(None), InvalidArgumentError, "replacement takes a computation or its name, not NoneType"),
        (lambda m: m.computation("inner").replace_calls("outer"), InvalidArgumentError, "computation 'outer' cannot call itself"),
        (lambda m: m.instruction("r").set_attribute("to_apply", MODULE.computation("max")), InvalidArgumentError, "'max' is a computation of another module"),
        (lambda m: m.instruction("r").set_attribute("to_apply", 3), InvalidArgumentError, "to_apply takes a computation or its name, or a list, not 3"),
        (lambda m: m.instruction("r").set_attribute("to_apply", [3]), InvalidArgumentError, "to_apply takes a computation or its name, not int"),
        (lambda m: m.instruction("or").set_attribute("to_apply", "outer"), InvalidArgumentError, "computation 'outer' cannot call itself"),
        (lambda m: m.instruction("ir").rewrite("call(iq), to_apply=outer"), InvalidArgumentError, "computation 'outer' calls 'inner', which cannot call it too"),
        (lambda m: m.computation("inner").insert("y = f32[4,8] fusion(iq), kind=kLoop, calls=outer"), InvalidArgumentError, "computation 'outer' calls 'inner', which cannot call it too"),
        (lambda m: m.computation("inner").insert_instruction("y", "call", ["iq"], attributes={"to_apply": "inner"}), InvalidArgumentError, "computation 'inner' cannot call itself"),
        (lambda m: m.entry.insert_instruction("y", "call", ["p"], attributes={"to_apply": "e"}), InvalidArgumentError, "'e' is the entry, which nothing may call"),
        (lambda m: m.add_computations(3), InvalidArgumentError, "text takes HLO text, not int"),
        (lambda m: m.add_computations("sum.0 { ROOT aa = f32[] parameter(0) } max { ROOT bb = f32[] parameter(0) }"), InvalidArgumentError, "there is a computation 'max' already"),
        (lambda m: m.add_computations("f { a = f32[] parameter(0)  ROOT b = f32[] map(a), to_apply=e }"), ParseError, "no computation 'e' is defined before this"),
        (lambda m: m.add_computations("f { a = f32[4,8] parameter(0)  ROOT b = f32[4,8] fusion(a), kind=kLoop, calls=outer }  g { c }"), ParseError, "line 1, column 94"),
        (lambda m: m.add_computations("f { a = f32[4,8] parameter(0)  st = ((f32[4,8]), f32[4,8]) async-start(a), calls=outer, async_execution_thread=\"t\", metadata={op_name=\"x\"}  b = abz(a) }"), ParseError, "unknown opcode 'abz'"),
        (lambda m: m.entry.insert("y = ((f32[4,8]), f32[4,8]) async-start(p), calls=outer, async_execution_thread=\"t\", frontend_attributes={z=\"1\"}, nope={1}"), ParseError, "has no attribute nope"),
        (lambda m: m.entry.insert("y = ((f32[4,8]), f32[4,8]) negate-start(p) y"), ParseError, "expected the end of the instruction"),
        (lambda m: m.entry.insert("y = f32[4,8] fusion(p), kind=kLoop, calls=outer }"), ParseError, "expected the end of the instruction"),
        (lambda m: m.instruction("r").rewrite("f32[4] reduce(add.1, zero), dimensions={1}, to_apply={ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT t = f32[] minimum(a, b) }, nope=1"), ParseError, "has no attribute nope"),
        (lambda m: m.instruction("r").rewrite("f32[4] call(n), to_apply={ a = f32[4] parameter(0)  ROOT t = f32[4] abs(a) }"), InvalidArgumentError, "'n' needs 'r': it cannot be its operand"),
        (lambda m: m.instruction("n").rewrite("abs(r), control-predecessors={n}"), ParseError, "no instruction 'n' is defined before this"),
        (lambda m: m.instruction("r").rewrite("reduce(add.1, zero), dimensions={1}, to_apply=sum, control-predecessors={n}"), InvalidArgumentError, "'n' needs 'r': it cannot be its operand"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("source", ["text", "bytes"])
def test_what_is_refused_changes_nothing(
    edit: Callable[[HloModule], object], error: type[XlashapeError], message: str, source: str
):
    module = MODULE.copy() if source == "text" else HloModule.from_proto(MODULE.to_bytes())
    before = everything(module)
    with pytest.raises(error, match=message):
        edit(module)
    assert everything(module) == before
    with pytest.raises(error, match=message):
        edit(module)  # what the first one has read or made does not count
    assert everything(module) == before


@pytest.mark.parametrize(
    "edit",
    [
        lambda m: m.entry.set_root("c"),
        lambda m: m.entry.set_root("a"),
        lambda m: m.instruction("a").replace_uses("c"),
        lambda m: m.instruction("a").delete(replace_with="c"),
        lambda m: m.instruction("c").set_shape("f32[2]"),
        lambda m: m.instruction("c").set_operands(["p"]),
        lambda m: m.instruction("c").rewrite("abs(p)"),
        lambda m: m.remove_dead(),
    ],
)
def test_broken_bytes_are_found_before_anything_changes(edit: Callable[[HloModule], object]):
    proto = HloModule.parse(
        'ENTRY e { p = f32[4] parameter(0)  c = f32[4] custom-call(p), custom_call_target="t"  ROOT a = f32[4] abs(p) }'
    ).to_proto()
    computation = proto.computations[0]
    number = xla.HloInstructionProto.DESCRIPTOR.fields_by_name["sharding"].number
    broken = tag(number, BYTES) + sized(b"\xff\xff")
    parts = [
        tag(2, BYTES) + sized(each.SerializeToString() + (broken if each.name == "c" else b""))
        for each in computation.instructions
    ]
    computation.ClearField("instructions")
    data = tag(3, BYTES) + sized(computation.SerializeToString() + b"".join(parts))
    proto.ClearField("computations")
    data = proto.SerializeToString() + data
    module = HloModule.from_proto(data)
    names = [(each.name, each.index, each.operands, each.users) for each in module.instructions()]
    try:
        edit(module)
    except DecodeError:
        assert module.to_bytes() == data
        assert [(each.name, each.index, each.operands, each.users) for each in module.instructions()] == names
        assert module.entry.root.name == "a"
    else:  # this edit needs nothing of the broken attribute, and keeps its bytes
        assert broken in module.to_bytes()


@pytest.mark.parametrize("steps", range(0, 40, 2))
def test_a_budget_that_runs_out_changes_nothing(steps: int):
    """The edit puts instructions in another order, and reads text."""
    module = HloModule.parse(
        """ENTRY e { p = f32[2] parameter(0)  a = f32[2] copy(p)  u = f32[2] negate(a)  b = f32[2] abs(p)
        ROOT r = f32[2] add(u, b) }"""
    )
    for edit, made in (
        (
            lambda: module.instruction("a").replace_uses("b"),
            lambda: module.instruction("b") in module.instruction("u").operands,
        ),
        (lambda: module.entry.insert("n = ((f32[2]), f32[2]) abs-start(p)"), lambda: "n" in module.entry.by_name()),
    ):
        before = everything(module)
        try:
            with budget(steps=steps):
                edit()
        except XlashapeError:
            assert everything(module) == before
        else:
            assert made()
            check_consistent(module)


def test_ids_that_run_out_change_nothing():
    proto = MODULE.to_proto()
    computation = proto.computations[-1]
    old, new = computation.instructions[0].id, (computation.id << 32) | 0x7FFFFFFF
    for each in computation.instructions:
        each.id = new if each.id == old else each.id
        each.operand_ids[:] = [new if number == old else number for number in each.operand_ids]
        each.control_predecessor_ids[:] = [new if i == old else i for i in each.control_predecessor_ids]
    sequence = proto.schedule.sequences[computation.id].instruction_ids
    sequence[:] = [new if number == old else number for number in sequence]
    module = HloModule(proto)
    before = everything(module)
    for edit in (
        lambda: module.entry.insert("y = abs(n)"),
        lambda: module.entry.insert("y = ((f32[4,8]), f32[4,8]) negate-start(p)"),
        lambda: module.entry.insert_instruction("y", Opcode.ABS, ["n"]),
    ):
        with pytest.raises(InvalidArgumentError, match="no further ones of 32 bits"):
            edit()
        assert everything(module) == before


def test_what_was_removed_cannot_be_edited():
    module = MODULE.copy()
    gone, computation = module.instruction("called"), module.computation("inner")
    gone.delete(replace_with="add.1")
    assert [each.name for each in module.computations] == ["sum", "max", "e"]
    before = everything(module)
    for edit in (
        lambda: gone.rename("x1"),
        lambda: gone.delete(),
        lambda: gone.set_operands(["p"]),
        lambda: gone.set_opcode("abs"),
        lambda: gone.set_attribute("to_apply", "sum"),
        lambda: gone.set_shape("f32[4]"),
        lambda: gone.set_layout("{0,1}"),
        lambda: gone.rewrite("abs(p)"),
        lambda: gone.replace_uses("p"),
        lambda: module.entry.set_root(gone),
        lambda: module.entry.insert("x1 = abs(p)", before=gone),
        lambda: module.instruction("p").replace_uses(gone),
        lambda: module.instruction("p").replace_uses("q", users=[gone]),
        lambda: module.instruction("n").set_operands([gone]),
        lambda: module.entry.insert_instruction("x1", "abs", [gone]),
    ):
        with pytest.raises(InvalidArgumentError, match="instruction 'called' was deleted"):
            edit()
    for edit in (
        lambda: computation.rename("x1"),
        lambda: computation.insert("x1 = abs(iq)"),
        lambda: computation.insert_instruction("x1", "abs", ["iq"]),
        lambda: computation.set_root("iq"),
        lambda: computation.replace_calls("sum"),
        lambda: computation.root.rewrite("abs(iq)"),
        lambda: module.computation("sum").replace_calls(computation),
        lambda: module.instruction("r").set_attribute("to_apply", computation),
    ):
        with pytest.raises(InvalidArgumentError, match="computation 'inner' was removed"):
            edit()
    assert everything(module) == before
