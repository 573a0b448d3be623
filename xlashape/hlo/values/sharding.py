r"""Shardings: sharding= and domain=. What XLA prints for OpSharding and its kin.

    sharding     := '{' (single | '{' single '}' (',' '{' single '}')* | nothing) '}'
    single       := (kind | assignment | named)  ' shard_as' INT?  ' shard_like' INT?  metadata?
    kind         := 'replicated' | 'manual' | 'unknown' | 'unreduced' | 'maximal' 'device=' INT
    assignment   := 'devices=' ints (INT (',' INT)* | '<=' iota)  last_tile?
    last_tile    := 'last_tile_dim_replicate' | 'last_tile_dims=' '{' kind (',' kind)* '}'
    named        := 'mesh' mesh ',' ('replicated' | '[' dim (',' dim)* ']') (',' ('replicated' | 'unreduced' | 'manual' | 'metadata') '=' …)*
                  | 'maximal_mesh' '[' 'device_id=' INT ']'
    dim          := '{' (axis (',' axis)* (',' '?')? | '?')? '}'
    domain       := '{' 'kind="sharding"' ',' 'entry=' sharding ',' 'exit=' sharding '}'

What is written is made canonical as XLA does it: runs of an iota's dimensions that stay together are merged, a last tile dimension
of one device goes, the kinds of the last tile dimensions are sorted, devices that hold the same data are sorted.
"""

from __future__ import annotations

from xlashape.hlo.lex import HloCursor
from xlashape.hlo.values.mesh import MAX_DEVICES, canonical_iota, parse_axis, parse_iota, parse_mesh
from xlashape.hlo.values.metadata import parse_metadata_messages
from xlashape.math import product
from xlashape.proto import xla
from xlashape.proto.wire import Fields

__all__ = ["parse_domain", "parse_sharding"]

_FIELDS = Fields(xla.HloInstructionProto)
_MAX_LISTED = 1 << 20  # devices that an iota may become when it cannot stay one
_KINDS: dict[str, int] = {
    "replicated": xla.OpSharding.REPLICATED,
    "maximal": xla.OpSharding.MAXIMAL,
    "manual": xla.OpSharding.MANUAL,
    "unknown": xla.OpSharding.UNKNOWN,
    "unreduced": xla.OpSharding.UNREDUCED,
}


# -- sharding= ------------------------------------------------------------------------------


def parse_sharding(cursor: HloCursor) -> xla.OpSharding:
    """A sharding in braces, as `sharding=` and `domain=` have it."""
    return _sharding(cursor, within=False)


def _sharding(cursor: HloCursor, *, within: bool) -> xla.OpSharding:
    cursor.expect("{")
    if not within and (cursor.looking_at("{") or cursor.looking_at("}")):
        found = xla.OpSharding(type=xla.OpSharding.TUPLE)
        if not cursor.accept("}"):
            while True:
                found.tuple_shardings.append(_sharding(cursor, within=True))
                if cursor.accept("}"):
                    break
                cursor.expect(",")
        return found
    start = cursor.at
    found = _named(cursor) or _single(cursor, start)
    cursor.expect("}")
    return found


def _single(cursor: HloCursor, start: int) -> xla.OpSharding:
    sharding = xla.OpSharding()
    kind: int | None = None
    device: int | None = None
    dims: list[int] = []
    devices: list[int] | tuple[list[int], list[int]] | None = None
    last: list[int] = []
    replicate = False
    while not cursor.looking_at("}"):
        cursor.skip_space()
        at = cursor.at
        if cursor.accept("devices="):
            dims = cursor.parse_ints("[", "]", "a number of tiles")
            if any(size < 1 for size in dims) or product(dims) > MAX_DEVICES:
                raise cursor.error(f"tile dimensions must be positive and their product at most {MAX_DEVICES}", at=at)
            devices = _devices(cursor, product(dims))
        elif cursor.accept("device="):
            device = cursor.parse_int("a device")
        elif cursor.accept("last_tile_dims="):
            last = cursor.parse_list(lambda: cursor.parse_word_of(_KINDS, "a kind of sharding"))
        elif cursor.accept("metadata="):
            sharding.metadata.extend(parse_metadata_messages(cursor))
        else:
            word = cursor.parse_word("a kind of sharding, devices=, last_tile_dims= or metadata=")
            if word in _KINDS:
                kind = _KINDS[word]
            elif word == "last_tile_dim_replicate":
                replicate = True
            elif word in ("shard_as", "shard_like"):
                sharding.is_shard_group = True
                sharding.shard_group_id = cursor.parse_int("a shard group")
                sharding.shard_group_type = xla.OpSharding.AS if word == "shard_as" else xla.OpSharding.LIKE
            else:
                raise cursor.error(
                    f"expected a kind of sharding, found {word!r}", at=at, expected="a kind of sharding", found=word
                )
    if kind == xla.OpSharding.MAXIMAL:
        if device is None:
            raise cursor.error("a maximal sharding has one device", at=start, expected="device=")
        sharding.type = xla.OpSharding.MAXIMAL
        sharding.tile_assignment_devices.append(device)
    elif kind is not None:
        if device is not None or devices is not None:
            raise cursor.error("a sharding of this kind has no devices", at=start)
        sharding.type = kind
    elif devices is None:
        raise cursor.error("expected a kind of sharding or devices=", at=start, expected="a kind of sharding")
    else:
        if product(dims) == 1 and not last and not replicate:
            raise cursor.error("a tiled sharding has more than one device", at=start)
        if len(last) + replicate > len(dims):
            raise cursor.error("more last tile dimensions than tile dimensions", at=start)
        _fill_assignment(cursor, sharding, dims, devices, [xla.OpSharding.REPLICATED] if replicate else last)
    return sharding


