"""Estimated peaks of modules without an assignment, against the assignments that XLA made of the same modules."""

import gzip
import json
from pathlib import Path
from statistics import median

import pytest

from xlashape.errors import InvalidArgumentError, InvalidModuleError
from xlashape.hlo import HloModule
from xlashape.reports.memory import ProgramMemory, memory
from xlashape.shape import shape_util
from xlashape.shape.parts.target import TARGETS

VECTORS = Path(__file__).parents[3] / "vectors" / "memory"
REFERENCE = {
    f"{row['program']}-{row['jaxlib']}": row
    for row in map(json.loads, (VECTORS / "programs" / "reference.jsonl").read_text().splitlines())
}
SHARED = sorted(VECTORS.glob("*.hlo.pb"))
with gzip.open(VECTORS.parent / "costs" / "tpu_programs.jsonl.gz", "rt") as _lines:
    TPU_PROGRAMS = [json.loads(line) for line in _lines]
OTHERS = sorted((VECTORS / "programs").glob("*.hlo.pb.gz"))
ON_TPU = sorted((VECTORS / "tpu").glob("*.hlo.pb"))


def estimate_of(path: Path):
    module = HloModule.load(path)
    exact = memory(module)
    assert not exact.is_estimate
    return exact, memory(HloModule.from_proto(module.proto))


def test_estimates_are_near_the_truth():
    errors: dict[str, float] = {}
    for path in [*SHARED, *OTHERS]:
        exact, estimate = estimate_of(path)
        assert estimate.is_estimate
        assert estimate.module.proto.schedule.sequences
        errors[path.name] = estimate.peak_bytes / exact.peak_bytes - 1
        slack = 64  # constants of a few bytes that XLA keeps or does not keep
        assert estimate.lower_bytes - slack <= exact.peak_bytes <= estimate.upper_bytes + slack, path.name
        assert estimate.lower_bytes <= estimate.peak_bytes <= estimate.upper_bytes
        assert estimate.alias_bytes == exact.alias_bytes
        assert sum(buffer.bytes for buffer in estimate.peak_buffers) == estimate.peak_bytes
        assert max(step.bytes for step in estimate.timeline) == estimate.peak_bytes
        for key in ("kind", "source", "op_name"):
            assert sum(group.bytes for group in estimate.by(key)) == estimate.peak_bytes
    assert len(errors) == 58
    worst = sorted([abs(error) for error in errors.values()])
    assert median(worst) == 0
    assert worst[-1] < 0.004
    assert sum(error == 0 for error in worst) >= 52


@pytest.mark.parametrize("path", OTHERS, ids=[path.name.removesuffix(".hlo.pb.gz") for path in OTHERS])
def test_totals_of_other_programs(path):
    row = REFERENCE[path.name.removesuffix(".hlo.pb.gz")]
    answer = memory(path)
    assert answer.argument_bytes == row["argument_size_in_bytes"]
    assert answer.output_bytes == row["output_size_in_bytes"]
    assert answer.alias_bytes == row["alias_size_in_bytes"]
    assert answer.temp_bytes == row["temp_size_in_bytes"]
    if row["jaxlib"] == "0.7.1":
        assert answer.peak_bytes == row["peak_memory_in_bytes"]


@pytest.mark.parametrize("row", TPU_PROGRAMS, ids=lambda row: row["name"])
def test_totals_of_programs_on_a_tpu(row):
    """libtpu's own, where the tables of tuples take 4 bytes an element in multiples of 512."""
    answer = memory(row["hlo"], target="tpu-v5e")
    assert [answer.argument_bytes, answer.output_bytes, answer.alias_bytes] == row["memory"]
    assert answer.target is TARGETS["tpu-v5e"] and "on tpu-v5e" in answer.headline()


@pytest.mark.parametrize("path", ON_TPU, ids=lambda path: path.name.partition(".")[0])
def test_sizes_of_the_buffers_of_a_tpu(path: Path):
    module = HloModule.load(path)
    instructions = {each.id: each for computation in module.computations for each in computation.instructions}
    differ = []
    for logical in module.hlo_proto.buffer_assignment.logical_buffers:
        shape = instructions[logical.defined_at.instruction_id].shape
        for number in logical.defined_at.shape_index:
            shape = shape.tuple_shapes[number]
        size = shape_util.byte_size_of(shape, target=generation_of(path))
        if size != logical.size:
            differ.append((str(shape), size, logical.size))
    assert not differ


def generation_of(path: Path) -> str:
    return "tpu-" + path.name.removesuffix(".hlo.pb").rpartition("_")[2]


def test_estimates_of_memory_spaces_of_a_tpu():
    assert len(ON_TPU) == 25
    for path in ON_TPU:
        module = HloModule.load(path)
        exact = {space.space: space for space in memory(module).spaces}
        for space in exact.values():
            # Nothing but the places of values tells that they share memory in VMEM.
            assert space.peak_bytes <= space.total_allocation_bytes
        estimate = memory(HloModule.from_proto(module.proto), target=generation_of(path))
        estimated = {space.space: space.peak_bytes for space in estimate.spaces if space.peak_bytes}
        assert estimated == {each: space.peak_bytes for each, space in exact.items() if space.peak_bytes}, path.name


