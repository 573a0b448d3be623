"""What a Pallas kernel for TPUs calculates: the operations on vectors in its body, each as often as it runs.

The body runs once for each step of the grid. A branch runs in the steps in which its condition holds, and a loop as
often as its bounds say; both are known where they follow from the number of the step. Matrix products count 2 for each
product that is added up, all other arithmetic 1 an element, and functions such as `exp` are transcendental.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from xlashape.base.math import product
from xlashape.errors import XlashapeError
from xlashape.hlo import HloInstruction
from xlashape.limits import spend
from xlashape.reports.cost.arithmetic import NOTHING, Arithmetic
from xlashape.reports.cost.kernel_blocks import bytecode_of, grid_of, plain_name, value_of
from xlashape.reports.cost.mlir_bytecode import Bytecode, MlirBlock, MlirOperation

_CONTRACTING: Final = re.compile(r"#tpu\.dot_dimension_numbers<\[([\d, ]{0,40})\]")
"""The dimensions of the left operand that a matrix product adds up, the first part of its numbers of dimensions."""
_WITHOUT_DATA: Final = frozenset({"cf.assert", "scf.yield", "func.return", "arith.constant", "arith.bitcast"})
_MOVING: Final = frozenset(
    (
        "bitcast broadcast create_mask extract extract_strided_slice insert insert_strided_slice load shape_cast splat "
        "store transpose vector_load vector_store strided_load strided_store shuffled_load shuffled_store "
        "memref_slice memref_squeeze memref_reshape memref_bitcast erase_memref_layout reinterpret_cast "
        "enqueue_dma enqueue_indirect_dma wait_dma wait_dma2 wait_indirect_dma iota rotate dynamic_rotate gather "
        "dynamic_gather reshape concatenate repeat bitcast_vreg mask_cast pack_subelements unpack_subelements "
        "sem_alloc sem_signal sem_wait sem_read delay assume_multiple device_id trace trace_start trace_stop "
        "prng_set_seed_32 relayout step"
    ).split()
)
"""Operations of `vector`, `tpu` and `memref` that compute nothing."""
_FUNCTIONS: Final = frozenset(
    (
        "acos acosh asin asinh atan atan2 atanh cbrt cos cosh erf exp exp2 expm1 log log10 log1p log2 powf rsqrt sin "
        "sinh sqrt tan tanh"
    ).split()
)
"""Operations of `math` that are transcendental."""


def kernel_arithmetic(call: HloInstruction) -> Arithmetic | None:
    """What a call of a Pallas kernel calculates; None where the call does not say it, or it depends on data."""
    return call.kind.fact("kernel_arithmetic", lambda kind: (_read(call),))[0]


def _read(call: HloInstruction) -> Arithmetic | None:
    try:
        code = bytecode_of(call)
        functions = code.operations()[0].blocks[0].operations
        (kernel,) = [each for each in functions if "scalar_prefetch" in code.attributes(each)]
        grid = grid_of(code, kernel)
        spend(product(grid) >> 4)
        indices = np.ogrid[tuple([slice(size) for size in grid])] if grid else ()
        return _Counter(code, grid).of_block(kernel.blocks[0], indices, np.int64(1))
    except (ValueError, TypeError, ArithmeticError, LookupError, RecursionError, AttributeError, XlashapeError):
        return None


class _Counter:
    """Counts what blocks calculate. ValueError where that is not known."""

    def __init__(self, code: Bytecode, grid: list[int]) -> None:
        self._code, self._steps = code, product(grid)
        self._values: dict[int, Any] = {}
        """What is known of integers, as arrays over the steps of the grid."""
        self._shapes: dict[int, list[int] | None] = {}

    def of_block(self, block: MlirBlock, known: Iterable[Any], runs: Any) -> Arithmetic:
        """What a block calculates whose first arguments are `known`, and which runs so often in each step."""
        self._values |= dict.fromkeys(block.arguments) | dict(zip(block.arguments, known, strict=False))
        total = NOTHING
        for operation in block.operations:
            self._shapes |= {
                value: self._code.vector(each) for value, each in zip(operation.results, operation.types, strict=True)
            }
            operands = [self._values.get(each) for each in operation.operands]
            is_nested = bool(operation.blocks)
            value = None if is_nested else value_of(self._code, operation, operands)
            self._values |= dict.fromkeys(operation.results, value)
            once = self._nested(operation, operands, runs) if is_nested else self._times(self._once(operation), runs)
            total = total.plus(once)
        return total

    def _times(self, once: Arithmetic, runs: Any) -> Arithmetic:
        if once == NOTHING:
            return NOTHING
        return once.times(int(np.sum(runs)) * (self._steps // np.size(runs)))

    def _nested(self, operation: MlirOperation, operands: list[Any], runs: Any) -> Arithmetic:
        """What the blocks inside a branch or a loop calculate."""
        name = plain_name(operation)
        blocks = operation.blocks
        if name == "tpu.region":
            return self.of_block(blocks[0], (), runs)
        if name == "scf.if":
            holds = None if operands[0] is None else np.asarray(operands[0], np.int64)
            times = [None, None] if holds is None else [runs * holds, runs * (1 - holds)]
        elif name == "scf.for":
            begin, end, step = operands[:3]
            is_known = all(each is not None for each in operands[:3])
            times = [runs * np.maximum(0, -((begin - end) // step)) if is_known else None]
        else:
            times = [None] * len(blocks)
        total = NOTHING
        for block, count in zip(blocks, times, strict=False):
            found = self.of_block(block, (), runs if count is None else count)
            if count is None and found != NOTHING:
                raise ValueError("how often a block runs depends on data")
            total = total.plus(found)
        return total

    def _once(self, operation: MlirOperation) -> Arithmetic:
        """What one execution of an operation calculates."""
        dialect, _, name = plain_name(operation).partition(".")
        shapes = [self._shapes.get(each) for each in operation.results]
        elements = product(shapes[0]) if shapes and shapes[0] is not None else 0
        if f"{dialect}.{name}" in _WITHOUT_DATA or (dialect in ("vector", "tpu", "memref") and name in _MOVING):
            return NOTHING
        if dialect == "math":
            return Arithmetic(0, elements) if name in _FUNCTIONS else Arithmetic(elements)
        if dialect == "arith" or f"{dialect}.{name}" in ("tpu.reciprocal", "tpu.truncf", "tpu.extf", "tpu.fptosi"):
            return Arithmetic(elements)
        if f"{dialect}.{name}" == "tpu.matmul":
            left = self._shapes[operation.operands[0]] or []
            added = _CONTRACTING.match(self._code.attributes(operation)["dimension_numbers"])
            if added is None:
                raise ValueError("a product without dimensions that are added up")
            return Arithmetic(2 * elements * product([left[int(each)] for each in added[1].split(",") if each.strip()]))
        if f"{dialect}.{name}" == "vector.multi_reduction":
            return Arithmetic(max(0, product(self._shapes[operation.operands[0]] or []) - max(1, elements)))
        raise ValueError(f"{dialect}.{name} is not known")
