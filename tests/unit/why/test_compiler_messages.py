"""Messages of compilers about kernels and shardings: their numbers come first; shapes in them are not explained."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

import xlashape as xs
from xlashape.reports.why.oom import ReportMemory

SCOPED = (
    "{code}Ran out of memory in memory space vmem while allocating on stack for %{name} = "
    'bf16[4,256,512]{{2,1,0:T(8,128)(2,1)}} {opcode}(%a.1, %b.1), metadata={{op_name="jit(f)/pallas_call" '
    "stack_frame_id=7}}. Scoped allocation with size {needed} and limit {limit} exceeded scoped vmem limit by {excess}."
)
SIZES = {
    "21.50M": 22_544_384, "16.00M": 1 << 24, "5.50M": 5_767_168, "900.0K": 921_600, "800.0K": 819_200, "100.0K": 102_400,
    "1.50G": 3 << 29, "1.00G": 1 << 30, "512.00M": 1 << 29,
}  # fmt: skip
LIMITS = {"21.50M": (22027, 22_554_870), "900.0K": (901, 921_703), "1.50G": (1_583_350, 1_621_350_155)}
"""The KiB and bytes of one step of the last digit more: the printed size is rounded."""


@pytest.mark.parametrize("code", ["", "E1001: CompileTimeScopedVmemOom:\n", "I0101 10:00:00.000000 7 x.cc:1] "])
@pytest.mark.parametrize("opcode", ["custom-call", "fusion"])
@pytest.mark.parametrize(
    "sizes", [("21.50M", "16.00M", "5.50M"), ("900.0K", "800.0K", "100.0K"), ("1.50G", "1.00G", "512.00M")]
)
def test_a_kernel_that_needs_more_scoped_memory_than_the_limit(
    code: str, opcode: str, sizes: tuple[str, str, str]
) -> None:
    needed, limit, excess = sizes
    text = SCOPED.format(code=code, name="kern.3", opcode=opcode, needed=needed, limit=limit, excess=excess)
    answer = xs.why(text)
    assert isinstance(answer, ReportMemory)
    first = " ".join(answer.headline().split())
    assert first.startswith(f"kern.3 ({opcode}) needs ")
    assert [(each.name, each.bytes, each.detail) for each in answer.stated] == [
        ("needed", SIZES[needed], "kern.3"), ("limit", SIZES[limit], "kern.3"), ("excess", SIZES[excess], "kern.3"),
    ]  # fmt: skip
    assert answer.must_go_bytes == SIZES[excess]
    assert len(answer) == 0
    kibibytes, limit_bytes = LIMITS[needed]
    assert f"--xla_tpu_scoped_vmem_limit_kib={kibibytes} " in first
    assert ("vmem_limit_bytes" in first) == (opcode == "custom-call")
    assert f"vmem_limit_bytes={limit_bytes})" in first or opcode != "custom-call"


def test_a_message_about_scoped_memory_that_is_cut_anywhere_tells_of_no_array() -> None:
    text = SCOPED.format(code="", name="k", opcode="custom-call", needed="21.50M", limit="16.00M", excess="5.50M")
    for end in range(text.index(" for %"), len(text)):
        answer = xs.why(text[:end])
        assert isinstance(answer, ReportMemory), text[:end]
        assert answer.allocations == ()
        sizes = {each.name: each.text for each in answer.stated}
        assert sizes.items() <= {"needed": "21.50M", "limit": "16.00M", "excess": "5.50M"}.items(), text[:end]


def test_a_message_about_the_stack_with_other_sizes_is_not_said_to_be_cut() -> None:
    told = str(
        xs.why(
            "Ran out of memory in memory space vmem while allocating on stack for %k = f32[8] fusion(%a). "
            "Used 40.00M of 32.00M vmem. Exceeded vmem capacity by 8.00M."
        )
    )
    assert "The text ends" not in told
    assert "8.00 MiB too much" in told


# The bytes of VMEM of a core that jax.experimental.pallas.tpu states for each generation.
@pytest.mark.parametrize(
    ("target", "mebibytes"),
    [
        ("tpu-v2", 16),
        ("tpu-v3", 16),
        ("tpu-v4", 16),
        ("tpu-v5e", 128),
        ("tpu-v5p", 64),
        ("tpu-v6e", 128),
        ("tpu-7x", 64),
    ],
)
def test_no_limit_helps_beyond_the_vmem_of_the_chip(target: str, mebibytes: int) -> None:
    for needed in (mebibytes - 1, mebibytes, mebibytes + 1, 1000):
        sizes = {"needed": f"{needed}.00M", "limit": "8.00M", "excess": f"{needed - 8}.00M"}
        text = SCOPED.format(code="", name="kern.3", opcode="custom-call", **sizes)
        told = " ".join(str(xs.why(text, target=target)).split())
        assert told.startswith(f"kern.3 (custom-call) needs {needed}.00 MiB of scoped VMEM; the limit is 8.00 MiB")
        assert f"{mebibytes}.00 MiB of" in told
        assert ("No limit helps" in told, "limit_kib" in told) == (needed > mebibytes, needed <= mebibytes)


WORDINGS = (
    "[spmd] Involuntary full rematerialization. The compiler was not able to go from sharding {one} to {other} without "
    "doing a full rematerialization of the tensor for HLO operation: %add.1 = {shape} add(%p.1, %p.2), sharding={one}. "
    "You probably want to enrich the sharding annotations to prevent this from happening.",
    "[SPMD] Involuntary full rematerialization. The compiler cannot go from sharding {one} to {other} efficiently for HLO "
    "operation %add.1 = {shape} add(%p.1, %p.2), sharding={one}. As the last resort, SPMD will replicate the tensor and "
    "then partition it to obtain the target sharding, which is inefficient.",
)


@pytest.mark.parametrize("wording", WORDINGS)
@pytest.mark.parametrize(
    ("one", "other", "part", "after", "lacked", "advice"),
    [
        # jax#21562 as jaxlib 0.12.0.1 and 0.4.35 say it, with the sizes that were measured
        ("{devices=[2,1,4]<=[4,2]T(1,0)}", "{devices=[1,8,1]<=[8]}", "f32[8,16,4]", 2048, 1792, "{devices=[2,4,1]<=[4,2]T(1,0)} in between, it takes all-to-all, all-to-all, 2.50 KiB."),
        ("{mesh['x'=4,'y'=2], [{'y'}, {}, {'x'}]}", "{mesh['x'=4,'y'=2], [{}, {'x', 'y'}, {}]}", "f32[8,16,4]", 2048, 1792, "P('y', 'x', None) in between, it takes all-to-all, all-to-all, 2.50 KiB."),
        ("{devices=[2,1,1,4]<=[8] last_tile_dim_replicate}", "{devices=[1,8,1]<=[8]}", "f32[8,16,16]", 2048, 1024, "{devices=[8,1,1]<=[8]} in between, it takes slice, all-to-all, 1.75 KiB."),
        ("{replicated}", "{devices=[8,1,1]<=[8]}", "f32[16,16,16]", 2048, 0, ""),
    ],
)  # fmt: skip
def test_what_the_partitioner_gathers(
    wording: str, one: str, other: str, part: str, after: int, lacked: int, advice: str
) -> None:
    """The shape in the message is that of one device."""
    text = wording.format(one=one, other=other, shape=f"{part}{{2,1,0}}")
    answer = xs.why(f"E0101 10:00:00.000000 7 spmd_partitioner.cc:621] {text}")
    before = xs.shape_util.byte_size_of(xs.Shape.parse(part))
    assert [(each.name, each.bytes) for each in answer.stated] == [
        ("before", before), ("between", 1 << 14), ("after", after), ("gathered", (1 << 14) - before), ("lacked", lacked),
    ]  # fmt: skip
    headline = " ".join(answer.headline().split())
    assert headline.startswith("add.1, f32[16,16,16]{2,1,0} in all, is ")
    assert headline.partition("Constrained to ")[2] == advice


REMATS = Path(__file__).resolve().parents[2] / "vectors/collectives/remats.jsonl.gz"


@pytest.mark.parametrize("row", [json.loads(line) for line in gzip.decompress(REMATS.read_bytes()).splitlines()])
def test_shardings_on_the_way_were_tried(row: dict[str, Any]) -> None:
    """Messages of jaxlib 0.12.0.1; each program was compiled again with the named shardings in between: XLA logged no
    message then, and each device received `received` bytes."""
    headline = " ".join(xs.why(row["message"]).headline().split())
    assert f"Constrained to {', then '.join(row['between'])} in between" in headline
    before, _, after = row["message"].partition("from sharding ")[2].partition(" efficiently")[0].partition(" to ")
    made = xs.sharding.reshard(row["shape"], before, after)
    assert sum(step.received_bytes for step in made.steps or ()) == row["received"] < row["received_before"]
    assert row["messages"] == 0


def test_a_report_of_vmem_without_sizes() -> None:
    answer = xs.why(
        "Ran out of memory in memory space vmem. It should not be possible to run out of vmem - please file a bug "
        "against XLA.\n\nLargest program allocations in vmem:\n\n  XLA label: register allocator spill slots\n"
        "  Allocation type: scoped\n\n  XLA label: %fusion.7 = (bf16[], f32[256]{0}) fusion(f32[256]{0}, ...(+13)), "
        "kind=kOutput, calls=%fused_computation.7\n  Allocation type: scoped\n"
    )
    assert [(each.name, each.bytes, each.detail) for each in answer.stated] == [
        ("register allocator spill slots", None, ""), ("fusion.7", None, "fusion"),
    ]  # fmt: skip
    assert answer.headline().startswith("The compiler ran out of VMEM; the report states no size.")
    assert len(answer) == 0
    sized = xs.why(
        "Ran out of memory in memory space vmem. Used 65.05M of 64.00M vmem. Exceeded vmem capacity by 1.05M.\n\n"
        "  XLA label: register allocator spill slots\n"
    )
    assert sized.must_go_bytes == 1_101_005


@pytest.mark.parametrize(
    "text",
    [
        "ptxas error : Entry function 'k' uses too much shared data (0x20000 bytes, 0x18c00 max)",
        "OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block sizes",
        "INTERNAL: Shared memory size limit exceeded: requested 131072, available: 101376",
    ],
)
def test_a_kernel_that_needs_more_shared_memory_than_the_gpu_has(text: str) -> None:
    answer = xs.why(text)
    assert [(each.name, each.bytes) for each in answer.stated] == [
        ("needed", 131_072), ("limit", 101_376), ("excess", 29_696),
    ]  # fmt: skip


# -- messages that are not XLA's ------------------------------------------------------------

PREFIXES = (
    "", "[rank0]: ", "2026-11-02 10:11:12.345 ERROR train.py:88: ", "[rank3]: 2026-11-02 10:11:12,345 ERROR a/b.py:7: ",
    "2026-11-02 10:11:12,345 - train - ERROR - ", "> ", "(train pid=12, ip=10.0.0.1) ", "E1102 10:11:12.345678 99 f.py:3] ",
)  # fmt: skip
UNITS = {"KiB": 10, "MiB": 20, "GiB": 30}


def sizes(count: int) -> list[tuple[str, int]]:
    """Sizes as NumPy and PyTorch write them, and their bytes."""
    drawn = random.Random(7)
    made = [(drawn.choice([*UNITS]), drawn.randrange(100, 99_999)) for _ in range(count)]
    return [(f"{number / 100:.2f} {unit}", round(number / 100 * (1 << UNITS[unit]))) for unit, number in made]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_requests_of_numpy_and_pytorch_are_read(prefix: str) -> None:
    for (needed, needed_bytes), (whole, whole_bytes), (free, free_bytes) in zip(
        sizes(9), sizes(20)[9:], sizes(33)[20:], strict=False
    ):
        numpy = f"{prefix}numpy.core._exceptions._ArrayMemoryError: Unable to allocate {needed} for an array with shape (7, 3) and data type float32"
        answer = xs.why(numpy)
        assert [(each.name, each.bytes) for each in answer.stated] == [("requested", needed_bytes)]
        assert "for an array of shape (7, 3) and type float32." in " ".join(answer.headline().split())
        for torch in (
            f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {needed}. GPU 1 has a total capacity of {whole} of "
            f"which {free} is free. Process 7 has 3.00 GiB memory in use.",
            f"RuntimeError: CUDA out of memory. Tried to allocate {needed} (GPU 1; {whole} total capacity; 3.00 GiB already "
            f"allocated; {free} free; 4.00 GiB reserved in total by PyTorch)",
        ):
            found = xs.why(prefix + torch)
            stated = {each.name: each.bytes for each in found.stated}
            assert stated == {"requested": needed_bytes, "capacity": whole_bytes, "free": free_bytes}
            assert found.headline().startswith("PyTorch asked GPU 1 for ")


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc", "A C++ program"),
        ("Killed", "The process was killed"),
        ("./run.sh: line 3:  4711 Killed                  python train.py", "The process was killed"),
        ("Process finished with exit code 137 (interrupted by signal 9: SIGKILL)", "The process was killed"),
        ("Last State: Terminated, Reason: OOMKilled", "The process was killed"),
        ("Out of memory: Killed process 4711 (python) total-vm:99kB", "The process was killed"),
    ],
)
def test_ends_of_processes_are_told_by_their_kind(prefix: str, text: str, said: str) -> None:
    answer = xs.why(prefix + text)
    assert answer.headline().startswith(said)
    assert "states no size" in " ".join(answer.headline().split()) or "does not say how much" in " ".join(
        answer.headline().split()
    )
    assert not answer.stated and len(answer) == 0


def test_what_xla_says_beside_them_counts() -> None:
    xla = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 3221225472 bytes."
    assert xs.why(f"{xla}\nKilled").stated == xs.why(xla).stated
    line = "%n = f32[4]{0} negate(f32[4]{0} %p)"
    assert [each.name for each in xs.cost(f"{line}\nKilled")] == ["n"]
    with pytest.raises(xs.errors.XlashapeError):
        xs.why("The witness was Killed yesterday.")
