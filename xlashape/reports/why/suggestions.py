"""Changes that make the buffer of an array smaller, each with the changed array, the exact size of its buffer, and how
to write it in JAX.

If the tiles of an array have the form that TPUs give (`tpu_layout.has_tpu_tiles`), the changed array has the tiles that
a TPU gives to it; otherwise it has the tiles of the array. Changes that do not save memory are left out.

A reshape keeps the row-major number of each element. Dimensions that are adjacent both in the shape and in memory form
a *run*: within it row-major order is the order of memory, so that merging its dimensions, or splitting it at other
places, keeps the linear order of all elements. Dimensions of size 1 have no order, and can be dropped. These are the
reshapes for which `shape_util.reshape_is_bitcast` is true of the arrays without their tiles. If the tiles differ, the
device copies the array.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from xlashape.base.math import byte_text, product, round_up
from xlashape.errors import XlashapeError
from xlashape.limits import spend
from xlashape.reports.why.causes import array_bytes
from xlashape.shape import Layout, PrimitiveType, Shape, Target, tpu_layout
from xlashape.shape.arguments import array_of
from xlashape.shape.parts.target import TPU
from xlashape.shape.tiling.padding import padding_report

_KINDS: Final = ("order", "merge", "split", "reshape", "tiles", "packing", "round", "type")
"""The kinds of suggestions, those that change less first. Suggestions of equal size come in this order."""
_LOSSY: Final = ("round", "type")
_MOST_OF_A_KIND: Final = 3
_RESHAPES: Final = ("merge", "split", "reshape")
_MOST_RESHAPES: Final = 4
_MOST_RANK: Final = 24
"""Orders and reshapes of arrays with more dimensions are not searched."""

_NARROWER: Final = {
    "f64": "f32 bf16",
    "f32": "bf16 f8e4m3fn",
    "bf16": "f8e4m3fn",
    "f16": "f8e4m3fn",
    "c128": "c64",
    "s64": "s32 s16",
    "s32": "s16 s8",
    "s16": "s8 s4",
    "s8": "s4 s2",
    "u64": "u32 u16",
    "u32": "u16 u8",
    "u16": "u8 u4",
    "u8": "u4 u2",
}
"""Spelling of a type → the next narrower types of the same kind. All floats of 8 bits have f4e2m1fn as the next
narrower type. It is not offered for 16 bits, since too few values would fit it.
"""

_JAX_TYPES: Final = {"s": "int", "u": "uint", "f": "float", "bf": "bfloat", "c": "complex"}

_SPLITS: Final = 8
"""The most ways to split a run that are tried: those with the least padding."""
_LARGEST_PRIME: Final = 1 << 10
"""Larger prime factors of a size are not searched."""
_MOST_DIVISORS: Final = 1_024


class Suggestion(NamedTuple):
    """Something that makes the buffer smaller.

    `kind` is one of

    - "order": another order of the dimensions in memory; the array stays the same
    - "merge", "split", "reshape": other dimensions with the same elements in the same order
    - "tiles": other tiles, those that a TPU would use
    - "packing": elements below 8 bits share bytes, or need no more bits than their type has
    - "round": a dimension is reduced, to a multiple of a tile's size or of 2 or 4; the array loses elements
    - "type": a narrower element type; the values must fit it
    """

    kind: str
    text: str
    jax: str
    """What to write in JAX for an array `x`; empty where only the compiler can make the change. The uses of `x` have to
    be adapted.
    """
    shape: Shape
    """The array with this change."""
    bytes: int
    """The bytes of its buffer, computed as for the array that is explained."""
    saved_bytes: int
    """How many bytes smaller that buffer is."""
    is_lossless: bool
    """Whether the array keeps all its elements and their values."""
    name: str = ""
    """The name of the buffer, where an answer has several; else empty."""

    @property
    def buffer_bytes(self) -> int:
        """The bytes of the changed array's buffer."""
        return self.bytes

    @property
    def share(self) -> float:
        """The bytes of the changed buffer ÷ those of the buffer as it is."""
        now = self.bytes + self.saved_bytes
        return self.bytes / now if now else 1.0

    def __str__(self) -> str:
        how = f"{self.jax}, {self.text}" if self.jax else self.text
        return f"{how}: {byte_text(self.bytes)}, {self.share:.1%} of now"


