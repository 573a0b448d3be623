"""HloService."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from xlashape.errors import InvalidArgumentError, NotFoundError
from xlashape.hlo import HloModule
from xlashape.proto import coerce, v1
from xlashape_client.inputs import AnyModule, content_of, message_of
from xlashape_client.results import ByteTotals, Instruction, InstructionSize, Module
from xlashape_client.transport import Transport, choice, upload_messages

__all__ = ["HloMethods"]

_ORDERS = {
    "module": v1.BYTE_SIZES_ORDER_MODULE,
    "physical_bytes": v1.BYTE_SIZES_ORDER_PHYSICAL_BYTES,
    "padding_bytes": v1.BYTE_SIZES_ORDER_PADDING_BYTES,
}


class HloMethods(Transport):
    """The RPCs of HloService as methods."""

    def upload_module(self, module: AnyModule, *, timeout: float | None = None) -> Module:
        """Stores a module on the server, unless it is there already. Other calls take the result, or its name, in place of the module."""
        content = content_of(module)
        if isinstance(content, str):
            return self.get_module(content, timeout=timeout)
        try:
            return self.get_module(f"modules/{hashlib.sha256(content).hexdigest()}", timeout=timeout)
        except NotFoundError:
            pass
        response = self.send("UploadModule", upload_messages(content), timeout)
        return Module.of(coerce(v1.UploadModuleResponse, response).module)

    def put_module(self, module: AnyModule, *, timeout: float | None = None) -> Module:
        """`upload_module` in one message, which a server takes up to 64 MiB by default."""
        content = content_of(module)
        if isinstance(content, str):
            return self.get_module(content, timeout=timeout)
        request = v1.PutModuleRequest(data=content, sha256=hashlib.sha256(content).hexdigest())
        return Module.of(self._call("PutModule", request, v1.PutModuleResponse, timeout).module)

    def get_module(self, module: Module | str, *, timeout: float | None = None) -> Module:
        """The description of a module that the server keeps. NotFoundError if the server does not have it, or no longer."""
        request = message_of(v1.GetModuleRequest, name=_name_of(module))
        return Module.of(self._call("GetModule", request, v1.GetModuleResponse, timeout).module)

    def download_module(self, module: Module | str, *, timeout: float | None = None) -> bytes:
        """The content of a module that the server keeps, as it was uploaded. `timeout` bounds each of the calls that fetch a part."""
        name = _name_of(module)
        content = bytearray()
        while True:
            request = message_of(v1.GetModuleRequest, name=name, include_content=True, content_offset=len(content))
            response = self._call("GetModule", request, v1.GetModuleResponse, timeout)
            content += response.content
            if len(content) >= response.module.size_bytes or not response.content:
                return bytes(content)

    def load_module(self, module: Module | str, *, timeout: float | None = None) -> HloModule:
        """Downloads a module that the server keeps, as an HloModule."""
        return HloModule.from_bytes(self.download_module(module, timeout=timeout))

    def delete_module(self, module: Module | str, *, timeout: float | None = None) -> None:
        """Removes a module from the server."""
        self._call(
            "DeleteModule", message_of(v1.DeleteModuleRequest, name=_name_of(module)), v1.DeleteModuleResponse, timeout
        )

    def list_instructions(
        self,
        module: AnyModule,
        *,
        computation: str = "",
        opcode: str = "",
        page_size: int = 0,
        timeout: float | None = None,
    ) -> Iterator[Instruction]:
        """The instructions of a module in the module's order; of one computation, or of one opcode, if given. Pages are fetched as they are needed."""
        request = message_of(
            v1.ListInstructionsRequest,
            module=self._module_input(module, timeout),
            computation=computation,
            opcode=opcode,
            page_size=page_size,
        )
        while True:
            response = self._call("ListInstructions", request, v1.ListInstructionsResponse, timeout)
            for instruction in response.instructions:
                yield Instruction.of(instruction)
            if not response.next_page_token:
                return
            request.page_token = response.next_page_token

    def byte_sizes(
        self,
        module: AnyModule,
        *,
        computation: str = "",
        opcode: str = "",
        order: str = "module",
        page_size: int = 0,
        timeout: float | None = None,
    ) -> Iterator[InstructionSize]:
        """The bytes that each instruction's result takes. `order` is "module", or "physical_bytes" or "padding_bytes", the largest first.

        Without `computation` these are the instructions that have memory of their own: of the entry computation, and of those that it executes
        instruction by instruction, without tuples, their elements and others that share buffers.
        """
        request = self._byte_sizes_request(module, computation, opcode, order, page_size, timeout)
        while True:
            response = self._call("ByteSizes", request, v1.ByteSizesResponse, timeout)
            for instruction in response.instructions:
                yield InstructionSize.of(instruction)
            if not response.next_page_token:
                return
            request.page_token = response.next_page_token

    def byte_totals(
        self, module: AnyModule, *, computation: str = "", opcode: str = "", timeout: float | None = None
    ) -> ByteTotals:
        """The sums of `byte_sizes`, and how many instructions it leaves out."""
        request = self._byte_sizes_request(module, computation, opcode, "module", 1, timeout)
        return ByteTotals.of(self._call("ByteSizes", request, v1.ByteSizesResponse, timeout).totals)

    def _byte_sizes_request(
        self, module: AnyModule, computation: str, opcode: str, order: str, page_size: int, timeout: float | None
    ) -> v1.ByteSizesRequest:
        return message_of(
            v1.ByteSizesRequest,
            order=choice(_ORDERS, order, "order"),
            module=self._module_input(module, timeout),
            computation=computation,
            opcode=opcode,
            page_size=page_size,
        )


def _name_of(module: Module | str) -> str:
    if isinstance(module, (str, Module)):  # pyright: ignore[reportUnnecessaryIsInstance]  # for callers without types
        return module if isinstance(module, str) else module.name
    raise InvalidArgumentError(
        f"expected a module of the server or its name, found {type(module).__name__}", field="name"
    )
