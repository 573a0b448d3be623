"""ModuleHead: what a module says beside its computations, and the bytes that it was read from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlashape.hlo.module_proto.module_config import UNSAID, ModuleConfig
from xlashape.proto import xla

if TYPE_CHECKING:
    from xlashape.hlo.module_proto.stack_frames import Metadata, ModuleFrames


class ModuleHead:
    """The part of a module beside its computations."""

    __slots__ = (
        "__weakref__",
        "_content",
        "_data",
        "_frames",
        "_head",
        "_metadata",
        "beside",
        "config",
        "is_part",
        "notes",
    )

    _data: bytes | None
    """The serialized module as it came, as long as nothing was changed; None for a module that was changed, or made of
    text."""
    _content: bytes
    """The bytes of the HloModuleProto that `_data` holds."""
    _head: xla.HloModuleProto | None
    beside: bytes | None
    """The serialized fields of the HloProto around the module, such as the buffer assignment; None if the module came
    without one."""
    config: ModuleConfig
    """The part of the module's text that the proto has no field for; `UNSAID`, the defaults, for a module made from a
    proto."""
    notes: tuple[str, ...]
    """What was left out or assumed where the module was made of text that is none as it stands
    (`xlashape.hlo.files.forgiving`); mostly empty."""
    is_part: bool
    """Whether such text is a part of a program, so that nothing bounds what the whole program takes."""

    def __init__(self) -> None:
        self._data = None
        self._content = b""
        self._head = None
        self._frames: ModuleFrames | None = None
        self._metadata: dict[bytes, Metadata] = {}
        self.beside = None
        self.config = UNSAID
        self.notes = ()
        self.is_part = False

    def fill_head(self, head: xla.HloModuleProto | None, data: bytes, content: bytes) -> None:
        """Sets the message with the fields other than the computations. None for a module that was read from the bytes
        `data`, in which `content` is its HloModuleProto."""
        self._head, self._data, self._content = head, data or None, content

    def drop_bytes(self) -> None:
        """Gives up the bytes of the module, whose `head` was read: something of it changes now."""
        self._data = None

    def read_head(self, content: bytes) -> xla.HloModuleProto:
        """The head in the bytes of an HloModuleProto."""
        raise NotImplementedError

    @property
    def head(self) -> xla.HloModuleProto:
        """A message with the module's fields other than its computations. To be read only."""
        head = self._head
        if head is None:
            head = self._head = self.read_head(self._content)
        return head

    def source(self) -> tuple[bytes, bytes]:
        """The bytes that the module was read from, and the HloModuleProto in them; empty for a module that was changed,
        or made of text."""
        return (b"", b"") if self._data is None else (self._data, self._content)

    @property
    def name(self) -> str:
        """The module's name."""
        return self.head.name

    @property
    def stack_frames(self) -> ModuleFrames:
        """The module's table of stack frames: the lines of the program that instructions refer to by number.
        `HloInstruction.metadata` shows them."""
        frames = self._frames
        if frames is None:
            # start-up time: few programs ask
            from xlashape.hlo.module_proto.stack_frames import ModuleFrames

            frames = self._frames = ModuleFrames(self.head.stack_frame_index)
        return frames

    def metadata_of(self, data: bytes) -> Metadata:
        """The Metadata in a serialized OpMetadata. Equal ones are one object."""
        found = self._metadata.get(data)
        if found is None:
            # start-up time: few programs ask
            from xlashape.hlo.module_proto.stack_frames import Metadata

            found = self._metadata[data] = Metadata.of_proto(data, self.stack_frames)
        return found
