"""Memory plans of dumps, against what xprof's memory viewer says of the same dumps."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from tests.support.optional import needed_in_ci
from xlashape.hlo import HloModule
from xlashape.reports.memory import memory

VECTORS = Path(__file__).parents[3] / "vectors" / "memory"
DUMPS = [*sorted(VECTORS.glob("*.hlo.pb")), *sorted((VECTORS / "programs").glob("*.hlo.pb.gz"))]
MIB = 1 << 20
LARGE = 16 << 10
"""Buffers of at most these bytes are one block in the viewer."""


@pytest.fixture(scope="module")
def viewed(tmp_path_factory):
    """What the memory viewer says of the bytes of a dump."""
    needed_in_ci("xprof")
    tools = needed_in_ci("xprof.convert.raw_to_tool_data")

    def view(dump: bytes) -> dict:
        folder = tmp_path_factory.mktemp("session")
        (folder / "m.hlo_proto.pb").write_bytes(dump)
        (folder / "host.xplane.pb").touch()
        text, _ = tools.xspace_to_tool_data([str(folder / "host.xplane.pb")], "memory_viewer", {"module_name": "m"})
        return json.loads(text)

    return view


def bytes_of(mebibytes: float) -> int:
    """The viewer counts in MiB, as a 64-bit or a 32-bit float."""
    assert abs(mebibytes * MIB - round(mebibytes * MIB)) < 1e-2
    return round(mebibytes * MIB)


@pytest.mark.parametrize("path", DUMPS, ids=[path.name.partition(".hlo")[0] for path in DUMPS])
def test_the_memory_viewer_says_the_same(viewed, path):
    dump = path.read_bytes()
    dump = gzip.decompress(dump) if path.suffix == ".gz" else dump
    said = viewed(dump)
    answer = memory(HloModule.from_bytes(dump))
    assert bytes_of(said["peakHeapMib"]) == answer.peak_bytes
    assert bytes_of(said["peakUnpaddedHeapMib"]) == answer.unpadded_peak_bytes
    assert bytes_of(said.get("entryComputationParametersMib", 0)) == answer.argument_bytes
    assert bytes_of(said.get("maybeLiveOutMib", 0)) == answer.output_bytes
    # The viewer leaves out what lives in a call alone.
    local = sum([each.size for each in answer.plan.allocations if each.is_thread_local])
    assert bytes_of(said["totalBufferAllocationMib"]) == answer.total_allocation_bytes - local
    assert bytes_of(said["indefiniteBufferAllocationMib"]) == answer.indefinite_bytes - local
    assert sum([bytes_of(each["logicalBufferSizeMib"]) for each in said["maxHeap"]]) == answer.peak_bytes
    theirs = Counter(
        [
            (bytes_of(each["logicalBufferSizeMib"]), each["shapeString"])
            for each in said["maxHeap"]
            if "shapeString" in each and each["logicalBufferSizeMib"] * MIB > LARGE
        ]
    )
    ours = Counter([(each.bytes, str(each.shape)) for each in answer.peak_buffers if each.bytes > LARGE])
    assert theirs == ours
    if "heapSizes" in said:
        assert max(map(bytes_of, said["heapSizes"])) == answer.peak_bytes
