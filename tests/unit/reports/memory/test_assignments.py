"""Memory plans from buffer assignments, against what XLA says of them."""

import base64
import gzip
import itertools
import json
from pathlib import Path

import pytest

from xlashape.errors import InvalidArgumentError, InvalidModuleError, LimitExceededError, NotFoundError
from xlashape.hlo import HloModule
from xlashape.proto import xla
from xlashape.reports.memory import ProgramMemory, memory

VECTORS = Path(__file__).parents[3] / "vectors" / "memory"
REFERENCE = [json.loads(line) for line in (VECTORS / "reference.jsonl").read_text().splitlines()]
RANDOM = [json.loads(line) for line in (VECTORS / "random_assignments.jsonl").read_text().splitlines()]


def check_sums(answer: ProgramMemory) -> None:
    """What holds of every answer: rows and groups add up to the total, and the timeline's maximum is the peak."""
    assert sum(buffer.bytes for buffer in answer.peak_buffers) == answer.peak_bytes
    timeline = answer.timeline
    assert max(step.bytes for step in timeline) == answer.peak_bytes
    assert [step.step for step in timeline if step.is_peak] == [answer.peak_step]
    for step in timeline:
        kinds = step.parameter_bytes + step.temporary_bytes + step.output_bytes + step.constant_bytes
        assert kinds == step.bytes == sum(buffer.bytes for buffer in answer.at(step.step))
    for key in ("source", "op_name", "opcode", "computation", "shape", "kind", "space"):
        groups = answer.by(key)
        assert sum(group.bytes for group in groups) == answer.peak_bytes
        assert sum(group.buffers for group in groups) == len(answer.peak_buffers)
    assert [buffer.bytes for buffer in answer.peak_buffers] == sorted(
        [buffer.bytes for buffer in answer.peak_buffers], reverse=True
    )


@pytest.mark.parametrize("row", REFERENCE, ids=[row["program"] for row in REFERENCE])
def test_totals_are_those_of_memory_analysis(row):
    answer = memory(VECTORS / f"{row['program']}.hlo.pb")
    assert not answer.is_estimate
    assert answer.lower_bytes == answer.upper_bytes == answer.peak_bytes == row["peak_memory_in_bytes"]
    assert answer.argument_bytes == row["argument_size_in_bytes"]
    assert answer.output_bytes == row["output_size_in_bytes"]
    assert answer.alias_bytes == row["alias_size_in_bytes"]
    assert answer.temp_bytes == row["temp_size_in_bytes"]
    text = (VECTORS / f"{row['program']}-memory-usage-report.txt").read_text()
    assert text.startswith(f"Total bytes used: {answer.total_allocation_bytes} ")
    assert all(buffer.shape is not None and buffer.opcode is not None for buffer in answer.peak_buffers)
    check_sums(answer)


def test_random_assignments_have_the_peak_that_xla_computes():
    assert len(RANDOM) == 500
    several_spaces = 0
    for row in RANDOM:
        module = HloModule.from_bytes(gzip.decompress(base64.b64decode(row["hlo_proto"])))
        answer = memory(module)
        assert answer.peak_bytes == row["peak"]
        assert answer.unpadded_peak_bytes == row["unpadded_peak"]
        assert answer.total_allocation_bytes == row["total_allocation_bytes"]
        assert answer.indefinite_bytes == row["indefinite_bytes"]
        check_sums(answer)
        several_spaces += len(answer.spaces) > 1
        alone = memory(module.hlo_proto.buffer_assignment)
        assert alone.peak_bytes == row["peak"]
        assert alone.unpadded_peak_bytes is None
        assert alone.module is None
    assert several_spaces > 100


