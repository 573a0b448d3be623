"""Limits of the server, whose errors name the limit, and deadlines of calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.descriptor import MethodDescriptor

from xlashape.errors import DeadlineExceededError, LimitExceededError
from xlashape.proto import services, v1
from xlashape.proto.packed import join
from xlashape.reports.report import rpc_of
from xlashape.shape import Shape
from xlashape_client import Client
from xlashape_server import Config, Server
from xlashape_server.handlers import HloHandlers, MapHandlers, ShapeHandlers
from xlashape_server.handlers.reports import ReportHandlers
from xlashape_server.modules import Modules
from xlashape_server.store import Store

NEVER = 1e12


@pytest.fixture
def modules(tmp_path: Path) -> Callable[[Config], Modules]:
    return lambda config: Modules(
        config, Store(tmp_path, max_bytes=config.store_bytes, max_age=config.store_age_seconds)
    )


def refused(call: Callable[[], Any]) -> tuple[str, int | None, int | None, str | None]:
    with pytest.raises(LimitExceededError) as caught:
        call()
    error = caught.value
    return error.limit, error.maximum, error.value, error.field


def shapes(count: int) -> list[v1.ShapeInput]:
    return [v1.ShapeInput(text="f32[2]")] * count


def test_batches() -> None:
    config = Config(max_batch=3)
    handlers, maps = ShapeHandlers(config), MapHandlers(config)
    assert handlers.byte_size(v1.ByteSizeRequest(shapes=shapes(3)).SerializeToString())
    expected = ("batch", 3, 4, "shapes")
    assert refused(lambda: handlers.byte_size(v1.ByteSizeRequest(shapes=shapes(4)).SerializeToString())) == expected
    assert (
        refused(lambda: handlers.describe_shape(v1.DescribeShapeRequest(shapes=shapes(4)).SerializeToString(), NEVER))
        == expected
    )
    four = v1.SimplifyMapRequest(maps=[v1.MapInput(text="() -> ()")] * 4).SerializeToString()
    assert refused(lambda: maps.simplify_map(four, NEVER)) == ("batch", 3, 4, "maps")
    chains = v1.ComposeMapsRequest(chains=[v1.MapChain()] * 4).SerializeToString()
    assert refused(lambda: maps.compose_maps(chains, NEVER)) == ("batch", 3, 4, "chains")


def test_items_without_numbers() -> None:
    """A request of some bytes states how many there are."""
    most = 1 << 20
    scalars = v1.LinearIndexRequest(shape=v1.ShapeInput(text="f32[]"), count=2**40).SerializeToString()
    assert refused(lambda: ShapeHandlers(Config()).linear_index(scalars)) == ("indices", most, 2**40, "indices")
    points = v1.EvaluateMapRequest(map=v1.MapInput(text="() -> ()"), count=2**62).SerializeToString()
    assert refused(lambda: MapHandlers(Config()).evaluate_map(points, NEVER)) == ("indices", most, 2**62, "points")


def test_elements_of_one_shape() -> None:
    config = Config(max_shape_elements=1000)
    handlers = ShapeHandlers(config)
    within = Shape.parse(f"({', '.join(['f32[2]'] * 900)})")
    beyond = Shape.parse(f"({', '.join(['f32[2]'] * 1002)})")

    def forms(shape: Shape) -> list[v1.ShapeInput]:
        proto = shape.to_proto()
        return [
            v1.ShapeInput(text=str(shape).replace("{0}", "")),
            v1.ShapeInput(shape=v1.Shape.FromString(proto.SerializeToString())),
            v1.ShapeInput(serialized=proto.SerializeToString()),
        ]

    assert handlers.byte_size(v1.ByteSizeRequest(shapes=forms(within)).SerializeToString())
    for form, value in zip(("text", "shape", "serialized"), forms(beyond), strict=True):
        expected = ("shape_elements", 1000, 1001 if form == "text" else 1002)
        many = v1.ByteSizeRequest(shapes=[value]).SerializeToString()
        assert refused(lambda many=many: handlers.byte_size(many)) == (*expected, f"shapes[0].{form}")
        many = v1.DescribeShapeRequest(shapes=[value]).SerializeToString()
        assert refused(lambda many=many: handlers.describe_shape(many, NEVER)) == (*expected, f"shapes[0].{form}")
        one = v1.LinearIndexRequest(shape=value).SerializeToString()
        assert refused(lambda one=one: handlers.linear_index(one)) == (*expected, f"shape.{form}")
        one = v1.MultiIndexRequest(shape=value).SerializeToString()
        assert refused(lambda one=one: handlers.multi_index(one)) == (*expected, f"shape.{form}")


def test_a_deadline_ends_a_batch_of_shapes() -> None:
    handlers = ShapeHandlers(Config())
    past = time.monotonic() - 1
    elements = ", ".join(f"f32[{i}]" for i in range(1, 300))
    for texts in ([f"({elements})"], ["f32[2]", "f32[3]"] * 150):
        request = v1.ByteSizeRequest(shapes=[v1.ShapeInput(text=text) for text in texts]).SerializeToString()
        with pytest.raises(DeadlineExceededError):
            handlers.byte_size(request, past)
        assert handlers.byte_size(request)


def test_a_large_shape_is_refused_before_it_is_parsed(client: Client) -> None:
    text = f"({','.join(['f32[2]'] * 1_000_000)})"
    with pytest.raises(LimitExceededError, match="999999 commas") as caught:
        client.byte_size(text, timeout=10)
    assert caught.value.limit == "shape_elements"


def test_responses_are_bounded() -> None:
    config = Config(max_request_bytes=4096)
    deep = v1.ShapeInput(text=f"f32[{','.join('1' * 100)}]")
    request = v1.MultiIndexRequest(shape=deep, positions=[0] * 100).SerializeToString()
    limit, maximum, value, field = refused(lambda: ShapeHandlers(config).multi_index(request))
    assert (limit, maximum, value, field) == ("response_bytes", 8192, 100 * 801, "positions")
    maps = MapHandlers(config)
    wide = v1.EvaluateMapRequest(map=v1.MapInput(text=f"() -> ({', '.join('1' * 300)})"), count=10).SerializeToString()
    assert refused(lambda: maps.evaluate_map(wide, NEVER))[0] == "response_bytes"
    many = v1.SimplifyMapRequest(
        maps=[v1.MapInput(text="(d0) -> (d0), domain: d0 in [0, 3]")] * 500
    ).SerializeToString()
    assert refused(lambda: maps.simplify_map(many, NEVER))[0] == "response_bytes"


def test_modules(modules: Callable[[Config], Modules], wide: Callable[[int], bytes]) -> None:
    def listed(config: Config, content: bytes) -> bytes:
        request = v1.ListInstructionsRequest(module=v1.ModuleInput(serialized=content)).SerializeToString()
        return HloHandlers(config, modules(config)).list_instructions(request, NEVER)

    content = wide(20)
    assert listed(Config(max_module_bytes=len(content)), content)
    bytes_ = Config(max_module_bytes=len(content) - 1)
    assert refused(lambda: listed(bytes_, content)) == (
        "module_bytes",
        len(content) - 1,
        len(content),
        "module.serialized",
    )


def test_modules_of_text(modules: Callable[[Config], Modules]) -> None:
    lines = "".join(f'  n{i} = f32[4] negate(p), metadata={{op_name="x=1"}}\n' for i in range(10))
    text = f"HloModule m\n\nENTRY e {{\n  p = f32[4] parameter(0)\n{lines}  ROOT t =/*so*/\n (f32[4]) tuple(p)\n}}\n"

    def listed(**settings: int) -> v1.ListInstructionsResponse:
        config = Config(**settings)
        request = v1.ListInstructionsRequest(module=v1.ModuleInput(text=text)).SerializeToString()
        return v1.ListInstructionsResponse.FromString(
            HloHandlers(config, modules(config)).list_instructions(request, NEVER)
        )

    assert listed(max_module_text_bytes=len(text)).total_size == 12
    limit = ("module_text_bytes", len(text) - 1, len(text), "module.text")
    assert refused(lambda: listed(max_module_text_bytes=len(text) - 1)) == limit


def test_an_upload_that_is_too_large_is_refused_before_its_end(
    modules: Callable[[Config], Modules], tmp_path: Path
) -> None:
    config = Config(max_module_bytes=1000)
    seen = 0

    def messages() -> Iterator[bytes]:
        nonlocal seen
        while True:
            seen += 1
            yield v1.UploadModuleRequest(data=bytes(300)).SerializeToString()

    handlers = HloHandlers(config, modules(config))
    assert refused(lambda: handlers.upload_module(messages(), NEVER)) == ("module_bytes", 1000, 1200, "data")
    assert seen == 4
    announced = v1.UploadModuleRequest(size_bytes=1001).SerializeToString()
    assert refused(lambda: handlers.upload_module(iter([announced]), NEVER)) == (
        "module_bytes",
        1000,
        1001,
        "size_bytes",
    )
    assert not any((tmp_path / "incoming").iterdir())


def test_the_store_is_bounded(modules: Callable[[Config], Modules], wide: Callable[[int], bytes]) -> None:
    config = Config(store_bytes=500)
    handlers = HloHandlers(config, modules(config))
    upload = v1.UploadModuleRequest(data=wide(20)).SerializeToString()
    assert refused(lambda: handlers.upload_module(iter([upload]), NEVER))[:2] == ("store_bytes", 500)


def test_pages_are_bounded(modules: Callable[[Config], Modules], wide: Callable[[int], bytes]) -> None:
    config = Config(max_page_size=4)
    request = v1.ListInstructionsRequest(module=v1.ModuleInput(serialized=wide(9)), page_size=1000).SerializeToString()
    answer = v1.ListInstructionsResponse.FromString(
        HloHandlers(config, modules(config)).list_instructions(request, NEVER)
    )
    assert (len(answer.instructions), answer.total_size) == (4, 9)


TERMS = [f"((d0 * {i} + d1) mod {i + 7}) floordiv 3" for i in range(2, 302)]
HEAVY = f"(d0, d1) -> ({', '.join(' + '.join(TERMS[i::4]) for i in range(4))}), domain: d0 in [0, 999], d1 in [0, 999]"


def report_handler(config: Config, modules: Callable[[Config], Modules], name: str) -> Callable[[bytes, float], bytes]:
    return ReportHandlers(config, modules(config)).handler(method_of(rpc_of(name)), name)


def method_of(rpc: str) -> MethodDescriptor:
    return next(method for service in services() for method in service.methods if method.name == rpc)


def heavy_request(points: int) -> bytes:
    table = np.zeros((points, 2), "<i8")
    return join(v1.EvaluateMapRequest(map=v1.MapInput(text=HEAVY)), points=memoryview(table).cast("B"))


@pytest.mark.parametrize(
    "rpc",
    [
        "evaluate_map",
        "simplify_map",
        "compose_maps",
        "map",
        "reads",
        "tile",
        "size",
        "list_instructions",
        "describe_shape",
    ],
)
def test_a_deadline_ends_every_long_answer(
    modules: Callable[[Config], Modules], wide: Callable[[int], bytes], rpc: str
) -> None:
    config = Config()
    inline = v1.ModuleInput(serialized=wide(2000))
    requests: dict[str, tuple[Any, Any]] = {
        "evaluate_map": (MapHandlers, heavy_request(20_000)),
        "simplify_map": (MapHandlers, v1.SimplifyMapRequest(maps=[v1.MapInput(text=HEAVY)])),
        "compose_maps": (
            MapHandlers,
            v1.ComposeMapsRequest(
                chains=[v1.MapChain(maps=[v1.MapInput(text="(d0) -> (d0), domain: d0 in [0, 3]")] * 2)] * 300
            ),
        ),
        "map": (ReportHandlers, v1.IndexingMapsRequest(module=inline)),
        "reads": (ReportHandlers, v1.ReadsRequest(module=inline)),
        "tile": (ReportHandlers, v1.TileRequest(module=inline, instruction="n.2")),
        "size": (ReportHandlers, v1.SizeRequest(module=inline)),
        "list_instructions": (HloHandlers, v1.ListInstructionsRequest(module=inline)),
        "describe_shape": (ShapeHandlers, v1.DescribeShapeRequest(shapes=shapes(1000))),
    }
    kind, request = requests[rpc]
    data = request if isinstance(request, bytes) else request.SerializeToString()
    if kind is ReportHandlers:
        handler = report_handler(config, modules, rpc)
    else:
        handlers = kind(config, modules(config)) if kind is HloHandlers else kind(config)
        handler = getattr(handlers, rpc)
    with pytest.raises(DeadlineExceededError):
        handler(data, time.monotonic() - 1)


def test_a_deadline_frees_the_thread_of_the_call() -> None:
    with Server(Config(address="127.0.0.1:0", workers=1)) as server, Client(server.address) as client:
        points = np.zeros((400_000, 2), np.int64)
        with pytest.raises(DeadlineExceededError):
            client.evaluate_map_batch(HEAVY, points, timeout=0.3)
        # The server has one thread, which takes the next call.
        assert client.linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3), timeout=10) == 17


def test_the_servers_own_limit_of_time_is_named() -> None:
    with (
        Server(Config(address="127.0.0.1:0", workers=1, max_call_seconds=0.2)) as server,
        Client(server.address) as client,
    ):
        with pytest.raises(LimitExceededError, match="more than 0.2 seconds") as caught:
            client.evaluate_map_batch(HEAVY, np.zeros((400_000, 2), np.int64), timeout=60)
        assert caught.value.limit == "call_seconds"


def test_steps_bound_an_analysis(modules: Callable[[Config], Modules], module: Any) -> None:
    given = v1.ModuleInput(serialized=module.SerializeToString())
    whole, one = [v1.IndexingMapsRequest(module=given, instruction=name).SerializeToString() for name in ("", "t")]
    few, many = [report_handler(Config(max_analysis_steps=steps), modules, "map") for steps in (3, 100_000)]
    with pytest.raises(LimitExceededError, match="analysis of map took more than 3 steps") as caught:
        few(one, NEVER)
    assert (caught.value.limit, caught.value.maximum) == ("analysis_steps", 3)
    told = v1.IndexingMapsResponse.FromString(few(whole, NEVER))
    assert [row.error for row in told.maps if row.error] == ["analysis of map took more than 3 steps"]
    assert v1.IndexingMapsResponse.FromString(many(whole, NEVER)).totals.error_count == 0


def test_steps_bound_the_algebra_of_maps() -> None:
    config = Config(max_analysis_steps=10)
    request = v1.SimplifyMapRequest(
        maps=[v1.MapInput(text="(d0) -> ((d0 * 7 + 3) mod 5 + d0 floordiv 2), domain: d0 in [0, 99]")]
    )
    handlers = MapHandlers(config)
    assert refused(lambda: handlers.simplify_map(request.SerializeToString(), NEVER))[:2] == ("analysis_steps", 10)
