"""The handlers of HloService: they store modules, list their instructions, and add up the bytes of their results."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from io import BytesIO
from typing import Any

from xlashape.errors import InvalidArgumentError, InvalidModuleError
from xlashape.hlo import HloInstruction, HloModule, Opcode
from xlashape.limits import budget, spend
from xlashape.proto import parse, v1
from xlashape_server.config import Config
from xlashape_server.handlers.inputs import RequestedPage, first_message_only, not_negative, placed, response_size
from xlashape_server.modules import Modules, format_of
from xlashape_server.store import Stored

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_OPCODES = {opcode.value for opcode in Opcode}


class HloHandlers:
    """The handlers of HloService: each has the name of its RPC. They take and return messages as bytes. Deadlines
    are times of time.monotonic(). Errors are the library's, with the path of the request's field.
    """

    def __init__(self, config: Config, modules: Modules) -> None:
        self._modules = modules
        self._max_page_size = config.max_page_size
        self._max_answer = config.max_request_bytes
        # Half of the 4 MiB that a gRPC client accepts by default, which leaves room for the rest of the message.
        self._max_content = min(config.max_request_bytes, 2 << 20)

    def upload_module(self, requests: Iterator[bytes], deadline: float) -> bytes:
        """UploadModule."""
        sha256, size, more_follows = "", 0, False
        content = BytesIO()  # whose value is no copy
        with budget(deadline=deadline, subject="an upload"):
            for number, data in enumerate(requests):
                request = parse(v1.UploadModuleRequest, data)
                if number == 0:
                    sha256, size = request.sha256, request.size_bytes
                    not_negative(request, "size_bytes")
                    _check_digest(sha256)
                    self._modules.check_size(size, ("size_bytes",))
                else:
                    first_message_only(request, "sha256", "size_bytes")
                spend(256)
                self._modules.check_size(content.tell() + len(request.data), ("data",))
                if size and content.tell() + len(request.data) > size:
                    raise InvalidArgumentError(
                        f"expected {size} bytes, as the first message said, found more", field="data"
                    )
                content.write(request.data)
                more_follows = request.more_follows
            if more_follows:  # a call that is cancelled can look like one whose messages are complete
                raise InvalidArgumentError(
                    "expected another message, as the last one said, found the end of the stream", field="more_follows"
                )
            if size and content.tell() != size:
                raise InvalidArgumentError(
                    f"expected {size} bytes, as the first message said, found {content.tell()}", field="size_bytes"
                )
            return self._stored(v1.UploadModuleResponse, content.getvalue(), sha256)

    def put_module(self, data: bytes, deadline: float) -> bytes:
        """PutModule."""
        request = parse(v1.PutModuleRequest, data)
        _check_digest(request.sha256)
        self._modules.check_size(len(request.data), ("data",))
        with budget(deadline=deadline, subject="an upload"):
            return self._stored(v1.PutModuleResponse, request.data, request.sha256)

    def _stored(
        self,
        response: type[v1.UploadModuleResponse] | type[v1.PutModuleResponse],
        content: bytes,
        announced_sha256: str,
    ) -> bytes:
        """The response to an upload of `content`, which is stored. InvalidArgumentError if it does not have the SHA-256
        that the caller has announced.
        """
        sha256 = hashlib.sha256(content).hexdigest()
        if announced_sha256 and sha256 != announced_sha256.lower():
            raise InvalidArgumentError(
                f"expected content with the SHA-256 {announced_sha256}, found {sha256}", field="sha256"
            )
        stored, was_there = self._modules.store.keep(content, sha256, self._facts(content, sha256))
        return response(module=self._module_message(stored), already_present=was_there).SerializeToString()

    def _facts(self, content: bytes, sha256: str) -> dict[str, str | int]:
        """The facts that the store keeps about a module: fields of v1.Module. They are those of the decoded module, so
        content that cannot be decoded is not stored.
        """
        if not content:
            raise InvalidArgumentError("the module is empty", field="data")
        kind = format_of(content)
        module = self._modules.decode(content, ("data",), sha256, is_text=kind == v1.MODULE_FORMAT_TEXT)
        return {
            "format": kind,
            "module_name": module.name,
            "entry_computation": module.entry.name,
            "computation_count": len(module.computations),
            "instruction_count": sum(map(len, module.computations)),
        }

    def get_module(self, data: bytes, deadline: float | None = None) -> bytes:  # noqa: ARG002  # all handlers are called alike
        """GetModule. It is too fast to need the deadline."""
        request = parse(v1.GetModuleRequest, data)
        not_negative(request, "content_offset", "content_limit")
        stored = self._modules.store.find(request.name, field="name")
        response = v1.GetModuleResponse(module=self._module_message(stored))
        if request.include_content:
            limit = min(request.content_limit or self._max_content, self._max_content)
            response.content = self._modules.store.read(
                request.name, offset=request.content_offset, limit=limit, field="name"
            )
        return response.SerializeToString()

    def delete_module(self, data: bytes, deadline: float | None = None) -> bytes:  # noqa: ARG002  # all handlers are called alike
        """DeleteModule. It is too fast to need the deadline."""
        request = parse(v1.DeleteModuleRequest, data)
        self._modules.store.delete(request.name, field="name")
        return v1.DeleteModuleResponse().SerializeToString()

    def list_instructions(self, data: bytes, deadline: float) -> bytes:
        """ListInstructions."""
        request = parse(v1.ListInstructionsRequest, data)
        with budget(deadline=deadline, subject="a module"):
            module = self._modules.read(request.module, ("module",))
            found = _selected(module, request.computation, request.opcode)
            page = RequestedPage(request, self._max_page_size)
            end = page.start + page.size
            response = v1.ListInstructionsResponse(
                next_page_token=page.next_token(end, len(found)), total_size=len(found)
            )
            size = 0
            for instruction in found[page.start : end]:
                spend(16)
                try:
                    message = _instruction_message(instruction)
                except InvalidModuleError as error:  # instructions are checked when they are first read
                    raise placed(error, error.path or ("module",)) from None
                size += message.ByteSize()
                response_size(size, self._max_answer, ("page_size",))
                response.instructions.append(message)
        return response.SerializeToString()

    def _module_message(self, stored: Stored) -> v1.Module:
        facts: dict[str, Any] = stored.facts
        module = v1.Module(name=stored.name, size_bytes=stored.size_bytes, **facts)
        module.create_time.FromMilliseconds(int(stored.created * 1e3))
        module.expire_time.FromMilliseconds(int((stored.used + self._modules.store.max_age) * 1e3))
        return module


def instruction_of(module: HloModule, name: str, computation: str) -> HloInstruction:
    """The instruction `name` of a module, or of its computation of that name if `computation` is not empty."""
    return module.computation(computation).instruction(name) if computation else module.instruction(name)


def _selected(module: HloModule, computation: str, opcode: str) -> list[HloInstruction]:
    """The instructions of `computation` with `opcode`. An empty `computation` stands for all computations, an empty
    `opcode` for any opcode.
    """
    found = list(module.computation(computation).instructions if computation else module.instructions())
    if not opcode:
        return found
    with_opcode = [instruction for instruction in found if instruction.opcode == opcode]
    if not with_opcode and opcode not in _OPCODES:
        raise InvalidArgumentError(f"there is no opcode {opcode[:80]!r}", field="opcode")
    return with_opcode


def _instruction_message(instruction: HloInstruction) -> v1.Instruction:
    message = v1.Instruction(
        name=instruction.name,
        id=instruction.id,
        opcode=str(instruction.opcode),
        shape=str(instruction.shape),
        computation=instruction.computation.name,
        is_root=instruction.is_root,
        operands=[operand.name for operand in instruction.operands],
        called_computations=[called.name for called in instruction.called_computations],
        op_name=instruction.op_metadata.op_name,
    )
    if instruction.opcode is Opcode.PARAMETER:
        message.parameter_number = instruction.parameter_number
    return message


def _check_digest(sha256: str) -> None:
    if sha256 and not _SHA256.fullmatch(sha256):
        raise InvalidArgumentError(f"expected 64 digits of hexadecimal, found {sha256[:80]!r}", field="sha256")
