"""Which programs XLA gathers arrays for involuntarily: 20 of which jaxlib 0.12.0.1 says so on 8 devices, and 40 of
which it does not, as JAX lowers them with random meshes, shapes, shardings and operations."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import xlashape as xs
from xlashape.hlo import HloModule
from xlashape.reports.collectives.rematerialized import rematerializations

VECTORS = Path(__file__).parents[3] / "vectors"


def test_most_are_predicted_and_none_where_xla_says_nothing() -> None:
    rows = [
        json.loads(line)
        for line in gzip.decompress((VECTORS / "rematerializations.jsonl.gz").read_bytes()).splitlines()
    ]
    found = [(row["rematerializations"] > 0, any(rematerializations(HloModule.parse(row["hlo"])))) for row in rows]
    assert len(found) == 60
    assert found.count((True, True)) >= 16
    assert found.count((True, False)) + found.count((True, True)) == 20
    assert found.count((False, True)) == 0


def test_the_answer_says_what_each_device_holds_and_gathers() -> None:
    text = """HloModule m, num_partitions=8, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=4]>}}
    ENTRY e {
      p = f32[32,16] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
      n = f32[32,16] negate(p)
      ROOT c = f32[32,16] custom-call(n), custom_call_target="Sharding", FRONTEND
    }"""
    columns = "sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"
    shardy = 'frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{}, {\\"y\\"}]>]>"}'
    for said in (columns, shardy):
        (note,) = xs.collectives(text.replace("FRONTEND", said)).notes
        assert note.endswith("rematerialization. Each device has 1,024 bytes, and gathers all 2,048.")
    assert not xs.collectives(text.replace("FRONTEND", "sharding={devices=[1,8]<=[8]}")).notes
    assert not xs.collectives(text.replace("FRONTEND", "sharding={replicated}")).notes
