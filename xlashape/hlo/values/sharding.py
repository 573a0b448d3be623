r"""How values are distributed over devices: `sharding={devices=[2,1]<=[2]}`, and the shardings of a domain.

sharding    := '{' (single | '{' single '}' (',' '{' single '}')* | nothing) '}'
single      := (kind | 'maximal device=' INT | tiled | named) (' shard_as ' INT | ' shard_like ' INT)? (' metadata=' metadata)?
kind        := 'replicated' | 'manual' | 'unreduced' | 'unknown' | 'unknown_' INT
domain      := '{' 'kind="sharding"' ',' 'entry=' sharding ',' 'exit=' sharding '}'

The grammars of `tiled` and `named` are in tiled_sharding and named_sharding. A list of shardings is the sharding of a tuple; comments
number every fifth element: `/*index=5*/`. `Tiles.canonical` makes tiled shardings canonical when they are read and when they are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from xlashape.caches import cached
from xlashape.errors import LimitExceededError
from xlashape.hlo.formatting import with_index_comments
from xlashape.hlo.lex import HloCursor
from xlashape.hlo.values.attribute import ABSENT, FIELDS, Attribute, Context, submessage
from xlashape.hlo.values.enums import parse_unknown
from xlashape.hlo.values.metadata import metadata_texts, parse_metadata_messages
from xlashape.hlo.values.named_sharding import named_sharding_text, parse_named_sharding
from xlashape.hlo.values.tiled_sharding import KINDS, Tiles, read_tiles
from xlashape.limits import MAX_SHAPE_DEPTH, check
from xlashape.math import product
from xlashape.proto import xla

__all__ = ["DOMAIN", "SHARDING", "parse_sharding", "sharding_text"]

_S = xla.OpSharding

# XLA keeps the reduction of an unreduced sharding in its metadata.
_REDUCTION: Final = "sdy::reduction_op"
_REDUCTIONS: Final = ("SUM", "MAX", "MIN")


# -- reading ---------------------------------------------------------------------------------


def parse_sharding(cursor: HloCursor) -> xla.OpSharding:
    """The sharding at the cursor, in canonical form."""
    cursor.expect("{")
    if not cursor.looking_at("{") and not cursor.looking_at("}"):
        return _parse_single(cursor)
    sharding = xla.OpSharding(type=_S.TUPLE)
    if not cursor.accept("}"):
        while True:
            cursor.expect("{")
            sharding.tuple_shardings.append(_parse_single(cursor))
            if cursor.accept("}"):
                break
            cursor.expect(",")
    return sharding


def _parse_single(cursor: HloCursor) -> xla.OpSharding:
    """The sharding of one array, its opening brace consumed."""
    start = cursor.at
    sharding = parse_named_sharding(cursor) or _parse_unnamed(cursor, start)
    cursor.expect("}")
    if _is_unreduced(sharding):
        sharding.metadata.add(op_type=_REDUCTION, op_name=_reduction(sharding))
    return sharding


def _is_unreduced(sharding: xla.OpSharding) -> bool:
    return sharding.type == _S.UNREDUCED or _S.UNREDUCED in sharding.last_tile_dims


def _reduction(sharding: xla.OpSharding) -> str:
    """How the devices' values are to be combined, as the metadata of an unreduced sharding says; SUM where it does not."""
    words = [each.op_name for each in sharding.metadata if each.op_type == _REDUCTION]
    return next((word for word in reversed(words) if word in _REDUCTIONS), "SUM")


def _parse_unnamed(cursor: HloCursor, start: int) -> xla.OpSharding:
    sharding = xla.OpSharding()
    kind: int | None = None
    device: int | None = None
    tiles: Tiles | None = None
    subgroups: list[int] = []
    replicate = False
    while not cursor.looking_at("}"):
        cursor.skip_space()
        at = cursor.at
        if cursor.accept("devices="):
            tiles = read_tiles(cursor)
        elif cursor.accept("device="):
            device = cursor.parse_int("a device")
        elif cursor.accept("last_tile_dims="):
            subgroups = cursor.parse_list(lambda: KINDS.parse(cursor))
        elif cursor.accept("metadata="):
            sharding.metadata.extend(parse_metadata_messages(cursor))
        elif (number := parse_unknown(cursor)) is not None:
            kind = number
        else:
            word = cursor.parse_word("a kind of sharding, devices=, last_tile_dims= or metadata=")
            if word in KINDS:
                kind = KINDS.number(word)
            elif word == "last_tile_dim_replicate":
                replicate = True
            elif word in ("shard_as", "shard_like"):
                sharding.is_shard_group = True
                sharding.shard_group_id = cursor.parse_int("a shard group")
                sharding.shard_group_type = _S.AS if word == "shard_as" else _S.LIKE
            else:
                raise cursor.error(
                    f"expected a kind of sharding, found {word!r}", at=at, expected="a kind of sharding", found=word
                )
    if kind == _S.MAXIMAL:
        if device is None:
            raise cursor.error("a maximal sharding has one device", at=start, expected="device=")
        sharding.type = _S.MAXIMAL
        sharding.tile_assignment_devices.append(device)
    elif kind is not None:
        if device is not None or tiles is not None:
            raise cursor.error("a sharding of this kind has no devices", at=start)
        _set_kind(sharding, kind)
    elif tiles is None:
        raise cursor.error("expected a kind of sharding or devices=", at=start, expected="a kind of sharding")
    else:
        if isinstance(tiles.devices, list) and len(tiles.devices) == 1 and not subgroups and not replicate:
            raise cursor.error("a tiled sharding has more than one device", at=start)
        if len(subgroups) + replicate > len(tiles.dimensions):
            raise cursor.error("more last tile dimensions than tile dimensions", at=start)
        tiles = tiles._replace(subgroups=[_S.REPLICATED] if replicate else subgroups)
        try:
            canonical = tiles.canonical()
        except LimitExceededError as error:
            raise cursor.error(error.message) from error
        if isinstance(canonical, Tiles):
            canonical.put_into(sharding)
        else:
            _set_kind(sharding, canonical)
    return sharding


