"""The aspects in which two instructions differ: each is a word, such as `layout`, with the values before and after.

The words here are opcode, shape, element type, dynamic dimensions, layout, tile, memory space, value, parameter number,
replica groups, aliasing, `backend_config.KEY`, and for other attributes their names in HLO text. `units.py` adds
further words.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from xlashape.hlo.canonical import parsed_config
from xlashape.shape import Shape

_WORDS: Final = {
    "literal": "value",
    "replica_groups": "replica groups",
    "output_to_operand_aliasing": "aliasing",
    "parameter": "parameter number",
}
_OTHER_FIELDS: Final = (
    "tail_padding_alignment_in_elements",
    "element_size_in_bits",
    "split_configs",
    "physical_shape",
    "unknown_fields",
)
_MOST: Final = 60
"""The most characters of a value in the text of an aspect."""


class Aspect(NamedTuple):
    """One respect in which two instructions, or two modules, differ."""

    word: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.word} {_short(self.before)} → {_short(self.after)}"


def _short(text: str) -> str:
    return "none" if not text else text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"


def aspects(one: Mapping[str, str], other: Mapping[str, str], shape: Shape, changed: Shape) -> Iterator[Aspect]:
    """The aspects in which two instructions differ. one, other: the canonical parts of each, text by name. shape,
    changed: the shapes of their results.
    """
    for name in dict.fromkeys((*one, *other)):
        before, after = one.get(name, ""), other.get(name, "")
        if before == after:
            continue
        if name == "shape":
            yield from shape_aspects(shape, changed)
        elif name == "backend_config":
            yield from _config_aspects(before, after)
        else:
            yield Aspect(_WORDS.get(name, name), before, after)


def shape_aspects(one: Shape, other: Shape) -> Iterator[Aspect]:
    """The aspects in which two shapes differ. Of tuples, each word is given once, for the first array that has it.

    >>> a, b = Shape.parse("f32[8]{0:T(8)}"), Shape.parse("bf16[8]{0:T(4)S(1)}")
    >>> [str(aspect) for aspect in shape_aspects(a, b)]
    ['element type f32 → bf16', 'tile T(8) → T(4)', 'memory space 0 → 1']
    """
    leaves, others = list(one.leaves()), list(other.leaves())
    if len(leaves) != len(others) or one.is_tuple != other.is_tuple:
        yield Aspect("shape", str(one), str(other))
        return
    seen: set[str] = set()
    for leaf, changed in zip(leaves, others, strict=True):
        for aspect in _array_aspects(leaf, changed):
            if aspect.word not in seen:
                seen.add(aspect.word)
                yield aspect


def _array_aspects(one: Shape, other: Shape) -> Iterator[Aspect]:
    if one == other:
        return
    one = one.buffer_shape if one.is_buffer else one
    other = other.buffer_shape if other.is_buffer else other
    if not (one.is_array and other.is_array):
        yield Aspect("shape", str(one), str(other))
        return
    if one.element_type != other.element_type:
        yield Aspect("element type", str(one.element_type), str(other.element_type))
    if one.dimensions != other.dimensions:
        yield Aspect("shape", str(one.without_layout()), str(other.without_layout()))
    elif one.dynamic_dimensions != other.dynamic_dimensions:
        yield Aspect("dynamic dimensions", str(one.without_layout()), str(other.without_layout()))
    first = (one.with_default_layout() if one.layout is None else one).layout
    second = (other.with_default_layout() if other.layout is None else other).layout
    if first is None or second is None or first == second:
        return
    if first.minor_to_major != second.minor_to_major and len(first.minor_to_major) == len(second.minor_to_major):
        yield Aspect("layout", _order(first), _order(second))
    if first.tiles != second.tiles:
        yield Aspect("tile", _tiles(first), _tiles(second))
    if first.memory_space != second.memory_space:
        yield Aspect("memory space", str(first.memory_space), str(second.memory_space))
    if any(getattr(first, name) != getattr(second, name) for name in _OTHER_FIELDS):
        yield Aspect("layout", str(first), str(second))


def _order(layout: Any) -> str:
    return f"{{{','.join(map(str, layout.minor_to_major))}}}"


def _tiles(layout: Any) -> str:
    return "T" + "".join(map(str, layout.tiles)) if layout.tiles else ""


def _config_aspects(before: str, after: str) -> Iterator[Aspect]:
    """An aspect for each key in which two backend configurations differ; one for all if either is no JSON object."""
    one, other = parsed_config(before or "{}"), parsed_config(after or "{}")
    if one is None or other is None:
        yield Aspect("backend_config", before, after)
        return
    for path, left, right in _different("backend_config", one, other):
        yield Aspect(path, left, right)


def _different(path: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The keys whose values differ in two JSON objects, as (path of keys, old value, new value) with values as JSON
    text, empty where a key is missing. `path` is the beginning of all paths.
    """
    pending: list[tuple[str, Any, Any]] = [(path, one, other)]
    while pending:
        at, left, right = pending.pop()
        if left == right:
            continue
        if isinstance(left, dict) and isinstance(right, dict):
            before, after = cast("dict[str, Any]", left), cast("dict[str, Any]", right)
            keys = reversed(dict.fromkeys((*before, *after)))
            pending += [(f"{at}.{key}", before.get(key), after.get(key)) for key in keys]
        else:
            yield at, _json(left), _json(right)


def _json(value: Any) -> str:
    return "" if value is None else json.dumps(value)