def _devices(cursor: HloCursor, count: int) -> list[int] | tuple[list[int], list[int]]:
    """The devices as a list, or an iota as (reshape dims, transpose permutation)."""
    cursor.skip_space()
    at = cursor.at
    if cursor.accept("<="):
        dims, perm = parse_iota(cursor)
        if product(dims) != count:
            raise cursor.error(f"{product(dims)} devices for {count} tiles", at=at)
        return dims, perm
    devices = [cursor.parse_int("a device")]
    while cursor.accept(","):
        devices.append(cursor.parse_int("a device"))
    if len(devices) != count:
        raise cursor.error(f"{len(devices)} devices for {count} tiles", at=at)
    return devices


def _fill_assignment(
    cursor: HloCursor,
    sharding: xla.OpSharding,
    dims: list[int],
    devices: list[int] | tuple[list[int], list[int]],
    last: list[int],
) -> None:
    """Sets a tiled sharding, with `last` the kinds of the last tile dimensions, in canonical form."""
    if last:
        dims, devices, last = _sort_last(cursor, dims, devices, last)
    if len(last) == 1 and product(dims[:-1]) == 1:
        # One kind holds every device.
        sharding.type = last[0]
        return
    front = len(dims) - len(last)
    kept = [place for place in range(len(last)) if dims[front + place] != 1]
    dims, last = dims[:front] + [dims[front + place] for place in kept], [last[place] for place in kept]
    sharding.type = xla.OpSharding.OTHER
    sharding.tile_assignment_dimensions.extend(dims)
    if isinstance(devices, tuple):
        reshape, perm = canonical_iota(*devices)
        sharding.iota_reshape_dims.extend(reshape)
        sharding.iota_transpose_perm.extend(perm)
    else:
        if last and last[-1] == xla.OpSharding.REPLICATED:
            group = dims[-1]
            devices = [one for at in range(0, len(devices), group) for one in sorted(devices[at : at + group])]
        sharding.tile_assignment_devices.extend(devices)
    if last == [xla.OpSharding.REPLICATED]:
        sharding.replicate_on_last_tile_dim = True
    else:
        sharding.last_tile_dims.extend(last)


def _sort_last(
    cursor: HloCursor, dims: list[int], devices: list[int] | tuple[list[int], list[int]], last: list[int]
) -> tuple[list[int], list[int] | tuple[list[int], list[int]], list[int]]:
    """Last tile dimensions sorted by kind, 'replicated' last, those of one kind merged."""
    front = len(dims) - len(last)
    order = sorted(range(len(last)), key=lambda place: (last[place] == xla.OpSharding.REPLICATED, last[place]))
    perm = [*range(front), *(front + place for place in order)]
    if perm != list(range(len(dims))):
        moved = _transpose(dims, devices, perm)
        if moved is None:
            raise cursor.error(f"more than {_MAX_LISTED} devices of an iota in an order that is none")
        devices = moved
    merged_dims, merged = dims[:front], list[int]()
    for place in order:
        if merged and merged[-1] == last[place]:
            merged_dims[-1] *= dims[front + place]
        else:
            merged.append(last[place])
            merged_dims.append(dims[front + place])
    return merged_dims, devices, merged


def _transpose(
    dims: list[int], devices: list[int] | tuple[list[int], list[int]], perm: list[int]
) -> list[int] | tuple[list[int], list[int]] | None:
    """The devices of the transposed tiles; an iota stays one if its dimensions are the tiles'. None: too many to list."""
    if isinstance(devices, tuple):
        reshape, iota_perm = canonical_iota(*devices)
        if len(reshape) == 1:
            return dims, perm
        split = _split(dims, [reshape[dim] for dim in iota_perm])
        if split is not None:
            return _transposed_iota(split, iota_perm, perm)
        if product(dims) > _MAX_LISTED:
            return None
        devices = _iota_devices(reshape, iota_perm)
    return _permuted(devices, dims, perm)


