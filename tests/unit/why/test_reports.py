"""Published reports about memory that has run out: the facts of each, written in the ways in which people paste them.

`tests/vectors/memory_reports.jsonl` has, of each published report, where it is and what it states of some allocations.
An empty text is what the report does not state, or what was not quoted.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optional import shared

import xlashape as xs
from xlashape.base.pasted import clean
from xlashape.errors import LimitExceededError
from xlashape.limits import budget
from xlashape.reports.oom_text import agrees, is_report, parse_size, read_report, read_shapes, read_totals
from xlashape.reports.why import ReportMemory
from xlashape.reports.why.oom import report_memory, size_text

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "memory_reports.jsonl"
REPORTS = [json.loads(line) for line in VECTORS.read_text(encoding="utf-8").splitlines()]
TPU = [report for report in REPORTS if report["framework"] != "gpu"]
HEAD = (
    "Ran out of memory in memory space hbm. Used 17.21G of 15.48G hbm. Exceeded hbm capacity by 1.73G.\n\n"
    "Total hbm usage >= 17.73G:\n    reserved        530.00M \n    program          17.21G \n    arguments            "
    "0B \n\n"
    "Output size 0B; shares 0B with arguments.\n\nProgram hbm requirement 17.21G:\n    global             4.0K\n"
    "    HLO temp         17.21G (33.1% utilization: Unpadded (6.40G) Padded (17.20G), 0.0% fragmentation (0B))\n\n"
    "  Largest program allocations in hbm:\n\n"
)


def lines_of(report) -> str:
    """A report of the TPU compiler with these allocations."""
    text = HEAD
    for number, one in enumerate(report["allocations"], start=1):
        text += f"  {number}. Size: {one['size']}\n"
        text += '     Operator: op_type="concatenate" op_name="jit(t)/concatenate[ dimension=4 ]" source_file="t.py" source_line=6\n'
        text += f"     Shape: {one['shape']}\n"
        if one["unpadded"]:
            text += f"     Unpadded size: {one['unpadded']}\n"
        if one["padding"]:
            text += f"     Extra memory due to padding: {one['padding']} ({one['expansion']}x expansion)\n"
        text += f"     XLA label: %fusion.1 = {one['shape']} fusion(s32[2048,1,128,128,1]{{4,3,2,0,1:T(8,128)}} %iota.5, f32[18]{{0:T(256)}}...\n"
        text += "     Allocation type: HLO temp\n     ==========================\n\n"
    return text


def prefixed(prefix: str):
    return lambda text: "".join([prefix + line + "\n" for line in text.splitlines()])


def coloured(text: str) -> str:
    return "".join([f"\x1b[1;31m{line}\x1b[0m\x1b[K\n" for line in text.splitlines()])


def wrapped_anywhere(width: int):
    """As a terminal of this width breaks lines: within words, too."""

    def wrap(text: str) -> str:
        pieces = [line[at : at + width] for line in text.splitlines() for at in range(0, max(1, len(line)), width)]
        return "\n".join(pieces)

    return wrap


def wrapped_at_spaces(text: str) -> str:
    return "\n".join(
        [
            part
            for line in text.splitlines()
            for part in textwrap.wrap(line, 40, break_long_words=False, break_on_hyphens=False) or [""]
        ]
    )


WAYS = {
    "as it is": str,
    "one line": lambda text: " ".join(text.split()),
    "in colours": coloured,
    "quoted": prefixed("> "),
    "quoted twice": prefixed(">> "),
    "quoted in a list of replies": prefixed("> > "),
    "log of PyTorch/XLA": prefixed(
        "2020-05-04 09:05:40.719745: E    1578 tensorflow/compiler/xla/xla_client/xla_util.cc:76] "
    ),
    "log of absl": prefixed("I0309 12:51:51.376826 140505975940928 run_docker.py:247] "),
    "log of TensorFlow": prefixed("E1111 07:35:00.272763 140408571025152 error_handling.py:81] "),
    "log of CI": prefixed("2024-05-04T09:05:40.1234567Z "),
    "log of ranks": prefixed("[rank0]: "),
    "log of Ray": prefixed("(train_step pid=1234, ip=10.0.0.2) "),
    "log of workers": prefixed("worker-3: "),
    "log of containers": prefixed("trainer_1  | "),
    "quoted log in colours": lambda text: prefixed("> ")(coloured(prefixed("2024-05-04T09:05:40.12Z ")(text))),
    "broken at 80 characters": wrapped_anywhere(80),
    "broken at 33 characters": wrapped_anywhere(33),
    "broken at spaces": wrapped_at_spaces,
    "broken and quoted": lambda text: prefixed("> ")(wrapped_at_spaces(text)),
    "repr of an exception": lambda text: f"XlaRuntimeError({text!r})",
    "escaped in JSON": json.dumps,
    "Markdown": lambda text: text.replace("1. Size", "**1\\. Size").replace("Size: ", "Size: "),
    "Windows line ends": lambda text: text.replace("\n", "\r\n"),
    "tabs": lambda text: text.replace("     ", "\t"),
    "in a traceback": lambda text: (
        'Traceback (most recent call last):\n  File "t.py", line 6, in <module>\n'
        f"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. {text}\n"
        "The stack trace below excludes JAX-internal frames.\n"
    ),
}


def check(found: ReportMemory, report) -> None:
    assert len(found.allocations) == len(report["allocations"])
    for number, (ours, theirs) in enumerate(zip(found.allocations, report["allocations"], strict=True), start=1):
        read = ours.reported
        assert (read.number, read.size, read.unpadded) == (number, theirs["size"], theirs["unpadded"])
        assert (read.padding, read.expansion) == (theirs["padding"], theirs["expansion"])
        assert str(read.shape) == str(xs.Shape.parse(theirs["shape"]))
        assert ours.size == theirs["size"]
        assert theirs["unpadded"] in ("", ours.unpadded)
        assert theirs["padding"] in ("", ours.padding)
        assert theirs["expansion"] in ("", ours.expansion)
        assert ours.agrees


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("report", TPU, ids=lambda report: report["source"].removeprefix("https://github.com/"))
def test_our_sizes_are_those_of_published_reports(report, way) -> None:
    text = WAYS[way](lines_of(report))
    assert is_report(text)
    found = xs.why(text)
    assert isinstance(found, ReportMemory)
    check(found, report)
    assert found.reported is not None
    assert (found.reported.memory_space, found.reported.used, found.reported.capacity) == ("hbm", "17.21G", "15.48G")
    assert found.allocations[0].reported.kind == "HLO temp"
    if "broken" not in way:
        assert found.allocations[0].reported.operator.startswith('op_type="concatenate" op_name="jit(t)/')
        assert "the same" in str(found)
        assert "NOT" not in str(found)


@pytest.mark.parametrize("report", [report for report in REPORTS if report["framework"] == "gpu"])
@pytest.mark.parametrize(
    "way", ["as it is", "one line", "in colours", "quoted", "log of absl", "broken at 33 characters"]
)
def test_reports_of_gpus(report, way) -> None:
    text = "Out of memory while trying to allocate 31542059128 bytes.\nPeak buffers:\n"
    for number, one in enumerate(report["allocations"], start=1):
        text += f'\tBuffer {number}:\n\t\tSize: {one["size"]}\n\t\tOperator: op_name="jit(f)/add" source_line=76\n'
        text += f"\t\tXLA Label: fusion\n\t\tShape: {one['shape']}\n\t\t==========================\n\n"
    found = xs.why(WAYS[way](text))
    check(found, report)
    assert found.reported.used == "31542059128B"
    assert found.allocations[0].reported.label == "fusion" or "broken" in way
    assert all(one.memory.shape.layout.tiles == () for one in found.allocations)


def test_a_wrong_size_is_told() -> None:
    found = xs.why("1. Size: 5.00G\nShape: u32[12582912,1]{1,0:T(8,128)}\nUnpadded size: 48.00M\n")
    assert not found.agrees
    assert "ours      6.00G, unpadded 48.00M, padding 5.95G (128.0x expansion): NOT the" in str(found)
    assert found.to_dict()["totals"]["agrees"] is False


def test_allocations_without_a_shape_and_shapes_that_cannot_be() -> None:
    text = "1. Size: 29.66M\n XLA label: register allocator spill slots call depth 2\n Allocation type: scoped\n"
    text += "2. Size: 1.0K\n Shape: f32[2,3]{7,1}\n Unpadded size: 1.0K\n3. Size: 1.0K\n Shape: f32[9223372036854775807,2]{1,0}\n Unpadded size: 1.0K"
    found = xs.why(text)
    assert [one.agrees for one in found.allocations] == [None, False, None]
    # The layout that cannot be is not read; the shape counts in the default one. The third shape is beyond int64.
    assert str(found.allocations[1].reported.shape) == "f32[2,3]{1,0}"
    assert found.allocations[2].reported.shape is None
    assert found.allocations[0].reported.kind == "scoped"
    assert "29.66M, without a shape (register allocator" in str(found)
    json.dumps(found.to_dict())


def test_the_short_report_of_new_compilers() -> None:
    text = "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries (32.05G) exceeds available HBM (15.75G)."
    found = xs.why(text)
    assert (found.reported.used, found.reported.capacity, found.reported.memory_space) == ("32.05G", "15.75G", "hbm")
    assert found.allocations == ()
    assert str(found).startswith("hbm: 32.05 GiB are needed, 15.75 GiB are there: 16.30 GiB too much")


def test_text_with_shapes_that_is_no_report() -> None:
    found = xs.why(
        "%fusion.2 = bf16[20,300]{1,0:T(8,128)(2,1)} fusion(f32[3,5]{1,0:T(2,2)} %x, f32[3,5]{1,0:T(2,2)} %y)"
    )
    assert [array.buffer_bytes for array in found.arrays] == [18432, 96]
    assert found.buffer_bytes == 18528


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0B", 0),
        ("4.0K", 4096),
        ("1.5K", 1536),
        ("48.00M", 48 << 20),
        ("2.63GiB", round(2.63 * (1 << 30))),
        ("1.00T", 1 << 40),
    ],
)
def test_sizes(text, size) -> None:
    assert parse_size(text) == size
    assert parse_size(size_text(size, text)) == size or "2.63" in text


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1 << 20, (1 << 20) - 1, 1 << 30, 1 << 40, (1 << 63) - 1])
def test_size_texts_are_read_back(size) -> None:
    assert abs(parse_size(size_text(size)) - size) <= max(1, size * 0.006)


def test_broken_text_breaks_nothing() -> None:
    report = lines_of(TPU[0])
    for at in range(0, len(report), 7):
        allocations = read_report(clean(report[:at])).allocations
        assert len(allocations) <= 1
        read_totals(report[:at])
    assert read_shapes("f32[" * 20_000) == []
    assert read_shapes("f32[2]{" * 2_000)[:1] == [xs.Shape.parse("f32[2]")]
    assert clean("> " * 50_000 + "x") == "x"
    assert read_report("Size: " * 20_000).allocations == []
    assert read_report("Size: 9" + "9" * 5000 + " Shape: f32[2]").allocations[0].shape == xs.Shape.parse("f32[2]")


def test_a_tuple_is_not_compared() -> None:
    (one,) = xs.why("1. Size: 16B\n Shape: (f32[2]{0}, (s32[], pred[3]{0:T(512)}))\n XLA label: tuple.1").allocations
    assert str(one.reported.shape) == "(f32[2]{0}, (s32[], pred[3]{0:T(512)}))"
    assert (one.memory, one.agrees) == (None, None)
    assert str(one) == "1. 16B, (f32[2]{0}, (s32[], pred[3]{0:T(512)})) (tuple.1)"


def test_text_without_anything_to_explain() -> None:
    with pytest.raises(
        xs.errors.ParseError, match="found no shape, no allocation of a report and no module in this text"
    ):
        xs.why("the run has ended:\n  something went wrong, and nobody knows what\n")
    with pytest.raises(xs.errors.DecodeError, match="a traceback of Python without a message about memory"):
        xs.why("Traceback (most recent call last):\n  something went wrong, and nobody knows what\n")


PIECES = [
    "Size: ", "1. Size: 2.00G\n", "Shape: ", "f32[2,3]{1,0:T(8,128)}", "s4[", "]{", "Unpadded size: ", "1.5K", "Buffer 3:\n",
    "Extra memory due to padding: 1.00G (2.0x expansion)", "XLA label: ", "=====", "\n", " ", "> ", "\x1b[31m", "(", ")", "{", "}", ",",
    "Total hbm usage >= 4.00G:\n", "Program hbm requirement 1.00G:", "BufferAssignment stats:\n", "reserved 4.0K", "HLO temp 1.00G (5% utilization)",
    "HBM capacity 8.00G:\n", "CompiledMemoryStats(", "temp_size_in_bytes=5)", "Attempting to reserve 1B", "rematerialization", "unknown size",
    "HloModule ", "9" * 30, "\x00", "Ran out of memory in memory space hbm.", "Used 1.00G of 2.00G hbm", "pred[<=4,?]", "é", "\\n", "#", "/",
]  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=6)), max_size=14).map("".join))
def test_any_text_is_answered_or_refused(text) -> None:
    for form in (text, text.encode("utf-8", "surrogatepass")):
        try:
            memory = xs.why(form)
        except xs.XlashapeError:
            continue
        json.dumps(memory.to_dict())
        assert isinstance(str(memory), str)
        assert memory.buffer_bytes - memory.element_bytes == memory.overhead_bytes


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(TPU), st.sampled_from(sorted(WAYS)), st.data())
def test_parts_of_reports_are_answered_or_refused(report, way, data) -> None:
    text = WAYS[way](lines_of(report))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    try:
        found = xs.why(text[start:end])
    except xs.XlashapeError:
        return
    json.dumps(found.to_dict())


def test_braces_that_are_never_closed_are_read_over_once():
    """Each shape is read without its layout; the next shape begins behind it."""
    assert read_shapes("f32[1]{" * 5 + "}") == [xs.Shape.parse("f32[1]")] * 5
    assert read_shapes("f32[2,2]{0,1} f32[1]{ x f32[3]") == [
        xs.Shape.parse("f32[2,2]{0,1}"),
        xs.Shape.parse("f32[1]"),
        xs.Shape.parse("f32[3]"),
    ]


USAGE = """RuntimeError: Resource exhausted: something on a worker
Attempting to reserve 2.50G at the bottom of memory. That was not possible. There are 1.25G free, 0B reserved, and 1.25G reservable.;
HBM capacity 16.00G:
       Top-of-Memory reserved:  256.00M (     268,435,456 bytes)
          Currently allocated:   14.50G (  15,569,256,448 bytes)
          Program requirement:    2.50G (   2,684,354,560 bytes)
                               ------------
      Available after request:   -1.25G (  -1,342,177,280 bytes)
