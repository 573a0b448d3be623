"""Fuzzing of the HLO text parser: mutated programs must give a module or one of the library's errors, in bounded time.

    python tests/fuzz/hlo_text.py [--minutes 10] [--seed 0] [--keep FOLDER]

Texts are the programs and forms committed as vectors; mutations cut, repeat, swap and replace pieces, tokens of HLO for
the most part. Whatever escapes, or takes longer than five seconds of CPU, is written to the folder and told at the end;
the exit code is 1 then. `tests/unit/hlo/test_fuzz.py` runs a few hundred rounds, and every find kept in
`tests/vectors/hlo/fuzz` for good.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import re
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

VECTORS = Path(__file__).resolve().parents[1] / "vectors" / "hlo"
TOKENS = (
    "( ) { } [ ] , = : % \" ' \\ / /* */ // -> <= ... ? x _ . - 0 1 -1 2 99 9223372036854775807 9223372036854775808 "
    "1e309 nan inf "
    "-inf nan(0x1) true false ROOT ENTRY HloModule f32[] f32[2] f32[2]{0} (f32[2], s32[]) () token[] pred[] "
    "bf16[2,3]{1,0:T(8,128)(2,1)} "
    "f32[<=2] f32[?] s4[3]{0:E(4)} c64[] f8e4m3fn[1] parameter(0) constant(1) constant({...}) tuple() negate(p0) "
    "add(p0, p0) "
    'fusion(p0), kind=kLoop, calls=f while(p0), condition=c, body=b metadata={op_name="x"} sharding={replicated} '
    'sharding={devices=[2,1]<=[2]} last_tile_dims={manual} last_tile_dim_replicate backend_config={"a":1} '
    'frontend_attributes={a="b"} control-predecessors={p0} dimensions={0} window={size=1 pad=0_0} '
    "dim_labels=b0f_0io->b0f "
    "replica_groups={{0,1}} replica_groups=[2,2]<=[4] mesh['a'=2] device_ids=(0,1) origin={({\"a\"})} "
    "is_scheduled=true "
    "entry_computation_layout={()->f32[]} FileNames FunctionNames FileLocations StackFrames \0 \n \t \u00e9 \U0001f600"
).split(" ")
_TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*|[0-9]+|\s+|.", re.DOTALL)


def corpus() -> list[str]:
    """The texts that mutations begin with."""
    texts = [path.read_text() for path in sorted(VECTORS.glob("*.hlo")) if path.stat().st_size < 20_000]
    with gzip.open(VECTORS / "forms.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts.extend(json.loads(line)["text"] for line in lines)
    return texts


def mutate(text: str, other: str, r: random.Random) -> str:
    """`text`, changed in a few places; `other` gives pieces to it."""
    parts = _TOKEN.findall(text)
    for _ in range(r.choice((1, 1, 1, 2, 3, 8))):
        if not parts:
            break
        at = r.randrange(len(parts))
        end = min(len(parts), at + r.choice((1, 1, 2, 5, 40)))
        kind = r.randrange(9)
        if kind == 0:
            del parts[at:end]
        elif kind == 1:
            parts[at:at] = parts[at:end] * r.choice((1, 2, 50))
        elif kind == 2:
            parts[at] = r.choice(TOKENS)
        elif kind == 3:
            parts.insert(at, r.choice(TOKENS))
        elif kind == 4:
            to = r.randrange(len(parts))
            parts[at], parts[to] = parts[to], parts[at]
        elif kind == 5:
            pieces = _TOKEN.findall(other)
            start = r.randrange(len(pieces) or 1)
            parts[at:end] = pieces[start : start + r.choice((1, 5, 40))]
        elif kind == 6:
            del parts[at:]
        elif kind == 7:
            char = chr(
                r.choice((0, 9, 10, 34, 37, 39, 40, 41, 44, 47, 92, 123, 125, 127, 233, 0xFFFF, r.randrange(32, 127)))
            )
            parts[at] = parts[at][:1] + char + parts[at][1:]
        else:
            parts[at:at] = [r.choice("([{\"'%/*")] * r.choice((3, 200))
    return "".join(parts)


def rounds(seed: int) -> Iterator[str]:
    """Mutated texts without end."""
    r = random.Random(seed)
    texts = corpus()
    while True:
        yield mutate(r.choice(texts), r.choice(texts), r)


def attempt(text: str) -> str | None:
    """What is wrong with the parser's answer to `text`; None if nothing is."""
    from xlashape.errors import XlashapeError
    from xlashape.hlo import HloModule

    start = time.process_time()
    try:
        module = HloModule.parse(text)
        for one in module.instructions():
            _ = one.shape, one.operands, one.opcode
    except XlashapeError as error:
        if not str(error):
            return "an error without words"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"
    taken = time.process_time() - start
    return f"took {taken:.1f} s" if taken > 5 else None


def main() -> int:
    """Fuzzes for some minutes."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--minutes", type=float, default=10)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--keep", type=Path, default=Path("fuzz-finds"))
    options = arguments.parse_args()
    end = time.monotonic() + 60 * options.minutes
    count, parsed_wrong = 0, {}
    for text in rounds(options.seed):
        if time.monotonic() > end:
            break
        count += 1
        wrong = attempt(text)
        if wrong is not None:
            key = wrong.strip().splitlines()[-1][:80] + wrong[:40]
            if key not in parsed_wrong:
                parsed_wrong[key] = wrong
                options.keep.mkdir(parents=True, exist_ok=True)
                name = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
                (options.keep / f"{name}.hlo").write_text(text, errors="surrogatepass")
                print(f"round {count}, {name}: {wrong[:600]}", flush=True)
    print(f"{count} rounds, {len(parsed_wrong)} finds")
    return 1 if parsed_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
