"""Explanations of arrays and tuples, every number computed anew: by enumeration, by NumPy, and by a second, slower
formula."""

from __future__ import annotations

import json
import pickle
import re
import threading
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xlashape as xs
from xlashape.errors import InvalidArgumentError, InvalidShapeError, ParseError, SizeOverflowError, UnsupportedError
from xlashape.reports.why import ArrayMemory, TupleMemory, shapes, why
from xlashape.shape import Layout, Shape, shape_util, tiling
from xlashape.shape.parts.target import TARGETS, TPU_GENERATIONS

BITS = {"pred": 8, "s4": 4, "s8": 8, "bf16": 16, "f32": 32, "s64": 64, "c128": 128}
TILES = [
    [],
    [(8, 128)],
    [(8, 128), (2, 1)],
    [(2, 128)],
    [(1, 128)],
    [(128,)],
    [(1024,), (128,), (2, 1)],
    [(2, 2)],
    [(3,), (2,)],
    [(4, 3, 2)],
    [(2, 2), (2,)],
]


def padded_elements(sizes, tiles, tail) -> int:
    """The elements of a buffer, by padding and splitting a list of sizes, most major first."""
    sizes = list(sizes)
    for tile in tiles:
        sizes = [1] * (len(tile) - len(sizes)) + sizes
        head, reached = sizes[: len(sizes) - len(tile)], sizes[len(sizes) - len(tile) :]
        sizes = head + [(size + t - 1) // t for size, t in zip(reached, tile, strict=True)] + list(tile)
    count = prod(sizes)
    return (count + tail - 1) // tail * tail


def expected_bytes(shape: Shape) -> int:
    layout = shape.layout
    sizes = [shape.dimensions[d] for d in reversed(layout.minor_to_major)]
    count = padded_elements(
        sizes, [tile.dimensions for tile in layout.tiles], layout.tail_padding_alignment_in_elements
    )
    bits = layout.element_size_in_bits or max(8, shape.element_type.bit_width)
    return (count * bits + 7) // 8 + layout.dynamic_shape_metadata_prefix_bytes


def order_of_elements(shape: Shape) -> list[int]:
    """The row-major numbers of the elements in the order of memory, tiles ignored."""
    numbers = np.arange(prod(shape.dimensions)).reshape(shape.dimensions)
    return numbers.transpose(tuple(reversed(shape.layout.minor_to_major))).ravel().tolist()


@st.composite
def arrays(draw, most=6_000) -> Shape:
    element_type = draw(st.sampled_from(sorted(BITS)))
    dimensions = draw(st.lists(st.sampled_from([1, 1, 2, 3, 4, 5, 7, 8, 12, 16, 33, 128, 130]), max_size=5))
    while prod(dimensions) > most:
        dimensions.pop()
    order = draw(st.permutations(range(len(dimensions))))
    bits = draw(st.sampled_from([0, 0, 0, 4 if element_type == "s4" else 0, 32 if BITS[element_type] <= 8 else 0]))
    layout = Layout(
        order,
        draw(st.sampled_from(TILES)),
        tail_padding_alignment_in_elements=draw(st.sampled_from([1, 1, 1, 5, 256])),
        element_size_in_bits=bits,
        dynamic_shape_metadata_prefix_bytes=draw(st.sampled_from([0, 0, 0, 512])),
    )
    return Shape.array(element_type, dimensions, layout)


@settings(max_examples=300, deadline=None)
@given(arrays())
def test_bytes_and_causes(shape) -> None:
    memory = why(shape)
    layout = shape.layout
    count = prod(shape.dimensions)
    own = max(8, BITS[shape.element_type.text])
    own = min(own, layout.element_size_in_bits or own)
    assert memory.element_bytes == (count * own + 7) // 8
    assert memory.buffer_bytes == expected_bytes(shape)
    assert memory.overhead_bytes == memory.buffer_bytes - memory.element_bytes
    assert memory.factor == memory.buffer_bytes / memory.element_bytes
    # All causes together are what is not elements, and each has its share.
    assert sum([cause.bytes for cause in memory.causes]) == memory.overhead_bytes
    for cause in memory.causes:
        assert cause.share == pytest.approx(cause.bytes / memory.overhead_bytes if memory.overhead_bytes else 0)
        assert cause.bytes > 0 or cause.kind == "packing" or layout.element_size_in_bits == 4
    # After the causes of each tile stands what the layout makes with the tiles up to this one.
    sums = np.cumsum([memory.element_bytes, *[cause.bytes for cause in memory.causes]]).tolist()
    sizes = [shape.dimensions[d] for d in reversed(layout.minor_to_major)]
    stored = layout.element_size_in_bits or own
    for number in range(len(layout.tiles) + 1):
        partial = padded_elements(sizes, [tile.dimensions for tile in layout.tiles[:number]], 1)
        assert (partial * stored + 7) // 8 in sums
    # A tile's cause says what it does to the size of one dimension, or of a tile.
    for cause in memory.causes:
        if cause.kind == "tile":
            assert cause.size < cause.padded
            assert any(cause.padded % size == 0 for size in cause.tile.dimensions)
    json.dumps(memory.to_dict())
    assert str(memory).startswith(str(shape))


@settings(max_examples=100, deadline=None)
@given(arrays(most=1_000))
def test_the_buffer_by_enumeration(shape) -> None:
    """Every position of the buffer, asked one by one: as many hold an element as there are elements."""
    memory = why(shape)
    stored = shape.layout.element_size_in_bits or max(8, BITS[shape.element_type.text])
    positions = tiling.physical_elements(shape)
    held = {tiling.multi_index(shape, position) for position in range(min(positions, 20_000))} - {None}
    if positions <= 20_000:
        assert len(held) == prod(shape.dimensions)
    assert (positions * stored + 7) // 8 + shape.layout.dynamic_shape_metadata_prefix_bytes == memory.buffer_bytes


@settings(max_examples=300, deadline=None)
@given(arrays())
def test_suggestions_are_that_size_and_smaller(shape) -> None:
    memory = why(shape)
    ranks = [
        (not one.is_lossless, not one.jax, one.bytes if one.is_lossless else -one.bytes) for one in memory.suggestions
    ]
    assert ranks == sorted(ranks)
    assert len({one.shape for one in memory.suggestions}) == len(ranks)
    written = [one.jax for one in memory.suggestions if one.jax]
    assert len(set(written)) == len(written)
    for one in memory.suggestions:
        assert one.buffer_bytes == expected_bytes(one.shape) < memory.buffer_bytes
        assert one.saved_bytes == memory.buffer_bytes - one.buffer_bytes
        new, old = one.shape, shape
        if one.kind in ("order", "tiles", "packing"):
            assert (new.element_type, new.dimensions) == (old.element_type, old.dimensions)
            assert (one.kind == "order") == (new.layout.minor_to_major != old.layout.minor_to_major)
        elif one.kind in ("merge", "split", "reshape"):
            assert new.element_type == old.element_type
            assert prod(new.dimensions) == prod(old.dimensions)
            assert order_of_elements(new) == order_of_elements(old)
            plain_old = old.replace(layout=Layout(old.layout.minor_to_major))
            plain_new = new.replace(layout=Layout(new.layout.minor_to_major))
            assert shape_util.reshape_is_bitcast(plain_old, plain_new)
        elif one.kind == "round":
            changed = [(a, b) for a, b in zip(new.dimensions, old.dimensions, strict=True) if a != b]
            assert len(changed) == 1
            assert changed[0][1] / 2 <= changed[0][0] < changed[0][1]
        else:
            assert one.kind == "type"
            assert new.dimensions == old.dimensions
            assert new.element_type.bit_width < old.element_type.bit_width
        if one.kind != "packing":
            assert new.layout.tail_padding_alignment_in_elements == old.layout.tail_padding_alignment_in_elements
        assert one.is_lossless == (one.kind not in ("round", "type"))
        check_jax(one, old)
        # As if asked about the suggestion itself.
        assert why(new).buffer_bytes == one.buffer_bytes


def check_jax(one, old: Shape) -> None:
    """What is to be written in JAX makes the dimensions of the suggestion. NumPy has the same methods."""
    x = np.arange(prod(old.dimensions)).reshape(old.dimensions)
    if one.kind == "order" and one.jax.startswith("x."):
        made = eval(one.jax, {"x": x})
        row_major = Layout(range(made.ndim - 1, -1, -1), one.shape.layout.tiles)
        bits = one.shape.layout.element_size_in_bits
        row_major = row_major.replace(
            element_size_in_bits=bits,
            tail_padding_alignment_in_elements=one.shape.layout.tail_padding_alignment_in_elements,
            dynamic_shape_metadata_prefix_bytes=one.shape.layout.dynamic_shape_metadata_prefix_bytes,
        )
        assert expected_bytes(Shape.array(old.element_type, made.shape, row_major)) == one.bytes
    elif one.kind == "order":
        numbers = ", ".join(map(str, range(old.rank)))
        assert one.jax == f"Layout(major_to_minor=({numbers}))"
        assert one.shape.layout.minor_to_major == tuple(range(old.rank))[::-1]
    elif one.kind in ("merge", "split", "reshape", "round"):
        made = eval(one.jax, {"x": x})
        assert made.shape == one.shape.dimensions
        assert one.kind == "round" or (made.ravel() == x.ravel()).all()
    elif one.kind == "type":
        names = {"s": "int", "u": "uint", "f": "float", "bf": "bfloat", "c": "complex"}
        spelled = re.fullmatch(r"(bf|[sufc])(\d+)(e\w+)?", one.shape.element_type.text)
        name = f"{names[spelled[1]]}{spelled[2]}" + (f"_{spelled[3]}" if spelled[3] else "")
        assert one.jax == f"x.astype(jnp.{name})"
    else:
        assert one.jax == ""


@settings(max_examples=150, deadline=None)
@given(arrays(), st.sampled_from(sorted(TARGETS)))
def test_targets_count_as_byte_size_of(shape, target) -> None:
    memory = why(shape, target=target)
    assert memory.buffer_bytes == shape_util.byte_size_of(memory.shape, target=target)
    assert sum([cause.bytes for cause in memory.causes]) == memory.overhead_bytes
    assert (memory.shape == shape) or (target.startswith("tpu") and not shape.layout.tiles)
    for one in memory.suggestions:
        assert one.buffer_bytes == shape_util.byte_size_of(one.shape, target=target) < memory.buffer_bytes


def test_what_people_ask_most() -> None:
    """The classic: a small last dimension."""
    memory = why("s32[8388608,8,4]{2,1,0:T(8,128)}")
    assert (memory.element_bytes, memory.buffer_bytes, memory.factor) == (1 << 30, 32 << 30, 32.0)
    (cause,) = memory.causes
    assert (cause.kind, cause.dimensions, cause.size, cause.padded, cause.share) == ("tile", (2,), 4, 128, 1.0)
    free = [one for one in memory.suggestions if one.buffer_bytes == 1 << 30]
    assert {one.kind for one in free} == {"order", "merge", "reshape"}
    assert str(free[0]) == "x.transpose(2, 1, 0), order {0,1,2:T(8,128)}: 1,073,741,824 bytes (1.00 GiB), 3.1% of now"


def test_a_dimension_of_one_under_the_tile() -> None:
    memory = why("bf16[2048,1,2048,128]{0,1,3,2:T(4,128)(2,1)}")
    assert memory.factor == 4
    kinds = {one.kind: str(one.shape) for one in reversed(memory.suggestions)}
    assert kinds["merge"] == "bf16[2048,2048,128]{0,2,1:T(8,128)(2,1)}"
    assert kinds["tiles"] == "bf16[2048,1,2048,128]{0,1,3,2:T(2,128)(2,1)}"


@pytest.mark.parametrize(
    ("text", "kind", "saved"),
    [("s4[1000]", "packing", -500), ("s4[1000]{0:E(4)}", "packing", 500), ("u2[9]{0:E(2)}", "packing", 6)],
)
def test_packing(text, kind, saved) -> None:
    (cause,) = why(text).causes
    assert (cause.kind, cause.bytes, cause.saved_bytes) == (kind, 0, saved)


def test_bits_that_are_lost() -> None:
    memory = why("pred[64,512,2048]{2,1,0:T(8,128)E(32)}")
    (cause,) = memory.causes
    assert (cause.kind, cause.bytes, memory.factor) == ("element size", 192 << 20, 4.0)
    assert (memory.suggestions[0].kind, memory.suggestions[0].buffer_bytes) == ("packing", 64 << 20)


def test_sizes_of_dynamic_dimensions() -> None:
    assert [cause.kind for cause in why("f32[<=4,1]{1,0:M(64)}").causes] == ["metadata"]
    memory = why("s64[<=4,1]", target="cpu")
    assert [(cause.kind, cause.bytes) for cause in memory.causes] == [("dynamic sizes", 8)]
    with pytest.raises(InvalidShapeError, match="unbounded"):
        why("f32[?,2]")


def test_tuples() -> None:
    memory = why("(f32[], (f32[256]{0:T(128)}, token[]))", target="tpu")
    assert isinstance(memory, TupleMemory)
    assert [(str(one.shape_index), one.buffer_bytes) for one in memory.elements] == [
        ("{}", 512), ("{0}", 4096), ("{1}", 512), ("{1,0}", 1024), ("{1,1}", 0),
    ]  # fmt: skip
    assert (memory.element_bytes, memory.buffer_bytes, memory.table_bytes) == (1028, 6144, 1024)
    assert {cause.kind: cause.bytes for cause in memory.causes} == {
        "tuple table": 1024,
        "nested scalar": 4096 - 512,
        "tile": 508,
    }
    assert sum([cause.bytes for cause in memory.causes]) == memory.overhead_bytes
    plain = why("(f32[3], s32[], opaque[])")
    assert (plain.buffer_bytes, plain.element_bytes, plain.table_bytes) == (24 + 12 + 4 + 8, 16, 24)
    assert sum([cause.bytes for cause in plain.causes]) == plain.overhead_bytes
    assert why("()").buffer_bytes == 0
    json.dumps(memory.to_dict())
    assert "{0} f32[]" in str(memory)


@settings(max_examples=60, deadline=None)
@given(st.lists(arrays(most=200), max_size=4), st.sampled_from([None, "cpu", "tpu", "tpu-v3"]))
def test_tuples_are_the_buffers_of_their_elements(shapes, target) -> None:
    memory = why(Shape.tuple(shapes), target=target)
    if target is not None:
        # A scalar without tiles takes more in a tuple than one that has them.
        tiled = Shape.tuple([why(shape, target=target).shape if shape.rank else shape for shape in shapes])
        assert [one.buffer_bytes for one in memory.elements] == [
            b.byte_size for b in shape_util.buffers_of(tiled, target)
        ]
    assert sum([cause.bytes for cause in memory.causes]) == memory.overhead_bytes


@pytest.mark.parametrize("generation", TPU_GENERATIONS)
def test_a_layout_without_tiles_gets_those_of_the_target(generation) -> None:
    target = f"tpu-{generation}"
    memory = why("f32[20,300]", target=target)
    assert str(memory.shape) == "f32[20,300]{1,0:T(8,128)}"
    assert str(memory.given) == "f32[20,300]{1,0}"
    assert f"layout    {target} gives f32[20,300]{{1,0}} the layout" in str(memory)
    assert str(why("f32[3,300]{0,1}", target=target).shape) == "f32[3,300]{0,1:T(8,128)}"


def test_objects_of_other_libraries() -> None:
    assert why(np.zeros((3, 5), np.float32)).buffer_bytes == 60
    assert why(("f32", (3, 5))).buffer_bytes == 60
    assert isinstance(why(b"f32[3,5]"), ArrayMemory)
    with pytest.raises(
        InvalidArgumentError, match="expected a shape, an instruction, a module, a path, or text with shapes"
    ):
        why(3.5)
    with pytest.raises(InvalidArgumentError, match="expected a shape"):
        why(None)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", ParseError),
        ("f32[2,3", ParseError),
        ("f32[2]{1}", ParseError),
        ("f33[2]", ParseError),
        ("[" * 20_000, ParseError),
        ("(" * 20_000, xs.XlashapeError),
        ("f32[9223372036854775807,9223372036854775807]", xs.XlashapeError),
        ("f32[9223372036854775807]", SizeOverflowError),
        ("f32[1152921504606846976,1]{1,0:T(8,128)}", SizeOverflowError),
        ("unknown_1000[2]", UnsupportedError),
        ("f32[1]{0:T(1,1,1,1,1,1)}", None),
        ("nothing/here.hlo", xs.XlashapeError),
    ],
)
def test_mistakes(text, error) -> None:
    if error is None:
        assert why(text).buffer_bytes == 4
    else:
        with pytest.raises(error):
            why(text)


