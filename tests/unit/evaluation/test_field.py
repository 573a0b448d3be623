"""The finite field: arithmetic, the order, and the identities that compilers use."""

from __future__ import annotations

import numpy as np
import pytest

from xlashape.evaluation.domains import modular
from xlashape.evaluation.domains.field import Field
from xlashape.evaluation.domains.modular import P, negated
from xlashape.evaluation.domains.numbers import INFINITY, NAN, NEGATIVE, FieldNumbers
from xlashape.evaluation.elementwise import BINARY, FUNCTIONS, UNARY

SIZES = (7, 100)  # short arrays take another way


def drawn(count: int, *, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(1, P, count) for _ in range(3)]


@pytest.mark.parametrize("count", SIZES)
def test_arithmetic_is_that_of_integers_modulo_p(count: int) -> None:
    a, b, _ = drawn(count)
    assert (modular.inverse(a) * a % P == 1).all()
    positive = modular.root(a)
    assert set(modular.sign(a, positive).tolist()) == {1, -1}
    assert (
        modular.sign(a * b % P, modular.root(a * b % P)) == modular.sign(a, positive) * modular.sign(b, modular.root(b))
    ).all()
    rng = np.random.default_rng(1)
    m, n = rng.integers(0, P, (3, 4, 9)), rng.integers(0, P, (3, 9, 5))
    assert (modular.matmul(m, n) == np.matmul(m.astype(object), n.astype(object)) % P).all()


@pytest.mark.parametrize("count", SIZES)
def test_identities_of_functions_hold(count: int) -> None:
    f, (a, b, c) = Field(5), drawn(count)
    two, one = f.one(2), f.one()
    same = [
        (f.multiply(f.exponential(a), f.exponential(b)), f.exponential(f.add(a, b))),
        (f.divide(c, f.exponential(b)), f.multiply(c, f.exponential(f.negate(b)))),
        (f.log(f.exponential(a)), a),
        (f.power(f.exponential(a), b), f.exponential(f.multiply(a, b))),
        (f.log(f.power(a, b)), f.multiply(b, f.log(f.abs(a)))),
        (f.divide(a, f.power(b, c)), f.multiply(a, f.power(b, f.negate(c)))),
        (f.sqrt(f.multiply(a, a)), f.abs(a)),
        (f.divide(c, f.sqrt(a)), f.multiply(c, f.rsqrt(a))),
        (f.multiply(f.abs(a), f.abs(b)), f.abs(f.multiply(a, b))),
        (f.maximum(f.negate(a), f.negate(b)), f.negate(f.minimum(a, b))),
        (f.function("ceil", f.negate(a)), f.negate(f.function("floor", a))),
        (f.function("round-nearest-even", f.negate(a)), f.negate(f.function("round-nearest-even", a))),
        (f.function("floor", f.function("ceil", a)), f.function("ceil", a)),
        (f.divide(f.divide(a, b), f.divide(c, a)), f.divide(f.multiply(a, a), f.multiply(b, c))),
        (f.logistic(f.multiply(two, a)), f.divide(f.add(one, f.tanh(a)), two)),
        (f.tanh(f.negate(a)), f.negate(f.tanh(a))),
        (f.function("sine", f.negate(a)), f.negate(f.function("sine", a))),
        (f.function("cosine", f.negate(a)), f.function("cosine", a)),
        (f.power(a, f.one(3)), f.multiply(a, f.multiply(a, a))),
        (f.power(a, f.one(-0.5)), f.rsqrt(a)),
        (f.exponential_minus_one(a), f.subtract(f.exponential(a), one)),
    ]  # fmt: skip
    for number, (one_side, other) in enumerate(same):
        assert np.array_equal(one_side, other), number


@pytest.mark.parametrize("name", [*UNARY, *FUNCTIONS, *BINARY])
@pytest.mark.parametrize("dims", [(), (1,), (70,), (2, 3)])
def test_functions_keep_the_shape_and_the_elements_of_arrays(name: str, dims: tuple[int, ...]) -> None:
    """An element's result depends on neither the rank nor the size of its array, infinite ones included."""
    f = Field(5)
    of = UNARY.get(name) or BINARY.get(name) or (lambda domain, x: domain.function(name, x))
    arguments = [np.array([*x[:4], 0, 1, P - 1, INFINITY, NEGATIVE, NAN]) for x in drawn(9)[: 1 + (name in BINARY)]]
    count = arguments[0].size
    each = [np.asarray(of(f, *[x[i : i + 1] for x in arguments])) for i in range(count)]
    rng = np.random.default_rng(2)
    for _ in range(count):
        chosen = rng.integers(0, count, dims)
        with np.errstate(all="ignore"):  # as while a program is evaluated: hashes of scalars overflow
            found = np.asarray(of(f, *[np.asarray(x[chosen]) for x in arguments]))
        assert found.shape == dims
        assert np.array_equal(found, np.concatenate(each)[chosen])


