"""The table of buffers of an explanation: its columns and its rows."""

from __future__ import annotations

from typing import Any, Final

from xlashape.tables import Column, Kind

__all__ = ["BUFFER_COLUMNS", "buffer_row"]

BUFFER_COLUMNS: Final = (
    Column("instruction", Kind.TEXT, "the instruction that makes the buffer, or what a report says the buffer is of"),
    Column("computation", Kind.TEXT, "the computation that the instruction is in"),
    Column("opcode", Kind.TEXT, "its opcode"),
    Column("index", Kind.TEXT, "which element of the result the buffer is; {} where it is the whole result"),
    Column("shape", Kind.TEXT, "the shape, with the layout that is counted"),
    Column("element_bytes", Kind.INTEGER, "the bytes of the elements alone"),
    Column("buffer_bytes", Kind.INTEGER, "the bytes of the buffer"),
    Column("overhead_bytes", Kind.INTEGER, "the bytes of the buffer that are not elements"),
    Column("factor", Kind.NUMBER, "buffer ÷ elements"),
    Column("error", Kind.TEXT, "why the size is not known"),
)


def buffer_row(
    shape: object,
    element_bytes: int | None,
    buffer_bytes: int | None,
    *,
    instruction: str | None = None,
    computation: str | None = None,
    opcode: str | None = None,
    index: object = "{}",
    error: object = None,
) -> tuple[Any, ...]:
    """A value for each column; None for a value that is unknown or does not apply."""
    overhead = factor = None
    if element_bytes is not None and buffer_bytes is not None:
        overhead = buffer_bytes - element_bytes
        factor = buffer_bytes / element_bytes if element_bytes else None
    return (
        instruction,
        computation,
        opcode,
        str(index),
        None if shape is None else str(shape),
        element_bytes,
        buffer_bytes,
        overhead,
        factor,
        None if error is None else str(error),
    )
