"""Reads and writes modules in files and streams: HLO text, binary protos, protobuf text and protobuf JSON, each
compressed or not. Formats are recognised by content.

    kind      suffix         content
    hlo       .hlo .txt      HLO text
    pb        .pb            a serialized HloModuleProto
    hlo.pb    .hlo.pb        a serialized HloProto: a module and, perhaps, its buffer assignment (what XLA dumps)
    pbtxt     .pbtxt         protobuf text of either message
    json      .json          protobuf JSON of either message
    … and each of them with .gz appended

Snapshots and profiles hold modules too (xlashape.hlo.files.dumps). `FILE#NAME` names one of several modules in a file,
and `modules` gives all of them. StableHLO is read too, where jaxlib is installed (xlashape.hlo.files.stablehlo).

`decode` and `read` accept every format; `encode` and `write` produce every format. They raise LossyConversionError if a
format cannot hold all of a module, unless `lossy=True`: pbtxt and json cannot hold fields unknown to this schema and
nan payloads, pb cannot hold a buffer assignment, and only hlo holds replica_count, num_partitions and the rest of a
ModuleConfig. HLO text has no ids and no buffer assignment, but is written without an error. Here it contains large
constants.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, Protocol

from xlashape import errors
from xlashape.base.similar import did_you_mean, similar
from xlashape.base.text import Source
from xlashape.base.whole_file import replace_file
from xlashape.hlo.files import dumps, stablehlo
from xlashape.hlo.files.detect_format import holds_hlo_proto, holds_text
from xlashape.hlo.files.protobuf_text import FIELD_NAMES, PBTXT_START, from_json, from_pbtxt, to_json, to_pbtxt
from xlashape.hlo.module_proto import schema_compat
from xlashape.hlo.module_proto.module_config import ModuleConfig
from xlashape.hlo.module_proto.structure import needs_small_ids, serialized, with_small_ids
from xlashape.proto import xla
from xlashape.proto.wire import Fields
from xlashape.shape import Shape

if TYPE_CHECKING:
    from xlashape.hlo.text.writer.printed_module import PrintOptions


MAX_BYTES: Final = (1 << 31) - 1
"""The most bytes that a file may hold once decompressed: the largest message that protobuf can decode."""

_PROGRAM: Final = Fields(xla.HloProto)
_CHUNK: Final = 1 << 20
_MOST_FILES: Final = 2_000  # files of a directory, among which an error message looks for a similar name
_GZIP: Final = b"\x1f\x8b"

Progress = Callable[[int, "int | None"], None]
"""Called with the number of bytes read or written so far, and with the total, or None if that is not known."""


class FileKind(str, Enum):
    """How a file holds a module. The value is the suffix of file names, without its dot."""

    HLO = "hlo"
    PB = "pb"
    HLO_PB = "hlo.pb"
    PBTXT = "pbtxt"
    JSON = "json"

    def __str__(self) -> str:
        return self.value


class Format(NamedTuple):
    """The kind of a file, and whether it is compressed with gzip."""

    kind: FileKind
    compressed: bool = False

    def __str__(self) -> str:
        return f"{self.kind}.gz" if self.compressed else self.kind.value


class Document(NamedTuple):
    """The content of a file that holds a module, and the format of the file. `HloModule.of_document` reads it."""

    content: bytes | Source
    """A serialized HloModuleProto or HloProto, or HLO text."""
    format: Format
    is_program: bool = False
    """Whether the content is an HloProto."""
    name: str | None = None
    """The name of the file, for messages of errors."""
    notes: tuple[str, ...] = ()
    """What must be known of the module: the notes that it gets."""
    arguments: tuple[bytes, ...] = ()
    """The literals, serialized, that an HloSnapshot has beside its module."""


def format_of_name(name: str | os.PathLike[str]) -> Format | None:
    """The format that a file's suffix stands for. None for an unknown suffix.

    >>> str(format_of_name("dir/step.hlo.pb.gz")), format_of_name("notes.md")
    ('hlo.pb.gz', None)
    """
    text = os.fspath(name).lower()
    compressed = text.endswith(".gz")
    text = text.removesuffix(".gz")
    for suffix, kind in (
        (".hlo.pb", FileKind.HLO_PB),
        (".txt", FileKind.HLO),
        *((f".{kind}", kind) for kind in FileKind),
    ):
        if text.endswith(suffix):
            return Format(kind, compressed)
    return None


def detect(data: bytes) -> Format:
    """The format of the content of a file. Content of no recognised kind counts as HLO text or, if it is not text, as a
    binary module.

    >>> str(detect(b"HloModule m")), str(detect(b'{"name": "m"}')), str(detect(b'name: "m"'))
    ('hlo', 'json', 'pbtxt')
    """
    return Format(_kind(decompressed(data)), data.startswith(_GZIP))


def _kind(data: bytes) -> FileKind:
    """The kind of content that is not compressed."""
    head = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    # The proto of a module whose name has 123 characters begins with a line break and a brace too.
    is_text = holds_text(data)
    if head.startswith(b"{") and (is_text or not data.startswith(b"\n")):
        if not re.match(rb"\{\s*(?:ROOT\s+)?%?[\w.\-]+\s*=", head):
            return FileKind.JSON
    if is_text:
        start = PBTXT_START.match(head.decode("utf-8", "replace"))
        is_pbtxt = start and (start[1] in FIELD_NAMES if start[1] else not re.search(rb"^\s*HloModule\s", head, re.M))
        return FileKind.PBTXT if is_pbtxt else FileKind.HLO
    return FileKind.HLO_PB if holds_hlo_proto(data) else FileKind.PB


def decode(data: bytes, name: str | None = None, *, choice: str | None = None) -> Document:
    """The module in the content of a file of any format. Error messages name the file `name`.

    Of a snapshot or a profile, the module inside; `choice` names one of several. Raises ParseError or DecodeError for a
    mistake in the content, InvalidArgumentError for several modules without a choice, LimitExceededError if the content
    decompresses to more than MAX_BYTES.
    """
    try:
        return _decoded(data, name, choice)
    except errors.DecodeError as error:
        raise (error if name is None else no_module(error, name)) from None


def _decoded(data: bytes, name: str | None, choice: str | None) -> Document:
    compressed = data.startswith(_GZIP)
    data = decompressed(data)
    if not data:
        raise errors.DecodeError(f"{name or 'the content'} is empty")
    held = stablehlo.stablehlo_in(data)
    if held is not None:
        made, note = stablehlo.converted(held, name)
        return Document(made, Format(FileKind.PB, compressed), name=name, notes=(note,))
    whole = data
    data = dumps.content_of_module(data, name, choice)
    kind = _kind(data)
    form = Format(kind, compressed)
    if kind is FileKind.HLO:
        return Document(decode_text(data, name), form, name=name)
    if kind in (FileKind.PB, FileKind.HLO_PB):
        arguments = () if data is whole else dumps.arguments_in(whole)
        return Document(data, form, is_program=kind is FileKind.HLO_PB, name=name, arguments=arguments)
    message = from_json(data, name) if kind is FileKind.JSON else from_pbtxt(data, name)
    return Document(serialized(message), form, is_program=isinstance(message, xla.HloProto), name=name)


def decode_text(data: bytes, name: str | None = None) -> Source:
    """The text in the bytes of a file, UTF-8 with or without a byte order mark. Raises ParseError at the first byte
    that is not UTF-8."""
    try:
        return Source(data.decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        start = max(0, error.start - 200)
        before = Source(data[start : error.start].decode("utf-8", "replace"), name)
        line = data.count(b"\n", 0, error.start) + 1
        column = len(data[data.rfind(b"\n", 0, error.start) + 1 : error.start].decode("utf-8", "replace")) + 1
        failure = before.error(len(before.text), f"byte {data[error.start]:#04x} is not UTF-8", expected="UTF-8 text")
        failure.line, failure.column = line, column
        raise failure from None


def no_module(error: errors.DecodeError, name: str) -> errors.DecodeError:
    """An error about content that holds no module, with the name of the file in its message."""
    if error.message.startswith((f"{name} ", f"{name}:")):
        return error
    # Both readers of protos report a broken wire format. Users cannot use the offset in their messages.
    broken = "the wire format is broken"
    reason = f"{broken}: it is cut off, or not a module" if broken in error.message else error.message
    return errors.DecodeError(f"{name} holds no HLO module: {reason}", field=error.path)


def text_or_proto(data: bytes, name: str | None = None, *, choice: str | None = None) -> bytes:
    """The content of a file in a form that the service accepts: HLO text or a serialized proto, without gzip. Raises as
    `decode` does.

    >>> text_or_proto(gzip.compress(b"HloModule m ENTRY e { ROOT p = f32[4] parameter(0) }"))[:11]
    b'HloModule m'
    """
    data = decompressed(data)
    if not data:
        raise errors.DecodeError(f"{name or 'the content'} is empty")
    data = dumps.content_of_module(data, name, choice)
    if _kind(data) not in (FileKind.JSON, FileKind.PBTXT):
        return data
    content = decode(data, name).content
    assert isinstance(content, bytes)  # of JSON and protobuf text
    return content


def decompressed(data: bytes, most: int | None = None) -> bytes:
    """The content of a file without gzip; other content as it is. Raises DecodeError for broken gzip data, and
    LimitExceededError where it has more than `most` bytes, by default `MAX_BYTES`.
    """
    most = MAX_BYTES if most is None else most
    if not data.startswith(_GZIP):
        return data
    result = io.BytesIO()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            while chunk := file.read(_CHUNK):
                result.write(chunk)
                if result.tell() > most:
                    text = f"decompresses to more than {most} bytes"
                    raise errors.LimitExceededError(text, limit="decompressed_bytes", maximum=most)
    except (OSError, EOFError, zlib.error) as error:
        raise errors.DecodeError(f"not gzip data: {error}") from error
    return result.getvalue()


class Encodable(Protocol):
    """What `encode` asks of a module. HloModule has it."""

    beside: bytes | None
    config: ModuleConfig

    @property
    def proto(self) -> xla.HloModuleProto: ...
    @property
    def hlo_proto(self) -> xla.HloProto | None: ...
    def module_bytes(self) -> bytes: ...
    def to_bytes(self) -> bytes: ...
    def to_text(self, style: PrintOptions, /) -> str: ...


def encode(
    module: Encodable,
    form: Format | FileKind | str,
    *,
    lossy: bool = False,
    for_version: str | None = None,
    style: str | PrintOptions = "default",
    **options: Any,
) -> bytes:
    r"""The bytes of a module in a format. `style` and `options` are for HLO text, and mean the same as in
    `xlashape.hlo.text.writer.module.module_text`, except that large constants are written by default.

    `for_version` is a version of jaxlib that is to load the proto, as for `HloModule.to_proto`. Raises
    LossyConversionError if the format cannot hold all of the module, unless `lossy`; InvalidModuleError if HLO text
    cannot express the module.

    >>> from xlashape.hlo import HloModule
    >>> encode(HloModule.parse("HloModule m ENTRY e { ROOT p = f32[] parameter(0) }"), "json")[:18]
    b'{\n  "name": "m",\n '
    """
    form = _as_format(form)
    message: xla.HloModuleProto | xla.HloProto | None = None
    if for_version is not None and needs_small_ids(for_version) and form.kind is not FileKind.HLO:
        message = with_small_ids(module.hlo_proto or module.proto)
    lost: list[str] = []
    if module.config.names() and form.kind is not FileKind.HLO and not lossy:
        names = ", ".join(module.config.names())
        lost.append(f"{form.kind} has no field for what the text says: {names} would be lost")
    if form.kind is FileKind.HLO:
        from xlashape.hlo.text.writer.printed_module import PrintOptions  # start-up time: 30 ms

        print_options = PrintOptions.of(style, **{"print_large_constants": True, **options})
        data = module.to_text(print_options).encode("utf-8", "surrogatepass")
    elif form.kind is FileKind.HLO_PB:
        data = module.to_bytes() if message is None else serialized(message)
        if module.beside is None:
            data = _PROGRAM.message("hlo_module", data)
    elif form.kind is FileKind.PB:
        if not lossy and module.beside:
            lost.append("pb holds a module alone: the buffer assignment would be lost")
        if isinstance(message, xla.HloProto):
            message = message.hlo_module
        data = module.module_bytes() if message is None else serialized(message)
    else:
        today = schema_compat.modernized(message or module.hlo_proto or module.proto)
        data = to_json(today) if form.kind is FileKind.JSON else to_pbtxt(today)
        if not lossy and not _is_kept(today, data, form.kind):
            lost.append(
                f"{form.kind} cannot hold all of this module: it has fields that this schema does not know, or nan "
                "payloads"
            )
    if lost:
        raise errors.LossyConversionError("; ".join(lost))
    return gzip.compress(data, mtime=0) if form.compressed else data


def _as_format(form: Format | FileKind | str) -> Format:
    if isinstance(form, Format):
        return form
    text = str(form)
    try:
        return Format(FileKind(text.removesuffix(".gz")), text.endswith(".gz"))
    except ValueError:
        names = [kind.value for kind in FileKind]
        hint = did_you_mean(text.removesuffix(".gz").lower(), names)
        raise errors.InvalidArgumentError(
            f"{text!r} is not a format of modules; the formats are {', '.join(names)}, each with or without .gz{hint}",
            field="to",
        ) from None


def left_out_of_text(module: Encodable) -> tuple[str, ...]:
    """Names the parts of a module that HLO text cannot hold, apart from ids. Writing HLO text loses them without an
    error.

    >>> from xlashape.hlo import HloModule
    >>> left_out_of_text(HloModule.parse("HloModule m ENTRY e { ROOT p = f32[4] parameter(0) }"))
    ()
    """
    found: list[str] = []
    if module.beside:
        found.append("the buffer assignment")
    if schema_compat.decode(xla.HloModuleProto, module.module_bytes())[1] is not None:
        found.append("fields of older versions of XLA")
    return tuple(found)


def _is_kept(message: xla.HloModuleProto | xla.HloProto, data: bytes, kind: FileKind) -> bool:
    """Whether decoding `data` gives an equal message."""
    decoded = from_json(data, None) if kind is FileKind.JSON else from_pbtxt(data, None)
    return type(decoded) is type(message) and decoded.SerializeToString(
        deterministic=True
    ) == message.SerializeToString(deterministic=True)


def read(source: str | os.PathLike[str] | BinaryIO, *, progress: Progress | None = None) -> Document:
    """The module in a file or a stream; the path `-` is standard input. `progress` is called after each megabyte.

    Raises NotFoundError if there is no such file, InvalidArgumentError if it cannot be read, and what `decode` raises.
    """
    if not isinstance(source, (str, os.PathLike)):
        return decode(
            _read_all(source, None, progress), name if isinstance(name := getattr(source, "name", None), str) else None
        )
    if os.fspath(source) == "-":
        return decode(_read_all(sys.stdin.buffer, None, progress), "<stdin>")
    return read_file(source, progress=progress)


def read_file(path: str | os.PathLike[str], *, progress: Progress | None = None) -> Document:
    """The module in a file. Raises as `read` does."""
    name, choice = dumps.split_choice(os.fspath(path))
    return decode(_file_content(name, progress), name, choice=choice)


def modules(path: str | os.PathLike[str]) -> Iterator[tuple[str, Document]]:
    """Yields every module in a file or in a dump directory, with its name. Files of a directory that hold no module are
    left out.

    The name is one that `read` accepts: that of the file, followed by `#` and the module's own name in a profile of
    several modules.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as directory:
    ...     for name in ("a.hlo", "b.hlo", "b.dot"):
    ...         _ = Path(directory, name).write_text("HloModule m ENTRY e { ROOT p = f32[] parameter(0) }")
    ...     [Path(name).name for name, _ in modules(directory)]
    ['a.hlo', 'b.hlo']
    """
    name = os.fspath(path)
    for file in map(str, dumps.module_files(Path(name))) if Path(name).is_dir() else (name,):
        yield from decode_all(_file_content(file, None), file)


def decode_all(data: bytes, name: str) -> Iterator[tuple[str, Document]]:
    """Yields every module in the content of a file, each with its name as in `modules`. Raises as `decode` does."""
    held = dumps.modules_in(decompressed(data))
    if held is None:
        yield name, decode(data, name)
        return
    for module in held:
        yield (f"{name}#{module.name}" if len(held) > 1 else name), decode(module.data, name)


def _file_content(name: str, progress: Progress | None) -> bytes:
    try:
        with Path(name).open("rb") as file:
            return _read_all(file, os.fstat(file.fileno()).st_size, progress)
    except FileNotFoundError:
        raise no_such_file(name) from None
    except IsADirectoryError:
        raise dumps.no_single_module(Path(name)) from None
    except OSError as error:
        raise errors.InvalidArgumentError(f"cannot read {name!r}: {error.strerror or error}") from error
    except ValueError as error:
        raise errors.InvalidArgumentError(f"not a path: {error}") from error


def no_such_file(name: str) -> errors.NotFoundError:
    """The error for a file that does not exist."""
    return errors.NotFoundError(f"there is no file {name!r}{_other_file(name)}", kind="file", name=name)


def _other_file(name: str) -> str:
    """The end of the message about a missing file: that its name is a shape, or else a file of the same directory with
    a similar name; "" if none has."""
    with suppress(errors.XlashapeError):
        Shape.parse(name)
        return ", and the text is a shape: `size` and `why` take shapes"
    try:
        folder = Path(name).parent
        names = [entry.name for entry in islice(folder.iterdir(), _MOST_FILES)]
    except (OSError, ValueError):  # there is no such directory, or it may not be read
        return ""
    found = similar(Path(name).name, names)
    return "" if found is None else f": did you mean {str(folder / found)!r}?"


def _read_all(stream: BinaryIO, total: int | None, progress: Progress | None) -> bytes:
    content = io.BytesIO()
    while chunk := stream.read(_CHUNK):
        content.write(chunk)
        if content.tell() > MAX_BYTES:
            raise errors.LimitExceededError(f"more than {MAX_BYTES} bytes", limit="file_bytes", maximum=MAX_BYTES)
        if progress is not None:
            progress(content.tell(), total)
    return content.getvalue()


def write(
    module: Encodable,
    target: str | os.PathLike[str] | BinaryIO,
    form: Format | FileKind | str | None = None,
    *,
    lossy: bool = False,
    for_version: str | None = None,
    progress: Progress | None = None,
    style: str | PrintOptions = "default",
    **options: Any,
) -> Format:
    """Writes a module to a file or a stream in the format `form`, or else in the format of the file's suffix. The path
    `-` is standard output.

    Returns the format. Raises InvalidArgumentError if there is neither a `form` nor a known suffix or if the file
    cannot be written, and what `encode` raises. A file is replaced as a whole, after its content has been computed.
    """
    is_path = isinstance(target, (str, os.PathLike))
    if form is None:
        form = format_of_name(target) if isinstance(target, (str, os.PathLike)) else None
        if form is None:
            raise errors.InvalidArgumentError(
                f"the suffix of {os.fspath(target)!r} names no format: there are .hlo, .txt, .pb, .hlo.pb, .pbtxt and "
                ".json,"
                " each with or without .gz"
                if is_path
                else "no format is given"
            )
    form = _as_format(form)
    store(encode(module, form, lossy=lossy, for_version=for_version, style=style, **options), target, progress)
    return form


def store(data: bytes, target: str | os.PathLike[str] | BinaryIO, progress: Progress | None = None) -> None:
    """Writes the content of a file, to a stream, or to standard output for `-`. Raises as `write` does."""
    if not isinstance(target, (str, os.PathLike)):
        _write_all(target, data, progress)
    elif os.fspath(target) == "-":
        _write_all(sys.stdout.buffer, data, progress)
        sys.stdout.buffer.flush()
    else:
        try:
            replace_file(target, lambda file: _write_all(file, data, progress))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise errors.InvalidArgumentError(f"cannot write {os.fspath(target)!r}: {reason}") from error


def _write_all(stream: BinaryIO, data: bytes, progress: Progress | None) -> None:
    view = memoryview(data)
    for start in range(0, len(view), _CHUNK):
        stream.write(view[start : start + _CHUNK])
        if progress is not None:
            progress(min(start + _CHUNK, len(view)), len(view))
