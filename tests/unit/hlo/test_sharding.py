"""Tiled shardings against jaxlib: tests/vectors/shardings.jsonl holds shardings in protos and in text, and what jaxlib
0.12.0.1 makes of them.

A row has the sharding that jaxlib was given (`from` says whether as a proto or as text), the proto that jaxlib wrote,
and the text that jaxlib printed of that proto.
"""

import base64
import itertools
import json
import random
import re
from pathlib import Path

import numpy as np
import pytest
from jaxlib_versions import Jaxlib

from xlashape.errors import InvalidModuleError, LimitExceededError, ParseError
from xlashape.hlo.tokens import HloCursor
from xlashape.hlo.values.devices import Iota, transposed
from xlashape.hlo.values.sharding import parse_sharding, sharding_text
from xlashape.hlo.values.tiled_sharding import Tiles
from xlashape.proto import xla

VECTORS = Path(__file__).resolve().parents[2] / "vectors"
TEXT = "HloModule m\nENTRY e {{ ROOT p = f32[8,8] parameter(0), sharding={} }}"


def rows() -> list[dict]:
    with (VECTORS / "shardings.jsonl").open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def message(data: str) -> xla.OpSharding:
    return xla.OpSharding.FromString(base64.b64decode(data))


def as_jaxlib_writes_it(text: str) -> str:
    """jaxlib has no word for a subgroup whose kind is unknown, and none for the kinds tuple and other."""
    return re.sub("last_tile_dims={(.*)}}", lambda kinds: re.sub(r"unknown(_\d)?", "error_type.", kinds.group()), text)


def test_every_sharding_is_written_as_jaxlib_writes_it():
    count = 0
    for row in rows():
        given = message(row["sharding"] if row["from"] == "proto" else row["canonical"])
        assert as_jaxlib_writes_it(sharding_text(given)) == row["text"], row
        count += 1
    assert count > 500


def test_every_sharding_is_read_as_jaxlib_reads_it():
    count = 0
    for row in rows():
        if row["from"] == "text":
            assert parse_sharding(HloCursor(row["sharding"])) == message(row["canonical"]), row
            count += 1
    assert count == 150


def test_what_is_written_is_read_back_as_the_same_sharding():
    for row in rows():
        text = sharding_text(message(row["canonical"]))
        assert sharding_text(parse_sharding(HloCursor(text))) == text, row


def test_reading_text_and_writing_a_proto_agree_on_the_canonical_form():
    """Reading the text of a proto's own fields gives what writing the proto gives, for all orders of all kinds of
    subgroups."""
    kinds = ["maximal", "manual", "unreduced", "replicated", "unknown"]
    for count in (1, 2, 3):
        for subgroups in itertools.permutations(kinds, count):
            sizes = [2, 3, 4][:count]
            devices = [2 * i + 1 for i in range(len(transposed(range(2 * 24), [2, *sizes, 1], range(count + 1))))]
            devices = sorted(range(len(devices)), key=lambda i: (i * 7) % 11)
            dims = ",".join(map(str, [2, *sizes]))
            text = f"{{devices=[{dims}]{','.join(map(str, devices))} last_tile_dims={{{', '.join(subgroups)}}}}}"
            proto = xla.OpSharding(
                type=xla.OpSharding.OTHER,
                tile_assignment_dimensions=[2, *sizes],
                tile_assignment_devices=devices,
                last_tile_dims=[xla.OpSharding.Type.Value(kind.upper()) for kind in subgroups],
            )
            assert sharding_text(parse_sharding(HloCursor(text))) == sharding_text(proto), text


def test_the_canonical_form_is_its_own_canonical_form():
    """Only where subgroups of one device were dropped and one unreduced subgroup is left, jaxlib reads the rest as that
    kind the second time."""
    for row in rows():
        sharding = message(row["canonical"])
        if sharding.type == xla.OpSharding.OTHER:
            tiles = Tiles.of(sharding)
            assert tiles.canonical() in (tiles, xla.OpSharding.UNREDUCED, xla.OpSharding.REPLICATED), row


