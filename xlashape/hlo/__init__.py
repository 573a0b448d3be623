"""HLO modules: the one form in which a module is held, read and edited; HLO text, files and the verifier.

    HloModule, HloComputation, HloInstruction   a module: load, parse, walk, print, edit, write back
    Opcode, UnknownOpcode                       the operation of an instruction
    Attributes                                  an instruction's attributes: numbers, texts, and the types below
    Window, WindowDimension, PaddingConfig, SliceDimension, ConvolutionDimensionNumbers, DotDimensionNumbers,
    RaggedDotDimensionNumbers, GatherDimensionNumbers, ScatterDimensionNumbers, SourceTarget   values of attributes
    Sharding, Shard, ReplicaGroups              which device holds which part of an array; which devices exchange data
    Metadata, Frame                             which lines of a program an instruction comes from
    ModuleConfig                                the part of a module's text that HloModuleProto has no field for
    PrintOptions                                what `HloModule.to_text` shows
    check, verify, Problem                      whether a module follows XLA's rules
    convert                                     modules in files and streams of every format
    literal                                     literals: their text, their elements as bytes and as NumPy arrays

These are the files and packages. Each imports only from those above it:

    tokens.py             the words of HLO text
    module_proto/         the ids, the order and the older schemas of an HloModuleProto
    literal/              the elements of a LiteralProto
    values/               the values of attributes: read, written and made canonical
    ops/                  a row for each opcode: its operands, attributes, calls, shape and rules
    kind.py               what instructions of a module share; what an instruction and a module say by themselves
    edit_methods.py       the methods of instructions and computations that edit
    ir.py                 the one form of a module: instructions, computations, the module
    serde.py              from bytes to this form, and back
    async_start.py        the start of an asynchronous operation
    instruction_table.py  the instructions of a module as a table
    flow/                 which array is which, what uses it, and which results are buffers of their own
    text/                 reader/ from text to this form, writer/ from this form to text
    collectives/          which instructions are collectives, of which devices, and what they move
    canonical/            the canonical form of a module, without names and ids, and the fingerprint made of it
    editing/              the edits of a module in place
    files/                files and streams of every format
    module.py             HloModule, which hands each question on to the files above
    analysis/             the graph and the text lines of a whole module
    verifier/             check, verify
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xlashape.hlo import literal as literal
    from xlashape.hlo.files import convert as convert
    from xlashape.hlo.module import HloComputation as HloComputation
    from xlashape.hlo.module import HloInstruction as HloInstruction
    from xlashape.hlo.module import HloModule as HloModule
    from xlashape.hlo.module_proto.module_config import ModuleConfig as ModuleConfig
    from xlashape.hlo.module_proto.stack_frames import Frame as Frame
    from xlashape.hlo.module_proto.stack_frames import Metadata as Metadata
    from xlashape.hlo.ops.instruction_attributes import Attributes as Attributes
    from xlashape.hlo.ops.opcode import Opcode as Opcode
    from xlashape.hlo.ops.opcode import UnknownOpcode as UnknownOpcode
    from xlashape.hlo.text.writer.printed_module import PrintOptions as PrintOptions
    from xlashape.hlo.values.dimension_numbers import ConvolutionDimensionNumbers as ConvolutionDimensionNumbers
    from xlashape.hlo.values.dimension_numbers import DotDimensionNumbers as DotDimensionNumbers
    from xlashape.hlo.values.dimension_numbers import GatherDimensionNumbers as GatherDimensionNumbers
    from xlashape.hlo.values.dimension_numbers import RaggedDotDimensionNumbers as RaggedDotDimensionNumbers
    from xlashape.hlo.values.dimension_numbers import ScatterDimensionNumbers as ScatterDimensionNumbers
    from xlashape.hlo.values.replica_groups import ReplicaGroups as ReplicaGroups
    from xlashape.hlo.values.replica_groups import SourceTarget as SourceTarget
    from xlashape.hlo.values.sharding import Shard as Shard
    from xlashape.hlo.values.sharding import Sharding as Sharding
    from xlashape.hlo.values.window import PaddingConfig as PaddingConfig
    from xlashape.hlo.values.window import SliceDimension as SliceDimension
    from xlashape.hlo.values.window import Window as Window
    from xlashape.hlo.values.window import WindowDimension as WindowDimension
    from xlashape.hlo.verifier import Problem as Problem
    from xlashape.hlo.verifier import check as check
    from xlashape.hlo.verifier import verify as verify

# Names that are imported on first use, for start-up time, by the module that has them.
_HOMES: dict[str, tuple[str, ...]] = {
    "xlashape.hlo.module": ("HloComputation", "HloInstruction", "HloModule"),
    "xlashape.hlo.module_proto.module_config": ("ModuleConfig",),
    "xlashape.hlo.module_proto.stack_frames": ("Frame", "Metadata"),
    "xlashape.hlo.ops.instruction_attributes": ("Attributes",),
    "xlashape.hlo.ops.opcode": ("Opcode", "UnknownOpcode"),
    "xlashape.hlo.text.writer.printed_module": ("PrintOptions",),
    "xlashape.hlo.values.dimension_numbers": (
        "ConvolutionDimensionNumbers",
        "DotDimensionNumbers",
        "GatherDimensionNumbers",
        "RaggedDotDimensionNumbers",
        "ScatterDimensionNumbers",
    ),
    "xlashape.hlo.values.replica_groups": ("ReplicaGroups", "SourceTarget"),
    "xlashape.hlo.values.sharding": ("Shard", "Sharding"),
    "xlashape.hlo.values.window": ("PaddingConfig", "SliceDimension", "Window", "WindowDimension"),
    "xlashape.hlo.verifier": ("Problem", "check", "verify"),
}
_MODULES = {"convert": "xlashape.hlo.files.convert", "literal": "xlashape.hlo.literal"}
_LAZY = {**_MODULES, **{name: home for home, names in _HOMES.items() for name in names}}

__all__ = [*_LAZY]  # pyright: ignore[reportUnsupportedDunderAll] - the table is above


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'xlashape.hlo' has no attribute {name!r}")
    module = import_module(_LAZY[name])
    globals()[name] = value = module if name in _MODULES else getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
