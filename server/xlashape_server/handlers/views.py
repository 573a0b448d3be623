"""The handlers of ViewService, which the web page calls: they recognize what a text or file is, draw pictures, and
give the text of a module in slices and its graph as arrays.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, TypeVar

from xlashape.drawing import draw
from xlashape.errors import InvalidArgumentError, InvalidIndexError, NotFoundError, XlashapeError
from xlashape.hlo import HloComputation, HloInstruction, HloModule
from xlashape.hlo.analysis.graph import in_order, surroundings, ways, with_called
from xlashape.hlo.analysis.text_lines import TextLines
from xlashape.limits import INT32_MAX, budget, spend
from xlashape.proto import parse, v1
from xlashape.recognition import recognize
from xlashape.reports.memory import memory
from xlashape.shape import Shape
from xlashape_server.config import Config
from xlashape_server.handlers.hlo import instruction_of
from xlashape_server.handlers.inputs import map_of, not_negative, placed, response_size, shape_of, unpacked
from xlashape_server.handlers.reports import kept_answer
from xlashape_server.handlers.shapes import POINTER_SIZE, size_of
from xlashape_server.modules import Modules

K = TypeVar("K")

_MEDIA_TYPES = {"svg": "image/svg+xml", "html": "text/html", "png": "image/png", "txt": "text/plain"}
_PLAIN_OPTIONS = "at rows columns color label segment_bytes banks bank_bytes tile warp theme".split()
"""The options of `draw` that have a field of the same name in a request. If the field is empty or 0, the option has its
default.
"""

_SHAPE_FIELDS = {"output": "output_shape", "operand": "operand_shape"}
"""Option of `draw` for a map → its field."""
_MOST_LINES = 5_000
"""The most lines of text in an answer."""
_MOST_FOUND = 10_000
"""The most numbers of found lines in an answer."""
_MOST_LINE_CHARACTERS = 20_000
"""The most characters of a line in an answer; longer lines are cut."""
_MOST_TEXT_BYTES = 2 << 20
"""The most bytes of all lines in an answer, so that the answer fits the 4 MiB that gRPC receives by default."""
_MOST_INSTRUCTIONS = 200_000
"""The most instructions of a graph in an answer."""
_NUMBERS: Final[dict[str, Callable[[HloInstruction], int]]] = {
    "parameter": attrgetter("number"),
    "get-tuple-element": attrgetter("kind.tuple_index"),
}
"""Opcode → the number of the parameter, or of the tuple's element, that the instruction gives."""
_EDGES_AT_ONCE = 1 << 16


