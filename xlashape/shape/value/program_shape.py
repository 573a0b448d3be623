"""The shapes of a computation's parameters, with their names, and of its result: XLA's `ProgramShape`.

program := '(' (name ':' shape (',' name ':' shape)*)? ')' '->' shape
name    := '%'? word | '(unknown)'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from xlashape.base.frozen import FrozenValue, set_field
from xlashape.base.text import Cursor
from xlashape.errors import InvalidShapeError
from xlashape.shape.parts.checks import bytes_of, entries_of, instance_of
from xlashape.shape.text import shape_text
from xlashape.shape.value.shape import Layout, Shape, parse_shape

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from xlashape.proto import xla

_NAME = re.compile(r"%?([A-Za-z0-9_][A-Za-z0-9_.\-]*)")
_UNKNOWN = "(unknown)"


class ProgramShape(FrozenValue):
    """The shapes of a program's parameters and of its result.

    >>> ProgramShape.parse("(p0: f32[2]{0}, p1: (s32[], f32[])) -> f32[]").parameters
    (Shape('f32[2]{0}'), Shape('(s32[], f32[])'))

    `parameter_names` may be shorter than `parameters`; a parameter without a name is printed `(unknown)`. The text has
    layouts, like that of shapes; XLA prints programs without them, as `shape_util.human_string` does. InvalidShapeError
    for more names than parameters.
    """

    __slots__ = ("parameter_names", "parameters", "result", "unknown_fields")
    __match_args__ = ("parameters", "result")
    _fields = ("parameters", "result", "parameter_names", "unknown_fields")
    parameters: tuple[Shape, ...]
    result: Shape
    parameter_names: tuple[str, ...]
    unknown_fields: bytes

    def __init__(
        self,
        parameters: Iterable[Shape],
        result: Shape,
        parameter_names: Iterable[str] = (),
        unknown_fields: bytes = b"",
    ) -> None:
        shapes = entries_of(parameters, Shape, "parameters")
        names = entries_of(parameter_names, str, "parameter_names")
        if len(names) > len(shapes):
            raise InvalidShapeError(f"{len(names)} names for {len(shapes)} parameters", field="parameter_names")
        set_field(self, "parameters", shapes)
        set_field(self, "result", instance_of(result, Shape, "result"))
        set_field(self, "parameter_names", names)
        set_field(self, "unknown_fields", bytes_of(unknown_fields, "unknown_fields"))

    @classmethod
    def parse(cls, text: str) -> ProgramShape:
        """The program shape written `text`; ParseError with line and column otherwise. The grammar is at the top of
        this file.
        """
        cursor = Cursor(text)
        cursor.expect("(")
        names: list[str] = []
        shapes: list[Shape] = []
        for _ in cursor.items(")", "the parameters"):
            names.append(_parse_name(cursor))
            cursor.expect(":")
            shapes.append(parse_shape(cursor))
        cursor.expect("->")
        result = parse_shape(cursor)
        cursor.expect_end()
        while names and not names[-1]:
            names.pop()
        return cls(shapes, result, names)

    @classmethod
    def from_proto(cls, value: bytes | Message) -> ProgramShape:
        """The program shape of an `xla.ProgramShapeProto`: its bytes or a message. Errors as in `Shape.from_proto`."""
        from xlashape.shape import proto_codec  # protobuf loads on first use

        data = proto_codec.message_bytes("ProgramShapeProto", value)
        return proto_codec.ProtoReader(Shape, Layout).program(data, cls)

    def to_proto(self) -> xla.ProgramShapeProto:
        """A new `xla.ProgramShapeProto`, unknown fields included."""
        from xlashape.shape import proto_codec  # protobuf loads on first use

        return proto_codec.program_shape_to_proto(self)

    def map_shapes(self, change: Callable[[Shape], Shape]) -> ProgramShape:
        """The program with `change` applied to its parameters and its result."""
        return self.replace(parameters=[change(shape) for shape in self.parameters], result=change(self.result))

    def __str__(self) -> str:
        return program_shape_text(self)

    def __repr__(self) -> str:
        text = str(self)
        return f"ProgramShape('{text if len(text) <= 400 else text[:397] + '...'}')"


def program_shape_text(program: ProgramShape, *, layout: bool = True) -> str:
    """The text of a program shape; `layout=False` leaves layouts out, as XLA does.

    >>> program_shape_text(ProgramShape([Shape.parse("f32[2]")], Shape.parse("f32[]")), layout=False)
    '((unknown): f32[2]) -> f32[]'
    """
    names = program.parameter_names
    parameters = [
        f"{(names[i] if i < len(names) else '') or _UNKNOWN}: {shape_text(shape, layout=layout)}"
        for i, shape in enumerate(program.parameters)
    ]
    return f"({', '.join(parameters)}) -> {shape_text(program.result, layout=layout)}"


def _parse_name(cursor: Cursor) -> str:
    if cursor.accept("("):
        cursor.expect("unknown")
        cursor.expect(")")
        return ""
    match = _NAME.match(cursor.text, cursor.at)
    if match is None:
        cursor.fail("a parameter's name")
    cursor.at = match.end()
    return match.group(1)
