"""HloModule, HloComputation and HloInstruction: views of an HloModuleProto. They match XLA's classes of the same names.

A module is held as serialized bytes until a caller reads the property `proto` of the module or of a part. The whole
module is then decoded, and is held as an HloModuleProto from then on (`xlashape.hlo.module_proto.compact`). Reading
loses nothing: `HloModule.from_proto(data).to_proto()` keeps every field, known or not.

Views decode lazily and keep what they decoded. So a script that changes `module.proto` makes a new view afterwards:
`module = HloModule.from_proto(module.proto)`, which also checks the ids that the script wrote.

Code of the library that only reads uses three properties, which do not decode the whole module. `fields` has the few
fields that are always decoded, `details` all fields of one instruction, and `head` the fields of a module other than
its computations.

The three classes are in one file because they refer to each other: a module has computations, a computation has
instructions, and an instruction knows its computation and the computations that it calls.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from google.protobuf.message import Message

from xlashape.display import Displayed
from xlashape.errors import InvalidArgumentError, InvalidModuleError, NotFoundError, ParseError, XlashapeError, is_a
from xlashape.hlo.files.detect_format import holds_hlo_proto
from xlashape.hlo.files.dumps import content_of_module
from xlashape.hlo.module_proto.compact import ComputationFields, Held, InstructionFields
from xlashape.hlo.module_proto.module_config import UNSAID, ModuleConfig
from xlashape.hlo.module_proto.schema_compat import decode
from xlashape.hlo.module_proto.structure import LOCAL_ID, check_module, needs_small_ids, with_small_ids
from xlashape.hlo.ops.opcode import Opcode, UnknownOpcode, opcode_of
from xlashape.proto import coerce, parse, xla
from xlashape.shape import Shape, ShapeIndex
from xlashape.similar import did_you_mean
from xlashape.tables import Table, Tabular
from xlashape.text import Source

if TYPE_CHECKING:
    from xlashape.hlo.canonical import Canonical, Counted
    from xlashape.hlo.files.convert import Document
    from xlashape.hlo.module_proto.stack_frames import Metadata, ModuleFrames
    from xlashape.hlo.ops.instruction_attributes import Attributes
    from xlashape.hlo.text.writer.printed_module import PrintedModule, PrintOptions
    from xlashape.hlo.values.replica_groups import ReplicaGroups
    from xlashape.hlo.values.sharding import Sharding


_HEAD = 4096
"""How many characters of a text that is not HLO are examined to find out what it is."""

_DETAILS = 256
"""The number of instructions of a module whose `details` are kept. Reports ask for the same ones many times."""

# Instructions are compared by identity, so two threads that ask for them first must get the same objects. The same is
# true of the message of a module.
_MAKING_VIEWS = threading.Lock()


class HloModule(Displayed, Tabular):
    """A program. Make it with `of`, `load`, `from_bytes`, `from_proto` or `parse`.

    >>> from xlashape.proto import xla
    >>> parameter = xla.HloInstructionProto(
    ...     name="p", opcode="parameter", shape=xla.ShapeProto(element_type=xla.F32, dimensions=[4])
    ... )
    >>> main = xla.HloComputationProto(name="main", instructions=[parameter])
    >>> module = HloModule.from_proto(xla.HloModuleProto(name="m", computations=[main]))
    >>> module.entry.root, str(module.instruction("p").shape)
    (<HloInstruction 'p': parameter>, 'f32[4]')
    """

    # The slots that begin with `_` keep decoded parts, for as long as the view lives.
    __slots__ = (
        "__weakref__",
        "_computation_by_name",
        "_computations",
        "_details",
        "_index_by_local_id",
        "_instruction_by_name",
        "_last_canonical",
        "_last_printed",
        "_shapes",
        "_stack_frames",
        "config",
        "held",
        "taken_over",
    )

    held: Held
    """How the module is held: as bytes with compact messages, or as the message of the schema."""
    config: ModuleConfig
    """The part of the module's text that the proto has no field for; `UNSAID`, the defaults, for a module made from a
    proto."""

    def __init__(
        self,
        proto: xla.HloModuleProto | Held,
        *,
        hlo_proto: xla.HloProto | None = None,
        config: ModuleConfig | None = None,
    ) -> None:
        self.held = proto if isinstance(proto, Held) else Held.of_message(proto, hlo_proto)
        self.config = UNSAID if config is None else config
        fields = self.held.fields
        if self.held.is_consistent:
            self._index_by_local_id = {each.id & LOCAL_ID: index for index, each in enumerate(fields.computations)}
        else:
            self._index_by_local_id = check_module(fields)
            self.held.is_consistent = self.held.is_compact
        self._computations = tuple(
            [HloComputation(self, index, computation) for index, computation in enumerate(fields.computations)]
        )
        self._details: dict[HloInstruction, xla.HloInstructionProto] = {}
        self._computation_by_name: dict[str, HloComputation] | None = None
        self._instruction_by_name: dict[str, HloInstruction | None] | None = None
        self._last_printed: PrintedModule | None = None
        self._last_canonical: Canonical | None = None
        self._shapes: dict[bytes, Shape] = {}
        self._stack_frames: ModuleFrames | None = None
        # The result of `xlashape.hlo.analysis.buffers.taken_over`, which keeps it here.
        self.taken_over: dict[tuple[HloInstruction, ShapeIndex], Any] | None = None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> HloModule:
        """The module in a file: HLO text, HloModuleProto or HloProto as bytes (XLA's `.hlo.pb`), protobuf text or JSON,
        each with or without gzip. The content decides which format it is, not the file's name.

        Raises NotFoundError if there is no such file, and ParseError, DecodeError or InvalidModuleError for a mistake
        in its content.
        """
        from xlashape.hlo.files.convert import read_file  # start-up time: 5 ms, and the text writer's 30 ms

        try:
            if not os.fspath(path):
                raise InvalidArgumentError(
                    "the path is empty: pass the name of a file, or text to HloModule.parse", field="path"
                )
            path = Path(path)
        except TypeError:
            raise InvalidArgumentError(f"path takes text or a path, not {type(path).__name__}", field="path") from None
        return cls.of_document(read_file(path))

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview, *, name: str | None = None) -> HloModule:
        """The module in the content of a file, of any kind that `load` reads. Error messages about text name the file
        `name`."""
        from xlashape.hlo.files.convert import decode  # start-up time: 5 ms, and the text writer's 30 ms

        if not is_a(data, (bytes, bytearray, memoryview)):
            raise InvalidArgumentError(f"data takes bytes, not {type(data).__name__}", field="data")
        return cls.of_document(decode(bytes(data), name))

    @classmethod
    def of_document(cls, document: Document) -> HloModule:
        """The module of a file that `xlashape.hlo.files.convert` has read."""
        return cls(document.held, config=document.config)

    @classmethod
    def of(cls, value: Any, *args: Any, **kwargs: Any) -> HloModule:
        """The module in any object that holds one: `jax.stages.Lowered` and `Compiled`, HloModule and XlaComputation of
        jaxlib, a list of one of these, a message, bytes, text, a path, an open file. `xlashape.hlo.files.module_of`
        lists them all.

        A list must have one member; `all_of` takes several, and a Compiled with several modules.
        A Compiled gives the module after XLA's optimizations, a Lowered the module before them. For a jitted function,
        `args` and `kwargs` are the arguments that it is lowered with. Text with a line end, a brace or `=` is HLO text
        unless it names a file; other text is a path. Raises InvalidArgumentError for an object without HLO, such as
        StableHLO, and says what to pass instead. Also raises what `load` and `parse` raise.

        >>> HloModule.of("HloModule m ENTRY e { ROOT p = f32[4] parameter(0) }").entry.root
        <HloInstruction 'p': parameter>
        """
        if isinstance(value, HloModule) and not args and not kwargs:
            return value
        if isinstance(value, Message) and not args and not kwargs:
            return cls.from_proto(value)
        if isinstance(value, (HloComputation, HloInstruction)):
            computation = value if isinstance(value, HloComputation) else value.computation
            raise InvalidArgumentError(
                f"{value!r} is a part of module {computation.module.name!r}: pass its module", field="value"
            )
        if (
            isinstance(value, (list, tuple))
            and len(cast("list[Any]", value)) == 1
            and isinstance(value[0], (HloModule, Message))
        ):
            return cls.of(value[0], *args, **kwargs)
        from xlashape.hlo.files.module_of import document_of  # start-up time: it loads the formats of files

        return cls.of_document(document_of(value, args, kwargs))

    @classmethod
    def all_of(cls, value: Any, *args: Any, **kwargs: Any) -> tuple[HloModule, ...]:
        """Every module in an object that may hold several: a list, a Compiled with several modules, a profile, a dump
        directory. Anything else that `of` takes gives one module. Raises as `of` does.

        >>> text = "HloModule m ENTRY e { ROOT p = f32[4] parameter(0) }"
        >>> [module.name for module in HloModule.all_of([text, HloModule.parse(text)])]
        ['m', 'm']
        """
        if isinstance(value, (list, tuple)) and not args and not kwargs:
            return tuple([module for each in cast("list[Any]", value) for module in cls.all_of(each)])
        if isinstance(value, (HloModule, Message, HloComputation, HloInstruction)):
            return (cls.of(value, *args, **kwargs),)
        from xlashape.hlo.files.module_of import documents_of  # start-up time: it loads the formats of files

        return tuple([cls.of_document(document) for document in documents_of(value, args, kwargs)])

    @classmethod
    def from_proto(cls, value: bytes | bytearray | memoryview | Message) -> HloModule:
        """The module in an HloModuleProto or an HloProto, given as bytes or as a message. The message may be of this
        package's classes or of another's, such as TensorFlow's.

        A message of this package is viewed, not copied. If bytes have one shape or attribute in several pieces, which
        no library of protobuf writes, the last piece counts. Raises DecodeError for bytes that are neither message,
        InvalidModuleError for a module whose ids, operands, calls, root or entry are inconsistent. A mistake within an
        attribute raises an error only when that attribute is read.
        """
        if not isinstance(value, Message):
            value = bytes(value) if isinstance(value, (bytearray, memoryview)) else value
            if is_a(value, bytes):
                return cls(Held.of_bytes(value, is_program=holds_hlo_proto(value)))
        elif value.DESCRIPTOR.full_name == "xla.HloProto":
            hlo_proto = coerce(xla.HloProto, value)
            return cls(hlo_proto.hlo_module, hlo_proto=hlo_proto)
        return cls(coerce(xla.HloModuleProto, value))  # `coerce` raises for a value of another type

    @classmethod
    def parse(cls, text: str | Source, *, elided_values: bool = True) -> HloModule:
        """The module that HLO text describes, as XLA's own parser understands it. Raises ParseError with line and
        column, and DecodeError for text of another known language, such as StableHLO.

        XLA fills elided constants, `constant({...})`, with made-up values, as many as their shape has elements. Without
        `elided_values` such constants have no values and take no memory.
        """
        from xlashape.hlo.text.reader.module import parse_text  # start-up time: 30 ms

        try:
            data, config = parse_text(text, elided_values=elided_values)
        except ParseError:
            if isinstance(text, str):
                content_of_module(text[:_HEAD].encode("utf-8", "replace"))
            raise
        return cls(Held.of_bytes(data, is_consistent=True), config=config)

    @property
    def proto(self) -> xla.HloModuleProto:
        """The message of the schema itself, not a copy. The first read of `proto`, of the module or of a part, decodes
        the whole module, which takes 1.4 kB an instruction. Raises DecodeError where bytes are broken."""
        if self.held.is_compact:
            self._become_message()
        return self.held.message

    @property
    def hlo_proto(self) -> xla.HloProto | None:
        """The HloProto that held the module, with its buffer assignment; None if the module came without one."""
        if self.held.is_compact:
            self._become_message()
        return self.held.program

    def _become_message(self) -> None:
        with _MAKING_VIEWS:
            if self.held.is_compact:
                decoded = self.held.decoded()
                for computation, message in zip(self._computations, decoded.message.computations, strict=True):
                    computation.become(message)
                self.held = decoded
                self._details.clear()

    @property
    def head(self) -> xla.HloModuleProto:
        """The fields of the module other than its computations. To be read only: changes may be lost."""
        return self.held.head

    def details_of(self, instruction: HloInstruction) -> xla.HloInstructionProto:
        """`details` of an instruction of this module."""
        found = self._details.get(instruction)
        if found is None:
            fields: Any = instruction.fields
            if isinstance(fields, xla.HloInstructionProto):
                return fields
            found = decode(xla.HloInstructionProto, fields.SerializePartialToString())[0]
            if len(self._details) >= _DETAILS:
                self._details.clear()
            self._details[instruction] = found
        return found

    def to_proto(self, *, for_version: str | None = None) -> xla.HloModuleProto:
        """A copy of `proto`. With `for_version`, such as "0.4.35", it is one that this version of jaxlib loads.

        jaxlib 0.4.30 and 0.4.35 refuse ids beyond 32 bits, which a module made from text has if it has several
        computations. For versions before 0.10 instructions and computations are numbered anew, from 1. All versions
        load such ids.
        """
        held = self.held
        if for_version is not None and needs_small_ids(for_version):
            renumbered = with_small_ids(held.message)
            assert isinstance(renumbered, xla.HloModuleProto)
            return renumbered
        if held.is_compact:
            return held.message
        copy = xla.HloModuleProto()
        copy.CopyFrom(held.message)
        return copy

    def to_bytes(self) -> bytes:
        """The module serialized: as the HloProto that held it if there was one, else as an HloModuleProto.

        If the module was read from bytes and not changed, the result also has the fields that today's schema lacks.
        """
        return self.held.to_bytes()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.to_bytes(), self.held.is_program, self.config)

    def to_text(self, style: str | PrintOptions = "default", **options: Any) -> str:
        """The module as XLA prints it. `xlashape.hlo.text.writer.module.module_text` describes style and options."""
        from xlashape.hlo.text.writer.module import module_text  # start-up time: 30 ms

        return module_text(self, style, **options)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        lossy: bool = False,
        for_version: str | None = None,
        style: str | PrintOptions = "default",
        **options: Any,
    ) -> None:
        """Writes the module to a file in the format of its suffix: .hlo and .txt (HLO text), .pb, .hlo.pb, .pbtxt or
        .json, each also with .gz. `load` reads all of them. The file is replaced as a whole: where writing fails, the
        old one stays.

        For HLO text, `style` and `options` are as for `to_text`, and large constants are written in full unless
        `print_large_constants=False` is passed. `for_version` is as for `to_proto`. Raises LossyConversionError, unless
        `lossy`, if the format cannot hold all of the module; InvalidArgumentError for another suffix, or if the file
        cannot be written.

        >>> import tempfile
        >>> module = HloModule.parse("HloModule m ENTRY e { ROOT p = f32[4] parameter(0) }")
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     module.save(f"{directory}/m.hlo.pb.gz")
        ...     print(HloModule.load(f"{directory}/m.hlo.pb.gz"))
        <HloModule 'm': 1 computations>
        """
        from xlashape.hlo.files.convert import Document, FileKind, Format, write  # start-up time: 5 ms

        document = Document(self.held, Format(FileKind.PB), self.config)
        write(document, path, lossy=lossy, for_version=for_version, style=style, **options)

    def printed(self, style: str | PrintOptions, options: dict[str, Any]) -> PrintedModule:
        """The names, order and other texts that the text of each part of the module needs. Kept for the options that
        were asked for last."""
        from xlashape.hlo.text.writer.module import printed_module  # start-up time: 30 ms
        from xlashape.hlo.text.writer.printed_module import PrintOptions

        wanted = PrintOptions.of(style, **options)
        printed = self._last_printed
        if printed is None or printed.options != wanted:
            printed = self._last_printed = printed_module(self, wanted)
        return printed

    def fingerprint(self, **counted: bool) -> str:
        """A hash of the program, the same on all machines and in all releases: `1:` and 32 hexadecimal digits. Names,
        ids and the order in which instructions are written do not change it.

        `counted` says which parts of the module the hash covers. The defaults are `layouts=True`, `sharding=True`,
        `schedule=False` and `constants=True` (the values of large constants). `xlashape.hlo.canonical` lists what else
        counts and what does not.

        >>> one, two = (
        ...     "ENTRY e { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }",
        ...     "ENTRY f { x = f32[4] parameter(0) ROOT %y = f32[4] negate(%x) }",
        ... )
        >>> HloModule.parse(f"HloModule m {one}").fingerprint() == HloModule.parse(f"HloModule n {two}").fingerprint()
        True
        """
        return self.canonical(counted).fingerprint()

    def canonical(self, counted: Mapping[str, bool] | Counted = MappingProxyType({})) -> Canonical:
        """The canonical form of the module, which fingerprints are hashes of. Kept for the `counted` that was asked for
        last."""
        from xlashape.hlo.canonical import Canonical, Counted  # start-up time: it loads the codecs of attributes

        wanted = Counted.of(counted)
        canonical = self._last_canonical
        if canonical is None or canonical.counted != wanted:
            canonical = self._last_canonical = Canonical(self.held, wanted)
        return canonical

    @property
    def name(self) -> str:
        """The module's name."""
        return self.held.fields.name

    @property
    def computations(self) -> tuple[HloComputation, ...]:
        """The computations in the order of the proto. XLA writes called computations before their callers."""
        return self._computations

    @property
    def entry(self) -> HloComputation:
        """The computation where execution starts."""
        return self._computations[self._index_by_local_id[self.held.fields.entry_computation_id & LOCAL_ID]]

    def computation(self, name: str) -> HloComputation:
        """The computation called `name`, which may begin with `%`. If two have that name, the first. Raises
        NotFoundError."""
        by_name = self._computation_by_name
        if by_name is None:
            by_name = self._computation_by_name = {
                computation.name: computation for computation in reversed(self._computations)
            }
        computation = by_name.get(_without_percent(name))
        if computation is None:
            hint = did_you_mean(_without_percent(name), by_name)
            message = f"module {self.name!r} has no computation {name!r}{hint}"
            raise NotFoundError(message, kind="computation", name=name, field="computation")
        return computation

    def instructions(self) -> Iterator[HloInstruction]:
        """Every instruction, computation by computation."""
        for computation in self._computations:
            yield from computation.instructions

    def instruction(self, name: str) -> HloInstruction:
        """The instruction called `name`, which may begin with `%`, in whichever computation it is.

        XLA keeps names unique in a module. Where a name is not unique, the entry computation's instruction is returned.
        A name that several computations other than the entry have raises InvalidArgumentError: ask one of those
        computations instead. Raises NotFoundError if no instruction has the name.
        """
        by_name = self._instruction_by_name
        if by_name is None:
            by_name = {}
            for computation in self._computations:
                for instruction in computation.instructions:
                    # None marks a name that occurs more than once.
                    by_name[instruction.name] = instruction if instruction.name not in by_name else None
            by_name.update((instruction.name, instruction) for instruction in reversed(self.entry.instructions))
            self._instruction_by_name = by_name
        key = _without_percent(name)
        instruction = by_name.get(key)
        if instruction is None:
            if key in by_name:
                raise InvalidArgumentError(
                    f"module {self.name!r} has several instructions {name!r}; ask the computation for its own",
                    field="instruction",
                )
            hint = did_you_mean(key, by_name)
            message = f"module {self.name!r} has no instruction {name!r}{hint}"
            raise NotFoundError(message, kind="instruction", name=name, field="instruction")
        return instruction

    def table(self) -> Table:
        """A row for each instruction: `xlashape.hlo.module_proto.structure` lists the columns.

        >>> module = HloModule.parse("HloModule m ENTRY e { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }")
        >>> module.table()["opcode"], module.table()["bytes"]
        (['parameter', 'negate'], [16, 16])
        """
        # start-up time: few programs make tables
        from xlashape.hlo.module_proto.structure import instruction_table

        return instruction_table(self.held, None, self.shape_of)

    def resolve(self, ids: Iterable[int]) -> tuple[HloComputation, ...]:
        """The computations with these ids, in the order of `ids`. Raises InvalidModuleError for an id that no
        computation has."""
        try:
            return tuple([self._computations[self._index_by_local_id[number & LOCAL_ID]] for number in ids])
        except KeyError:
            raise InvalidModuleError(
                f"module {self.name!r} was changed: a computation's id is gone; make a new view"
            ) from None

    @property
    def stack_frames(self) -> ModuleFrames:
        """The module's table of stack frames: the lines of the program that instructions refer to by number.
        `HloInstruction.metadata` shows them."""
        frames = self._stack_frames
        if frames is None:
            # start-up time: few programs ask
            from xlashape.hlo.module_proto.stack_frames import ModuleFrames

            frames = self._stack_frames = ModuleFrames(self.head.stack_frame_index)
        return frames

    def shape_of(self, proto: xla.ShapeProto | bytes) -> Shape:
        """The Shape of a ShapeProto, or of its bytes. Equal protos give the same object."""
        data = proto if isinstance(proto, bytes) else proto.SerializeToString()
        shape = self._shapes.get(data)
        if shape is None:
            shape = self._shapes[data] = Shape.from_proto(proto)
        return shape

    def __repr__(self) -> str:
        return f"<HloModule {self.name!r}: {len(self._computations)} computations>"


def _computation_of(module: HloModule, index: int) -> HloComputation:
    return module.computations[index]


def _instruction_of(computation: HloComputation, index: int) -> HloInstruction:
    return computation.instructions[index]


def _restore(data: bytes, is_program: bool, config: ModuleConfig) -> HloModule:
    """A module that was pickled."""
    return HloModule(Held.of_bytes(data, is_program=is_program), config=config)


class HloComputation(Displayed, Tabular):
    """A named list of instructions with a root: a view of an HloComputationProto, `proto`.

    The views of the instructions are made on first use, all at once, and kept.
    """

    __slots__ = (
        "_instruction_by_local_id",
        "_instruction_by_name",
        "_instructions",
        "_name",
        "_parameters",
        "_users",
        "fields",
        "index",
        "module",
    )

    module: HloModule
    """The module that the computation belongs to."""
    index: int
    """The index of the computation in `module.computations`."""
    fields: ComputationFields
    """The fields of `proto` that are always decoded. To be read only."""

    def __init__(self, module: HloModule, index: int, fields: ComputationFields) -> None:
        self.module = module
        self.index = index
        self.fields = fields
        self._name: str | None = None
        self._instructions: tuple[HloInstruction, ...] | None = None
        self._instruction_by_local_id: dict[int, HloInstruction] | None = None
        self._instruction_by_name: dict[str, HloInstruction] | None = None
        self._parameters: tuple[HloInstruction, ...] | None = None
        self._users: list[tuple[HloInstruction, ...]] | None = None

    @property
    def name(self) -> str:
        """The name of the computation, without `%`."""
        name = self._name
        if name is None:
            name = self._name = self.fields.name
        return name

    @property
    def id(self) -> int:
        """The id of the computation in the proto."""
        return self.fields.id

    @property
    def instructions(self) -> tuple[HloInstruction, ...]:
        """The instructions in the order of the proto. XLA writes operands before their users."""
        instructions = self._instructions
        if instructions is None:
            with _MAKING_VIEWS:
                instructions = self._instructions
                if instructions is None:
                    instructions = self._instructions = tuple(
                        [HloInstruction(self, index, fields) for index, fields in enumerate(self.fields.instructions)]
                    )
        return instructions

    @property
    def root(self) -> HloInstruction:
        """The instruction whose result is the result of the computation."""
        return self._by_local_id()[self.fields.root_id & LOCAL_ID]

    @property
    def parameters(self) -> tuple[HloInstruction, ...]:
        """The parameters in the order of their numbers. Raises InvalidModuleError if a number is missing or occurs
        twice."""
        parameters = self._parameters
        if parameters is None:
            by_number = [
                instruction for instruction in self.instructions if instruction.fields.opcode == Opcode.PARAMETER
            ]
            by_number.sort(key=lambda parameter: parameter.fields.parameter_number)
            for expected, parameter in enumerate(by_number):
                number = parameter.fields.parameter_number
                if number != expected:
                    raise InvalidModuleError(
                        f"computation {self.name!r}: instruction {parameter.name!r} is parameter {number} "
                        f"where parameter {expected} was expected"
                    )
            parameters = self._parameters = tuple(by_number)
        return parameters

    @property
    def execution_thread(self) -> str:
        """The name of the thread that runs the computation; empty for the main thread, which XLA's text leaves out."""
        return self.fields.execution_thread

    def instruction(self, name: str) -> HloInstruction:
        """The instruction called `name`, which may begin with `%`. If two have that name, the first. Raises
        NotFoundError."""
        by_name = self._instruction_by_name
        if by_name is None:
            by_name = self._instruction_by_name = {
                instruction.name: instruction for instruction in reversed(self.instructions)
            }
        instruction = by_name.get(_without_percent(name))
        if instruction is None:
            hint = did_you_mean(_without_percent(name), by_name)
            message = f"computation {self.name!r} has no instruction {name!r}{hint}"
            raise NotFoundError(message, kind="instruction", name=name, field="instruction")
        return instruction

    def resolve(self, ids: Iterable[int]) -> tuple[HloInstruction, ...]:
        """The instructions with these ids, in the order of `ids`. Raises InvalidModuleError for an id that no
        instruction has."""
        by_local_id = self._instruction_by_local_id or self._by_local_id()
        try:
            return tuple([by_local_id[number & LOCAL_ID] for number in ids])
        except KeyError:
            raise InvalidModuleError(
                f"computation {self.name!r} was changed: an id is gone; make a new module view"
            ) from None

    def users_of(self, instruction: HloInstruction) -> tuple[HloInstruction, ...]:
        """The instructions that have `instruction` as an operand, each once. The first call finds the users of all
        instructions."""
        users = self._users
        if users is None:
            users_by_index: list[list[HloInstruction]] = [[] for _ in self.instructions]
            for user in self.instructions:
                operands = user.operands
                for operand in operands if len(operands) < 2 else dict.fromkeys(operands):
                    users_by_index[operand.index].append(user)
            users = self._users = list(map(tuple, users_by_index))
        return users[instruction.index]

    def fingerprint(self, **counted: bool) -> str:
        """A hash of the computation and of all computations that it calls. `HloModule.fingerprint` describes the hash
        and `counted`."""
        return self.module.canonical(counted).computation_fingerprint(self.index)

    def to_text(self, style: str | PrintOptions = "default", **options: Any) -> str:
        """The text of the computation, from ENTRY or the name to the closing brace, as `HloModule.to_text` writes it.

        >>> print(
        ...     HloModule.parse("HloModule m ENTRY e { ROOT p = f32[4] parameter(0) }").entry.to_text(
        ...         print_percent=False
        ...     )
        ... )
        ENTRY e (p: f32[4]) -> f32[4] {
          ROOT p = f32[4]{0} parameter(0)
        }
        """
        from xlashape.hlo.text.writer.module import computation_text  # start-up time: 30 ms

        return computation_text(self.module.head, self.module.printed(style, options), self.index)

    def table(self) -> Table:
        """A row for each instruction of the computation, with the columns of `HloModule.table`."""
        # start-up time: few programs make tables
        from xlashape.hlo.module_proto.structure import instruction_table

        return instruction_table(self.module.held, [self.fields], self.module.shape_of)

    @property
    def proto(self) -> xla.HloComputationProto:
        """The message of the schema itself, not a copy. The first read decodes the whole module, as `HloModule.proto`
        does."""
        if not isinstance(self.fields, xla.HloComputationProto):
            _ = self.module.proto
        return cast("xla.HloComputationProto", self.fields)

    def become(self, message: xla.HloComputationProto) -> None:
        """Makes `message`, which has the same instructions, the message that the views read from now on."""
        self.fields = message
        for instruction, fields in zip(self._instructions or (), message.instructions, strict=False):
            instruction.fields = fields

    def __reduce__(self) -> tuple[Any, ...]:
        return _computation_of, (self.module, self.index)

    def _by_local_id(self) -> dict[int, HloInstruction]:
        by_local_id = self._instruction_by_local_id
        if by_local_id is None:
            by_local_id = self._instruction_by_local_id = {
                instruction.fields.id & LOCAL_ID: instruction for instruction in self.instructions
            }
        return by_local_id

    def __repr__(self) -> str:
        return f"<HloComputation {self.name!r}: {len(self.fields.instructions)} instructions>"


class HloInstruction(Displayed):
    """One instruction of a computation: a view of an HloInstructionProto, `proto`. Properties decode it on first use
    and keep the result.

    A computation makes one view of each of its instructions: compare them with `is`. Attributes are typed values:
    `instruction.attributes.window`. Every other field is in `proto`.
    """

    __slots__ = (
        "_called",
        "_control_predecessors",
        "_name",
        "_opcode",
        "_operands",
        "_shape",
        "_users",
        "computation",
        "fields",
        "index",
    )

    computation: HloComputation
    """The computation that the instruction belongs to."""
    index: int
    """The index of the instruction in `computation.instructions`."""
    fields: InstructionFields
    """The fields of `proto` that are always decoded. To be read only."""

    def __init__(self, computation: HloComputation, index: int, fields: InstructionFields) -> None:
        self.computation = computation
        self.index = index
        self.fields = fields
        self._name: str | None = None
        self._opcode: Opcode | UnknownOpcode | None = None
        self._shape: Shape | None = None
        self._operands: tuple[HloInstruction, ...] | None = None
        self._users: tuple[HloInstruction, ...] | None = None
        self._called: tuple[HloComputation, ...] | None = None
        self._control_predecessors: tuple[HloInstruction, ...] | None = None

    @property
    def proto(self) -> xla.HloInstructionProto:
        """The message of the schema itself, not a copy. The first read decodes the whole module, as `HloModule.proto`
        does."""
        if not isinstance(self.fields, xla.HloInstructionProto):
            _ = self.computation.module.proto
        return cast("xla.HloInstructionProto", self.fields)

    @property
    def details(self) -> xla.HloInstructionProto:
        """All fields of `proto`, decoded for this instruction. To be read only: changes may be lost."""
        return self.computation.module.details_of(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _instruction_of, (self.computation, self.index)

    @property
    def name(self) -> str:
        """The name of the instruction, without `%`."""
        name = self._name
        if name is None:
            name = self._name = self.fields.name
        return name

    @property
    def id(self) -> int:
        """The id of the instruction in the proto: in newer modules (computation id << 32) | number."""
        return self.fields.id

    @property
    def opcode(self) -> Opcode | UnknownOpcode:
        """The operation of the instruction. For an opcode that this library does not know, an UnknownOpcode with the
        name that the proto has."""
        opcode = self._opcode
        if opcode is None:
            opcode = self._opcode = opcode_of(self.fields.opcode)
        return opcode

    @property
    def shape(self) -> Shape:
        """The shape of the result. Instructions of equal shapes share one object. Raises InvalidModuleError for an
        invalid shape."""
        shape = self._shape
        if shape is None:
            try:
                shape = self._shape = self.computation.module.shape_of(self.fields.shape)
            except XlashapeError as error:
                raise self._error(f"has an invalid shape: {error}") from error
        return shape

    @property
    def operands(self) -> tuple[HloInstruction, ...]:
        """The instructions whose results this instruction takes, in order. One that it takes twice occurs twice."""
        operands = self._operands
        if operands is None:
            ids = self.fields.operand_ids[:]  # a list is iterated over in half the time of a repeated field
            operands = self._operands = self.computation.resolve(ids) if ids else ()
        return operands

    @property
    def users(self) -> tuple[HloInstruction, ...]:
        """The instructions that take the result of this instruction, each once, in the order of the computation."""
        users = self._users
        if users is None:
            users = self._users = self.computation.users_of(self)
        return users

    @property
    def control_predecessors(self) -> tuple[HloInstruction, ...]:
        """The instructions that must have run before this instruction, in addition to its operands."""
        predecessors = self._control_predecessors
        if predecessors is None:
            predecessors = self.computation.resolve(self.fields.control_predecessor_ids)
            self._control_predecessors = predecessors
        return predecessors

    @property
    def called_computations(self) -> tuple[HloComputation, ...]:
        """The computations that the instruction calls, in the proto's order: the body of a while before its condition,
        the branches of a conditional."""
        called = self._called
        if called is None:
            called = self._called = self.computation.module.resolve(self.fields.called_computation_ids)
        return called

    @property
    def metadata(self) -> Metadata:
        """The operation and the lines of the user's program that the instruction comes from: `op_name`, `op_type`,
        `source`, `frames`.

        >>> text = '''HloModule m ENTRY e { ROOT p = f32[4] parameter(0),
        ... metadata={op_name="jit(f)/x" source_file="/src/train.py" source_line=73} }'''
        >>> metadata = HloModule.parse(text).entry.root.metadata
        >>> metadata.op_name, metadata.source, metadata.source_file
        ('jit(f)/x', 'train.py:73', '/src/train.py')
        """
        from xlashape.hlo.module_proto.stack_frames import Metadata  # start-up time: few programs ask

        return Metadata.of_proto(self.op_metadata, self.computation.module.stack_frames)

    @property
    def has_metadata(self) -> bool:
        """Whether the instruction has metadata, which says where in the user's program it comes from."""
        fields: Any = self.fields
        return fields.HasField("metadata")

    @property
    def op_metadata(self) -> xla.OpMetadata:
        """The metadata of the instruction as a message. To be read only."""
        metadata = self.fields.metadata
        return parse(xla.OpMetadata, metadata) if isinstance(metadata, bytes) else metadata

    @property
    def attributes(self) -> Attributes:
        """The attributes as typed values, by their names in HLO text: `attributes.window`, `attributes.dimensions`.

        >>> text = "HloModule m ENTRY e { p = f32[4,2] parameter(0) ROOT t = f32[2,4] transpose(p), dimensions={1,0} }"
        >>> attributes = HloModule.parse(text).entry.root.attributes
        >>> attributes.dimensions, dict(attributes)
        ((1, 0), {'dimensions': (1, 0)})
        """
        # start-up time: it loads the codecs of attributes
        from xlashape.hlo.ops.instruction_attributes import Attributes

        return Attributes(self, self.computation.module.head.payloads)

    @property
    def sharding(self) -> Sharding | None:
        """How the result is distributed over devices; None for an instruction without a sharding."""
        details = self.details
        if not details.HasField("sharding"):
            return None
        from xlashape.hlo.values.sharding import Sharding  # start-up time: it loads the codecs of attributes

        return Sharding.from_proto(details.sharding)

    @property
    def replica_groups(self) -> ReplicaGroups:
        """The groups in which a collective exchanges data. Empty for a collective without groups and for any other
        instruction."""
        # start-up time: it loads the codecs of attributes
        from xlashape.hlo.values.replica_groups import ReplicaGroups

        return ReplicaGroups.from_instruction(self.details)

    @property
    def output_operand_aliasing(self) -> Sequence[xla.OutputOperandAliasing]:
        """Which parts of the result share memory with which parts of operands: the attribute
        `output_to_operand_aliasing`. To be read only."""
        return self.details.output_operand_aliasing if self.fields.output_operand_aliasing else ()

    @property
    def parameter_number(self) -> int:
        """Which parameter of the computation this parameter is, from 0. Raises InvalidArgumentError for an instruction
        that is not a parameter."""
        if self.fields.opcode != Opcode.PARAMETER:
            raise InvalidArgumentError(f"instruction {self.name!r} is not a parameter but {self.fields.opcode!r}")
        return self.fields.parameter_number

    @property
    def is_root(self) -> bool:
        """Whether the result of this instruction is the result of its computation."""
        return self.computation.root is self

    def to_text(self, style: str | PrintOptions = "default", **options: Any) -> str:
        """The line of the instruction as `HloModule.to_text` writes it, without indentation and `ROOT`.

        >>> HloModule.parse("HloModule m ENTRY e { ROOT p = f32[4] parameter(0) }").entry.root.to_text()
        '%p = f32[4]{0} parameter(0)'
        """
        from xlashape.hlo.text.writer.module import instruction_text  # start-up time: 30 ms

        module = self.computation.module
        printed = module.printed(style, options)
        return instruction_text(module.head, printed, self.computation.index, self.index)

    def _error(self, what: str) -> InvalidModuleError:
        source = self.metadata.source
        origin = f" ({source})" if source else ""
        return InvalidModuleError(f"computation {self.computation.name!r}: instruction {self.name!r}{origin} {what}")

    def __repr__(self) -> str:
        return f"<HloInstruction {self.name!r}: {self.fields.opcode}>"


def _without_percent(name: str) -> str:
    """A name without the `%` that text may have before it. Raises InvalidArgumentError for a value that is not text."""
    if not is_a(name, str):
        raise InvalidArgumentError(f"name takes text, not {type(name).__name__}", field="name")
    return name.removeprefix("%")
