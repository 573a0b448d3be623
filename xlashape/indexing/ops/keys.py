"""Cheap keys of attributes: what cached answers are found by, without reading the attributes themselves.

Equal keys of one reader mean equal attributes. Messages are taken as their bytes, so a field that no rule looks at, or another order of the same
fields, costs a second analysis and nothing else. A reader that is missing here is its own key.

With all caches warm, all maps of a module take 1.9 µs a map with these keys instead of 2.3 with the readers (mobilenet_v2), or 2.3 instead of 2.7
(Llama 3.1 8B).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

from xlashape.indexing.ops.attributes import (
    collective,
    convolution,
    dimensions,
    dot,
    gather,
    padding,
    scatter,
    slices,
    window,
)
from xlashape.proto import xla

__all__ = ["Key", "key_of"]

Key: TypeAlias = Callable[[xla.HloInstructionProto], Hashable]


def _dimensions(proto: xla.HloInstructionProto) -> Hashable:
    return tuple(proto.dimensions[:])


def _slices(proto: xla.HloInstructionProto) -> Hashable:
    return tuple([d.SerializeToString() for d in proto.slice_dimensions])


def _padding(proto: xla.HloInstructionProto) -> Hashable:
    return proto.padding_config.SerializeToString()


def _dot(proto: xla.HloInstructionProto) -> Hashable:
    return proto.dot_dimension_numbers.SerializeToString()


def _window(proto: xla.HloInstructionProto) -> Hashable:
    return proto.window.SerializeToString()


def _convolution(proto: xla.HloInstructionProto) -> Hashable:
    return (
        proto.window.SerializeToString(),
        proto.convolution_dimension_numbers.SerializeToString(),
        proto.feature_group_count,
        proto.batch_group_count,
    )


def _gather(proto: xla.HloInstructionProto) -> Hashable:
    return proto.gather_dimension_numbers.SerializeToString(), tuple(proto.gather_slice_sizes[:])


def _scatter(proto: xla.HloInstructionProto) -> Hashable:
    return proto.scatter_dimension_numbers.SerializeToString()


def _collective(proto: xla.HloInstructionProto) -> Hashable:
    form = proto.WhichOneof("replica_group_list")
    if form is None:
        groups: Any = tuple([group.SerializeToString() for group in proto.replica_groups])
    else:
        groups = getattr(proto, form).SerializeToString()
    # Each collective has a channel of its own, so that equal ones differ in the number; only whether there is one matters.
    return form, groups, tuple(proto.dimensions[:]), proto.channel_id > 0, proto.use_global_device_ids


_KEYS: dict[Callable[..., Hashable], Key] = {
    collective: _collective,
    convolution: _convolution,
    dimensions: _dimensions,
    dot: _dot,
    gather: _gather,
    padding: _padding,
    scatter: _scatter,
    slices: _slices,
    window: _window,
}


def key_of(reader: Key) -> Key:
    """The key of a reader of attributes."""
    return _KEYS.get(reader, reader)
