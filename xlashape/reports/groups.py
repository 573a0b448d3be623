"""Rows of a report by what they have in common: as the method `by` of answers has them, and the layers of
programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
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


def grouped(rows: Iterable[T], key: str, keys: Sequence[str]) -> dict[str, list[T]]:
    """The rows by the name of their group. InvalidArgumentError for a key that is none of `keys`.

    Layers that differ in their last number alone are one group, whose name says how many they are: `layers_* × 32`.
    """
    if key not in keys:
        message = f"expected one of {', '.join(keys)}, found {key!r:.60}{did_you_mean(key, keys)}"
        raise InvalidArgumentError(message, field="by")
    groups: dict[str, list[T]] = {}
    for row in rows:
        groups.setdefault(_group_of(row, key), []).append(row)
    return folded(groups) if key == "layer" else groups


def layer_of(op_name: str) -> str:
    """The part of an op_name that names what a person would call a layer: scopes up to the first that has a number, or
    all of them.

    The names of jitted functions, transformations and control flow are left out, and so is the primitive at the end,
    unless nothing else is left.

    >>> layer_of("jit(step)/transpose(jvp(transformer))/layer_3/attention/dot_general")
    'transformer/layer_3'
    >>> layer_of("jit(f)/jit(main)/mlp/while/body/add"), layer_of("jit(f)/add"), layer_of("w[0]")
    ('mlp', 'add', 'w[0]')
    """
    parts = op_name.split("/")
    kept: list[str] = []
    for part in parts[:-1]:
        is_jitted = part.startswith(("jit(", "pjit("))
        while (match := _WRAPPER.fullmatch(part)) is not None:
            part = match[1]
        if is_jitted or part in _MACHINERY:
            continue
        if part.startswith("("):  # several op_names in one
            break
        kept.append(part)
        if _NUMBERED.fullmatch(part):
            break
    return "/".join(kept) or parts[-1]


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
    if key in ("layer", "each_layer"):
        return layer_of_row(row, "(no layer known)")
    value: Any = getattr(row, key)
    text = "" if value is None else ", ".join(value) if key == "mesh_axes" else str(value)
    return text or (ARGUMENTS if _is_argument(row) else f"(no {key} known)")


def layer_of_row(row: Any, otherwise: str) -> str:
    """The layer of a row by its op_name, `otherwise` where it has none."""
    if _is_argument(row):
        return argument_layer(row.op_name or "")
    return layer_of(row.op_name) if row.op_name else otherwise


def unnumbered(layer: str) -> str:
    """The name that a layer has together with those that differ in their number alone: `layers_*`."""
    return _LAST_NUMBER.sub("*", layer)


def _is_argument(row: Any) -> bool:
    return "parameter" in (str(getattr(row, "opcode", "")), getattr(row, "kind", ""))


def folded(groups: Mapping[str, list[T]]) -> dict[str, list[T]]:
    """Groups whose names differ in the last number alone, as one."""
    names: dict[str, list[str]] = {}
    for name in groups:
        names.setdefault(unnumbered(name), []).append(name)
    return {
        same[0] if len(same) == 1 else f"{folded} × {len(same)}": [row for name in same for row in groups[name]]
        for folded, same in names.items()
    }
