"""A module while it is written, as all its lines need it: the print options, the names that these show, the order of
instructions and computations, the texts of shapes and metadata, and the tables of stack frames.

Options match XLA's HloPrintOptions; those that jaxlib offers have the same names here.

XLA makes new tables of stack frames when it reads a module. It keeps the frames that instructions name and the frames
that called those, callers first, in the order of the computations and, within a computation, of the instructions' ids.
It merges equal names, locations and frames. The text has the numbers of the new tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from xlashape.errors import InvalidArgumentError, InvalidModuleError
from xlashape.hlo.module_proto.compact import Held
from xlashape.hlo.module_proto.structure import LOCAL_ID, call_order, post_order, roots
from xlashape.hlo.ops.async_chain import find_origin
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import AsyncStep
from xlashape.hlo.text.writer.templates import InstructionTemplate, PrintedComputation, read_computations
from xlashape.hlo.tokens import escape, safe_name, without_suffix
from xlashape.hlo.values.attribute import ABSENT
from xlashape.hlo.values.metadata import metadata_text
from xlashape.proto import parse, xla
from xlashape.shape import Shape
from xlashape.shape.text import shape_text


class PrintOptions(NamedTuple):
    """The defaults are those of `HloModule::ToString()`, which is what `module.to_string()` of jaxlib gives.

    >>> PrintOptions.named("short_parsable").print_percent
    False
    """

    print_large_constants: bool = False
    """The values of constants of more than ten elements, instead of `{...}`."""
    print_metadata: bool = True
    """`metadata={…}`, and the tables of file names and stack frames in the header."""
    print_backend_config: bool = True
    print_operand_shape: bool = False
    """The shape of each operand before its name."""
    print_operand_names: bool = True
    print_result_shape: bool = True
    print_program_shape: bool = True
    """The parameters and the result of a computation behind its name."""
    print_percent: bool = True
    """`%` before names."""
    print_control_dependencies: bool = True
    print_extra_attributes: bool = True
    """The attributes that an opcode has of its own: `dimensions={1}`, `window={…}`, …"""
    print_ids: bool = True
    """The names of the module and of its computations."""
    compact_get_tuple_elements: bool = False
    """`%x#0` for operands that are elements of the tuple %x, without lines for them, as XLA dumps with
    xla_dump_compact_gte."""
    compact_operands: bool = False
    """Only the first four operands, and how many more there are."""
    include_layout_in_shapes: bool = True
    canonicalize_instruction_names: bool = False
    """`tmp_0`, `tmp_1`, … in the order printed instead of names."""
    canonicalize_computations: bool = False
    """Computations sorted by their text, the entry last. XLA sorts by content too, but in another order."""
    print_computation_bodies: bool = False
    """Called computations in full where they are called, instead of their names."""
    print_only_essentials: bool = False
    """What decides the program: constants only where they are integers, all 0 or all 1; device lists in full; no infeed
    and outfeed configurations."""
    operand_index_interval: int = 5
    r"""The number of operands from one comment `/*index=5*/` to the next; 0 for no comments."""
    is_in_nested_computation: bool = False
    """Whether a computation is written without its name."""
    indent_amount: int = 0
    """Levels of two spaces before every line."""

    @staticmethod
    def named(style: str) -> PrintOptions:
        """The options of a style: default, short_parsable, canonical or fingerprint. Raises InvalidArgumentError for
        another name."""
        try:
            return _STYLES[style]
        except KeyError:
            raise InvalidArgumentError(
                f"{style!r} is not a print style; there are {', '.join(_STYLES)}", field="style"
            ) from None

    @staticmethod
    def of(style: str | PrintOptions = "default", **changes: Any) -> PrintOptions:
        """The options of a style with `changes`. Raises InvalidArgumentError for a name that is not an option.

        >>> PrintOptions.of("default", print_metadata=False).print_metadata
        False
        """
        options = style if isinstance(style, PrintOptions) else PrintOptions.named(style)
        if not changes:
            return options
        unknown = changes.keys() - set(PrintOptions._fields)
        if unknown:
            raise InvalidArgumentError(f"{min(unknown)!r} is not a print option", field=min(unknown))
        return options._replace(**changes)


_CANONICAL = PrintOptions(
    print_metadata=False,
    print_backend_config=False,
    print_operand_shape=True,
    print_operand_names=False,
    print_program_shape=False,
    print_percent=False,
    print_control_dependencies=False,
    canonicalize_instruction_names=True,
    print_computation_bodies=True,
    operand_index_interval=0,
)
_STYLES = {
    "default": PrintOptions(),
    "short_parsable": PrintOptions(
        print_large_constants=True,
        print_metadata=False,
        print_program_shape=False,
        print_percent=False,
        print_control_dependencies=False,
        operand_index_interval=0,
    ),
    "canonical": _CANONICAL,
    "fingerprint": _CANONICAL._replace(
        print_only_essentials=True,
        print_ids=False,
        canonicalize_computations=True,
    ),
}


# -- stack frames ------------------------------------------------------------------------------


class FrameTables:
    """The tables as they are written."""

    def __init__(self, index: xla.StackFrameIndexProto, used: Iterable[int]) -> None:
        self._index = index
        self._files: dict[str, int] = {}
        self._functions: dict[str, int] = {}
        self._locations: dict[tuple[int, ...], int] = {}
        self._frames: dict[tuple[int, int], int] = {}
        self._numbers: dict[int, int] = {0: 0}
        if index.stack_frames:
            for frame in used:
                if frame not in self._numbers:
                    self._add(frame)

    def number(self, frame: int) -> int:
        """The new number of a frame of the proto; 0 for a frame that is not in its table."""
        return self._numbers.get(frame, 0)

    def _add(self, frame: int) -> None:
        # Callers first. A frame that is not in the table, or has no location, is dropped, and so are the frames called
        # from it.
        frames = self._index.stack_frames
        chain: list[int] = []
        seen: set[int] = set()
        while frame not in self._numbers and 0 < frame <= len(frames) and frame not in seen:
            chain.append(frame)
            seen.add(frame)
            frame = frames[frame - 1].parent_frame_id
        parent = self._numbers.get(frame, 0)
        is_complete = frame == 0 or parent > 0
        for frame in reversed(chain):
            location = frames[frame - 1].file_location_id
            is_complete = is_complete and self._is_location(location)
            if is_complete:
                parent = self._frames.setdefault((self._location(location), parent), len(self._frames) + 1)
            self._numbers[frame] = parent if is_complete else 0

    def _is_location(self, number: int) -> bool:
        index = self._index
        if not 0 < number <= len(index.file_locations):
            return False
        location = index.file_locations[number - 1]
        has_file = 0 < location.file_name_id <= len(index.file_names)
        return has_file and 0 < location.function_name_id <= len(index.function_names)

    def _location(self, number: int) -> int:
        index = self._index
        location = index.file_locations[number - 1]
        file_name = index.file_names[location.file_name_id - 1]
        function_name = index.function_names[location.function_name_id - 1]
        file = self._files.setdefault(file_name, len(self._files) + 1)
        function = self._functions.setdefault(function_name, len(self._functions) + 1)
        key = (file, function, location.line, location.end_line, location.column, location.end_column)
        return self._locations.setdefault(key, len(self._locations) + 1)

    def lines(self) -> list[str]:
        """The lines of the four tables, each followed by an empty line; none where there are no frames."""
        if not self._frames:
            return []
        locations = [
            f"{{file_name_id={file} function_name_id={function} line={line} end_line={end} column={column} "
            f"end_column={last}}}"
            for file, function, line, end, column, last in self._locations
        ]
        frames = [f"{{file_location_id={location} parent_frame_id={parent + 1}}}" for location, parent in self._frames]
        lines: list[str] = []
        for title, rows in (
            ("FileNames", [f'"{escape(name)}"' for name in self._files]),
            ("FunctionNames", [f'"{escape(name)}"' for name in self._functions]),
            ("FileLocations", locations),
            ("StackFrames", frames),
        ):
            lines.append(title)
            lines += [f"{number} {row}" for number, row in enumerate(rows, 1)]
            lines.append("")
        return lines


# -- the module --------------------------------------------------------------------------------


class _TextByBytes(dict[bytes, str]):
    """Serialized message → text, made when it is first asked for. It lives as long as the writing of one module."""

    def __init__(self, make: Callable[[bytes], str]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, data: bytes) -> str:
        text = self[data] = self._make(data)
        return text


class PrintedModule:
    """One module that is written with one set of options."""

    def __init__(
        self,
        module: Held,
        options: PrintOptions,
        channels_0: Iterable[str] = (),
    ) -> None:
        head = module.head
        self.options = options
        self.channels_0 = frozenset(channels_0) if options.print_extra_attributes else frozenset[str]()
        """The instructions that are written with channel_id=0."""
        self.computations = read_computations(module.module_bytes())
        self.payloads: Sequence[bytes] = list(head.payloads)
        self.percent = "%" if options.print_percent else ""
        self.names = self._shown([computation.name for computation in self.computations])
        """The names of the computations."""
        self.frames = FrameTables(head.stack_frame_index, self._used_frames() if options.print_metadata else ())
        self.shapes_with_layout = _TextByBytes(lambda data: str(Shape.from_proto(data)))
        self.shapes_without_layout = _TextByBytes(lambda data: shape_text(Shape.from_proto(data), layout=False))
        self.shapes = self.shapes_with_layout if options.include_layout_in_shapes else self.shapes_without_layout
        """The text of a shape, as the options ask for it."""
        self.metadata = _TextByBytes(self._metadata_text if options.print_metadata else lambda _: "")
        """The text of an instruction's metadata."""
        self._index_of = {computation.id: index for index, computation in enumerate(self.computations)}
        self._kept_names: dict[int, list[str]] = {}
        self._orders: dict[int, list[int]] = {}
        self._wrapped: dict[int, int | None] = {}
        self._callers: dict[int, list[tuple[int, int]]] | None = None
        self._async_computations: dict[tuple[int, int], int | None] = {}
        self._async_origins: dict[tuple[int, int], tuple[int, int] | None] = {}

    def _metadata_text(self, data: bytes) -> str:
        if data in (ABSENT, b""):
            return ""
        message = parse(xla.OpMetadata, data)
        text = metadata_text(message, self.frames.number(message.stack_frame_id), self.payloads)
        return f", metadata={{{text}}}" if text else ""

    def _used_frames(self) -> Iterator[int]:
        """The stack frames that instructions name, in the order of the instructions' ids."""
        seen: set[bytes] = {ABSENT}
        for computation in self.computations:
            for _, data in sorted(
                zip(computation.ids, computation.metadata, strict=True), key=lambda pair: pair[0] & LOCAL_ID
            ):
                if data not in seen:
                    seen.add(data)
                    yield parse(xla.OpMetadata, data).stack_frame_id

    def _shown(self, names: list[str]) -> list[str]:
        if self.options.print_ids:
            return [self.percent + safe_name(name) for name in names]
        return [self.percent + without_suffix(safe_name(name)) for name in names]

    def index_of(self, computation_id: int) -> int:
        """The index of the computation of an id. Raises InvalidModuleError."""
        index = self._index_of.get(computation_id & LOCAL_ID)
        if index is None:
            raise InvalidModuleError(f"there is no computation of id {computation_id}")
        return index

    def instruction_names(self, computation: PrintedComputation) -> list[str]:
        """The names of a computation's instructions, as the options show them."""
        return self._shown(computation.names)

    def kept_names(self, index: int) -> list[str]:
        """`instruction_names` of the computation at an index, kept for further lines of it."""
        names = self._kept_names.get(index)
        if names is None:
            names = self._kept_names[index] = self.instruction_names(self.computations[index])
        return names

    # -- order -------------------------------------------------------------------------------

    def order(self, index: int) -> list[int]:
        """The indices of a computation's instructions, operands before their users."""
        order = self._orders.get(index)
        if order is None:
            computation = self.computations[index]
            operands, ids = computation.operands, computation.ids
            starts = roots(operands)
            if len(starts) > 1:
                starts.sort(key=lambda i: ids[i] & LOCAL_ID)
            before: Sequence[Sequence[int]] = operands
            if any(computation.templates[i].predecessors for i in computation.notable):
                before = [
                    [*(computation.index_of(i, user) for i in reversed(template.predecessors)), *targets]
                    for user, (template, targets) in enumerate(zip(computation.templates, operands, strict=True))
                ]
            order = self._orders[index] = post_order(before, starts)
            if len(order) < len(ids):
                order += sorted(set(range(len(ids))).difference(order))
        return order

    def computation_order(self) -> list[int]:
        """The indices of the computations, called ones before their callers."""
        called: list[list[list[int]]] = []
        for computation in self.computations:
            templates, ids = computation.templates, computation.ids
            calls = [(ids[i] & LOCAL_ID, templates[i].called) for i in computation.notable if templates[i].called]
            calls.sort(key=itemgetter(0))
            called.append([[self.index_of(i) for i in targets] for _, targets in calls])
        order = call_order(called, roots([list(chain.from_iterable(calls)) for calls in called]))
        if len(order) < len(called):
            order += sorted(set(range(len(called))).difference(order))
        return order

    # -- asynchronous instructions -----------------------------------------------------------

    def wrapped(self, index: int) -> int | None:
        """The only instruction of a computation beside its parameters; None if there are more."""
        if index not in self._wrapped:
            computation = self.computations[index]
            root = computation.root
            parameters = sum(computation.templates[i].is_parameter for i in computation.notable)
            # The root may be a parameter itself: XLA writes parameter-start.
            is_alone = root >= 0 and len(computation.ids) - parameters == (not computation.templates[root].is_parameter)
            self._wrapped[index] = root if is_alone else None
        return self._wrapped[index]

    def hidden(self) -> frozenset[int]:
        """The computations that are not written, because they are written as part of the asynchronous instructions that
        call them."""
        called = {
            self.index_of(target)
            for computation in self.computations
            for i in computation.notable
            if computation.templates[i].row.async_step is not None
            for target in computation.templates[i].called
        }
        return frozenset(index for index in called if self.wrapped(index) is not None)

    def async_computation(self, computation: PrintedComputation, index: int) -> int | None:
        """The computation that an asynchronous instruction runs: the one that it or its start calls. None if there is
        none."""
        template = computation.templates[index]
        if template.called:
            return self.index_of(template.called[0])
        operands = computation.operands[index]
        if template.row.async_step in (None, AsyncStep.START) or not operands:
            return None
        key = computation.id, index
        if key in self._async_computations:
            return self._async_computations[key]
        # Operands are written first, so the answer for the update before is there.
        before = computation.id, operands[0]
        if before in self._async_computations:
            found = self._async_computations[before]
        else:
            found = self._origin_computation(computation, operands[0])
        self._async_computations[key] = found
        return found

    def _origin_computation(self, computation: PrintedComputation, index: int) -> int | None:
        """The computation that is called where the asynchronous operation whose state an instruction has was
        started."""
        origin = find_origin(_PrintedInstructions(self), (self.index_of(computation.id), index), self._async_origins)
        if origin is None:
            return None
        called = self.computations[origin[0]].templates[origin[1]].called
        return self.index_of(called[0]) if called else None

    def caller(self, index: int) -> tuple[int, int] | None:
        """The index of the computation, and in it the index of the instruction, that alone calls a computation; None if
        there are more or none."""
        if self._callers is None:
            self._callers = {}
            for number, computation in enumerate(self.computations):
                for i in computation.notable:
                    for target in computation.templates[i].called:
                        self._callers.setdefault(self.index_of(target), []).append((number, i))
        callers = self._callers.get(index, [])
        return callers[0] if len(callers) == 1 else None


