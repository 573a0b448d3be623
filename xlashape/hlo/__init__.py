"""HLO modules: views over HloModuleProto, and their text both ways."""

from xlashape.hlo.config import ModuleConfig
from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.ops.opcode import Opcode

__all__ = ["HloComputation", "HloInstruction", "HloModule", "ModuleConfig", "Opcode"]
