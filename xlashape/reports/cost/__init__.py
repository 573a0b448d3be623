"""The report `cost`: how much a program calculates and moves. It gives FLOPs, transcendental functions and bytes of
each instruction, and the least time that it takes on a chip.

xla_traffic  bytes as XLA's HloCostAnalysis counts them
arithmetic   FLOPs and transcendentals of an instruction
mlir_bytecode the operations, attributes and types of a Pallas kernel
kernel_blocks the arrays that a Pallas kernel holds in VMEM, and how often it moves them
kernel_flops what a Pallas kernel calculates
custom_calls FLOPs of custom calls: what is stated or counted, and models that users extend
traffic      bytes read and written, each once, with padding and by memory space
targets      chips: peaks and bandwidths as published
links        the links between devices as published, and the least time of a collective on them
program      every executed instruction, how often it runs, and the sums
report       the declaration of the report, its answer `Cost`, and the function `cost`
"""

from xlashape.reports.cost.arithmetic import Arithmetic
from xlashape.reports.cost.custom_calls import MODELS
from xlashape.reports.cost.report import REPORT, Cost, InstructionCost, cost
from xlashape.reports.cost.targets import CHIPS, Chip

__all__ = ["CHIPS", "MODELS", "REPORT", "Arithmetic", "Chip", "Cost", "InstructionCost", "cost"]