class _PrintedInstructions:
    """The instructions of the module, as find_origin asks for them: (index of the computation, index of the
    instruction)."""

    def __init__(self, module: PrintedModule) -> None:
        self._module = module

    def _template(self, node: tuple[int, int]) -> InstructionTemplate:
        return self._module.computations[node[0]].templates[node[1]]

    def opcode(self, node: tuple[int, int], /) -> str:
        return self._template(node).opcode

    def operands(self, node: tuple[int, int], /) -> list[tuple[int, int]]:
        return [(node[0], index) for index in self._module.computations[node[0]].operands[node[1]]]

    def tuple_index(self, node: tuple[int, int], /) -> int:
        return self._template(node).message.tuple_index

    def body_root(self, node: tuple[int, int], /) -> tuple[int, int] | None:
        template = self._template(node)
        if template.is_parameter:
            body = node[0]
        elif template.called:
            body = self._module.index_of(template.called[0])
        else:
            return None
        root = self._module.computations[body].root
        return (body, root) if root >= 0 else None

    def loop(self, node: tuple[int, int], /) -> tuple[int, int] | None:
        caller = self._module.caller(node[0])
        if caller is None or self._template(caller).opcode != Opcode.WHILE:
            return None
        is_body = self._module.index_of(self._template(caller).called[0]) == node[0]
        return caller if is_body else None

    def is_origin(self, node: tuple[int, int], /) -> bool:
        template = self._template(node)
        if template.opcode == Opcode.ASYNC_START:
            return True
        return template.opcode == Opcode.ASYNC_UPDATE and bool(template.called)
