"""The Python client of the service.

from xlashape_client import Client

with Client("127.0.0.1:50051") as client:
    client.byte_size("bf16[20,300]{1,0:T(8,128)(2,1)}").padding_bytes
"""

from xlashape_client.client import Client
from xlashape_client.results import (
    Access,
    ByteTotals,
    Instruction,
    InstructionMaps,
    InstructionSize,
    Module,
    ReplicaIndexing,
    RuntimeVariable,
    ShapeDescription,
    ShapeSize,
    SimplifiedMap,
    TensorMaps,
)

__all__ = [
    "Access",
    "ByteTotals",
    "Client",
    "Instruction",
    "InstructionMaps",
    "InstructionSize",
    "Module",
    "ReplicaIndexing",
    "RuntimeVariable",
    "ShapeDescription",
    "ShapeSize",
    "SimplifiedMap",
    "TensorMaps",
]
