"""Where the maps differ from XLA's on purpose: each difference run in NumPy, beside the answer that XLA gives for the
same module.

XLA's answers are quoted from jaxlib 0.12.0.1; those of windows in the padding from jaxlib 0.10.2, since which XLA has
changed to the map given here. A row that stops failing for XLA's map is not a difference any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from dependence import Index, observed
from hlo_builder import Builder, one_op, window
from map_enumeration import elements

from xlashape import indexing
from xlashape.hlo import HloInstruction
from xlashape.shape.tiling import formula as tile_formula
from xlashape.symbolic import IndexingMap


class Difference(NamedTuple):
    root: HloInstruction
    run: Callable[..., Any]
    operand: int
    theirs: str
    """XLA's map."""
    backwards: bool = False
    """It leads from the operand to the result."""


def convolution(out: str, lhs: str, rhs: str, dims: dict[str, int], batch_groups: int = 1) -> HloInstruction:
    numbers = {
        "input_batch_dimension": 0, "input_spatial_dimensions": [1], "input_feature_dimension": 2,
        "kernel_spatial_dimensions": [0], "kernel_input_feature_dimension": 1, "kernel_output_feature_dimension": 2,
        "output_batch_dimension": 0, "output_spatial_dimensions": [1], "output_feature_dimension": 2,
    }  # fmt: skip
    return one_op(
        "convolution", out, [lhs, rhs], window=window(dims), convolution_dimension_numbers=numbers,
        feature_group_count=1, batch_group_count=batch_groups,
    )  # fmt: skip


def padded(x: np.ndarray, k: np.ndarray) -> np.ndarray:
    """A window of one element, with a row of padding on each side."""
    return np.pad(x[:, :, 0], ((0, 0), (1, 1)))[:, :, None] * k