def test_a_target_gives_layouts_without_tiles_its_own():
    text = "HloModule m ENTRY e { p = f32[3,5] parameter(0) n = f32[3,5] negate(p) ROOT t = (f32[3,5], f32[3,5]) tuple(p, n) }"
    plain, cpu, old, new = (memory(text, target=target) for target in (None, "cpu", "v4", "v5p"))
    assert [each.output_bytes for each in (plain, cpu, old, new)] == [136, 136, 2 * 2048 + 512, 2 * 2048 + 32]
    assert (old.unpadded_peak_bytes, old.in_space(0).target) == (2 * 60 + 512, old.target)
    assert {str(each.shape) for each in new.peak_buffers if each.name == "n"} == {"f32[3,5]{1,0:T(4,128)}"}
    assert max(each.new_peak_bytes for each in old.suggest()) < old.peak_bytes
    with pytest.raises(InvalidArgumentError, match="no target is called 'ipu'"):
        memory(text, target="ipu")


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ((5 << 20, 6 << 20), "; an estimate, between 5.00 MiB and 6.00 MiB"),
        (((5 << 20) - 1, 5 << 20), "; an estimate, between 5,242,879 and 5,242,880 bytes"),
        ((5 << 20, 5 << 20), "; an estimate"),
        ((5 << 20, None), "; an estimate"),
    ],
)
def test_bounds_are_shown_apart(bounds, said):
    known = memory("HloModule m ENTRY e { ROOT p = f32[2] parameter(0) }")
    told = ProgramMemory(known.plan._replace(bounds=bounds)).headline()
    assert told.splitlines()[0].endswith(said)


def test_a_target_leaves_the_sizes_of_an_assignment():
    exact = memory(VECTORS / "hessian.hlo.pb")
    assert memory(VECTORS / "hessian.hlo.pb", target="tpu-v5e").peak_bytes == exact.peak_bytes
    assert exact.target is None


def estimated(entry: str, *, header: str = "is_scheduled=true", others: str = ""):
    return memory(HloModule.parse(f"HloModule m, {header}\n{others}\nENTRY e {{\n{entry}\n}}"))


LOOP = """
%body { state = (f32[256], f32[256], s32[]) parameter(0) a = f32[256] get-tuple-element(state), index=0 w = f32[256] get-tuple-element(state), index=1
  i = s32[] get-tuple-element(state), index=2 one = s32[] constant(1) next = s32[] add(i, one) b = f32[256] sine(a)
  ROOT t = (f32[256], f32[256], s32[]) tuple(b, w, next) }
%condition { state2 = (f32[256], f32[256], s32[]) parameter(0) number = s32[] get-tuple-element(state2), index=2 ten = s32[] constant(10)
  ROOT less = pred[] compare(number, ten), direction=LT }
"""


def test_the_state_of_a_loop_is_one_buffer():
    answer = estimated(
        """p = f32[256] parameter(0) q = f32[256] parameter(1) zero = s32[] constant(0) start = s32[] copy(zero) c = f32[256] copy(p)
        t = (f32[256], f32[256], s32[]) tuple(c, q, start) w = (f32[256], f32[256], s32[]) while(t), condition=condition, body=body
        ROOT r = f32[256] get-tuple-element(w), index=0""",
        others=LOOP,
    )
    # The two parameters, the state, which is the output, its counter, constants, and the result of the comparison.
    assert answer.argument_bytes == 2048
    assert answer.output_bytes == 1024
    assert answer.peak_bytes == 3 * 1024 + 3 * 4 + 4 + 1


def test_in_place_updates_take_no_memory():
    text = """p = f32[64,64] parameter(0) u = f32[1,64] parameter(1) i = s32[] parameter(2)
    ROOT d = f32[64,64] dynamic-update-slice(p, u, i, i)"""
    donated = estimated(text, header="is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }")
    kept = estimated(text)
    assert donated.peak_bytes == 64 * 64 * 4 + 64 * 4 + 4
    assert donated.alias_bytes == 64 * 64 * 4
    assert kept.peak_bytes == 2 * 64 * 64 * 4 + 64 * 4 + 4


def test_elementwise_results_take_over_their_operand():
    chain = "p = f32[256] parameter(0) a = f32[256] {0}(p) b = f32[256] {0}(a) c = f32[256] {0}(b) ROOT r = f32[] constant(1)"
    kept = "p = f32[256] parameter(0) a = f32[256] sine(p) b = f32[256] reverse(a), dimensions={0} ROOT r = f32[] constant(1)"
    assert estimated(chain.replace("{0}", "sine")).peak_bytes == 2 * 1024 + 4
    assert estimated(kept).peak_bytes == 3 * 1024 + 4


