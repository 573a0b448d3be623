"""Integer arithmetic against its definitions."""

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlashape.base import math
from xlashape.errors import SizeOverflowError

NONZERO = st.integers().filter(bool)


@given(st.integers(), NONZERO)
def test_ceil_div_is_the_ceiling_of_the_quotient(a, b):
    assert math.ceil_div(a, b) == ceil(Fraction(a, b))


@given(st.integers(), st.integers(min_value=1))
def test_round_up_is_the_next_multiple(a, m):
    r = math.round_up(a, m)
    assert r % m == 0
    assert a <= r < a + m


def test_products():
    assert math.product([]) == 1
    assert math.checked_product([2**62, 2, 0], "size") == 0
    assert math.checked_product([2**62, 1], "size") == 2**62
    with pytest.raises(SizeOverflowError, match="element count does not fit int64: 9223372036854775808"):
        math.checked_product([2**62, 2], "element count")


def test_the_edges_of_int64():
    assert math.checked_int64(-(2**63), "x") == -(2**63)
    assert math.checked_int64(2**63 - 1, "x") == 2**63 - 1
    for beyond in (-(2**63) - 1, 2**63, 10**10000):
        with pytest.raises(SizeOverflowError):
            math.checked_int64(beyond, "x")
