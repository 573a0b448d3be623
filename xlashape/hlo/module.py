"""HloModule: a program, a view over its HloModuleProto, which stays the single truth. Matches XLA's HloModule.

Reading loses nothing and writing is the proto: `HloModule.from_proto(data).to_proto().SerializeToString()` keeps every field, known or
not. Views decode lazily and keep what they decoded, so a script that changes `module.proto` makes a new view of it afterwards:
`module = HloModule.from_proto(module.proto)`, which also checks that what it wrote hangs together.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.protobuf.message import Message

from xlashape.errors import InvalidArgumentError, InvalidModuleError, NotFoundError
from xlashape.hlo import structure, wire
from xlashape.hlo.computation import HloComputation, bare_name
from xlashape.hlo.config import ModuleConfig
from xlashape.hlo.instruction import HloInstruction
from xlashape.proto import coerce, xla
from xlashape.shape import Shape

if TYPE_CHECKING:
    from xlashape.text import Source

__all__ = ["HloModule"]


class HloModule:
    """Make it with `load`, `from_proto` or `parse`.

    >>> from xlashape.proto import xla
    >>> one = xla.HloInstructionProto(name="p", opcode="parameter", shape=xla.ShapeProto(element_type=xla.F32, dimensions=[4]))
    >>> proto = xla.HloModuleProto(name="m", computations=[xla.HloComputationProto(name="main", instructions=[one])])
    >>> module = HloModule.from_proto(proto)
    >>> module.entry.root, str(module.instruction("p").shape)
    (<HloInstruction 'p': parameter>, 'f32[4]')
    """

    __slots__ = (
        "__weakref__",
        "_by_name",
        "_computation_names",
        "_computations",
        "_places",
        "_shapes",
        "config",
        "hlo_proto",
        "proto",
    )

    proto: xla.HloModuleProto
    """The message itself, not a copy."""
    hlo_proto: xla.HloProto | None
    """The HloProto that the module came in, with its buffer assignment; None if it came without."""
    config: ModuleConfig
    """What the text that the module was made of said beyond the proto; its defaults for a module made of a proto."""

    def __init__(
        self, proto: xla.HloModuleProto, *, hlo_proto: xla.HloProto | None = None, config: ModuleConfig | None = None
    ) -> None:
        self.proto = proto
        self.hlo_proto = hlo_proto
        self.config = ModuleConfig() if config is None else config
        self._places = structure.check_module(proto)
        self._computations = tuple(HloComputation(self, place, one) for place, one in enumerate(proto.computations))
        self._computation_names: dict[str, HloComputation] | None = None
        self._by_name: dict[str, HloInstruction | None] | None = None
        self._shapes: dict[bytes, Shape] = {}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> HloModule:
        """The module in a file: HLO text, HloModuleProto or HloProto as bytes (XLA's `.hlo.pb`), protobuf text or JSON, each compressed
        with gzip or not, found out from the content.

        Raises NotFoundError if there is no such file, ParseError, DecodeError or InvalidModuleError for what is in it.
        """
        try:
            path = Path(path)
        except TypeError:
            raise InvalidArgumentError(f"path takes text or a path, not {type(path).__name__}", field="path") from None
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise NotFoundError(f"there is no file {str(path)!r}") from None
        except OSError as error:
            raise InvalidArgumentError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
        except ValueError as error:
            raise InvalidArgumentError(f"not a path: {error}") from error
        return cls.from_bytes(data, name=str(path))

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview, *, name: str | None = None) -> HloModule:
        """The module in the content of a file; `name` is the file's, for messages about text."""
        from xlashape.hlo.convert import decode

        # The check is for callers without types.
        if not isinstance(data, (bytes, bytearray, memoryview)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgumentError(f"data takes bytes, not {type(data).__name__}", field="data")
        document = decode(bytes(data), name)
        return cls(document.module, hlo_proto=document.hlo_proto, config=document.config)

    @classmethod
    def from_proto(cls, value: bytes | bytearray | memoryview | Message) -> HloModule:
        """The module in HloModuleProto bytes, HloProto bytes or a message of one of these, of ours or of another package's classes.

        A message of this package is viewed, not copied. Raises DecodeError for bytes that are no such message, InvalidModuleError
        for a module that breaks its own rules: ids, operands, calls, root or entry.
        """
        if isinstance(value, Message):
            is_hlo_proto = value.DESCRIPTOR.full_name == "xla.HloProto"
        else:
            value = bytes(value) if isinstance(value, (bytearray, memoryview)) else value
            # Whatever else callers without types pass in, `coerce` refuses below.
            is_hlo_proto = isinstance(value, bytes) and wire.holds_hlo_proto(value)  # pyright: ignore[reportUnnecessaryIsInstance]
        if is_hlo_proto:
            hlo_proto = coerce(xla.HloProto, value)
            return cls(hlo_proto.hlo_module, hlo_proto=hlo_proto)
        return cls(coerce(xla.HloModuleProto, value))

    @classmethod
    def parse(cls, text: str | Source) -> HloModule:
        """The module that HLO text says, as XLA's own parser understands it. Raises ParseError with line and column."""
        from xlashape.hlo.text.reader.module import parse_text

        proto, config = parse_text(text)
        return cls(proto, config=config)

    def to_proto(self) -> xla.HloModuleProto:
        """A copy of `proto`."""
        copy = xla.HloModuleProto()
        copy.CopyFrom(self.proto)
        return copy

    def to_text(self, **options: Any) -> str:
        """The module as XLA prints it. The options are those of `xlashape.hlo.text.writer.module.PrintOptions`."""
        from xlashape.hlo.text.writer.module import module_text

        return module_text(self, **options)

    @property
    def name(self) -> str:
        """Its name."""
        return self.proto.name

    @property
    def computations(self) -> tuple[HloComputation, ...]:
        """Its computations in the order of the proto; XLA writes callees before their callers."""
        return self._computations

    @property
    def entry(self) -> HloComputation:
        """The computation where execution starts."""
        return self._computations[self._places[self.proto.entry_computation_id & structure.LOCAL_ID]]

    def computation(self, name: str) -> HloComputation:
        """The computation of that name, `%` left aside. Raises NotFoundError; of two with one name, the first is given."""
        names = self._computation_names
        if names is None:
            names = self._computation_names = {one.name: one for one in reversed(self._computations)}
        found = names.get(bare_name(name))
        if found is None:
            raise NotFoundError(f"module {self.name!r} has no computation {name!r}")
        return found

    def instructions(self) -> Iterator[HloInstruction]:
        """Every instruction, computation by computation."""
        for computation in self._computations:
            yield from computation.instructions

    def instruction(self, name: str) -> HloInstruction:
        """The instruction of that name, `%` left aside, in whichever computation it stands.

        XLA keeps names unique in a module. Where they are not, the entry computation's instruction is given; a name that several
        other computations have raises InvalidArgumentError: ask one of the computations. Raises NotFoundError if none has it.
        """
        names = self._by_name
        if names is None:
            names = {}
            for computation in self._computations:
                for one in computation.instructions:
                    # None marks a name that more than one computation has.
                    names[one.name] = one if one.name not in names else None
            names.update((one.name, one) for one in reversed(self.entry.instructions))
            self._by_name = names
        bare = bare_name(name)
        found = names.get(bare)
        if found is None:
            if bare in names:
                raise InvalidArgumentError(
                    f"module {self.name!r} has several instructions {name!r}; ask the computation for its own"
                )
            raise NotFoundError(f"module {self.name!r} has no instruction {name!r}")
        return found

    def resolve(self, ids: Iterable[int]) -> tuple[HloComputation, ...]:
        """The computations of these ids, in their order. Raises InvalidModuleError for an id that is not there."""
        try:
            return tuple([self._computations[self._places[one & structure.LOCAL_ID]] for one in ids])
        except KeyError:
            raise InvalidModuleError(
                f"module {self.name!r} was changed: a computation's id is gone; make a new view"
            ) from None

    def shape_of(self, proto: xla.ShapeProto) -> Shape:
        """The Shape of a ShapeProto; equal protos give the same object."""
        data = proto.SerializeToString()
        shape = self._shapes.get(data)
        if shape is None:
            shape = self._shapes[data] = Shape.from_proto(proto)
        return shape

    def __repr__(self) -> str:
        return f"<HloModule {self.name!r}: {len(self._computations)} computations>"