def _set_kind(sharding: xla.OpSharding, kind: int) -> None:
    sharding.type = kind


def _read_sharding(cursor: HloCursor) -> bytes:
    return FIELDS.message("sharding", parse_sharding(cursor))


def _read_domain(cursor: HloCursor) -> bytes:
    # XLA keeps the entry of the text in the exit of the proto, and the other way round.
    cursor.expect("{")
    parts: dict[str, bytes] = {}
    while True:
        cursor.skip_space()
        at = cursor.at
        name = cursor.parse_attribute_name()
        if name in parts:
            raise cursor.error(f"{name} is given twice", at=at)
        if name == "kind":
            if cursor.parse_string() != b"sharding":
                raise cursor.error('expected the kind "sharding"', at=at, expected='"sharding"')
            parts[name] = b""
        elif name in ("entry", "exit"):
            side = "exit" if name == "entry" else "entry"
            parts[name] = FIELDS.message(f"domain_{side}_sharding", parse_sharding(cursor))
        else:
            raise cursor.error(f"expected kind, entry or exit, found {name!r}", at=at)
        if not cursor.accept(","):
            break
    cursor.expect("}")
    if len(parts) != 3:
        cursor.fail("kind=, entry= and exit= within the domain")
    return parts["entry"] + parts["exit"]


# -- writing ---------------------------------------------------------------------------------


def sharding_text(sharding: xla.OpSharding, *, metadata: bool = True, depth: int = 0) -> str:
    """The text of a sharding, braces included. InvalidModuleError for tiles that contradict themselves.

    >>> tiled = xla.OpSharding(type=xla.OpSharding.OTHER, tile_assignment_dimensions=[2, 1], tile_assignment_devices=[1, 0])
    >>> sharding_text(tiled)
    '{devices=[2,1]1,0}'
    """
    if sharding.HasField("named_sharding"):
        return f"{{{named_sharding_text(sharding.named_sharding, metadata=metadata)}}}"
    kind = sharding.type
    if kind == _S.TUPLE:
        check("levels of tuples in a sharding", depth, MAX_SHAPE_DEPTH)
        parts = [sharding_text(part, metadata=metadata, depth=depth + 1) for part in sharding.tuple_shardings]
        return f"{{{with_index_comments(parts)}}}"
    is_unreduced = kind == _S.UNREDUCED
    if kind == _S.OTHER:
        text, is_unreduced = _tiled_text(sharding)
    elif kind == _S.MAXIMAL:
        devices = sharding.tile_assignment_devices
        text = f"maximal device={devices[0] if devices else 0}"
    else:
        text = KINDS.text(kind)
    if sharding.is_shard_group:
        group = "shard_like" if sharding.shard_group_type == _S.LIKE else "shard_as"
        text += f" {group} {sharding.shard_group_id}"
    shown: Sequence[xla.OpMetadata] = sharding.metadata
    if is_unreduced:
        shown = [each for each in shown if each.op_type != _REDUCTION]
        shown.append(xla.OpMetadata(op_type=_REDUCTION, op_name=_reduction(sharding)))
    if metadata and shown:
        parts = metadata_texts(shown)
        text += f" metadata={parts[0]}" if len(parts) == 1 else f" metadata={{{', '.join(parts)}}}"
    return f"{{{text}}}"


def _tiled_text(sharding: xla.OpSharding) -> tuple[str, bool]:
    """The text of the canonical form, and whether that is unreduced."""
    tiles = Tiles.of(sharding)
    # XLA reads one tile on one device from a proto as replicated; from text it keeps the tile.
    canonical = _S.REPLICATED if product(tiles.dimensions) == 1 else tiles.canonical()
    if isinstance(canonical, Tiles):
        return canonical.text(), _S.UNREDUCED in canonical.subgroups
    return KINDS.text(canonical), canonical == _S.UNREDUCED


@cached(max_bytes=8 << 20, weigh=lambda key, text: 300 + len(key[0]) + 2 * len(text))
def _serialized_sharding_text(data: bytes, metadata: bool) -> str:
    return sharding_text(_S.FromString(data), metadata=metadata)


def _write_sharding(message: Any, context: Context) -> str:
    data = message.sharding
    return "" if data == ABSENT else f", sharding={_serialized_sharding_text(data, context.show_metadata)}"


def _write_domain(message: Any, _context: Context) -> str:
    entry = _serialized_sharding_text(submessage(message.domain_exit_sharding), False)
    exit_ = _serialized_sharding_text(submessage(message.domain_entry_sharding), False)
    return f', domain={{kind="sharding", entry={entry}, exit={exit_}}}'


DOMAIN: Final = Attribute("domain", _read_domain, _write_domain)
SHARDING: Final = Attribute("sharding", _read_sharding, _write_sharding)
