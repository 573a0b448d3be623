"""Estimated peaks of modules without an assignment, against the assignments that XLA made of the same modules."""

import base64
import gzip
import json
from pathlib import Path

import pytest

from xlashape.errors import InvalidArgumentError, InvalidModuleError, LimitExceededError
from xlashape.hlo import HloModule
from xlashape.limits import budget
from xlashape.reports.memory import ProgramMemory, memory
from xlashape.reports.why import why
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
with gzip.open(VECTORS / "called_programs.jsonl.gz", "rt") as _lines:
    CALLED = [json.loads(line) for line in _lines]
with gzip.open(VECTORS / "tpu_programs.jsonl.gz", "rt") as _lines:
    COMPILED_FOR_TPUS = [json.loads(line) for line in _lines]
OTHERS = sorted((VECTORS / "programs").glob("*.hlo.pb.gz"))
ON_TPU = sorted((VECTORS / "tpu").glob("*.hlo.pb"))


def estimate_of(path: Path):
    module = HloModule.load(path)
    exact = memory(module)
    assert not exact.is_estimate
    return exact, memory(HloModule.from_proto(module.proto))


def test_estimates_are_the_truth():
    assert len([*SHARED, *OTHERS]) == 58
    for path in [*SHARED, *OTHERS]:
        exact, estimate = estimate_of(path)
        assert estimate.is_estimate
        assert estimate.module.proto.schedule.sequences
        assert estimate.peak_bytes == exact.peak_bytes, path.name
        assert estimate.lower_bytes <= estimate.peak_bytes <= estimate.upper_bytes
        assert estimate.alias_bytes == exact.alias_bytes
        assert sum(buffer.bytes for buffer in estimate.peak_buffers) == estimate.peak_bytes
        assert max(step.bytes for step in estimate.timeline) == estimate.peak_bytes
        for key in ("kind", "source", "op_name"):
            assert sum(group.bytes for group in estimate.by(key)) == estimate.peak_bytes


@pytest.mark.parametrize("number", range(len(CALLED)))
def test_programs_with_calls(number: int):
    """Calls, loops and branches one in another, some of a computation that is called several times, compiled by XLA
    with and without calls inlined."""
    row = CALLED[number]
    module = HloModule.of(base64.b64decode(row["module"]))
    after, before = memory(module), memory(row["text"])
    assert after.lower_bytes <= row["peak"] <= after.upper_bytes
    assert after.peak_bytes == row["peak"]
    assert (after.argument_bytes, after.output_bytes, after.alias_bytes) == tuple(row["sizes"])
    assert before.upper_bytes is None
    argument, output, alias = row["sizes"]
    assert before.lower_bytes == argument + output - alias


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
        assert estimate.lower_bytes <= memory(module).peak_bytes <= estimate.upper_bytes
        for number in estimated:
            alone = memory(HloModule.from_proto(module.proto), target=generation_of(path), space=number)
            assert alone.lower_bytes <= exact[number].peak_bytes <= alone.upper_bytes
            assert alone.upper_bytes <= estimate.upper_bytes
        for space in estimate.spaces:
            assert space.peak_bytes <= space.total_allocation_bytes


FAST_MEMORY_DIFFERS = frozenset(["cond_grad_v5e", "cond_grad_v6e", "state2_v5p", "state2_v6e"])
"""Programs of which libtpu places values of on-chip memory in each other's memory, or keeps them longer than they
live."""