def test_arrays_of_many_dimensions_are_answered() -> None:
    shape = Shape.array("f32", (2,) * 30, Layout(range(30), [(8, 128)]))
    assert why(shape).buffer_bytes == (1 << 28) * 4 * 8 // 2 * 128 // 2 * 4
    assert why(Shape.array("f32", (3,) * 12, Layout(range(12), [(8, 128)]))).suggestions


def test_arrays_without_elements() -> None:
    for text in ("f32[0,5]{1,0:T(8,128)}", "f32[0]", "s4[0,3]{1,0:E(4)}"):
        memory = why(text)
        assert (memory.element_bytes, memory.factor, memory.suggestions) == (0, 1.0, ())
        assert sum([cause.bytes for cause in memory.causes]) == memory.overhead_bytes


def test_without_padding_only_narrower_elements_help() -> None:
    assert str(why("f32[1024,1024]")).splitlines() == [
        "f32[1024,1024]{1,0}",
        "  elements  4,194,304 bytes (4.00 MiB)",
        "  buffer    4,194,304 bytes (4.00 MiB), no padding",
        "  lossy     2,097,152 bytes (2.00 MiB), 50.0% of now: x.astype(jnp.bfloat16)",
        "            1,048,576 bytes (1.00 MiB), 25.0% of now:",
        "            x.astype(jnp.float8_e4m3fn)",
    ]


