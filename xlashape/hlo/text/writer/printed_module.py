"""`PrintOptions`, and `PrintedModule`, a module while it is written with such options: its names, the order of its
instructions and computations, the texts of shapes and metadata, and the tables of stack frames.

The options match XLA's HloPrintOptions. Options that jaxlib has too have the same names here.

When XLA reads a module, it makes new tables of stack frames, and the text has their numbers. The new tables have the
frames that instructions name and, before each, the frames that called it. Frames are in the order of the computations
and, within a computation, of the instructions' ids. Equal names, locations and frames are merged.
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
    """Which parts of a module its text shows, and how. The defaults give the text of XLA's `HloModule::ToString()`,
    which is `module.to_string()` in jaxlib.

    >>> PrintOptions.named("short_parsable").print_percent
    False
    """

    print_large_constants: bool = False
    """Write the values of constants of more than ten elements, instead of `{...}`."""
    print_metadata: bool = True
    """Write `metadata={…}`, and the tables of file names and stack frames in the header."""
    print_backend_config: bool = True
    print_operand_shape: bool = False
    """Write the shape of each operand before its name."""
    print_operand_names: bool = True
    print_result_shape: bool = True
    print_program_shape: bool = True
    """Write the parameters and the result of a computation after its name."""
    print_percent: bool = True
    """Write `%` before names."""
    print_control_dependencies: bool = True
    print_extra_attributes: bool = True
    """Write the attributes that belong to an opcode: `dimensions={1}`, `window={…}`, …"""
    print_ids: bool = True
    """Write the names of the module and of its computations."""
    compact_get_tuple_elements: bool = False
    """Write `%x#0` for an operand that is an element of the tuple %x, without a line for the get-tuple-element. XLA
    does so in dumps with the flag xla_dump_compact_gte."""
    compact_operands: bool = False
    """Write only the first four operands, and how many more there are."""
    include_layout_in_shapes: bool = True
    canonicalize_instruction_names: bool = False
    """Write `tmp_0`, `tmp_1`, … instead of names, numbered in the order of the text."""
    canonicalize_computations: bool = False
    """Write the computations sorted by their text, the entry last. XLA sorts by content too, but in another order."""
    print_computation_bodies: bool = False
    """Write called computations in full where they are called, instead of their names."""
    print_only_essentials: bool = False
    """Write what a fingerprint needs: values of constants only if they are integers, all 0 or all 1; device lists in
    full; no infeed and outfeed configurations."""
    operand_index_interval: int = 5
    r"""The number of operands from one comment `/*index=5*/` to the next; 0 for no comments."""
    is_in_nested_computation: bool = False
    """Write computations without their names."""
    indent_amount: int = 0
    """The number of levels, of two spaces each, that every line is indented by."""

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
    """The tables of stack frames of a text: the four tables with the frames in `used`, and with new numbers."""

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
        # Adds the frames that called `frame` before it. A frame that is not in the table of the proto, or has no
        # location there, is dropped, and so are the frames that were called from it.
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
    """Serialized message → its text, which `make` gives when it is first looked up."""

    def __init__(self, make: Callable[[bytes], str]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, data: bytes) -> str:
        text = self[data] = self._make(data)
        return text


class PrintedModule:
    """A module that is written with one set of options, and everything that its lines share."""

    def __init__(
        self,
        module: Held,
        options: PrintOptions,
        channels_0: Iterable[str] = (),
    ) -> None:
        head = module.head
        self.options = options
        self.channels_0 = frozenset(channels_0) if options.print_extra_attributes else frozenset[str]()
        """The names of the instructions that are written with channel_id=0."""
        self.computations = read_computations(module.module_bytes())
        self.payloads: Sequence[bytes] = list(head.payloads)
        self.percent = "%" if options.print_percent else ""
        self.names = self._shown([computation.name for computation in self.computations])
        """The names of the computations."""
        self.frames = FrameTables(head.stack_frame_index, self._used_frames() if options.print_metadata else ())
        self.shapes_with_layout = _TextByBytes(lambda data: str(Shape.from_proto(data)))
        self.shapes_without_layout = _TextByBytes(lambda data: shape_text(Shape.from_proto(data), layout=False))
        self.shapes = self.shapes_with_layout if options.include_layout_in_shapes else self.shapes_without_layout
        """Serialized shape → its text, with or without layout as the options say."""
        self.metadata = _TextByBytes(self._metadata_text if options.print_metadata else lambda _: "")
        """Serialized metadata of an instruction → `, metadata={…}`; "" if the options leave metadata out."""
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
        """The index of the computation with an id. Raises InvalidModuleError if there is none."""
        index = self._index_of.get(computation_id & LOCAL_ID)
        if index is None:
            raise InvalidModuleError(f"there is no computation of id {computation_id}")
        return index

    def instruction_names(self, computation: PrintedComputation) -> list[str]:
        """The names of a computation's instructions, as the options show them."""
        return self._shown(computation.names)

    def kept_names(self, index: int) -> list[str]:
        """The result of `instruction_names` for the computation at `index`, kept for further calls."""
        names = self._kept_names.get(index)
        if names is None:
            names = self._kept_names[index] = self.instruction_names(self.computations[index])
        return names

    # -- order -------------------------------------------------------------------------------

    def order(self, index: int) -> list[int]:
        """The indices of a computation's instructions in XLA's post order: operands before their users."""
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
                    [*reversed(computation.predecessors_of(user)), *targets] for user, targets in enumerate(operands)
                ]
            order = self._orders[index] = post_order(before, starts)
            if len(order) < len(ids):
                order += sorted(set(range(len(ids))).difference(order))
        return order

    def computation_order(self) -> list[int]:
        """The indices of the computations in XLA's order: called computations before their callers."""
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
        """The index of the instruction that the computation at `index` wraps: the only one other than its parameters.
        None if there are several."""
        if index not in self._wrapped:
            computation = self.computations[index]
            root = computation.root
            parameters = sum(computation.templates[i].is_parameter for i in computation.notable)
            # A computation of parameters alone wraps its root: XLA writes it as parameter-start.
            is_alone = root >= 0 and len(computation.ids) - parameters == (not computation.templates[root].is_parameter)
            self._wrapped[index] = root if is_alone else None
        return self._wrapped[index]

    def hidden(self) -> frozenset[int]:
        """The indices of computations that have no text of their own, because the asynchronous instructions that call
        them are written as the instruction that they wrap."""
        called = {
            self.index_of(target)
            for computation in self.computations
            for i in computation.notable
            if computation.templates[i].row.async_step is not None
            for target in computation.templates[i].called
        }
        return frozenset(index for index in called if self.wrapped(index) is not None)

    def async_computation(self, computation: PrintedComputation, index: int) -> int | None:
        """The index of the computation that the asynchronous instruction at `index` runs: the one that it or its start
        calls. None if there is none."""
        template = computation.templates[index]
        if template.called:
            return self.index_of(template.called[0])
        operands = computation.operands[index]
        if template.row.async_step in (None, AsyncStep.START) or not operands:
            return None
        key = computation.id, index
        if key in self._async_computations:
            return self._async_computations[key]
        # Instructions are written after their operands, so the answer for an update before this one is often known.
        before = computation.id, operands[0]
        if before in self._async_computations:
            found = self._async_computations[before]
        else:
            found = self._origin_computation(computation, operands[0])
        self._async_computations[key] = found
        return found

    def _origin_computation(self, computation: PrintedComputation, index: int) -> int | None:
        """The index of the computation that an asynchronous operation runs. The instruction at `index` has the state of
        the operation, and `find_origin` finds the instruction that calls the computation."""
        origin = find_origin(_PrintedInstructions(self), (self.index_of(computation.id), index), self._async_origins)
        if origin is None:
            return None
        called = self.computations[origin[0]].templates[origin[1]].called
        return self.index_of(called[0]) if called else None

    def caller(self, index: int) -> tuple[int, int] | None:
        """The instruction that calls the computation at `index`: (index of its computation, its index there). None if
        several instructions call it, or none."""
        if self._callers is None:
            self._callers = {}
            for number, computation in enumerate(self.computations):
                for i in computation.notable:
                    for target in computation.templates[i].called:
                        self._callers.setdefault(self.index_of(target), []).append((number, i))
        callers = self._callers.get(index, [])
        return callers[0] if len(callers) == 1 else None


class _PrintedInstructions:
    """The instructions of the module as the graph that `find_origin` searches. A node is (index of the computation,
    index of the instruction)."""

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
