"""Cases with their answers, computed by the service's handlers in this process."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import grpc
from google.protobuf import json_format
from google.rpc import error_details_pb2
from suite import modules
from suite.cases import message_of, method_of, numbers_of
from suite.protocol import delimited
from suite.server import SETTINGS

from xlashape.errors import XlashapeError
from xlashape.proto import message_class, v1
from xlashape_server.config import Config
from xlashape_server.conversions import status_of
from xlashape_server.handlers import rpcs
from xlashape_server.modules import Modules
from xlashape_server.store import Store

__all__ = ["Cases"]

_MAX_CHARACTERS = 3000  # bytes of the answers in one line; longer answers are kept as a digest
_TIMES = ["module.create_time", "module.expire_time"]
_UNARY = {"LinearIndices": "LinearIndex", "MultiIndices": "MultiIndex", "EvaluateMapBatch": "EvaluateMap"}


class Cases:
    """Collects the lines of one file."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._config = Config(**SETTINGS)
        self.lines: list[dict[str, Any]] = []

    def add(self, name: str, **case: Any) -> None:
        """Adds a case with these answers."""
        self.lines.append({"name": f"{self._prefix}/{name}", **case})

    def call(
        self,
        name: str,
        rpc: str,
        *requests: dict[str, Any],
        stored: list[str] | None = None,
        code: str | None = None,
        **options: Any,
    ) -> None:
        """Adds a case of an RPC, with the answers or the error of the handler. With `code`, the expected error is this
        code, without details."""
        call = {"rpc": rpc, "requests": list(requests), **options}
        case: dict[str, Any] = {"call": call} if stored is None else {"stored": stored, "call": call}
        if code is not None:
            self.add(name, **case, error={"code": code})
            return
        kind = message_class(method_of(rpc).output_type.full_name)
        try:
            answers = [kind.FromString(data) for data in self._answers(rpc, list(requests), stored or [])]
        except XlashapeError as error:
            self.add(name, **case, error=told(error))
            return
        stop_after = options.get("stop_after")
        answers = answers[:stop_after]
        if rpc.startswith("HloService/") and rpc.endswith(("UploadModule", "PutModule", "GetModule")):
            case["ignore"] = _TIMES
            for answer in answers:
                answer.module.ClearField("create_time")
                answer.module.ClearField("expire_time")
        self.add(name, **case, **_kept(answers))

    def pages(self, name: str, rpc: str, request: dict[str, Any], *, stored: list[str]) -> None:
        """Adds a case that reads all pages of a list, with the items or the error of the handler."""
        items: list[Any] = []
        kind = message_class(method_of(rpc).output_type.full_name)
        case: dict[str, Any] = {"stored": stored, "pages": {"rpc": rpc, "request": request}}
        token = ""
        while True:
            try:
                [data] = self._answers(rpc, [{**request, "pageToken": token}], stored)
            except XlashapeError as error:
                self.add(name, **case, error=told(error))
                return
            page: Any = kind.FromString(data)
            items += page.buffers if rpc == "ReportService/Size" else page.instructions
            token = page.next_page_token
            if not token:
                break
        self.add(name, **case, **_kept(items))

    def bulk(self, name: str, rpc: str, request: dict[str, Any], field: str, numbers: dict[str, Any]) -> None:
        """Adds a case of a bulk call, with the answer or the error of the handler. `field` is the field of the numbers
        in the request of the RPC that takes one message."""
        service, _, method = rpc.partition("/")
        unary = f"{service}/{_UNARY[method]}"
        made: Any = message_of(message_class(method_of(unary).input_type.full_name), request)
        getattr(made, field).extend(numbers_of(numbers).tolist())
        asked = {"rpc": rpc, "request": request, "numbers": numbers}
        try:
            [data] = self._handled(unary, [made.SerializeToString()], [], Config(max_request_bytes=1 << 30))
        except XlashapeError as error:
            self.add(name, bulk=asked, error=told(error))
            return
        answer = message_class(method_of(unary).output_type.full_name).FromString(data)
        self.add(name, bulk=asked, **_kept([answer]))

    def upload(self, name: str, module: str, *, stored: list[str], read_bytes: int = 0) -> None:
        """Adds a case of an upload with the client's upload function; with `read_bytes`, from a reader."""
        request = {"name": modules.resource_name(module)}
        [data] = self._answers("HloService/GetModule", [request], [module])
        found = v1.GetModuleResponse.FromString(data).module
        found.ClearField("create_time")
        found.ClearField("expire_time")
        self.add(
            name,
            stored=stored,
            upload={"content": f"${module}", **({"read_bytes": read_bytes} if read_bytes else {})},
            sent=module not in stored or read_bytes > 0,
            **({"progress": len(modules.content(module))} if read_bytes else {}),
            ignore=["create_time", "expire_time"],
            **_kept([found]),
        )

    def _answers(self, rpc: str, requests: list[dict[str, Any]], stored: list[str]) -> list[bytes]:
        kind = message_class(method_of(rpc).input_type.full_name)
        return self._handled(rpc, [message_of(kind, one).SerializeToString() for one in requests], stored, self._config)

    def _handled(self, rpc: str, requests: list[bytes], stored: list[str], config: Config) -> list[bytes]:
        with tempfile.TemporaryDirectory() as directory:
            store = Store(directory, max_bytes=1 << 30, max_age=3600)
            found = {
                f"{one.method.containing_service.name}/{one.method.name}": one
                for one in rpcs(config, Modules(config, store))
            }
            deadline = time.monotonic() + 600
            for name in stored:
                put = v1.PutModuleRequest(data=modules.content(name))
                found["HloService/PutModule"].handler(put.SerializeToString(), deadline)
            method, handler = found[rpc].method, found[rpc].handler
            request: Any = iter(requests) if method.client_streaming else requests[0]
            answer: bytes | Iterator[bytes] = handler(request, deadline)
            return [answer] if isinstance(answer, bytes) else list(answer)

    def text(self) -> str:
        """The lines of the file. ValueError if two cases have the same name."""
        names = [line["name"] for line in self.lines]
        if len(set(names)) != len(names):
            raise ValueError(f"two cases have the name {next(name for name in names if names.count(name) > 1)}")
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in self.lines)


def told(error: XlashapeError) -> dict[str, Any]:
    """The parts of an error that a client reads from the status."""
    status = status_of(error)
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    details = dict(sorted(info.metadata.items()))
    code = next(code.name for code in grpc.StatusCode if code.value[0] == status.code)
    known: dict[str, Any] = {"code": code, "reason": info.reason, "message": details.pop("message")}
    known["field"] = details.pop("field", "")
    known["line"] = int(details.pop("line", "0"))
    known["column"] = int(details.pop("column", "0"))
    return known | {"details": details}


def _kept(answers: list[Any]) -> dict[str, Any]:
    told_answers = [json_format.MessageToDict(answer, preserving_proto_field_name=True) for answer in answers]
    if len(json.dumps(told_answers)) <= _MAX_CHARACTERS:
        return {"answers": told_answers}
    return {"digest": hashlib.sha256(delimited(answers)).hexdigest(), "answer_count": len(answers)}
