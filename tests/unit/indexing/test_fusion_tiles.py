"""Tiles of whole fusions against enumeration: the elements that maps lead to, tile by tile."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import product

import numpy as np
import pytest

from xlashape import indexing
from xlashape.errors import InvalidArgumentError, LimitExceededError
from xlashape.hlo import HloInstruction, HloModule
from xlashape.indexing import FusionTiling, InstructionTile, tile_fusion
from xlashape.symbolic import Expr, IndexingMap, TileBox, dim

SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"


def fusion_of(body: str, parameters: list[str], result: str) -> HloInstruction:
    """The fusion of a computation whose lines are `body`, with parameters of these shapes named p0, p1, …."""
    inner = "\n".join([f"p{i} = {shape} parameter({i})" for i, shape in enumerate(parameters)])
    outer = "\n".join([f"x{i} = {shape} parameter({i})" for i, shape in enumerate(parameters)])
    arguments = ", ".join([f"x{i}" for i in range(len(parameters))])
    text = f"""HloModule m
    {SUM}
    f {{ {inner}
    {body} }}
    ENTRY e {{ {outer}
    ROOT y = {result} fusion({arguments}), kind=kLoop, calls=f }}"""
    return HloModule.parse(text).entry.root


FUSIONS: dict[str, tuple[str, list[str], str]] = {
    "dot": (
        """
        t = f32[8,6] transpose(p1), dimensions={1,0}
        d = f32[4,6] dot(p0, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT n = f32[4,6] negate(d)""",
        ["f32[4,8]", "f32[6,8]"],
        "f32[4,6]",
    ),
    "dot of a reshape": (
        """
        r = f32[4,8] reshape(p0)
        ROOT d = f32[4,6] dot(r, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
        ["f32[4,2,4]", "f32[8,6]"],
        "f32[4,6]",
    ),
    "softmax": (
        """
        zero = f32[] constant(0)
        m = f32[2] reduce(p0, zero), dimensions={1}, to_apply=sum
        b = f32[2,5] broadcast(m), dimensions={0}
        s = f32[2,5] subtract(p0, b)
        e = f32[2,5] exponential(s)
        t = f32[2] reduce(e, zero), dimensions={1}, to_apply=sum
        c = f32[2,5] broadcast(t), dimensions={0}
        ROOT q = f32[2,5] divide(e, c)""",
        ["f32[2,5]"],
        "f32[2,5]",
    ),
    "results of two sizes": (
        """
        zero = f32[] constant(0)
        r = f32[4,2,3] reshape(p0)
        m = f32[2] reduce(r, zero), dimensions={0,2}, to_apply=sum
        n = f32[4,6] negate(p0)
        abs = f32[4,6] abs(p0)
        ROOT y = (f32[4,6], f32[2], f32[4,6]) tuple(n, m, abs)""",
        ["f32[4,6]"],
        "(f32[4,6], f32[2], f32[4,6])",
    ),
    "reshapes, a slice and a pad": (
        """
        flat = f32[48] reshape(p0)
        back = f32[8,6] reshape(flat)
        s = f32[4,3] slice(back), slice={[0:8:2], [1:4]}
        zero = f32[] constant(0)
        ROOT w = f32[6,4] pad(s, zero), padding=1_1x0_1""",
        ["f32[4,12]"],
        "f32[6,4]",
    ),
    "concatenation": (
        """
        c = f32[4,6] concatenate(p0, p1), dimensions={1}
        ROOT r = f32[24] reshape(c)""",
        ["f32[4,2]", "f32[4,4]"],
        "f32[24]",
    ),
    "a reversed and shifted row": (
        """
        v = f32[12] reverse(p0), dimensions={0}
        s = f32[8] slice(v), slice={[3:11]}
        ROOT r = f32[2,4] reshape(s)""",
        ["f32[12]"],
        "f32[2,4]",
    ),
    "windows": (
        "zero = f32[] constant(0)\nROOT w = f32[5] reduce-window(p0, zero), window={size=3 stride=2}, to_apply=sum",
        ["f32[11]"],
        "f32[5]",
    ),
    "a scalar": ("ROOT n = f32[] negate(p0)", ["f32[]"], "f32[]"),
}


