"""`reads` and `map --physical`, against positions computed one by one."""

import itertools
import json
import subprocess
import sys
from importlib import resources

from xlashape.hlo import HloModule
from xlashape.shape import tiling
from xlashape.symbolic import IndexingMap
from xlashape_client import Client
from xlashape_server import Config, Server

MODULE = str(resources.files("xlashape.data").joinpath("attention.hlo.pb"))


def told(*arguments):
    result = subprocess.run(
        [sys.executable, "-m", "xlashape", *arguments, "--json"], capture_output=True, timeout=120, check=True
    )
    return json.loads(result.stdout)


def test_a_transpose_reads_a_third_and_far_apart():
    (row,) = told("reads", MODULE, "transpose_copy_fusion.1")
    shape = HloModule.load(MODULE).instruction("transpose_copy_fusion.1").shape
    assert (row["elements"], row["distinct"]) == (256 * 768, 4 * 8 * 32 * 64)
    assert row["reads_per_element"] == 1
    # Neighbours along the last dimension are neighbours in the module's "rows", each 768 elements long.
    assert row["stride"] == 768
    assert (row["transactions"], row["ideal"]) == (32, 1)
    found = IndexingMap.parse(row["map"])
    for index in itertools.product((0, 3), (0, 7), (0, 31), (0, 1, 63)):
        (position,) = found.evaluate((tiling.linear_index(shape, index),))
        batch, head, channel, token = index
        # The projection packs queries, keys and values side by side; this fusion takes the keys.
        assert position == (batch * 64 + token) * 768 + 256 + head * 32 + channel


def test_a_whole_module_tells_of_each_operand():
    rows = told("reads", MODULE)
    entry = HloModule.load(MODULE).entry
    assert {(row["instruction"], row["operand"]) for row in rows} == {
        (one.name, operand) for one in entry.instructions for operand in range(len(one.operands))
    }


def test_segments_and_warps_can_be_chosen():
    (row,) = told("reads", MODULE, "transpose_copy_fusion", "--warp", "64", "--segment-bytes", "32")
    # 64 neighbours of 2 bytes each are two runs of 32 elements: 64 bytes, two segments, each.
    assert (row["transactions"], row["ideal"]) == (4, 4)


def test_reads_are_the_same_over_a_server():
    local = told("reads", MODULE)
    with Server(Config(address="127.0.0.1:0", workers=1, log_level="error")) as server:
        assert told("reads", MODULE, "--server", server.address) == local
        with Client(server.address) as client:
            (found,) = client.operand_reads(MODULE, "transpose_copy_fusion.1")
    (row,) = told("reads", MODULE, "transpose_copy_fusion.1")
    (read,) = found.reads
    assert (read.utilisation, read.reads_per_element) == (row["utilisation"], row["reads_per_element"])
    assert [access.text for access in read.accesses] == [row["map"]]


def test_fused_instructions_are_read_of_when_named():
    assert told("reads", MODULE, "--computation", "main.3") == told("reads", MODULE)
    fused = HloModule.load(MODULE).instruction("transpose_copy_fusion").called_computations[0]
    rows = told("reads", MODULE, "--computation", fused.name)
    assert {row["instruction"] for row in rows} == {one.name for one in fused.instructions if one.operands}


def test_physical_maps_are_the_same_over_a_server():
    local = told("map", MODULE, "--physical")
    with Server(Config(address="127.0.0.1:0", workers=1, log_level="error")) as server:
        assert told("map", MODULE, "--physical", "--server", server.address) == local
        with Client(server.address) as client:
            (maps,) = client.indexing_maps(MODULE, "transpose_copy_fusion.1", physical=True)
    (row,) = told("reads", MODULE, "transpose_copy_fusion.1")
    assert maps.maps[0].accesses[0].text == row["map"]
