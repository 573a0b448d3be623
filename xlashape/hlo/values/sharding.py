r"""How values are distributed over devices: the attributes `sharding={devices=[2,1]<=[2]}` and `domain`.

sharding   := '{' (single | '{' single '}' (',' '{' single '}')* | nothing) '}'
single     := (kind | 'maximal device=' INT | tiled | named) (' shard_as ' INT | ' shard_like ' INT)?
              (' metadata=' metadata)?
kind       := 'replicated' | 'manual' | 'unreduced' | 'unknown' | 'unknown_' INT
domain     := '{' 'kind="sharding"' ',' 'entry=' sharding ',' 'exit=' sharding '}'

The grammars of `tiled`, `named` and `metadata` are in tiled_sharding, named_sharding and metadata. A list of shardings
is the sharding of a tuple; when it is written, a comment gives the index of every fifth element: `/*index=5*/`. A tiled
sharding is made canonical (`Tiles.canonical`) when text is read and when it is written. `Sharding` is the value that
users hold. It also answers which part of an array each device holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError, Message

from xlashape.base.caches import cached
from xlashape.base.frozen import FrozenValue, set_field
from xlashape.base.math import ceil_div, product
from xlashape.errors import InvalidArgumentError, InvalidModuleError, LimitExceededError
from xlashape.hlo.tokens import HloCursor, with_index_comments
from xlashape.hlo.values.attribute import FIELDS, Attribute, Codec, Context, message_value, replace_known, whole
from xlashape.hlo.values.devices import mesh_device_ids, mesh_devices_along
from xlashape.hlo.values.enums import parse_unknown
from xlashape.hlo.values.metadata import metadata_texts, parse_metadata_messages
from xlashape.hlo.values.named_sharding import named_sharding_text, parse_named_sharding
from xlashape.hlo.values.tiled_sharding import KINDS, Tiles, read_tiles
from xlashape.limits import MAX_SHAPE_DEPTH, check
from xlashape.proto import xla
from xlashape.shape import UNBOUNDED_SIZE, Shape

_S = xla.OpSharding

# XLA keeps the reduction of an unreduced sharding in the metadata of the sharding, as an entry of this op_type.
_REDUCTION: Final = "sdy::reduction_op"
_REDUCTIONS: Final = ("SUM", "MAX", "MIN")


# -- reading ---------------------------------------------------------------------------------


def parse_sharding(cursor: HloCursor) -> xla.OpSharding:
    """Reads the sharding at the cursor, in canonical form."""
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
    """Reads the sharding of one array, whose opening brace has been consumed."""
    start = cursor.at
    sharding = parse_named_sharding(cursor) or _parse_unnamed(cursor, start)
    cursor.expect("}")
    if _is_unreduced(sharding):
        sharding.metadata.add(op_type=_REDUCTION, op_name=_reduction(sharding))
    return sharding


def _is_unreduced(sharding: xla.OpSharding) -> bool:
    return sharding.type == _S.UNREDUCED or _S.UNREDUCED in sharding.last_tile_dims


def _reduction(sharding: xla.OpSharding) -> str:
    """How the values that the devices hold are to be combined, from the metadata of an unreduced sharding. SUM if the
    metadata does not have it."""
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
        if isinstance(tiles.devices, list) and len(tiles.devices) == 1:
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
    # XLA keeps the entry of the text in domain_exit_sharding of the proto, and the exit in domain_entry_sharding.
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

    >>> tiled = xla.OpSharding(
    ...     type=xla.OpSharding.OTHER, tile_assignment_dimensions=[2, 1], tile_assignment_devices=[1, 0]
    ... )
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
    """The text of the canonical form of a tiled sharding, and whether the canonical form is unreduced."""
    tiles = Tiles.of(sharding)
    # In a proto, XLA takes one tile on one device for a replicated sharding. From text it keeps the tile.
    canonical = _S.REPLICATED if product(tiles.dimensions) == 1 else tiles.canonical()
    if isinstance(canonical, Tiles):
        return canonical.text(), _S.UNREDUCED in canonical.subgroups
    return KINDS.text(canonical), canonical == _S.UNREDUCED


# -- the value -------------------------------------------------------------------------------


class Shard(NamedTuple):
    """The part of an array that a device holds.

    >>> Shard((2, 0), (2, 4)).slices
    (slice(2, 4, None), slice(0, 4, None))
    """

    offset: tuple[int, ...]
    """The index of the part's first element in the array."""
    sizes: tuple[int, ...]
    """The sizes of the part; 0 for a dimension of which the device's tile is empty."""

    @property
    def slices(self) -> tuple[slice, ...]:
        """The index that selects the part from a NumPy array."""
        return tuple([slice(first, first + size) for first, size in zip(self.offset, self.sizes, strict=True)])