def elements(found: IndexingMap, start: Sequence[int], sizes: Sequence[int]) -> frozenset[tuple[int, ...]]:
    """The elements that a map leads to from a tile, by evaluating it at every point. Runtime variables have their lower
    bounds."""
    used = found.used_variables()
    tile = [
        (first, size) if dim(d) in used else (0, 1) for d, (first, size) in enumerate(zip(start, sizes, strict=True))
    ]
    return _elements(found, tuple(tile))


@lru_cache
def _elements(found: IndexingMap, tile: tuple[tuple[int, int], ...]) -> frozenset[tuple[int, ...]]:
    axes = [
        range(max(first, v.bounds.lower), min(first + size, v.bounds.upper + 1))
        for (first, size), v in zip(tile, found.dims, strict=True)
    ]
    axes += [range(v.bounds.lower, v.bounds.upper + 1) for v in found.ranges]
    axes += [range(v.bounds.lower, v.bounds.lower + 1) for v in found.runtime]
    points = list(product(*axes))
    if not points:
        return frozenset()
    values, inside = found.evaluate_batch(points)
    return frozenset([tuple(row) for row, kept in zip(values.tolist(), inside.tolist(), strict=True) if kept])


def of_box(box: TileBox) -> set[tuple[int, ...]]:
    return set(
        product(*[[offset + k * stride for k in range(size)] for offset, size, stride in zip(*box, strict=True)])
    )


