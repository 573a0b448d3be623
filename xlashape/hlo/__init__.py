"""HLO modules: views over HloModuleProto, their text both ways, and what can be asked of them and changed in them.

    HloModule, HloComputation, HloInstruction   the views: load, parse, walk, print, write back
    Opcode, UnknownOpcode                       what an instruction does
    Attributes                                  an instruction's attributes: numbers, texts, and the types that follow
    Window, WindowDimension, PaddingConfig, SliceDimension, ConvolutionDimensionNumbers, DotDimensionNumbers,
    RaggedDotDimensionNumbers, GatherDimensionNumbers, ScatterDimensionNumbers, SourceTarget   values of attributes
    Sharding, ReplicaGroups                     which device holds which part of an array; which devices exchange data
    Metadata, Frame                             which lines of a program an instruction comes from
    ModuleConfig                                what a module's text says and its proto cannot hold
    PrintOptions                                what `HloModule.to_text` shows
    Editor                                      rewrites, inserts, renames and removes instructions and computations
    check, verify, Problem                      whether a module follows XLA's rules
    convert                                     modules in files and streams of every format
    literal                                     literals: their text, their elements as bytes and as NumPy arrays

The rooms. Each imports only from those above it:

    tokens/        the words of HLO text
    module_proto/  what is asked of an HloModuleProto: ids, order, older schemas
    literal/       the elements of a LiteralProto
    values/        the values of attributes: read, written and made canonical
    ops/           what is true of each opcode
    text/          reader/ from text to proto, writer/ from proto to text
    files/         files and streams of every format
    canonical/     modules without the choices of whoever wrote them down, and their fingerprints
    module.py      the views
    analysis/      which results are buffers in memory
    verifier/      check, verify
    editing/       Editor
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.module_proto.module_config import ModuleConfig
from xlashape.hlo.ops.opcode import Opcode, UnknownOpcode

if TYPE_CHECKING:
    from xlashape.hlo import literal as literal
    from xlashape.hlo.editing.editor import Editor as Editor
    from xlashape.hlo.files import convert as convert
    from xlashape.hlo.module_proto.stack_frames import Frame as Frame
    from xlashape.hlo.module_proto.stack_frames import Metadata as Metadata
    from xlashape.hlo.ops.instruction_attributes import Attributes as Attributes
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

# Imported on first use, for start-up time: name → the module it is in; a module where the second part is empty.
_LAZY: dict[str, tuple[str, str]] = {
    "Attributes": ("xlashape.hlo.ops.instruction_attributes", "Attributes"),
    "ConvolutionDimensionNumbers": ("xlashape.hlo.values.dimension_numbers", "ConvolutionDimensionNumbers"),
    "DotDimensionNumbers": ("xlashape.hlo.values.dimension_numbers", "DotDimensionNumbers"),
    "Editor": ("xlashape.hlo.editing.editor", "Editor"),
    "Frame": ("xlashape.hlo.module_proto.stack_frames", "Frame"),
    "GatherDimensionNumbers": ("xlashape.hlo.values.dimension_numbers", "GatherDimensionNumbers"),
    "Metadata": ("xlashape.hlo.module_proto.stack_frames", "Metadata"),
    "PaddingConfig": ("xlashape.hlo.values.window", "PaddingConfig"),
    "PrintOptions": ("xlashape.hlo.text.writer.printed_module", "PrintOptions"),
    "Problem": ("xlashape.hlo.verifier", "Problem"),
    "RaggedDotDimensionNumbers": ("xlashape.hlo.values.dimension_numbers", "RaggedDotDimensionNumbers"),
    "ReplicaGroups": ("xlashape.hlo.values.replica_groups", "ReplicaGroups"),
    "ScatterDimensionNumbers": ("xlashape.hlo.values.dimension_numbers", "ScatterDimensionNumbers"),
    "Shard": ("xlashape.hlo.values.sharding", "Shard"),
    "Sharding": ("xlashape.hlo.values.sharding", "Sharding"),
    "SliceDimension": ("xlashape.hlo.values.window", "SliceDimension"),
    "SourceTarget": ("xlashape.hlo.values.replica_groups", "SourceTarget"),
    "Window": ("xlashape.hlo.values.window", "Window"),
    "WindowDimension": ("xlashape.hlo.values.window", "WindowDimension"),
    "check": ("xlashape.hlo.verifier", "check"),
    "convert": ("xlashape.hlo.files.convert", ""),
    "literal": ("xlashape.hlo.literal", ""),
    "verify": ("xlashape.hlo.verifier", "verify"),
}

__all__ = [*_LAZY, "HloComputation", "HloInstruction", "HloModule", "ModuleConfig", "Opcode", "UnknownOpcode"]  # pyright: ignore[reportUnsupportedDunderAll] - the table is above


def __getattr__(name: str) -> Any:
    try:
        home, attribute = _LAZY[name]
    except KeyError:
        raise AttributeError(f"module 'xlashape.hlo' has no attribute {name!r}") from None
    module = import_module(home)
    value = getattr(module, attribute) if attribute else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
