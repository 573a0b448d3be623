"""Elements side by side in bytes, against arithmetic on one long integer."""

from __future__ import annotations

import numpy as np
import pytest

from xlashape.shape.tiling import buffers as packed_bits
from xlashape.shape.tiling.buffers import pack_bits, unpack_bits


@pytest.mark.parametrize("piece", [1, 2, 5, 1 << 15])
@pytest.mark.parametrize("bits", range(1, 8))
def test_against_one_long_integer(bits: int, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_bits, "_PIECE", piece)
    rng = np.random.default_rng(bits)
    for count in [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 63, 64, 65, 200]:
        elements = rng.integers(0, 256, count, np.uint8)
        for value_bits in {1, bits}:
            values = [int(value) & ((1 << value_bits) - 1) for value in elements]
            size = -(-count * bits // 8)
            packed = np.full(size, 0xAA, np.uint8)
            pack_bits(elements, bits, value_bits, packed)
            number = sum(value << (i * bits) for i, value in enumerate(values))
            assert packed.tobytes() == number.to_bytes(size, "little"), (count, value_bits)
            back = unpack_bits(packed, bits, count)
            assert back.dtype == np.uint8
            assert back.tolist() == values
        assert elements.flags.writeable
        full = unpack_bits(np.full(-(-count * bits // 8), 0xFF, np.uint8), bits, count)
        assert full.tolist() == [(1 << bits) - 1] * count
