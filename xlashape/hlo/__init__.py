"""HLO modules: views over HloModuleProto, and their text both ways."""

from xlashape.hlo.computation import HloComputation
from xlashape.hlo.config import ModuleConfig
from xlashape.hlo.instruction import HloInstruction
from xlashape.hlo.module import HloModule
from xlashape.hlo.ops.opcode import Opcode

__all__ = ["HloComputation", "HloInstruction", "HloModule", "ModuleConfig", "Opcode"]
