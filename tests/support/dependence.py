"""Finds which output elements depend on which input elements by running an operation: every element of every operand is
changed on its own, and the outputs that change are noted. This is done for several draws of values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from map_enumeration import elements

from xlashape import indexing
from xlashape.hlo import HloInstruction

Index = tuple[int, ...]
Seen = dict[tuple[int, int], dict[Index, set[Index]]]
"""(operand, output) → the index of an element of the output → the indices of the operand's elements that changed it."""


def flat(value: Any) -> list[np.ndarray]:
    """The arrays of nested tuples and lists, depth first."""
    return [leaf for part in value for leaf in flat(part)] if isinstance(value, (tuple, list)) else [np.asarray(value)]


def observed(
    run: Callable[..., Any],
    draws: Iterable[Sequence[np.ndarray]],
    moves: Callable[[int, Any], Iterable[Any]] = lambda _, old: [old + 0.37],
) -> Seen:
    """The dependences observed in any of the draws. `moves(operand, old)` are the values to which an element of the
    operand is changed."""
    seen: Seen = {}
    for draw in draws:
        before = flat(run(*draw))
        for number, value in enumerate(draw):
            for output in range(len(before)):
                seen.setdefault((number, output), {})
            for at in np.ndindex(*value.shape):
                for new in moves(number, value[at]):
                    changed = list(draw)
                    changed[number] = np.array(value)
                    changed[number][at] = new
                    after = flat(run(*changed))
                    for output, (a, b) in enumerate(zip(before, after, strict=True)):
                        for place in np.argwhere(~np.isclose(a, b, rtol=1e-9, atol=1e-9)):
                            seen[number, output].setdefault(tuple(map(int, place)), set()).add(at)
    return seen


def compare(
    root: HloInstruction, seen: Seen, loose: Iterable[tuple[int, int]] = (), *, tuple_operand: bool = False
) -> None:
    """Asserts that the maps in both directions name exactly the observed dependences. For pairs (operand, output) in
    `loose` they may name more.

    With `tuple_operand` the root has one operand, and the operands of `seen` are the leaves of that operand.
    """
    for (number, output), found in seen.items():
        operand, leaf = (0, number) if tuple_operand else (number, 0)
        read = indexing.output_to_input(root, output)[operand]
        written = indexing.input_to_output(root, operand, leaf)[output]
        shapes = list(root.operands[operand].shape.leaves()), list(root.shape.leaves())
        into, out = shapes[0][leaf].dimensions, shapes[1][output].dimensions
        for form in (read, read.simplify()):
            for index in np.ndindex(*out):
                named = {e for one in form if one.leaf == leaf for e in elements(one, index)}
                _agree(named, found.get(index, set()), into, (number, output) in loose, (number, output, index, form))
        for form in (written, written.simplify()):
            for at in np.ndindex(*into):
                named = {e for one in form for e in elements(one, at)}
                reached = {index for index, sources in found.items() if at in sources}
                _agree(named, reached, out, (number, output) in loose, (number, output, at, form))


def _agree(named: set[Index], expected: set[Index], dims: Index, loose: bool, what: tuple[Any, ...]) -> None:
    assert all(0 <= i < n for e in named for i, n in zip(e, dims, strict=True)), (*what, named)
    assert expected <= named, (*what, "not named:", expected - named)
    assert loose or named == expected, (*what, "not seen:", named - expected)
