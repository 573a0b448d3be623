"""Reports whose totals count a loop once say so where nothing tells how often it runs."""

import pytest

import xlashape as xs

_LOOP = """HloModule m, is_scheduled=true, num_partitions=2
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
body { s = (s32[], f32[64,64]{1,0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0  x = f32[64,64]{1,0} get-tuple-element(s), index=1
  one = s32[] constant(1)  n = s32[] add(i, one)
  c = f32[64,64]{0,1} copy(x)  t = f32[64,64]{1,0} transpose(c), dimensions={1,0}
  r = f32[64,64]{1,0} all-reduce(t), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add
  ROOT o = (s32[], f32[64,64]{1,0}) tuple(n, r) }
cond { s = (s32[], f32[64,64]{1,0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0  ten = s32[] constant(10)
  ROOT l = pred[] compare(i, ten), direction=LT }
ENTRY e { start = s32[] START  x = f32[64,64]{1,0} parameter(0)
  packed = (s32[], f32[64,64]{1,0}) tuple(start, x)
  ROOT steps = (s32[], f32[64,64]{1,0}) while(packed), condition=cond, body=body, metadata={source_file="a.py" source_line=7} }
"""
_KNOWN, _UNKNOWN = _LOOP.replace("START", "constant(0)"), _LOOP.replace("START", "parameter(1)")
_NOTE = "It is not known how often the loop steps (a.py:7) runs: one iteration counts in every total."


@pytest.mark.parametrize("report", [xs.cost, xs.copies, xs.reads, xs.collectives, xs.summary])
def test_totals_with_one_iteration_of_a_loop_say_so(report):
    answer = report(_UNKNOWN)
    assert answer.notes == (_NOTE,)
    assert str(answer).count(_NOTE) == 1
    assert report(_KNOWN).notes == ()


def test_reports_that_no_loop_matters_to_say_nothing():
    assert xs.reads(_UNKNOWN, instruction="packed").notes == () and xs.reads(_UNKNOWN, instruction="c").notes == (
        _NOTE,
    )
    reduced = next(line for line in _UNKNOWN.splitlines() if "all-reduce(" in line)
    assert xs.collectives(_UNKNOWN.replace(reduced, "r = f32[64,64]{1,0} negate(t)")).notes == ()


def test_several_loops_are_counted():
    loop = "ROOT steps = (s32[], f32[64,64]{1,0}) while(packed), condition=cond, body=body"
    twice = _UNKNOWN.replace(
        loop, loop.replace("ROOT steps", "first") + "\n" + loop.replace("while(packed)", "while(first)")
    )
    (note,) = xs.cost(twice).notes
    assert note.startswith("It is not known how often 2 loops run, such as ")
    assert note.endswith(": one iteration of each counts in every total.")


def test_with_loops_counted_as_xla_does_nothing_is_unknown():
    assert xs.cost(_UNKNOWN, as_xla=True).notes == ()
