"""Every RPC of the schema is answered by a server and by the service in this process, and a method of the client calls
it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.descriptor import MethodDescriptor

from xlashape.errors import NotFoundError
from xlashape.hlo import HloModule
from xlashape.proto import services, xla
from xlashape.reports.report import REPORTS, rpc_of
from xlashape_client import Client
from xlashape_client.methods import ServiceMethods
from xlashape_server.children import Children
from xlashape_server.commands.page_file import Local
from xlashape_server.config import Config
from xlashape_server.front import Front
from xlashape_server.grpc_calls import CallThreads, add_services
from xlashape_server.guard import Guard
from xlashape_server.handlers import rpcs
from xlashape_server.modules import Modules
from xlashape_server.store import Store

METHODS: list[MethodDescriptor] = [method for service in services() for method in service.methods]
TILED = "f32[3,5]{1,0:T(2,2)}"
MAP = "(d0) -> (d0 mod 4), domain: d0 in [0, 7]"
# More indices than fit one message of the usual size.
ROWS = np.stack(np.unravel_index(np.arange(600_000) % 15, (3, 5)), axis=1)
POSITIONS = np.arange(600_000) % 24
POINTS = (np.arange(600_000) % 10)[:, None]


def _large(module: Any) -> bytes:
    """A module that is so large that clients upload it in parts."""
    return module.to_text().encode() + b"\n" * (1 << 20)


PROFILE = Path(__file__).resolve().parents[1] / "vectors" / "profiles" / "conv_grad.xplane.pb"
CALLS: dict[str, Callable[[ServiceMethods, Any], Any]] = {
    "DescribeShape": lambda service, module: service.describe_shape(TILED),
    "ByteSize": lambda service, module: service.byte_size(TILED),
    "LinearIndex": lambda service, module: service.linear_index(TILED, (2, 3)),
    "MultiIndex": lambda service, module: service.multi_index(TILED, 17),
    "LinearIndices": lambda service, module: service.linear_indices(TILED, ROWS).tolist(),
    "MultiIndices": lambda service, module: [part.tolist() for part in service.multi_indices(TILED, POSITIONS)],
    "UploadModule": lambda service, module: service.upload_module(_large(module)).module_name,
    "PutModule": lambda service, module: service.put_module(module).module_name,
    "GetModule": lambda service, module: service.get_module(service.upload_module(module)).instruction_count,
    "DeleteModule": lambda service, module: service.delete_module(service.upload_module(module)),
    "ListInstructions": lambda service, module: list(service.list_instructions(module)),
    "IndexingMaps": lambda service, module: [
        service.map(module, "t", output=0).to_dict(),
        service.map(module, structured=True)[0].indexing,
    ],
    "ParseMap": lambda service, module: service.parse_map(MAP),
    "SimplifyMap": lambda service, module: service.simplify_map(MAP),
    "ComposeMaps": lambda service, module: service.compose_maps(MAP, MAP),
    "EvaluateMap": lambda service, module: service.evaluate_map(MAP, (6,)),
    "Memory": lambda service, module: service.memory(module, sections=("", "timeline", "spaces")).to_dict(),
    "Copies": lambda service, module: service.copies(module, sections=("", "causes", "suggestions")).to_dict(),
    "Cost": lambda service, module: service.cost(module, sections=("", "spaces")).to_dict(),
    "Collectives": lambda service, module: service.collectives(module, sections=("", "findings")).to_dict(),
    "Reads": lambda service, module: service.reads(module, sections=("", "accesses", "writes")).to_dict(),
    "Diff": lambda service, module: service.diff(module, module, sections=("", "measures", "peak")).to_dict(),
    "Equivalent": lambda service, module: service.equivalent(module, module).to_dict(),
    "Summary": lambda service, module: service.summary(module).to_dict(),
    "Tile": lambda service, module: service.tile(module, "t", (2, 2), at=(1, 0)).to_dict(),
    "Verify": lambda service, module: service.verify(module, replica_count=2).to_dict(),
    "Why": lambda service, module: [
        service.why(module).to_dict(),
        service.why(shape=TILED, sections=("", "causes", "suggestions")).to_dict(),
    ],
    "Size": lambda service, module: service.size(module).to_dict(),
    "Profile": lambda service, module: service.profile(PROFILE).to_dict(),
    "Recognize": lambda service, module: service.recognize(f"a shape, {TILED}"),
    "Draw": lambda service, module: [
        service.draw(shape=TILED, at=(2, 3)),
        service.draw(map=MAP),
        service.draw(module, "t"),
        service.draw(module),
    ],
    "GetText": lambda service, module: service.get_text(module, "t", include_definitions=True),
    "Graph": lambda service, module: service.graph(module, "t"),
    "EvaluateMapBatch": lambda service, module: [part.tolist() for part in service.evaluate_map_batch(MAP, POINTS)],
}
"""Name of an RPC → a function that calls the client's method for it, and returns the value that is compared."""


