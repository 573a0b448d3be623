"""What a call of a Pallas kernel for TPUs moves and holds: the blocks of its operands and results, and how often each
block is moved.

A kernel runs once for each step of its grid, the last dimension fastest. A function of the step, an index map, says for
each operand and result which block of it the step works on. Before the step that block is copied into VMEM, or after
the step out of it, unless the step before, or after, works on the same block. While a block is used the next one is
copied, so that a block takes its VMEM twice, but for a block that stays for the whole grid and one that is declared to
be held once.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from xlashape.base.math import product
from xlashape.errors import XlashapeError
from xlashape.hlo import HloInstruction, Opcode
from xlashape.limits import check, spend
from xlashape.reports.cost.mlir_bytecode import Bytecode, MlirOperation
from xlashape.shape import Shape, shape_util

_MOST_BYTES: Final = 1 << 26
_MOST_STEPS: Final = 1 << 21
"""Of a grid whose steps are looked at one by one; larger ones take longer than the rest of the report."""
_COPIED: Final = ("vmem", "smem")
"""The memories into which blocks are copied before a kernel uses them. It copies itself from others."""


class KernelBlocks(NamedTuple):
    """The arrays that a kernel holds in VMEM at a time, and what it moves between them and its operands and results."""

    grid: tuple[int, ...]
    """How many steps it takes along each dimension; empty where it takes one, where that is known at run time only, and
    for more than 2²¹ along a dimension."""
    blocks: tuple[Shape, ...]
    """Parts of its operands and results."""
    scratch: tuple[Shape, ...]
    size: int
    """The bytes of VMEM that these take."""
    moved: tuple[int, ...]
    """How many elements of each operand, then of each result, are moved."""
    is_known: bool
    """Whether this is known of all of them. Else it is the least for a block whose index depends on data, and each
    element once for an array that the kernel copies itself.
    """
    repeated: tuple[tuple[int, ...], ...]
    """Of each operand, then of each result: the dimensions of the grid along which all of its blocks are moved again in
    each step, since the block does not depend on them, and does on a dimension that runs faster.
    """


class _Moved(NamedTuple):
    """How many elements of an array are moved, whether this is known, whether more than one block is, and along which
    dimensions of the grid the same blocks are again."""

    elements: int
    is_known: bool
    changes: bool
    repeated: tuple[int, ...] = ()


def kernel_blocks(call: HloInstruction) -> KernelBlocks | None:
    """The blocks of a call of a Pallas kernel; None for other instructions, and where the call does not say them."""
    if call.opcode is not Opcode.CUSTOM_CALL or call.kind.message.custom_call_target != "tpu_custom_call":
        return None
    operands = tuple([operand.shape for operand in call.operands])
    # A kind has one shape of the result, and any operands.
    return call.kind.fact(("kernel_blocks", operands), lambda kind: (_read(call, operands),))[0]


def bytecode_of(call: HloInstruction) -> Bytecode:
    """The code of a kernel. Raises LookupError, TypeError or ValueError where the call does not have it."""
    body = json.loads(call.kind.message.backend_config)["custom_call_config"]["body"]
    check("bytes of a kernel", len(body), _MOST_BYTES)
    spend(len(body) >> 4)
    return Bytecode(base64.b64decode(body))


def grid_of(code: Bytecode, kernel: MlirOperation) -> list[int]:
    """The steps of a kernel along each dimension of its grid; ValueError where they are known at run time only, and for
    more than 2²¹ along a dimension."""
    grid = code.attributes(kernel).get("iteration_bounds", [])
    if not is_static(grid):
        raise ValueError("a grid of a size that is not known")
    return grid


def is_static(grid: list[int]) -> bool:
    """Whether the size of a grid is known, and not too large; one that is known at run time only is negative."""
    return all(0 < size <= _MOST_STEPS for size in grid)


def _read(call: HloInstruction, operands: tuple[Shape, ...]) -> KernelBlocks | None:
    arrays = [*operands, *[leaf for leaf in call.shape.leaves() if leaf.is_array]]
    try:
        code = bytecode_of(call)
        held = code.kernel_arrays()
        grid, moved = _moved(code, arrays, [space for _, space in held[: len(arrays)]])
        blocks = [(shape, each) for (shape, space), each in zip(held, moved, strict=False) if space == "vmem"]
        scratch = [shape for shape, space in held[len(arrays) :] if space == "vmem"]
        sizes = [shape_util.byte_size_of(shape) * (2 if each.changes else 1) for shape, each in blocks]
        size = sum([*sizes, *map(shape_util.byte_size_of, scratch)])
    except (ValueError, TypeError, ArithmeticError, LookupError, RecursionError, AttributeError, XlashapeError):
        return None
    shapes = tuple([shape for shape, _ in blocks])
    counts, repeated = tuple([each.elements for each in moved]), tuple([each.repeated for each in moved])
    return KernelBlocks(grid, shapes, tuple(scratch), size, counts, all(each.is_known for each in moved), repeated)


def _moved(code: Bytecode, arrays: list[Shape], spaces: list[str]) -> tuple[tuple[int, ...], list[_Moved]]:
    """The grid, and what is moved of each of the operands and results of the call."""
    functions: dict[Any, MlirOperation] = {}
    kernel: dict[Any, Any] = {}
    for operation in code.operations()[0].blocks[0].operations:
        said = code.attributes(operation)
        functions[said["sym_name"]] = operation
        kernel = said if "scalar_prefetch" in said else kernel
    grid, windows = kernel.get("iteration_bounds", []), kernel.get("window_params", [])
    is_known = is_static(grid)
    moved = [
        _Moved(product(shape.dimensions), is_known and space in _COPIED, not is_known)
        for shape, space in zip(arrays, spaces, strict=True)
    ]
    # Operands that only index maps read have no window.
    for number, window in enumerate(windows, len(arrays) - len(windows)):
        if is_known and window and moved[number].elements:
            indices = _indices(code, functions[window["transform_indices"]], grid)
            moved[number] = _window(moved[number], arrays[number].dimensions, window, indices, grid)
    return tuple(grid) if is_known else (), moved


def _window(
    whole: _Moved, bounds: tuple[int, ...], window: dict[str, Any], indices: list[Any], grid: list[int]
) -> _Moved:
    """What is moved of an array through a window. `indices` are those of the block, as `_indices` gives them."""
    sizes = window["window_bounds"]
    is_known, is_element = all(index is not None for index in indices), "window_kind" in window
    last = [0 if is_element else (bound - 1) // size for bound, size in zip(bounds, sizes, strict=True)]
    known = [smallest if index is None else index for index, smallest in zip(indices, last, strict=True)]
    shape = np.broadcast_shapes(*[np.shape(index) for index in known])
    depends = max([number for number, size in enumerate(shape, 1) if size > 1], default=0)
    steps = (*grid[:depends], *[1] * (len(shape) - depends))
    if product(steps) > _MOST_STEPS:
        return whole._replace(is_known=False, changes=True)
    spend(product(steps) >> 4)
    begins, elements = np.arange(product(steps)) == 0, np.ones(product(steps), np.int64)
    for index, size, bound in zip(known, sizes, bounds, strict=True):
        each = np.broadcast_to(index, steps).ravel()
        begins[1:] |= each[1:] != each[:-1]
        start = each if is_element else each * size
        elements *= np.clip(start + size, 0, bound) - np.clip(start, 0, bound)
    changes = bool(begins.sum() > 1) or not is_known
    is_held_once = "synchronous" in window.get("pipeline_mode", "")
    of_grid = zip(grid[:depends], shape, strict=False)
    repeated = tuple([number for number, (size, own) in enumerate(of_grid) if size > 1 and own == 1 and is_known])
    return _Moved(int(elements[begins].sum()), is_known, changes and not is_held_once, repeated)


def _indices(code: Bytecode, function: MlirOperation, grid: list[int]) -> list[Any]:
    """The results of an index map for all steps of the grid, as arrays with a dimension for each of the grid that the
    result depends on, and one element along the others; None for results that depend on data.
    """
    (block,) = function.blocks
    values: dict[int, Any] = dict(zip(block.arguments, np.ogrid[tuple([slice(size) for size in grid])], strict=False))
    for operation in block.operations:
        operands = [values.get(each) for each in operation.operands]
        if plain_name(operation) == "func.return":
            return operands
        values |= dict.fromkeys(operation.results, value_of(code, operation, operands))
    raise ValueError("a function without end")


def plain_name(operation: MlirOperation) -> str:
    """The name of an operation without the prefix that a kernel which is kept gives to all of them."""
    return operation.name.removeprefix("stable_mosaic.")


def value_of(code: Bytecode, operation: MlirOperation, operands: list[Any]) -> Any:
    """The value of an operation on integers; None for other operations and of values that are not known."""
    name, attributes = plain_name(operation).removeprefix("arith."), code.attributes(operation)
    if name == "constant":
        number = attributes["value"]
        return np.int64(number) if isinstance(number, int) else None
    if name == "cmpi":
        name = f"cmpi {attributes['predicate']}"
    function = _OPERATIONS.get(name)
    if function is None or any(each is None for each in operands):
        return None
    steps = product(np.broadcast_shapes(*[np.shape(each) for each in operands]))
    if steps > _MOST_STEPS:
        return None
    spend(steps >> 4)
    with np.errstate(over="ignore"):
        return function(*operands)


def _quotient(a: Any, b: Any) -> Any:
    """The quotient of integers, rounded toward 0; None where a divisor is 0."""
    return np.sign(a) * np.sign(b) * (abs(a) // abs(b)) if np.all(b) else None


def _remainder(a: Any, b: Any) -> Any:
    return a - b * _quotient(a, b) if np.all(b) else None


def _extended(a: Any) -> Any:
    """A number of more bits. None for negative ones, whose bits were those of other numbers without a sign."""
    return np.asarray(a, np.int64) if np.all(a >= 0) else None


_OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    "addi": np.add, "subi": np.subtract, "muli": np.multiply,
    "divsi": _quotient, "remsi": _remainder,
    "minsi": np.minimum, "maxsi": np.maximum,
    "andi": np.bitwise_and, "ori": np.bitwise_or, "xori": np.bitwise_xor,
    "shli": np.left_shift, "shrsi": np.right_shift,
    "cmpi 0": np.equal, "cmpi 1": np.not_equal,
    "cmpi 2": np.less, "cmpi 3": np.less_equal, "cmpi 4": np.greater, "cmpi 5": np.greater_equal,
    "select": np.where,
    "index_cast": np.asarray, "extui": _extended,
}  # fmt: skip