def suggestion_lines(suggestions: Iterable[Suggestion]) -> list[tuple[str, str]]:
    """Lines of suggestions for people, each as its heading and its text. Suggestions of one size share a line. The
    heading of a line is empty if the line before has the same.
    """
    groups: dict[tuple[bool, int], list[Suggestion]] = {}
    for one in suggestions:
        groups.setdefault((one.is_lossless, one.bytes), []).append(one)
    lines: list[tuple[str, str]] = []
    last_head = ""
    for (is_lossless, size), group in groups.items():
        head = "smaller" if is_lossless else "lossy"
        ways = [one.jax.replace(" ", "\xa0") or one.text for one in group]
        ways = ways if len(ways) == 1 else [*ways[:-2], f"{ways[-2]} or {ways[-1]}"]
        lines.append(
            ("" if head == last_head else head, f"{byte_text(size)}, {group[0].share:.1%} of now: {', '.join(ways)}")
        )
        last_head = head
    return lines


class _Change(NamedTuple):
    """A change to be measured. Its fields are those of `Suggestion`."""

    kind: str
    text: str
    jax: str
    shape: Shape


def suggestions_for(shape: Shape, target: Target | None = None, types: Iterable[str] = ()) -> tuple[Suggestion, ...]:
    """Changes that make the buffer of an array smaller.

    First come those that keep all values and can be written in JAX, then those that only the compiler can make, of each
    the smallest buffer first; then those that lose something, the largest buffer first, since it loses least. Of equal
    sizes the one that changes less comes first. `types` are further element types to consider, such as f4e2m1fn.

    >>> [one.jax for one in suggestions_for(Shape.parse("s32[1024,4]{1,0:T(8,128)}"))[:2]]
    ['x.transpose(1, 0)', 'x.reshape(4096)']
    """
    array = array_of(shape)
    now = array_bytes(array, target)
    best: dict[Shape, Suggestion] = {}
    for change in _candidates(array, target, types):
        spend(32)
        try:
            size = array_bytes(change.shape, target)
        except XlashapeError:  # the size of a changed array may exceed int64
            continue
        if size < now and change.shape not in best:
            best[change.shape] = Suggestion(*change, size, now - size, change.kind not in _LOSSY)
    ranked = sorted(
        best.values(),
        key=lambda one: (
            not one.is_lossless,
            not one.jax,
            one.bytes if one.is_lossless else -one.bytes,
            _KINDS.index(one.kind),
            one.text,
        ),
    )
    shown: list[Suggestion] = []
    counts: dict[str, int] = {}
    written: set[str] = set()
    for one in ranked:
        if one.jax in written:  # the same code, with tiles that waste more
            continue
        if one.jax:
            written.add(one.jax)
        group = "reshape" if one.kind in _RESHAPES else one.kind
        counts[group] = counts.get(group, 0) + 1
        if counts[group] <= (_MOST_RESHAPES if group == "reshape" else _MOST_OF_A_KIND):
            shown.append(one)
    return tuple(shown)


def _candidates(array: Shape, target: Target | None, types: Iterable[str]) -> Iterator[_Change]:
    """All changes to be measured, whether they save memory or not."""
    tiler = _Tiler(array, target)
    if 0 not in array.dimensions:
        if array.rank <= _MOST_RANK and (target is None or target.counts_padding):
            yield from _orders(array, tiler)
            yield from _reshapes(array, tiler)
            yield from _rounded(array, tiler)
        yield from _packed(array)
        yield from _narrower(array, tiler, types)


