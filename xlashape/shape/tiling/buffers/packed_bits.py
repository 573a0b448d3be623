"""Elements of fewer than 8 bits side by side in bytes, as `E(n)` stores them: the first element in a byte's low-order bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_Bytes = NDArray[np.uint8]

_PIECE = 1 << 15
"""Bytes of packed elements made at a time, so that they and their temporaries stay in the processor's cache."""


def pack_bits(elements: _Bytes, bits: int, value_bits: int, packed: _Bytes) -> None:
    """Writes the low `value_bits` of each byte of `elements` into `bits` bits of `packed`, whose spare last bits become 0.

    >>> packed = np.empty(2, np.uint8)
    >>> pack_bits(np.array([1, 2, 15], np.uint8), 4, 4, packed)
    >>> packed.tolist()
    [33, 15]
    """
    mask = (1 << value_bits) - 1
    a_byte = 8 // bits
    if bits == 1 or 8 % bits:
        # Pieces of 8·n elements fill whole bytes.
        for start in range(0, len(elements), 8 * _PIECE):
            piece = elements[start : start + 8 * _PIECE] & np.uint8(mask)
            single_bits = piece if bits == 1 else np.unpackbits(piece[:, None], axis=1, bitorder="little", count=bits)
            packed_piece = np.packbits(single_bits, bitorder="little")
            at = start * bits // 8
            packed[at : at + packed_piece.size] = packed_piece
        return
    whole = len(elements) // a_byte
    word = np.dtype(f"<u{a_byte}")
    for start in range(0, whole, _PIECE):
        stop = min(start + _PIECE, whole)
        # Elements i of a word lie 8·i bits up and move down to bits·i, in as many steps as a_byte has doublings.
        words: NDArray[Any] = elements[start * a_byte : stop * a_byte].view(word) & word.type(_repeated(mask, a_byte))
        for distance in _distances(bits):
            words |= words >> word.type(distance)
        np.copyto(packed[start:stop], words, casting="unsafe")
    if whole < len(packed):
        rest = [int(value) & mask for value in elements[whole * a_byte :]]
        packed[whole] = sum([value << (i * bits) for i, value in enumerate(rest)])


def unpack_bits(packed: _Bytes, bits: int, count: int) -> _Bytes:
    """The first `count` elements of `bits` bits each, a byte an element, the upper bits 0.

    >>> unpack_bits(np.array([33, 15], np.uint8), 4, 3).tolist()
    [1, 2, 15]
    """
    if bits == 1:
        return np.unpackbits(packed, count=count, bitorder="little")
    if 8 % bits:
        elements = np.empty(count, np.uint8)
        for start in range(0, count, 8 * _PIECE):
            length = min(8 * _PIECE, count - start)
            at = start * bits // 8
            single_bits = np.unpackbits(
                packed[at : at + -(-length * bits // 8)], count=length * bits, bitorder="little"
            )
            elements[start : start + length] = np.packbits(
                single_bits.reshape(length, bits), axis=1, bitorder="little"
            )[:, 0]
        return elements
    a_byte = 8 // bits
    word = np.dtype(f"<u{a_byte}")
    elements = np.empty(len(packed) * a_byte, np.uint8)
    mask = (1 << bits) - 1
    for start in range(0, len(packed), _PIECE):
        words: NDArray[Any] = packed[start : start + _PIECE].astype(word)
        for distance in reversed(_distances(bits)):
            words |= words << word.type(distance)
            # Keeps the copies that have moved and clears the rest. After this step groups are `distance` bits further apart.
            words &= word.type(_kept(bits, a_byte, distance, mask))
        elements.view(word)[start : start + _PIECE] = words
    return elements[:count]


def _distances(bits: int) -> list[int]:
    """The distances, in bits, by which neighbours, then pairs of neighbours, and so on move towards each other.

    >>> _distances(4), _distances(2)
    ([4], [6, 12])
    """
    return [(8 - bits) * (1 << step) for step in range((8 // bits).bit_length() - 1)]


def _kept(bits: int, a_byte: int, distance: int, mask: int) -> int:
    """The mask of the bits that hold elements after the step of `_distances` that moves them apart by `distance`."""
    together = distance // (8 - bits)
    group = sum([mask << (i * bits) for i in range(together)])
    return sum([group << (8 * i) for i in range(0, a_byte, together)])


def _repeated(mask: int, count: int) -> int:
    return sum([mask << (8 * i) for i in range(count)])
