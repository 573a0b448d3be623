"""The clients, blocking and for asyncio: values of the library as arguments and results, errors, broken connections,
uploads and streams.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from awaited_client import AwaitedClient

import xlashape as xs
from xlashape import errors
from xlashape.hlo import HloModule
from xlashape.proto import xla
from xlashape.shape import Shape, index_util, tiling
from xlashape.symbolic import IndexingMap
from xlashape_client import Client, Module
from xlashape_server import Config, Server

TILED = "f32[3,5]{1,0:T(2,2)}"
MAP = "(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 7], s0 in [0, 3]"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(Config(address="127.0.0.1:0", workers=1)) as running:
        yield running


@pytest.fixture(scope="module", params=[Client, AwaitedClient])
def kind(request: pytest.FixtureRequest) -> type[Client]:
    """The blocking client; the one for asyncio, driven like the blocking one."""
    return request.param


@pytest.fixture(scope="module")
def client(server: Server, kind: type[Client]) -> Iterator[Client]:
    with kind(server.address) as connected:
        yield connected


def f32(*sizes: int) -> xla.ShapeProto:
    made = xla.ShapeProto(element_type=xla.F32, dimensions=sizes, is_dynamic_dimension=[False] * len(sizes))
    made.layout.minor_to_major.extend(range(len(sizes) - 1, -1, -1))
    return made


def chain(length: int, name: str = "chain") -> HloModule:
    main = xla.HloComputationProto(name="main", id=1, root_id=length)
    main.instructions.add(name="p", opcode="parameter", id=1, shape=f32(8, 4))
    for i in range(2, length + 1):
        main.instructions.add(name=f"n.{i}", opcode="negate", id=i, shape=f32(8, 4), operand_ids=[i - 1])
    proto = xla.HloModuleProto(name=name, entry_computation_id=1, entry_computation_name="main", computations=[main])
    return HloModule.from_proto(proto)


def test_every_form_of_a_shape_is_accepted(client: Client) -> None:
    shape = Shape.parse(TILED)
    proto = shape.to_proto()
    for form in (TILED, shape, proto, proto.SerializeToString()):
        assert client.describe_shape(form).shape == shape
        assert client.byte_size(form).physical_bytes == 96
    pair = Shape.tuple([shape, Shape.token()])
    assert client.describe_shape(pair).shape == pair
    with pytest.raises(errors.InvalidArgumentError, match="expected a shape"):
        client.byte_size(17)


def test_unknown_fields_of_a_shape_are_sent(client: Client) -> None:
    strange = Shape.from_proto(Shape.parse(TILED).to_proto().SerializeToString() + b"\xa2\x06\x03abc")
    assert strange.unknown_fields
    assert client.describe_shape(strange).shape == strange


def test_a_description(client: Client) -> None:
    found = client.describe_shape("s4[6,<=5]{0,1:E(4)S(1)}")
    assert (found.text, found.true_rank, found.leaf_count, found.is_static) == ("s4[6,<=5]{0,1:E(4)S(1)}", 2, 1, False)
    assert (found.is_major_to_minor, found.is_tiled, found.element_bits, found.memory_space) == (False, False, 4, 1)
    assert found.size is not None
    assert (found.size.byte_size, found.size.element_count, found.size.padding_bytes) == (15, 30, 0)
    assert client.describe_shape("f32[?]").size is None


def test_batches(client: Client) -> None:
    shapes = [f"f32[{i}]" for i in range(1000)]
    assert [one.text for one in client.describe_shapes(shapes)] == [f"f32[{i}]{{0}}" for i in range(1000)]
    assert [one.byte_size for one in client.byte_sizes(shapes)] == [4 * i for i in range(1000)]
    assert client.describe_shapes([]) == []


@pytest.mark.parametrize(
    "text",
    [TILED, "bf16[20,300]{1,0:T(8,128)(2,1)}", "b(f32[3,5]{1,0:T(2,2)})", "f32[]", "f32[4,0]", "pred[2,3,4]{0,2,1}"],
)
def test_indices_are_those_of_the_library(client: Client, text: str) -> None:
    shape = Shape.parse(text)
    sizes = (shape.buffer_shape if shape.is_buffer else shape).dimensions
    rows = np.stack([axis.ravel() for axis in np.indices(sizes)], 1) if sizes else np.zeros((3, 0), np.int64)
    positions = client.linear_indices(shape, rows)
    assert positions.tolist() == tiling.linear_indices(shape, rows).tolist()
    every = np.arange(tiling.physical_elements(shape))
    for mine, theirs in zip(client.multi_indices(shape, every), tiling.multi_indices(shape, every), strict=True):
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        assert mine.tolist() == theirs.tolist()
    for row in rows[:3].tolist():
        assert client.linear_index(shape, row) == tiling.linear_index(shape, row)


def test_the_logical_order(client: Client) -> None:
    shape = Shape.parse("f32[3,5]{0,1:T(2,2)}")
    expected = index_util.multidimensional_index_to_linear_index(shape, (2, 3))
    assert client.linear_index(shape, (2, 3), order="logical") == expected
    assert client.linear_indices(shape, [(2, 3)], order="logical").tolist() == [expected]
    assert client.multi_index(shape, expected, order="logical") == (2, 3)
    assert client.multi_indices(shape, [expected], order="logical")[0].tolist() == [[2, 3]]
    with pytest.raises(errors.InvalidArgumentError, match="order: expected one of physical, logical"):
        client.linear_index(shape, (2, 3), order="upside down")


def test_padding_is_none(client: Client) -> None:
    assert client.multi_index(TILED, 17) == (2, 3)
    assert client.multi_index(TILED, 18) is None


def test_a_million_indices(client: Client) -> None:
    shape = Shape.parse("bf16[16,24,100,300]{3,2,1,0:T(8,128)(2,1)}")
    rows = np.random.default_rng(3).integers(0, shape.dimensions, (1_000_000, 4))
    assert np.array_equal(client.linear_indices(shape, rows), tiling.linear_indices(shape, rows))


@pytest.mark.parametrize(
    "wrong",
    [
        [(0.5, 1)],
        [(1,), (1, 2)],
        [("a", "b")],
        [1, 2],
        [[[1]]],
        [(2**63, 0)],
        np.array([[2**63, 0]], np.uint64),
        [(True, False)],
        [(None, 1)],
    ],
    ids=str,
)
def test_rows_that_are_not_integers_are_refused_before_they_are_sent(client: Client, wrong: Any) -> None:
    with pytest.raises(errors.InvalidIndexError):
        client.linear_indices(TILED, wrong)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint16, ">i8", np.uint64])
def test_every_integer_type_and_stride_is_accepted(client: Client, dtype: Any) -> None:
    rows = np.zeros((6, 4), dtype)
    rows[::2, ::2] = (2, 3)
    assert client.linear_indices(TILED, rows[::2, ::2]).tolist() == [17, 17, 17]


def test_errors_are_the_librarys_own(client: Client) -> None:
    with pytest.raises(errors.ParseError, match="expected") as parse:
        client.byte_size("f32[2,")
    with pytest.raises(errors.ParseError) as here:
        Shape.parse("f32[2,")
    assert (parse.value.line, parse.value.column, str(parse.value)) == (1, 7, str(here.value))
    assert parse.value.field == "shapes[0].text"
    with pytest.raises(errors.InvalidIndexError, match="index 9 is outside dimension 1") as index:
        client.linear_index(TILED, (0, 9))
    assert index.value.field == "indices[1]"
    with pytest.raises(errors.InvalidShapeError):
        client.linear_index("(f32[2])", (0,))
    with pytest.raises(errors.NotFoundError) as missing:
        client.get_module("modules/" + "0" * 64)
    assert (missing.value.kind, missing.value.name) == ("module", "modules/" + "0" * 64)
    with pytest.raises(errors.LimitExceededError) as limit:
        client.byte_sizes(["f32[]"] * 100_001)
    assert (limit.value.limit, limit.value.value) == ("batch", 100_001)


def test_every_form_of_a_module_is_accepted(client: Client, tmp_path: Path) -> None:
    module = chain(5)
    content = module.proto.SerializeToString()
    (tmp_path / "m.pb").write_bytes(content)
    (tmp_path / "m.hlo.pb").write_bytes(xla.HloProto(hlo_module=module.proto).SerializeToString())
    uploaded = client.upload_module(module)
    forms: list[Any] = [
        module,
        module.proto,
        content,
        tmp_path / "m.pb",
        str(tmp_path / "m.hlo.pb"),
        uploaded,
        uploaded.name,
    ]
    for form in forms:
        assert [one.name for one in client.list_instructions(form)] == ["p", "n.2", "n.3", "n.4", "n.5"]
    with pytest.raises(errors.NotFoundError, match="there is no file"):
        client.size(tmp_path / "nothing")
    with pytest.raises(errors.InvalidArgumentError, match="cannot read"):
        client.size(tmp_path)
    with pytest.raises(errors.InvalidArgumentError, match="expected a module"):
        client.size(3.5)


def test_the_life_of_a_module_on_the_server(client: Client) -> None:
    module = chain(4, "life")
    content = module.proto.SerializeToString()
    kept = client.upload_module(content)
    assert kept.name == f"modules/{hashlib.sha256(content).hexdigest()}"
    assert (kept.format, kept.module_name, kept.instruction_count, kept.size_bytes) == (
        "hlo_module_proto",
        "life",
        4,
        len(content),
    )
    assert kept.expire_time > kept.create_time
    again = client.get_module(kept)
    assert again._replace(expire_time=kept.expire_time) == kept
    assert client.upload_module(kept).name == kept.name
    assert client.download_module(kept) == content
    assert client.load_module(kept.name).proto == module.proto
    client.delete_module(kept)
    for gone in (client.get_module, client.download_module, client.delete_module):
        with pytest.raises(errors.NotFoundError):
            gone(kept)


def test_a_large_module_is_uploaded_once_and_downloaded_in_parts(client: Client) -> None:
    module = chain(50_000, "large")
    content = module.proto.SerializeToString()
    assert len(content) > 2 << 20
    size = client.size(module, max_rows=3)
    assert (size.count, size.bytes, len(size), size.row_count) == (50_000, 50_000 * 128, 3, 50_000)
    name = f"modules/{hashlib.sha256(content).hexdigest()}"
    assert client.get_module(name).size_bytes == len(content)
    assert client.download_module(name) == content
    assert sum(1 for _ in client.list_instructions(module, page_size=9000)) == 50_000


def test_instructions_and_their_bytes(client: Client) -> None:
    module = chain(3)
    p, *_, last = client.list_instructions(module)
    assert (p.opcode, p.shape, p.parameter_number, p.is_root) == ("parameter", Shape.parse("f32[8,4]{1,0}"), 0, False)
    assert (last.operands, last.is_root, last.parameter_number, last.computation) == (("n.2",), True, None, "main")
    assert [(one.name, one.bytes, one.padding_bytes) for one in client.size(module, order="module")] == [
        ("p", 128, 0),
        ("n.2", 128, 0),
        ("n.3", 128, 0),
    ]
    with pytest.raises(errors.InvalidArgumentError, match="expected one of"):
        client.size(module, order="size")
    with pytest.raises(errors.NotFoundError) as caught:
        next(client.list_instructions(module, computation="nowhere"))
    assert (caught.value.kind, caught.value.name) == ("computation", "nowhere")


def test_maps_of_a_module(client: Client) -> None:
    module = chain(6)
    found = client.map(module, structured=True)
    assert [row.instruction for row in found] == ["n.2", "n.3", "n.4", "n.5", "n.6"]
    identity = IndexingMap.identity([8, 4])
    first = found[0]
    assert (first.opcode, first.direction, first.operand_name, first.knowledge) == (
        "negate", "output_to_input", "p", "exact",
    )  # fmt: skip
    assert first.indexing is not None and first.indexing.map == identity and first.map == str(identity)
    [one] = client.map(module, "n.3", direction="input_to_output", operand=0, raw=True, style="affine")
    assert (one.instruction, one.direction, one.map, one.indexing) == ("n.3", "input_to_output", str(identity), None)
    with pytest.raises(errors.NotFoundError) as caught:
        client.map(module, "nobody")
    assert (caught.value.kind, caught.value.name) == ("instruction", "nobody")
    with pytest.raises(errors.InvalidArgumentError, match="expected one of"):
        client.map(module, direction="sideways")


@pytest.mark.parametrize(("most", "expected"), [(0, 0), (1, 1), (2000, 2000), (2001, 2001), (9999, 4999), (None, 4999)])
def test_the_rows_that_are_fetched_can_be_bounded(client: Client, most: int | None, expected: int) -> None:
    found = client.map(chain(5000), max_rows=most)
    assert (len(found), found.row_count, found.map_count) == (expected, 4999, 4999)


def test_maps(client: Client) -> None:
    here = IndexingMap.parse(MAP)
    second = IndexingMap.parse("(d0) -> (d0 floordiv 4, d0 mod 4), domain: d0 in [0, 31]")
    assert client.simplify_map(MAP) == here.simplify()
    assert client.simplify_maps([here, second]) == [here.simplify(), second.simplify()]
    assert client.compose_maps(here, str(second)) == here.compose(second)
    assert client.compose_maps(here, second, raw=True) == here.compose_unsimplified(second)
    assert client.compose_map_chains([[here, second]] * 2) == [here.compose(second)] * 2
    assert client.evaluate_map(here, (2, 3)) == (11,)
    assert client.evaluate_map(here, (2, 4)) is None
    results, inside = client.evaluate_map_batch(MAP, [(2, 3), (9, 0)])
    assert (results.tolist(), inside.tolist()) == ([[11], [0]], [True, False])
    unused = client.simplify_and_remove_unused("(d0)[s0, s1] -> (s1), domain: d0 in [0, 1], s0 in [0, 2], s1 in [0, 3]")
    assert (str(unused.map), unused.removed_ranges) == ("(d0)[s0] -> (s0), domain: d0 in [0, 1], s0 in [0, 3]", (0,))
    with pytest.raises(errors.InvalidArgumentError, match="expected an IndexingMap"):
        client.simplify_map(3)
    with pytest.raises(errors.InvalidMapError):
        client.evaluate_map(IndexingMap.undefined(), ())


def test_a_flag_that_says_no_is_not_one_that_is_not_given(client: Client) -> None:
    """Without it the server goes by the layouts, whose tiles say that a compiler for TPUs made the module."""
    operands = "a = bf16[8,128]{1,0:T(8,128)} parameter(0) b = f32[8,128]{1,0:T(8,128)} parameter(1)"
    module = f"HloModule m ENTRY e {{ {operands} ROOT c = f32[8,128]{{1,0:T(8,128)}} add(a, b) }}".encode()
    assert len(client.verify(module)) == len(client.verify(module, allow_mixed_precision=True)) == 0
    assert [row.instruction for row in client.verify(module, allow_mixed_precision=False)] == ["c"]


def test_empty_batches_keep_their_shape(client: Client) -> None:
    assert client.linear_indices(TILED, np.zeros((0, 2), np.int64)).shape == (0,)
    rows, is_element = client.multi_indices(TILED, [])
    assert (rows.shape, is_element.shape, rows.dtype, is_element.dtype) == ((0, 2), (0,), np.int64, np.bool_)
    results, inside = client.evaluate_map_batch(MAP, np.zeros((0, 2), np.int64))
    assert (results.shape, inside.shape) == ((0, 1), (0,))


def test_a_timeout_is_a_deadline_exceeded_error(client: Client) -> None:
    with pytest.raises(errors.DeadlineExceededError):
        client.byte_size(TILED, timeout=-1.0)


def test_a_server_that_does_not_exist_is_unavailable(kind: type[Client]) -> None:
    with kind("127.0.0.1:1", timeout=5) as lonely:
        with pytest.raises(errors.UnavailableError, match=r"127\.0\.0\.1:1"):
            lonely.byte_size(TILED)
        with pytest.raises(errors.UnavailableError):
            list(lonely.list_instructions(chain(2)))
        with pytest.raises(errors.UnavailableError, match="does not serve"):
            lonely.wait_until_ready(0.1)


def test_a_closed_client_is_unavailable(kind: type[Client]) -> None:
    with kind("127.0.0.1:1") as closed:
        closed.close()
        closed.close()
        with pytest.raises(errors.UnavailableError, match="closed"):
            closed.byte_size(TILED)
        with pytest.raises(errors.UnavailableError, match="closed"):
            closed.map(chain(2))
        with pytest.raises(errors.UnavailableError, match="closed"):
            list(closed.list_instructions(chain(2)))
        with pytest.raises(errors.UnavailableError, match="closed"):
            closed.wait_until_ready(0.1)


def test_wrong_words_are_refused_before_a_call(kind: type[Client]) -> None:
    with kind("127.0.0.1:1") as lonely:
        for call in (
            lambda: lonely.map(chain(2), direction="sideways"),
            lambda: lonely.size(chain(2), order="size"),
            lambda: lonely.tile(chain(2), "n.2", style="neat"),
        ):
            with pytest.raises(errors.InvalidArgumentError, match="expected one of"):
                call()
        with pytest.raises(TypeError, match="colour"):
            lonely.list_instructions(chain(2), colour="red")  # type: ignore[call-arg]


def test_a_module_is_a_named_tuple() -> None:
    assert Module._fields[:3] == ("name", "size_bytes", "format")


def test_a_limit_and_the_totals_beside_it_are_of_main_memory(client: Client) -> None:
    text = """HloModule m, is_scheduled=true
    ENTRY e { p = f32[1024]{0} parameter(0) a = f32[1024]{0:S(1)} negate(p) ROOT b = f32[1024]{0} abs(a) }"""
    whole = xs.memory(text)
    found = client.memory(text, sections=("fit",), argument=20_000)
    assert (found.peak_bytes, whole.of_main_memory.peak_bytes, whole.peak_bytes) == (8192, 8192, 12288)
    assert found.headline().startswith("It fits: the peak of 8.00 KiB in main memory (space 0)")
    assert client.memory(text).peak_bytes == 12288
