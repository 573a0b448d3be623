"""HLO modules: views over HloModuleProto, their text both ways, and what can be asked of them and changed in them.

    HloModule, HloComputation, HloInstruction   the views: load, parse, walk, print, write back
    Opcode, UnknownOpcode                       what an instruction does
    Sharding, ReplicaGroups                     which device holds which part of an array; which devices exchange data
    ModuleConfig                                what a module's text says and its proto cannot hold
    PrintOptions                                what `HloModule.to_text` shows
    Editor                                      rewrites, inserts, renames and removes instructions and computations
    check, verify, Problem                      whether a module follows XLA's rules
    convert                                     modules in files and streams of every format
    literal                                     literals: their text, their elements as bytes and as NumPy arrays

The files. Each imports only from those above it:

    formatting.py names and numbers as XLA prints them
    lex.py        the tokens of HLO text
    literal/      the elements of a LiteralProto
    values/       the values of attributes: read, written and made canonical
    ops/          what is true of each opcode
    config.py     ModuleConfig
    content.py    which kind of module some bytes hold
    older.py      what older versions of XLA wrote and the schema no longer has
    instruction_table.py  the table of a module's instructions
    dumps.py      files that hold modules among other things, and files that hold none
    structure.py  the ids of a module: unique, resolvable, free of cycles
    order.py      the order in which XLA numbers and prints
    async_chain.py where an asynchronous operation was started
    text/         reader/ from text to proto, writer/ from proto to text
    readable.py   protobuf text and JSON
    renumber.py   ids that an older XLA loads
    convert.py    files and streams
    objects.py    modules of other libraries' objects
    replica_groups.py, sharding.py ReplicaGroups, Sharding
    module.py     the views
    donation.py   outputs that take over the memory of parameters
    buffers.py    which results are buffers in memory
    annotation_rules.py, module_rules.py   rules of shardings and origins; rules of several instructions together
    async_rules.py, buffer_rules.py  rules of asynchronous operations and transfers; rules of buffers
    verifier.py   check, verify
    editing/      Editor
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from xlashape.hlo.config import ModuleConfig
from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.ops.opcode import Opcode, UnknownOpcode

if TYPE_CHECKING:
    from xlashape.hlo import convert as convert
    from xlashape.hlo import literal as literal
    from xlashape.hlo.editing.editor import Editor as Editor
    from xlashape.hlo.replica_groups import ReplicaGroups as ReplicaGroups
    from xlashape.hlo.sharding import Shard as Shard
    from xlashape.hlo.sharding import Sharding as Sharding
    from xlashape.hlo.text.writer.options import PrintOptions as PrintOptions
    from xlashape.hlo.verifier import Problem as Problem
    from xlashape.hlo.verifier import check as check
    from xlashape.hlo.verifier import verify as verify

# Imported on first use, for start-up time: name → the module it is in; a module where the second part is empty.
_LAZY: dict[str, tuple[str, str]] = {
    "Editor": ("xlashape.hlo.editing.editor", "Editor"),
    "PrintOptions": ("xlashape.hlo.text.writer.options", "PrintOptions"),
    "Problem": ("xlashape.hlo.verifier", "Problem"),
    "ReplicaGroups": ("xlashape.hlo.replica_groups", "ReplicaGroups"),
    "Shard": ("xlashape.hlo.sharding", "Shard"),
    "Sharding": ("xlashape.hlo.sharding", "Sharding"),
    "check": ("xlashape.hlo.verifier", "check"),
    "convert": ("xlashape.hlo.convert", ""),
    "literal": ("xlashape.hlo.literal", ""),
    "verify": ("xlashape.hlo.verifier", "verify"),
}

__all__ = [
    "Editor",
    "HloComputation",
    "HloInstruction",
    "HloModule",
    "ModuleConfig",
    "Opcode",
    "PrintOptions",
    "Problem",
    "ReplicaGroups",
    "Shard",
    "Sharding",
    "UnknownOpcode",
    "check",
    "convert",
    "literal",
    "verify",
]


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