def test_memory_spaces_by_themselves():
    seen = 0
    for row in RANDOM[:200]:
        module = HloModule.from_bytes(gzip.decompress(base64.b64decode(row["hlo_proto"])))
        answer = memory(module)
        for space in answer.spaces:
            alone = memory(module, space=space.space)
            seen += 1
            assert alone.peak_bytes == space.peak_bytes
            assert (alone.argument_bytes + alone.host_argument_bytes, alone.alias_bytes + alone.host_alias_bytes) == (
                space.argument_bytes,
                space.alias_bytes,
            )
            assert alone.unpadded_peak_bytes <= alone.peak_bytes
            assert {buffer.space for buffer in alone.peak_buffers} <= {space.space}
            if alone.peak_bytes:
                check_sums(alone)
        with pytest.raises(NotFoundError, match="nothing of the program is in memory space 99; there is"):
            memory(module, space=99)
    assert seen > 300


def test_what_lives_at_the_peak_says_where_it_comes_from():
    answer = memory(VECTORS / "mlp_loss_grad.hlo.pb")
    named = {buffer.name: buffer for buffer in answer.peak_buffers}
    assert {buffer.kind for buffer in answer.peak_buffers} == {"parameter", "temporary", "output", "constant"}
    parameters = [buffer for buffer in named.values() if buffer.kind == "parameter"]
    assert all(str(buffer.opcode) == "parameter" for buffer in parameters)
    assert sum(buffer.bytes for buffer in parameters) == answer.argument_bytes
    temporaries = [buffer for buffer in named.values() if buffer.kind == "temporary"]
    assert all(buffer.offset is not None and buffer.allocation is not None for buffer in temporaries)
    assert named["dot.3"].source == "programs.py:23"
    assert named["dot.3"].op_name == "jit(mlp_loss_grad)/transpose(jvp())/transpose"
    assert all(buffer.begin <= answer.peak_step <= buffer.end for buffer in named.values())


def test_values_of_one_allocation_do_not_overlap():
    for path in VECTORS.glob("*.hlo.pb"):
        answer = memory(path)
        for step in range(len(answer.timeline)):
            placed = sorted(
                [
                    (each.allocation, each.offset, each.offset + each.bytes)
                    for each in answer.at(step)
                    if each.kind == "temporary"
                ]
            )
            for (a, _, end), (b, begin, _) in itertools.pairwise(placed):
                assert a != b or end <= begin


def test_what_lives_at_an_instruction():
    answer = memory(VECTORS / "mlp_loss_grad.hlo.pb")
    for step in answer.timeline[1:]:
        found = answer.at(step.name)
        assert sum(buffer.bytes for buffer in found) <= answer.peak_bytes
        assert step.name in [buffer.name for buffer in found]
    assert answer.at(f"%{answer.peak_instruction}") == answer.peak_buffers
    root = answer.module.entry.root
    assert answer.at(root) == answer.at(root.name) == answer.at(len(answer.timeline) - 1)
    with pytest.raises(NotFoundError, match=r"no instruction 'multiply_fusion.4' takes memory in this program"):
        answer.at("multiply_fusion.4")
    with pytest.raises(NotFoundError, match=r"there is no step 99: the timeline has steps 0 to 23"):
        answer.at(99)
    with pytest.raises(
        InvalidArgumentError, match=r"expected one of source, .*, found 'opcodes': did you mean 'opcode'\?"
    ):
        answer.by("opcodes")


def test_layers_are_groups():
    answer = memory(VECTORS / "scan_rnn_grad.hlo.pb")
    groups = {group.group: group for group in answer.by("op_name")}
    assert groups["w"].bytes == 80 * 80 * 4
    assert groups["w"].share == groups["w"].bytes / answer.peak_bytes


def assignment(values: dict[int, int], events: list[tuple[str, int, int]]) -> xla.BufferAssignmentProto:
    proto = xla.BufferAssignmentProto()
    for number, size in values.items():
        proto.logical_buffers.add(id=number, size=size)
    trace = proto.heap_simulator_traces.add()
    for kind, buffer, shared in events:
        trace.events.add(kind=kind, buffer_id=buffer, share_with_canonical_id=shared)
    return proto


