"""The methods of HloService: they upload and download modules, and list instructions with their sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from xlashape.errors import InvalidArgumentError, NotFoundError, is_a
from xlashape.hlo import HloModule
from xlashape.proto import v1
from xlashape_client.faces import Methods, answer, iterator
from xlashape_client.inputs import AnyModule, ModuleSource, message_of
from xlashape_client.items import Items, Pages
from xlashape_client.results import Instruction, Module


class HloMethods(Methods):
    """The RPCs of HloService as methods. `MODULE` in the examples is the text of a small module."""

    @answer
    async def upload_module(self, module: AnyModule, *, timeout: float | None = None) -> Module:
        """Stores a module on the server, unless the server has it already. Other calls take the result, or its name, in
        place of the module.

        >>> kept = client.upload_module(MODULE)
        >>> kept.module_name, kept.instruction_count, kept.format
        ('tiny', 3, 'text')
        """
        content = await self._transport.content(module)
        if isinstance(content, str):
            return await self._kept(content, timeout)
        digest = await self._transport.digest(content)
        try:
            return await self._kept(f"modules/{digest}", timeout)
        except NotFoundError:
            pass
        return Module.of(await self._transport.store(content, digest, timeout))

    @answer
    async def upload_module_from(
        self, source: ModuleSource, *, progress: Callable[[int], None] | None = None, timeout: float | None = None
    ) -> Module:
        """Stores a module that is sent while it is read, in parts of 1 MiB, whether or not the server has it.

        - `source`: a file object for bytes, or an iterator of bytes. `AsyncClient` also takes an asynchronous iterator,
          and file objects whose `read` is a coroutine function. Another thread reads the source.
        - `progress` is called after each part, with the number of bytes sent so far.
        - `timeout`: seconds for the whole upload; without it the client's `stream_timeout`.

        An exception of `source` or `progress` ends the call, stores nothing, and is raised.

        >>> import io
        >>> kept = client.upload_module_from(io.BytesIO(MODULE), progress=print)
        157
        >>> kept.module_name, kept.size_bytes
        ('tiny', 157)
        """
        return Module.of(await self._transport.store_from(source, progress, timeout))

    @answer
    async def put_module(self, module: AnyModule, *, timeout: float | None = None) -> Module:
        """Stores a module on the server, in one message. By default, a server takes messages of at most 16 MiB.

        >>> kept = client.put_module(MODULE)
        >>> kept.entry_computation
        'main'
        """
        content = await self._transport.content(module)
        if isinstance(content, str):
            return await self._kept(content, timeout)
        request = v1.PutModuleRequest(data=content, sha256=await self._transport.digest(content))
        return Module.of((await self._transport.call("PutModule", request, v1.PutModuleResponse, timeout)).module)

    @answer
    async def get_module(self, module: Module | str, *, timeout: float | None = None) -> Module:
        """The description of a module that the server keeps. NotFoundError if the server does not have the module, or
        has it no longer.

        >>> kept = client.upload_module(MODULE)
        >>> found = client.get_module(kept.name)
        >>> found.size_bytes == len(MODULE)
        True
        """
        return await self._kept(_name_of(module), timeout)

    @answer
    async def download_module(self, module: Module | str, *, timeout: float | None = None) -> bytes:
        """The content of a module that the server keeps, as it was uploaded. `timeout` bounds each of the calls that
        fetch a part.

        >>> kept = client.upload_module(MODULE)
        >>> content = client.download_module(kept)
        >>> content == MODULE
        True
        """
        return await self._content(module, timeout)

    @answer
    async def load_module(self, module: Module | str, *, timeout: float | None = None) -> HloModule:
        """Downloads a module that the server keeps, as an HloModule.

        >>> kept = client.upload_module(MODULE)
        >>> module = client.load_module(kept)
        >>> module.instruction("t").shape.dimensions
        (5, 3)
        """
        return await self._transport.aside(partial(HloModule.from_bytes, await self._content(module, timeout)))

    @answer
    async def delete_module(self, module: Module | str, *, timeout: float | None = None) -> None:
        """Removes a module from the server.

        >>> kept = client.upload_module(MODULE)
        >>> client.delete_module(kept)
        """
        request = message_of(v1.DeleteModuleRequest, name=_name_of(module))
        await self._transport.call("DeleteModule", request, v1.DeleteModuleResponse, timeout)

    @iterator
    def list_instructions(
        self,
        module: AnyModule,
        *,
        computation: str = "",
        opcode: str = "",
        page_size: int = 0,
        timeout: float | None = None,
    ) -> Items[Instruction]:
        """The instructions of a module in the module's order. `computation` and `opcode` select those of one
        computation or of one opcode. Pages are fetched as they are needed.

        >>> [instruction.name for instruction in client.list_instructions(MODULE)]
        ['p', 't', 'n']
        """
        transport = self._transport
        request = partial(
            transport.module_request,
            v1.ListInstructionsRequest,
            module,
            timeout,
            computation=computation,
            opcode=opcode,
            page_size=page_size,
        )
        return Pages(
            transport,
            "ListInstructions",
            request,
            v1.ListInstructionsResponse,
            lambda response: map(Instruction.of, response.instructions),
            timeout,
        )

    async def _kept(self, name: str, timeout: float | None) -> Module:
        request = message_of(v1.GetModuleRequest, name=name)
        return Module.of((await self._transport.call("GetModule", request, v1.GetModuleResponse, timeout)).module)

    async def _content(self, module: Module | str, timeout: float | None) -> bytes:
        name = _name_of(module)
        content = bytearray()
        while True:
            request = message_of(v1.GetModuleRequest, name=name, include_content=True, content_offset=len(content))
            response = await self._transport.call("GetModule", request, v1.GetModuleResponse, timeout)
            content += response.content
            if len(content) >= response.module.size_bytes or not response.content:
                return bytes(content)


def _name_of(module: Module | str) -> str:
    if is_a(module, (str, Module)):
        return module if isinstance(module, str) else module.name
    raise InvalidArgumentError(
        f"expected a module of the server or its name, found {type(module).__name__}", field="name"
    )