def test_padding_of_tiles_counts():
    answer = estimated("ROOT p = f32[3,5]{1,0:T(8,128)} parameter(0)")
    (buffer,) = answer.peak_buffers
    assert (buffer.bytes, buffer.padding_bytes, answer.unpadded_peak_bytes) == (4096, 4036, 60)


def test_a_schedule_that_runs_an_instruction_before_its_operand_is_refused():
    text = (
        "HloModule m, is_scheduled=true ENTRY e { p = f32[4] parameter(0) n = f32[4] negate(p) ROOT a = f32[4] abs(n) }"
    )
    module = HloModule.parse(text).proto
    (sequence,) = module.schedule.sequences.values()
    p, n, a = sequence.instruction_ids
    sequence.instruction_ids[:] = [p, n, n]
    with pytest.raises(InvalidModuleError, match="the schedule of computation 'e' does not run its root 'a'"):
        memory(HloModule.from_proto(module))
    for ids in ([p, a, n], [p, a], [a, a]):
        sequence.instruction_ids[:] = ids
        with pytest.raises(InvalidModuleError, match="the schedule of computation 'e' runs 'a' before its operand 'n'"):
            memory(HloModule.from_proto(module))


def test_an_output_that_takes_over_a_parameter_and_is_not_there_is_left_out():
    header = "is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }"
    text = f"HloModule m, {header} ENTRY e {{ p = f32[4] parameter(0) ROOT t = (f32[4]) tuple(p) }}"
    module = HloModule.parse(text.replace("(f32[4]) tuple", "f32[4] negate")).proto
    root = module.computations[0].instructions[1]
    root.opcode, root.operand_ids[:] = "tuple", []
    assert memory(HloModule.from_proto(module)).argument_bytes == 16


def test_a_module_without_a_schedule_says_so():
    answer = estimated(
        "p = f32[256] parameter(0) a = f32[256] sine(p) b = f32[256] reverse(a), dimensions={0} ROOT c = f32[256] "
        "add(a, b)",
        header="num_partitions=1",
    )
    assert answer.is_estimate
    assert "has no schedule" in answer.notes[1]
    assert answer.lower_bytes <= answer.peak_bytes <= answer.upper_bytes
    assert "an estimate, between" in answer.headline()


def test_deep_programs_end():
    depth = 20_000
    chain = "\n".join([f"v{number} = f32[16] sine(v{number - 1})" for number in range(1, depth)])
    answer = estimated(
        f"v0 = f32[16] parameter(0)\n{chain}\nROOT r = f32[16] cosine(v{depth - 1})", header="num_partitions=1"
    )
    assert answer.peak_bytes == 2 * 64
    nested = "\n".join(
        [
            f"call{number} {{ p = f32[16] parameter(0) ROOT k = f32[16] call(p), to_apply=call{number - 1} }}"
            for number in range(1, 3000)
        ]
    )
    answer = estimated(
        "p = f32[16] parameter(0) ROOT k = f32[16] call(p), to_apply=call2999",
        others="call0 { p = f32[16] parameter(0) ROOT k = f32[16] sine(p) }\n" + nested,
    )
    assert answer.peak_bytes == 128


@pytest.mark.parametrize(
    "steps",
    [
        """s = ((), (), u32[]) custom-call-start(), custom_call_target="x"
           u = ((f32[64], f32[64]), f32[64], u32[]) custom-call-update(s, p, q)""",
        """s = ((f32[64]), (), u32[]) custom-call-start(p), custom_call_target="x"
           u = ((f32[64], f32[64]), (), u32[]) custom-call-update(s, q)""",
    ],
)
def test_operands_that_an_update_binds_take_no_memory_of_their_own(steps: str):
    text = "HloModule m, is_scheduled=true\nENTRY e {{ p = f32[64] parameter(0)\n q = f32[64] parameter(1)\n {}\n ROOT d = f32[64] {} }}"
    late = memory(HloModule.parse(text.format(steps, "custom-call-done(u)")))
    assert (late.argument_bytes, late.output_bytes) == (512, 256)
    arrays = {buffer.name for buffer in late.peak_buffers if buffer.opcode in ("async-update", "async-start")}
    assert sum(buffer.bytes for buffer in late.peak_buffers if buffer.name in arrays and buffer.kind != "output") <= 4


def test_received_data_is_counted_once():
    """The result of a recv-done is the memory into which the recv received."""
    text = """HloModule m, is_scheduled=true ENTRY e { k = token[] after-all()
      r = (f32[1024], u32[], token[]) recv(k), channel_id=1 d = (f32[1024], token[]) recv-done(r), channel_id=1
      x = f32[1024] get-tuple-element(d), index=0 ROOT n = f32[] constant(0) }"""
    assert memory(HloModule.parse(text)).peak_bytes == 4096 + 4  # the data; the context, or the result
