"""What every printer of attributes shares: the registry of opcodes, and what an attribute may ask for.

A printer takes an instruction of the printer's schema (print_source: sub-messages are bytes) and a Context and returns the attributes of
its opcode in XLA's order, each with a comma and a space before it, or "".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from xlashape.errors import InvalidModuleError
from xlashape.shape import Shape

__all__ = ["ATTRIBUTES", "Context", "enum_name", "prints"]


class Context(Protocol):
    """What an attribute may ask the printer for."""

    def shape_text(self, data: bytes) -> str:
        """The text of a serialized ShapeProto, layout included."""
        ...

    def operand_shape(self, one: Any, number: int) -> Shape | None:
        """The shape of an operand of the instruction; None if it has not so many."""
        ...

    @property
    def is_fingerprint(self) -> bool:
        """Whether only what decides the program is shown: device lists written out, no infeed and outfeed configs."""
        ...

    @property
    def show_ids(self) -> bool:
        """Whether names, and with them parameter_replication, are shown."""
        ...

    @property
    def show_metadata(self) -> bool:
        """Whether shardings show their metadata."""
        ...


Printer = Callable[[Any, Context], str]
ATTRIBUTES: Final[dict[str, Printer]] = {}
"""The function of each opcode that has attributes of its own."""


def prints(*opcodes: str) -> Callable[[Printer], Printer]:
    """Registers a function for opcodes."""

    def register(function: Printer) -> Printer:
        for opcode in opcodes:
            ATTRIBUTES[opcode] = function
        return function

    return register


def enum_name(wrapper: Any, value: int, what: str) -> str:
    """The name of an enum's number; InvalidModuleError if it has none."""
    try:
        return wrapper.Name(value)
    except ValueError:
        raise InvalidModuleError(f"{value} is no {what}") from None
