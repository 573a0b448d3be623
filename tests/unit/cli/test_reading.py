"""`reads`, `tile` and `map --physical`, against positions computed one by one."""

import itertools
import json
import subprocess
import sys
from importlib import resources

import command_line
import pytest

import xlashape as xs
from xlashape.errors import InvalidArgumentError, NotFoundError
from xlashape.hlo import HloModule
from xlashape.reports.maps import maps
from xlashape.reports.tiles import tiles
from xlashape.shape import tiling
from xlashape.symbolic import IndexingMap
from xlashape_client import Client
from xlashape_server import Config, Server

MODULE = str(resources.files("xlashape.data").joinpath("attention.hlo.pb"))


def told(*arguments):
    result = subprocess.run(
        [sys.executable, "-m", "xlashape", *arguments, "--json"], capture_output=True, timeout=120, check=True
    )
    answer = json.loads(result.stdout)
    # Lists are in a document that names its schema.
    return answer.get("reads", answer.get("instructions", answer))


def physical(instruction):
    """The map between positions of an instruction's one way of reading."""
    (access,) = json.loads(command_line.run("reads", MODULE, instruction, "--show", "accesses", "--json").stdout)[
        "accesses"
    ]
    return access["physical_map"]


def test_a_transpose_reads_a_third_and_far_apart():
    (row,) = told("reads", MODULE, "transpose_copy_fusion.1", "--target", "gpu")
    shape = HloModule.load(MODULE).instruction("transpose_copy_fusion.1").shape
    assert (row["bytes"], row["distinct_bytes"], row["part_read"]) == (256 * 768 * 2, 4 * 8 * 32 * 64 * 2, 1 / 3)
    assert row["times"] == 1
    # Neighbours along the last dimension are neighbours in the module's "rows", each 768 elements long.
    assert row["stride"] == 768
    assert (row["segments"], row["ideal"], row["is_coalesced"], row["wasted_bytes"]) == (32, 1, False, 0)
    found = IndexingMap.parse(physical("transpose_copy_fusion.1"))
    for index in itertools.product((0, 3), (0, 7), (0, 31), (0, 1, 63)):
        (position,) = found.evaluate((tiling.linear_index(shape, index),))
        batch, head, channel, token = index
        # The projection packs queries, keys and values side by side; this fusion takes the keys.
        assert position == (batch * 64 + token) * 768 + 256 + head * 32 + channel


def test_a_module_lists_the_reads_of_every_operand():
    rows = told("reads", MODULE)
    entry = HloModule.load(MODULE).entry
    assert {(row["instruction"], row["operand"]) for row in rows} == {
        (one.name, operand) for one in entry.instructions for operand in range(len(one.operands))
    }


def test_segments_and_warps_can_be_chosen():
    asked = ("--target", "gpu", "--warp", "64", "--segment-bytes", "32")
    (row,) = told("reads", MODULE, "transpose_copy_fusion", *asked)
    # 64 neighbours of 2 bytes each are two runs of 32 elements: 64 bytes, two segments, each.
    assert (row["segments"], row["ideal"]) == (4, 4)


def test_reads_are_the_same_over_a_server():
    local = told("reads", MODULE)
    with Server(Config(address="127.0.0.1:0", workers=1, log_level="error")) as server:
        assert told("reads", MODULE, "--server", server.address) == local
        with Client(server.address) as client:
            found = client.reads(MODULE, "transpose_copy_fusion.1", sections=("", "accesses"), structured=True)
    (row,) = told("reads", MODULE, "transpose_copy_fusion.1")
    assert (found[0].part_read, found[0].times) == (row["part_read"], row["times"])
    assert [str(access.physical) for access in found.accesses] == [physical("transpose_copy_fusion.1")]


def test_fused_instructions_are_listed_when_they_are_named():
    assert told("reads", MODULE, "--computation", "main.3") == told("reads", MODULE)
    fused = HloModule.load(MODULE).instruction("transpose_copy_fusion").called_computations[0]
    rows = told("reads", MODULE, "--computation", fused.name)
    assert {row["instruction"] for row in rows} == {one.name for one in fused.instructions if one.operands}