; attempting reservation for program memory

Total hbm usage >= 17.25G:
    reserved(Infeed/Outfeed/Continuations) 256.00M
    heap allocations (without fragmentation)  14.50G
    program                    2.50G
    arguments            unknown size

Heap allocator status:
    Max free chunk             1.25G (0.0% fragmentation)

Persistent allocations include some or all of:
    arguments                512.00M (91.5% utilization)
    output                     2.00G (70.0% utilization) [may share some memory with arguments]

Output size unknown.

Program hbm requirement 2.50G:
    reserved           4.0K
    scoped            8.00M
    HLO temp          2.49G (96.0% utilization: Unpadded (2.39G) Padded (2.48G), 0.5% fragmentation (12.50M))
    overlays
"""


def amounts(found: ReportMemory) -> dict[tuple[str, str], object]:
    return {(each.group, each.name): each.bytes for each in found.stated}


@pytest.mark.parametrize(
    "way", ["as it is", "quoted", "in colours", "log of PyTorch/XLA", "log of absl", "log of Ray", "Windows line ends"]
)
def test_parts_of_the_usage(way) -> None:
    found = xs.why(WAYS[way](USAGE))
    assert isinstance(found, ReportMemory)
    stated = amounts(found)
    assert stated["HBM capacity", "Available after request"] == -1_342_177_280  # the exact number, not the rounded one
    assert stated["HBM capacity", "Currently allocated"] == 15_569_256_448
    assert stated["Total hbm usage", "reserved(Infeed/Outfeed/Continuations)"] == 256 << 20
    assert stated["Total hbm usage", "arguments"] is None
    assert stated["Heap allocator status", "Max free chunk"] == 5 << 28
    assert stated["Program hbm requirement", "HLO temp"] == parse_size("2.49G")
    assert stated["Program hbm requirement", "overlays"] is None
    assert stated["output", "size"] is None
    assert stated["reservation", "requested"] == 5 << 29
    details = {each.name: each.detail for each in found.stated}
    assert details["HLO temp"].startswith("96.0% utilization: Unpadded (2.39G)")
    assert details["output"] == "70.0% utilization, may share some memory with arguments"
    assert found.unread == ("RuntimeError: Resource exhausted: something on a worker",)
    assert (found.reported.used, found.reported.capacity, found.must_go_bytes) == ("17.25G", "16.00G", 1_342_177_280)
    # 16.00 - 0.25 - 14.50 = 1.25, of 2.50 that are asked for
    assert str(found).startswith(
        "hbm: of 16.00 GiB, 256.00 MiB are reserved and 14.50 GiB are allocated before\n"
        "the program asks for 2.50 GiB: 1.25 GiB too much\n"
    )
    assert found.allocations == ()


STATS = """Out of memory while trying to allocate 3145728 bytes.
BufferAssignment OOM Debugging.
BufferAssignment stats:
             parameter allocation:   96.0KiB
              constant allocation:         0B
        maybe_live_out allocation:    3.00MiB
     preallocated temp allocation:       512B
  preallocated temp fragmentation:         0B (0.00%)
                 total allocation:    3.09MiB
              total fragmentation:    1.5KiB (0.05%)
