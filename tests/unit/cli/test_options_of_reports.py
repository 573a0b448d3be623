"""Options of reports on the command line give what the keyword arguments of their functions give; --jobs and --picture,
which every report has."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path

import command_line
import pytest

import xlashape as xs
from xlashape.drawing.draw import picture_of_answer
from xlashape.hlo import verify
from xlashape.reports.tiles import tiles

VECTORS = Path(__file__).resolve().parents[2] / "vectors"
MODULE = resources.files("xlashape.data").joinpath("attention.hlo.pb")


def text(*arguments) -> str:
    done = command_line.run(*arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def document(*arguments) -> dict:
    return json.loads(text(*arguments, "--json"))


def rows(*arguments) -> list[dict]:
    return [json.loads(line) for line in text(*arguments, "--format", "jsonl").splitlines()]


def as_json(values) -> list[dict]:
    return json.loads(json.dumps([dict(each) for each in values]))


@pytest.mark.parametrize(
    ("options", "arguments"), [(("--target", "h100"), {"target": "h100"}), (("--as-xla",), {"as_xla": True})]
)
def test_a_cost(options, arguments):
    wanted, plain = xs.cost(MODULE, **arguments), xs.cost(MODULE)
    totals = document("cost", MODULE, *options)["totals"]
    assert totals == json.loads(json.dumps(wanted.totals)) != json.loads(json.dumps(plain.totals))


@pytest.mark.parametrize("key", ["opcode", "computation"])
def test_a_cost_by_something(key):
    found = rows("cost", MODULE, "--by", key)
    assert found == as_json(xs.cost(MODULE).section("by", key))
    assert sum(row["flops"] for row in found) == xs.cost(MODULE).flops


@pytest.mark.parametrize(
    ("option", "value", "changed"),
    [("--mesh", "x=8", "mesh"), ("--target", "h100", "least_time"), ("--topology", "h100x4", "target")],
)
def test_the_collectives(tmp_path, option, value, changed):
    path = tmp_path / "exchange.hlo"
    path.write_text(
        "HloModule m, num_partitions=8 ENTRY e { p = f32[64] parameter(0) ROOT r = f32[64] all-to-all(p), "
        "channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0} }"
    )
    wanted = xs.collectives(path, **{option.strip("-"): value})
    totals = document("collectives", path, option, value)["totals"]
    assert totals == json.loads(json.dumps(wanted.totals))
    assert totals[changed] != xs.collectives(path).totals[changed]
    assert rows("collectives", path, option, value, "--by", "mesh_axes") == as_json(wanted.section("by", "mesh_axes"))


def test_the_memory_on_a_target():
    found = document("memory", MODULE, "--target", "tpu-v5e")["totals"]
    wanted = xs.memory(MODULE, target="tpu-v5e")
    assert (found["target"], found["peak_bytes"]) == ("tpu-v5e", wanted.peak_bytes)
    assert found["peak_bytes"] != document("memory", MODULE)["totals"]["peak_bytes"]


def test_modules_beside_a_profile(tmp_path):
    profile = VECTORS / "profiles" / "scan_grad.trace.json.gz"
    (used,) = [
        each for each in xs.HloModule.all_of(profile.with_name("scan_grad.xplane.pb")) if each.name == "jit__lambda"
    ]
    path = tmp_path / "module.hlo"
    path.write_text(used.to_text())
    alone, beside = rows("profile", profile), rows("profile", profile, "--modules", path)
    assert {row["bytes"] for row in alone} == {None}
    assert (
        [row["bytes"] for row in beside]
        == [row.bytes for row in xs.profile(profile, modules=path)]
        != [None] * len(beside)
    )
    by = rows("profile", profile, "--by", "opcode", "--modules", path)
    assert by == as_json(xs.profile(profile, modules=path).section("by", "opcode"))


def test_a_tile_in_a_computation():
    """Two computations have an instruction of the same name."""
    module = xs.HloModule.load(MODULE)
    computation = next(each for each in module.computations if each is not module.entry and each.root.operands)
    found = document("tile", MODULE, computation.root.name, "--computation", computation.name)
    assert found["totals"]["computation"] == computation.name
    assert (
        found["totals"]["instruction"] == tiles(module, computation.root.name, computation=computation.name).instruction
    )
    done = command_line.run("tile", MODULE, computation.root.name, "--computation", module.entry.name)
    assert done.returncode == 1 and module.entry.name in done.stderr.decode()


def test_the_partitions_that_a_module_is_verified_for(tmp_path):
    path = tmp_path / "m.hlo"
    path.write_text(
        "HloModule m ENTRY e { p = f32[4] parameter(0) ROOT g = f32[8] all-gather(p), dimensions={0}, channel_id=1,"
        " replica_groups={{0,1}}, use_global_device_ids=true }"
    )
    for count in (2, 4):
        done = command_line.run("verify", path, "--num-partitions", count)
        problems = verify(xs.HloModule.load(path), num_partitions=count)
        assert done.returncode == int(bool(len(problems)))
        assert all(each.message in done.stdout.decode() for each in problems)
    assert len(verify(xs.HloModule.load(path), num_partitions=4)) != len(
        verify(xs.HloModule.load(path), num_partitions=2)
    )


def test_several_processes_give_the_rows_of_one(tmp_path):
    paths = [tmp_path / f"{number}.hlo" for number in range(3)]
    for number, path in enumerate(paths, 1):
        path.write_text(
            f"HloModule m{number} ENTRY e {{ p = f32[{number},8] parameter(0) ROOT n = f32[{number},8] negate(p) }}"
        )
    alone = rows("size", *paths)
    assert rows("size", *paths, "--jobs", "2") == alone and len(alone) == 6


def test_a_picture_instead_of_rows(tmp_path):
    path = tmp_path / "memory.svg"
    assert text("memory", MODULE, "--picture", path) == ""
    picture = picture_of_answer(xs.memory(MODULE))
    assert picture is not None
    picture.save(tmp_path / "wanted.svg")
    assert path.read_bytes() == (tmp_path / "wanted.svg").read_bytes()
    done = command_line.run("verify", MODULE, "-o", tmp_path / "none.svg")
    assert done.returncode == 2 and b"No such option" in done.stderr
    assert not (tmp_path / "none.svg").exists()


@pytest.mark.parametrize("name", ["memory", "cost", "reads", "copies", "map", "tile", "why", "size"])
def test_text_in_hand(name, tmp_path):
    """`--strict` refuses what `notes` tells of otherwise; what asks of shapes then answers about those in the text."""
    log = tmp_path / "log.txt"
    log.write_text("[rank0]: %a.2 = f32[4]{0} add(f32[4]{0} %x, f32[4]{0} %x)\n")
    note = "Prefixes of log lines, colours and quotation marks were left out."
    assert note in document(name, log)["totals"]["notes"]
    assert text(name, log).count(note) == 1
    assert note in text(name, log, "--show", "totals")
    strict = command_line.run(name, log, "--strict")
    if name in ("why", "size"):
        assert strict.returncode == 0 and note not in strict.stdout.decode()
    else:
        assert strict.returncode == 1 and b"1:1: expected a shape" in strict.stderr


@pytest.mark.parametrize("name", ["cost", "memory", "size"])
def test_the_rows_of_an_instruction(name):
    """All that is known of each as lines; other forms have the rows alone."""
    every = rows(name, MODULE)
    instruction = every[0]["name"]
    own = [row for row in every if row["name"] == instruction]
    shown = text(name, MODULE, f"%{instruction}").split("\n\n")
    assert len(shown) == len(own)
    for block, row in zip(shown, own, strict=True):
        facts = dict(re.split(r"  +", line, maxsplit=1) for line in block.splitlines())
        assert facts["instruction" if "instruction" in facts else "name"].strip() == row["name"]
        assert all(str(row[key]) in facts[key] for key in ("opcode", "op_name") if key in facts and row[key])
    assert rows(name, MODULE, instruction) == own


def test_an_instruction_without_a_row():
    done = command_line.run("cost", MODULE, "ynn_fusion.444")
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == [
        "xlashape: cost has no row about 'ynn_fusion.444', and no file has this name: did you mean 'ynn_fusion.4'?"
    ]
