"""How instructions read, against counts taken one element at a time."""

from __future__ import annotations

from typing import Any

import pytest
from hlo_builder import one_op

from xlashape import indexing
from xlashape.errors import DeadlineExceededError, InvalidArgumentError, LimitExceededError
from xlashape.hlo import HloInstruction, HloModule
from xlashape.indexing.reports.reads import instruction_reads
from xlashape.limits import budget
from xlashape.shape import tiling

LOOP = """HloModule loop
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
fused { p = f32[8,4]{1,0} parameter(0)  t = f32[4,8]{1,0} transpose(p), dimensions={1,0}  ROOT n = f32[4,8]{1,0} negate(t) }
body {
  s = (s32[], f32[8,4]) parameter(0)  i = s32[] get-tuple-element(s), index=0  x = f32[8,4] get-tuple-element(s), index=1
  one = s32[] constant(1)  next = s32[] add(i, one)  twice = f32[8,4] add(x, x)  ROOT r = (s32[], f32[8,4]) tuple(next, twice)
}
condition {
  s = (s32[], f32[8,4]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(3)  ROOT less = pred[] compare(i, n), direction=LT
}
ENTRY main {
  p = f32[8,4]{1,0} parameter(0)  zero = s32[] constant(0)  start = (s32[], f32[8,4]) tuple(zero, p)
  w = (s32[], f32[8,4]) while(start), condition=condition, body=body  y = f32[8,4] get-tuple-element(w), index=1
  f = f32[4,8]{1,0} fusion(y), kind=kLoop, calls=fused  nothing = f32[] constant(0)
  ROOT sum = f32[8]{0} reduce(f, nothing), dimensions={0}, to_apply=add
}
"""


def test_operand_reads_are_utilisation_and_coalescing_of_each_operand() -> None:
    fusion = HloModule.parse(LOOP).instruction("f")
    (found,) = indexing.operand_reads(fusion, warp=4, segment_bytes=16)
    assert found.utilisation == indexing.operand_utilisation(fusion)[0]
    assert found.accesses == indexing.coalescing(fusion, warp=4, segment_bytes=16)
    assert (found.operand, found.utilisation.utilisation) == (0, 1.0)
    assert [(one.stride, one.segments, one.ideal) for one in found.accesses] == [(4, 4.0, 1)]


def test_a_module_is_read_by_what_it_executes() -> None:
    found = list(indexing.module_reads(HloModule.parse(LOOP)))
    assert [(one.instruction.computation.name, one.instruction.name, one.output) for one in found] == [
        ("body", "next", 0),
        ("body", "twice", 0),
        ("condition", "less", 0),
        ("main", "f", 0),
        ("main", "sum", 0),
    ]
    for one in found:
        assert one.operands == indexing.operand_reads(one.instruction, one.output)


NO_READS = """HloModule no_reads
ENTRY main {
  p = f32[4] parameter(0)  q = f32[4] parameter(1)
  t = (f32[4], f32[4]) tuple(p, q)
  b = (f32[4], f32[4]) opt-barrier(t)
  x = f32[4] get-tuple-element(b), index=0
  c = s32[4] bitcast(x)
  k = token[] after-all()
  d = s32[4] add-dependency(c, k)
  ROOT n = s32[4] negate(d)
}
"""


def test_operations_that_move_no_data_read_nothing() -> None:
    assert [one.instruction.name for one in indexing.module_reads(HloModule.parse(NO_READS))] == ["n"]


def test_every_output_of_a_tuple() -> None:
    sort = one_op("sort", "(f32[6], s32[6])", ["f32[6]", "s32[6]"], dimensions=[0])
    assert [one.output for one in instruction_reads(sort)] == [0, 1]
    operands = indexing.operand_reads(sort, 1)
    assert [one.operand for one in operands] == [0, 1]
    assert [one.utilisation.utilisation for one in operands] == [1.0, 1.0]