class ViewHandlers:
    """The handlers of ViewService: each has the name of its RPC. They take and return messages as bytes. Deadlines
    are times of time.monotonic(). Errors are the library's, with the path of the request's field.
    """

    def __init__(self, config: Config, modules: Modules) -> None:
        self._config = config
        self._modules = modules

    def recognize(self, data: bytes, deadline: float) -> bytes:
        """Recognize."""
        content = parse(v1.RecognizeRequest, data).content
        with budget(self._config.max_analysis_steps, deadline, "content"):
            content = unpacked(content, "content", self._config.max_module_bytes)
            try:
                found = recognize(content)
            except XlashapeError as error:
                raise placed(error, ("content",)) from None
        kind = v1.ContentKind.Value(f"CONTENT_KIND_{found.kind.upper()}")
        return v1.RecognizeResponse(
            kind=kind, text=found.text, instruction=found.instruction, summary=found.summary
        ).SerializeToString()

    def draw(self, data: bytes, deadline: float) -> bytes:
        """Draw."""
        request = parse(v1.DrawRequest, data)
        form = request.format or "svg"
        if form not in _MEDIA_TYPES:
            raise InvalidArgumentError(f"expected svg, html, png or txt, found {form[:40]!r}", field="format")
        given = [name for name in ("shape", "map", "module") if request.HasField(name)]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise InvalidArgumentError(
                f"expected one of shape, map and module, found {found}", field=given[-1] if given else "shape"
            )
        with budget(self._config.max_analysis_steps, deadline, "a picture"):
            subject, options = self._drawn(request, given[0])
            try:
                picture = draw(subject, **options)
                content = picture.svg(data=True).encode() if form == "svg" else picture.to_bytes(form)
            except XlashapeError as error:
                about = "at" if isinstance(error, InvalidIndexError) and request.at else given[0]
                fields = _SHAPE_FIELDS if given[0] == "map" else {}
                raise placed(error, (about,), **{name: (fields.get(name, name),) for name in options}) from None
        response_size(len(content), self._config.max_request_bytes, ("format",))
        return v1.DrawResponse(
            picture=content, media_type=_MEDIA_TYPES[form], title=picture.title, facts=picture.facts
        ).SerializeToString()

    def _drawn(self, request: v1.DrawRequest, name: str) -> tuple[Any, dict[str, Any]]:
        """The subject to draw (a shape, a map, an instruction, or the memory report of a module), and the options that
        the request sets.
        """
        options: dict[str, Any] = {}
        for option in _PLAIN_OPTIONS:
            value = getattr(request, option)
            if value:
                options[option] = tuple(value) if option in ("at", "tile") else value
        if request.without_path:
            options["path"] = False
        if request.HasField("after"):
            options["after"] = shape_of(request.after, ("after",), self._config)
        if name == "shape":
            return shape_of(request.shape, ("shape",), self._config), options
        if name == "map":
            for option, field in _SHAPE_FIELDS.items():
                value = getattr(request, field)
                if value.WhichOneof("form"):
                    options[option] = shape_of(value, (field,), self._config)
            return map_of(request.map, ("map",), self._config), options
        module = self._modules.read(request.module, ("module",))
        for option in ("output", "operand"):
            if request.HasField(option):
                options[option] = getattr(request, option)
        if request.instruction:
            return instruction_of(module, request.instruction, request.computation), options
        if options.keys() - {"theme"}:
            raise InvalidArgumentError(
                "the memory of a module is drawn as a whole: name an instruction", field=min(options.keys() - {"theme"})
            )
        return kept_answer(self._modules, module, b"memory ", lambda: memory(module)), options

    def get_text(self, data: bytes, deadline: float) -> bytes:
        """GetText."""
        request = parse(v1.GetTextRequest, data)
        not_negative(request, "first_line", "max_lines")
        with budget(deadline=deadline, subject="a module"):
            text = self._text(self._modules.read(request.module, ("module",)))
            first = request.first_line
            if request.name:
                try:
                    first = text.line_of(request.name, request.computation)
                except NotFoundError as error:
                    raise placed(error, ("name" if error.kind == "instruction" else "computation",)) from None
            found = text.find(request.find) if request.find else []
            lines: list[str] = []
            size = 0
            for line in text.lines[first : first + min(request.max_lines or _MOST_LINES, _MOST_LINES)]:
                shown = line if len(line) <= _MOST_LINE_CHARACTERS else line[:_MOST_LINE_CHARACTERS] + "…"
                size += len(shown.encode()) + 4
                if lines and size > _MOST_TEXT_BYTES:
                    break
                lines.append(shown)
            response = v1.GetTextResponse(
                lines=lines, first_line=first, line_count=len(text.lines), found_lines=found[:_MOST_FOUND],
                found_count=len(found),
            )  # fmt: skip
            if request.include_definitions:
                definitions = response.definitions
                definitions.computations.extend(text.computations)
                definitions.computation_lines.extend(text.computations.values())
                definitions.instruction_lines.extend([number for number, _ in text.instructions])
                definitions.instructions.extend([name for _, name in text.instructions])
        answer = response.SerializeToString()
        response_size(len(answer), self._config.max_request_bytes, ("include_definitions",))
        return answer

    def _text(self, module: HloModule) -> TextLines:
        return self._modules.found(module, b"text", lambda: TextLines.of(module))

    def graph(self, data: bytes, deadline: float) -> bytes:
        """Graph."""
        request = parse(v1.GraphRequest, data)
        not_negative(request, "max_instructions")
        most = min(request.max_instructions or _MOST_INSTRUCTIONS, _MOST_INSTRUCTIONS)
        with budget(deadline=deadline, subject="a module"):
            module = self._modules.read(request.module, ("module",))
            chosen = _chosen(module, request)
            count = len(chosen)
            shown = in_order(module, chosen[:most])
            response = _arrays(module, shown)
            response.instruction_count = count
            answer = response.SerializeToString()
        response_size(len(answer), self._config.max_request_bytes, ("max_instructions",))
        return answer


