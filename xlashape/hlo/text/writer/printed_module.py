"""`PrintOptions`, and `PrintedModule`, a module while it is written with such options: its names, the order of its
instructions and computations, the texts of shapes and metadata, and the tables of stack frames.

The options match XLA's HloPrintOptions. Options that jaxlib has too have the same names here.

When XLA reads a module, it makes new tables of stack frames, and the text has their numbers. The new tables have the
frames that instructions name and, before each, the frames that called it. Frames are in the order of the computations
and, within a computation, of the instructions' ids. Equal names, locations and frames are merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from xlashape.errors import InvalidArgumentError
from xlashape.hlo.async_start import async_start
from xlashape.hlo.ir import HloComputation, HloInstruction, ModuleData
from xlashape.hlo.kind import Kind, TextMetadata
from xlashape.hlo.module_proto.frame_tables import FrameTables, Location
from xlashape.hlo.module_proto.order import call_order, roots
from xlashape.hlo.module_proto.structure import LOCAL_ID
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import AsyncStep
from xlashape.hlo.tokens import escape, safe_name, safe_names, without_suffix
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
    print_sources: bool = False
    """Write a comment behind each instruction: its line of the user's program, and the operation there."""
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
    "fingerprint": _CANONICAL._replace(print_only_essentials=True, print_ids=False, canonicalize_computations=True),
}


# -- stack frames ------------------------------------------------------------------------------


def _used_tables(index: xla.StackFrameIndexProto, used: Iterable[int]) -> FrameTables:
    """The tables of a text that has the frames `used` of a module's tables."""
    files, functions = index.file_names[:], index.function_names[:]
    locations = [
        Location(
            files[each.file_name_id - 1],
            functions[each.function_name_id - 1],
            each.line,
            each.end_line,
            each.column,
            each.end_column,
        )
        if 0 < each.file_name_id <= len(files) and 0 < each.function_name_id <= len(functions)
        else None
        for each in index.file_locations
    ]
    tables = FrameTables(locations, [(each.file_location_id, each.parent_frame_id) for each in index.stack_frames])
    for frame in used:
        tables.number(frame)
    return tables


def frame_lines(tables: FrameTables) -> list[str]:
    """The lines of the four tables, each followed by an empty line; none where there are no frames."""
    if not tables.frames:
        return []
    locations = [
        f"{{file_name_id={file} function_name_id={function} line={line} end_line={end} column={column} "
        f"end_column={last}}}"
        for file, function, line, end, column, last in tables.locations
    ]
    frames = [f"{{file_location_id={location} parent_frame_id={parent + 1}}}" for location, parent in tables.frames]
    lines: list[str] = []
    for title, rows in (
        ("FileNames", [f'"{escape(name)}"' for name in tables.files]),
        ("FunctionNames", [f'"{escape(name)}"' for name in tables.functions]),
        ("FileLocations", locations),
        ("StackFrames", frames),
    ):
        lines += [title, *[f"{number} {row}" for number, row in enumerate(rows, 1)], ""]
    return lines


# -- the module --------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, repr=False)
class Pieces:
    """The texts of a kind's line between its parts. LineWriter sets them."""

    head: str = ""
    """The text from ` = ` to the opening parenthesis."""
    inside: str = ""
    """The text between the parentheses of an instruction without operands."""
    before_calls: str = ""
    """The text from the closing parenthesis to the called computations."""
    after_calls: str = ""
    """The attributes after the called computations, if there are some."""
    channel_end: int = 0
    """The index in `before_calls` after the channel, which is 1 there; 0 where there is none."""
    before_control: str = ""
    """The text from there to the control predecessors."""
    after_control: str = ""
    """The text from there to the metadata."""
    attributes: str = ""
    """The text from the closing parenthesis to the metadata, of an instruction without calls and control
    predecessors."""
    backend_config: str = ""
    """The text of the attribute backend_config, which is the last."""


