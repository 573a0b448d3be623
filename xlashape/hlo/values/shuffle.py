"""The attributes `mode=rotate, shifts={1,-2}`, which say how a shuffle moves elements: the only mode is to rotate each
dimension by its shift. Both attributes are parts of the field `shuffle_mode`.
"""

from __future__ import annotations

from typing import Any, Final

from xlashape.hlo.tokens import HloCursor, ints
from xlashape.hlo.values.attribute import FIELDS, Attribute, Codec, Context, list_value
from xlashape.proto import xla

_ROTATE: Final = "rotate"


def _read_mode(cursor: HloCursor) -> bytes:
    cursor.skip_space()
    at = cursor.at
    word = cursor.parse_name("the mode of a shuffle")
    if word != _ROTATE:
        raise cursor.error(f"expected the mode {_ROTATE}, found {word!r}", at=at, expected=_ROTATE, found=word)
    return FIELDS.message("shuffle_mode", xla.ShuffleMode(rotate=xla.ShuffleMode.Rotate()))


def _read_shifts(cursor: HloCursor) -> bytes:
    shifts = cursor.parse_list(cursor.parse_int)
    return FIELDS.message("shuffle_mode", xla.ShuffleMode(rotate=xla.ShuffleMode.Rotate(shifts=shifts)))


def _write_mode(message: xla.HloInstructionProto, _context: Context) -> str:
    return f", mode={_ROTATE}" if message.shuffle_mode.HasField("rotate") else ""


def _write_shifts(message: xla.HloInstructionProto, _context: Context) -> str:
    mode = message.shuffle_mode
    return f", shifts={ints(mode.rotate.shifts)}" if mode.HasField("rotate") else ""


def _get_mode(instruction: xla.HloInstructionProto) -> str | None:
    return _ROTATE if instruction.shuffle_mode.HasField("rotate") else None


def _put_mode(instruction: xla.HloInstructionProto, value: Any) -> None:
    if value is None:
        instruction.shuffle_mode.ClearField("rotate")
    elif value != _ROTATE:
        raise ValueError("no mode of a shuffle")
    else:
        instruction.shuffle_mode.rotate.SetInParent()


SHUFFLE_KIND: Final = Attribute("mode", _read_mode, _write_mode, Codec(_get_mode, _put_mode, f"the mode {_ROTATE}"))
_SHIFTS: Final = list_value("shifts", owners=("shuffle_mode", "rotate"))


def _put_shifts(instruction: xla.HloInstructionProto, value: Any) -> None:
    _SHIFTS.put(instruction, value)
    if value is not None:
        instruction.shuffle_mode.rotate.SetInParent()


SHIFTS: Final = Attribute("shifts", _read_shifts, _write_shifts, _SHIFTS._replace(put=_put_shifts))
