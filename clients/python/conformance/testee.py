"""The program through which tests/conformance/run.py tests the Python clients. It reads requests from standard input,
makes calls with a client, and writes responses. testee.proto defines both. With the argument `asyncio` the client is an
AsyncClient.

Calls go through the client's methods, where one of them sends the request of the case: `_Watched` compares the two
before the request is sent, and keeps the answer's bytes. Otherwise they go through `Client.send` and `Client.stream`.
Maps are evaluated by the library's IndexingMap.
"""

from __future__ import annotations

import asyncio
import re
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "conformance"))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "support"))

import numpy as np
from awaited_client import AwaitedClient
from google.protobuf.message import Message
from suite import protocol
from suite.cases import method_of
from suite.protocol import testee

from xlashape.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    LimitExceededError,
    NotFoundError,
    PermissionDeniedError,
    SizeOverflowError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedError,
    XlashapeError,
)
from xlashape.proto import is_repeated, message_class, v1
from xlashape.reports.report import report_of
from xlashape.symbolic import IndexingMap
from xlashape_client import AsyncClient, Cancellation, Client

_CODES: tuple[tuple[type[XlashapeError], int], ...] = (
    (DeadlineExceededError, 4),
    (NotFoundError, 5),
    (PermissionDeniedError, 7),
    (LimitExceededError, 8),
    (UnsupportedError, 12),
    (UnavailableError, 14),
    (UnauthenticatedError, 16),
    (InvalidArgumentError, 3),
)
_NAMED = ("field", "line", "column")


class _OtherRequest(Exception):
    """The method sends another request than that of the case."""


class _Answered(Exception):
    """The method asks for a further page."""


class _Watched:
    """What a client sends: the names of RPCs, and the request that a method has to send, with the answer to it."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.expected: tuple[str, Any] | None = None
        self.data: bytes | None = None
        self.is_sent = False

    def sending(self, method: str, request: Any) -> None:
        self.called.append(method)
        if self.expected is not None:
            if self.is_sent:
                raise _Answered
            name, message = self.expected
            if (method, name) == ("GetModule", "PutModule"):
                return  # whether the server has the module: upload_module asks first
            found: Any = type(message).FromString(request)
            if name == "PutModule" and method == name and not message.sha256:
                found.ClearField("sha256")  # upload_module says it always
            # A token of a page is one for the request as it was written.
            is_same = found == message or (_plain(found) == _plain(message) and not _has_pages(message))
            if method != name or not is_same:
                raise _OtherRequest
            self.is_sent = True

    def received(self, data: bytes) -> bytes:
        if self.is_sent or self.expected is None:
            self.data = self.data or data
        return data


def _has_pages(message: Any) -> bool:
    return bool(getattr(message, "page_size", 0))


def _plain(message: Message) -> Message:
    """The message without fields that are set to what stands for a field that is not set."""
    made = type(message)()
    made.CopyFrom(message)
    for field, value in message.ListFields():
        is_optional = not is_repeated(field) and field.message_type is None and field.containing_oneof is not None
        if is_optional and value == field.default_value:
            made.ClearField(field.name)
    return made


class _Watching(Client):
    """A client that is watched."""

    def __init__(self, address: str, **settings: Any) -> None:
        super().__init__(address, **settings)
        self.watched = _Watched()

    def send(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> bytes:
        self.watched.sending(method, request)
        return self.watched.received(super().send(method, request, timeout))


class _WatchingAsync(AsyncClient):
    """A client for asyncio that is watched."""

    def __init__(self, address: str, **settings: Any) -> None:
        super().__init__(address, **settings)
        self.watched = _Watched()

    async def send(
        self, method: str, request: bytes | Iterator[bytes] | AsyncIterator[bytes], timeout: float | None
    ) -> bytes:
        self.watched.sending(method, request)
        return self.watched.received(await super().send(method, request, timeout))


def _asked(name: str, request: Any) -> tuple[str, list[Any], dict[str, Any]]:
    """The method of an RPC's name, and the arguments with which it may send the request."""
    method = {"IndexingMaps": "map"}.get(name) or re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    given = {field.name: _value(field, getattr(request, field.name)) for field, _ in request.ListFields()}
    match name:
        case "DescribeShape" | "ByteSize" | "ParseMap" | "SimplifyMap":
            items = next(iter(given.values()), [])
            return (method, items, {}) if len(items) == 1 else (method + "s", [items], {})
        case "ComposeMaps":
            chain = next(_value(field, value) for field, value in request.chains[0].ListFields())
            return method, chain, {"raw": request.raw}
        case "LinearIndex":
            return method, [given.get("shape", ""), list(request.indices)], {}
        case "MultiIndex":
            return method, [given["shape"], request.positions[0]], {}
        case "PutModule":
            return "upload_module", [request.data], {}
        case "GetModule" | "DeleteModule":
            return method, list(given.values()), {}
        case "Graph":
            given["distance"] = request.distance
    if "table" in given:
        table = given.pop("table").removeprefix(f"{method}_table_")
        report = report_of(method)
        given["sections"] = ["" if table == report.rows else table]
        argument = None if table == report.rows else report.section(table).argument
        if argument is not None and argument.name in given and not argument.is_content:
            given["argument"] = given.pop(argument.name)
    if "page_size" in given:
        given["max_rows"] = given.pop("page_size")
    positional = [given.pop(input_) for input_ in ("content", "a", "b") if input_ in given]
    return method, positional, given


