"""From one sharding of an array to another: the bytes that each device lacks, which no program can avoid to move, and
collectives that bring them.

Steps are found by trying: each takes the last digits of a dimension's tile number (`digits.py`), and either

    gathers them (all-gather), moves them to the end of another dimension (all-to-all), adds digits that no dimension
    has (a slice, which moves nothing), or exchanges whole tiles (collective-permute): two digits trade places, or the
    last step reaches the wanted sharding.

The steps with the fewest received bytes are the answer. Each step's sharding may be given to the compiler as a
constraint. No steps are known where tiles do not divide their dimension, and for more than six digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple, TypeAlias

from xlashape.base.math import ceil_div, product
from xlashape.hlo.values.devices import Iota
from xlashape.hlo.values.sharding import Sharding
from xlashape.indexing.sharding.digits import Tiling, digits_of, tiling_of
from xlashape.indexing.sharding.spelled import device_count, of
from xlashape.limits import spend
from xlashape.shape import Shape
from xlashape.shape.xla_util.shape_util import element_size_in_bits

_MOST_DIGITS: Final = 6
_State: TypeAlias = tuple[tuple[int, ...], ...]
"""The digits of each dimension."""


class ReshardStep(NamedTuple):
    """A step from one sharding to another."""

    kind: str
    """`slice`, which moves nothing, or the kind of a collective: `all-gather`, `all-to-all`, `collective-permute`."""
    received_bytes: int
    """The most that a device receives in this step."""
    sharding: Sharding
    """The sharding after the step."""


class Reshard(NamedTuple):
    """What it takes to go from one sharding of an array to another."""

    received: tuple[int, ...]
    """The bytes that each device lacks: those of its new part that are not in its old one."""
    whole_bytes: int
    """The bytes of the whole array."""
    before_bytes: int
    """The most bytes that a device holds before; tiles without padding."""
    after_bytes: int
    """The most bytes that a device holds after."""
    steps: tuple[ReshardStep, ...] | None
    """Steps that receive few bytes; None where none are known."""

    @property
    def received_bytes(self) -> int:
        """What the device that lacks the most lacks. No program receives less."""
        return max(self.received)

    @property
    def received_all(self) -> int:
        """What all devices together lack."""
        return sum(self.received)

    @property
    def gathered_bytes(self) -> int:
        """What a device receives that gathers the whole array."""
        return self.whole_bytes - self.before_bytes

    @property
    def collectives(self) -> tuple[str, ...] | None:
        """The kinds of the collectives in `steps`."""
        return None if self.steps is None else tuple([step.kind for step in self.steps if step.kind != "slice"])


def reshard(shape: Shape | str, a: Any, b: Any, devices: int | None = None) -> Reshard:
    """What each device must receive at least to go from sharding `a` of an array to sharding `b`.

    devices: how many there are, where no sharding names them. Raises InvalidArgumentError as `map` does, and for
    shardings over different devices.

    >>> made = reshard("f32[16,16,16]", "{devices=[2,1,4]<=[4,2]T(1,0)}", "{devices=[1,8,1]<=[8]}")
    >>> made.received_bytes, [(step.kind, step.received_bytes) for step in made.steps]
    (1792, [('all-to-all', 1536), ('all-to-all', 1024)])
    """
    array = Shape.of(shape)
    one, other = of(a, array), of(b, array)
    named = [count for count in (device_count(one), device_count(other)) if count is not None]
    count = devices if devices is not None else max(named, default=1)
    before, after = tiling_of(one, array, count), tiling_of(other, array, count)
    everyone = sorted(before.tiles.keys() | after.tiles.keys())
    sizes = array.dimensions
    bits = element_size_in_bits(array)
    known: dict[tuple[Any, Any], int] = {}
    received: list[int] = []
    for device in everyone:
        pair = before.tiles.get(device), after.tiles.get(device)
        if pair not in known:
            old, new = _box(pair[0], before.counts, sizes), _box(pair[1], after.counts, sizes)
            common = product([max(0, min(x[1], y[1]) - max(x[0], y[0])) for x, y in zip(old, new, strict=True)])
            known[pair] = ceil_div((_elements(new) - common) * bits, 8)
        received.append(known[pair])
    held = [
        max([ceil_div(_elements(_box(tile, tiling.counts, sizes)) * bits, 8) for tile in set(tiling.tiles.values())])
        for tiling in (before, after)
    ]
    whole = ceil_div(product(sizes) * bits, 8)
    return Reshard(tuple(received), whole, *held, steps=_steps(before, after, sizes, whole))


def _box(tile: tuple[int, ...] | None, counts: tuple[int, ...], sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    """The first index of a tile and the one after its last, in each dimension; nothing for a device without a tile."""
    if tile is None:
        return [(0, 0)] * len(sizes)
    lengths = [ceil_div(size, count) for size, count in zip(sizes, counts, strict=True)]
    return [
        (min(number * length, size), min((number + 1) * length, size))
        for number, length, size in zip(tile, lengths, sizes, strict=True)
    ]


def _elements(box: list[tuple[int, int]]) -> int:
    return product([end - first for first, end in box])


# -- steps -------------------------------------------------------------------------------------


def _steps(before: Tiling, after: Tiling, sizes: tuple[int, ...], whole: int) -> tuple[ReshardStep, ...] | None:
    """The steps with the fewest received bytes in total, of those the fewest."""
    for tiling in (before, after):
        if any(size % count for size, count in zip(sizes, tiling.counts, strict=True)):
            return None
    if len(before.tiles) != len(after.tiles):
        return None
    found = digits_of([before, after])
    if found is None or len(found[0].sizes) > _MOST_DIGITS:
        return None
    start, goal = found[0].dims, found[1].dims
    digits = found[0].sizes
    queue: list[tuple[int, int, _State, tuple[tuple[str, int, _State], ...]]] = [(0, 0, start, ())]
    done: set[_State] = set()
    while queue:
        cost, count, state, path = heappop(queue)
        if state == goal:
            return tuple([ReshardStep(kind, size, _sharding(digits, dims)) for kind, size, dims in path])
        if state in done:
            continue
        done.add(state)
        spend(100)
        held = whole // product([digits[digit] for dim in state for digit in dim])
        for kind, size, following in _moves(state, goal, digits, sizes, held):
            if following not in done:
                step = (kind, size, following)
                heappush(queue, (cost + size, count + 1, following, (*path, step)))
    return None


def _moves(
    state: _State, goal: _State, digits: tuple[int, ...], sizes: tuple[int, ...], held: int
) -> Iterator[tuple[str, int, _State]]:
    """The steps from a state, each with the bytes that a device receives. `held` is what each holds now."""
    unused = [digit for digit in range(len(digits)) if not any(digit in dim for dim in state)]
    for number, dim in enumerate(state):
        others = [each for each in range(len(state)) if each != number]
        for kept in range(len(dim)):
            moved = dim[kept:]
            factor = product([digits[digit] for digit in moved])
            yield "all-gather", held * (factor - 1), _with(state, {number: dim[:kept]})
            for other in others:
                following = _with(state, {number: dim[:kept], other: (*state[other], *moved)})
                if _fits(following, digits, sizes):
                    yield "all-to-all", held - held // factor, following
        for digit in unused:
            following = _with(state, {number: (*dim, digit)})
            if _fits(following, digits, sizes):
                yield "slice", 0, following
    for digit in [digit for dim in state for digit in dim]:
        for other in range(len(digits)):
            if other != digit and digits[other] == digits[digit]:
                swapped = {digit: other, other: digit}
                following = tuple([tuple([swapped.get(each, each) for each in dim]) for dim in state])
                yield "collective-permute", held, following
    if [_count(dim, digits) for dim in state] == [_count(dim, digits) for dim in goal]:
        yield "collective-permute", held, goal


def _with(state: _State, changed: dict[int, tuple[int, ...]]) -> _State:
    return tuple([changed.get(number, dim) for number, dim in enumerate(state)])


def _count(dim: tuple[int, ...], digits: tuple[int, ...]) -> int:
    return product([digits[digit] for digit in dim])


def _fits(state: _State, digits: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    return all(size % _count(dim, digits) == 0 for dim, size in zip(state, sizes, strict=True))


def _sharding(sizes: tuple[int, ...], dims: _State) -> Sharding:
    """The sharding whose dimensions have these digits."""
    used = [digit for dim in dims for digit in dim]
    unused = [digit for digit in range(len(sizes)) if digit not in used]
    counts = [product([sizes[digit] for digit in dim]) for dim in dims]
    if product(counts) == 1:
        return Sharding.parse("{replicated}")
    iota = Iota(list(sizes), [*used, *unused])
    rest = product([sizes[digit] for digit in unused])
    shown = ",".join([str(count) for count in ([*counts, rest] if rest > 1 else counts)])
    return Sharding.parse(f"{{devices=[{shown}]<={iota}{' last_tile_dim_replicate' if rest > 1 else ''}}}")