@pytest.mark.parametrize("row", COMPILED_FOR_TPUS, ids=lambda row: row["name"])
def test_programs_compiled_for_three_generations(row):
    """Attention, loops, branches, collectives and states in the memory of the host, by libtpu 0.0.52."""
    module = HloModule.of(base64.b64decode(row["module"]))
    answer = memory(module, target=f"tpu-{row['name'].rpartition('_')[2]}")
    assert answer.lower_bytes <= row["peak"] <= answer.upper_bytes
    argument, output, alias = row["sizes"]
    assert answer.argument_bytes + answer.host_argument_bytes == argument
    assert answer.output_bytes + answer.host_output_bytes == output
    assert answer.alias_bytes + answer.host_alias_bytes == alias
    assert all(each.peak_bytes <= each.total_allocation_bytes for each in answer.spaces)
    spaces = {str(each.space): each.peak_bytes for each in answer.spaces if each.peak_bytes}
    assert spaces.keys() == row["spaces"].keys()
    differing = {space for space, peak in spaces.items() if peak != row["spaces"][space]}
    assert differing == ({"1"} if row["name"] in FAST_MEMORY_DIFFERS else set())


def test_a_target_gives_layouts_without_tiles_its_own():
    text = "HloModule m ENTRY e { p = f32[3,5] parameter(0) n = f32[3,5] negate(p) ROOT t = (f32[3,5], f32[3,5]) tuple(p, n) }"
    plain, cpu, old, new = (memory(text, target=target) for target in (None, "cpu", "tpu-v4", "tpu-v5p"))
    assert [each.output_bytes for each in (plain, cpu, old, new)] == [136, 136, 2 * 2048 + 512, 2 * 2048 + 32]
    assert (old.unpadded_peak_bytes, old.in_space(0).target) == (3 * 60 + 512, old.target)
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
        ((5 << 20, None), "; an estimate, at least 5.00 MiB, and no upper bound is known"),
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
    assert (answer.lower_bytes, answer.upper_bytes) == (2048, None)
    assert "an estimate, at least 2.00 KiB, and no upper bound is known" in answer.headline()


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


CALLS = """
half { h = f32[1024] parameter(0) ROOT n = f32[1024] negate(h) }
count { c = f32[1024] parameter(0) k = f32[] constant(1) s = f32[1] slice(c), slice={[0:1]} r = f32[] reshape(s)
  ROOT lt = pred[] compare(r, k), direction=LT }
double { b = f32[1024] parameter(0) ROOT n = f32[1024] add(b, b) }
loop { q = f32[1024] parameter(0) ROOT w = f32[1024] while(q), condition=count, body=double }
outer { x = f32[1024] parameter(0) ROOT y = f32[1024] call(x), to_apply=loop }
"""


@pytest.mark.parametrize(
    "root", ["while(a), condition=count, body=double", "call(a), to_apply=loop", "call(a), to_apply=outer"]
)
def test_a_call_takes_no_memory(root: str):
    answer = estimated(f"p = f32[1024] parameter(0) a = f32[1024] abs(p) ROOT r = f32[1024] {root}", others=CALLS)
    assert answer.peak_bytes == 2 * 4096 + 12
    assert answer.lower_bytes <= 8201 <= answer.upper_bytes  # XLA fuses the condition


def test_each_call_of_a_computation_has_a_result_of_its_own():
    calls = "\n".join([f"c{number} = f32[1024] call(p), to_apply=half" for number in range(5)])
    names = ", ".join([f"c{number}" for number in range(5)])
    text = f"p = f32[1024] parameter(0) {calls} ROOT t = ({', '.join(['f32[1024]'] * 5)}) tuple({names})"
    assert estimated(text, others=CALLS).peak_bytes == 6 * 4096 + 5 * 8


def test_calls_that_double_at_each_level_are_refused():
    levels = "\n".join(
        [
            f"do{n} {{ p = f32[8] parameter(0) x = f32[8] call(p), to_apply=do{n - 1} ROOT y = f32[8] call(x), to_apply=do{n - 1} }}"
            for n in range(1, 60)
        ]
    )
    first = "do0 { p = f32[8] parameter(0) ROOT y = f32[8] negate(p) }"
    entry = "p = f32[8] parameter(0) ROOT r = f32[8] call(p), to_apply=do59"
    with budget(steps=100_000), pytest.raises(LimitExceededError):
        estimated(entry, others=f"{first}\n{levels}")


