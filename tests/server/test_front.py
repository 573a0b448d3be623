"""What a front answers itself, what it asks a child for, and which answers it keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from xlashape.errors import DeadlineExceededError, LimitExceededError, XlashapeError
from xlashape.proto import is_repeated, services, v1
from xlashape.proto.packed import join
from xlashape_server.children import Question
from xlashape_server.config import Config
from xlashape_server.front import Front
from xlashape_server.guard import Call, Guard
from xlashape_server.handlers import rpcs
from xlashape_server.modules import Modules
from xlashape_server.store import Store

SHAPE = v1.ShapeInput(text="f32[3,5]{1,0:T(2,2)}")
TEXT = b"HloModule m\n\nENTRY e {\n  ROOT x = f32[2] parameter(0)\n}\n"


class Asked:
    """Children in this process, which count what they are asked."""

    def __init__(self, config: Config, store: Store) -> None:
        self._handlers = [rpc.handler for rpc in rpcs(config, Modules(config, store))]
        self.names = [rpc.method.name for rpc in rpcs(config, Modules(config, store))]
        self.asked: list[str] = []

    def ask(self, question: Question, part: Callable[[bytes], None] = lambda _: None) -> bytes:
        name = self.names[question.number]
        self.asked.append(name)
        answer = self._handlers[question.number](question.payload, 1e12)
        if isinstance(answer, bytes):
            return answer
        for each in answer:
            part(each)
        return b""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(store_directory=str(tmp_path))


@pytest.fixture
def asked(config: Config) -> Asked:
    return Asked(config, Store.of(config))


@pytest.fixture
def ask(config: Config, asked: Asked, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    store = Store.of(config)
    monkeypatch.setattr("xlashape_server.front._MAP_SECONDS", 10.0)  # a busy machine takes long for anything
    front = Front(config, rpcs(config, Modules(config, store)), store, asked)  # pyright: ignore[reportArgumentType]  # in place of children
    guard = Guard(Config())

    def call(name: str, request: Any, kind: Any = None) -> Any:
        data = request if isinstance(request, bytes) else request.SerializeToString()
        made = Call(name, "ipv4:1.2.3.4:5", 30, lambda *_: None, guard, ())
        number = asked.names.index(name)
        if kind is None:
            return front.answer(number, made, data)
        return list(getattr(front, kind)(number, made, iter([data]) if kind == "conversation" else data))

    return call


def test_shapes_and_small_maps_are_answered_by_the_front(ask: Callable[..., Any], asked: Asked) -> None:
    ask("ByteSize", v1.ByteSizeRequest(shapes=[SHAPE]))
    ask("DescribeShape", v1.DescribeShapeRequest(shapes=[SHAPE]))
    ask("LinearIndex", v1.LinearIndexRequest(shape=SHAPE, indices=[2, 3]))
    ask("LinearIndex", join(v1.LinearIndexRequest(shape=SHAPE), indices=bytes(16 * 100_000)))
    ask("MultiIndex", join(v1.MultiIndexRequest(shape=SHAPE), positions=bytes(8 * 100_000)))
    ask("ParseMap", v1.ParseMapRequest(maps=[v1.MapInput(text="(d0) -> (d0), domain: d0 in [0, 3]")]))
    assert asked.asked == []


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("ByteSize", v1.ByteSizeRequest(shapes=[SHAPE] * 1000)),
        ("LinearIndex", v1.LinearIndexRequest(shape=v1.ShapeInput(text=f"({'f32[], ' * 3000}f32[])"))),
        # Separate numbers, of which protobuf would make objects.
        ("MultiIndex", v1.MultiIndexRequest(shape=SHAPE).SerializeToString() + (b"\x11" + bytes(8)) * 20_000),
        ("ParseMap", v1.ParseMapRequest(maps=[v1.MapInput(text=f"() -> ({'1 + ' * 2000}1)")])),
    ],
    ids=["many shapes", "a large shape", "separate numbers", "a large map"],
)
def test_what_might_take_long_goes_to_a_child(ask: Callable[..., Any], asked: Asked, name: str, request_: Any) -> None:
    with suppress(XlashapeError):  # errors of handlers are tested elsewhere
        ask(name, request_)
    assert asked.asked == [name]


def test_a_map_that_takes_long_after_all_goes_to_a_child(
    ask: Callable[..., Any], asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*_: object) -> None:
        monkeypatch.undo()
        raise DeadlineExceededError("late")

    monkeypatch.setattr("xlashape.symbolic.IndexingMap.simplify", late)
    ask("SimplifyMap", v1.SimplifyMapRequest(maps=[v1.MapInput(text="() -> (1 + 2)")]))
    assert asked.asked == ["SimplifyMap"]


def test_answers_are_kept_while_their_module_is_in_the_store(ask: Callable[..., Any], asked: Asked) -> None:
    name = v1.PutModuleResponse.FromString(ask("PutModule", v1.PutModuleRequest(data=TEXT))).module.name
    request = v1.ListInstructionsRequest(module=v1.ModuleInput(name=name))
    first = ask("ListInstructions", request)
    maps = ask("IndexingMaps", v1.IndexingMapsRequest(module=request.module))
    assert ask("ListInstructions", request) == first
    assert ask("IndexingMaps", v1.IndexingMapsRequest(module=request.module)) == maps
    assert asked.asked == ["PutModule", "ListInstructions", "IndexingMaps"]
    ask("PutModule", v1.PutModuleRequest(data=TEXT))  # writes, so it is never answered by what was kept
    ask("DeleteModule", v1.DeleteModuleRequest(name=name))
    with pytest.raises(Exception, match="there is no module"):
        ask("ListInstructions", request)
    assert asked.asked[3:] == ["PutModule", "ListInstructions"]


def test_a_stream_with_much_beside_its_numbers_is_refused(ask: Callable[..., Any]) -> None:
    large = v1.LinearIndicesRequest(shape=v1.ShapeInput(text=f"({'f32[], ' * 3000}f32[])"))
    with pytest.raises(LimitExceededError) as caught:
        ask("LinearIndices", large, "conversation")
    assert caught.value.limit == "stream_content"


def test_messages_under_way_are_bounded() -> None:
    guard = Guard(Config(max_worker_memory=128 << 20))
    first, second = (Call("x", "ipv4:1.2.3.4:5", 30, lambda *_: None, guard, ()) for _ in range(2))
    first.hold(30 << 20)
    with pytest.raises(LimitExceededError, match="under way"):
        second.hold(4 << 20)
    second.hold(30 << 10)  # small ones are not counted
    first.transport_ended()
    first.work_ended()
    assert guard.message_bytes == 0
    second.hold(4 << 20)


# -- what of a request the front decodes -------------------------------------------------------


def bulky(kind: Descriptor, depth: int = 4) -> Iterator[tuple[tuple[str, ...], bytes]]:
    """For each field of a message that has a number of values or bytes, also within other messages: its path, and the
    message with 80,000 bytes of it, as few values in one field and as many separate ones.
    """
    for field in kind.fields:
        if field.message_type is not None:
            inner = bulky(field.message_type, depth - 1) if depth else ()
            for path, data in inner:
                yield (field.name, *path), wrapped(field.number, data)
            if is_repeated(field):
                yield (field.name,), wrapped(field.number, b"") * 40_000
        elif field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            yield (field.name,), wrapped(field.number, b"x" * 80_000)
            yield (field.name,), wrapped(field.number, b"") * 40_000
        elif is_repeated(field):
            yield (field.name,), wrapped(field.number, bytes(80_000))
            yield (field.name,), wrapped(field.number, bytes(8)) * 8_000
            fixed = field.type in (FieldDescriptor.TYPE_SFIXED64, FieldDescriptor.TYPE_FIXED64)
            yield (field.name,), (varint(field.number << 3 | fixed) + bytes(8 if fixed else 1)) * 10_000


def wrapped(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])


@pytest.mark.parametrize("rpc", [each.name for service in services() for each in service.methods])
def test_of_what_is_large_a_front_decodes_only_packed_numbers(
    config: Config, asked: Asked, rpc: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every field of every request that can be large: protobuf would make an object of each value, and hold all threads
    meanwhile.
    """
    store, decoded = Store.of(config), []

    def decode(data: Any, deadline: float) -> Any:
        if not isinstance(data, bytes):
            return (decode(each, deadline) for each in data)
        decoded.append(data)
        return b""

    known = [each._replace(handler=decode) for each in rpcs(config, Modules(config, store))]
    front = Front(config, tuple(known), store, asked)  # pyright: ignore[reportArgumentType]  # in place of children
    monkeypatch.setattr(asked, "ask", lambda question: b"")
    number = asked.names.index(rpc)
    method = known[number].method
    guard = Guard(Config())
    packed = 0
    for path, data in bulky(method.input_type):
        decoded.clear()
        call = Call(rpc, "ipv4:1.2.3.4:5", 30, lambda *_: None, guard, ())
        with suppress(LimitExceededError):
            if method.server_streaming:
                list(front.conversation(number, call, (each for each in (data,))))
            elif method.client_streaming:
                front.upload(number, call, [data])
            else:
                front.answer(number, call, data)
                front.answer(number, call, data, is_json=True)
        if decoded:
            packed += 1
            assert decoded == [wrapped(method.input_type.fields_by_name[path[0]].number, bytes(80_000))]
    assert packed == (rpc in ("LinearIndex", "LinearIndices", "MultiIndex", "MultiIndices", "EvaluateMapBatch"))
