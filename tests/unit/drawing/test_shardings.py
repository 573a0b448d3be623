"""Pictures of shardings: each block has the devices that hold it, as the map of the sharding says."""

import pytest

import xlashape as xs
from xlashape.drawing.marks.cells import Grid
from xlashape.errors import InvalidArgumentError

SHARDINGS = [
    "{devices=[2,4]<=[4,2]T(1,0)}",
    "{devices=[4,1,2]<=[8] last_tile_dim_replicate}",
    "{devices=[2,2]3,1,0,2}",
    "{mesh['x'=2,'y'=2], [{'y'}, {'x'}]}",
]


@pytest.mark.parametrize("text", SHARDINGS)
def test_blocks_have_their_devices(text: str):
    shape = xs.Shape.parse("f32[16,8]{1,0:T(2,4)}")
    scene = xs.draw(text, shape).scene
    grid = scene.bands[0][0]
    assert isinstance(grid, Grid)
    sharding = xs.sharding.of(text)
    rows, columns = sharding.counts_for(shape)
    assert (len(grid.cells), len(grid.cells[0])) == (rows, columns)
    part = xs.sharding.shard_shape(shape, text).dimensions
    for row, cells in enumerate(grid.cells):
        for column, cell in enumerate(cells):
            assert cell is not None
            first = row * part[0], column * part[1]
            assert cell.label == ", ".join(map(str, xs.sharding.devices_of(shape, text, first) or ()))
            assert cell.tip.startswith(f"[{first[0]}:{first[0] + part[0]}, {first[1]}:{first[1] + part[1]}] on device")
    assert len(scene.bands) > 1  # the layout of a part


def test_other_dimensions_are_named():
    scene = xs.draw("{devices=[2,2,2]<=[8]}", "f32[4,4,4]").scene
    assert isinstance(scene.bands[0][0], Grid)
    assert scene.bands[0][0].caption == "The first blocks along d2."


@pytest.mark.parametrize("shape", ["(f32[4])", "f32[<=4,2]", "f32[4]"])
def test_no_picture(shape: str):
    with pytest.raises(InvalidArgumentError):
        xs.draw("{devices=[2,2]<=[4]}", shape).scene  # noqa: B018 - it is made when it is asked for
