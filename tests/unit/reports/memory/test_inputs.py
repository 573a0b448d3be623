"""What `memory` takes: dumps, texts beside modules, objects of JAX, profiles."""

import gzip
import shutil
from pathlib import Path
from types import SimpleNamespace

import command_line
import pytest

import xlashape as xs
from xlashape.errors import DecodeError, InvalidArgumentError, NotFoundError, ParseError
from xlashape.hlo import HloModule
from xlashape.proto import xla
from xlashape.proto.wire import BYTES, sized, tag
from xlashape.reports.memory import memory
from xlashape.reports.size import size

VECTORS = Path(__file__).parents[3] / "vectors" / "memory"
NAMES = sorted([path.name.removesuffix(".hlo.pb") for path in VECTORS.glob("*.hlo.pb")])
OTHERS = sorted((VECTORS / "programs").glob("*.hlo.pb.gz"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", ["buffer-assignment.txt", "memory-usage-report.txt"])
def test_a_text_is_joined_with_the_module_beside_it(name, text):
    joined = memory(VECTORS / f"{name}-{text}")
    assert joined.to_dict()["timeline"] == memory(VECTORS / f"{name}.hlo.pb").to_dict()["timeline"]
    assert joined.notes == (f"The assignment is that of {name}.hlo.pb.",)


@pytest.mark.parametrize("name", NAMES)
def test_a_text_alone(name, tmp_path):
    exact = memory(VECTORS / f"{name}.hlo.pb")
    for text in ("buffer-assignment.txt", "memory-usage-report.txt"):
        shutil.copy(VECTORS / f"{name}-{text}", tmp_path)
    alone = memory(tmp_path / f"{name}-buffer-assignment.txt")
    assert alone.argument_bytes == exact.argument_bytes
    assert alone.output_bytes == exact.output_bytes
    assert alone.alias_bytes == exact.alias_bytes
    assert alone.temp_bytes == exact.temp_bytes
    assert alone.constant_bytes == exact.constant_bytes
    assert alone.total_allocation_bytes == exact.total_allocation_bytes
    assert alone.lower_bytes <= exact.peak_bytes <= alone.upper_bytes
    assert all(buffer.shape is not None or buffer.name.startswith("allocation ") for buffer in alone.peak_buffers)
    rounded = memory(tmp_path / f"{name}-memory-usage-report.txt")
    assert abs(rounded.total_allocation_bytes - exact.total_allocation_bytes) < 0.01 * exact.total_allocation_bytes
    assert "has rounded sizes" in rounded.notes[-1]
    content = (tmp_path / f"{name}-buffer-assignment.txt").read_bytes()
    assert memory(content).peak_bytes == memory(content.decode()).peak_bytes == alone.peak_bytes
    (tmp_path / "m-buffer-assignment.txt.gz").write_bytes(gzip.compress(content))
    assert memory(tmp_path / "m-buffer-assignment.txt.gz").peak_bytes == alone.peak_bytes


@pytest.mark.parametrize("name", NAMES)
def test_a_text_beside_a_module_without_an_assignment(name, tmp_path):
    exact = memory(VECTORS / f"{name}.hlo.pb")
    shutil.copy(VECTORS / f"{name}-buffer-assignment.txt", tmp_path)
    (tmp_path / f"{name}.txt").write_text(exact.module.to_text(print_large_constants=False))
    joined = memory(tmp_path / f"{name}-buffer-assignment.txt")
    assert joined.temp_bytes == exact.temp_bytes
    assert abs(joined.peak_bytes - exact.peak_bytes) <= 64
    assert joined.lower_bytes <= exact.peak_bytes <= joined.upper_bytes


def untraced(path: Path, *, with_peak: bool) -> tuple[HloModule, bytes, int]:
    """A module as an executable of jaxlib since 0.7.2 has it: module, assignment without traces, peak that jaxlib says
    of it."""
    module = HloModule.load(path)
    proto = xla.BufferAssignmentProto()
    proto.CopyFrom(module.hlo_proto.buffer_assignment)
    del proto.heap_simulator_traces[:]
    if not with_peak:
        del proto.peak_buffers[:]
    return module, proto.SerializeToString(), memory(proto).peak_bytes


@pytest.mark.parametrize("with_peak", [False, True])
def test_executables_that_have_lost_their_traces(with_peak):
    equal = 0
    for path in OTHERS:
        exact = memory(path)
        module, data, said = untraced(path, with_peak=with_peak)
        stats = SimpleNamespace(serialized_buffer_assignment_proto=data, peak_memory_in_bytes=said)
        executable = SimpleNamespace(
            get_compiled_memory_stats=lambda stats=stats: stats,
            hlo_modules=lambda module=module: [
                SimpleNamespace(as_serialized_hlo_module_proto=module.proto.SerializeToString)
            ],
        )
        compiled = SimpleNamespace(runtime_executable=lambda executable=executable: executable)
        answer = memory(compiled)
        assert answer.peak_bytes == memory(executable).peak_bytes
        assert abs(answer.peak_bytes - exact.peak_bytes) <= 64
        equal += answer.peak_bytes == exact.peak_bytes
        assert answer.lower_bytes - 64 <= exact.peak_bytes <= answer.upper_bytes
        assert answer.temp_bytes == exact.temp_bytes
        assert sum(buffer.bytes for buffer in answer.peak_buffers) == answer.peak_bytes
        if exact.temp_bytes:
            assert answer.said_peak == said
            assert answer.missing_bytes == answer.peak_bytes - said > 0
            assert f"jaxlib says a peak of {said:,} bytes, which lacks" in answer.notes[-1]
            assert "--xla_dump_to=DIR" in answer.notes[-1]
        alone = memory(stats)
        assert alone.module is None
        assert alone.argument_bytes == exact.argument_bytes
    assert equal == len(OTHERS)


def test_a_target_that_does_not_count_is_said_of_every_assignment(tmp_path):
    module, data, _ = untraced(VECTORS / "hessian.hlo.pb", with_peak=True)
    proto = xla.BufferAssignmentProto()
    proto.CopyFrom(module.hlo_proto.buffer_assignment)
    texts = [f"hessian-{kind}.txt" for kind in ("buffer-assignment", "memory-usage-report")]
    for text in texts:
        shutil.copy(VECTORS / text, tmp_path)
    stats = SimpleNamespace(serialized_buffer_assignment_proto=data, peak_memory_in_bytes=1)
    for x in (module, proto, stats, VECTORS / texts[0], *[tmp_path / text for text in texts]):
        assert memory(x, target="tpu-v5e").notes[:-1] == memory(x).notes
        assert "assignment, not of tpu-v5e:" in memory(x, target="tpu-v5e").notes[-1]
    text = HloModule.parse(module.to_text())
    assert not [note for note in memory(text, target="tpu-v5e").notes if "assignment, not of" in note]


def test_a_profile_holds_assignments(tmp_path):
    def message(number: int, content: bytes) -> bytes:
        return tag(number, BYTES) + sized(content)

    data = (VECTORS / "hessian.hlo.pb").read_bytes()
    stat = message(6, data)
    metadata = message(2, b"jit_hessian(3)") + message(5, stat)
    plane = message(2, b"/host:metadata") + message(4, message(2, metadata))
    (tmp_path / "t.xplane.pb").write_bytes(message(1, plane))
    assert memory(tmp_path / "t.xplane.pb").peak_bytes == memory(VECTORS / "hessian.hlo.pb").peak_bytes


def test_usage_reports_as_protos(tmp_path):
    report = xla.MemoryUsageReportProto()
    space = report.memory_space_allocation_entries.add(total_bytes=300, memory_space_color=1)
    space.allocation_entries.add(index=4, size=200, defining_positions=["dot.1"])
    space.allocation_entries.add(index=2, size=100)
    path = tmp_path / "m-memory-usage-report.pb"
    path.write_bytes(report.SerializeToString())
    answer = memory(path)
    assert (answer.upper_bytes, answer.total_allocation_bytes) == (300, 0)
    assert [(each.space, each.total_allocation_bytes) for each in answer.spaces] == [(1, 300)]
    path.write_bytes(b"\xff\xff")
    with pytest.raises(DecodeError, match="m-memory-usage-report.pb is not a memory usage report"):
        memory(path)


def test_reports_by_memory_space(tmp_path):
    path = tmp_path / "m-memory-usage-report.txt"
    path.write_text(
        "Memory Space: default (color=0)\nTotal bytes: 1000 (1000B)\n\nMemory Space: vmem (color=1)\nTotal bytes: 24 "
        "(24B)\n"
    )
    assert [(each.space, each.total_allocation_bytes) for each in memory(path).spaces] == [(0, 1000), (1, 24)]


def test_live_ranges_alone(tmp_path):
    path = tmp_path / "m-live-range.txt"
    path.write_text(
        "HloLiveRange (max 23):\n  InstructionSequence:\n    0:p\n  Live ranges at 20 (peak):\n"
        "    dot{}: 262144 bytes (cumulative: 262144 bytes)\n    while.1{1}: 8 bytes (cumulative: 262152 bytes)\n  "
        "Stack trace breakdown\n"
    )
    assert [(each.name, each.bytes) for each in memory(path).peak_buffers] == [("dot", 262144), ("while.1", 8)]
    assert memory(path).peak_bytes == 262152


def test_files_that_say_nothing(tmp_path):
    path = tmp_path / "m-buffer-assignment.txt"
    with pytest.raises(NotFoundError, match="no such file"):
        memory(path)
    path.write_text("nothing\n")
    with pytest.raises(ParseError, match=r"m-buffer-assignment\.txt has no allocations of a buffer assignment"):
        memory(path)
    path.write_text(f"allocation 0: size {10**30}, constant:\n")
    with pytest.raises(ParseError, match="a number does not fit int64"):
        memory(path)
    (tmp_path / "m-buffer-assignment-values.txt").write_text("Used values:\n")
    with pytest.raises(InvalidArgumentError, match=r"has no sizes of its values: put m\.hlo\.pb or m\.txt beside it"):
        memory(tmp_path / "m-buffer-assignment-values.txt")
    stats = SimpleNamespace(serialized_buffer_assignment_proto=b"\xff\xff", peak_memory_in_bytes=3)
    with pytest.raises(DecodeError, match="the buffer assignment of this SimpleNamespace cannot be decoded"):
        memory(stats)
    with pytest.raises(InvalidArgumentError, match="a value of type int holds no module"):
        memory(3)


REPORT = """Ran out of memory in memory space hbm. Used 17.21G of 15.48G hbm. Exceeded hbm capacity by 1.73G.
Total hbm usage >= 17.21G:
    program 17.21G
  1. Size: 2.00G
     Shape: f32[32,4096,4096]{1,2,0:T(8,128)}
     Unpadded size: 2.00G
"""


def test_a_report_about_memory_that_has_run_out_is_for_why(tmp_path):
    file = tmp_path / "oom.txt"
    file.write_text(REPORT)
    for x in (file, str(file), REPORT, REPORT.encode()):
        with pytest.raises(InvalidArgumentError, match="no program: `why` explains it"):
            memory(x)


@pytest.mark.parametrize("kind", ["buffer-assignment.txt", "memory-usage-report.txt"])
def test_why_and_size_of_an_assignment_are_those_of_its_module(tmp_path, kind):
    content = (VECTORS / f"hessian-{kind}").read_bytes()
    alone = tmp_path / f"hessian-{kind}"
    alone.write_bytes(content)
    for ask in (xs.why, size):
        for x in (alone, content, content.decode()):
            with pytest.raises(InvalidArgumentError, match="says where a module's values lie, without the module"):
                ask(x)
    (tmp_path / "hessian.hlo.pb").write_bytes((VECTORS / "hessian.hlo.pb").read_bytes())
    assert xs.why(alone).peak_bytes == size(alone).peak_bytes == memory(VECTORS / "hessian.hlo.pb").peak_bytes
    assert xs.why(alone).buffer_bytes == xs.why(VECTORS / "hessian.hlo.pb").buffer_bytes


def test_several_files_have_their_totals_above_the_rows():
    done = command_line.run("memory", VECTORS / "hessian.hlo.pb", VECTORS / "mlp_loss_grad.hlo.pb", "--limit", "3")
    lines = done.stdout.decode().splitlines()
    assert lines[0].split() == ["file", "peak", "parameters", "outputs", "donated", "temporaries", "constants"]
    assert [line.split()[0] for line in lines[2:4]] == ["hessian.hlo.pb", "mlp_loss_grad.hlo.pb"]
    assert "1.74 MiB" in lines[3]
    assert f"The files are in {VECTORS}/" in lines
