"""Bitcasts of tiled arrays whose tiles keep the order of elements: the texts are those of jaxlib 0.12.0.1."""

from __future__ import annotations

import pytest

from xlashape import indexing
from xlashape.hlo import HloModule


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (
            "f32[1,16,8]{2,1,0:T(4)}",
            "f32[128]{0:T(2)}",
            "(d0) -> (0, d0 / 8, d0 mod 8), domain: d0 in [0, 127]",
        ),
        (
            "f32[16,128]{1,0:T(8,128)}",
            "f32[2,8,128]{2,1,0:T(8,128)}",
            "(d0, d1, d2) -> (d0 * 8 + d1, d2), domain: d0 in [0, 1], d1 in [0, 7], d2 in [0, 127]",
        ),
    ],
)
def test_digits_of_a_position_are_joined(source: str, target: str, expected: str) -> None:
    text = f"HloModule m\n\nENTRY e {{\n  p0 = {source} parameter(0)\n  ROOT root = {target} bitcast(p0)\n}}\n"
    (answer,) = indexing.output_to_input(HloModule.parse(text).instruction("root"))
    assert answer.to_text() == expected
