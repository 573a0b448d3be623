"""Rows of a report by what they have in common: as the method `by` of answers has them, and the layers of
programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from xlashape.base.similar import did_you_mean
from xlashape.errors import InvalidArgumentError

T = TypeVar("T")

ARGUMENTS: Final = "arguments"
"""The group of the parameters of a program, which come from no line and no layer of it."""

_WRAPPER: Final = re.compile(r"[\w.<>\-]*\((.*)\)")
_MACHINERY: Final = frozenset(
    [
        "while",
        "body",
        "cond",
        "scan",
        "closed_call",
        "checkpoint",
        "rematted_computation",
        "remat",
        "pjit",
        "main",
        "shard_map",
        "eval_jaxpr",
        "",
    ]
)
_NUMBERED: Final = re.compile(r"[^\W\d]*\d\w*(?:\[\d+\])?")
_LAST_NUMBER: Final = re.compile(r"(?<![:\d])\d+(?=\]?$)")
_ANY_NUMBER: Final = re.compile(r"(?<![:\d])\d+(?!\d| layers)")
_MANY: Final = 20
"""More groups than a table shows."""
_KEY_OF_PYTREE: Final = re.compile(r"\w+")
_NUMBERED_KEY: Final = re.compile(r"[^\W\d]\w*\d")


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows with something in common. The sums over these rows are attributes, by the names of the report's totals."""

    group: str
    rows: Sequence[Any] = field(repr=False)
    sums: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.sums[name]
        except KeyError:
            raise AttributeError(f"a group has no {name!r}; it has {', '.join(self.sums)}") from None


def grouped(
    rows: Iterable[T], key: str, keys: Sequence[str], layer_without_name: Callable[[T], str] = lambda _: ""
) -> dict[str, list[T]]:
    """The rows by the name of their group. InvalidArgumentError for a key that is none of `keys`.

    Layers that differ in their last number alone are one group, whose name says how many they are: `layers_* × 32`.
    `layer_without_name` gives the layer of a row whose instruction names none: `Layers.of_row`.
    """
    if key not in keys:
        message = f"expected one of {', '.join(keys)}, found {key!r:.60}{did_you_mean(key, keys)}"
        raise InvalidArgumentError(message, field="by")
    groups: dict[str, list[T]] = {}
    for row in rows:
        if key in ("layer", "each_layer"):
            name = layer_without_name(row) or layer_of_row(row, "") or getattr(row, "source", None)
            name = name or argument_of(row) or "(no layer known)"
        else:
            name = _group_of(row, key)
        groups.setdefault(name, []).append(row)
    return folded(groups) if key == "layer" else groups


def layer_of(op_name: str) -> str:
    """The part of an op_name that names what a person would call a layer: scopes up to the first that has a number, or
    all of them. Empty where it names no scope.

    The names of jitted functions, transformations and control flow are left out, and so is the primitive at the end.
    Of an op_name of several operations, the first counts.

    >>> layer_of("jit(step)/transpose(jvp(transformer))/layer_3/attention/dot_general")
    'transformer/layer_3'
    >>> layer_of("jit(f)/jit(main)/mlp/while/body/add;jit(f)/mul"), layer_of("jit(f)/jvp(jit(relu))/max")
    ('mlp', '')
    >>> layer_of("jit(step)/net/(transpose(jvp())/dot_general:jvp()/reduce_sum)")
    'net'
    """
    parts = op_name.partition(";")[0].split("/")
    kept: list[str] = []
    for part in parts[:-1]:
        if part.startswith("("):  # several op_names in one
            break
        wrappers: list[str] = []
        while (match := _WRAPPER.fullmatch(part)) is not None:
            wrappers.append(part)
            part = match[1]
        if any(each.startswith(("jit(", "pjit(")) for each in wrappers) or part in _MACHINERY:
            continue
        kept.append(part)
        if _NUMBERED.fullmatch(part):
            break
    return "/".join(kept)


def argument_layer(path: str) -> str:
    """The group of a parameter by its path in the arguments: the keys up to the first with a number at its end.

    >>> argument_layer("state.params['layers_3']['mlp']['kernel']"), argument_layer("args[0]['w']"), argument_layer("x")
    ('arguments/state/params/layers_3', 'arguments/args/0', 'arguments')
    """
    keys = _KEY_OF_PYTREE.findall(path)
    numbered = next((number for number, key in enumerate(keys) if _NUMBERED_KEY.fullmatch(key)), None)
    return "/".join([ARGUMENTS, *(keys[:-1] if numbered is None else keys[: numbered + 1])])


def _group_of(row: Any, key: str) -> str:
    """The name of a row's group, in words where the row has no value."""
    value: Any = getattr(row, key)
    text = "" if value is None else ", ".join(value) if key == "mesh_axes" else str(value)
    return text or (ARGUMENTS if _is_argument(row) else f"(no {key} known)")


def layer_of_row(row: Any, otherwise: str) -> str:
    """The layer of a row by its op_name, for what only moves an argument that of the argument; else `otherwise`."""
    name = row.op_name or ""
    if _is_argument(row) or (name and "/" not in name and "[" in name):
        return argument_layer(name)
    return layer_of(name) or otherwise


def argument_of(row: Any) -> str:
    """The argument that a row moves, by an op_name without a scope; empty where its op_name is that of an operation."""
    return "" if "/" in (row.op_name or "") else row.op_name or ""


def in_one_pattern(layers: Iterable[str]) -> str:
    """One name for layers that differ in their numbers alone; empty for others.

    >>> in_one_pattern(["net/layer_1", "net/layer_2"]), in_one_pattern(["router", "head"])
    ('net/layer_*', '')
    """
    for pattern in (_LAST_NUMBER, _ANY_NUMBER):
        same = {pattern.sub("*", layer) for layer in layers}
        if len(same) == 1:
            return same.pop()
    return ""


def unnumbered(layer: str) -> str:
    """The name that a layer has together with those that differ in their number alone: `layers_*`."""
    return _LAST_NUMBER.sub("*", layer)


def _is_argument(row: Any) -> bool:
    return "parameter" in (str(getattr(row, "opcode", "")), getattr(row, "kind", ""))


def folded(groups: Mapping[str, list[T]]) -> dict[str, list[T]]:
    """Groups whose names differ in the last number alone, as one; where that leaves many, in any number."""
    names: dict[str, list[str]] = {}
    for pattern in (_LAST_NUMBER, _ANY_NUMBER):
        names.clear()
        for name in groups:
            names.setdefault(pattern.sub("*", name), []).append(name)
        if len(names) <= _MANY:
            break
    return {
        same[0] if len(same) == 1 else f"{folded} × {len({*same} - {folded})}": [
            row for name in same for row in groups[name]
        ]
        for folded, same in names.items()
    }