def grid(tiling: FusionTiling, sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(product(*[range(0, p.size, size) for p, size in zip(tiling.parameters, sizes, strict=True)]))


@pytest.mark.parametrize("name", FUSIONS)
def test_tiles_of_valid_sizes_are_what_the_maps_lead_to(name: str) -> None:
    tiling = tile_fusion(fusion_of(*FUSIONS[name]))
    assert not tiling.untiled
    valid = list(tiling.sizes())
    assert (1,) * len(tiling.parameters) in valid
    for sizes in valid:
        for start in grid(tiling, sizes):
            for tile, box in tiling.at(sizes, start):
                expected = elements(tile.indexing.map, start, sizes)
                assert box is not None, (tile.instruction.name, sizes, start)
                assert of_box(box) == expected, (tile.instruction.name, sizes, start)


def is_box(found: frozenset[tuple[int, ...]]) -> bool:
    """Whether the elements are all combinations of evenly spaced indices."""
    if not found:
        return True
    axes = [sorted(set(axis)) for axis in zip(*found, strict=True)]
    steps = [set(np.diff(axis).tolist()) for axis in axes]
    return all(len(step) < 2 for step in steps) and len(found) == int(np.prod([len(axis) for axis in axes], dtype=int))


@pytest.mark.parametrize("name", [name for name in FUSIONS if name != "concatenation"])
def test_sizes_are_valid_if_and_only_if_all_tiles_are_boxes(name: str) -> None:
    """Every size, not only powers of two. Of a concatenation, a tile across the seam is two boxes, each cut off, of
    different rows."""
    tiling = tile_fusion(fusion_of(*FUSIONS[name]))
    for sizes in product(*[range(1, p.size + 1) for p in tiling.parameters]):
        boxes = all(
            is_box(elements(tile.indexing.map, start, sizes)) for start in grid(tiling, sizes) for tile in tiling.tiles
        )
        assert tiling.valid(sizes) == boxes, sizes
        if boxes:
            assert tiling.constraints.hold(partial(value, sizes)), sizes


def value(sizes: tuple[int, ...], expr: Expr) -> int:
    answer = IndexingMap.from_sizes([size + 1 for size in sizes], [], [expr]).evaluate(sizes)
    assert answer is not None
    return answer[0]


@pytest.mark.parametrize("name", FUSIONS)
def test_all_blocks_together_are_all_that_is_read(name: str) -> None:
    """The tiles of a result's tile, over all blocks of what is summed over, against the maps from the result alone."""
    fusion = fusion_of(*FUSIONS[name])
    tiling = tile_fusion(fusion)
    root = fusion.called_computations[0].root
    whole = tuple(p.size for p in tiling.parameters)
    read: dict[tuple[HloInstruction, int], set[tuple[int, ...]]] = {}
    for output in range(len(tiling.results)):
        for ancestor, accesses in indexing.output_to_ancestors(root, output).items():
            for access in accesses:
                found = access.map
                everything = elements(found, (0,) * len(found.dims), tuple(v.bounds.upper + 1 for v in found.dims))
                read.setdefault((ancestor, access.leaf), set()).update(everything)
    tiled: dict[tuple[HloInstruction, int], set[tuple[int, ...]]] = {}
    for tile in tiling.tiles:
        tiled.setdefault((tile.instruction, tile.leaf), set()).update(
            elements(tile.indexing.map, (0,) * len(whole), whole)
        )
    assert tiled == {key: found for key, found in read.items() if key[0].opcode not in ("tuple", "get-tuple-element")}


def sizes_of(tiles: tuple[InstructionTile, ...]) -> list[str]:
    assert all(tile.symbolic is not None for tile in tiles)
    return [str(tile.symbolic.sizes) for tile in tiles if tile.symbolic is not None]


def test_a_dot_has_a_parameter_for_what_it_contracts() -> None:
    tiling = tile_fusion(fusion_of(*FUSIONS["dot"]))
    assert [str(p) for p in tiling.parameters] == [
        "output dimension 0 of n, size 4",
        "output dimension 1 of n, size 6",
        "contracted dimension 1 of d, size 8",
    ]
    assert [(tile.instruction.name, sizes_of((tile,))) for tile in tiling.tiles] == [
        ("n", ["(d0, d1)"]),
        ("d", ["(d0, d1)"]),
        ("t", ["(d2, d1)"]),
        ("p1", ["(d1, d2)"]),
        ("p0", ["(d0, d2)"]),
    ]
    assert tiling.constraints.is_always
    assert len(list(tiling.sizes())) == 3 * 4 * 4
    assert set(tiling.sizes(2)) == set(product([1, 2], repeat=3))
    boxes = {placed.tile.instruction.name: placed.box for placed in tiling.at([2, 6, 4], [2, 0, 4])}
    assert boxes["p0"] == TileBox((2, 4), (2, 4), (1, 1))
    assert boxes["p1"] == TileBox((0, 4), (6, 4), (1, 1))


def test_an_instruction_that_is_read_in_two_ways_has_two_tiles() -> None:
    tiling = tile_fusion(fusion_of(*FUSIONS["softmax"]))
    assert [p.kind for p in tiling.parameters] == ["output", "output", "reduced", "reduced"]
    assert sizes_of(tiling.tiles_of("e")) == ["(d0, d1)", "(d0, d2)"]
    assert sizes_of(tiling.tiles_of("p0")) == ["(d0, d1)", "(d0, d2)", "(d0, d3)"]


def test_results_of_equal_sizes_share_parameters() -> None:
    tiling = tile_fusion(fusion_of(*FUSIONS["results of two sizes"]))
    assert [(p.kind, p.instruction.name) for p in tiling.parameters] == [
        ("output", "n"),
        ("output", "n"),
        ("output", "m"),
        ("reduced", "m"),
        ("reduced", "m"),
    ]
    assert [(instruction.name, leaf) for instruction, leaf in tiling.results] == [("n", 0), ("m", 0), ("abs", 0)]
    assert str(tiling).startswith("d0: output dimension 0 of n, size 4\n")


def test_one_instruction_and_a_computation() -> None:
    fusion = fusion_of(*FUSIONS["dot"])
    dot = fusion.called_computations[0].instructions[-2]
    assert [tile.instruction.name for tile in tile_fusion(dot).tiles] == ["d", "p0", "t"]
    assert str(tile_fusion(fusion.called_computations[0])) == str(tile_fusion(fusion))


def test_offsets_that_are_computed_at_run_time() -> None:
    body = "ROOT s = f32[2,4] dynamic-slice(p0, p1, p1), dynamic_slice_sizes={2,4}"
    tiling = tile_fusion(fusion_of(body, ["f32[8,8]", "s32[]"], "f32[2,4]"))
    (tile,) = tiling.tiles_of("p0")
    assert [producer.instruction.name for producer in tile.indexing.runtime] == ["p1", "p1"]
    assert tiling.valid([2, 2])
    assert [placed.box for placed in tiling.at([2, 2], [0, 2]) if placed.tile is tile] == [
        TileBox((0, 2), (2, 2), (1, 1))
    ]


def test_no_sizes_are_valid_where_an_instruction_has_no_tile() -> None:
    """The diagonal of a matrix is not a box."""
    body = """
    i = s32[4,2] iota(), iota_dimension=0
    ROOT g = f32[4] gather(p0, i), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}"""
    tiling = tile_fusion(fusion_of(body, ["f32[4,4]"], "f32[4]"))
    if tiling.untiled:
        assert not tiling.valid([4])
        assert tiling.constraints.is_unsatisfiable
        assert not list(tiling.sizes())
    else:
        assert not tiling.valid([4])
        assert tiling.valid([1])


@pytest.mark.parametrize(
    ("sizes", "start", "message"),
    [
        ([4, 6], None, "2 sizes for 3 parameters"),
        ([4, 6, 9], None, "a tile has size 9 along parameter 2: contracted dimension 1 of d, size 8"),
        ([0, 6, 8], None, "a tile has size 0 along parameter 0"),
        ([4, 6, 8], [0, 0], "2 starts for 3 parameters"),
        ([4, 6, 8], [4, 0, 0], "the tile starts at 4 of parameter 0"),
        ([4, 6, "x"], None, "sizes are integers"),
    ],
)
def test_wrong_sizes(sizes: list[int], start: list[int] | None, message: str) -> None:
    tiling = tile_fusion(fusion_of(*FUSIONS["dot"]))
    with pytest.raises(InvalidArgumentError, match=message):
        tiling.at(sizes, start)
    with pytest.raises(InvalidArgumentError, match="at least one element"):
        tiling.sizes(0)


def test_what_is_no_fusion() -> None:
    with pytest.raises(InvalidArgumentError, match="a fusion or computation, not str"):
        tile_fusion("f")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidArgumentError, match="without a bound"):
        tile_fusion(fusion_of("ROOT n = f32[?] negate(p0)", ["f32[?]"], "f32[?]"))


def test_what_is_too_large_ends_with_an_error() -> None:
    """Each dot has a parameter, and a sum of an array in many orders a tile for each of them."""
    dots = [
        f"d{i + 1} = f32[2,2] dot(d{i}, p0), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}" for i in range(130)
    ]
    body = "d0 = f32[2,2] negate(p0)\n" + "\n".join([*dots[:-1], f"ROOT {dots[-1]}"])
    with pytest.raises(LimitExceededError, match="tile parameters: 132 is more than 128"):
        tile_fusion(fusion_of(body, ["f32[2,2]"], "f32[2,2]"))


def test_results_without_elements_or_arrays() -> None:
    empty = tile_fusion(fusion_of("ROOT n = f32[0,4] negate(p0)", ["f32[0,4]"], "f32[0,4]"))
    assert list(empty.sizes()) == [(1, 1), (1, 2), (1, 4)]
    assert next(box for _, box in empty.at([1, 4])) == TileBox((0, 0), (0, 0), (0, 0))
    nothing = tile_fusion(fusion_of("ROOT t = () tuple()", [], "()"))
    assert (nothing.parameters, nothing.tiles, list(nothing.sizes())) == ((), (), [()])