def striding(x: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Three windows of three elements; the last lies in the padding."""
    rows = np.pad(x[0, :, 0], (0, 3)).reshape(3, 3)
    return (rows @ k[:, 0, 0]).reshape(1, 3, 1)


def grouped(x: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Two batch groups: the first two features belong to the first group, the others to the second."""
    return np.concatenate([x[:2] @ k[0, :, :2], x[2:] @ k[0, :, 2:]], axis=2)


def through_memory(root: HloInstruction) -> Callable[[np.ndarray], np.ndarray]:
    """A bitcast: elements keep their position in memory."""
    source, target = root.operands[0].shape, root.shape

    def run(x: np.ndarray) -> np.ndarray:
        memory = {tile_formula.physical_position(source, at): x[at] for at in np.ndindex(*source.dimensions)}
        out = np.zeros(target.dimensions)
        for at in np.ndindex(*target.dimensions):
            out[at] = memory[tile_formula.physical_position(target, at)]
        return out

    return run


TILED = one_op("bitcast", "f32[16]", ["f32[4,4]{1,0:T(2,2)}"])
SAME = "(d0, d1) -> (d0, d1), domain: d0 in [0, 2], d1 in [0, 1]"
DIFFERENCES = {
    "a window in the padding": Difference(
        convolution("f32[1,6,1]", "f32[1,4,1]", "f32[1,1,1]", {"size": 1, "low": 1, "high": 1}), padded, 0,
        "(d0, d1, d2) -> (0, d1 - 1, 0), domain: d0 in [0, 0], d1 in [0, 5], d2 in [0, 0]",
    ),
    "a window that lies in the padding altogether": Difference(
        convolution("f32[1,3,1]", "f32[1,6,1]", "f32[3,1,1]", {"size": 3, "stride": 3, "high": 3}), striding, 0,
        "(d0, d1, d2)[s0] -> (0, d1 * 3 + s0, 0), domain: d0 in [0, 0], d1 in [0, 2], d2 in [0, 0], s0 in [0, 2]",
    ),
    "batch groups": Difference(
        convolution("f32[2,3,4]", "f32[4,3,2]", "f32[1,2,4]", {"size": 1}, 2), grouped, 0,
        "(d0, d1, d2)[s0, s1] -> (s1 * 2 + d0, d1, s0), domain: d0 in [0, 1], d1 in [0, 2], d2 in [0, 3], s0 in [0, 1], s1 in [0, 1]",
    ),
    "a scalar bound of clamp": Difference(
        one_op("clamp", "f32[3,2]", ["f32[]", "f32[3,2]", "f32[]"]), lambda low, x, high: np.minimum(np.maximum(low, x), high), 0,
        SAME, True,
    ),
    "a scalar predicate": Difference(
        one_op("select", "f32[3,2]", ["pred[]", "f32[3,2]", "f32[3,2]"]), lambda p, x, y: np.where(p > 0.5, x, y), 0,
        SAME, True,
    ),
    "bits of a wider type": Difference(
        one_op("bitcast-convert", "s16[3,2,2]", ["s32[3,2]"]), lambda x: np.asarray(x, "<i4").view("<i2").reshape(3, 2, 2), 0,
        "(d0, d1, d2) -> (d0, d1, d2), domain: d0 in [0, 2], d1 in [0, 1], d2 in [0, 1]",
    ),
    "bits of a narrower type": Difference(
        one_op("bitcast-convert", "s32[3]", ["s16[3,2]"]), lambda x: np.asarray(x, "<i2").view("<i4").reshape(3), 0,
        "(d0) -> (d0), domain: d0 in [0, 2]",
    ),
    "places in a tiled layout": Difference(
        TILED, through_memory(TILED), 0, "(d0) -> (d0 / 4, d0 mod 4), domain: d0 in [0, 15]",
    ),
}  # fmt: skip


def draws(root: HloInstruction) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(4):
        values = []
        for operand in root.operands:
            dims, kind = operand.shape.dimensions, operand.shape.element_type
            values.append(rng.integers(0, 1 << 14, dims) if kind.is_integral else rng.random(dims))
        found.append(values)
    return found


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_difference(name: str) -> None:
    root, run, operand, theirs, backwards = DIFFERENCES[name]
    # Enough to change both halves of an integer.
    moves = lambda _, old: [old + 0x10001 if isinstance(old, np.integer) else v for v in (old + 0.37, 1 - old)]  # noqa: E731  # chosen between two
    if root.operands[0].shape.element_type.text == "s16":
        moves = lambda _, old: [old + 1]  # noqa: E731  # chosen between two
    seen = observed(run, draws(root), moves)[operand, 0]
    into, out = root.operands[operand].shape.dimensions, root.shape.dimensions
    read, written = indexing.output_to_input(root)[operand], indexing.input_to_output(root, operand)[0]
    expected = {index: seen.get(index, set()) for index in np.ndindex(*out)}
    assert {index: named(read, index) for index in expected} == expected
    back = {at: {index for index in expected if at in expected[index]} for at in np.ndindex(*into)}
    assert {at: named(written, at) for at in back} == back
    xla = indexing.OperandIndexing(IndexingMap.parse(theirs))
    if len(xla.map.dims) != len(into if backwards else out) or len(xla.map.results) != len(out if backwards else into):
        return  # of another rank than the array that it is to lead from or to
    assert {index: elements(xla, index) for index in (back if backwards else expected)} != (
        back if backwards else expected
    )


def named(found: Sequence[indexing.OperandIndexing], index: Index) -> set[Index]:
    return {element for one in found for element in elements(one, index)}


def test_an_offset_that_is_a_constant() -> None:
    """XLA leaves `rt0 in [0, 4]` and says that it is 7, which the operation clamps."""
    builder = Builder()
    source, offset = builder.parameter("f32[8]"), builder.constant("s32[]", [7])
    builder.op("dynamic-slice", "f32[4]", [source, offset], dynamic_slice_sizes=[4])
    read, _ = indexing.output_to_input(builder.root())
    x = np.arange(8)
    start = min(max(7, 0), 8 - 4)
    assert [read.map.evaluate((i,)) for i in range(4)] == [(n,) for n in x[start : start + 4]]
    assert read.runtime == ()


def test_producers_stand_in_the_order_of_their_variables() -> None:
    """Of a slice at j of a slice at i, XLA says that the wider variable is j: with real offsets that leads
    elsewhere."""
    inner = Builder("f")
    x, i, j = inner.parameter("f32[16]"), inner.parameter("s32[]"), inner.parameter("s32[]")
    first = inner.op("dynamic-slice", "f32[8]", [x, i], dynamic_slice_sizes=[8])
    inner.op("dynamic-slice", "f32[4]", [first, j], dynamic_slice_sizes=[4])
    builder = Builder()
    builder.op("fusion", "f32[4]", [builder.parameter(one) for one in ("f32[16]", "s32[]", "s32[]")], calls=[inner])
    root = builder.root()
    read = indexing.output_to_input(root)[0]
    _, i_, j_ = root.called_computations[0].parameters
    assert [producer.instruction for producer in read.runtime] == [i_, j_]
    values = {i_: np.array(7), j_: np.array(2)}
    expected = np.arange(16)[7:15][2:6]
    assert [elements(read[0], (k,), values) for k in range(4)] == [{(int(n),)} for n in expected]
    theirs = IndexingMap.parse("(d0){rt0, rt1} -> (d0 + rt0 + rt1), domain: d0 in [0, 3], rt0 in [0, 8], rt1 in [0, 4]")
    assert theirs.evaluate((0, 2, 7)) is None  # its variables: j = 2 first, then i = 7


def test_a_batch_of_gathers() -> None:
    """One slice of each row, at an offset of its own. XLA leaves the batch out and adds the row to the offset."""
    numbers = {
        "offset_dims": [1], "start_index_map": [1], "index_vector_dim": 1,
        "operand_batching_dims": [0], "start_indices_batching_dims": [0],
    }  # fmt: skip
    root = one_op(
        "gather", "s32[5,1]", ["s32[5,2]", "s64[5,1]"], gather_dimension_numbers=numbers, gather_slice_sizes=[1, 1]
    )
    (read,) = indexing.output_to_input(root)[0]
    offsets = np.array([[1], [0], [0], [1], [1]])
    table = np.arange(10).reshape(5, 2)
    result = np.take_along_axis(table, offsets, 1)
    indices = root.operands[1]
    for row in range(5):
        ((at, column),) = elements(read, (row, 0), {indices: offsets})
        assert table[at, column] == result[row, 0]
    theirs = IndexingMap.parse("(d0, d1){rt0} -> (0, d0 + rt0), domain: d0 in [0, 4], d1 in [0, 0], rt0 in [0, 1]")
    assert [theirs.evaluate((row, 0, int(offsets[row, 0]))) for row in (2, 4)] == [(0, 2), (0, 5)]  # of two columns


def test_a_scan_reads_what_came_before() -> None:
    """A cumulative sum. XLA's map leads to the element of the same index alone."""
    body = Builder("body")
    total = body.op("add", "f32[]", [body.parameter("f32[]"), body.parameter("f32[]")])
    body.op("tuple", "(f32[], f32[])", [total, total])
    builder = Builder()
    operands = [builder.parameter("f32[4]"), builder.parameter("f32[]")]
    builder.op("scan", "(f32[4], f32[])", operands, calls=[body], dimensions=[0], num_carries=1)
    read = indexing.output_to_input(builder.root())[0]
    seen = observed(lambda x, first: np.cumsum(x) + first, [[np.arange(4.0), np.array(0.0)]])[0, 0]
    assert {(i,): named(read, (i,)) for i in range(4)} == seen
    theirs = indexing.OperandIndexing(IndexingMap.parse("(d0) -> (d0), domain: d0 in [0, 3]"))
    assert elements(theirs, (2,)) == {(2,)} != seen[2,]


@pytest.mark.parametrize(
    ("dims", "out"),
    [
        ({"size": 3}, 6),
        ({"size": 3, "stride": 2, "low": 1, "high": 1}, 4),
        ({"size": 3, "base_dilation": 2, "window_dilation": 2}, 11),
    ],
)
def test_a_reversed_window_pairs_what_is_multiplied(dims: dict[str, int], out: int) -> None:
    """Equal values of the range variables name an element of the input and the element of the kernel that it is
    multiplied with.

    So in jaxlib 0.12.0.1; in 0.10.2 the kernel's map was that of a window that is not reversed.
    """
    stated = window(dims | {"reversal": 1})
    numbers = {
        "input_batch_dimension": 0, "input_spatial_dimensions": [1], "input_feature_dimension": 2,
        "kernel_spatial_dimensions": [0], "kernel_input_feature_dimension": 1, "kernel_output_feature_dimension": 2,
        "output_batch_dimension": 0, "output_spatial_dimensions": [1], "output_feature_dimension": 2,
    }  # fmt: skip
    root = one_op(
        "convolution", f"f32[1,{out},1]", ["f32[1,8,2]", "f32[3,2,1]"], window=stated,
        convolution_dimension_numbers=numbers, feature_group_count=1, batch_group_count=1,
    )  # fmt: skip
    (lhs,), (rhs,) = indexing.output_to_input(root)
    assert str(rhs.map) == (
        f"(d0, d1, d2)[s0, s1] -> (-s0 + 2, s1, 0), domain: "
        f"d0 in [0, 0], d1 in [0, {out - 1}], d2 in [0, 0], s0 in [0, 2], s1 in [0, 1]"
    )
    rng = np.random.default_rng(0)
    x, kernel = rng.random((1, 8, 2)), rng.random((3, 2, 1))
    base, dilation = dims.get("base_dilation", 1), dims.get("window_dilation", 1)
    wide = np.zeros((8 - 1) * base + 1 + dims.get("low", 0) + dims.get("high", 0))
    for position in range(out):
        expected = sum(
            wide_with(wide, x[0, :, f], base, dims.get("low", 0))[position * dims.get("stride", 1) + k * dilation]
            * kernel[2 - k, f, 0]
            for k in range(3)
            for f in range(2)
        )
        found = 0.0
        for s0, s1 in np.ndindex(3, 2):
            at = lhs.map.evaluate((0, position, 0, s0, s1))
            if at is not None:
                found += x[at] * kernel[rhs.map.evaluate((0, position, 0, s0, s1))]
        assert found == pytest.approx(expected)


def wide_with(wide: np.ndarray, line: np.ndarray, base: int, low: int) -> np.ndarray:
    """A line with its padding and the holes of a base dilation."""
    filled = wide.copy()
    filled[low : low + (len(line) - 1) * base + 1 : base] = line
    return filled
