"""The HTML page about a module, a shape, a map, a report of exhausted memory or a profile, as one file: its code, its
style, and the answers that it asks for. It works without a server and without a network.

    page_file("step.hlo.pb")        # a PageFile: .html, .save("report.html"); a notebook shows it

The answers are those of the service's handlers in this process (`Local`), asked as the page asks a server:
`server/page/src/recorded.ts` reads them.
"""

from __future__ import annotations

import gzip
import itertools
import struct
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from xlashape.base.vocabulary import Vocabulary
from xlashape.errors import FieldPath, NotFoundError, UnavailableError, XlashapeError
from xlashape.hlo import HloModule
from xlashape.limits import INT64_MAX
from xlashape.page import PageFile, PageSubject, subject_of
from xlashape.proto import v1
from xlashape.reports.report import report_of, rpc_of
from xlashape.shape import Shape
from xlashape.symbolic import IndexingMap
from xlashape_client.faces import finished
from xlashape_client.methods import ServiceMethods
from xlashape_server.config import Config
from xlashape_server.handlers import rpcs
from xlashape_server.modules import Modules
from xlashape_server.store import Store, Stored

_REPORTS: Final = ("summary", "memory", "copies", "reads", "cost", "why", "size", "collectives", "verify")
"""The reports about a module whose answers the file has."""
_PAGE_ROWS: Final = 2_000
"""The number of rows that the page asks for at once."""
_MOST_TABLE_BYTES: Final = 4 << 20
"""The most bytes of the answers that make one table. Further rows are left out, and the page says so."""
_MOST_PICTURES: Final = 40
"""The most shapes of a module, the largest ones, whose pictures the file has."""
_MOST_ELEMENTS: Final = 40
"""The most instructions, those with the worst reads, whose elements can be pointed at."""
_SECONDS: Final = 3600.0
"""The most seconds that an answer may take."""


def page_file(x: Any, *, note: Callable[[str], None] = lambda _: None) -> PageFile:
    """The page about `x`, as `xlashape.open` has it. `note` is called with what is being done."""
    folder = page_folder()
    local = Local(_SECONDS)
    note("reading")
    subject = subject_of(x, local.upload_module)
    recorder = _Recorder(local, note)
    recorder.record(subject)
    return PageFile.of(subject, recorder.packed(), folder)


class _Recorder:
    """Sends the requests that the page would make to the handlers, and keeps requests and answers."""

    def __init__(self, local: Local, note: Callable[[str], None]) -> None:
        self._local = local
        self._note = note
        self._records: dict[tuple[str, bytes], bytes] = {}

    def record(self, subject: PageSubject) -> None:
        """Records the requests that the page makes about the subject."""
        if subject.kind == "shape":
            self._shape(subject.title)
        elif subject.kind == "map":
            given = v1.MapInput(text=subject.title)
            self._ask("ParseMap", maps=[given])
            lowest = [each.bounds.lower for each in IndexingMap.parse(subject.title).dims]
            self._ask("Draw", map=given, at=lowest)
        elif subject.kind == "module":
            self._module(f"modules/{subject.state['m']}")
        elif subject.kind == "profile":
            self._report("profile", {"profile": subject.data}, is_needed=True)
        else:
            self._report("why", {"text": subject.data.decode("utf-8", "replace")}, is_needed=True)

    def _shape(self, text: str) -> None:
        shape = v1.ShapeInput(text=text)
        self._ask("DescribeShape", shapes=[shape])
        self._ask("Draw", shape=shape)
        self._report("why", {"shape": shape})
        self._report("size", {"shape": shape})

    def _module(self, name: str) -> None:
        named: dict[str, Any] = {"module": v1.ModuleInput(name=name)}
        self._ask("GetModule", name=name)
        graph = self._ask("Graph", **named)
        self._text(named)
        for report in _REPORTS:
            self._note(f"computing {report}")
            self._report(report, named)
        self._note("drawing")
        self._ask("Draw", **named)
        if graph:
            self._elements(named, graph)
        largest = sorted(zip(graph.shape_bytes, graph.shape_texts, strict=True), reverse=True) if graph else []
        for _, text in largest[:_MOST_PICTURES]:
            self._shape(text)

    def _elements(self, named: dict[str, Any], graph: Any) -> None:
        """Records, for the result of the program and each of the worst reads, what the first element of the output
        reads."""
        numbers = zip(graph.computations, graph.names, graph.shapes, strict=True)
        shapes = {(graph.computation_names[c], name): graph.shape_texts[shape] for c, name, shape in numbers}
        answer = self._ask("Reads", page_size=_PAGE_ROWS, **named)
        worst = dict.fromkeys((row.computation, row.instruction, row.output) for row in answer.reads) if answer else {}
        worst = dict.fromkeys([*_result(graph), *worst])
        for computation, name, output in itertools.islice(worst, _MOST_ELEMENTS):
            place: dict[str, Any] = {**named, "instruction": name, "computation": computation}
            shape = shapes[computation, name]
            self._ask("DescribeShape", shapes=[v1.ShapeInput(text=shape)])
            maps = self._ask("IndexingMaps", output=output, structured=True, page_size=_PAGE_ROWS, **place)
            if maps is None:
                continue
            for operand in dict.fromkeys([shapes[computation, row.operand_name] for row in maps.maps]):
                self._ask("DescribeShape", shapes=[v1.ShapeInput(text=operand)])
            known = [row.indexing.map for row in maps.maps if row.knowledge not in (0, v1.KNOWLEDGE_UNKNOWN)]
            rank = [*Shape.parse(shape).leaves()][output].rank
            at = [each.bounds.lower for each in known[0].dimensions] if known else [0] * rank
            self._ask("Draw", output=output, at=at, **place)

    def _text(self, named: dict[str, Any]) -> None:
        count = 0
        answer = self._ask("GetText", **named, include_definitions=True)
        while answer is not None:
            count += len(answer.lines)
            if not answer.lines or count >= answer.line_count:
                return
            answer = self._ask("GetText", **named, first_line=count)

    def _report(self, name: str, about: dict[str, Any], *, is_needed: bool = False) -> None:
        """Records the tables of a report, as many rows as fit, in the order in which the page asks for them."""
        report = report_of(name)
        for section in (None, *report.sections):
            argument = None if section is None else section.argument
            for value in argument.choices if argument else ("",):
                table: dict[str, Any] = {}
                if section is not None:
                    table["table"] = f"{name}_TABLE_{section.name}".upper()
                if argument is not None and isinstance(argument.choices, Vocabulary):
                    table[argument.name] = argument.choices.number(value)
                size, token = 0, ""
                while size <= _MOST_TABLE_BYTES:
                    answer = self._ask(
                        rpc_of(name),
                        is_needed=is_needed and section is None,
                        page_size=_PAGE_ROWS,
                        page_token=token,
                        **table,
                        **about,
                    )
                    if answer is None or not answer.next_page_token:
                        break
                    token = answer.next_page_token
                    size += answer.ByteSize()

    def _ask(self, rpc: str, *, is_needed: bool = False, **fields: Any) -> Any:
        """The answer to a request, which is recorded. None if the handler refuses the request: the page then says that
        the file does not carry the answer.
        """
        made = getattr(v1, f"{rpc}Request")
        request = made(**fields).SerializeToString(deterministic=True)
        try:
            answer = self._local.send(rpc, request, None)
        except XlashapeError:
            if is_needed:
                raise
            return None
        # The file is about one text or profile, so requests are recorded without it.
        fields |= {name: type(fields[name])() for name in ("profile", "text") if name in fields}
        self._records[rpc, made(**fields).SerializeToString(deterministic=True)] = answer
        return getattr(v1, f"{rpc}Response").FromString(answer)

    def packed(self) -> bytes:
        """All records, compressed."""
        made = bytearray()
        for (rpc, request), answer in self._records.items():
            for part in (rpc.encode(), request, answer):
                made += struct.pack("<I", len(part)) + part
        return gzip.compress(bytes(made), 9, mtime=0)


