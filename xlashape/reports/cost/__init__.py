"""How much a program calculates and moves: FLOPs, transcendental functions and bytes of each instruction, and the least
time on a chip.

xla_traffic  bytes as XLA's HloCostAnalysis counts them
arithmetic   FLOPs and transcendentals of an instruction
traffic      bytes read and written, each once, with padding and by memory space
targets      chips: peaks and bandwidths as published
program      every executed instruction, how often it runs, and the sums
report       the declaration, `Cost`, `cost`
"""

from xlashape.reports.cost.report import REPORT, Cost, InstructionCost, cost
from xlashape.reports.cost.targets import CHIPS, Chip

__all__ = ["CHIPS", "REPORT", "Chip", "Cost", "InstructionCost", "cost"]
