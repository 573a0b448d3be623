"""multi_indices computes two numbers of an index in one int32 where they fit; what it gives is what multi_index
gives.
"""

from __future__ import annotations

import numpy as np
import pytest

from xlashape import Shape
from xlashape.shape import tiling
from xlashape.shape.tiling.floor_sums import index_sums

SHAPES = {
    "f32[7]{0:T(4)}": True,
    "f32[3,5]": True,
    "f32[3,5]{1,0:T(2,2)}": True,
    "bf16[5,3,9]{0,2,1:T(4,8)(2,1)}": True,
    "f32[2,3,4,5]{1,3,0,2:T(2,4)}": True,
    "s8[2,3,2,3,5]{4,3,2,1,0:T(*,2,4)}": True,
    "f32[32768,3]{0,1:T(8)}": True,  # the largest number is 2^15 - 1
    "f32[3,32768]{1,0:T(2,128)}": True,
    "f32[32769,3]{0,1:T(8)}": False,
    "f32[3,32767]{0,1:T(2,128)}": True,  # padded to 2^15
    "f32[3,32767]{1,0:T(2,129)}": False,  # padded beyond 2^15
    "f32[2,32768]{1,0:T(2,32768)(1,5)}": False,
}


@pytest.mark.parametrize(("text", "fits"), SHAPES.items())
def test_same_indices_as_of_one_position(text: str, fits: bool) -> None:
    shape = Shape.parse(text)
    elements = tiling.physical_elements(shape)
    assert index_sums(shape)[1].give_int16 is fits
    random = np.random.default_rng(0)
    some = np.unique([*random.integers(0, elements, min(elements, 3000)), 0, elements - 1])
    some = np.concatenate([some, np.arange(max(0, elements - 300), elements)])
    rows, is_element = tiling.multi_indices(shape, some)
    for position, row, inside in zip(some.tolist(), rows.tolist(), is_element.tolist(), strict=True):
        assert (tuple(row) if inside else None) == tiling.multi_index(shape, position)
        assert inside or row == [-1] * shape.rank


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.int32, np.uint16, ">i8"])
def test_positions_of_every_type_and_stride(kind: object) -> None:
    shape = Shape.parse("f32[2,3,5]{1,0,2:T(2,2)}")
    elements = tiling.physical_elements(shape)
    expected = tiling.multi_indices(shape, np.arange(elements))
    for positions in (np.arange(elements).astype(kind), np.arange(elements).repeat(3).astype(kind)[::3]):
        for found, right in zip(tiling.multi_indices(shape, positions), expected, strict=True):
            np.testing.assert_array_equal(found, right)