def test_vectors_are_what_jaxlib_answers_where_it_is_installed():
    jaxlib = Jaxlib()
    hlo = jaxlib.hlo
    for row in rows()[::7]:
        if jaxlib.differs(row["text"]) or jaxlib.differs(row["sharding"]):
            continue
        if row["from"] == "text":
            module = hlo.hlo_module_from_text(TEXT.format(row["sharding"]))
        else:
            proto = xla.HloModuleProto.FromString(
                hlo.hlo_module_from_text(TEXT.format("{replicated}")).as_serialized_hlo_module_proto()
            )
            proto.computations[0].instructions[0].sharding.CopyFrom(message(row["sharding"]))
            module = hlo.HloModule.from_serialized_hlo_module_proto(proto.SerializeToString())
            assert f"sharding={row['text']}" in module.to_string()
        theirs = xla.HloModuleProto.FromString(module.as_serialized_hlo_module_proto())
        assert theirs.computations[0].instructions[0].sharding == message(row["canonical"])


def test_one_device_is_a_tile_of_an_iota_and_a_mistake_in_a_list():
    sharding = parse_sharding(HloCursor("{devices=[1,1]<=[1]}"))
    assert list(sharding.tile_assignment_dimensions) == [1, 1]
    assert sharding_text(sharding) == "{replicated}"
    with pytest.raises(ParseError, match="a tiled sharding has more than one device"):
        parse_sharding(HloCursor("{devices=[1,1]0}"))


@pytest.mark.parametrize("text", ["{unknown_42}", "{devices=[2,2]<=[4] last_tile_dims={unknown_42}}"])
def test_kinds_without_a_name_are_written_and_read(text):
    assert sharding_text(parse_sharding(HloCursor(text))) == text


def test_iotas_that_are_split_and_sorted():
    iota = Iota([4, 6], [1, 0])
    assert iota.split_along([6, 4]) == [[(1, 0, 6)], [(0, 0, 4)]]
    assert iota.split_along([4, 6]) is None
    moved = iota.with_tiles_in_order([2, 3, 4], [2, 0, 1])
    assert moved is not None
    assert moved.devices() == transposed(iota.devices(), [2, 3, 4], [2, 0, 1])
    with pytest.raises(InvalidModuleError, match="is not a permutation"):
        Iota.of([2, 2], [0, 0])
    with pytest.raises(LimitExceededError, match="devices of a list"):
        Iota.of([1 << 25], [0]).devices()


def devices(sharding: xla.OpSharding) -> list[int]:
    if sharding.iota_reshape_dims:
        dims = sharding.iota_reshape_dims
        return np.arange(np.prod(dims)).reshape(dims).transpose(sharding.iota_transpose_perm).ravel().tolist()
    return list(sharding.tile_assignment_devices)


def test_a_canonical_iota_orders_devices_as_before():
    r = random.Random(1)
    for _ in range(300):
        dims = [r.choice([1, 2, 2, 3, 4]) for _ in range(r.randint(1, 5))]
        perm = r.sample(range(len(dims)), len(dims))
        reshape, order = Iota(dims, perm).canonical()
        expected = np.arange(np.prod(dims)).reshape(dims).transpose(perm).ravel()
        assert (np.arange(np.prod(reshape)).reshape(reshape).transpose(order).ravel() == expected).all()
        assert len(reshape) <= len(dims)


def test_sorting_the_last_tile_dimensions_moves_the_devices_along():
    r = random.Random(2)
    for _ in range(200):
        tiles = [r.choice([1, 2, 4]), r.choice([2, 4]), r.choice([2, 3]), r.choice([2, 4])]
        count = int(np.prod(tiles))
        dims = [f for f in (r.choice([1, 2, 4]), r.choice([1, 2, 3])) if count % f == 0]
        dims.append(count // int(np.prod(dims)) if count % int(np.prod(dims)) == 0 else 1)
        if np.prod(dims) != count:
            continue
        perm = r.sample(range(len(dims)), len(dims))
        text = f"{{devices=[{','.join(map(str, tiles))}]<=[{','.join(map(str, dims))}]T({','.join(map(str, perm))}) "
        sharding = parse_sharding(HloCursor(text + "last_tile_dims={unreduced, manual}}"))
        listed = np.arange(count).reshape(dims).transpose(perm).reshape(tiles)
        assert devices(sharding) == listed.transpose([0, 1, 3, 2]).ravel().tolist()
        assert list(sharding.last_tile_dims) == [xla.OpSharding.MANUAL, xla.OpSharding.UNREDUCED]
        assert list(sharding.tile_assignment_dimensions) == [tiles[0], tiles[1], tiles[3], tiles[2]]