def _split(first: list[int], second: list[int]) -> list[tuple[int, int, int]] | None:
    """Two factorings of one number into a common finer one: (size, place in the first, place in the second), or None.

    >>> _split([2, 4], [4, 2])
    [(2, 0, 0), (2, 1, 0), (2, 1, 1)]
    """
    found: list[tuple[int, int, int]] = []
    one, other = 0, 0
    left, right = list(first), list(second)
    while one < len(left) and other < len(right):
        if left[one] == 1:
            one += 1
            continue
        if right[other] == 1:
            other += 1
            continue
        # The more minor parts of a dimension come last, so both are read from the major end.
        size = min(left[one], right[other])
        if left[one] % size or right[other] % size:
            return None
        found.append((size, one, other))
        left[one] //= size
        right[other] //= size
    return found


def _transposed_iota(
    split: list[tuple[int, int, int]], iota_perm: list[int], perm: list[int]
) -> tuple[list[int], list[int]]:
    """An iota whose dimensions are split along the tiles', the tiles transposed by `perm`."""
    # Pieces in the order of the iota's own dimensions make the finer reshape.
    order = sorted(range(len(split)), key=lambda piece: (iota_perm[split[piece][2]], piece))
    number = {piece: place for place, piece in enumerate(order)}
    moved = [number[piece] for dim in perm for piece in range(len(split)) if split[piece][1] == dim]
    return [split[piece][0] for piece in order], moved


def _permuted(values: list[int], dims: list[int], perm: list[int]) -> list[int]:
    strides = [product(dims[dim + 1 :]) for dim in range(len(dims))]
    positions = [0]
    for dim in perm:
        positions = [start + step * strides[dim] for start in positions for step in range(dims[dim])]
    return [values[position] for position in positions]


def _iota_devices(reshape: list[int], perm: list[int]) -> list[int]:
    return _permuted(list(range(product(reshape))), reshape, perm)


def _named(cursor: HloCursor) -> xla.OpSharding | None:
    at = cursor.at
    if cursor.accept("maximal_mesh"):
        cursor.expect("[")
        cursor.expect("device_id=")
        device = cursor.parse_int("a device")
        cursor.expect("]")
        found = xla.OpSharding()
        found.named_sharding.mesh.device_ids.append(device)
    elif cursor.accept("mesh"):
        found = xla.OpSharding()
        named = found.named_sharding
        mesh, numbers = parse_mesh(cursor)
        named.mesh.CopyFrom(mesh)
        cursor.expect(",")
        used: list[xla.AxisRefProto] = []

        def axis() -> xla.AxisRefProto:
            used.append(parse_axis(cursor, mesh, numbers))
            return used[-1]

        def dimension() -> None:
            dim = named.dim_shardings.add()
            cursor.expect("{")
            dim.is_closed = True
            while not cursor.accept("}"):
                if cursor.accept("?"):
                    dim.is_closed = False
                    cursor.expect("}")
                    return
                dim.axes.append(axis())
                if not cursor.accept(","):
                    cursor.expect("}")
                    return

        if not cursor.accept("replicated"):
            cursor.parse_list(dimension, "[", "]")
        lists = {"replicated": named.replicated_axes, "unreduced": named.unreduced_axes, "manual": named.manual_axes}
        while cursor.accept(","):
            here = cursor.at
            name = cursor.parse_attribute_name()
            if name == "metadata":
                named.metadata.extend(parse_metadata_messages(cursor))
            elif name in lists:
                lists[name].extend(cursor.parse_list(axis))
            else:
                raise cursor.error(f"expected replicated, unreduced, manual or metadata, found {name!r}", at=here)
        whole = [one.mesh_axis_index for one in used if not one.HasField("sub_axis_info")]
        parts = {one.mesh_axis_index for one in used if one.HasField("sub_axis_info")}
        if len(set(whole)) != len(whole) or parts & set(whole):
            raise cursor.error("an axis of the mesh is used twice", at=at)
    else:
        return None
    found.type = xla.OpSharding.REPLICATED
    return found


def parse_domain(cursor: HloCursor) -> bytes:
    """'{' 'kind="sharding"' ',' 'entry=' sharding ',' 'exit=' sharding '}'. The text's entry is the proto's exit, and the other way."""
    cursor.expect("{")
    found: dict[str, bytes] = {}
    while True:
        cursor.skip_space()
        at = cursor.at
        name = cursor.parse_attribute_name()
        if name in found:
            raise cursor.error(f"{name} stands there twice", at=at)
        if name == "kind":
            if cursor.parse_string() != b"sharding":
                raise cursor.error('expected the kind "sharding"', at=at, expected='"sharding"')
            found[name] = b""
        elif name in ("entry", "exit"):
            side = "exit" if name == "entry" else "entry"
            found[name] = _FIELDS.message(f"domain_{side}_sharding", parse_sharding(cursor))
        else:
            raise cursor.error(f"expected kind, entry or exit, found {name!r}", at=at)
        if not cursor.accept(","):
            break
    cursor.expect("}")
    if len(found) != 3:
        cursor.fail("kind=, entry= and exit= within the domain")
    return found["entry"] + found["exit"]