def test_suggestions_of_one_size_are_one_line_and_what_loses_comes_last() -> None:
    assert str(why("s32[8388608,8,4]{2,1,0:T(8,128)}")).splitlines()[5:10] == [
        "  smaller   1,073,741,824 bytes (1.00 GiB), 3.1% of now: x.transpose(2, 1, 0),",
        "            x.transpose(1, 2, 0), x.reshape(268435456), x.reshape(1048576, 256),",
        "            x.reshape(131072, 2048) or x.reshape(16384, 16384)",
        "            17,179,869,184 bytes (16.00 GiB), 50.0% of now: x.transpose(2, 0, 1)",
        "  lossy     17,179,869,184 bytes (16.00 GiB), 50.0% of now: x.astype(jnp.int16)",
    ]


@pytest.mark.parametrize("text", ["bf16[20,300]{1,0:T(8,128)(2,1)}", "f16[64]"])
def test_four_bits_for_floats_of_sixteen_only_if_asked(text) -> None:
    memory = why(text)
    assert "f4e2m1fn" not in {one.shape.element_type.text for one in memory.suggestions}
    asked = [one for one in memory.suggest("f4e2m1fn") if one.shape.element_type.text == "f4e2m1fn"]
    assert [one.jax for one in asked] == ["x.astype(jnp.float4_e2m1fn)"]
    with pytest.raises(xs.XlashapeError, match="f5"):
        memory.suggest("f5")


