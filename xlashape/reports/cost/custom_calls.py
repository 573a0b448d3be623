"""What custom calls calculate: what a kernel states, what the configuration of a library's call says, and what a model
of the target says.

`MODELS` has models by target, and takes more: a function from the call to what one execution of it calculates, or to
None where that is not known. Calls that cost the same for certain are asked about once.

>>> from xlashape.reports.cost import MODELS, Arithmetic, cost
>>> MODELS["my_kernel"] = lambda call: Arithmetic(flops=3 * call.shape.dimensions[0], is_stated=True)
>>> cost('ENTRY e { p = f32[8] parameter(0)  ROOT c = f32[8] custom-call(p), custom_call_target="my_kernel" }').flops
24
>>> del MODELS["my_kernel"]
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from math import isqrt
from typing import Any, Final, TypeAlias, cast

from xlashape.base.math import product
from xlashape.hlo import HloInstruction
from xlashape.reports.cost.arithmetic import NOTHING, UNKNOWN, Arithmetic, convolution_flops, dot_flops, elements
from xlashape.reports.cost.kernel_flops import kernel_arithmetic
from xlashape.reports.cost.xla_traffic import WITHOUT_DATA
from xlashape.shape import Shape

Model: TypeAlias = Callable[[HloInstruction], "Arithmetic | None"]

MODELS: dict[str, Model] = {}
"""Target → what a call of it calculates."""
_ATTRIBUTE: Final = re.compile(r"\b([a-z_]{1,40}) = (\d{1,18}) :")
"""A number in the configuration of a typed call: `attn_heads = 16 : i64`."""


def models(*targets: str) -> Callable[[Model], Model]:
    """Registers the model of custom calls."""

    def register(function: Model) -> Model:
        MODELS.update(dict.fromkeys(targets, function))
        return function

    return register


_CONVOLUTIONS: Final = tuple(f"__cudnn$conv{each}" for each in ("Forward", "BiasActivationForward", "ForwardGraph"))
_MARKS: Final = frozenset(
    (
        *WITHOUT_DATA,
        "AssumeGatherIndicesInBound",
        "AsyncCollectiveDone",
        "AsyncCollectiveStart",
        "ConcatBitcast",
        "GatherScatterIndicesBitpacked",
    )
)
"""The targets by which TPU compilers get, join or name arrays. Those that begin with `X64` split and join numbers."""


def custom_call(instruction: HloInstruction, *, as_xla: bool) -> Arithmetic:
    """What one execution of a custom call calculates, so far as the call says it or `MODELS` has its target."""
    details = instruction.details
    if not as_xla:
        return _custom_call(instruction)
    if details.custom_call_target == "tpu_custom_call":
        return _stated(_json(details.backend_config)) or NOTHING
    return NOTHING if details.custom_call_target == WITHOUT_DATA[0] else Arithmetic(-1)


def _stated(config: Any) -> Arithmetic | None:
    """What a kernel states as its cost in its configuration, as Pallas writes it; None where it states none."""
    stated = _found(config, "cost_estimate")
    flops, transcendentals = _number(_found(stated, "flops")), _number(_found(stated, "transcendentals"))
    return None if flops is None else Arithmetic(flops, transcendentals or 0, is_stated=True)


def _custom_call(instruction: HloInstruction) -> Arithmetic:
    """What the model of its target says, or what a kernel states as its cost; else the FLOPs of a matrix product, a
    convolution or an attention of a GPU library; not known of other custom calls.
    """
    details = instruction.details
    target, config = details.custom_call_target, _json(details.backend_config)
    if target in _MARKS or target.startswith("X64"):
        return NOTHING
    model = MODELS.get(target)
    stated = _stated(config) if model is None else model(instruction) or UNKNOWN
    if stated is not None:
        return stated
    if target == "tpu_custom_call":
        return kernel_arithmetic(instruction) or UNKNOWN
    results = [leaf for leaf in instruction.shape.leaves() if leaf.is_array]
    operands = [operand.shape for operand in instruction.operands]
    if len(operands) < 2 or not results:
        return UNKNOWN
    try:
        if target.startswith(("__cublas$", "__triton_gemm")):
            contracting = _numbers(_found(config, "dot_dimension_numbers"), "lhs_contracting_dimensions")
            return Arithmetic(dot_flops(operands[0], contracting, results[0]))
        if target.startswith("__cudnn$fmha"):
            return Arithmetic(_attention_flops(config, operands, results), is_stated=True)
        image, kernel, result = operands[0], operands[1], results[0]
        if target == "__cudnn$convBackwardInput":
            image, result = result, image
        elif target == "__cudnn$convBackwardFilter":
            kernel, result = result, kernel
        elif target not in _CONVOLUTIONS:
            return UNKNOWN
        return Arithmetic(convolution_flops(details, image, kernel, result))
    except LookupError:
        return UNKNOWN


def _attention_flops(config: Any, operands: list[Shape], results: list[Shape]) -> int:
    """The FLOPs of the products that the configuration of a cuDNN attention names: 2 for each product that is added up.
    Raises LookupError where the configuration names none.

    Each product has an element of the scores for each pair of a query and a key, of `intermediate_tensor_shape`, and
    the size of a head: that of queries for `bmm1…`, that of values for `bmm2…`. What a mask leaves out counts.
    """
    held: Any = _found(config, "cudnn_fmha_backend_config")
    scores = _numbers(_found(held, "intermediate_tensor_shape"), "dimensions")
    heads = [elements(operands[0]), elements(results[0] if "bmm1_dot_dimension_numbers" in held else operands[4])]
    products = [str(name)[:4] for name in held if str(name).endswith("_dot_dimension_numbers")]
    sizes = [heads[name == "bmm2"] for name in products]
    if not sizes:
        raise LookupError
    return 2 * scores[-1] * sum(sizes)


# -- Transformer Engine ---------------------------------------------------------------------


@models("te_gemm_ffi", "te_gemm_v2_ffi")
def _te_gemm(call: HloInstruction) -> Arithmetic | None:
    """A matrix product of operands 0 and 2, each followed by its scales. With m × k and k × n elements in them and
    m × n in the result, the product of the three numbers is (m · n · k)². A product with batches is not known.
    """
    results = [leaf for leaf in call.shape.leaves() if leaf.is_array]
    arrays = [call.operands[number].shape for number in (0, 2) if number < len(call.operands)]
    if len(arrays) < 2 or not results:
        return None
    left, right, result = elements(arrays[0]), elements(arrays[1]), elements(results[0])
    products = isqrt(left * right * result)
    if products**2 != left * right * result or not result or products % result:
        return None
    depth = products // result
    return Arithmetic(2 * products, is_stated=True) if all(_ends_with(each, depth) for each in arrays) else None


def _ends_with(array: Shape, depth: int) -> bool:
    """Whether the last or the first dimensions of an array have `depth` elements together."""
    sizes = array.dimensions
    return any(depth in (product(sizes[number:]), product(sizes[:number])) for number in range(len(sizes) + 1))


@models("te_fused_attn_forward_ffi", "te_fused_attn_backward_ffi")
def _te_attention(call: HloInstruction) -> Arithmetic | None:
    """An attention, whose configuration has the numbers of its dimensions. Forward, there is a product for the scores
    and one for the values; backward, the scores again, and two for each of both. What a mask leaves out counts.
    """
    said = dict(_ATTRIBUTE.findall(call.details.backend_config.decode("utf-8", "replace")))
    found = [said.get(name) for name in ("input_batch", "attn_heads", "q_max_seqlen", "kv_max_seqlen")]
    head = said.get("qk_head_dim") or said.get("head_dim")
    if head is None or None in found:
        return None
    keys, values = int(head), int(said.get("v_head_dim") or head)
    sizes = 3 * keys + 2 * values if "backward" in call.details.custom_call_target else keys + values
    return Arithmetic(2 * product([int(number) for number in found if number]) * sizes, is_stated=True)


# -- configurations -------------------------------------------------------------------------


def stated_bytes(call: HloInstruction) -> int | None:
    """The bytes that a kernel states to read and write; None where it states none."""
    return _number(_found(_found(_json(call.details.backend_config), "cost_estimate"), "bytes_accessed"))


def _numbers(value: Any, name: str) -> list[int]:
    """The numbers in a list of a JSON object. Raises LookupError where there is no such list."""
    found = _found(value, name)
    if not isinstance(found, list):
        raise LookupError
    return [number for each in cast("list[Any]", found) if (number := _number(each)) is not None]


def _number(value: Any) -> int | None:
    """A number of a JSON object, which may be written as text; None for anything else."""
    text = "" if isinstance(value, bool) else str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None


def _json(config: bytes) -> Any:
    try:
        return json.loads(config)
    except (ValueError, RecursionError):
        return None


def _found(value: Any, name: str) -> Any:
    """The value of the key `name` in a JSON object, or in one of the objects that are its values; None where there is
    none.
    """
    if not isinstance(value, dict):
        return None
    members = cast("dict[str, Any]", value)
    if name in members:
        return members[name]
    held = [cast("dict[str, Any]", each)[name] for each in members.values() if isinstance(each, dict) and name in each]
    return held[0] if held else None
