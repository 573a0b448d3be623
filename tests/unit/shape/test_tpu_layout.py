"""Default layouts of TPUs against those that libtpu's compiler gave (`tests/support/collect_tpu_layouts.py`)."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlashape.errors import InvalidArgumentError, InvalidShapeError
from xlashape.shape import Layout, Shape, tiling, tpu_layout
from xlashape.shape.parts.target import TPU_GENERATIONS

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "tpu_layouts.jsonl"
MADE_BY, *ROWS = [json.loads(line) for line in VECTORS.read_text(encoding="utf-8").splitlines()]


def test_the_vectors_are_of_all_generations() -> None:
    assert {generation for row in ROWS for generation in row["generations"]} == set(TPU_GENERATIONS)
    assert sum([len(row["layouts"]) for row in ROWS]) > 5_000
    assert MADE_BY["libtpu"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row["generations"]))
def test_order_and_tiles_are_those_of_compiled_programs(row) -> None:
    for text in row["layouts"]:
        shape = Shape.parse(text)
        bare = Shape.array(shape.element_type, shape.dimensions)
        in_order = shape.replace(layout=Layout(shape.layout.minor_to_major))
        for generation in row["generations"]:
            assert str(tpu_layout.default_shape(bare, f"tpu-{generation}")) == text
            # The tiles follow from the order, even if the caller chose it.
            assert str(tpu_layout.default_shape(in_order, f"tpu-{generation}", keep_order=True)) == text
            if 0 not in shape.dimensions:
                assert tpu_layout.has_tpu_tiles(shape)
        if "v4" in row["generations"]:
            assert str(tpu_layout.default_shape(bare, "tpu")) == text


@given(
    st.sampled_from("f32 bf16 s8 pred s4 c64 f64 f8e4m3fn".split()),
    st.lists(st.integers(1, 40), max_size=4),
    st.sampled_from([f"tpu-{generation}" for generation in TPU_GENERATIONS]),
)
def test_no_order_makes_a_smaller_buffer(element_type, dimensions, target) -> None:
    """The sizes of all orders are counted by tiling. Tall tiles do not pad, so they change no size."""
    shape = tpu_layout.default_shape(Shape.array(element_type, dimensions), target)
    chosen = tiling.physical_bytes(shape)
    for order in permutations(range(len(dimensions))):
        other = tpu_layout.default_shape(shape.replace(layout=Layout(order)), target, keep_order=True)
        assert other.layout.minor_to_major == order
        assert tiling.physical_bytes(other) >= chosen


def test_what_is_kept_and_what_is_refused() -> None:
    kept = "f32[20,300]{0,1:T(2,128)S(1)}"
    assert str(tpu_layout.default_shape(Shape.parse(kept))) == kept
    assert str(tpu_layout.default_shape(Shape.parse("f32[20,300]{0,1:S(1)}"))) == "f32[20,300]{0,1:T(8,128)S(1)}"
    buffer = tpu_layout.default_shape(Shape.buffer(Shape.array("f32", (20, 300))))
    assert str(buffer) == "b(f32[20,300]{1,0:T(8,128)})"
    assert str(tpu_layout.default_shape(Shape.parse("f32[<=20,300]"))) == "f32[<=20,300]{1,0:T(8,128)}"
    with pytest.raises(InvalidArgumentError, match="expected a TPU, found cpu"):
        tpu_layout.default_shape(Shape.parse("f32[2]"), "cpu")
    with pytest.raises(InvalidArgumentError, match="there are cpu, gpu, tpu, tpu-v2"):
        tpu_layout.default_shape(Shape.parse("f32[2]"), "tpu-v1")
    with pytest.raises(InvalidShapeError, match="has an unbounded dimension, and so no tiles"):
        tpu_layout.default_shape(Shape.parse("f32[?,2]"))
    with pytest.raises(InvalidShapeError, match="expected an array"):
        tpu_layout.default_shape(Shape.parse("(f32[2])"))
