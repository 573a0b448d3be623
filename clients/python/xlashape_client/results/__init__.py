"""The results of the client's methods: values of the library, and named tuples of them.

shapes    sizes and descriptions of shapes
modules   stored modules, their instructions and bytes
indexing  maps, reads and tiles of instructions
"""

from xlashape_client.results.indexing import (
    Access,
    CoalescedAccess,
    InstructionMaps,
    InstructionReads,
    InstructionTiles,
    OperandReads,
    OperandTile,
    ReplicaIndexing,
    RuntimeVariable,
    SimplifiedMap,
    SymbolicTile,
    TensorMaps,
    Tile,
)
from xlashape_client.results.modules import ByteTotals, Instruction, InstructionSize, Module
from xlashape_client.results.shapes import ShapeDescription, ShapeSize

__all__ = [
    "Access",
    "ByteTotals",
    "CoalescedAccess",
    "Instruction",
    "InstructionMaps",
    "InstructionReads",
    "InstructionSize",
    "InstructionTiles",
    "Module",
    "OperandReads",
    "OperandTile",
    "ReplicaIndexing",
    "RuntimeVariable",
    "ShapeDescription",
    "ShapeSize",
    "SimplifiedMap",
    "SymbolicTile",
    "TensorMaps",
    "Tile",
]
