"""HloService."""

from __future__ import annotations

from collections.abc import Iterator

from xlashape.errors import InvalidArgumentError
from xlashape.hlo import HloModule
from xlashape.proto import coerce, v1
from xlashape_client.inputs import AnyModule, content_of, message_of
from xlashape_client.results import ByteTotals, Instruction, InstructionSize, Module
from xlashape_client.transport import Transport, choice, pieces

__all__ = ["HloMethods"]

_ORDERS = {
    "module": v1.BYTE_SIZES_ORDER_MODULE,
    "physical_bytes": v1.BYTE_SIZES_ORDER_PHYSICAL_BYTES,
    "padding_bytes": v1.BYTE_SIZES_ORDER_PADDING_BYTES,
}


class HloMethods(Transport):
    """The RPCs of HloService as methods."""

    def upload_module(self, module: AnyModule, *, timeout: float | None = None) -> Module:
        """Stores a module on the server, in pieces, and answers what the server knows of it. Its name stands for it in other calls."""
        content = content_of(module)
        if isinstance(content, str):
            return self.get_module(content, timeout=timeout)
        response = self.send("UploadModule", pieces(content), timeout)
        return Module.of(coerce(v1.UploadModuleResponse, response).module)

    def get_module(self, module: Module | str, *, timeout: float | None = None) -> Module:
        """What the server knows of a module it keeps. NotFoundError if it does not, or no longer."""
        request = message_of(v1.GetModuleRequest, name=_name_of(module))
        return Module.of(self._ask("GetModule", request, v1.GetModuleResponse, timeout).module)

    def download_module(self, module: Module | str, *, timeout: float | None = None) -> bytes:
        """The content of a module that the server keeps, as it was uploaded. `timeout` is for each piece."""
        name = _name_of(module)
        content = bytearray()
        while True:
            request = message_of(v1.GetModuleRequest, name=name, include_content=True, content_offset=len(content))
            response = self._ask("GetModule", request, v1.GetModuleResponse, timeout)
            content += response.content
            if len(content) >= response.module.size_bytes or not response.content:
                return bytes(content)

    def load_module(self, module: Module | str, *, timeout: float | None = None) -> HloModule:
        """A module that the server keeps, as an HloModule here."""
        return HloModule.from_bytes(self.download_module(module, timeout=timeout))

    def delete_module(self, module: Module | str, *, timeout: float | None = None) -> None:
        """Makes the server forget a module."""
        self._ask(
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
        """The instructions of a module in its own order, a page fetched when it is needed; of one computation or opcode alone if given."""
        request = message_of(
            v1.ListInstructionsRequest,
            module=self._module_input(module, timeout),
            computation=computation,
            opcode=opcode,
            page_size=page_size,
        )
        while True:
            response = self._ask("ListInstructions", request, v1.ListInstructionsResponse, timeout)
            for one in response.instructions:
                yield Instruction.of(one)
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
        """The bytes that each instruction's result takes. `order`: "module", or the largest first: "physical_bytes", "padding_bytes"."""
        request = self._byte_sizes_request(module, computation, opcode, order, page_size, timeout)
        while True:
            response = self._ask("ByteSizes", request, v1.ByteSizesResponse, timeout)
            for one in response.instructions:
                yield InstructionSize.of(one)
            if not response.next_page_token:
                return
            request.page_token = response.next_page_token

    def byte_totals(
        self, module: AnyModule, *, computation: str = "", opcode: str = "", timeout: float | None = None
    ) -> ByteTotals:
        """The sums of `byte_sizes` over instructions whose result is an array."""
        request = self._byte_sizes_request(module, computation, opcode, "module", 1, timeout)
        return ByteTotals.of(self._ask("ByteSizes", request, v1.ByteSizesResponse, timeout).totals)

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
    if isinstance(module, (str, Module)):  # pyright: ignore[reportUnnecessaryIsInstance]
        return module if isinstance(module, str) else module.name
    raise InvalidArgumentError(
        f"expected a module of the server or its name, found {type(module).__name__}", field="name"
    )
