"""What a scan costs: processor time per module and how it grows with the module, beside decoding the same bytes with
protobuf alone; and what a second process adds.

    python tests/benchmarks/bench_scan.py [--write]

The modules are made up: layers of ten instructions, one of them a fusion, each module with names and shapes of its own.
Times are those of the processor, of the scan and of its worker, without their start; so other programs disturb little.
One process is compared with two by the clock, for which the machine must do nothing else. `--write` puts the tables
into docs/corpora.md. All of it takes some four minutes.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.corpus import text_of
from xlashape import HloModule, scan
from xlashape.proto import xla
from xlashape.scan.batches import _close_all

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/corpora.md"
BEGIN, END = "<!-- made by tests/benchmarks/bench_scan.py --write -->", "<!-- end -->"
SIZES = ((10, 1000), (100, 300), (1_000, 40), (10_000, 4))
"""Instructions of a module, and how many modules are scanned."""
KINDS = (
    ("without accesses", [name for name in scan.DATASETS if name not in ("accesses", "maps", "errors")]),
    ("with accesses", [name for name in scan.DATASETS if name not in ("maps", "errors")]),
    ("with maps", [name for name in scan.DATASETS if name != "errors"]),
)
PLAN = 10_000_000

_LAYER = """
  %f.{i} = f32[{n},256]{{1,0}} fusion(%x.{i}, %p), kind=kLoop, calls=%fused, metadata={{op_name="jit(step)/layer_{i}/gelu" source_file="model.py" source_line={i}}}
  %t.{i} = f32[256,{n}]{{1,0}} transpose(%f.{i}), dimensions={{1,0}}
  %d.{i} = f32[{n},{n}]{{1,0}} dot(%f.{i}, %t.{i}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, metadata={{op_name="jit(step)/layer_{i}/dot"}}
  %e.{i} = f32[{n},{n}]{{1,0}} exponential(%d.{i})
  %s.{i} = f32[{n}]{{0}} reduce(%e.{i}, %zero), dimensions={{1}}, to_apply=%sum
  %b.{i} = f32[{n},{n}]{{1,0}} broadcast(%s.{i}), dimensions={{0}}
  %v.{i} = f32[{n},{n}]{{1,0}} divide(%e.{i}, %b.{i})
  %c.{i} = f32[{n},{n}]{{0,1}} copy(%v.{i})
  %m.{i} = f32[{n},256]{{1,0}} dot(%c.{i}, %f.{i}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %x.{j} = f32[{n},256]{{1,0}} add(%m.{i}, %x.{i})
"""


def program(instructions: int, number: int) -> str:
    """The text of a module of about so many instructions."""
    n, layers = 8 + number % 120, max(1, instructions // 10)
    parts = [
        f"HloModule jit_step_{number}, is_scheduled=true\n",
        "%sum (a: f32[], b: f32[]) -> f32[] { %a = f32[] parameter(0) %b = f32[] parameter(1) ROOT %s = f32[] add(%a, %b) }\n",
        f"%fused (u: f32[{n},256], w: f32[{n},256]) -> f32[{n},256] {{ %u = f32[{n},256]{{1,0}} parameter(0) %w = f32[{n},256]{{1,0}} parameter(1) "
        f"%k = f32[{n},256]{{1,0}} multiply(%u, %w) ROOT %g = f32[{n},256]{{1,0}} tanh(%k) }}\n",
        f"ENTRY %main (p: f32[{n},256]) -> f32[{n},256] {{ %p = f32[{n},256]{{1,0}} parameter(0) %zero = f32[] constant({number})"
        f" %x.0 = f32[{n},256]{{1,0}} negate(%p)",
    ]
    parts += [_LAYER.format(i=i, j=i + 1, n=n) for i in range(layers)]
    return "".join([*parts, f"  ROOT %r = f32[{n},256]{{1,0}} negate(%x.{layers})\n}}\n"])


def processor_seconds() -> float:
    """Those of this process and of the workers, which end here."""
    _close_all()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum([each.ru_utime + each.ru_stime for each in used])


def written(folder: Path, texts: Iterator[str]) -> Path:
    """A folder of dumps of these modules."""
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / f"m{number}.pb").write_bytes(HloModule.parse(text).to_bytes())
    return folder


def sizes(folder: Path) -> Iterator[str]:
    """The lines of the table, and the plan."""
    yield f"| instructions | file | protobuf alone | {' | '.join(name for name, _ in KINDS)} | Parquet |"
    yield "| ---: " * (len(KINDS) + 4) + "|"
    small = written(folder / "one", iter([program(10, 0)]))
    plan: list[str] = []
    times_as_fast: list[float] = []
    for instructions, count in SIZES:
        dumps = written(folder / f"dumps{instructions}", (program(instructions, number) for number in range(count)))
        files = sorted(dumps.iterdir())
        size = sum([path.stat().st_size for path in files])
        began = time.process_time()
        for path in files:
            xla.HloModuleProto.FromString(path.read_bytes())
        alone = count / (time.process_time() - began)
        row, stored = [], 0
        for name, datasets in KINDS:
            spent: list[float] = []
            for what in (small, dumps):
                began, out = processor_seconds(), folder / f"{name}{instructions}{what.name}"
                scan.scan(str(what), out, jobs=1, datasets=datasets)
                spent.append(processor_seconds() - began)
                if name == "with accesses":
                    stored = sum([path.stat().st_size for path in out.rglob("*.parquet")])
            each = max(spent[1] - spent[0], 1e-9) / count
            row.append(f"{3600 / each:,.0f}")
            if name == "with accesses":
                hours = PLAN * each / 3600
                times_as_fast.append(alone * each)
                plan.append(
                    f"| {instructions:,} | {hours:,.0f} | {hours / 64:,.1f} | {PLAN * size / count / 1e12:,.2f} TB | "
                    f"{PLAN * stored / count / 1e12:,.2f} TB |"
                )
        yield (
            f"| {instructions:,} | {size / count / 1000:,.1f} kB | {alone * 3600:,.0f} | {' | '.join(row)} | "
            f"{stored / count / 1000:,.1f} kB |"
        )
    yield ""
    yield f"{PLAN:,} modules, with accesses:"
    yield ""
    yield "| instructions of each | core-hours | hours on 64 cores | to read | to write |"
    yield "| ---: | ---: | ---: | ---: | ---: |"
    yield from plan
    yield ""
    yield (
        f"One core reads and decodes such files with protobuf alone {min(times_as_fast):,.0f} to "
        f"{max(times_as_fast):,.0f} times as fast: what is counted here is what is found out about a module."
    )


def efficiency(folder: Path, count: int = 4000) -> str:
    """What a second process adds, by the clock."""
    texts = (text_of(number).replace("jit_f", f"jit_{number}_") for number in range(count))
    dumps = written(folder / "dumps", texts)
    took = []
    for jobs in (1, 2):
        began = time.perf_counter()
        scan.scan(str(dumps), folder / str(jobs), jobs=jobs)
        took.append(time.perf_counter() - began)
    one, two = [count / each for each in took]
    return (
        f"By the clock, one process scans {one:,.0f} modules of seven instructions a second and two scan {two:,.0f}: an "
        f"efficiency of {two / one / 2:.0%} on two cores."
    )


def main(arguments: list[str]) -> None:
    with TemporaryDirectory() as folder:
        lines: list[str] = []
        for line in sizes(Path(folder)):
            print(line, flush=True)
            lines.append(line)
        lines.append(efficiency(Path(folder)))
        print(lines[-1])
    if "--write" in arguments:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text("\n".join([f"{before}{BEGIN}", "", *lines, "", f"{END}{after}"]))


if __name__ == "__main__":
    main(sys.argv[1:])
