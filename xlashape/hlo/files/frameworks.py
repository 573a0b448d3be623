"""Asks TensorFlow, Keras and PyTorch/XLA for the HLO of their objects.

No library is imported: the object shows which one it is of, and that one is loaded already.

    object                                                  known by                       asked
    tf.function, a function of a SavedModel                 experimental_get_compiler_ir   that, as `jit_compile=True`
    ConcreteFunction of TensorFlow                          structured_input_signature     the same
    Keras model on TensorFlow                               stateless_call                 the same
    Keras model on JAX                                      stateless_call                 jax.jit(model.stateless_call)
    tensor of PyTorch/XLA, or a list of them                device.type == "xla"           _get_xla_tensors_hlo
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

from xlashape.errors import InvalidArgumentError


def program_of_framework(
    value: Any, args: Sequence[Any], kwargs: Mapping[str, Any], *, optimized: bool = False
) -> Any | None:
    """What has the HLO of an object of another framework: bytes, text, or a Lowered of JAX; None for other objects.
    `args` and `kwargs` are the arguments of a function, as tensors, arrays or TensorSpecs; where a function has a
    signature, it needs none. `optimized` asks for the module that XLA has optimized.

    Errors of the function are raised as they are. Raises InvalidArgumentError where the framework gives no HLO.
    """
    held: Any = value
    tensors: list[Any] = [*cast("list[Any]", value)] if isinstance(value, (list, tuple)) else [held]
    if tensors and all(getattr(getattr(each, "device", None), "type", None) == "xla" for each in tensors):
        return sys.modules["torch_xla"]._XLAC._get_xla_tensors_hlo(tensors)
    is_model = callable(getattr(held, "stateless_call", None)) and "keras" in sys.modules
    backend = sys.modules["keras"].backend.backend() if is_model else "tensorflow"
    if isinstance(held, type) or not (
        is_model or hasattr(held, "experimental_get_compiler_ir") or hasattr(held, "structured_input_signature")
    ):
        return None
    if is_model and not args and not kwargs:
        raise InvalidArgumentError(
            "a model of Keras is lowered with its inputs: pass the model, and them", field="args"
        )
    if backend == "jax":
        states = [[each.value for each in kind] for kind in (held.trainable_variables, held.non_trainable_variables)]
        return sys.modules["jax"].jit(held.stateless_call, static_argnames=[*kwargs]).lower(*states, *args, **kwargs)
    if backend != "tensorflow":
        raise InvalidArgumentError(f"a model of Keras on {backend} has no HLO: Keras uses XLA on jax and tensorflow")
    if not args and not kwargs:
        args, kwargs = getattr(held, "structured_input_signature", None) or (held.input_signature or (), {})
    ask = sys.modules["tensorflow"].function(held, jit_compile=True).experimental_get_compiler_ir(*args, **kwargs)
    try:
        return ask(stage="optimized_hlo_proto_serialized" if optimized else "hlo_serialized")
    except ValueError as error:
        reason = str(error).strip().partition("\n")[0][:300]
        raise InvalidArgumentError(f"TensorFlow gives no HLO of this function: {reason}", field="value") from error