def test_what_a_custom_call_reads_is_at_most_what_its_maps_name() -> None:
    def used(body: str) -> list[tuple[int | None, bool]]:
        module = HloModule.parse(f"HloModule m f {{ {body} }} ENTRY e {{ p = f32[8] parameter(0) ROOT r = f32[4] fusion(p), kind=kLoop, calls=f }}")  # fmt: skip
        return [(one.distinct, one.is_upper_bound) for one in indexing.operand_utilisation(module.entry.root)]

    parameter, half = "x = f32[8] parameter(0)", "s = f32[4] slice(x), slice={[0:4]}"
    assert used(f'{parameter} ROOT c = f32[4] custom-call(x), custom_call_target="t"') == [(8, True)]
    call = 'c = f32[4] custom-call(s), custom_call_target="t"'
    assert used(f"{parameter} {half} ROOT {call}") == [(4, True)]
    # The elements that the call may read are read beside it, or are not.
    assert used(f"{parameter} {half} {call} ROOT a = f32[4] add(c, s)") == [(4, False)]
    other = "o = f32[4] slice(x), slice={[2:6]}"
    assert used(f"{parameter} {half} {other} {call} ROOT a = f32[4] add(c, o)") == [(6, True)]
    empty = 'HloModule m ENTRY e { p = f32[0] parameter(0) ROOT c = f32[4] custom-call(p), custom_call_target="t" }'
    (nothing,) = indexing.operand_utilisation(HloModule.parse(empty).entry.root)
    assert (nothing.distinct, nothing.is_upper_bound) == (0, False)


