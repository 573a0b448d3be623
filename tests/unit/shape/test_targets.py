"""The bytes of buffers on kinds of devices, tiles that move nothing, and splits."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from xlashape.errors import InvalidArgumentError, InvalidShapeError, LimitExceededError, UnsupportedError
from xlashape.reports.why import why
from xlashape.shape import COMBINE, Layout, Shape, SplitConfig, Target, Tile, layout_util, shape_util, tiling

VECTORS = Path(__file__).resolve().parents[2] / "vectors"

# The two dynamic ones are sizes in a buffer assignment that TensorFlow 2.21 wrote for a CPU; without a target, jaxlib
# 0.12.0.1's ByteSizeOf.
SIZES = [
    ("s64[<=4,1]", None, 32),
    ("s64[<=4,1]", "cpu", 40),
    ("s64[<=4,1]", "gpu", 40),
    ("f32[<=4]", "cpu", 20),
    ("f32[4]", "cpu", 16),
    ("b(f32[<=4])", "cpu", 20),
    ("(f32[<=4], s32[])", None, 16),
    ("(f32[<=4], s32[])", "cpu", 16),
    ("()", "cpu", 0),
    ("token[]", "tpu", 0),
    ("opaque[]", "gpu", 8),
    ("f32[3,5]{1,0:T(8,128)}", None, 60),
    ("f32[3,5]{1,0:T(8,128)}", "cpu", 60),
    ("f32[3,5]{1,0:T(8,128)}", "tpu", 4096),
    ("f32[<=4]{0:T(128)M(8)}", "tpu", 520),
    ("f32[]{:T(128)}", "tpu", 512),
    ("f32[]", "tpu", 4096),
    ("pred[]", "tpu-v6e", 1024),
    ("u32[]{:S(6)}", "tpu-v5e", 4096),
    ("u32[]{:S(2)}", "tpu-v5e", 4),
    ("u32[]{:S(8)}", "tpu-7x", 4),
    ("u32[]{:T(128)S(2)}", "tpu-v4", 4),
    ("f32[]", "cpu", 4),
    ("(f32[3], s32[])", "tpu", 512),
    ("(f32[3], s32[])", "tpu-v4", 512),
    ("(f32[3], s32[])", "tpu-v5e", 512),
    ("(f32[3], s32[])", "tpu-v5p", 32),
    (f"({', '.join(['s32[]'] * 9)})", "tpu-v6e", 64),
    (f"({', '.join(['s32[]'] * 128)})", "tpu-v5e", 512),
    (f"({', '.join(['s32[]'] * 129)})", "tpu-v5e", 1024),
    (f"({', '.join(['s32[]'] * 129)})", "tpu-7x", 544),
    ("()", "tpu", 0),
    ("()", "tpu-v6e", 0),
]


@pytest.mark.parametrize(("text", "target", "size"), SIZES)
def test_bytes_of_a_buffer_on_a_target(text: str, target: str | None, size: int) -> None:
    assert shape_util.byte_size_of(Shape.parse(text), target=target) == size


def test_buffers_of_nested_tuples() -> None:
    shape = Shape.parse("(s32[], (f32[2]{0:T(128)}, pred[]), token[])")
    assert [(tuple(b.shape_index), b.byte_size) for b in shape_util.buffers_of(shape, "tpu")] == [
        ((), 512),
        ((0,), 4096),
        ((1,), 512),
        ((1, 0), 512),
        ((1, 1), 1024),
        ((2,), 0),
    ]
    assert [b.byte_size for b in shape_util.buffers_of(shape, "cpu")] == [24, 4, 16, 8, 1, 0]
    assert shape_util.byte_size_of(shape, 4, target=Target("small")) == 12


def test_unknown_targets_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="there are cpu, gpu, tpu"):
        shape_util.byte_size_of(Shape.parse("f32[]"), target="ipu")


def test_untiled_is_what_lies_as_without_tiles() -> None:
    """Compared with the positions of all elements of small arrays."""
    r = random.Random(1)
    counts = [0, 0]
    for _ in range(3000):
        sizes = [r.choice([1, 2, 3, 4, 6]) for _ in range(r.randint(1, 3))]
        tiles = [
            Tile((*(r.choice([1, 1, 2, 3, 4, COMBINE]) for _ in range(r.randint(0, 3))), r.choice([1, 2, 3, 4])))
            for _ in range(r.randint(0, 3))
        ]
        shape = Shape.array("f32", sizes, Layout(range(len(sizes) - 1, -1, -1), tiles=tiles))
        try:
            rows = list(itertools.product(*map(range, sizes)))
            positions = tiling.linear_indices(shape, rows)
        except (InvalidShapeError, UnsupportedError, LimitExceededError):
            continue
        count = math.prod(sizes)
        expected = tiling.physical_elements(shape) == count and positions.tolist() == list(range(count))
        assert layout_util.is_untiled_layout(tiles, sizes) == expected, shape
        counts[expected] += 1
    assert min(counts) > 100


def test_untiled_is_what_xla_says_where_each_tile_alone_decides() -> None:
    """Answers of XLA's function in libtpu. Where it says no of what lies as without tiles, the array is empty or tiles
    undo each other.
    """
    differing: list[object] = []
    with (VECTORS / "untiled.jsonl").open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            said = layout_util.is_untiled_layout(row["tiles"], row["sizes"])
            if said != row["xla"]:
                assert said, row
                if 0 not in row["sizes"]:
                    differing.append((row["tiles"], row["sizes"]))
    assert differing == [([[2, 1], [2, 1, 1]], [2, 2]), ([[2, 2], [2, 1, 2]], [24, 4])]


@pytest.mark.parametrize(
    ("tiles", "sizes", "untiled"),
    [
        ([], (3, 5), True),
        ([(128,)], (256,), True),
        ([(128,)], (3,), False),
        ([(8, 128)], (1 << 40, 128), True),
        ([(8, 128), (2, 1)], (64, 128), False),
        ([(8, 128)], (0, 3), True),
        ([(1,)], (), True),
        ([(2, 2), (1, 3, 1, 2)], (4, 6), True),
    ],
)
def test_untiled_layouts(tiles: Iterable[Iterable[int]], sizes: tuple[int, ...], untiled: bool) -> None:
    assert layout_util.is_untiled_layout(tiles, sizes) is untiled


def test_untiled_refuses_negative_sizes() -> None:
    with pytest.raises(InvalidArgumentError):
        layout_util.is_untiled_layout([], (-1,))


def test_the_only_split() -> None:
    assert layout_util.get_split_config(Shape.parse("f32[8,4]{0,1:SC(0:3)}")) == SplitConfig(0, (3,))
    assert layout_util.get_split_config(Layout.parse("{0,1:SC(0:3)}"), 1) == SplitConfig(0, (3,))
    assert layout_util.get_split_config(Shape.parse("f32[8]")) is None
    with pytest.raises(InvalidShapeError, match="says which"):
        layout_util.get_split_config(Shape.parse("f32[8,4]{0,1:SC(0:3)(1:2)}"))


def test_a_step_of_0_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="would have no end"):
        shape_util.for_each_index(Shape.parse("f32[2,2]"), (0, 0), (2, 2), (0, 1))


def test_scalars_in_tuples_take_what_they_take_alone() -> None:
    """What libtpu's buffer assignments have: tiled ones their tile, semaphores 4 bytes, the others the room of 1,024
    elements.
    """
    shape = Shape.parse("(s32[]{:T(128)}, u32[]{:S(2)}, u32[]{:T(128)S(8)}, f32[], pred[])")
    assert [b.byte_size for b in shape_util.buffers_of(shape, "tpu-v5e")] == [512, 512, 4, 4, 4096, 1024]
    assert why("(s32[]{:T(128)}, s32[]{:T(128)})", target="tpu-v5e").buffer_bytes == 512 + 2 * 512
    assert why("u32[]{:S(6)}", target="tpu-v5e").buffer_bytes == 4096
    memory = why("(u32[]{:S(2)}, f32[8]{0:T(128)})", target="tpu-v6e")
    assert memory.buffer_bytes == 32 + 4 + 512
    assert sum([cause.bytes for cause in memory.causes]) == memory.overhead_bytes
