"""Which arrays loops take apart and stack again, on a loop that is changed in one place at a time."""

from __future__ import annotations

import pytest

import xlashape as xs
from xlashape.hlo import HloModule
from xlashape.reports.memory.restacked import Restacked, restacked

STATE = "(s32[], f32[4096], f32[4,4096]{1,0}, f32[4,4096]{1,0})"
TEXT = """HloModule m, is_scheduled=true, input_output_alias={ {1}: (0, {}, may-alias) }
read { a = f32[4,4096]{1,0} parameter(0) i = s32[] parameter(1) zero = s32[] constant(0)
  ROOT d = f32[1,4096]{1,0} dynamic-slice(a, i, zero), dynamic_slice_sizes={1,4096} }
write { a = f32[4,4096]{1,0} parameter(0) i = s32[] parameter(1) new = f32[1,4096]{1,0} parameter(2) zero = s32[] constant(0)
  ROOT d = f32[4,4096]{1,0} dynamic-update-slice(a, new, i, zero) }
body { s = STATE parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4096] get-tuple-element(s), index=1
  old = f32[4,4096]{1,0} get-tuple-element(s), index=2
  stack = f32[4,4096]{1,0} get-tuple-element(s), index=3
  one = s32[] constant(1)
  next = s32[] add(i, one)
  part = f32[1,4096]{1,0} fusion(old, i), kind=kLoop, calls=read
  flat = f32[4096]{0} bitcast(part)
  y = f32[4096] add(x, flat)
  new = f32[1,4096]{1,0} bitcast(y)
  stacked = f32[4,4096]{1,0} fusion(stack, i, new), kind=kLoop, calls=write
  ROOT t = STATE tuple(next, y, old, stacked) }
cond { s = STATE parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT c = pred[] compare(i, n), direction=LT }
ENTRY e { state = f32[4,4096]{1,0} parameter(0), metadata={op_name="state['h']"}
  x = f32[4096] parameter(1), metadata={op_name="x"}
  zero = s32[] constant(0)
  filled = f32[] constant(0)
  begin = f32[4,4096]{1,0} broadcast(filled), dimensions={}
  t = STATE tuple(zero, x, state, begin)
  w = STATE while(t), condition=cond, body=body, metadata={source_file="model.py" source_line=7}
  out = f32[4096] get-tuple-element(w), index=1
  made = f32[4,4096]{1,0} get-tuple-element(w), index=3
  copied = f32[4,4096]{1,0} copy(made)
  ROOT r = (f32[4096], f32[4,4096]{1,0}) tuple(out, copied) }"""


def found(*changes: tuple[str, str]) -> list[Restacked]:
    text = TEXT
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return restacked(HloModule.parse(text.replace("STATE", STATE)))


def test_an_array_is_found():
    (array,) = found()
    assert (array.taken, array.stacked, array.output, array.where) == (2, 3, (1,), "model.py:7")
    assert array.parameter is not None and array.parameter.number == 0
    assert array.shares and array.is_ordered


def test_what_is_promised():
    memory = xs.memory(TEXT.replace("STATE", STATE))
    (carry,) = [each for each in memory.suggest() if each.change == "carry"]
    assert carry.new_peak_bytes == memory.peak_bytes - 65536
    assert carry.upper_bytes < memory.peak_bytes
    assert carry.text.startswith("carry state['h'] through the scan at model.py:7, and update it at i, ")
    assert carry.parameters is None
    copies = xs.copies(TEXT.replace("STATE", STATE))
    (edit,) = copies.suggestions
    assert (edit.kinds, edit.edits, edit.removes) == (("carry",), ("carry 0",), ("copied",))
    (row,) = [each for each in copies.rows if each.name == "copied"]
    assert row.cause == (
        "While (w) takes parameter 0 (state['h']) apart and stacks its new parts in a second array, which is copied into "
        "the memory of the argument, which is donated for output {1}."
    )
    assert edit.text == carry.text


def test_without_a_donation_the_change_has_one():
    text = TEXT.replace(", input_output_alias={ {1}: (0, {}, may-alias) }", "").replace("STATE", STATE)
    memory = xs.memory(text.replace("copied = f32[4,4096]{1,0} copy(made)", "").replace("copied)", "made)"))
    (carry,) = [each for each in memory.suggest() if each.change == "carry"]
    assert carry.parameters == (0,)
    assert "; and donate it, jax.jit(f, donate_argnames='state')" in carry.text
    assert carry.new_peak_bytes == memory.peak_bytes - 65536


@pytest.mark.parametrize(
    "changes",
    [
        [("tuple(out, copied)", "tuple(out, state)")],  # the argument is returned
        [("copied = f32[4,4096]{1,0} copy(made)", "copied = f32[4,4096]{1,0} add(made, state)")],
        [("flat = f32[4096]{0} bitcast(part)", "flat = f32[4096]{0} sine(x)")],  # what is written does not depend on it
        [("fusion(stack, i, new)", "fusion(stack, next, new)")],  # written at another index
        [("ROOT t = STATE tuple(next, y, old, stacked)", "z = f32[4,4096]{1,0} add(old, old) ROOT t = STATE tuple(next, y, z, stacked)")],
        [("y = f32[4096] add(x, flat)", "v = f32[] constant(0) r = f32[4096] reduce(stack, v), dimensions={0}, to_apply=plus y = f32[4096] add(r, flat)"), ("body {", "plus { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\nbody {")],
        [("constant(4)", "constant(3)")],  # not all parts are written
        [("zero = s32[] constant(0)\n  filled", "zero = s32[] constant(1)\n  filled")],
        [("one = s32[] constant(1)", "one = s32[] constant(2)")],
        [("direction=LT", "direction=GT")],
        [("tuple(zero, x, state, begin)", "tuple(zero, x, begin, begin)")],  # what is taken apart is no argument
        [("ROOT r = (f32[4096], f32[4,4096]{1,0}) tuple(out, copied)", "z = f32[4,4096]{1,0} negate(made) ROOT r = (f32[4096], f32[4,4096]{1,0}) tuple(out, z)")],
    ],
)  # fmt: skip
def test_what_needs_two_arrays(changes: list[tuple[str, str]]):
    assert found(*changes) == []


def test_what_is_read_before_the_loop_may_be():
    (array,) = found(
        ("t = STATE tuple(zero, x, state, begin)", "first = f32[4096] reshape(row) t = STATE tuple(zero, first, state, begin)"),
        ("zero = s32[] constant(0)\n  filled", "row = f32[1,4096]{1,0} slice(state), slice={[0:1],[0:4096]} zero = s32[] constant(0)\n  filled"),
    )  # fmt: skip
    assert array.shares


def test_indices_from_the_end():
    (array,) = found(
        ("part = f32[1,4096]{1,0} fusion(old, i)", "three = s32[] constant(3) j = s32[] subtract(three, i) part = f32[1,4096]{1,0} fusion(old, j)"),
        ("fusion(stack, i, new)", "fusion(stack, j, new)"),
    )  # fmt: skip
    assert array.is_ordered


def test_another_reader_of_a_part_is_told():
    (array,) = found(
        ("ROOT t = STATE tuple(next, y, old, stacked)", "z = f32[1,4096]{1,0} fusion(old, i), kind=kLoop, calls=read v = f32[4096] bitcast(z) ROOT t = STATE tuple(next, v, old, stacked)"),
    )  # fmt: skip
    assert not array.is_ordered