@pytest.mark.parametrize(
    ("values", "events", "message"),
    [
        ({1: 5}, [("ALLOC", 2, 0)], "a heap trace names logical buffer 2, which is not among its 1 logical buffers"),
        ({1: 5}, [("FREE", 2, 0)], "a heap trace names logical buffer 2"),
        ({1: 5}, [("SHARE_WITH", 1, 7)], "a heap trace names logical buffer 7"),
        ({1: 5}, [("SHARE_WITH", 1, 1)], "logical buffer 1 shares its own memory, by way of logical buffer 1"),
        (
            {1: 5, 2: 6},
            [("ALLOC", 1, 0), ("SHARE_WITH", 2, 1), ("SHARE_WITH", 1, 2)],
            "logical buffer 1 shares its own memory, by way of logical buffer 2",
        ),
        ({1: -5}, [], "logical buffer 1 has a size of -5 bytes"),
        ({1: 1 << 62, 2: 1 << 62}, [("ALLOC", 1, 0), ("ALLOC", 2, 0)], "live at once are larger than int64 holds"),
        ({1: 5}, [(7, 1, 0)], "an event of a heap trace is of the unknown kind 7"),
    ],
)
def test_damaged_traces(values, events, message):
    with pytest.raises(InvalidModuleError, match=message):
        memory(assignment(values, events))


def test_damaged_allocations():
    proto = xla.BufferAssignmentProto()
    proto.buffer_allocations.add(index=3, size=-1)
    with pytest.raises(InvalidModuleError, match="allocation 3 has a size of -1 bytes"):
        memory(proto)
    proto = xla.BufferAssignmentProto()
    proto.buffer_allocations.add(index=3, size=1)
    proto.buffer_allocations.add(index=3, size=1)
    with pytest.raises(InvalidModuleError, match="two allocations have the index 3"):
        memory(proto)
    proto = xla.BufferAssignmentProto()
    for index in range(3):
        proto.buffer_allocations.add(index=index, size=1 << 62)
    with pytest.raises(InvalidModuleError, match="the sizes of its allocations add up to more than int64 holds"):
        memory(proto)


def test_assignments_that_do_not_fit_their_module():
    text = "HloModule m ENTRY e { p = f32[4] parameter(0) ROOT t = (f32[4]) tuple(p) }"
    module = HloModule.parse(text)
    for location, message in (
        ({"instruction_id": 77}, "logical buffer 1 is made by instruction id 77, which the module does not have"),
        ({"instruction_name": "q"}, "logical buffer 1 is made by instruction 'q', which the module does not have"),
        (
            {"instruction_name": "t", "shape_index": [1]},
            r"logical buffer 1 is at \{1\} of instruction 't', whose shape is \(f32\[4\]\{0\}\)",
        ),
    ):
        proto = xla.HloProto(hlo_module=module.proto)
        logical = proto.buffer_assignment.logical_buffers.add(id=1, size=16)
        logical.defined_at.MergeFrom(xla.LogicalBufferProto.Location(**location))
        with pytest.raises(InvalidModuleError, match=message):
            memory(proto)


def test_long_chains_of_sharing_end():
    count = 20_000
    events = [("SHARE_WITH", number, number + 1) for number in range(count)]
    events += [("SHARE_WITH", count + 1, 0)] * 5_000
    with pytest.raises(LimitExceededError, match="steps through values that share memory"):
        memory(assignment(dict.fromkeys(range(count + 2), 1), events))


def test_an_empty_assignment():
    answer = memory(xla.BufferAssignmentProto())
    assert (answer.peak_bytes, answer.peak_buffers, answer.fragmentation) == (0, (), 0.0)
    assert len(answer.timeline) == 1
    assert answer.by("source") == ()
    assert answer.spaces == ()


def test_text_and_tables():
    answer = memory(VECTORS / "mixed_types.hlo.pb")
    lines = str(answer).splitlines()
    assert lines[0].startswith("peak         84,750 bytes (82.76 KiB), while ")
    assert [line.split()[0] for line in lines[:5]] == ["peak", "parameters", "outputs", "temporaries", "constants"]
    table = answer.table()
    assert sum(table["bytes"]) == answer.peak_bytes
    assert answer.section("by", "kind")["group"] == [group.group for group in answer.by("kind")]
    document = json.loads(json.dumps(answer.to_dict()))
    assert document["totals"]["peak_bytes"] == 84_750
    assert len(document["timeline"]) == len(answer.timeline)
