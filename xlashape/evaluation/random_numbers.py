"""rng-bit-generator: ThreeFry and Philox, which give the same bits everywhere. The default algorithm is Philox, as XLA
has it for CPU.
"""

from __future__ import annotations

import numpy as np

from xlashape.evaluation.machine import Array, Machine, Value, dtype_of, evaluates, unsupported
from xlashape.hlo import HloInstruction
from xlashape.proto import xla

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_FACTORS = (0xD2511F53, 0xCD9E8D57)
_BUMPS = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


@evaluates("rng-bit-generator")
def rng_bit_generator(_: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    """Returns (the next state, bits). Numbers of 8 and 16 bits are the low ones of 32."""
    state, dtype = np.asarray(args[0]), dtype_of(instruction.shape.tuple_shapes[1])
    dims = instruction.shape.tuple_shapes[1].dimensions
    if state.dtype != np.uint64 or not 2 <= state.size <= 3:
        raise unsupported(instruction, f"of a state of {state.size} {state.dtype} is not known")
    is_three_fry = instruction.details.rng_algorithm == xla.RNG_THREE_FRY
    if is_three_fry and state.size != 2:
        raise unsupported(instruction, f"of a state of {state.size} {state.dtype} is not known")
    following, bits = (_three_fry if is_three_fry else _philox)(state, dims, wide=dtype.itemsize == 8)
    return following, bits.astype(f"u{dtype.itemsize}").view(dtype) if dims else bits.astype(dtype)


def _halves(x: Array) -> tuple[Array, Array]:
    """The low and the high 32 bits."""
    return (x & _LOW).astype(np.uint32), (x >> _HALF).astype(np.uint32)


def _paired(low: Array, high: Array) -> Array:
    return low.astype(np.uint64) | high.astype(np.uint64) << _HALF


def _three_fry(state: Array, dims: tuple[int, ...], *, wide: bool) -> tuple[Array, Array]:
    """The state is key and counter. Two words of 32 bits stand beside each other along one dimension: the first
    even one, or the largest one, which is cut."""
    sizes, split = list(dims), 0
    if not wide:
        sizes = sizes or [1]
        even = [d for d, n in enumerate(sizes) if n % 2 == 0]
        split = even[0] if even else int(np.argmax(sizes))
        sizes[split] = -(-sizes[split] // 2)
    count = int(np.prod(sizes, dtype=np.int64))
    counters = state[1] + np.arange(count, dtype=np.uint64).reshape(sizes)
    words = _three_fry_words(_halves(state[:1]), _halves(counters))
    following = np.array([state[0], state[1] + np.uint64(count)])
    if wide:
        return following, _paired(*words).reshape(dims)
    sizes[split] *= 2
    joined = np.stack(words, split + 1).reshape(sizes)
    return following, joined[tuple([slice(n) for n in dims or (1,)])].reshape(dims)


def _three_fry_words(key: tuple[Array, Array], words: tuple[Array, Array]) -> tuple[Array, Array]:
    keys = (*key, key[0] ^ key[1] ^ np.uint32(_PARITY))
    x, y = words[0] + keys[0], words[1] + keys[1]
    for group in range(5):
        for by in _ROTATIONS[group % 2]:
            x = x + y
            y = (y << np.uint32(by) | y >> np.uint32(32 - by)) ^ x
        x, y = x + keys[(group + 1) % 3], y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def _philox(state: Array, dims: tuple[int, ...], *, wide: bool) -> tuple[Array, Array]:
    """The state is key and counter; of a counter of 64 bits, the key is the upper half too."""
    count = int(np.prod(dims, dtype=np.int64))
    calls = -(-count // (2 if wide else 4))
    low, high = state[1], state[2 % state.size]
    lows = low + np.arange(calls, dtype=np.uint64)
    words = _philox_words(_halves(state[:1]), [*_halves(lows), *_halves(high + (lows < low).astype(np.uint64))])
    after = low + np.uint64(calls)
    following = np.array([state[0], after, high + np.uint64(after < low)][: state.size])
    bits = np.stack([_paired(*words[:2]), _paired(*words[2:])] if wide else words, -1)
    return following, bits.ravel()[:count].reshape(dims)


def _philox_words(key: tuple[Array, Array], words: list[Array]) -> list[Array]:
    for number in range(10):
        first, second = (k + np.uint32(number * bump & 0xFFFFFFFF) for k, bump in zip(key, _BUMPS, strict=True))
        products = [words[2 * i].astype(np.uint64) * np.uint64(factor) for i, factor in enumerate(_FACTORS)]
        (low0, high0), (low1, high1) = map(_halves, products)
        words = [high1 ^ words[1] ^ first, low1, high0 ^ words[3] ^ second, low0]
    return words
