"""The methods of ViewService: they recognize content, draw pictures, and return the text and the graph of modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlashape.errors import InvalidArgumentError
from xlashape.proto import v1
from xlashape_client.faces import Methods, answer
from xlashape_client.inputs import AnyMap, AnyModule, AnyShape, map_input, message_of, shape_input
from xlashape_client.results import Drawing, InstructionGraph, RecognizeResult, TextSlice


class ViewMethods(Methods):
    """The RPCs of ViewService as methods."""

    @answer
    async def recognize(self, content: bytes | str, *, timeout: float | None = None) -> RecognizeResult:
        """What a text or the content of a file is: a shape, a layout, an indexing map, a line of HLO, a module, a
        report about memory or a profile. Other content raises the error of the kind that it resembles most.

        >>> found = client.recognize(MODULE)
        >>> found.kind, found.summary
        ('module', 'the module tiny')
        """
        data = content.encode(errors="replace") if isinstance(content, str) else content
        request = message_of(v1.RecognizeRequest, content=data)
        return RecognizeResult.of(await self._transport.call("Recognize", request, v1.RecognizeResponse, timeout))

    @answer
    async def draw(
        self,
        module: AnyModule | None = None,
        instruction: str = "",
        *,
        shape: AnyShape | None = None,
        map: AnyMap | None = None,  # noqa: A002  # the name of the field
        computation: str = "",
        after: AnyShape | None = None,
        at: Sequence[int] = (),
        rows: str = "",
        columns: str = "",
        color: str = "",
        label: str = "",
        path: bool = True,
        segment_bytes: int = 0,
        banks: int = 0,
        bank_bytes: int = 0,
        output: int | None = None,
        operand: int | None = None,
        output_shape: AnyShape | None = None,
        operand_shape: AnyShape | None = None,
        tile: Sequence[int] = (),
        warp: int = 0,
        theme: str = "",
        format: str = "",  # noqa: A002  # the name of the field
        timeout: float | None = None,
    ) -> Drawing:
        """A picture of a shape, of what a map or an instruction of a module reads, or of a module's memory over time.
        The options are those of `xlashape.draw`.

        >>> drawing = client.draw(shape="f32[3,5]{1,0:T(2,2)}", at=(2, 3))
        >>> drawing.title, drawing.media_type, drawing.picture[:5]
        ('f32[3,5]{1,0:T(2,2)}', 'image/svg+xml', b'<svg ')
        >>> drawing = client.draw(MODULE, "t", at=(1, 2), format="txt")
        >>> drawing.facts
        ('1 output reads 1 element of p, in 1 segment of 128 bytes (at least 1 needed).',)
        """
        fields: dict[str, Any] = {
            "instruction": instruction, "computation": computation, "at": list(at), "rows": rows, "columns": columns,
            "color": color, "label": label, "without_path": not path, "segment_bytes": segment_bytes, "banks": banks,
            "bank_bytes": bank_bytes, "output": output, "operand": operand, "tile": list(tile), "warp": warp,
            "theme": theme, "format": format,
        }  # fmt: skip
        if sum([subject is not None for subject in (module, shape, map)]) > 1:
            raise InvalidArgumentError("expected one of a module, a shape and a map", field="module")
        shapes = {"shape": shape, "after": after, "output_shape": output_shape, "operand_shape": operand_shape}
        fields |= {name: shape_input(value) for name, value in shapes.items() if value is not None}
        if map is not None:
            fields["map"] = map_input(map)
        if module is not None:
            fields["module"] = await self._transport.module_input(module, timeout)
        request = message_of(v1.DrawRequest, **fields)
        return Drawing.of(await self._transport.call("Draw", request, v1.DrawResponse, timeout))

    @answer
    async def get_text(
        self,
        module: AnyModule,
        name: str = "",
        *,
        computation: str = "",
        first_line: int = 0,
        max_lines: int = 0,
        find: str = "",
        include_definitions: bool = False,
        timeout: float | None = None,
    ) -> TextSlice:
        """Lines of a module's text from `first_line` on, or from the definition of the instruction or computation
        `name` on. `find` is a text: the result also lists the lines of the whole text that contain it.

        >>> found = client.get_text(MODULE, "t", max_lines=1, find="negate")
        >>> found.lines, found.first_line, found.line_count, found.found_lines
        (('  %t = f32[5,3]{1,0} transpose(%p), dimensions={1,0}',), 4, 7, (5,))
        """
        request = await self._transport.module_request(
            v1.GetTextRequest,
            module,
            timeout,
            name=name,
            computation=computation,
            first_line=first_line,
            max_lines=max_lines,
            find=find,
            include_definitions=include_definitions,
        )
        return TextSlice.of(await self._transport.call("GetText", request, v1.GetTextResponse, timeout))

    @answer
    async def graph(
        self,
        module: AnyModule,
        instruction: str = "",
        *,
        computation: str = "",
        distance: int = 1,
        to: str = "",
        include_called: bool = False,
        max_instructions: int = 0,
        timeout: float | None = None,
    ) -> InstructionGraph:
        """The instructions of a module, or of a computation, and the edges between them. With `instruction`, only the
        instructions that are up to `distance` edges away from it. With `to`, only those on paths from `instruction` to
        this instruction.

        >>> found = client.graph(MODULE, "t")
        >>> [node.name for node in found.instructions], found.edges
        (['p', 't', 'n'], ((0, 1, 0), (1, 2, 0)))
        """
        request = await self._transport.module_request(
            v1.GraphRequest,
            module,
            timeout,
            instruction=instruction,
            computation=computation,
            distance=distance,
            to=to,
            include_called=include_called,
            max_instructions=max_instructions,
        )
        return InstructionGraph.of(await self._transport.call("Graph", request, v1.GraphResponse, timeout))