def _chosen(module: HloModule, request: v1.GraphRequest) -> list[HloInstruction]:
    """The instructions that a request asks for. Those around an instruction are ordered by distance, the nearest first;
    others are in the order of the module.
    """
    if request.instruction:
        start = instruction_of(module, request.instruction, request.computation)
        if request.to:
            try:
                end = instruction_of(module, request.to, request.computation or start.computation.name)
            except NotFoundError as error:
                raise placed(error, ("to",)) from None
            found = ways(start, end)
        else:
            found = surroundings(start, request.distance)
    elif request.to:
        raise InvalidArgumentError("`to` needs `instruction`, where the ways begin", field="to")
    elif request.computation:
        found = list(module.computation(request.computation).instructions)
    else:
        return list(module.instructions())
    return with_called(found) if request.include_called else found


def _fill(field: Any, numbers: array[int]) -> None:
    """Adds numbers to a field in parts: other threads wait for each of them."""
    for at in range(0, len(numbers), _EDGES_AT_ONCE):
        spend(_EDGES_AT_ONCE // 64)
        field.extend(numbers[at : at + _EDGES_AT_ONCE])


class _Numbers(dict[K, int]):
    """Value → its number, from 0 in the order in which the values are first looked up."""

    def __missing__(self, value: K) -> int:
        number = self[value] = len(self)
        return number


def _arrays(module: HloModule, chosen: Sequence[HloInstruction]) -> v1.GraphResponse:
    """The response with the chosen instructions, their operands and calls as parallel arrays. Texts that repeat are
    numbers in these arrays, and are listed once.
    """
    opcodes, op_names, sources = _Numbers[str](), _Numbers[str](), _Numbers[str]()
    shapes, computations = _Numbers[Shape](), _Numbers[HloComputation]()
    lines: dict[tuple[str, int, int], int] = {}
    for texts in (op_names, sources):
        texts.setdefault("", 0)
    positions = {each: position for position, each in enumerate(chosen)}
    names: list[str] = []
    rows: list[tuple[int, int, int, int, int, int, int]] = []
    # Arrays take 4 bytes for a number: there may be millions of edges.
    operands, users, operand_numbers = array("I"), array("I"), array("I")
    before, after = array("I"), array("I")
    calls: list[tuple[int, HloComputation]] = []
    for position, each in enumerate(chosen):
        spend(8 + len(each.operands) + len(each.control_predecessors))
        opcode, metadata = str(each.opcode), each.op_metadata
        # Instructions share lines of source, and looking one up takes time.
        line = metadata.source_file, metadata.source_line, metadata.stack_frame_id
        source = lines.get(line)
        if source is None:
            source = lines[line] = sources[each.metadata.source or ""]
        number = min(max(0, 1 + _NUMBERS[opcode](each)), INT32_MAX) if opcode in _NUMBERS else 0
        names.append(each.name)
        rows.append((
            each.id, opcodes[opcode], shapes[each.shape], computations[each.computation], op_names[metadata.op_name],
            source, number,
        ))  # fmt: skip
        for number, operand in enumerate(each.operands):
            if operand in positions:
                operands.append(positions[operand])
                users.append(position)
                operand_numbers.append(number)
        if each.control_predecessors:
            found = [positions[one] for one in each.control_predecessors if one in positions]
            before.extend(found)
            after.extend([position] * len(found))
        calls += [(position, called) for called in each.called_computations]
    called = [computations[each] for _, each in calls]
    ids, *columns = zip(*rows, strict=True) if rows else [()] * 7
    response = v1.GraphResponse(
        names=names, ids=ids, opcodes=columns[0], shapes=columns[1], computations=columns[2], op_names=columns[3],
        sources=columns[4], numbers=columns[5], callers=[position for position, _ in calls], called=called,
        opcode_names=opcodes, op_name_texts=op_names, source_texts=sources,
        computation_names=[each.name for each in computations],
        roots=[positions.get(each.root, -1) + 1 for each in computations],
        entry=computations.get(module.entry, -1) + 1,
    )  # fmt: skip
    _fill(response.edge_sources, operands)
    _fill(response.edge_targets, users)
    _fill(response.edge_operands, operand_numbers)
    _fill(response.control_sources, before)
    _fill(response.control_targets, after)
    for shape in shapes:
        spend(8)
        physical, padding = _bytes_of(shape)
        response.shape_texts.append(str(shape))
        response.shape_bytes.append(physical)
        response.shape_padding_bytes.append(padding)
    return response


def _bytes_of(shape: Shape) -> tuple[int, int]:
    """The bytes of all arrays in a shape, and how many of them are padding; -1 where they are not known."""
    try:
        size = size_of(shape, POINTER_SIZE)
    except XlashapeError:
        return -1, -1
    return size.physical_bytes, size.physical_bytes - size.logical_bytes
