"""Writes a folder of made-up dumps to scan: modules of a few forms, duplicates, and files that are broken, nested too
deeply, or too large when decompressed.
"""

from __future__ import annotations

import gzip
import random
from pathlib import Path

from xlashape import HloModule

TEMPLATE = """HloModule jit_f{number}, is_scheduled=true

%fused (a: f32[{rows},128], b: f32[{rows},128]) -> f32[{rows},128] {{
  %a = f32[{rows},128]{{1,0}} parameter(0)
  %b = f32[{rows},128]{{1,0}} parameter(1)
  ROOT %sum = f32[{rows},128]{{1,0}} add(%a, %b)
}}

ENTRY %main (p: f32[{rows},128]) -> f32[128,{rows}] {{
  %p = f32[{rows},128]{{1,0}} parameter(0)
  %f = f32[{rows},128]{{1,0}} fusion(%p, %p), kind=kLoop, calls=%fused, metadata={{op_name="jit(f)/add" source_file="f.py" source_line={number}}}
  %c = f32[{rows},128]{{0,1}} copy(%f)
  ROOT %t = f32[128,{rows}]{{1,0}} bitcast(%c)
}}
"""


def text_of(number: int) -> str:
    return TEMPLATE.format(number=number % 40, rows=8 + number % 37)


def broken(number: int) -> bytes:
    text = text_of(number)
    proto = HloModule.parse(text).to_bytes()
    nested = "HloModule deep ENTRY e { ROOT p = " + "(" * 20_000 + "f32[]" + ")" * 20_000 + " parameter(0) }"
    choices = (
        text[: len(text) // 2].encode(),
        proto[: len(proto) // 3],
        b"",
        b"\x00\xff" * 50,
        gzip.compress(text.encode(), mtime=0)[:-9],
        nested.encode(),
        b"module @jit_f { func.func @main() { return } }",
    )
    return choices[number % len(choices)]


def write_corpus(folder: Path, count: int, seed: int) -> int:
    """Writes `count` files, one in 50 of them broken, and returns how many are broken."""
    chance = random.Random(seed)
    bad = 0
    for number in range(count):
        below = folder / f"team{number % 5}"
        below.mkdir(parents=True, exist_ok=True)
        if number % 50 == 7:
            bad += 1
            (below / f"m{number}.hlo").write_bytes(broken(number // 50))
            continue
        module = chance.randrange(count)
        text = text_of(module)
        form = chance.choice(("hlo", "hlo.gz", "pb", "pb.gz", "pbtxt", "json"))
        path = below / f"m{number}.{form}"
        if form.startswith("hlo"):
            data = text.encode()
            path.write_bytes(gzip.compress(data, mtime=0) if form.endswith(".gz") else data)
        else:
            HloModule.parse(text).save(path)
    return bad