class _Tiler:
    """Gives changed arrays their tiles."""

    def __init__(self, array: Shape, target: Target | None) -> None:
        self.layout = array.layout or Layout.default(array.rank)
        self.is_tpu = tpu_layout.has_tpu_tiles(array)
        self.target = target if target is not None and target.is_tpu else TPU

    def __call__(self, changed: Shape) -> Shape:
        """Adds tiles to the layout of a changed array, which has an order of dimensions and no tiles yet."""
        layout = changed.layout or Layout.default(changed.rank)
        tiles = self.layout.tiles
        if self.is_tpu:
            tiles = tpu_layout.default_tiles(
                changed.element_type, changed.dimensions, layout.minor_to_major, self.target
            )
        return changed.replace(layout=layout.replace(tiles=tiles))

    def tile_sizes(self) -> tuple[int, int]:
        """The sizes of the first tile over the second most minor and the most minor dimension, 1 where there is none;
        8 and 128 for tiles of a TPU."""
        sizes = self.layout.tiles[0].dimensions if self.layout.tiles else ()
        rows, lanes = (1, 1, *sizes)[-2:] if len(sizes) < 2 else sizes[-2:]
        if self.is_tpu:
            rows, lanes = 8, 128
        return max(1, rows), max(1, lanes)


def _in_order(array: Shape, order: tuple[int, ...]) -> Shape:
    """The array with its dimensions in another minor-to-major order, without tiles."""
    layout = array.layout or Layout.default(array.rank)
    return array.replace(layout=layout.replace(minor_to_major=order, tiles=(), split_configs=()))


def _orders(array: Shape, tiler: _Tiler) -> Iterator[_Change]:
    """Other orders of the dimensions in memory, and for the array's own order the tiles that a TPU gives."""
    own = tiler.layout.minor_to_major
    if tiler.is_tpu:
        for minor in own:
            for second in own:
                if minor != second:
                    order = (minor, second, *[d for d in own if d not in (minor, second)])
                    changed = tiler(_in_order(array, order))
                    if order == own:
                        tiles = "".join(map(str, changed.layout.tiles)) if changed.layout is not None else ""
                        yield _Change("tiles", f"tiles {tiles}", "", changed)
                    else:
                        yield _Change("order", f"order {changed.layout}", _jax_order(order), changed)
    report = padding_report(array)
    for order in () if report.is_best else report.best_orders:
        changed = array.replace(layout=tiler.layout.replace(minor_to_major=order, split_configs=()))
        yield _Change("order", f"order {changed.layout}", _jax_order(order), changed)


def _reshapes(array: Shape, tiler: _Tiler) -> Iterator[_Change]:
    """Other dimensions with the same elements in the same order."""
    if not tiler.layout.tiles:
        return
    for reshaped in islice(free_reshapes(array, *tiler.tile_sizes()), 1_000):
        changed = tiler(reshaped.shape)
        numbers = ", ".join(map(str, reshaped.dimensions))
        dimensions = f"dimension{'s' if len(reshaped.dimensions) > 1 else ''} {numbers}"
        if reshaped.kind == "merge" and all(array.dimensions[d] == 1 for d in reshaped.dimensions):
            verb, jax = "drop", f"x.squeeze({_tuple(reshaped.dimensions)})"
        else:
            verb, jax = reshaped.kind, f"x.reshape({', '.join(map(str, changed.dimensions))})"
        yield _Change(reshaped.kind, f"{verb} {dimensions}: {changed}", jax, changed)


def _jax_order(minor_to_major: tuple[int, ...]) -> str:
    """What to write in JAX so that an array gets this order: a transpose, or for its own order of dimensions a layout
    of jax.experimental.layout.
    """
    order = minor_to_major[::-1]
    numbers = ", ".join(map(str, order))
    return f"Layout(major_to_minor=({numbers}))" if order == tuple(range(len(order))) else f"x.transpose({numbers})"