class _Assignment(NamedTuple):
    """The tiles of an array and the devices that hold them."""

    counts: tuple[int, ...] | None
    """The number of tiles of each dimension; None where an array of any rank is one tile."""
    holders: list[list[int]] | None
    """The devices of each tile in row-major order; None where the sharding does not name its devices."""


class Sharding(FrozenValue):
    """How a value is distributed over devices.

    >>> sharding = Sharding.parse("{devices=[2,1,2]<=[4] last_tile_dim_replicate}")
    >>> str(sharding), sharding.kind, sharding.tile_counts, sharding.devices
    ('{devices=[2,1,2]<=[4] last_tile_dim_replicate}', 'tiled', (2, 1), (0, 1, 2, 3))
    >>> shape = Shape.parse("f32[5,8]")
    >>> str(sharding.shard_shape(shape)), sharding.tile_of(3, shape), sharding.devices_of((0, 0), shape)
    ('f32[3,8]{1,0}', Shard(offset=(3, 0), sizes=(2, 8)), (0, 1))

    A dimension of n elements in k tiles has tiles of n / k elements, rounded up; the last ones are smaller, or empty.

    - `serialized`: the `xla.OpSharding` as bytes. `parse` gives the canonical form; `from_proto` keeps the message
      unchanged.
    """

    __slots__ = ("_assigned", "serialized")
    _fields = ("serialized",)
    serialized: bytes
    _assigned: _Assignment

    def __init__(self, serialized: bytes = b"") -> None:
        set_field(self, "serialized", bytes(serialized))

    @classmethod
    def parse(cls, text: str) -> Sharding:
        """The sharding that `text`, in the form of HLO text with its braces, describes. Raises ParseError."""
        return whole(cls.read, text)

    @classmethod
    def read(cls, cursor: HloCursor) -> Sharding:
        """Reads the sharding at the cursor, in canonical form."""
        return cls(parse_sharding(cursor).SerializeToString(deterministic=True))

    def write(self) -> str:
        """The text, such as `{devices=[2,1]<=[2]}`. InvalidModuleError for tiles that contradict themselves."""
        return sharding_text(self.to_proto())

    @classmethod
    def of_proto(cls, message: xla.OpSharding) -> Sharding:
        """The sharding of a message, not made canonical."""
        return cls(message.SerializeToString(deterministic=True))

    @classmethod
    def from_proto(cls, value: bytes | Message) -> Sharding:
        """The sharding of an `xla.OpSharding`, or of its bytes. InvalidModuleError for other bytes."""
        data = value if isinstance(value, bytes) else value.SerializeToString(deterministic=True)
        try:
            _S.FromString(data)
        except DecodeError:
            raise InvalidModuleError("these bytes are not an xla.OpSharding", field="sharding") from None
        return cls(data)

    def to_proto(self) -> xla.OpSharding:
        """A new `xla.OpSharding`."""
        return _S.FromString(self.serialized)

    @property
    def kind(self) -> str:
        """`tiled`, `named`, `tuple`, `replicated`, `maximal`, `manual`, `unreduced` or `unknown`."""
        proto = self.to_proto()
        if proto.HasField("named_sharding"):
            return "named"
        return {_S.OTHER: "tiled", _S.TUPLE: "tuple"}.get(proto.type) or KINDS.text(proto.type)

    @property
    def elements(self) -> tuple[Sharding, ...]:
        """The shardings of a tuple's leaves. Empty for a sharding that is not of kind `tuple`."""
        return tuple([Sharding.from_proto(part) for part in self.to_proto().tuple_shardings])

    @property
    def tile_counts(self) -> tuple[int, ...] | None:
        """The number of tiles of each dimension of the array; None where an array of any rank is one tile.

        InvalidArgumentError for the sharding of a tuple, and for one of unknown kind.
        """
        return self._assignment.counts

    @property
    def devices(self) -> tuple[int, ...] | None:
        """The devices that hold a tile, ascending; None where the sharding does not name its devices. Raises as
        `tile_counts` does.
        """
        holders = self._assignment.holders
        return None if holders is None else tuple(sorted({device for group in holders for device in group}))

    def shard_shape(self, shape: Shape) -> Shape:
        """The shape of the part that one device holds, padding included where the tiles do not divide a dimension.

        For a tuple shape, each leaf has its sharding in `elements`. A sharding of another kind than `tuple` holds for
        all leaves.

        >>> str(Sharding.parse("{{replicated}, {devices=[2]<=[2]}}").shard_shape(Shape.parse("(f32[4], s32[3])")))
        '(f32[4]{0}, s32[2]{0})'
        """
        if not shape.is_tuple:
            return self._leaf_shard_shape(shape)
        leaves = list(shape.leaves())
        shardings = list(self.elements) if self.kind == "tuple" else [self] * len(leaves)
        if len(shardings) != len(leaves):
            raise InvalidArgumentError(f"{len(shardings)} shardings for {len(leaves)} leaves of {shape}", field="shape")
        parts = iter([s._leaf_shard_shape(leaf) for s, leaf in zip(shardings, leaves, strict=True)])

        def rebuilt(inner: Shape) -> Shape:
            return (
                inner.replace(tuple_shapes=[rebuilt(e) for e in inner.tuple_shapes]) if inner.is_tuple else next(parts)
            )

        return rebuilt(shape)

    def _leaf_shard_shape(self, shape: Shape) -> Shape:
        if not shape.is_array:
            return shape
        sizes = [
            size if size == UNBOUNDED_SIZE else ceil_div(size, count)
            for size, count in zip(shape.dimensions, self.counts_for(shape), strict=True)
        ]
        return shape.replace(dimensions=sizes)

    def tile_of(self, device: int, shape: Shape) -> Shard | None:
        """The part of an array that a device holds; None for a device that holds no part.

        With a manual or unreduced sharding every device holds the whole array: the array in the program then stands for
        one device's part or summand. InvalidArgumentError unless `shape` is an array of static or bounded sizes and of
        the sharding's rank.
        """
        counts = self.counts_for(shape)
        _require_bounded(shape)
        holders = self._assignment.holders
        tile = 0 if holders is None else next((i for i, group in enumerate(holders) if device in group), None)
        if tile is None:
            return None
        offset: list[int] = []
        sizes: list[int] = []
        for size, count in zip(reversed(shape.dimensions), reversed(counts), strict=True):
            tile, coordinate = divmod(tile, count)
            length = ceil_div(size, count)
            first = min(coordinate * length, size)
            offset.insert(0, first)
            sizes.insert(0, min(length, size - first))
        return Shard(tuple(offset), tuple(sizes))

    def devices_of(self, index: tuple[int, ...], shape: Shape) -> tuple[int, ...] | None:
        """The devices that hold the element at `index`, ascending; None where the sharding does not name its
        devices."""
        counts = self.counts_for(shape)
        _require_bounded(shape)
        inside = len(index) == shape.rank and all(0 <= i < n for i, n in zip(index, shape.dimensions, strict=True))
        if not inside:
            raise InvalidArgumentError(f"index {tuple(index)} is outside {shape}", field="index")
        holders = self._assignment.holders
        if holders is None:
            return None
        tile = 0
        for i, size, count in zip(index, shape.dimensions, counts, strict=True):
            tile = tile * count + i // ceil_div(size, count)
        return tuple(sorted(holders[tile]))

    @property
    def holders(self) -> list[list[int]] | None:
        """The devices that hold each tile, tiles in row-major order; None where the sharding does not name its devices.
        Raises as `tile_counts` does.
        """
        return self._assignment.holders

    def counts_for(self, shape: Shape) -> tuple[int, ...]:
        """The number of tiles of each dimension of an array. Raises InvalidArgumentError where the sharding does not
        fit it.
        """
        if not shape.is_array:
            raise InvalidArgumentError(f"{shape} is not an array", field="shape")
        counts = self._assignment.counts
        if counts is None:
            return (1,) * shape.rank
        if len(counts) != shape.rank:
            raise InvalidArgumentError(f"{self} divides {len(counts)} dimensions, not those of {shape}", field="shape")
        return counts

    @property
    def _assignment(self) -> _Assignment:
        try:
            return self._assigned
        except AttributeError:
            assigned = self._assign()
            set_field(self, "_assigned", assigned)
            return assigned

    def _assign(self) -> _Assignment:
        proto = self.to_proto()
        if proto.HasField("named_sharding"):
            return _named_assignment(proto.named_sharding)
        if proto.type == _S.OTHER:
            return _tiled_assignment(Tiles.of(proto))
        if proto.type == _S.MAXIMAL:
            return _Assignment(None, [list(proto.tile_assignment_devices) or [0]])
        if proto.type in (_S.REPLICATED, _S.MANUAL, _S.UNREDUCED):
            return _Assignment(None, None)
        raise InvalidArgumentError(f"a sharding of kind {self.kind} does not tile one array", field="sharding")

    def __str__(self) -> str:
        return self.write()

    def __repr__(self) -> str:
        return f"Sharding({str(self)!r})"


