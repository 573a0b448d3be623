"""Operations that move elements: broadcast, transpose, reverse, reshape, bitcast, concatenate, pad, dynamic sizes."""

from __future__ import annotations

import random

from execution.case import Case, family, integers, make, sizes, text

PADDING = "a map does not say where padding is: the padding value may be anywhere"


@family()
def broadcast(r: random.Random, seed: int) -> Case:
    out = sizes(r)
    keep = sorted(r.sample(range(len(out)), r.randint(0, len(out))))
    return make("broadcast", text("s64", out), [text("s64", [out[d] for d in keep])], dimensions=keep)


@family(seeds=6)
def broadcast_out_of_order(r: random.Random, seed: int) -> Case:
    out = sizes(r, 2)
    keep = r.sample(range(len(out)), r.randint(2, len(out)))
    return make("broadcast", text("s64", out), [text("s64", [out[d] for d in keep])], dimensions=keep)


@family()
def transpose(r: random.Random, seed: int) -> Case:
    dims = sizes(r, 0)
    order = r.sample(range(len(dims)), len(dims))
    return make("transpose", text("s64", [dims[d] for d in order]), [text("s64", dims)], dimensions=order)


@family()
def copy(r: random.Random, seed: int) -> Case:
    dims = sizes(r, 0)
    return make("copy", text("s64", dims), [text("s64", dims)])


@family()
def reverse(r: random.Random, seed: int) -> Case:
    dims = sizes(r)
    over = r.sample(range(len(dims)), r.randint(0, len(dims)))
    return make("reverse", text("s64", dims), [text("s64", dims)], dimensions=over)


def _refactored(r: random.Random, total: int) -> list[int]:
    """Random sizes whose product is `total`."""
    dims: list[int] = []
    while total > 1:
        size = r.choice([k for k in range(1, total + 1) if total % k == 0])
        dims.append(size)
        total //= size
        if len(dims) == 4:
            dims[-1] *= total
            break
    return dims


@family(seeds=24)
def reshape(r: random.Random, seed: int) -> Case:
    total = r.choice([1, 6, 12, 24, 30, 36])
    dims, out = _refactored(r, total), _refactored(r, total)
    if seed % 8 == 0:
        dims, out = [*dims, 0, 2], [0, *out]
    return make("reshape", text("s64", out), [text("s64", dims)])


@family(seeds=8)
def dynamic_reshape(r: random.Random, seed: int) -> Case:
    total = r.choice([6, 12])
    dims, out = _refactored(r, total), _refactored(r, total)
    loose = {k + 1: "a size of a static result is what it is" for k in range(len(out))}
    operands = [text("s64", dims), *["s32[]"] * len(out)]
    return make("dynamic-reshape", text("s64", out), operands, case={"loose": loose})


BITCASTS_ARE_LATE = "XLA takes bitcasts only after it has assigned layouts"


def _layout(r: random.Random, rank: int) -> str:
    return "{" + ",".join(map(str, r.sample(range(rank), rank))) + "}"


@family(seeds=20, not_by_xla=BITCASTS_ARE_LATE)
def bitcast(r: random.Random, seed: int) -> Case:
    total = r.choice([1, 6, 12, 24])
    dims, out = _refactored(r, total), _refactored(r, total)
    source, target = text("s64", dims) + _layout(r, len(dims)), text("s64", out) + _layout(r, len(out))
    return make("bitcast", target, [source])


@family(seeds=14, not_by_xla=BITCASTS_ARE_LATE)
def bitcast_of_widths(r: random.Random, seed: int) -> Case:
    """Bitcasts to an element type of another width: several elements of one side, along the most minor dimension, are
    one element of the other."""
    dims = sizes(r, 1, 3)
    wide, narrow, factor = r.choice([("s64", "s32", 2), ("s32", "u8", 4), ("s64", "s16", 4)])
    order = r.sample(range(len(dims)), len(dims))
    layout = "{" + ",".join(map(str, order)) + "}"
    thin = [n * factor if d == order[0] else n for d, n in enumerate(dims)]
    shapes = [text(wide, dims) + layout, text(narrow, thin) + layout]
    if r.random() < 0.5:
        shapes.reverse()
    bits = {"s64": 63, "s32": 31, "s16": 15, "u8": 8}[shapes[0][: shapes[0].index("[")]]
    low = 0 if shapes[0].startswith("u") else -(1 << bits)
    case = {"domains": {0: integers(low, (1 << bits) - 1)}, "union": frozenset({0}), "draws": 6}
    return make("bitcast", shapes[1], [shapes[0]], case=case)


@family(seeds=8, not_by_xla=BITCASTS_ARE_LATE)
def bitcast_of_tiles(r: random.Random, seed: int) -> Case:
    """Bitcasts between tiled layouts with the same number of elements."""
    rows, columns = r.choice([(2, 2), (2, 4), (4, 2)])
    a, b = r.randint(1, 2), r.randint(1, 2)
    dims = [a * rows, b * columns]
    tiled = f"{text('s64', dims)}{{1,0:T({rows},{columns})}}"
    plain = r.choice([text("s64", [a, b, rows, columns]), text("s64", [a * b * rows * columns])])
    both = [tiled, plain]
    r.shuffle(both)
    return make("bitcast", both[1], [both[0]])


@family()
def concatenate(r: random.Random, seed: int) -> Case:
    dims = sizes(r)
    axis = r.randrange(len(dims))
    parts = [[r.randint(0, 3) if d == axis else n for d, n in enumerate(dims)] for _ in range(r.randint(1, 3))]
    out = [sum(p[axis] for p in parts) if d == axis else n for d, n in enumerate(dims)]
    return make("concatenate", text("s64", out), [text("s64", p) for p in parts], dimensions=[axis])


@family(seeds=24)
def pad(r: random.Random, seed: int) -> Case:
    dims = sizes(r, 1, 2)
    config, out = [], []
    for n in dims:
        interior = r.randint(0, 2)
        inner = n + (n - 1) * interior
        low = r.randint(-min(2, inner), 3)
        high = r.randint(max(-2, -inner - low), 3)
        config.append({"edge_padding_low": low, "edge_padding_high": high, "interior_padding": interior})
        out.append(inner + low + high)
    operands = [text("s64", dims), "s64[]"]
    return make("pad", text("s64", out), operands, case={"loose": {1: PADDING}}, padding_config={"dimensions": config})


@family(seeds=1, not_by_xla="XLA does not read its own text of it")
def pad_of_a_scalar(r: random.Random, seed: int) -> Case:
    return make("pad", "s64[]", ["s64[]", "s64[]"], case={"loose": {1: PADDING}})


@family(seeds=6)
def get_dimension_size(r: random.Random, seed: int) -> Case:
    dims = sizes(r)
    return make("get-dimension-size", "s32[]", [text("s64", dims)], dimensions=[r.randrange(len(dims))])


@family(seeds=8, not_by_xla="what XLA returns is of another shape in every run")
def set_dimension_size(r: random.Random, seed: int) -> Case:
    dims = sizes(r)
    axis = r.randrange(len(dims))
    sized = ",".join(f"<={n}" if d == axis else str(n) for d, n in enumerate(dims))
    case = {"domains": {1: integers(0, dims[axis])}, "union": frozenset({0, 1}), "draws": 16}
    return make("set-dimension-size", f"s64[{sized}]", [text("s64", dims), "s32[]"], case=case, dimensions=[axis])