def _result(graph: Any) -> list[tuple[str, str, int]]:
    """What makes the result of the program, as the page chooses it (`result` of `server/page/src/program.ts`)."""
    root = graph.roots[graph.entry - 1] - 1 if graph.entry else -1
    if root < 0:
        return []
    opcode = [graph.opcode_names[each] for each in graph.opcodes]
    if opcode[root] == "tuple":
        edges = zip(graph.edge_operands, graph.edge_sources, graph.edge_targets, strict=True)
        operands = [source for _, source, target in sorted(edges) if target == root]
        root = next((each for each in operands if opcode[each] != "parameter"), root)
    return [(graph.computation_names[graph.computations[root]], graph.names[root], 0)]


def page_folder() -> Path:
    """The files of the page. UnavailableError in a checkout in which they are not built."""
    folder = Path(str(files("xlashape_server"))) / "page"
    if not (folder / "page.js").is_file():
        raise UnavailableError("this installation has no page: its files are built by `npm run build` in server/page")
    return folder


_YEAR_SECONDS = 365 * 86_400.0

_UNLIMITED = Config(
    max_analysis_steps=INT64_MAX,
    max_batch=INT64_MAX,
    max_shape_elements=INT64_MAX,
    max_text_bytes=INT64_MAX,
    max_module_bytes=INT64_MAX,
    max_module_text_bytes=INT64_MAX,
)
"""A user's own process may take as much memory and time as the user allows it."""


class Local(ServiceMethods):
    """The methods of a client, answered in this process by the handlers of the service, without a server and without a
    server's limits. `timeout`: the most seconds that an answer may take.
    """

    inline_bytes = INT64_MAX

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._modules = Modules(_UNLIMITED, _LocalStore())
        self._handlers = {rpc.method.name: rpc.handler for rpc in rpcs(_UNLIMITED, self._modules)}

    def module(self, module: bytes | str) -> HloModule:
        """A module, decoded. The handlers keep it, so that later calls need not decode it again."""
        return self._modules.read(finished(self._transport.module_input(module, None)), ("module",))

    def send(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> bytes:
        """Calls the handler of the RPC."""
        return self._handlers[method](request, self._deadline(timeout))

    def stream(self, method: str, request: bytes | Iterator[bytes], timeout: float | None) -> Iterator[bytes]:
        """Calls the handler of an RPC that answers with a stream."""
        return self._handlers[method](request, self._deadline(timeout))

    def _deadline(self, timeout: float | None) -> float:
        return time.monotonic() + (self._timeout if timeout is None else timeout)


class _LocalStore(Store):
    """A store in a temporary directory, which lives as long as this object."""

    def __init__(self) -> None:
        self._directory = TemporaryDirectory(prefix="xlashape-")
        super().__init__(self._directory.name, max_bytes=INT64_MAX, max_age=_YEAR_SECONDS)

    def find(self, name: str, *, field: str | FieldPath | None = None) -> Stored:
        try:
            return super().find(name, field=field)
        except NotFoundError:
            message = f"{name} is kept by a server: say which with --server"
            raise NotFoundError(message, kind="module", name=name, field=field) from None