@pytest.mark.parametrize("count", SIZES)
def test_other_functions_differ(count: int) -> None:
    f, (a, b, _) = Field(5), drawn(count)
    for one_side, other in [
        (f.exponential(f.add(a, b)), f.add(f.exponential(a), f.exponential(b))),
        (f.function("sine", a), f.function("cosine", a)),
        (f.maximum(a, f.one(0)), a),
        (f.maximum(a, f.one(0)), np.zeros_like(a)),
        (f.sqrt(a), f.sqrt(f.negate(a))),
    ]:
        assert not np.array_equal(one_side, other)


def test_order_has_infinities_at_its_ends_and_no_place_for_nan() -> None:
    f, (a, _, _) = Field(3), drawn(100)
    top, bottom, none = (np.full(100, v) for v in (INFINITY, NEGATIVE, NAN))
    assert f.compare("LT", a, top).all() and f.compare("GT", a, bottom).all()
    assert not f.compare("LE", a, none).any() and f.compare("NE", none, none).all()
    assert f.compare("LT", a, none, total=True).all()
    assert np.array_equal(f.maximum(a, bottom), a) and np.array_equal(f.maximum(a, none), none)
    assert int(f.greatest(a, (0,))) in a.tolist() and f.compare("GE", f.greatest(a, (0,)), a).all()
    assert np.array_equal(f.exponential(bottom), np.zeros(100)) and np.array_equal(f.subtract(top, top), none)


def test_bits_keep_order_sign_and_elements() -> None:
    f, (a, b, _) = Field(3), drawn(100)
    for dtype in (np.dtype(np.float32), np.dtype(np.float64)):
        bits = f.bits(a, dtype)
        assert np.array_equal(f.of_bits(bits, dtype), a)
        top = bits.dtype.type(1) << bits.dtype.type(8 * dtype.itemsize - 1)
        assert np.array_equal(f.of_bits(bits ^ top, dtype), negated(a))
        assert np.array_equal(f.of_bits(bits & ~top, dtype), f.abs(a))
        signed, other = bits.view(f"i{dtype.itemsize}"), f.bits(b, dtype).view(f"i{dtype.itemsize}")
        flipped = [np.where(x < 0, ~x ^ np.array(top).view(x.dtype), x) for x in (signed, other)]
        assert np.array_equal(flipped[0] < flipped[1], f.compare("LT", a, b))
    # Other patterns are numbers: random bits | 0x3f800000, minus 1.
    pattern = np.array([0x3FC00000], np.uint32)
    assert f.of_bits(pattern, np.dtype(np.float32)).tolist() == [1.5]


def test_constants_are_the_rationals_that_rounding_has_hidden() -> None:
    n = FieldNumbers()

    def element(*values: float) -> list[int]:
        return n.lifted(np.array(values)).tolist()

    assert element(1 / 3, np.float32(1 / 3), 0.333333343) == [pow(3, P - 2, P)] * 3
    assert element(5.6)[0] * element(0.178571433)[0] % P == 1
    assert element(127.0)[0] * element(0.00787401572)[0] % P == 1
    assert element(-2.5)[0] == P - element(2.5)[0]
    assert element(0.7978845608)[0] == element(0.79788458)[0] != element(0.79789)[0]
    assert element(3 * 0.7978845608 / 4)[0] != element(0.7978845608)[0]
    assert element(0.79788456, 4 * 0.79788456)[0] * 4 % P == element(4 * 0.79788456)[0]
    # A compiler folds the product of two constants: it is the product of their elements, whichever comes first.
    a, b = np.float32(0.7978846), np.float32(0.134145)
    for values in ((a, b, a * b), (a * b, b, a), (b, a / b, a), (a, a * 2, b), (a, a * b, b)):
        m = FieldNumbers()
        x, y, z = m.lifted(np.array(values, np.float32).astype(np.float64)).tolist()
        assert 0 in {(x * y - z) % P, (x - y * z) % P, (x * z - y) % P, (2 * x - y) % P}
    assert element(0.0, np.inf, -np.inf, np.nan) == [0, INFINITY, NEGATIVE, NAN]
    # An integer is exact, whatever was there before.
    assert n.lifted(np.array([0.25000007, 0.25]))[1] * 4 % P == 1


@pytest.mark.parametrize("n", [2, 8, 128, 512, 7, 3, 63, 1000])
def test_roots_of_small_numbers_are_roots_in_the_field(n: int) -> None:
    """Compilers fold a division by the root into a product with the inverse, rounded anew."""
    numbers = FieldNumbers()
    root = np.float64(np.float32(np.sqrt(n)))
    up, down = (int(numbers.lifted(np.array([v]))[0]) for v in (root, np.float64(np.float32(1 / root))))
    assert up * down % P == 1
    if pow(n, P >> 1, P) == 1:  # n is a square
        assert up * up % P == n