@pytest.mark.parametrize(
    ("entry", "certain"),
    [
        (
            "p = f32[256] parameter(0) q = f32[256] parameter(1) ROOT t = (f32[256], f32[256]) tuple(p, p)",
            4 * 1024 + 16,
        ),
        ("p = f32[256] parameter(0) c = f32[256] constant({...}) ROOT t = (f32[256]) tuple(c)", 2 * 1024 + 8),
        ("p = s4[33] parameter(0) ROOT n = s4[33] negate(p)", 34),
        ("ROOT c = f32[256] constant({...})", 1024),
        ("ROOT p = f32[256] parameter(0)", 2048),
        ("ROOT p = (f32[256], f32[256]) parameter(0)", 4 * 1024 + 2 * 16),
        ("p = f32[8,8] parameter(0), sharding={devices=[2,2]<=[4]} ROOT n = f32[8,8] negate(p)", 128),
        ("p = f32[8,8] parameter(0), sharding={replicated} ROOT n = f32[8,8] negate(p)", 512),
    ],
)
def test_what_is_certain_before_optimizations(entry: str, certain: int):
    answer = memory(f"HloModule m ENTRY e {{ {entry} }}")
    assert (answer.lower_bytes, answer.upper_bytes) == (certain, None)
    assert answer.lower_bytes == answer.argument_bytes + answer.output_bytes - answer.alias_bytes


def test_temporaries_stand_in_the_memory_space_of_their_layouts():
    answer = estimated(
        """a = f32[1024,128]{1,0:T(8,128)} parameter(0) v = f32[1024,128]{1,0:T(8,128)S(1)} copy(a)
        n = f32[1024,128]{1,0:T(8,128)S(1)} negate(v) ROOT o = f32[1024,128]{1,0:T(8,128)} exponential(n)"""
    )
    assert [(each.space, each.temp_bytes, each.total_allocation_bytes) for each in answer.spaces] == [
        (0, 0, 1 << 20),
        (1, 1 << 20, 1 << 20),  # libtpu lets no value of on-chip memory take over another
    ]


@pytest.mark.parametrize(
    ("shape", "size"), [("s32[2]{0:S(4)}", 4096), ("s32[2]{0:T(128)S(4)}", 512), ("s32[1025]{0:S(4)}", 8192)]
)
def test_small_arrays_of_a_tpu(shape: str, size: int):
    text = f"""HloModule m, is_scheduled=true ENTRY e {{ a = f32[512,256]{{1,0:T(8,128)}} parameter(0)
      w = (f32[512,256]{{1,0:T(8,128)}}, {shape}) custom-call(a), custom_call_target="x"
      ROOT o = f32[512,256]{{1,0:T(8,128)}} custom-call(w), custom_call_target="y" }}"""
    spaces = {each.space: each.peak_bytes for each in memory(text, target="tpu-v5e").spaces}
    assert spaces[4] == size


def test_loops_may_share_their_computations():
    text = """HloModule m, is_scheduled=true
    c { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(10) ROOT l = pred[] compare(i, n), direction=LT }
    b { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0 x = f32[8] get-tuple-element(p), index=1
      o = s32[] constant(1) j = s32[] add(i, o) ROOT t = (s32[], f32[8]) tuple(j, x) }
    around { p = (s32[], f32[8]) parameter(0) ROOT w = (s32[], f32[8]) while(p), condition=c, body=b }
    ENTRY e { p = (s32[], f32[8]) parameter(0) v = (s32[], f32[8]) while(p), condition=c, body=around
      ROOT w = (s32[], f32[8]) while(v), condition=c, body=b }"""
    answer = memory(text)
    assert answer.lower_bytes <= answer.peak_bytes <= answer.upper_bytes
    assert why(text).peak_bytes == answer.peak_bytes