def test_suggestions_are_computed_when_they_are_asked_for(monkeypatch) -> None:
    counted = []
    original = shapes.suggestions_for
    monkeypatch.setattr(shapes, "suggestions_for", lambda *given: (counted.append(1), original(*given))[1])
    memory = why("s32[1024,8,4]{2,1,0:T(8,128)}")
    module = why(
        "HloModule m ENTRY e { p = f32[3,5]{1,0:T(8,128)} parameter(0) ROOT n = f32[3,5]{1,0:T(8,128)} negate(p) }"
    )
    assert (memory.factor, len(module.buffers), memory.table()["bytes"]) == (32.0, 2, [4194304])
    same = why("s32[1024,8,4]{2,1,0:T(8,128)}")
    assert (memory, hash(memory)) == (same, hash(same))
    assert pickle.loads(pickle.dumps(memory)) == memory
    assert counted == []
    found = []
    threads = [threading.Thread(target=lambda: found.append(memory.suggestions)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(each == found[0] for each in found)
    before = len(counted)
    assert memory.suggestions is memory.suggestions
    assert len(counted) == before
    assert (memory, hash(memory)) == (same, hash(same))


@pytest.mark.parametrize(
    "text", ["f32[4096,8191]{1,0:T(8,128)}", "f32[1048576,127]{1,0:T(8,128)}", "f32[99999,127]{1,0:T(1,128)}"]
)
def test_a_factor_near_one_is_not_told_as_one(text) -> None:
    assert "buffer" in str(why(text))
    assert ", 1 times" not in str(why(text))


@settings(max_examples=100, deadline=None)
@given(arrays(), st.sampled_from([None, "tpu", "tpu-v5e", "gpu"]))
def test_lines_fit_a_terminal(shape, target) -> None:
    for line in str(why(shape, target=target)).splitlines():
        assert len(line) <= 80 or " " not in line.strip() or len(max(line.split(), key=len)) > 60


def test_scalars_have_no_narrower_type_to_suggest() -> None:
    assert why("f32[]").suggestions == ()
    assert [one.jax for one in why("f32[]").suggest("bf16")] == ["x.astype(jnp.bfloat16)"]


def test_the_end_of_a_cut_allocation_is_told_and_not_lost() -> None:
    label = "XLA label: %fusion.1 = f32[8,128]{1,0:T(8,128)} fusion(f32[] %x), kind=kLoop, calls=a_computation_with_a_long_name.clone.clone"
    report = why(
        f"{label}\n  Allocation type: HLO temp\n  1. Size: 4.0K\n  Shape: f32[8,128]{{1,0:T(8,128)}}\n  Unpadded size: 4.0K"
    )
    assert [str(one.memory.shape) for one in report.allocations] == ["f32[8,128]{1,0:T(8,128)}"]
    assert (report.unread, report.cut) == ((), f"{label.removeprefix('XLA label: ')} (HLO temp)")
    assert report.headline().endswith("the text begins within an allocation whose size was cut off: fusion.1")
    assert all(len(line) <= 80 for line in report.headline().splitlines())


def test_what_was_asked_for_is_not_called_used() -> None:
    text = "Out of memory while trying to allocate 6291456 bytes.\nPeak buffers:\n  Buffer 1:\n    Size: 6.00MiB\n    Shape: f32[4096,128,3]"
    assert why(text).headline().startswith("a request of 6.00 MiB failed; the text does not say how much was free\n")
