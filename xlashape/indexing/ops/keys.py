"""Cheap keys of attributes: what cached answers are found by, without reading the attributes themselves.

Equal keys of one reader mean equal attributes. Messages are taken as their bytes, so a field that no rule looks at, or another order of the same
fields, costs a second analysis and nothing else. A reader that is missing here is its own key.

With all caches warm, all maps of a module take 1.9 µs a map with these keys instead of 2.3 with the readers (mobilenet_v2), or 2.3 instead of 2.7
(Llama 3.1 8B).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

from google.protobuf.descriptor import FieldDescriptor

from xlashape.hlo.values.attribute import Attribute, Codec
from xlashape.hlo.values.dot_numbers import DOT_DIMENSION_NUMBERS
from xlashape.hlo.values.padding import PADDING
from xlashape.hlo.values.plain import DIMENSIONS
from xlashape.hlo.values.slices import SLICE
from xlashape.proto import is_repeated, xla

Key: TypeAlias = Callable[[xla.HloInstructionProto], Hashable]

_R = TypeVar("_R", bound=Key)

_KEYS: dict[Key, Key] = {}


def keyed_by(key: Key) -> Callable[[_R], _R]:
    """A decorator of a reader of attributes, which gives it a key."""

    def decorate(reader: _R) -> _R:
        _KEYS[reader] = key
        return reader

    return decorate


def fields(*names: str) -> Key:
    """The key that is these fields of an instruction.

    >>> fields("dimensions", "k")(xla.HloInstructionProto(dimensions=[1, 0]))
    ((1, 0), 0)
    """
    parts = [_field(name) for name in names]
    if len(parts) == 1:
        return parts[0]
    return lambda instruction: tuple([part(instruction) for part in parts])


def _field(name: str) -> Key:
    field: FieldDescriptor = xla.HloInstructionProto.DESCRIPTOR.fields_by_name[name]
    get: Callable[[Any], Any] = attrgetter(name)
    if field.type != FieldDescriptor.TYPE_MESSAGE:
        return (lambda instruction: tuple(get(instruction)[:])) if is_repeated(field) else get
    if is_repeated(field):
        return lambda instruction: tuple([each.SerializeToString() for each in get(instruction)])
    return lambda instruction: get(instruction).SerializeToString()


def key_of(reader: Key) -> Key:
    """The key of a reader of attributes."""
    return _KEYS.get(reader, reader)


def _keyed(attribute: Attribute | Codec, *names: str) -> None:
    value = attribute.value if isinstance(attribute, Attribute) else attribute
    assert value is not None
    _KEYS[value.get] = fields(*names)


_keyed(DIMENSIONS, "dimensions")
_keyed(DOT_DIMENSION_NUMBERS, "dot_dimension_numbers")
_keyed(PADDING, "padding_config")
_keyed(SLICE, "slice_dimensions")
