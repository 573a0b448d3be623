"""Attributes of collectives and of what sends and receives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from xlashape.hlo.formatting import ints
from xlashape.hlo.text.writer.registry import Context, prints
from xlashape.hlo.text.writer.source import ABSENT
from xlashape.hlo.values.sharding_text import replica_groups_text
from xlashape.proto import xla

__all__: list[str] = []


@lru_cache(4096)
def _groups(data: bytes, full: bool) -> str:
    return replica_groups_text(xla.HloInstructionProto.FromString(data), full=full)


def _replica_groups(one: Any, context: Context) -> str:
    # Only the four fields that may hold the groups go into the key.
    parts: list[bytes] = []
    made = xla.HloInstructionProto()
    for name in ("iota_collective_device_list", "mesh_axes_replica_group_list", "collective_device_list"):
        data = getattr(one, name)
        if data != ABSENT:
            getattr(made, name).MergeFromString(data)
            getattr(made, name).SetInParent()
            return f", replica_groups={_groups(made.SerializeToString(), context.is_fingerprint)}"
    for data in one.replica_groups:
        parts.append(data)
        made.replica_groups.add().MergeFromString(data)
    return f", replica_groups={_groups(made.SerializeToString(), context.is_fingerprint)}"


def _channel(one: Any) -> str:
    return f", channel_id={one.channel_id}" if one.channel_id > 0 else ""


def _collective(one: Any, context: Context) -> str:
    return _channel(one) + _replica_groups(one, context) + (", constrain_layout=true" if one.constrain_layout else "")


def _global_ids(one: Any) -> str:
    return ", use_global_device_ids=true" if one.use_global_device_ids else ""


@prints("all-gather", "all-gather-start")
def _all_gather(one: Any, context: Context) -> str:
    return f"{_collective(one, context)}, dimensions={ints(one.dimensions)}{_global_ids(one)}"


@prints("all-reduce", "all-reduce-start")
def _all_reduce(one: Any, context: Context) -> str:
    return _collective(one, context) + _global_ids(one)


@prints("reduce-scatter")
def _reduce_scatter(one: Any, context: Context) -> str:
    return f"{_collective(one, context)}{_global_ids(one)}, dimensions={ints(one.dimensions)}"


@prints("all-to-all")
def _all_to_all(one: Any, context: Context) -> str:
    return _collective(one, context) + (f", dimensions={ints(one.dimensions)}" if one.dimensions else "")


@prints("ragged-all-to-all", "collective-broadcast")
def _collective_only(one: Any, context: Context) -> str:
    return _collective(one, context)


@prints("collective-permute", "collective-permute-start")
def _collective_permute(one: Any, context: Context) -> str:
    pairs = [xla.SourceTarget.FromString(data) for data in one.source_target_pairs]
    text = f"{_channel(one)}, source_target_pairs={{{','.join([f'{{{p.source},{p.target}}}' for p in pairs])}}}"
    if not one.dynamic_slice_sizes:
        return text
    sent = context.operand_shape(one, 0)
    parts = () if sent is None else sent.tuple_shapes if sent.is_tuple else (sent,)
    return f"{text}, slice_sizes={_slice_sizes(list(one.dynamic_slice_sizes), [part.rank for part in parts])}"


def _slice_sizes(sizes: list[int], ranks: Sequence[int]) -> str:
    # The sizes of all slices stand in one list, one after the other; each slice has the rank of what is sent.
    parts: list[str] = []
    at = number = 0
    while at < len(sizes):
        rank = ranks[number % len(ranks)] if ranks else 0
        number += 1
        if rank == 0:
            rank = len(sizes) - at
        parts.append(ints(sizes[at : at + rank]))
        at += rank
    return f"{{{','.join(parts)}}}"


@prints("send", "send-done", "recv", "recv-done")
def _send(one: Any, _: Context) -> str:
    return _channel(one) + (", is_host_transfer=true" if one.is_host_transfer else "")
