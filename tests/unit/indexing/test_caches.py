"""Caches of the analysis: they change no answers and hold bounded memory."""

from __future__ import annotations

import tracemalloc

import pytest

from xlashape.base import caches
from xlashape.hlo import HloModule
from xlashape.indexing import Analysis, module_indexing, module_reads, output_to_input
from xlashape.indexing.ops.register import OUTPUT_TO_INPUT
from xlashape.indexing.walk.instruction_answers import MAX_SETS, signature
from xlashape.limits import budget

MIXED = """HloModule m

f {
  a = f32[8,4] parameter(0)
  ROOT r = f32[32] reshape(a)
}

ENTRY e {
  p = f32[8,4] parameter(0)
  i = s32[] parameter(1)
  z = s32[] constant(0)
  n = f32[8,4] negate(p)
  t = f32[4,8] transpose(n), dimensions={1,0}
  d = f32[2,4] dynamic-slice(p, i, z), dynamic_slice_sizes={2,4}
  c = f32[32] call(n), to_apply=f
  ROOT r = (f32[4,8], f32[2,4], f32[32]) tuple(t, d, c)
}
"""


def tuple_of(count: int) -> HloModule:
    shapes = [f"f32[{i % 7 + 1}]" for i in range(count)]
    lines = [f"  p{i} = {shape} parameter({i})" for i, shape in enumerate(shapes)]
    names = ", ".join(f"p{i}" for i in range(count))
    body = "\n".join([*lines, f"  ROOT t = ({', '.join(shapes)}) tuple({names})"])
    return HloModule.parse(f"HloModule m\n\nENTRY e {{\n{body}\n}}\n")


def test_answers_do_not_depend_on_caches():
    module = HloModule.parse(MIXED)
    found = [list(module_indexing(module)), list(module_indexing(module))]
    caches.clear()
    found.append(list(module_indexing(module)))
    found.append(list(module_indexing(HloModule.parse(MIXED))))
    texts = [[(one.output, [str(reads) for reads in one.operands]) for one in all_of_module] for all_of_module in found]
    assert texts[0] == texts[1] == texts[2] == texts[3]
    assert found[0] == found[2]
    assert len(texts[0]) == 8


def test_collectives_on_different_channels_share_answers():
    module = HloModule.parse(
        """HloModule m, num_partitions=2

ENTRY e {
  p = f32[4] parameter(0)
  a = f32[8] all-gather(p), dimensions={0}, channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true
  b = f32[8] all-gather(p), dimensions={0}, channel_id=2, replica_groups={{0,1}}, use_global_device_ids=true
  c = f32[8] all-gather(p), dimensions={0}, channel_id=3, replica_groups={{0,1}}
  ROOT t = (f32[8], f32[8], f32[8]) tuple(a, b, c)
}
"""
    )
    first, second, across_partitions = [output_to_input(module.instruction(name)) for name in "abc"]
    assert first is second
    assert first is not across_partitions


def test_equal_modules_share_answers():
    first, second = HloModule.parse(MIXED), HloModule.parse(MIXED)
    one, other = output_to_input(first.instruction("t")), output_to_input(second.instruction("t"))
    assert one is other


def test_outputs_one_after_the_other_are_the_same_as_each_alone():
    root = HloModule.parse(MIXED).entry.root
    together = Analysis()
    for output in (0, 2, 1, 0):
        found = together.output_to_input(root, output)
        assert found == Analysis().output_to_input(root, output)
        assert [len(operand) for operand in found] == [int(i == output) for i in range(3)]
    with pytest.raises(ValueError, match="no output 3"):
        together.output_to_input(root, 3)


def test_a_long_tuple_is_kept_in_little_memory():
    count = 1500
    module = tuple_of(count)
    assert len(module.entry.root.operands) == count
    caches.clear()
    tracemalloc.start()
    try:
        assert sum(len(one.operands[one.output]) for one in module_indexing(module)) == count
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # All answers at once hold 1500² sets: 18 MB of references alone.
    assert peak < 6 << 20


def custom_call_of(count: int) -> HloModule:
    """A custom call with as many results as operands: each result may need every element of each operand."""
    lines = "\n".join(f"  p{i} = f32[2] parameter({i})" for i in range(count))
    names = ", ".join(f"p{i}" for i in range(count))
    shapes = ", ".join(["f32[2]"] * count)
    root = f'  ROOT r = ({shapes}) custom-call({names}), custom_call_target="x"'
    return HloModule.parse(f"HloModule m\n\nENTRY e {{\n{lines}\n{root}\n}}\n")


def test_what_is_kept_of_a_custom_call_does_not_grow_with_the_square_of_its_operands():
    count = 200
    module = custom_call_of(count)
    for one in module_indexing(module):
        assert [len(found) for found in one.operands] == [1] * count
    held = signature(module.entry.root, OUTPUT_TO_INPUT["custom-call"])
    assert 0 < sum(len(kept.sets) for kept in held.answers.values()) <= MAX_SETS < count**2


@pytest.mark.parametrize("question", [module_indexing, module_reads])
def test_each_operand_counts_against_the_budget(question):
    """Each operand of each output costs at least one step, cached or not, so a deadline is checked often enough."""
    count = 40
    module = custom_call_of(count)
    caches.clear()
    with budget() as spent:
        assert sum(1 for _ in question(module)) == count
    assert spent.steps >= count * count
