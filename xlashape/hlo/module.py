"""HloModule: a module that is loaded, parsed, printed, saved, edited and compared. It stands on the one form of a
module (`xlashape.hlo.ir`) and hands each question on to the file that answers it.

Reading loses nothing: a module that was read from bytes and not changed is written back byte for byte.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from google.protobuf.message import Message

from xlashape.base.collector import collector_paused
from xlashape.base.tables import Table
from xlashape.base.text import Source
from xlashape.errors import DecodeError, InvalidArgumentError, ParseError, is_a
from xlashape.hlo import serde
from xlashape.hlo.files.detect_format import holds_hlo_proto
from xlashape.hlo.files.dumps import content_of_module
from xlashape.hlo.ir import HloComputation, HloInstruction, ModuleData
from xlashape.hlo.module_proto.module_config import ModuleConfig
from xlashape.hlo.module_proto.schema_compat import decode
from xlashape.hlo.module_proto.structure import needs_small_ids, serialized, with_small_ids
from xlashape.proto import coerce, xla

if TYPE_CHECKING:
    from xlashape.hlo.canonical import Canonical, Counted
    from xlashape.hlo.files.convert import Document
    from xlashape.hlo.text.writer.printed_module import PrintedModule, PrintOptions

__all__ = ["HloComputation", "HloInstruction", "HloModule"]

_HEAD = 4096
"""How many characters of a text that is not HLO are examined to find out what it is."""


class HloModule(ModuleData):
    """A program. Make it with `of`, `load`, `from_bytes`, `from_proto` or `parse`.

    >>> from xlashape.proto import xla
    >>> parameter = xla.HloInstructionProto(
    ...     name="p", opcode="parameter", shape=xla.ShapeProto(element_type=xla.F32, dimensions=[4])
    ... )
    >>> main = xla.HloComputationProto(name="main", instructions=[parameter])
    >>> module = HloModule(xla.HloModuleProto(name="m", computations=[main]))
    >>> module.entry.root, str(module.instruction("p").shape)
    (<HloInstruction 'p': parameter>, 'f32[4]')
    """

    __slots__ = ("_last_canonical", "_last_printed")

    def __init__(
        self,
        proto: xla.HloModuleProto | None = None,
        *,
        hlo_proto: xla.HloProto | None = None,
        config: ModuleConfig | None = None,
    ) -> None:
        """The module in a message, which is copied. `hlo_proto` is the HloProto that contains it. Without a message the
        module is empty. Raises as `from_proto` does."""
        super().__init__()
        if config is not None:
            self.config = config
        self._last_printed: PrintedModule | None = None
        self._last_canonical: Canonical | None = None
        if proto is not None:
            message = proto if hlo_proto is None else hlo_proto
            serde.read_module(self, serialized(message), is_program=hlo_proto is not None)

    # -- reading -----------------------------------------------------------------------------------

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
        if isinstance(document.content, Source):
            return cls.parse(document.content)
        try:
            module = cls.of_serialized(document.content, is_program=document.is_program)
            module.notes = document.notes
            return module
        except DecodeError as error:
            if document.name is None:
                raise
            from xlashape.hlo.files.convert import no_module  # start-up time: 5 ms

            raise no_module(error, document.name) from None

    @classmethod
    def of_serialized(
        cls, data: bytes, *, is_program: bool | None = None, config: ModuleConfig | None = None
    ) -> HloModule:
        """The module in a serialized HloProto or HloModuleProto; `is_program` says which, and None finds out. Raises as
        `from_proto` does."""
        module = cls(config=config)
        serde.read_module(module, data, is_program=holds_hlo_proto(data) if is_program is None else is_program)
        return module

    @classmethod
    def of(cls, value: Any, *args: Any, **kwargs: Any) -> HloModule:
        """The module in any object that holds one: `jax.stages.Lowered` and `Compiled`, HloModule and XlaComputation of
        jaxlib, a list of one of these, a message, bytes, text, a path, an open file. `xlashape.hlo.files.module_of`
        lists them all.

        A list must have one member; `all_of` takes several, and a Compiled with several modules.
        A Compiled gives the module after XLA's optimizations, a Lowered the module before them. For a jitted function,
        `args` and `kwargs` are the arguments that it is lowered with. Text with a line end, a brace or `=` is HLO text
        unless it names a file; other text is a path. jaxlib makes HLO of StableHLO and of an Exported, which `notes`
        say. Raises InvalidArgumentError for an object without HLO, such as a jaxpr, and says what to pass instead. Also
        raises what `load` and `parse` raise.

        >>> HloModule.of("HloModule m ENTRY e { ROOT p = f32[4] parameter(0) }").entry.root
        <HloInstruction 'p': parameter>
        """
        if isinstance(value, HloModule) and not args and not kwargs:
            return value
        if isinstance(value, Message) and not args and not kwargs:
            if value.DESCRIPTOR.name == "XSpace":  # a profile, with the modules that ran
                return cls.from_bytes(value.SerializeToString())
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
        """The module in an HloModuleProto or an HloProto, given as bytes or as a message, which is copied. The message
        may be of this package's classes or of another's, such as TensorFlow's.

        If bytes have one shape or attribute in several pieces, which no library of protobuf writes, the last piece
        counts. Raises DecodeError for bytes that are neither message, InvalidModuleError for a module whose ids,
        operands, calls, root or entry are inconsistent. A mistake within an attribute raises an error only when that
        attribute is read.
        """
        if not isinstance(value, Message):
            value = bytes(value) if isinstance(value, (bytearray, memoryview)) else value
            if is_a(value, bytes):
                return cls.of_serialized(value)
        elif value.DESCRIPTOR.full_name == "xla.HloProto":
            return cls.of_serialized(serialized(value), is_program=True)
        # `coerce` raises for a value of another type
        return cls.of_serialized(serialized(coerce(xla.HloModuleProto, value)), is_program=False)

    @classmethod
    def parse(cls, text: str | Source, *, elided_values: bool = True) -> HloModule:
        """The module that HLO text describes, as XLA's own parser understands it. Raises ParseError with line and
        column, and DecodeError for text of another known language, such as StableHLO.

        XLA fills elided constants, `constant({...})`, with made-up values, as many as their shape has elements. Without
        `elided_values` such constants have no values and take no memory.
        """
        from xlashape.hlo.text.reader.module import parse_text  # start-up time: 30 ms

        module = cls()
        try:
            with nullcontext() if isinstance(text, str) and len(text) < _HEAD else collector_paused():
                parse_text(text, module, elided_values=elided_values)
        except ParseError:
            if isinstance(text, str):
                content_of_module(text[:_HEAD].encode("utf-8", "replace"))
            raise
        return module

    # -- bytes and messages --------------------------------------------------------------------------

    @property
    def proto(self) -> xla.HloModuleProto:
        """A new message of the module; changes of it change nothing: `HloModule(message)` is the changed module. Raises
        DecodeError where bytes are broken."""
        return decode(xla.HloModuleProto, self.module_bytes())[0]

    @property
    def hlo_proto(self) -> xla.HloProto | None:
        """A new message of the HloProto that held the module, with its buffer assignment; None if the module came
        without one."""
        return None if self.beside is None else decode(xla.HloProto, self.to_bytes())[0]

    @property
    def assignment(self) -> xla.BufferAssignmentProto | None:
        """The buffer assignment that came with the module; None if there was none."""
        if self.beside is None:
            return None
        beside = coerce(xla.HloProto, self.beside)
        return beside.buffer_assignment if beside.HasField("buffer_assignment") else None

    def to_proto(self, *, for_version: str | None = None) -> xla.HloModuleProto:
        """The same as `proto`. With `for_version`, such as "0.4.35", the message is one that this version of jaxlib
        loads.

        jaxlib 0.4.30 and 0.4.35 refuse ids beyond 32 bits, which a module made from text has if it has several
        computations. For versions before 0.10 instructions and computations are numbered anew, from 1. All versions
        load such ids.
        """
        if for_version is not None and needs_small_ids(for_version):
            renumbered = with_small_ids(self.proto)
            assert isinstance(renumbered, xla.HloModuleProto)
            return renumbered
        return self.proto

    def module_bytes(self) -> bytes:
        """The serialized HloModuleProto, without the HloProto that may have held it."""
        return serde.module_bytes(self) if self._data is None else self._content

    def to_bytes(self) -> bytes:
        """The module serialized: as the HloProto that held it if there was one, else as an HloModuleProto.

        If the module was read from bytes and not changed, the result is those bytes.
        """
        if self._data is not None:
            return self._data
        data = serde.module_bytes(self)
        return data if self.beside is None else serde.program_bytes(self.beside, data)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.to_bytes(), self.beside is not None, self.config)

    def read_head(self, content: bytes) -> xla.HloModuleProto:
        return serde.read_head(content)

    def read_computation(self, computation: HloComputation) -> None:
        serde.read_computation(computation)

    def instruction_proto(self, instruction: HloInstruction) -> xla.HloInstructionProto:
        return decode(xla.HloInstructionProto, serde.instruction_bytes(instruction))[0]

    def computation_proto(self, computation: HloComputation) -> xla.HloComputationProto:
        return decode(xla.HloComputationProto, serde.computation_bytes(computation))[0]

    # -- edits ---------------------------------------------------------------------------------------

    def copy(self) -> HloModule:
        """A copy, for edits that leave this module as it is. It shares kinds, which never change, and computations'
        bytes that were not read yet."""
        return serde.copied(self, HloModule())

    def add_computations(self, text: str) -> tuple[HloComputation, ...]:
        """Adds computations in HLO text, such as `sum { a = f32[] parameter(0) ROOT c = f32[] negate(a) }`, and returns
        them.

        They may call computations of the module. Their instructions are renamed where the module already has the name.
        Raises ParseError with lines and columns of `text`, InvalidArgumentError for a computation whose name the module
        already has.
        """
        return self.edits().add_computations(self, text)

    def remove_dead(self) -> None:
        """Removes the instructions whose results nothing needs, and the computations that the entry does not call,
        directly or not.

        Parameters stay, and so do instructions that may do more than give a result: instructions that have a side
        effect, exchange data with other replicas, are asynchronous, have an unknown opcode, or are at either end of a
        control dependency.
        """
        self.edits().remove_dead(self)

    def edits(self) -> Any:
        from xlashape.hlo.editing import edits  # start-up time: it loads the reader of text, 30 ms

        return edits

    def forget(self) -> None:
        super().forget()
        self._last_printed = self._last_canonical = None

    # -- text ----------------------------------------------------------------------------------------

    def to_text(self, style: str | PrintOptions = "default", **options: Any) -> str:
        """The module as XLA prints it, byte for byte.

        `style` is a PrintOptions or the name of one: default, short_parsable, canonical, fingerprint. `options` are
        single options of `PrintOptions` that replace those of the style. Raises InvalidArgumentError for an unknown
        style or option, InvalidModuleError naming the instruction for a module that cannot be printed,
        LimitExceededError if computations that are written where they are called are too many or too deep.
        """
        from xlashape.hlo.text.writer.module import module_text  # start-up time: 30 ms

        return module_text(self.printed(style, options))

    def part_text(
        self, part: HloInstruction | HloComputation, style: str | PrintOptions, options: Mapping[str, Any]
    ) -> str:
        from xlashape.hlo.text.writer.module import part_text  # start-up time: 30 ms

        return part_text(self.printed(style, options), part)

    def printed(self, style: str | PrintOptions, options: Mapping[str, Any]) -> PrintedModule:
        """The names and other texts that the text of each part of the module needs. Kept for the options that were
        asked for last."""
        from xlashape.hlo.text.writer.printed_module import PrintedModule, PrintOptions  # start-up time: 30 ms

        wanted = PrintOptions.of(style, **options)
        printed = self._last_printed
        if printed is None or printed.options != wanted:
            printed = self._last_printed = PrintedModule(self, wanted)
        return printed

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
        from xlashape.hlo.files.convert import write  # start-up time: 5 ms

        write(self, path, lossy=lossy, for_version=for_version, style=style, **options)

    # -- the canonical form ----------------------------------------------------------------------------

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

    def computation_fingerprint(self, computation: HloComputation, counted: Mapping[str, bool]) -> str:
        return self.canonical(counted).computation_fingerprint(computation.index)

    def canonical(self, counted: Mapping[str, bool] | Counted = MappingProxyType({})) -> Canonical:
        """The canonical form of the module, which fingerprints are hashes of. Kept for the `counted` that was asked for
        last."""
        from xlashape.hlo.canonical import Canonical, Counted  # start-up time: it loads the codecs of attributes

        wanted = Counted.of(counted)
        canonical = self._last_canonical
        if canonical is None or canonical.counted != wanted:
            canonical = self._last_canonical = Canonical(self, wanted)
        return canonical

    # -- tables ------------------------------------------------------------------------------------------

    def table(self) -> Table:
        """A row for each instruction: `xlashape.hlo.instruction_table` lists the columns.

        >>> module = HloModule.parse("HloModule m ENTRY e { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }")
        >>> module.table()["opcode"], module.table()["bytes"]
        (['parameter', 'negate'], [16, 16])
        """
        # start-up time: few programs make tables
        from xlashape.hlo.instruction_table import instruction_table

        return instruction_table(self.instructions())

    def computation_table(self, computation: HloComputation) -> Table:
        # start-up time: few programs make tables
        from xlashape.hlo.instruction_table import instruction_table

        return instruction_table(computation.instructions)


def _restore(data: bytes, is_program: bool, config: ModuleConfig) -> HloModule:
    """A module that was pickled."""
    return HloModule.of_serialized(data, is_program=is_program, config=config)
