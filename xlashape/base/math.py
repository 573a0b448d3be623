"""Exact integer arithmetic that the packages share, and numbers as text: factors, counts, bytes. `checked_*` raise an
error for a result that does not fit int64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from xlashape.errors import SizeOverflowError
from xlashape.limits import INT64_MAX, INT64_MIN

__all__ = ["byte_text", "ceil_div", "checked_int64", "checked_product", "factor_orders", "product", "round_up"]


def ceil_div(a: int, b: int) -> int:
    """a / b rounded towards +∞.

    >>> ceil_div(7, 2), ceil_div(-7, 2)
    (4, -3)
    """
    return -(-a // b)


def round_up(a: int, multiple: int) -> int:
    """The smallest multiple of `multiple` that is not below `a`.

    >>> round_up(5, 4)
    8
    """
    return ceil_div(a, multiple) * multiple


def product(values: Iterable[int]) -> int:
    """The product of all values, exact at any size; 1 if there are none.

    >>> product([3, 5])
    15
    """
    result = 1
    for value in values:
        result *= value
    return result


def factor_orders(size: int, most: int = 64) -> list[tuple[int, ...]]:
    """The ways to write a number as a product of primes, at most `most` of them; the order of the primes counts.

    >>> factor_orders(12)
    [(2, 2, 3), (2, 3, 2), (3, 2, 2)]
    """
    factors: list[int] = []
    factor = 2
    while factor * factor <= size:
        while size % factor == 0:
            factors.append(factor)
            size //= factor
        factor += 1
    return list(islice(_orders([*factors, size] if size > 1 else factors), most))


def _orders(factors: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if not factors:
        yield ()
    for first in dict.fromkeys(factors):
        rest = list(factors)
        rest.remove(first)
        yield from ((first, *order) for order in _orders(rest))


def checked_int64(value: int, what: str, *, field: str | None = None) -> int:
    """`value`. Raises SizeOverflowError, whose message names `what`, if the value does not fit int64."""
    if not INT64_MIN <= value <= INT64_MAX:
        message = f"{what} does not fit int64"
        raise SizeOverflowError(f"{message}: {value}" if value.bit_length() < 512 else message, field=field)
    return value


def checked_product(values: Iterable[int], what: str, *, field: str | None = None) -> int:
    """The product of all values. Raises SizeOverflowError, whose message names `what`, if the product does not fit
    int64.
    """
    return checked_int64(product(values), what, field=field)


def factor_text(factor: float) -> str:
    """A factor as text, with four digits; with more if it would otherwise look like 1, and whole from 1,000 on.

    >>> factor_text(32.0), factor_text(1.2345678), factor_text(2048.4), factor_text(1.00003)
    ('32 times', '1.235 times', '2,048 times', '1.00003 times')
    """
    if factor == int(factor) or factor >= 1000:
        return f"{factor:,.0f} times"
    digits = next((digits for digits in range(4, 12) if float(f"{factor:.{digits}g}") != 1), 12)
    return f"{factor:.{digits}g} times"


def counted(number: int, noun: str) -> str:
    """A number of things, as text.

    >>> counted(1, "change"), counted(2300, "array"), counted(2, "copy")
    ('1 change', '2,300 arrays', '2 copies')
    """
    if number != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{number:,} {noun}"


def byte_text(size: int) -> str:
    """A number of bytes as text: exact, and from 1 KiB on also rounded to a larger unit.

    >>> byte_text(96), byte_text(1), byte_text(3 << 20), byte_text(5 << 50)
    ('96 bytes', '1 byte', '3,145,728 bytes (3.00 MiB)', '5,629,499,534,213,120 bytes (5.00 PiB)')
    """
    text = counted(size, "byte")
    for unit, exponent in (("EiB", 60), ("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << exponent:
            return f"{text} ({size / (1 << exponent):.2f} {unit})"
    return text