@pytest.mark.parametrize("segment_bytes", [1, 2, 3, 4, 8, 12, 100])
@pytest.mark.parametrize("warp", [1, 3, 8, 64])
@pytest.mark.parametrize(
    ("shape", "operand", "fields"),
    [
        ("f32[6,5]", "f32[5,6]", {"dimensions": [1, 0]}),
        ("c128[3,4]", "c128[4,3]", {"dimensions": [1, 0]}),
        ("s4[6,5]{1,0:E(4)}", "s4[5,6]{1,0:E(4)}", {"dimensions": [1, 0]}),
        ("bf16[6,5]{1,0:T(2,4)}", "bf16[5,6]{1,0:T(4,2)(2,1)}", {"dimensions": [1, 0]}),
    ],
)
def test_segments_are_those_that_the_bytes_lie_in(
    shape: str, operand: str, fields: dict[str, Any], warp: int, segment_bytes: int
) -> None:
    root = one_op("transpose", shape, [operand], **fields)
    bits = {"f32": 32, "c128": 128, "s4": 4, "bf16": 16}[shape.split("[")[0]]
    (found,) = indexing.coalescing(root, warp=warp, segment_bytes=segment_bytes)
    (read,) = indexing.output_to_input_physical(root)
    counts: list[int] = []
    total = tiling.physical_elements(root.shape)
    for first in range(0, total, warp):
        lanes = range(first, min(first + warp, total))
        places = [at[0] for p in lanes if (at := read.map.evaluate((p,))) is not None]
        if places:
            bytes_read = {bit // 8 for place in places for bit in range(place * bits, (place + 1) * bits)}
            counts.append(len({byte // segment_bytes for byte in bytes_read}))
    assert found.segments == pytest.approx(sum(counts) / len(counts))


def test_an_unbounded_dimension_leaves_counts_and_positions_unknown() -> None:
    (found,) = indexing.operand_reads(one_op("negate", "f32[?,4]", ["f32[?,4]"]))
    assert (found.utilisation.elements, found.utilisation.utilisation, found.utilisation.reads) == (None, None, None)
    assert [(one.stride, one.segments, one.efficiency) for one in found.accesses] == [(None, None, None)]


def test_positions_beyond_int64_in_bits() -> None:
    (found,) = indexing.coalescing(one_op("negate", "f32[2305843009213693951]", ["f32[2305843009213693951]"]))
    assert (found.stride, found.segments) == (1, 1.0)


def test_invalid_arguments() -> None:
    module = HloModule.parse(LOOP)
    fusion = module.instruction("f")
    for warp, segment in ((0, 128), (32, 0), (-1, 128)):
        with pytest.raises(InvalidArgumentError, match="at least 1"):
            indexing.operand_reads(fusion, warp=warp, segment_bytes=segment)
    with pytest.raises(LimitExceededError, match="a warp is at most 65536 outputs, not 65537"):
        indexing.coalescing(fusion, warp=65537)
    for segment in (2**40 + 1, 2**63 - 1, 2**80):
        with pytest.raises(LimitExceededError, match=f"a segment is at most 1099511627776 bytes, not {segment}"):
            indexing.operand_reads(fusion, segment_bytes=segment)
    assert indexing.operand_reads(fusion, segment_bytes=2**40)
    with pytest.raises(InvalidArgumentError, match="has no output 1"):
        indexing.operand_reads(fusion, 1)
    with pytest.raises(InvalidArgumentError, match="instruction takes an HloInstruction, not str"):
        indexing.operand_reads("f")
    with pytest.raises(InvalidArgumentError, match="module takes an HloModule, not NoneType"):
        list(indexing.module_reads(None))


def test_a_budget_names_the_instruction() -> None:
    root: HloInstruction = one_op("transpose", "f32[211,513]", ["f32[513,211]"], dimensions=[1, 0])
    with (
        pytest.raises((LimitExceededError, DeadlineExceededError), match=f"instruction '{root.name}'"),
        budget(5, None, "a question"),
    ):
        indexing.operand_reads(root)


def test_two_offsets_of_one_operand_may_read_equal_or_different_elements() -> None:
    module = HloModule.parse("""HloModule m
fused {
  t = f32[16]{0} parameter(0)  i = s32[] parameter(1)  j = s32[] parameter(2)
  a = f32[4]{0} dynamic-slice(t, i), dynamic_slice_sizes={4}  b = f32[4]{0} dynamic-slice(t, j), dynamic_slice_sizes={4}
  ROOT s = f32[4]{0} add(a, b)
}
ENTRY main {
  t = f32[16]{0} parameter(0)  i = s32[] parameter(1)  j = s32[] parameter(2)
  ROOT f = f32[4]{0} fusion(t, i, j), kind=kLoop, calls=fused
}
""")
    table = indexing.operand_utilisation(module.entry.root)[0]
    assert (table.elements, table.distinct, table.reads, table.is_upper_bound) == (16, 8, 8, True)


def test_the_reads_of_an_output_are_a_sequence() -> None:
    one = next(iter(indexing.module_reads(HloModule.parse(LOOP))))
    of_output = indexing.operand_reads(one.instruction, one.output)
    assert of_output == one.operands
    assert (len(of_output), of_output[0], of_output[:1]) == (len(one.operands), one.operands[0], one.operands[:1])
    assert hash(of_output) == hash(one.operands)
    assert of_output != (1,)


@pytest.mark.parametrize("shape", ["u64[8]", "f32[3]", "c128[5]", "s4[7]{0:E(4)}", "pred[1000]"])
@pytest.mark.parametrize("segment_bytes", [1, 3, 16, 128])
def test_the_ideal_is_never_more_than_what_is_touched(shape: str, segment_bytes: int) -> None:
    """A warp whose output ends before its last lane reads fewer elements."""
    (found,) = indexing.coalescing(one_op("reverse", shape, [shape], dimensions=[0]), segment_bytes=segment_bytes)
    assert found.segments is not None and found.ideal is not None
    assert 0 < found.ideal <= found.segments


def test_an_instruction_that_is_refused_has_an_error() -> None:
    text = 'HloModule m ENTRY e { a = f32[2,3] parameter(0) b = f32[4,5] parameter(1) ROOT d = f32[2,5] custom-call(a, b), custom_call_target="f" }'
    proto = HloModule.parse(text).to_proto()
    dot = proto.computations[0].instructions[-1]
    dot.opcode = "dot"
    dot.ClearField("custom_call_target")
    dot.dot_dimension_numbers.lhs_contracting_dimensions.append(1)
    dot.dot_dimension_numbers.rhs_contracting_dimensions.append(0)
    (found,) = indexing.module_reads(HloModule.from_proto(proto))
    assert "pairs dimensions of 3 and 4 elements" in str(found.error)
    assert (found.instruction.name, found.output, found.operands) == ("d", 0, ())
