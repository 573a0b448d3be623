"""Partitioned programs with a collective left out or made wrong.

A program must be equal to its partitioned form, and differ from each mutant of it. Whether a mutant computes something
else at all is known from the values of both on ordinary inputs, and the values of the partitioned program from running
it. `python tests/support/collective_mutants.py FOLDER [NAME …]`, where FOLDER has what `tests/proof/partitioned.py`
wrote, prints what fails, and the counts.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import xlashape as xs
from xlashape.errors import UnsupportedError, XlashapeError
from xlashape.evaluation.custom_calls import shards
from xlashape.evaluation.run_module import drawn, input_shapes, output_shapes, shardings_of
from xlashape.hlo.literal import to_numpy

DRAWS = 3
OTHER = {"add": "maximum", "maximum": "minimum", "minimum": "maximum", "and": "or", "or": "and"}
GROUPED = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")


class Mutant(NamedTuple):
    kind: str
    instruction: str
    text: str


def mutants(text: str) -> Iterator[Mutant]:
    """Each collective of a partitioned module, wrong in several ways."""
    module = xs.HloModule.parse(text)
    lines = text.split("\n")
    at = {line.split(" = ")[0].split("%")[-1]: i for i, line in enumerate(lines) if " = " in line}
    seen = {text}
    for computation in module.computations:
        for instruction in computation.instructions:
            line = lines[at[instruction.name]] if instruction.name in at else ""
            for kind, new, header in _changes(instruction, line):
                i = at[instruction.name]
                changed = [*lines[:i], ("  ROOT " if "ROOT " in lines[i] else "  ") + new, *lines[i + 1 :]]
                if header:
                    first = next(n for n, line in enumerate(lines) if line.endswith("{") and " -> " in line)
                    changed.insert(first, header)
                made = "\n".join(changed)
                if made not in seen:
                    seen.add(made)
                    yield Mutant(kind, instruction.name, made)


def _changes(instruction: Any, line: str) -> Iterator[tuple[str, str, str]]:
    """The kind of a change, the line in the place of an instruction, and a computation that it calls."""
    opcode, shape = str(instruction.opcode), instruction.shape
    named = f"%{instruction.name} = {shape} "
    operands = re.findall(r"%[\w.#-]+", line.split(f" {opcode}(")[-1].split("), ")[0])
    if opcode == "partition-id":
        yield "wrong part", f"{named}constant(0)", ""
    elif opcode == "constant" and shape.is_array and shape.dimensions == (8,) and shape.element_type.is_integral:
        values = to_numpy(instruction.details.literal).tolist()
        yield "wrong offsets", f"{named}constant({{{', '.join(map(str, values[1:] + values[:1]))}}})", ""
    elif opcode == "collective-permute":
        pairs = [(pair.source, pair.target) for pair in instruction.details.source_target_pairs]
        yield "left out", f"{named}copy({operands[0]})", ""
        wrong = {
            "reversed pairs": [(target, source) for source, target in pairs],
            "missing pair": pairs[:-1],
            "wrong pairs": [(s, t) for (s, _), (_, t) in zip(pairs, [*pairs[1:], pairs[0]], strict=True)],
        }
        for kind, made in wrong.items():
            if made != pairs and made:
                written = ",".join([f"{{{s},{t}}}" for s, t in made])
                channel = f"channel_id={instruction.channel}"
                yield (
                    kind,
                    f"{named}collective-permute({operands[0]}), {channel}, source_target_pairs={{{written}}}",
                    "",
                )
    elif opcode in GROUPED:
        yield from _grouped(instruction, opcode, named, operands)


def _grouped(instruction: Any, opcode: str, named: str, operands: list[str]) -> Iterator[tuple[str, str, str]]:
    shape, details = instruction.shape, instruction.details
    groups = [list(group) for group in instruction.replica_groups.expand()]
    size = len(groups[0])
    dims = tuple(instruction.operands[0].shape.dimensions)
    axis = next(iter(details.dimensions), None)

    def line(
        made: str = named,
        groups: Sequence[Sequence[int]] = groups,
        axis: int | None = axis,
        apply: str = "",
        given: Sequence[str] = operands,
    ) -> str:
        written = ",".join(["{" + ",".join(map(str, group)) + "}" for group in groups])
        parts = [f"{made}{opcode}({', '.join(given)})", f"channel_id={instruction.channel}"]
        parts.append(f"replica_groups={{{written}}}")
        parts += [f"dimensions={{{axis}}}"] if axis is not None else []
        parts += ["use_global_device_ids=true"] if opcode != "all-to-all" else []
        called = [computation.name for computation in instruction.called_computations]
        parts += [f"to_apply=%{apply or called[0]}"] if called else []
        return ", ".join(parts)

    # Left out
    if shape.is_tuple:
        yield "left out", f"{named}tuple({', '.join(operands)})", ""
    elif opcode == "all-gather":
        yield "left out", f"{named}concatenate({', '.join(operands * size)}), dimensions={{{axis}}}", ""
    elif opcode == "reduce-scatter":
        ranges = ", ".join([f"[0:{n}]" for n in shape.dimensions])
        yield "left out", f"{named}slice({operands[0]}), slice={{{ranges}}}", ""
    else:
        yield "left out", f"{named}copy({operands[0]})", ""
    # Wrong groups
    if len(groups) > 1:
        flat = [group[i] for i in range(size) for group in groups]
        yield "wrong groups", line(groups=[flat[i : i + size] for i in range(0, len(flat), size)]), ""
    elif opcode == "all-reduce":
        yield "wrong groups", line(groups=[groups[0][: size // 2], groups[0][size // 2 :]]), ""
    if opcode != "all-reduce":
        yield "wrong order", line(groups=[[*group[1:], group[0]] for group in groups]), ""
    # Wrong reduction
    if instruction.called_computations:
        root = instruction.called_computations[0].root
        kind = root.shape.element_type
        other = "multiply" if kind.is_complex else OTHER.get(str(root.opcode), "add")
        scalar = f"{kind.text}[]"
        header = (
            f"%mutant (a: {scalar}, b: {scalar}) -> {scalar} {{\n  %a = {scalar} parameter(0)\n"
            f"  %b = {scalar} parameter(1)\n  ROOT %r = {scalar} {other}(%a, %b)\n}}\n"
        )
        yield "wrong reduction", line(apply="mutant"), header
    # Wrong dimension or split
    if shape.is_tuple and opcode == "all-to-all":
        yield "wrong split", line(given=[*operands[1:], operands[0]]), ""
    if axis is None or shape.is_tuple:
        return
    for along, n in enumerate(dims):
        if along == axis or (opcode != "all-gather" and n % size):
            continue
        if opcode == "all-to-all":
            yield "wrong dimension", line(axis=along), ""
        else:
            factor = {along: n * size if opcode == "all-gather" else n // size}
            sizes = ",".join([str(factor.get(d, m)) for d, m in enumerate(dims)])
            made = f"%mutant = {shape.element_type.text}[{sizes}] "
            yield "wrong dimension", f"{line(made, axis=along)}\n  {named}reshape(%mutant)", ""
        return


def outputs(text: str, whole: Any, seed: int) -> list[list[Any]]:
    """The parts of each output on each device, without padding, for inputs that `seed` draws."""
    rng, shapes = np.random.default_rng(seed), input_shapes(whole)
    devices = 8
    inputs: list[Any] = []
    for shape, sharding in zip(shapes, shardings_of(whole.entry.parameters), strict=True):
        x = drawn(shape, rng)
        parts = [x] if sharding is None else shards([x], sharding, shape, devices)
        inputs.append(parts if len(parts) > 1 else parts * devices)
    found: list[list[Any]] = []
    joins = shardings_of([whole.entry.root])
    for value, shape, sharding in zip(xs.evaluate(text, inputs), output_shapes(whole), joins, strict=True):
        parts = value if isinstance(value, list) else [value] * devices
        for device, part in enumerate(parts):
            tile = sharding.tile_of(device, shape) if sharding is not None and sharding.tile_counts else None
            parts[device] = part if tile is None else part[tuple([slice(0, n) for n in tile.sizes])]
        found.append(parts)
    return found


def as_run(before: str, after: str, run: Any) -> bool:
    """Whether a partitioned program has the values that running it gave."""
    count = sum(key.startswith("in") for key in run)
    found = xs.evaluate(after, [run[f"in{i}"] for i in range(count)], like=before)
    wanted = [[run[f"out{i}"]] * 8 for i in range(len(run) - count)]
    return not differ(wanted, [x if isinstance(x, list) else [x] * 8 for x in found])


def differ(one: list[list[Any]], other: list[list[Any]]) -> bool:
    """Whether an element differs beyond rounding."""
    for x, y in zip(one, other, strict=True):
        for a, b in zip(x, y, strict=True):
            if a.dtype.kind in "iub":
                if not np.array_equal(a, b):
                    return True
                continue
            wide = [v.astype(np.complex128 if v.dtype.kind == "c" else np.float64) for v in (a, b)]
            near = 2e-2 if b.dtype.itemsize == 2 else 1e-3
            if not np.allclose(*wide, rtol=near, atol=near * float(np.max(np.abs(wide[0]), initial=0))):
                return True
    return False


def proven(before: str, after: str) -> Iterator[tuple[str, str, str, str, Any]]:
    """Kind, instruction, truth and verdict of a partitioned program and its mutants."""
    whole = xs.HloModule.parse(before)
    right = [outputs(after, whole, seed) for seed in range(DRAWS)]
    found = xs.equivalent(before, after)
    yield "partitioned", "", "same", found.verdict, found
    for mutant in mutants(after):
        try:
            wrong = [outputs(mutant.text, whole, seed) for seed in range(DRAWS)]
        except UnsupportedError:  # some devices wait for others
            continue
        truth = "differs" if any(differ(*pair) for pair in zip(right, wrong, strict=True)) else "same"
        found = xs.equivalent(before, mutant.text)
        yield mutant.kind, mutant.instruction, truth, found.verdict, found


def main(folder: Path, names: Sequence[str]) -> int:
    counts: Counter[tuple[str, str, str]] = Counter()
    for path in sorted(folder.glob("*.before.txt")):
        name = path.name.removesuffix(".before.txt")
        if names and name not in names:
            continue
        before, after = path.read_text(), (folder / f"{name}.after.txt").read_text()
        try:
            with np.load(folder / f"{name}.npz") as run:
                counts["run", "same" if as_run(before, after, run) else "differs", ""] += 1
            for kind, instruction, truth, verdict, found in proven(before, after):
                counts["pair" if kind == "partitioned" else "mutant", truth, verdict] += 1
                if verdict.startswith("equal") != (truth == "same") or verdict == "unknown":
                    print(f"{name}: {kind} {instruction}: {truth}, told {verdict} {found.reasons}", flush=True)
        except XlashapeError as error:
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
            counts["error", "", ""] += 1
    for key, count in sorted(counts.items()):
        print(*key, count)
    return int(any(truth != "same" and verdict.startswith("equal") for _, truth, verdict in counts))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
