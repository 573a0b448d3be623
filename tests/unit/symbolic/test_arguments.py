"""Arguments of the wrong type are errors of the library; NumPy's integers are numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from xlashape import symbolic
from xlashape.errors import XlashapeError
from xlashape.indexing import push_tile
from xlashape.symbolic import IndexingMap, ranges_to_dims, same_function, select_results

MAP: Any = IndexingMap.from_sizes([4], [2], [symbolic.dim(0)])

NO_MAPS: tuple[Any, ...] = (None, 5, "a", b"x", [], object())
TAKE_A_MAP: dict[str, Callable[[Any], object]] = {
    "compose": MAP.compose,
    "compose_unsimplified": MAP.compose_unsimplified,
    "inverse": symbolic.inverse,
    "image_bounds": symbolic.image_bounds,
    "image_size": symbolic.image_size,
    "domain_size": symbolic.domain_size,
    "domain_blocks": lambda value: list(symbolic.domain_blocks(value)),
    "join_digits": symbolic.join_digits,
    "rescale_symbols": symbolic.rescale_symbols,
    "ranges_to_dims": ranges_to_dims,
    "select_results": lambda value: select_results(value, [0]),
    "symbolic_tile": symbolic.symbolic_tile,
    "push_tile": lambda value: push_tile(value, [1]),
    "same_function, first": lambda value: same_function(value, MAP),
    "same_function, second": lambda value: same_function(MAP, value),
}

NO_NUMBERS: tuple[Any, ...] = (5, ["a"], [None], [1.5], [object()], object())
TAKE_NUMBERS: dict[str, Callable[[Any], object]] = {
    "evaluate": MAP.evaluate,
    "evaluate_batch": MAP.evaluate_batch,
    "from_sizes": IndexingMap.from_sizes,
    "identity": IndexingMap.identity,
    "ranges_to_dims": lambda value: ranges_to_dims(MAP, value),
    "select_results": lambda value: select_results(MAP, value),
    "dims": lambda value: IndexingMap(dims=value),
    "results": lambda value: IndexingMap(results=value),
    "constraints": lambda value: IndexingMap(constraints=value),
    "an interval": lambda value: IndexingMap(constraints=[(0, value)]),
}


@pytest.mark.parametrize("call", TAKE_A_MAP.values(), ids=TAKE_A_MAP)
def test_what_is_no_map(call: Callable[[Any], object]) -> None:
    for value in NO_MAPS:
        with pytest.raises(XlashapeError, match="takes an IndexingMap, not"):
            call(value)


@pytest.mark.parametrize("call", TAKE_NUMBERS.values(), ids=TAKE_NUMBERS)
def test_what_are_no_numbers(call: Callable[[Any], object]) -> None:
    for value in NO_NUMBERS:
        with pytest.raises(XlashapeError):
            call(value)


def test_integers_of_numpy() -> None:
    assert str(IndexingMap.from_sizes([np.int64(4)])) == "(d0) -> (), domain: d0 in [0, 3]"
    assert select_results(MAP, [np.int32(0)]) == MAP
    assert ranges_to_dims(MAP, np.array([0])).dims == (*MAP.dims, *MAP.ranges)