def _require_bounded(shape: Shape) -> None:
    if UNBOUNDED_SIZE in shape.dimensions:
        raise InvalidArgumentError(f"{shape} has an unbounded dimension, so no sizes of tiles", field="shape")


def _tiled_assignment(tiles: Tiles) -> _Assignment:
    rank = len(tiles.dimensions) - len(tiles.subgroups)
    size = product(tiles.dimensions[rank:])
    devices = tiles.devices if isinstance(tiles.devices, list) else tiles.devices.devices()
    holders = [devices[first : first + size] for first in range(0, len(devices), size)]
    return _Assignment(tuple(tiles.dimensions[:rank]), holders)


def _named_assignment(named: xla.NamedShardingProto) -> _Assignment:
    mesh = named.mesh
    if not mesh.axes:
        # A single device has a mesh without axes; an empty mesh names no devices.
        return _Assignment(None, [list(mesh.device_ids)] if mesh.device_ids else None)
    if not named.dim_shardings:
        return _Assignment(None, [mesh_device_ids(mesh)])
    axes = [axis for dimension in named.dim_shardings for axis in dimension.axes]
    devices, sizes = mesh_devices_along(mesh, axes)
    count = product(sizes)
    remaining = iter(sizes)
    counts = tuple([product([next(remaining) for _ in dimension.axes]) for dimension in named.dim_shardings])
    return _Assignment(counts, [devices[tile::count] for tile in range(count)])


