"""Fixtures: one server for all tests, on a free loopback port, clients of it, and example modules.

Fixtures import the packages that need gRPC. So without gRPC the tests are skipped, and the run goes on.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from xlashape.proto import message_class, service, v1, xla

if TYPE_CHECKING:
    import grpc
    from awaited_client import AwaitedClient

    from xlashape_client import Client
    from xlashape_server import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    from xlashape_server import Config, Server

    with Server(Config(address="127.0.0.1:0", workers=2, grace_seconds=5)) as running:
        yield running


@pytest.fixture(scope="session")
def tls_pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The files of a certificate for 127.0.0.1, which is self-signed, and of its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("pair")
    new = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    names = ("-subj", "/CN=127.0.0.1", "-keyout", "key.pem", "-out", "certificate.pem")
    subprocess.run(["openssl", *new, *names], cwd=folder, check=True, capture_output=True)
    return str(folder / "certificate.pem"), str(folder / "key.pem")


@pytest.fixture(scope="session")
def client(server: Server) -> Iterator[Client]:
    from xlashape_client import Client

    with Client(server.address, timeout=30) as connected:
        yield connected


@pytest.fixture(scope="session")
def awaited_client(server: Server) -> Iterator[AwaitedClient]:
    """The client for asyncio, in a wrapper that tests use like `client`."""
    from awaited_client import AwaitedClient

    with AwaitedClient(server.address, timeout=30) as connected:
        yield connected


@pytest.fixture(scope="session")
def channel(server: Server) -> Iterator[grpc.Channel]:
    import grpc

    with grpc.insecure_channel(server.address) as connected:
        yield connected


@pytest.fixture(scope="session")
def ask(channel: grpc.Channel) -> Callable[..., Any]:
    """Calls an RPC as any client of another language would: `ask("ShapeService/ByteSize", request)`."""
    return asker(channel)


def asker(channel: grpc.Channel) -> Callable[..., Any]:
    def call(rpc: str, request: Any, *, timeout: float = 30) -> Any:
        name, _, method = rpc.partition("/")
        described = service(f"xlashape.v1.{name}").methods_by_name[method]
        answer = message_class(described.output_type.full_name)
        path = f"/xlashape.v1.{rpc}"
        if described.client_streaming:
            return channel.stream_unary(path, _serialized, answer.FromString)(iter(request), timeout=timeout)
        if described.server_streaming:
            return list(channel.unary_stream(path, _serialized, answer.FromString)(request, timeout=timeout))
        return channel.unary_unary(path, _serialized, answer.FromString)(request, timeout=timeout)

    return call


def _serialized(request: Any) -> bytes:
    return request if isinstance(request, bytes) else request.SerializeToString()


@pytest.fixture(scope="session")
def module() -> xla.HloModuleProto:
    """The module ENTRY main { x = f32[3,5]{1,0:T(2,2)} parameter(0); t = f32[5,3] transpose(x); ROOT n = f32[5,3]
    negate(t) }, with a further computation that is not called."""
    return example_module()


def example_module() -> xla.HloModuleProto:
    tiled = xla.ShapeProto(element_type=xla.F32, dimensions=[3, 5], is_dynamic_dimension=[False, False])
    tiled.layout.minor_to_major.extend([1, 0])
    tiled.layout.tiles.add(dimensions=[2, 2])
    turned = xla.ShapeProto(element_type=xla.F32, dimensions=[5, 3], is_dynamic_dimension=[False, False])
    turned.layout.minor_to_major.extend([1, 0])
    other = xla.HloComputationProto(name="other", id=2, root_id=9)
    other.instructions.add(name="c", opcode="parameter", id=9, shape=turned)
    main = xla.HloComputationProto(name="main", id=1, root_id=3)
    main.instructions.add(name="x", opcode="parameter", id=1, shape=tiled, metadata=xla.OpMetadata(op_name="jit(f)/x"))
    main.instructions.add(name="t", opcode="transpose", id=2, shape=turned, operand_ids=[1], dimensions=[1, 0])
    main.instructions.add(name="n", opcode="negate", id=3, shape=turned, operand_ids=[2])
    return xla.HloModuleProto(
        name="example", entry_computation_name="main", entry_computation_id=1, computations=[other, main]
    )


def wide_module(count: int) -> bytes:
    """A module of `count` instructions, each the negation of the one before."""
    shape = xla.ShapeProto(element_type=xla.F32, dimensions=[8, 128])
    shape.layout.minor_to_major.extend([1, 0])
    main = xla.HloComputationProto(name="main", id=1, root_id=count)
    main.instructions.add(name="p", opcode="parameter", id=1, shape=shape)
    for i in range(2, count + 1):
        main.instructions.add(name=f"n.{i}", opcode="negate", id=i, shape=shape, operand_ids=[i - 1])
    return xla.HloModuleProto(
        name="wide", entry_computation_id=1, entry_computation_name="main", computations=[main]
    ).SerializeToString()


@pytest.fixture(scope="session")
def wide() -> Callable[[int], bytes]:
    return wide_module


@pytest.fixture
def shape_text() -> Callable[[str], v1.ShapeInput]:
    return lambda text: v1.ShapeInput(text=text)
