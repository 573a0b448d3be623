"""The instructions and the memory of a module are counted in its bytes, before it is decoded."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xlashape import limits
from xlashape.errors import DeadlineExceededError, DecodeError, LimitExceededError
from xlashape.proto import xla
from xlashape_server.precount import MessageCount, count

INSTRUCTION = "xla.HloInstructionProto"


def counted(
    data: bytes, *, instructions: int = 1000, memory: int = 1 << 30, message: type = xla.HloModuleProto
) -> MessageCount:
    return count(
        data,
        message.DESCRIPTOR,
        INSTRUCTION,
        max_counted=instructions,
        max_memory=memory,
        subject="the module",
        limit="module_instructions",
    )


def module(*computations: int) -> xla.HloModuleProto:
    made = xla.HloModuleProto(name="m")
    for number in computations:
        one = made.computations.add()
        for i in range(number):
            one.instructions.add(id=i, name=f"i.{i}", operand_ids=[1, 2, 300])
    return made


def test_instructions_of_all_computations_count() -> None:
    assert counted(module(3, 0, 4).SerializeToString()).counted == 7
    assert counted(xla.HloProto(hlo_module=module(3, 4)).SerializeToString(), message=xla.HloProto).counted == 7
    assert counted(b"").counted == 0


def test_one_too_many_is_refused() -> None:
    data = module(5, 6).SerializeToString()
    assert counted(data, instructions=11).counted == 11
    with pytest.raises(LimitExceededError, match="more than 10 instructions") as caught:
        counted(data, instructions=10)
    assert (caught.value.limit, caught.value.maximum) == ("module_instructions", 10)


def test_memory_of_every_kind_of_field_is_bounded() -> None:
    empty_shapes = xla.HloModuleProto(
        computations=[xla.HloComputationProto(instructions=[xla.HloInstructionProto(name="i")])]
    )
    empty_shapes.computations[0].instructions[0].shape.tuple_shapes.extend([xla.ShapeProto()] * 10_000)
    with pytest.raises(LimitExceededError, match="would take more than 500000 bytes of memory") as caught:
        counted(empty_shapes.SerializeToString(), memory=500_000)
    assert caught.value.limit == "module_memory"
    dimensions = xla.HloModuleProto(
        computations=[xla.HloComputationProto(instructions=[xla.HloInstructionProto(dimensions=[1] * 1000)])]
    )
    assert counted(dimensions.SerializeToString()).memory > 8 * 1000


@pytest.mark.parametrize(
    "data",
    [
        b"\x1a",
        b"\x1a\x05",
        b"\x1a\x02\x12",
        b"\xff" * 11,
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x1b\x1c",
        b"\x09\x00",
        b"\x0f",
    ],
    ids=bytes.hex,
)
def test_a_broken_wire_format_is_an_error(data: bytes) -> None:
    with pytest.raises(DecodeError, match=r"the module is not a xla\.HloModuleProto"):
        counted(data)


def test_a_submessage_that_ends_after_its_parent_is_an_error() -> None:
    with pytest.raises(DecodeError):
        counted(b"\x1a\x03\x12\x05ab" + b"c" * 10)


def test_messages_nested_deeper_than_protobuf_accepts_are_refused() -> None:
    shape = b""
    for _ in range(200):
        size = len(shape)
        shape = b"\x22" + (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + shape
    one = xla.HloModuleProto()
    one.computations.add().instructions.add().shape.SetInParent()
    with pytest.raises(DecodeError, match="nests deeper than 100 levels"):
        count(shape, xla.ShapeProto.DESCRIPTOR, INSTRUCTION, max_counted=1, max_memory=1 << 30, subject="it", limit="x")


def test_the_walk_ends_with_the_deadline() -> None:
    data = b"\x1a\x00" * 100_000
    with limits.budget(deadline=0.0), pytest.raises(DeadlineExceededError):
        counted(data, memory=1 << 40)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.binary(max_size=60))
def test_every_message_that_protobuf_decodes_is_accepted(data: bytes) -> None:
    try:
        decoded = xla.HloModuleProto.FromString(data)
    except Exception:
        decoded = None
    try:
        found = counted(data)
    except DecodeError:
        # Only groups are refused here that protobuf accepts, as unknown fields. No writer of modules makes groups.
        assert decoded is None or any(tag & 7 in (3, 4) for tag in data)
    else:
        if decoded is not None:
            assert found.counted == sum(len(one.instructions) for one in decoded.computations)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of resident memory in Linux's unit")
@pytest.mark.parametrize("filler", ["instructions", "computations", "nested"])
def test_2_mb_of_empty_messages_are_refused_in_well_under_100_mb(filler: str) -> None:
    script = textwrap.dedent(
        """
        import json, resource, sys, tempfile
        from xlashape.errors import LimitExceededError
        from xlashape.proto import v1
        from xlashape_server.config import Config
        from xlashape_server.handlers import HloHandlers
        from xlashape_server.modules import Modules
        from xlashape_server.store import Store

        def sized(data):
            size, made = len(data), b""
            while size > 127:
                made += bytes([size & 127 | 128]); size >>= 7
            return made + bytes([size]) + data

        inner = b"\\x12\\x00" * 1_000_000                     # instructions of one computation
        data = {
            "instructions": b"\\x1a" + sized(inner),
            "computations": b"\\x1a\\x02\\x12\\x00" * 500_000,
            "nested": b"\\x1a" + sized(b"\\x12" + sized(b"\\x1a" + sized(b"\\x22\\x00" * 1_000_000))),
        }[sys.argv[1]]
        config = Config(**({"max_module_memory": 64 << 20} if sys.argv[1] == "nested" else {}))
        with tempfile.TemporaryDirectory() as directory:
            handlers = HloHandlers(config, Modules(config, Store(directory, max_bytes=1 << 30, max_age=60)))
            request = v1.ListInstructionsRequest(module=v1.ModuleInput(serialized=data)).SerializeToString()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            try:
                handlers.list_instructions(request, 1e12)
            except LimitExceededError as error:
                answer = {"limit": error.limit, "field": error.field}
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            print(json.dumps(answer | {"kib": after - before, "all": after}))
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script, filler], capture_output=True, text=True, check=True, timeout=60
    )
    answer = json.loads(done.stdout)
    assert answer["limit"] == ("module_memory" if filler == "nested" else "module_instructions")
    assert answer["field"] == "module.serialized"
    assert answer["kib"] < 40 * 1024


@pytest.mark.parametrize("where", ["module", "instruction", "aliases", "donors"])
def test_lists_that_are_sorted_have_a_bounded_number_of_entries(where: str) -> None:
    made = module(1)

    def add(number: int) -> None:
        if where == "module":
            made.frontend_attributes.map[str(number)] = ""
        elif where == "instruction":
            made.computations[0].instructions[0].frontend_attributes.map[str(number)] = ""
        else:
            (made.input_output_alias if where == "aliases" else made.buffer_donor).entries.add(parameter_number=number)

    for number in range(100_000):
        add(number)
    made.cross_program_prefetches.add()
    assert counted(made.SerializeToString()).messages > 100_000
    add(100_000)
    with pytest.raises(LimitExceededError, match="the module has a list of more than 100000 entries in xla") as caught:
        counted(made.SerializeToString())
    assert (caught.value.limit, caught.value.maximum) == ("entries", 100_000)