# -- attributes ------------------------------------------------------------------------------


# Caching the texts saves a twentieth of the time that printing Llama 3.1 takes.
@cached(max_bytes=8 << 20, weigh=lambda key, text: 300 + len(key[0]) + 2 * len(text))
def _serialized_sharding_text(data: bytes, metadata: bool) -> str:
    return sharding_text(_S.FromString(data), metadata=metadata)


def _write_sharding(message: xla.HloInstructionProto, context: Context) -> str:
    if not message.HasField("sharding"):
        return ""
    return f", sharding={_serialized_sharding_text(message.sharding.SerializeToString(), context.show_metadata)}"


def _write_domain(message: xla.HloInstructionProto, _context: Context) -> str:
    entry = sharding_text(message.domain_exit_sharding, metadata=False)
    exit_ = sharding_text(message.domain_entry_sharding, metadata=False)
    return f', domain={{kind="sharding", entry={entry}, exit={exit_}}}'


class Domain(NamedTuple):
    """The value of the attribute `domain`: the shardings on its two sides."""

    entry: Sharding
    exit: Sharding


def _get_domain(instruction: xla.HloInstructionProto) -> Domain:
    # As in `_read_domain`: the entry of the text is domain_exit_sharding of the proto.
    return Domain(
        Sharding.of_proto(instruction.domain_exit_sharding), Sharding.of_proto(instruction.domain_entry_sharding)
    )


def _put_domain(instruction: xla.HloInstructionProto, value: Any) -> None:
    entry, exit_ = value
    replace_known(instruction.domain_exit_sharding, entry.to_proto())
    replace_known(instruction.domain_entry_sharding, exit_.to_proto())


DOMAIN: Final = Attribute("domain", _read_domain, _write_domain, Codec(_get_domain, _put_domain, "a Domain"))
SHARDING: Final = Attribute("sharding", _read_sharding, _write_sharding, message_value("sharding", Sharding))
