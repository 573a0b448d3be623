"""Loops that read and write at their counter: maps in which the number of the iteration is a variable, against running
the loops in NumPy. EXACT maps name what is read and nothing else; all maps name everything that is read.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from evaluated import leaves, result
from map_enumeration import elements

from xlashape import indexing
from xlashape.hlo import HloInstruction, HloModule
from xlashape.indexing import Knowledge
from xlashape.indexing.walk.repeated.counters import Piece, clamped, joined, signs

SIZE = 5


class LoopWriter:
    """Writes the body of a loop over arrays f32[5] and scalars f32[], at offsets that follow from a counter."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.arrays, self.scalars = r.randint(1, 3), r.randint(0, 2)
        self.count, self.start, self.step = r.randint(0, 5), r.choice([0, 0, 1, 4]), r.choice([1, 1, 1, 2, -1])
        self.lines: list[str] = []
        self.vectors = [f"a{k}" for k in range(self.arrays)]
        self.numbers = [f"number{k}" for k in range(self.scalars)]

    def line(self, text: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def constant(self, value: int) -> str:
        return self.line(f"s32[] constant({value})")

    def offset(self) -> str:
        """A number that follows from the counter: linear, of pieces, or of a kind that is not followed."""
        factor, base = self.r.choice([1, 1, 1, -1, 2, 0]), self.r.randint(-2, SIZE)
        times = self.line(f"s32[] multiply(i, {self.constant(factor)})")
        place = self.line(f"s32[] add({times}, {self.constant(base)})")
        match self.r.choice(["linear", "linear", "linear", "wrapped", "least", "other"]):
            case "wrapped":
                negative = self.line(f"pred[] compare({place}, {self.constant(0)}), direction=LT")
                from_end = self.line(f"s32[] add({place}, {self.constant(SIZE)})")
                return self.line(f"s32[] select({negative}, {from_end}, {place})")
            case "least":
                return self.line(f"s32[] minimum({place}, {self.constant(self.r.randint(0, SIZE))})")
            case "other":
                return self.line(f"s32[] remainder({place}, {self.constant(3)})")
            case _:
                return place

    def part(self, size: int) -> str:
        """Some elements: of an array at an offset, or from what was made of them."""
        source = self.r.choice(self.vectors)
        taken = self.line(f"f32[{size}] dynamic-slice({source}, {self.offset()}), dynamic_slice_sizes={{{size}}}")
        if self.numbers and self.r.random() < 0.4:
            other = self.line(f"f32[{size}] broadcast({self.r.choice(self.numbers)}), dimensions={{}}")
            taken = self.line(f"f32[{size}] add({taken}, {other})")
        if self.r.random() < 0.3:
            other = self.part(size)
            taken = self.line(f"f32[{size}] add({taken}, {other})")
        return taken

    def next_array(self, own: str) -> str:
        match self.r.choice(["same", "other", "turned", "written", "written", "written", "added", "fixed", "chosen"]):
            case "same":
                return own
            case "other":
                return self.r.choice(self.vectors)
            case "turned":
                return self.line(f"f32[{SIZE}] reverse({self.r.choice(self.vectors)}), dimensions={{0}}")
            case "added":
                return self.line(f"f32[{SIZE}] add({own}, {self.part(SIZE)})")
            case "fixed":
                update = self.part(2)
                return self.line(f"f32[{SIZE}] dynamic-update-slice({own}, {update}, {self.constant(1)})")
            case "chosen":
                chosen = self.line(f"pred[] compare(i, {self.constant(self.r.randint(0, 3))}), direction=LT")
                chosen = self.line(f"pred[{SIZE}] broadcast({chosen}), dimensions={{}}")
                turned = self.line(f"f32[{SIZE}] reverse({own}), dimensions={{0}}")
                return self.line(f"f32[{SIZE}] select({chosen}, {turned}, {self.r.choice(self.vectors)})")
            case _:
                update = self.part(self.r.choice([1, 1, 2]))
                return self.line(f"f32[{SIZE}] dynamic-update-slice({own}, {update}, {self.offset()})")

    def next_scalar(self, own: str) -> str:
        number = self.line(f"f32[] reshape({self.part(1)})")
        return self.line(f"f32[] add({own}, {number})") if self.r.random() < 0.7 else number

    def text(self) -> str:
        shapes = ["s32[]", *[f"f32[{SIZE}]"] * self.arrays, *["f32[]"] * self.scalars]
        shape = f"({', '.join(shapes)})"
        names = [*self.vectors, *self.numbers]
        read = [f"  {name} = {shapes[k + 1]} get-tuple-element(p), index={k + 1}" for k, name in enumerate(names)]
        results = [self.next_array(own) for own in self.vectors] + [self.next_scalar(own) for own in self.numbers]
        counted = self.line(f"s32[] add(i, {self.constant(self.step)})")
        limit, direction = self.start + self.step * self.count, "LT" if self.step > 0 else "GT"
        given = [f"  x{k} = {shapes[k + 1]} parameter({k})" for k in range(len(names))]
        return "\n".join(
            [
                "HloModule m", "body {", f"  p = {shape} parameter(0)", "  i = s32[] get-tuple-element(p), index=0",
                *read, *self.lines, f"  ROOT t = {shape} tuple({', '.join([counted, *results])})", "}",
                "condition {", f"  p = {shape} parameter(0)", "  i = s32[] get-tuple-element(p), index=0",
                f"  n = s32[] constant({limit})", f"  ROOT c = pred[] compare(i, n), direction={direction}", "}",
                "ENTRY e {", *given, f"  first = s32[] constant({self.start})",
                f"  s = {shape} tuple({', '.join(['first', *[f'x{k}' for k in range(len(names))]])})",
                f"  ROOT w = {shape} while(s), condition=condition, body=body", "}",
            ]
        )  # fmt: skip


def reads_by_running(root: HloInstruction) -> dict[tuple[int, int], np.ndarray]:
    """(parameter, output) → which elements of the output (rows) change with which elements of the parameter."""
    computation = root.computation
    sizes = [parameter.shape.dimensions for parameter in computation.parameters]
    seen: dict[tuple[int, int], np.ndarray] = {}
    rng = np.random.default_rng(0)
    for _ in range(2):
        values = [rng.random(size) + 1 for size in sizes]
        before = leaves(result(computation, values))[1:]
        for number, value in enumerate(values):
            for column, at in enumerate(np.ndindex(value.shape)):
                changed = [np.array(each) for each in values]
                changed[number][at] += 0.37
                for output, (old, new) in enumerate(zip(before, leaves(result(computation, changed))[1:], strict=True)):
                    table = seen.setdefault((number, output), np.zeros((old.size, value.size), bool))
                    table[:, column] |= ~np.isclose(old, new, rtol=1e-9).reshape(-1)
    return seen


def reads_by_maps(root: HloInstruction, number: int, output: int) -> tuple[np.ndarray, bool]:
    """The same from the maps, and whether all of them are exact."""
    parameter = root.computation.parameters[number]
    dims, out = parameter.shape.dimensions, root.shape.tuple_shapes[output + 1].dimensions
    accesses = indexing.output_to_ancestors(root, output + 1).get(parameter, ())
    named = np.zeros((int(np.prod(out)), int(np.prod(dims))), bool)
    for row, index in enumerate(np.ndindex(out)):
        for access in accesses:
            for at in elements(access, index):
                assert all(0 <= i < n for i, n in zip(at, dims, strict=True)), access
                named[row, int(np.ravel_multi_index(at, dims)) if dims else 0] = True
    return named, all(access.knowledge is Knowledge.EXACT for access in accesses)


def judge(text: str) -> list[bool]:
    """Whether the maps of each pair of parameter and output are exact. AssertionError where they are wrong."""
    root = HloModule.parse(text).entry.root
    outcomes: list[bool] = []
    for (number, output), seen in reads_by_running(root).items():
        named, are_exact = reads_by_maps(root, number, output)
        assert not (seen & ~named).any(), f"x{number} to {output}: not named\n{np.argwhere(seen & ~named)}\n{text}"
        if are_exact:
            assert (named == seen).all(), f"x{number} to {output}: not read\n{np.argwhere(named & ~seen)}\n{text}"
        outcomes.append(are_exact)
    return outcomes


@pytest.mark.parametrize("seed", range(0, 60, 20))
def test_random_loops(seed: int) -> None:
    outcomes = [each for k in range(seed, seed + 20) for each in judge(LoopWriter(random.Random(k)).text())]
    assert outcomes.count(True) > len(outcomes) / 2


def test_values_of_counters() -> None:
    """Against every number of an iteration."""
    r = random.Random(0)
    for _ in range(200):
        slope, base, last = r.randint(-3, 3), r.randint(-9, 9), r.randint(0, 6)
        lower = r.randint(-4, 4)
        upper = lower + r.randint(0, 4)
        value = [slope * t + base for t in range(last + 1)]
        found = [(s > 0) - (s < 0) for s in value]
        assert [sign for first, end, sign in signs(0, last, slope, base) for _ in range(first, end + 1)] == found
        pieces = clamped(joined([Piece(0, last, slope, base)]) or (), lower, upper) or ()
        assert [p.slope * t + p.base for p in pieces for t in range(p.first, p.last + 1)] == [
            min(max(each, lower), upper) for each in value
        ]