def every_rpc(argument: str) -> Any:
    return pytest.mark.parametrize(argument, METHODS, ids=lambda method: method.name)


class Recording(Local):
    """Answers calls in this process, and records which RPCs are called."""

    def __init__(self) -> None:
        super().__init__(60)
        self.asked: set[str] = set()

    def send(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> bytes:
        self.asked.add(method)
        return super().send(method, request, timeout)

    def stream(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> Iterator[bytes]:
        self.asked.add(method)
        return super().stream(method, request, timeout)


def test_every_rpc_has_an_example_in_this_file() -> None:
    names = {method.name for method in METHODS}
    assert names - CALLS.keys() == set(), "CALLS in this file has no call of these RPCs"
    assert CALLS.keys() - names == set(), "CALLS in this file has calls of RPCs that the schema does not have"


@every_rpc("method")
def test_the_server_answers_it(channel: Any, method: MethodDescriptor) -> None:
    path = f"/{method.containing_service.full_name}/{method.name}"
    not_a_message = b"\xff"
    with pytest.raises(grpc.RpcError) as caught:
        if method.client_streaming and method.server_streaming:
            list(channel.stream_stream(path)(iter([not_a_message]), timeout=30))
        elif method.client_streaming:
            channel.stream_unary(path)(iter([not_a_message]), timeout=30)
        elif method.server_streaming:
            list(channel.unary_stream(path)(not_a_message, timeout=30))
        else:
            channel.unary_unary(path)(not_a_message, timeout=30)
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


@every_rpc("method")
def test_the_clients_method_of_the_same_name_calls_it(module: xla.HloModuleProto, method: MethodDescriptor) -> None:
    of_reports = {rpc_of(report): report for report in REPORTS}
    name = of_reports.get(method.name) or re.sub(r"(?<!^)(?=[A-Z])", "_", method.name).lower()
    assert callable(getattr(Client, name, None)), f"clients/python/xlashape_client/methods/ has no method {name}"
    service = Recording()
    CALLS[method.name](service, HloModule.from_proto(module))
    assert method.name in service.asked


@every_rpc("method")
def test_it_is_answered_in_this_process_as_by_the_server(
    client: Client, awaited_client: Any, module: xla.HloModuleProto, method: MethodDescriptor
) -> None:
    call = CALLS[method.name]
    given = HloModule.from_proto(module)
    assert repr(call(Local(60), given)) == repr(call(client, given)) == repr(call(awaited_client, given))


def test_a_handler_that_is_missing_is_noticed_before_the_server_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from xlashape_server.handlers import ShapeHandlers

    config = Config()
    modules = Modules(config, Store(tmp_path, max_bytes=1 << 20, max_age=60))
    threads = CallThreads(1, "call")
    server = grpc.server(threads)
    front = Front(config, rpcs(config, modules), modules.store, Children(config))
    add_services(server, rpcs(config, modules), Guard(config), front, threads, config)
    monkeypatch.delattr(ShapeHandlers, "byte_size")
    with pytest.raises(AttributeError, match="byte_size"):
        rpcs(config, modules)


def test_a_module_uploaded_in_this_process_is_kept_until_it_is_deleted(module: xla.HloModuleProto) -> None:
    local = Local(60)
    kept = local.upload_module(HloModule.from_proto(module))
    assert local.upload_module(HloModule.from_proto(module)).name == kept.name
    assert local.download_module(kept) == HloModule.from_proto(module).proto.SerializeToString()
    assert [one.name for one in local.list_instructions(kept, computation="main")] == ["x", "t", "n"]
    with pytest.raises(NotFoundError, match="is kept by a server: say which with --server"):
        Local(60).get_module(kept)
    local.delete_module(kept)
    with pytest.raises(NotFoundError) as caught:
        local.get_module(kept)
    assert (caught.value.kind, caught.value.name, caught.value.field) == ("module", kept.name, "name")
