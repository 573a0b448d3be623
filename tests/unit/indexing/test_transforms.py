"""Transforms of lines, random bits and bitcasts through memory, judged by what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dependence import compare, observed
from hlo_builder import one_op

from xlashape import indexing
from xlashape.errors import InvalidModuleError
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.shape.tiling import formula as tile_formula

# -- fft
# ----------------------------------------------------------------------------------------------------

FFTS = {
    "fft": (xla.FFT, "c64[2,3,4]", "c64[2,3,4]", lambda x: np.fft.fftn(x, axes=(1, 2))),
    "ifft": (xla.IFFT, "c64[2,3,4]", "c64[2,3,4]", lambda x: np.fft.ifftn(x, axes=(1, 2))),
    "rfft": (xla.RFFT, "f32[2,3,4]", "c64[2,3,3]", lambda x: np.fft.rfftn(x, axes=(1, 2))),
    "irfft": (xla.IRFFT, "c64[2,3,3]", "f32[2,3,4]", lambda x: np.fft.irfftn(x, s=(3, 4), axes=(1, 2))),
    "rfft of odd length": (xla.RFFT, "f32[2,3,5]", "c64[2,3,3]", lambda x: np.fft.rfftn(x, axes=(1, 2))),
    "irfft of odd length": (xla.IRFFT, "c64[2,3,3]", "f32[2,3,5]", lambda x: np.fft.irfftn(x, s=(3, 5), axes=(1, 2))),
}


@pytest.mark.parametrize("name", FFTS)
def test_fft(name: str) -> None:
    kind, source, out, run = FFTS[name]
    last = int((out if kind == xla.IRFFT else source)[:-1].rsplit(",", 1)[1])
    root = one_op("fft", out, [source], fft_type=kind, fft_length=[3, last])
    dims = root.operands[0].shape.dimensions
    rng = np.random.default_rng(0)
    is_complex = source[0] == "c"
    # Of a conjugate pair the real part alone does not reach every value.
    moved = 0.37 + 0.21j if is_complex else 0.37
    draw = rng.random(dims) + (1j * rng.random(dims) if is_complex else 0)
    compare(root, observed(run, [[draw]], lambda _, old: [old + moved]))


@pytest.mark.parametrize(
    ("kind", "source", "out", "lengths"),
    [
        (xla.FFT, "c64[4]", "c64[4]", [3]),
        (xla.FFT, "c64[4]", "c64[3]", [4]),
        (xla.FFT, "c64[4]", "c64[4]", [4, 4]),
        (xla.RFFT, "f32[4]", "c64[4]", [4]),
        (xla.IRFFT, "c64[4]", "f32[4]", [4]),
        (xla.IRFFT, "c64[3]", "f32[6]", [6]),
        (xla.FFT, "c64[2,4]", "c64[3,4]", [4]),
    ],
)
def test_an_fft_that_does_not_fit(kind: int, source: str, out: str, lengths: list[int]) -> None:
    root = one_op("fft", out, [source], fft_type=kind, fft_length=lengths)
    for ask in (indexing.output_to_input, indexing.input_to_output):
        with pytest.raises(InvalidModuleError, match=root.name):
            ask(root)


# -- random bits
# ----------------------------------------------------------------------------------------------------


def threefry(key: int, counter: int) -> int:
    """Threefry-2x32 with 20 rounds."""
    mask = (1 << 32) - 1
    keys = [key & mask, key >> 32]
    keys.append(keys[0] ^ keys[1] ^ 0x1BD11BDA)
    a, b = (counter + keys[0]) & mask, ((counter >> 32) + keys[1]) & mask
    for turn in range(5):
        for shift in ((13, 15, 26, 6), (17, 29, 16, 24))[turn % 2]:
            a = (a + b) & mask
            b = a ^ ((b << shift | b >> (32 - shift)) & mask)
        a = (a + keys[(turn + 1) % 3]) & mask
        b = (b + keys[(turn + 2) % 3] + turn + 1) & mask
    return a << 32 | b


def random_bits(state: np.ndarray) -> list[np.ndarray]:
    """The new state, whose counter is increased by the number of blocks, and the bits of five blocks."""
    key, *counter = [int(n) for n in state]
    at = sum(n << 64 * i for i, n in enumerate(counter))
    mixed = [threefry(key, ((at + i) ^ (at + i) >> 64) & ((1 << 64) - 1)) for i in range(5)]
    following = at + 5
    new = [key, *((following >> 64 * i) & ((1 << 64) - 1) for i in range(len(counter)))]
    # As numbers that can be told apart by their difference.
    return [np.array([n % 1000003 for n in new], dtype=float), np.array([n % 1000003 for n in mixed], dtype=float)]


@pytest.mark.parametrize(("algorithm", "size"), [(xla.RNG_THREE_FRY, 2), (xla.RNG_PHILOX, 2), (xla.RNG_PHILOX, 3)])
def test_random_bits(algorithm: int, size: int) -> None:
    """Key and counter were seen to be so in XLA's own generators; a counter of two words carries from the first to the
    second."""
    root = one_op("rng-bit-generator", f"(u64[{size}], u32[5])", [f"u64[{size}]"], rng_algorithm=algorithm)
    states = [np.array([12345, 7, 3][:size], dtype=object), np.array([99, (1 << 64) - 7, 3][:size], dtype=object)]
    compare(root, observed(random_bits, [[state] for state in states], lambda _, old: [old + 1, old + 4, old + 1000]))
    for output in range(2):
        assert indexing.output_to_input(root, output)[0].knowledge is indexing.Knowledge.EXACT


def test_random_bits_of_an_unspecified_algorithm() -> None:
    root = one_op("rng-bit-generator", "(u64[4], u32[5])", ["u64[4]"])
    for output in range(2):
        assert indexing.output_to_input(root, output)[0].knowledge is indexing.Knowledge.EVERY_ELEMENT
    for fields in ({"rng_algorithm": xla.RNG_PHILOX}, {"rng_algorithm": xla.RNG_THREE_FRY}):
        bad = one_op("rng-bit-generator", "(u64[4], u32[5])", ["u64[4]"], **fields)
        for ask in (indexing.output_to_input, indexing.input_to_output):
            with pytest.raises(InvalidModuleError, match=bad.name):
                ask(bad)


# -- bitcasts through memory
# ----------------------------------------------------------------------------------------------------


def places(shape: Shape) -> dict[int, tuple[int, ...]]:
    """By position in memory, in elements."""
    return {int(tile_formula.physical_position(shape, at)): at for at in np.ndindex(*shape.dimensions)}


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("f32[4,4]{1,0:T(2,2)}", "f32[16]"),
        ("f32[3,5]{1,0:T(2,2)}", "f32[24]"),
        ("f32[24]", "f32[3,5]{1,0:T(2,2)}"),
        ("f32[3,5]{1,0:T(2,2)}", "f32[5,3]{0,1:T(2,2)}"),
        ("f32[4,4]{1,0:T(2,2)}", "s16[32]"),
        ("f32[3,5]{1,0:T(2,2)}", "s8[96]"),
        ("s16[8,6]{1,0:T(2,4)}", "f32[4,4,2]{2,1,0:T(2,2)}"),
        ("s8[5,7]{0,1:T(4,2)}", "s16[64]"),
        ("bf16[6,6]{1,0:T(4,4)(2,1)}", "u32[32]"),
        ("f32[7]{0:L(4)}", "s16[16]"),
    ],
)
def test_bitcasts_of_tiled_layouts(source: str, target: str) -> None:
    root = one_op("bitcast", target, [source])
    a, b = Shape.parse(source), Shape.parse(target)
    bits = a.element_type.bit_width, b.element_type.bit_width
    from_places, to_places = places(a), places(b)
    expected: dict[tuple[int, ...], set[tuple[int, ...]]] = {at: set() for at in to_places.values()}
    for p, at in from_places.items():
        for bit in range(p * bits[0], (p + 1) * bits[0]):
            there = to_places.get(bit // bits[1])
            if there is not None:
                expected[there].add(at)
    compare(root, {(0, 0): expected})


@pytest.mark.parametrize("fields", [{}, {"dimensions": [0]}])
def test_a_reshape_to_sizes_that_are_not_known(fields: dict[str, Any]) -> None:
    root = one_op("dynamic-reshape", "f32[<=6]", ["f32[2,<=3]", "s32[]"], **fields)
    whole, size = indexing.output_to_input(root)
    assert whole.knowledge is indexing.Knowledge.EVERY_ELEMENT
    assert size.knowledge is indexing.Knowledge.EXACT
    fixed = one_op("dynamic-reshape", "f32[6]", ["f32[2,3]", "s32[]"], **fields)
    assert indexing.output_to_input(fixed)[0].knowledge is indexing.Knowledge.EXACT