def _tuple(numbers: tuple[int, ...]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else str(numbers)


def _rounded(array: Shape, tiler: _Tiler) -> Iterator[_Change]:
    """Smaller sizes of the dimensions that tiles pad."""
    now = array_bytes(array)
    padded = {d for cause in padding_report(array).causes for d in cause.dimensions}
    steps = sorted({size for tile in tiler.layout.tiles for size in tile.dimensions if size > 1} | {2, 4})
    for d in sorted(padded):
        size = array.dimensions[d]
        # At least half of the dimension stays. The largest size that makes the buffer smaller is taken.
        for rounded in sorted({size // step * step for step in steps} - {size}, reverse=True):
            if rounded * 2 < size or not rounded:
                break
            sizes = [rounded if i == d else each for i, each in enumerate(array.dimensions)]
            changed = tiler(array.replace(dimensions=sizes, layout=tiler.layout.replace(tiles=(), split_configs=())))
            if array_bytes(changed) < now:
                part = ", ".join([f":{rounded}" if i == d else ":" for i in range(d + 1)])
                text = f"reduce dimension {d} from {size:,} to {rounded:,}: {changed}"
                yield _Change("round", text, f"x[{part}]", changed)
                break


def _packed(array: Shape) -> Iterator[_Change]:
    """Fewer bits for each element, as many as its type has."""
    layout = array.layout or Layout.default(array.rank)
    bits = array.element_type.bit_width
    if layout.element_size_in_bits > bits:
        stored = bits if bits < 8 else 0
        changed = array.replace(layout=layout.replace(element_size_in_bits=stored))
        yield _Change("packing", f"store each {array.element_type} in {bits} bits: {changed}", "", changed)
    elif not layout.element_size_in_bits and bits < 8:
        changed = array.replace(layout=layout.replace(element_size_in_bits=bits))
        yield _Change("packing", f"pack the elements by E({bits}): {changed}", "", changed)


def _narrower(array: Shape, tiler: _Tiler, types: Iterable[str]) -> Iterator[_Change]:
    """Narrower element types: those of `_NARROWER`, and `types`."""
    kind = array.element_type
    names = _NARROWER.get(kind.text, "f4e2m1fn" if kind.is_floating and kind.bit_width == 8 else "")
    if array.rank == 0:  # a scalar is usually a counter or a factor, and a narrower type would save a few bytes only
        names = ""
    for name in dict.fromkeys([*names.split(), *types]):
        narrow = PrimitiveType.parse(name)
        bits = narrow.bit_width if narrow.bit_width < 8 else 0
        layout = tiler.layout.replace(tiles=(), element_size_in_bits=bits, split_configs=())
        changed = tiler(array.replace(element_type=narrow, layout=layout))
        yield _Change("type", f"elements of {name}: {changed}", f"x.astype(jnp.{_jax_type(name)})", changed)


def _jax_type(name: str) -> str:
    """The name of an element type in JAX.

    >>> [_jax_type(name) for name in ("bf16", "f32", "s8", "u4", "c64", "f8e4m3fn")]
    ['bfloat16', 'float32', 'int8', 'uint4', 'complex64', 'float8_e4m3fn']
    """
    letters = "bf" if name.startswith("bf") else name[0]
    bits, is_special, rest = name[len(letters) :].partition("e")
    return f"{_JAX_TYPES.get(letters, letters)}{bits}{'_e' if is_special else ''}{rest}"


class Reshaped(NamedTuple):
    """An array with other dimensions. `kind` is "merge", "split" or "reshape"; `dimensions` are those of the old shape
    that change.
    """

    kind: str
    shape: Shape
    dimensions: tuple[int, ...]


def free_reshapes(shape: Shape, rows: int, lanes: int) -> Iterator[Reshaped]:
    """Reshapes of an array that may need less memory, with the layout's order but without tiles.

    `rows` and `lanes` are the sizes of the tile over the second most minor and the most minor dimension: runs are split
    so that tiles have the least padding.

    >>> [f"{one.kind} {one.shape}" for one in free_reshapes(Shape.parse("f32[6,4]"), 1, 8)][:3]
    ['merge f32[24]{0}', 'reshape f32[3,8]{1,0}', 'reshape f32[1,24]{1,0}']
    """
    layout = shape.layout or Layout.default(shape.rank)
    kept = [d for d in range(shape.rank) if shape.dimensions[d] != 1 or shape.dynamic_dimensions[d]]
    ones = tuple([d for d in range(shape.rank) if d not in kept])
    if ones:
        yield Reshaped("merge", _with_groups(shape, layout, [(d,) for d in kept], {}), ones)
    if 0 in shape.dimensions:
        return
    for first, last in _runs(shape, layout, kept):
        run = tuple(kept[first : last + 1])
        others = [(d,) for d in kept]
        merged = [*others[:first], run, *others[last + 1 :]]
        changed = tuple(sorted(run + ones))
        kind = "split" if len(changed) == 1 else "reshape"
        if len(run) > 1:
            yield Reshaped("merge", _with_groups(shape, layout, merged, {}), changed)
        for major, minor in _splits(product([shape.dimensions[d] for d in run]), rows, lanes):
            sizes = (major, minor)
            if sizes != tuple([shape.dimensions[d] for d in run]):
                yield Reshaped(kind, _with_groups(shape, layout, merged, {run: sizes}), changed)


def _runs(shape: Shape, layout: Layout, kept: list[int]) -> list[tuple[int, int]]:
    """The positions in `kept` of the first and the last dimension of each run, and of each part of a run; longer ones
    first."""
    place = {d: at for at, d in enumerate([d for d in layout.major_to_minor if d in set(kept)])}
    found: list[tuple[int, int]] = []
    for first in range(len(kept)):
        last = first
        if shape.dynamic_dimensions[kept[first]]:
            continue
        found.append((first, first))
        while (
            last + 1 < len(kept)
            and place[kept[last + 1]] == place[kept[last]] + 1
            and not shape.dynamic_dimensions[kept[last + 1]]
        ):
            last += 1
            found.append((first, last))
    return sorted(found, key=lambda run: run[0] - run[1])


def _with_groups(
    shape: Shape, layout: Layout, groups: list[tuple[int, ...]], splits: dict[tuple[int, ...], tuple[int, int]]
) -> Shape:
    """The array whose dimensions are groups of old ones, in the old order in memory. `splits` has the sizes of a group
    that becomes two dimensions.
    """
    number_of: dict[int, list[int]] = {}
    sizes: list[int] = []
    dynamic: list[bool] = []
    for group in groups:
        new = splits.get(group) or (product([shape.dimensions[d] for d in group]),)
        number_of[group[0]] = list(range(len(sizes), len(sizes) + len(new)))
        sizes += new
        dynamic += [len(group) == 1 and shape.dynamic_dimensions[group[0]]] * len(new)
    order: list[int] = []
    for d in layout.major_to_minor:
        order += number_of.get(d, [])
    plain = Layout(order[::-1], element_size_in_bits=layout.element_size_in_bits, memory_space=layout.memory_space)
    plain = plain.replace(
        tail_padding_alignment_in_elements=layout.tail_padding_alignment_in_elements,
        dynamic_shape_metadata_prefix_bytes=layout.dynamic_shape_metadata_prefix_bytes,
    )
    return Shape.array(shape.element_type, sizes, plain, dynamic)


def _splits(size: int, rows: int, lanes: int) -> list[tuple[int, int]]:
    """Pairs (major, minor) with this product, those with the least padding under a tile of rows × lanes first."""

    def padding(minor: int) -> tuple[int, int]:
        major = size // minor
        return round_up(minor, lanes) * round_up(major, rows), abs(minor - lanes)

    minors = [divisor for divisor in _divisors(size) if divisor > 1]
    return [(size // minor, minor) for minor in islice(sorted(minors, key=padding), _SPLITS)]


def _divisors(size: int) -> list[int]:
    """Divisors of a size, those made of small primes first. Prime factors above `_LARGEST_PRIME` are not taken apart,
    and where there are more than `_MOST_DIVISORS`, some are left out."""
    divisors = [1]
    rest, prime = size, 2
    while rest > 1 and len(divisors) <= _MOST_DIVISORS:
        if prime > _LARGEST_PRIME or prime * prime > rest:
            prime = rest
        power = 1
        found = list(divisors)
        while rest % prime == 0:
            rest //= prime
            power *= prime
            divisors += [divisor * power for divisor in found]
        prime += 1
    return divisors