def test_a_tile_is_printed_in_numbers_and_for_any_size():
    found = told("tile", MODULE, "transpose_copy_fusion.1", "1,8,32,64", "--at", "2,0,0,0")
    (one,) = found["tiles"]
    # The keys of one batch: 64 rows of 8 heads of 32 numbers each, behind the 256 columns of queries.
    assert (one["offsets"], one["sizes"], one["strides"]) == ([128, 256], [64, 256], [1, 1])
    assert one["offset_map"].startswith("(d0, d1, d2, d3) -> (0, 256), domain: d0 in [1, 4]")
    (any_size,) = told("tile", MODULE, "transpose_copy_fusion.1")["tiles"]
    assert (one["is_tile"], any_size["is_tile"], any_size["sizes"]) == (True, None, [])
    assert any_size["symbolic"] == one["symbolic"]
    with Server(Config(address="127.0.0.1:0", workers=1, log_level="error")) as server:
        assert (
            told("tile", MODULE, "transpose_copy_fusion.1", "1,8,32,64", "--at", "2,0,0,0", "--server", server.address)
            == found
        )
        with Client(server.address) as client:
            (answer,) = client.tile(MODULE, "transpose_copy_fusion.1", [1, 8, 32, 64], at=[2, 0, 0, 0], structured=True)
    assert all(getattr(answer, name) == one[name] for name in ("offsets", "sizes", "strides", "symbolic"))
    assert answer.tile.size_map.to_text() == one["size_map"]


def test_without_a_name_the_tile_is_of_the_root_of_the_computation():
    module = HloModule.load(MODULE)
    inner = next(each for each in module.computations if each is not module.entry)
    for options, computation in (((), module.entry), (("--computation", inner.name), inner)):
        found = told("tile", MODULE, *options)
        assert (found["totals"]["computation"], found["totals"]["instruction"]) == (
            computation.name, computation.root.name,
        )  # fmt: skip
    with pytest.raises(NotFoundError, match="has no computation 'nope'"):
        tiles(module, computation="nope")


def test_a_wrong_tile_is_an_error():
    for arguments, said in (
        (["1,2"], "xlashape: a tile of rank 2 for a map of 4 dimensions"),
        (["1,2,x,4"], "xlashape: expected integers such as 2,3, found '1,2,x,4'"),
        (["1,2,3,4", "--strides", "1"], "xlashape: a tile of 4 sizes has 1 strides"),
        (
            ["1,2,3,4", "--at", "0,-1,0,0"],
            "xlashape: the tile begins at -1 along dimension 1, whose indices are 0 to 7",
        ),
        (
            ["1,2,3,4", "--at", "0,0,0,99"],
            "xlashape: the tile begins at 99 along dimension 3, whose indices are 0 to 31",
        ),
        (["1,2,3,4", "--strides", "0,0,1,1"], "xlashape: the tile has stride 0 along dimension 1: expected 1 or more"),
        (["--at", "1,2,3,4"], "xlashape: a tile's sizes are missing"),
        (["1,1,1,1", "--output", "3"], "xlashape: transpose_copy_fusion has no output 3: it has 1"),
    ):
        command = [sys.executable, "-m", "xlashape", "tile", MODULE, "transpose_copy_fusion", *arguments]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert (result.returncode, result.stderr.strip()) == (
            2 if said.endswith(("has 1 strides", "it has 1")) else 1,
            said,
        )


def test_physical_maps_are_the_same_over_a_server():
    local = told("map", MODULE, "--physical")
    with Server(Config(address="127.0.0.1:0", workers=1, log_level="error")) as server:
        assert told("map", MODULE, "--physical", "--server", server.address) == local
        with Client(server.address) as client:
            (row,) = client.map(MODULE, "transpose_copy_fusion.1", physical=True, structured=True)
    assert str(row.indexing.map) == row.map == physical("transpose_copy_fusion.1")
    assert physical("transpose_copy_fusion.1") in [each["map"] for each in local["maps"]]


def test_physical_maps_of_a_module_leave_out_outputs_without_positions():
    module = HloModule.parse(
        """HloModule m ENTRY e { p = f32[4] parameter(0) k = token[] after-all() j = token[] after-all(k)
        s = (f32[4], token[]) tuple(p, j) b = b(f32[4]) custom-call(p), custom_call_target="Pin"
        ROOT r = f32[4] negate(p) }"""
    )
    for output, names in ((None, ["s", "b", "r"]), (0, ["s", "b", "r"]), (1, [])):
        rows = maps(module, output=output, physical=True).maps
        assert [(row.instruction, row.error) for row in rows] == [(name, None) for name in names]
    with pytest.raises(InvalidArgumentError, match="output 0 of j is not an array: it has no positions"):
        maps(module, "j", output=0, physical=True)


def test_python_has_the_same_table():
    lines = command_line.run("reads", MODULE, "--format", "jsonl").stdout.splitlines()
    table = xs.reads(MODULE).table()
    assert [json.loads(line) for line in lines] == list(table)