class PrintedModule:
    """A module that is written with one set of options, and everything that its lines share."""

    def __init__(self, module: ModuleData, options: PrintOptions) -> None:
        head = module.head
        self.module = module
        self.entry = module.entry
        self.options = options
        self.channels_0 = frozenset(module.config.channels_0) if options.print_extra_attributes else frozenset[str]()
        """The names of the instructions that are written with channel_id=0."""
        self.payloads: Sequence[bytes] = list(head.payloads)
        self.percent = "%" if options.print_percent else ""
        self.frames = FrameTables()
        if options.print_metadata:
            self.frames = _used_tables(head.stack_frame_index, self._used_frames())
        self.pieces: dict[Kind, Pieces] = {}
        """Kind → the texts that all instructions of the kind are printed with."""
        self.shapes_with_layout = _ShapeTexts(layout=True)
        self.shapes_without_layout = _ShapeTexts(layout=False)
        self.shapes = self.shapes_with_layout if options.include_layout_in_shapes else self.shapes_without_layout
        """Shape → its text, with or without layout as the options say."""
        self.metadata = _MetadataTexts(self)
        """What an instruction says as metadata → `, metadata={…}`; "" if the options leave metadata out."""
        self._names: dict[HloComputation, str] = {}
        self._instruction_names: dict[HloComputation, list[str]] = {}
        self._wrapped: dict[HloComputation, HloInstruction | None] = {}
        self._starts: dict[HloInstruction, HloInstruction | None] = {}

    def _used_frames(self) -> Iterator[int]:
        """The stack frames that instructions name, in the order of the instructions' ids."""
        if not self.module.head.stack_frame_index.stack_frames:
            return
        seen: set[object] = {None}
        for computation in self.module.computations:
            for each in sorted(computation.instructions, key=_local_id):
                metadata = each.said_metadata
                if metadata not in seen:
                    seen.add(metadata)
                    yield metadata.frame if isinstance(metadata, TextMetadata) else frame_of(metadata or b"")

    def shown(self, name: str) -> str:
        """The text of a name."""
        if self.options.print_ids:
            return self.percent + safe_name(name)
        return self.percent + without_suffix(safe_name(name))

    def name(self, computation: HloComputation) -> str:
        """The name of a computation, as the options show it."""
        name = self._names.get(computation)
        if name is None:
            name = self._names[computation] = self.shown(computation.name)
        return name

    def instruction_names(self, computation: HloComputation) -> list[str]:
        """The names of a computation's instructions, as the options show them."""
        names = self._instruction_names.get(computation)
        if names is None:
            safe, percent = safe_names([each.name for each in computation.instructions]), self.percent
            if not self.options.print_ids:
                safe = [without_suffix(name) for name in safe]
            names = self._instruction_names[computation] = [percent + name for name in safe]
        return names

    # -- order -------------------------------------------------------------------------------

    def computation_order(self) -> list[HloComputation]:
        """The computations in XLA's order: called computations before their callers."""
        computations = self.module.computations
        called: list[list[list[int]]] = []
        for computation in computations:
            calling = [each for each in computation.instructions if each.called_computations]
            calling.sort(key=_local_id)
            called.append([[target.index for target in each.called_computations] for each in calling])
        order = call_order(called, roots([list(chain.from_iterable(calls)) for calls in called]))
        if len(order) < len(called):
            order += sorted(set(range(len(called))).difference(order))
        return [computations[index] for index in order]

    # -- asynchronous instructions -----------------------------------------------------------

    def wrapped(self, computation: HloComputation) -> HloInstruction | None:
        """The instruction that a computation wraps: the only one other than its parameters. None if there are
        several."""
        if computation not in self._wrapped:
            root = computation.root
            parameters = sum(each.kind.opcode is Opcode.PARAMETER for each in computation.instructions)
            # A computation of parameters alone wraps its root: XLA writes it as parameter-start.
            is_alone = len(computation.instructions) - parameters == (root.opcode is not Opcode.PARAMETER)
            self._wrapped[computation] = root if is_alone else None
        return self._wrapped[computation]

    def hidden(self) -> frozenset[HloComputation]:
        """The computations that have no text of their own, because the asynchronous instructions that call them are
        written as the instruction that they wrap."""
        called = {
            target
            for instruction in self.module.instructions()
            if instruction.called_computations and instruction.kind.row.async_step is not None
            for target in instruction.called_computations
        }
        return frozenset(computation for computation in called if self.wrapped(computation) is not None)

    def async_computation(self, instruction: HloInstruction) -> HloComputation | None:
        """The computation that an asynchronous instruction runs: the one that it or its start calls. None if there is
        none."""
        if instruction.called_computations:
            return instruction.called_computations[0]
        if instruction.kind.row.async_step in (None, AsyncStep.START) or not instruction.operands:
            return None
        start = async_start(instruction.operands[0], self._starts)
        # Instructions are written after their operands, so the answer for a later step is often known.
        self._starts[instruction] = start
        return start.called_computations[0] if start is not None and start.called_computations else None


def _local_id(instruction: HloInstruction) -> int:
    return instruction.id & LOCAL_ID


def frame_of(metadata: bytes) -> int:
    """The number of the stack frame in a serialized OpMetadata."""
    return parse(xla.OpMetadata, metadata).stack_frame_id


class _ShapeTexts(dict[Shape, str]):
    """Shape → its text."""

    def __init__(self, *, layout: bool) -> None:
        super().__init__()
        self._layout = layout

    def __missing__(self, shape: Shape) -> str:
        text = self[shape] = str(shape) if self._layout else shape_text(shape, layout=False)
        return text


class _MetadataTexts(dict[object, str]):
    """What an instruction says as metadata → its text in a line."""

    def __init__(self, printed: PrintedModule) -> None:
        super().__init__({None: "", b"": ""})
        self._printed = printed

    def __missing__(self, metadata: bytes | TextMetadata) -> str:
        printed = self._printed
        if not printed.options.print_metadata:
            text = ""
        elif isinstance(metadata, TextMetadata):
            text, frame = metadata.text, metadata.frame and printed.frames.number(metadata.frame)
            if frame:
                text = f"{text} stack_frame_id={frame}".lstrip()
        else:
            message = parse(xla.OpMetadata, metadata)
            text = metadata_text(message, printed.frames.number(message.stack_frame_id), printed.payloads)
        text = self[metadata] = f", metadata={{{text}}}" if text else ""
        return text
