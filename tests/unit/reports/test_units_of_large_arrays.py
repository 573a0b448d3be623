"""Units of memory are counted exactly where positions, counted in bits, are more than int64 can hold."""

import pytest

from xlashape import IndexingMap, Shape
from xlashape.reports.reads.units import _enumerated


@pytest.mark.parametrize(
    ("element", "first", "bits"), [("f64", (1 << 57) - 2, 64), ("f32", (1 << 58) - 2, 32), ("s4", (1 << 61) - 2, 4)]
)
@pytest.mark.parametrize("unit_bytes", [1, 64])
def test_positions_beyond_int64_in_bits(element: str, first: int, bits: int, unit_bytes: int) -> None:
    shape = Shape.parse(f"{element}[{first + 4}]{{0:E({bits})}}")
    reads = IndexingMap.parse(f"(d0) -> (d0 + {first}), domain: d0 in [0, 3]")
    units = {bit // (8 * unit_bytes) for bit in range(first * bits, (first + 4) * bits)}
    assert _enumerated(shape, (reads,), unit_bytes) == len(units)