Peak buffers:
        Buffer 1:
                Size: 3.00MiB
                Operator: op_name="jit(step)/while/body/dense/add" source_file="/home/u/train.py" source_line=12
                XLA Label: fusion
                Shape: f32[1024,768]
                ==========================

        Buffer 2:
                Size: 96.0KiB
                Entry Parameter Subshape: f32[32,768]
                ==========================
"""


def test_statistics_of_a_buffer_assignment() -> None:
    found = xs.why(STATS)
    stated = amounts(found)
    assert stated["BufferAssignment stats", "parameter allocation"] == 96 << 10
    assert stated["BufferAssignment stats", "preallocated temp allocation"] == 512
    assert stated["BufferAssignment stats", "total fragmentation"] == 1536
    assert {each.name: each.detail for each in found.stated}["total fragmentation"] == "0.05%"
    assert (found.unread, found.agrees) == ((), True)
    # One decimal is what reports write of KiB.
    assert [one.size for one in found.allocations] == ["3.00MiB", "96.0KiB"]
    first = found.buffers[0]
    assert (first.opcode, first.source, first.op_name) == ("fusion", "train.py:12", "jit(step)/while/body/dense/add")


@pytest.mark.parametrize(
    ("size", "text", "same"),
    [
        (393_216, "384.0KiB", True),
        (393_216 + 51, "384.0KiB", True),
        (393_216 + 52, "384.0KiB", False),
        (1536, "1.5K", True),
        (1 << 30, "1.00G", True),
        ((1 << 30) + (1 << 30) // 200, "1.00G", True),
        ((1 << 30) + (1 << 30) // 199, "1.00G", False),
        (0, "0B", True),
        (5, "many", False),
    ],
)
def test_sizes_agree_within_the_rounding_of_the_report(size, text, same) -> None:
    assert agrees(size, text) == same


@given(st.integers(0, 1 << 62), st.sampled_from(["", "iB"]))
def test_every_size_agrees_with_its_own_text(size, ending) -> None:
    assert agrees(size, size_text(size, ending and f"1{ending}"))


def test_rematerialization_and_the_allocator() -> None:
    lines = [
        "2025-05-13 09:18:45.074199: W external/xla/xla/hlo/transforms/simplifiers/hlo_rematerialization.cc:3021] "
        "Can't reduce memory use below "
        "8.00GiB (8589934592 bytes) by rematerialization; only reduced to 9.50GiB (10200547328 bytes), down from "
        "12.00GiB (12884901888 bytes) originally",
        "2025-05-13 09:18:55.172253: W external/xla/xla/tsl/framework/bfc_allocator.cc:501] Allocator (GPU_3_bfc) ran "
        "out of memory trying to allocate "
        "9.50GiB (rounded to 10200547328)requested by op",
        "2025-05-13 09:18:55.172300: W external/xla/xla/tsl/framework/bfc_allocator.cc:512] "
        "****______________________________________________",
    ]
    for text in ("\n".join(lines), " ".join(lines)):
        found = xs.why(text)
        stated = amounts(found)
        assert stated["rematerialization", "limit"] == 8_589_934_592
        assert stated["rematerialization", "reduced to"] == stated["allocator", "rounded"] == 10_200_547_328
        assert stated["rematerialization", "originally"] == 12 << 30
        assert {each.name: each.text for each in found.stated}["allocator"] == "GPU_3_bfc"
        assert (found.must_go_bytes, found.unread) == (10_200_547_328 - (8 << 30), ())
        assert str(found).startswith("9.50 GiB are needed, 8.00 GiB are there: 1.50 GiB too much")


def test_the_statistics_of_a_compiled_program() -> None:
    text = (
        "CompiledMemoryStats(generated_code_size_in_bytes=100, argument_size_in_bytes=4096,\n    "
        "output_size_in_bytes=2048, "
        "alias_size_in_bytes=1024, temp_size_in_bytes=512, host_temp_size_in_bytes=0)"
    )
    found = xs.why(text)
    assert amounts(found)["CompiledMemoryStats", "argument_size"] == 4096
    assert (found.reported.used, found.unread) == ("5732B", ())
    statistics = type("CompiledMemoryStats", (), {"__str__": lambda _: text})()
    assert xs.why(statistics) == found
    assert str(found).startswith("5.60 KiB are needed; the text does not say how much is there\nwhat holds the memory ")
    assert "generated_code_size 100 bytes; argument_size 4.00 KiB;" in str(found)


def test_what_must_go_and_which_allocations_are_enough() -> None:
    text = "Ran out of memory in memory space vmem. Used 40.00M of 32.00M vmem. Exceeded vmem capacity by 8.00M.\n"
    for number, rows in enumerate((512, 1024, 1536), start=1):
        text += f"{number}. Size: {rows // 256}.00M\n Shape: f32[{rows},1024]{{1,0:T(8,128)}}\n Unpadded size: {rows // 256}.00M\n ==========\n"
    found = xs.why(text)
    assert (found.reported.memory_space, found.must_go_bytes) == ("vmem", 8 << 20)
    told = " ".join(str(found).split())
    assert told.startswith("vmem: 40.00 MiB are needed, 32.00 MiB are there: 8.00 MiB too much")
    assert "smaller blocks (pl.BlockSpec) or less scratch take less" in told
    assert "3 allocations listed, 12.00 MiB together: without the 2 largest (10.00 MiB) it would fit" in told
    assert "those with a shape (3) take 12.00 MiB, no padding: as the text says" in told
    less = xs.why(text.replace("by 8.00M", "by 80.00M"))
    assert "12.00 MiB together: less than what is too much, so that more than these must go" in " ".join(
        str(less).split()
    )


def test_an_allocator_that_fails_for_little_was_full_before() -> None:
    told = " ".join(str(xs.why(STATS)).split())
    assert told.startswith(
        "a request of 3.00 MiB failed, and the program's buffers are 3.09 MiB in all; the text does not say how much was "
        "free so little fails only where the device was full before"
    )
    assert "allocator: requested 3.00 MiB" in told
    large = str(xs.why(STATS.replace("3145728 bytes", "31457280000 bytes")))
    assert large.startswith("a request of 29.30 GiB failed")
    assert "full before" not in large
    alone = str(xs.why(STATS.partition("\n")[2]))
    assert alone.startswith("the program's buffers are 3.09 MiB in all")


def test_a_text_that_begins_and_ends_within_an_allocation() -> None:
    text = """     XLA label: %fusion.7 = f32[8,128]{1,0:T(8,128)} fusion(%a), kind=kLoop
     Allocation type: HLO temp
     ==========================

  3. Size: 4.0K
     Shape: f32[8,128]{1,0:T(8,128)}
     Unpadded size: 4.0K
     ==========================

  4. Size: 2.0"""
    found = xs.why(text)
    assert isinstance(found, ReportMemory)
    assert (found.unread, found.cut.endswith("(HLO temp)")) == ((), True)
    assert "the text begins within an allocation whose size was cut off: fusion.7" in " ".join(str(found).split())
    assert [each.size for each in found.allocations] == ["4.0K"]


@pytest.mark.parametrize("report", TPU, ids=lambda report: report["source"].removeprefix("https://github.com/"))
def test_a_report_that_is_cut_anywhere_has_no_allocation_that_the_whole_does_not_have(report) -> None:
    text = lines_of(report)
    whole = xs.why(text)
    for end in range(len(text) // 3, len(text), 97):
        try:
            found = xs.why(text[:end])
        except xs.XlashapeError:
            continue
        if isinstance(found, ReportMemory):
            sizes = [each.reported.size for each in found.allocations]
            assert sizes == [each.reported.size for each in whole.allocations][: len(sizes)]


CHUNKS = """W x.cc:497] Allocator (GPU_0_bfc) ran out of memory trying to allocate 8.00GiB (rounded to 8589934592)requested by op
I x.cc:1039] BFCAllocator dump for GPU_0_bfc
I x.cc:1046] Bin (256): \tTotal Chunks: 64, Chunks in use: 63. 16.0KiB allocated for chunks. 15.8KiB in use in bin.
I x.cc:1062] Bin for 8.00GiB was 256.00MiB, Chunk State:
I x.cc:1068]   Size: 4.00GiB | Requested Size: 4.00GiB | in_use: 0 | bin_num: 20, prev:   Size: 8.00GiB | Requested Size: 8.00GiB | in_use: 1 | bin_num: -1
I x.cc:1075] Next region of size 21474836480
I x.cc:1095] InUse at 7f2a4c000000 of size 256 next 1
I x.cc:1095] Free  at 7f2c4c000100 of size 4294967296 next 3
I x.cc:905] Free  at 000000081C56C700 next 1151 of size 2048
I x.cc:1100]      Summary of in-use Chunks by size:
I x.cc:1103] 63 Chunks of size 256 totalling 15.8KiB
I x.cc:1103] 2 Chunks of size 8589934592 totalling 16.00GiB
I x.cc:1107] Sum Total of in-use chunks: 16.00GiB
I x.cc:1114] Stats:
Limit:                     42949672960
InUse:                     17179885312
MaxInUse:                  17179885312
NumAllocs:                        1234
MaxAllocSize:               8589934592
"""


def test_the_dump_of_an_allocator_has_chunks_and_no_allocations() -> None:
    found = xs.why(CHUNKS)
    assert isinstance(found, ReportMemory)
    assert (found.allocations, found.unread) == ((), ())
    said = amounts(found)
    assert (said["chunks in use", "2"], said["chunks in use", "63"]) == (16 << 30, 63 * 256)
    assert said["allocator", "largest free chunk"] == 4 << 30
    told = " ".join(str(found).split())
    assert "chunks in use: 2 of 8.00 GiB, 63 of 256 bytes" in told
    assert "no free piece is larger than 4.00 GiB: what is free lies between chunks in use" in told
    assert "`xlashape memory DIR`" in told


def test_short_messages_name_what_to_ask_next() -> None:
    for text in (
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.",
        "Attempting to allocate 4.00G. That was not possible. There are 3.21G free.",
        "E1000: CompileTimeHbmOom:\nRan out of memory in memory space hbm. Used 20.12G of 15.75G hbm.\n"
        "See https://openxla.org/xla/errors/error_1000 for more details.",
        "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used",
    ):
        found = xs.why(text)
        assert isinstance(found, ReportMemory)
        assert "`xlashape memory DIR`" in " ".join(str(found).split()), text
        assert found.unread == (), text


CORE = "(EngineCore pid=106339) ERROR 06-03 07:41:11 [core.py:1184] "


@pytest.mark.parametrize(
    "prefix",
    [
        CORE,
        "ERROR 06-03 07:41:11 [core.py:1184] ",
        "71\x1b[2m\x1b[36m(MeshHostWorker pid=489)\x1b[0m ",
        "71[2m[36m(MeshHostWorker pid=489)[0m ",
        "2024-05-04 09:05:40,123 - train - ERROR - ",
        "ERROR:absl:",
        "ERROR:2024-05-04 09:05:40,123:jax._src.compiler:590: ",
        "[2024-05-04 09:05:40,123][train][ERROR] - ",
        "[2024-05-04T09:05:40.123] ",
        "[core.py:1184] ",
        "W0513 09:18:55.172311 1808266 pjrt_stream_executor_client.cc:2908] ",
    ],
)
def test_prefixes_of_logs_stay_out_of_fields(prefix) -> None:
    text = """5. Size: 4.00M
     Operator: op_name="jit(step)/jit(run)/pallas_call" stack_frame_id=459
     Shape: bf16[8,2048,128]{2,1,0:T(16,128)(2,1)}
     Unpadded size: 4.00M
     XLA label: kernel.72 = custom-call(a.1, b.2, ...(+6)), custom_call_target="tpu_custom_call"
     Allocation type: scoped
     =========================="""
    (one,) = xs.why("\n".join([prefix + line for line in text.split("\n")])).allocations
    assert one.reported == (
        5, "4.00M", xs.Shape.parse("bf16[8,2048,128]{2,1,0:T(16,128)(2,1)}"), "4.00M", "", "",
        'op_name="jit(step)/jit(run)/pallas_call" stack_frame_id=459',
        'kernel.72 = custom-call(a.1, b.2, ...(+6)), custom_call_target="tpu_custom_call"', "scoped",
    )  # fmt: skip
    assert (one.buffer.name, one.buffer.opcode, one.agrees) == ("kernel.72", "custom-call", True)


def test_a_log_that_was_joined_into_one_line() -> None:
    text = f'{CORE}  5. Size: 4.00M {CORE}   Operator: op_name="jit(f)/add" {CORE}   Shape: f32[1024,1024]{{1,0}} {CORE}   Allocation type: HLO temp'
    (one,) = xs.why(text).allocations
    assert (one.reported.operator, one.reported.kind) == ('op_name="jit(f)/add"', "HLO temp")


def test_lines_that_are_not_understood_are_told_and_refuse_nothing() -> None:
    text = (
        "\n".join([f"line {number} of a traceback" for number in range(9)]) + "\n" + STATS + "And one more at the end\n"
    )
    found = xs.why(text)
    assert len(found.unread) == 10
    assert len(found.allocations) == 2
    told = str(found)
    assert "10 lines were not understood:\n  line 0 of a traceback\n" in told
    assert "  … and 5 more\n" in told


def test_headings_behind_prefixes_keep_their_fields() -> None:
    text = "Total hbm usage >= 20.25G:\n    reserved        258.00M\n    program          20.00G\n    arguments            0B\n"
    plain = xs.why(text)
    for prefix in ("ERROR:2024-05-04 09:05:40,123:jax._src.compiler:590: ", "[2024-05-04 09:05:40,123] "):
        found = xs.why("\n".join([prefix + line for line in text.split("\n")]))
        assert (found.stated, found.unread) == (plain.stated, ())


def test_the_line_behind_a_failed_request_is_shown() -> None:
    text = "Allocator (GPU_0_bfc) ran out of memory trying to allocate 4.00GiB (rounded to 4294967296)requested by op"
    assert xs.why(f"{text} \nsomething else").unread == ("something else",)
    assert xs.why(f"{text} jit_f/dot.3\nsomething else").unread == ("something else",)


def test_published_reports_of_every_form() -> None:
    paths = sorted(shared("reports").glob("*.txt"))
    assert len(paths) > 10
    for path in paths:
        found = xs.why(path)
        json.dumps(found.to_dict())
        told = str(found)
        assert "NOT the same" not in told
        for leaked in ("core.py:1184", "xla_util.cc", "bfc_allocator.cc", "MeshHostWorker", "09:05:40"):
            assert leaked not in told
        if isinstance(found, ReportMemory):
            assert found.allocations or found.stated or found.reported


def test_a_long_report_counts_steps_until_its_headline_is_there() -> None:
    """Each part of the work looks for the deadline: to read, to explain, and to look for smaller forms."""
    text = "".join(
        f"{i}. Size: 1.00M Shape: f32[{i},4,3]{{2,1,0:T(8,128)}} Allocation type: HLO temp\n" for i in range(1, 200)
    )
    for work, least in (
        (lambda: clean(text), 150),
        (lambda: read_report(text), 1_000),
        (lambda: report_memory(text), 10_000),
    ):
        with budget(steps=least), pytest.raises(LimitExceededError):
            work()
    found = report_memory(text)
    with budget(steps=10_000), pytest.raises(LimitExceededError):
        found.headline()


def test_what_a_report_suggests_to_try():
    """A narrower type that is enough alone, and a donation where outputs share nothing with arguments."""
    report = """RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 18.34G of \
15.75G hbm. Exceeded hbm capacity by {}.

Output size 3.01G; shares {} with arguments.

  Largest program allocations in hbm:

  1. Size: 8.00G
     Shape: f32[8,8,16,1024,2048]{{4,3,2,1,0:T(8,128)}}
     Unpadded size: 8.00G
"""
    text = " ".join(xs.why(report.format("2.59G", "0B")).headline().split())
    assert "allocation 1 alone as x.astype(jnp.bfloat16) would save 4.00 GiB, which is enough if no other" in text
    assert "outputs share nothing with arguments: " in text and "donate_argnums" in text
    text = " ".join(xs.why(report.format("7.59G", "1.00G")).headline().split())
    assert "astype" not in text and "share nothing" not in text