def _value(field: Any, value: Any) -> Any:
    """The value of a field as a method takes it."""
    if is_repeated(field):
        return [_one_value(field, one) for one in value]
    return _one_value(field, value)


def _one_value(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        if value not in field.enum_type.values_by_number:
            raise _OtherRequest
        name = field.enum_type.values_by_number[value].name.lower()
        prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", field.enum_type.name).lower()
        if field.name == "table":
            return name
        return name.removeprefix(f"{prefix}_").replace("_", "-" if prefix == "target" else "_")
    if field.message_type is None or not field.message_type.oneofs:
        return value
    form = value.WhichOneof(field.message_type.oneofs[0].name)
    found = getattr(value, form)
    if form == "map":
        return IndexingMap.from_proto(found)
    return found.encode() if form == "text" and field.message_type.name == "ModuleInput" else found


class Testee:
    """Answers requests. Keeps the client and its token from one request to the next."""

    def __init__(self, *, awaits: bool) -> None:
        self._awaits = awaits
        self._client: Any = None
        self._token = ""
        self._width = 1
        self._actions: dict[str, Callable[[Any, Any], None]] = {
            "start": self._start,
            "call": self._call,
            "evaluation": self._evaluation,
            "upload": self._upload,
            "pages": self._pages,
            "bulk": self._bulk,
        }

    def answer(self, request: Any) -> Any:
        """The Response to a Request."""
        response = testee.Response()
        action = request.WhichOneof("action")
        try:
            self._actions[action](getattr(request, action), response)
        except XlashapeError as error:
            _fill(response.error, error)
        except Exception:  # a mistake in this program, which the runner reports
            response.failure = traceback.format_exc()
        return response

    @property
    def _connected(self) -> Any:
        assert self._client is not None
        return self._client

    def _start(self, start: Any, response: Any) -> None:
        if start.transport != protocol.TRANSPORTS["grpc"]:
            response.unsupported = "the Python client speaks gRPC"
            return
        address = [start.address, *start.more_addresses]
        self._token = start.token
        settings: dict[str, Any] = {
            "token": lambda: self._token,
            "root_certificates": start.root_certificates or None,
            "private_key": start.client_key or None,
            "certificate_chain": start.client_certificate or None,
        }
        if self._awaits:
            self._client = AwaitedClient(address, client=_WatchingAsync, **settings)
        else:
            self._client = _Watching(address, **settings)

    def _call(self, call: Any, response: Any) -> None:
        self._token = call.token or self._token
        method = method_of(call.rpc)
        kind = message_class(method.output_type.full_name)
        timeout: float | None = call.timeout_ms / 1000 or None
        over = threading.Event()
        requests = _awaited_requests if self._awaits else _kept_open
        request: Any = requests(call, over) if method.client_streaming else call.requests[0]
        client = self._connected
        try:
            if call.cancel_after_ms and self._awaits:
                client.waited(_cancelled(client.client, method, request, timeout, call.cancel_after_ms / 1000))
                return
            if call.cancel_after_ms:
                cancellation = Cancellation()
                client = client.with_cancellation(cancellation)
                threading.Timer(call.cancel_after_ms / 1000, cancellation.cancel).start()
            if not method.client_streaming:
                message = message_class(method.input_type.full_name).FromString(request)
                data = self._by_method(client, method.name, message, timeout)
                if data is not None:
                    response.answers.append(_again(kind, data))
                    return
            response.below = True
            if not method.server_streaming:
                response.answers.append(_again(kind, client.send(method.name, request, timeout)))
                return
            answers = client.stream(method.name, request, timeout)
            for data in answers:
                response.answers.append(_again(kind, data))
                if len(response.answers) == call.stop_after:
                    break
            del answers  # cancels the call if it has not ended
        except CancelledError:
            response.error.code = 1
        finally:
            over.set()

    def _by_method(self, client: Any, name: str, request: Any, timeout: float | None) -> bytes | None:
        """The bytes that answer the request, which a method of the client sends; None if none sends it."""
        watched = self._watched
        watched.expected, watched.is_sent, watched.data = (name, request), False, None
        try:
            method, arguments, named = _asked(name, request)
            getattr(client, method)(*arguments, **named, timeout=timeout)
        except (_OtherRequest, _Answered):
            pass
        except (XlashapeError, CancelledError):
            if watched.is_sent:
                raise
        except TypeError:  # the method has no such argument, or needs another one
            if watched.is_sent:
                raise
        finally:
            watched.expected = None
        return watched.data

    @property
    def _watched(self) -> _Watched:
        return self._client.client.watched if self._awaits else self._client.watched

    def _evaluation(self, evaluation: Any, response: Any) -> None:
        if evaluation.WhichOneof("map") == "text":
            given = self._connected.parse_map(evaluation.text)
        else:
            given = IndexingMap.from_proto(evaluation.message)
        numbers, count = list(evaluation.points), evaluation.count
        width = len(numbers) // count if count else len(given.variables)
        rows = [numbers[i * width : (i + 1) * width] for i in range(count)]
        if evaluation.batch:
            results, inside = given.evaluate_batch(np.array(rows, np.int64).reshape(count, width))
        else:
            values = [given.evaluate(row) for row in rows]
            for value in values:
                # The library returns Python integers of any size for one point, but an answer holds int64 numbers.
                for i, result in enumerate(value or ()):
                    if not -(1 << 63) <= result < 1 << 63:
                        raise SizeOverflowError(f"result {i} does not fit int64: {result}")
            results = np.array([value or [0] * len(given.results) for value in values], np.int64)
            inside = np.array([value is not None for value in values], np.bool_)
        made = v1.EvaluateMapResponse(results=results.ravel().tolist(), in_domain=inside.tolist())
        response.answers.append(made.SerializeToString())

    def _upload(self, upload: Any, response: Any) -> None:
        client = self._connected
        self._watched.called.clear()
        if upload.read_bytes:
            try:
                module = client.upload_module_from(_reader(upload), progress=response.progress.append)
            except _ReaderError:
                response.reader_failed = True
                return
        else:
            module = client.upload_module(upload.content)
        called = self._watched.called
        response.sent = "UploadModule" in called or "PutModule" in called
        data = client.send("GetModule", v1.GetModuleRequest(name=module.name).SerializeToString(), None)
        response.answers.append(v1.GetModuleResponse.FromString(data).module.SerializeToString())

    def _pages(self, pages: Any, response: Any) -> None:
        client, listing = self._connected, pages.rpc.endswith("ListInstructions")
        kind: Any = v1.ListInstructionsRequest if listing else v1.SizeRequest
        request = kind.FromString(pages.request)
        source = request.module.WhichOneof("source")
        module: Any = request.module.text.encode() if source == "text" else getattr(request.module, source)
        if listing:
            options = {"computation": request.computation, "opcode": request.opcode, "page_size": request.page_size}
            for item in client.list_instructions(module, **options):
                row = item._asdict() | {"shape": str(item.shape)}
                response.answers.append(v1.Instruction(**row).SerializeToString())
            return
        columns = report_of("size").columns
        for buffer in client.size(module):
            row = {column.name: getattr(buffer, column.name) for column in columns}
            response.answers.append(v1.SizeRow(**row).SerializeToString())

    def _bulk(self, bulk: Any, response: Any) -> None:
        try:
            self._asked_in_bulk(bulk, response)
        except XlashapeError as error:
            if len(error.path) == 3 and error.path[0] == "indices":  # of the row, and of a number in it
                error.path = ("indices", int(error.path[1]) * self._width + int(error.path[2]))
            raise

    def _asked_in_bulk(self, bulk: Any, response: Any) -> None:
        client, numbers = self._connected, np.array(bulk.numbers, np.int64)
        orders = {0: "physical", 1: "physical", 2: "logical"}
        answer: Message
        if bulk.rpc.endswith("EvaluateMapBatch"):
            given = v1.EvaluateMapBatchRequest.FromString(bulk.request).map
            value = given.text if given.WhichOneof("form") == "text" else IndexingMap.from_proto(given.map)
            known = IndexingMap.parse(value) if isinstance(value, str) else value
            table = numbers.reshape(-1, max(len(known.variables), 1))
            results, inside = client.evaluate_map_batch(value, table)
            answer = v1.EvaluateMapResponse(results=results.ravel().tolist(), in_domain=inside.tolist())
        elif bulk.rpc.endswith("LinearIndices"):
            first = v1.LinearIndicesRequest.FromString(bulk.request)
            self._width = first.shape.text.count(",", 0, first.shape.text.index("]")) + 1
            found = client.linear_indices(first.shape.text, numbers.reshape(-1, self._width), order=orders[first.order])
            answer = v1.LinearIndexResponse(positions=found.tolist())
        else:
            first = v1.MultiIndicesRequest.FromString(bulk.request)
            indices, is_element = client.multi_indices(first.shape.text, numbers, order=orders[first.order])
            answer = v1.MultiIndexResponse(indices=indices.ravel().tolist(), is_element=is_element.tolist())
        response.answers.append(answer.SerializeToString())


class _ReaderError(Exception):
    """The reader of an upload failed."""


def _reader(upload: Any) -> Iterator[bytes]:
    for at in range(0, len(upload.content), upload.read_bytes):
        yield upload.content[at : at + upload.read_bytes]
    if upload.reader_fails:
        raise _ReaderError


def _kept_open(call: Any, over: threading.Event) -> Iterator[bytes]:
    yield from call.requests
    if call.keep_open:
        over.wait()


async def _awaited_requests(call: Any, over: threading.Event) -> AsyncIterator[bytes]:
    for request in call.requests:
        yield request
    if call.keep_open:
        await asyncio.to_thread(over.wait)


async def _cancelled(client: AsyncClient, method: Any, request: Any, timeout: float | None, seconds: float) -> None:
    """A call whose task is cancelled after `seconds`."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_later(seconds, task.cancel)
    if method.server_streaming:
        async for _ in client.stream(method.name, request, timeout):
            pass
    else:
        await client.send(method.name, request, timeout)


def _again(kind: type[Message], data: bytes) -> bytes:
    """The answer parsed and serialized again, as a client with generated code would."""
    return kind.FromString(data).SerializeToString()


def _fill(message: Any, error: XlashapeError) -> None:
    message.code = next((code for kind, code in _CODES if isinstance(error, kind)), 2)
    cause = error.__cause__
    from_server = cause is None or any(
        key == "grpc-status-details-bin" for key, _ in getattr(cause, "trailing_metadata", tuple)() or ()
    )
    message.reason = error.code.upper() if from_server else ""
    message.message = error.message
    details = error.details()
    message.field = details.get("field", "")
    message.line = int(details.get("line", 0))
    message.column = int(details.get("column", 0))
    message.details.update((key, value) for key, value in details.items() if key not in _NAMED)


def main() -> None:
    """Answers requests until standard input ends."""
    state = Testee(awaits=sys.argv[1:] == ["asyncio"])
    while True:
        request = protocol.read(sys.stdin.buffer, testee.Request)
        if request is None:
            return
        protocol.write(sys.stdout.buffer, state.answer(request))


if __name__ == "__main__":
    main()
