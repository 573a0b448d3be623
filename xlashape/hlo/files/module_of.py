"""Finds the module in an object of another library, in a file, in bytes or in text. `HloModule.of` uses `document_of`,
and `HloModule.all_of` uses `documents_of`.

No other library is imported: the kind of an object is recognised by an attribute that it has.

    object                                         known by                         module
    jaxlib's HloModule and XlaComputation          as_serialized_hlo_module_proto   that module
    jax.stages.Lowered                             compiler_ir                      its HLO, before XLA's optimisations
    jax.stages.Compiled                            runtime_executable               the module that XLA has optimised
    jaxlib's executables                           hlo_modules                      the module that XLA has optimised
    jax.stages.Traced, a jitted function           lower                            the module of the Lowered
    jax.export.Exported                            mlir_module_serialized           its StableHLO as HLO (stablehlo.py)
    a module of MLIR                               operation, body                  the same
    objects of TensorFlow, Keras, PyTorch/XLA      frameworks.py says               their HLO
    list or tuple with one of these                                                 the module of its member
    bytes, an open file (binary or text), a path                                    the module in the content
    text                                           a file's name, or no HLO         the module in that file
    other text                                                                      the module in the text

An object that holds no HLO (a jaxpr, a plain function) is refused, with a message that says what to pass instead.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from xlashape.errors import InvalidArgumentError
from xlashape.hlo.files.convert import Document, decode, modules, read, read_file
from xlashape.hlo.files.frameworks import program_of_framework
from xlashape.hlo.files.stablehlo import UNBOUNDED

_T = TypeVar("_T")

_TEXT = re.compile(r"\n|(?<!\]){| = |HloModule\s")  # braces behind ] are a layout, which a shape has too
_TAKEN = (
    "pass a Lowered or Compiled of JAX, an HloModule or XlaComputation of jaxlib, a message, bytes, HLO text, a "
    "path or an open file"
)


def document_of(value: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Document:
    """The module that an object holds. A jitted function is lowered with the arguments `args` and `kwargs`. Raises as
    `HloModule.of` does.
    """
    made = program_of_framework(value, args, kwargs or {})
    if made is not None:
        return document_of(made)
    lowered = _lower(value, args, kwargs or {})
    if lowered is not value:
        return _lowered(lowered)
    if isinstance(value, str):
        if not value:
            raise InvalidArgumentError(f"the text is empty: {_TAKEN}", field="value")
        return read_file(value) if is_path(value) else decode(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return decode(bytes(cast("bytes", value)))
    if isinstance(value, os.PathLike):
        return read_file(cast("os.PathLike[str]", value))
    if isinstance(value, (list, tuple)):
        return _only(cast("Sequence[Any]", value))
    if isinstance(value, type):
        raise InvalidArgumentError(f"the class {value.__name__} holds no module: {_TAKEN}", field="value")
    if callable(getattr(value, "read", None)):
        return _from_file(value)
    if callable(getattr(value, "as_serialized_hlo_module_proto", None)):
        return decode(_ask(value.as_serialized_hlo_module_proto, "the module cannot be serialized"))
    if callable(getattr(value, "compiler_ir", None)):
        return _lowered(value)
    if callable(getattr(value, "runtime_executable", None)):
        return _compiled(value)
    if callable(getattr(value, "hlo_modules", None)):
        return _only(_ask(value.hlo_modules, "the executable does not give its modules"))
    if hasattr(value, "mlir_module_serialized"):
        return _exported(value)
    if hasattr(value, "operation") and hasattr(value, "body"):
        return _of_mlir(value)
    raise InvalidArgumentError(_refusal(value), field="value")


def documents_of(value: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Iterator[Document]:
    """All modules that an executable, a file or a directory holds; for any other object the module of `document_of`."""
    is_class = isinstance(value, type)
    if isinstance(value, os.PathLike) or (isinstance(value, str) and value and is_path(value)):
        if args or kwargs:
            raise _no_arguments(cast("Any", value))
        for _, document in modules(cast("str | os.PathLike[str]", value)):
            yield document
    elif not is_class and not callable(getattr(value, "lower", None)) and _has_modules(value):
        if args or kwargs:
            raise _no_arguments(value)
        try:
            found = _modules_of(value)
        except Exception:  # some runtimes do not give modules; document_of then asks for text
            yield document_of(value)
            return
        for module in found:
            yield document_of(module)
    else:
        yield document_of(value, args, kwargs)


def _modules_of(executable: Any) -> Sequence[Any]:
    of_runtime: Any = getattr(executable, "runtime_executable", None)
    if of_runtime is not None:
        executable = of_runtime()
    return cast("Sequence[Any]", executable.hlo_modules())


def _has_modules(value: Any) -> bool:
    return callable(getattr(value, "runtime_executable", None)) or callable(getattr(value, "hlo_modules", None))


def compiled(value: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
    """Compiles a jitted function, a Traced or a Lowered with XLA, and returns the Compiled. Of a function of TensorFlow
    it returns the optimized module. Any other value is returned unchanged.

    Errors of the function and of the compiler are raised as they are. Raises InvalidArgumentError if there are
    arguments for a value that is not a function.
    """
    made = program_of_framework(value, args, kwargs or {}, optimized=True)
    if made is not None:
        return compiled(made)
    value = _lower(value, args, kwargs or {})
    compile_lowered = getattr(value, "compile", None) if hasattr(value, "compiler_ir") else None
    return compile_lowered() if callable(compile_lowered) else value


def _no_arguments(value: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"a value of type {type(value).__name__} takes no arguments: only a jitted function is lowered with some",
        field="args",
    )


def is_path(text: str) -> bool:
    """Whether text is the path of a file, and not a module. Text that cannot be HLO counts as a path even if there is
    no such file.
    """
    if _TEXT.search(text) is None:
        return True
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False  # the text is too long for a path, or has a null character


def _from_file(stream: Any) -> Document:
    """The module in a stream of bytes or of text."""
    try:
        start = stream.read(0)
        if isinstance(start, str):
            name = getattr(stream, "name", None)
            content = stream.read()
            return decode(content.encode("utf-8", "surrogatepass"), name if isinstance(name, str) else None)
    except UnicodeDecodeError:
        raise InvalidArgumentError("the file is not text: open it with mode 'rb'", field="value") from None
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError(f"cannot read the file: {error}", field="value") from error
    return read(stream)


def _lower(value: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The Lowered of a jitted function, a Traced, or an Exported with arguments; any other value as it is. Errors of
    the function itself are raised as they are. InvalidArgumentError for arguments of a value that takes none.
    """
    if (args or kwargs) and hasattr(value, "mlir_module_serialized"):
        value = sys.modules["jax"].jit(value.call)
    is_function = not isinstance(value, (type, str, bytes, bytearray)) and not hasattr(value, "compiler_ir")
    lower = getattr(value, "lower", None) if is_function else None
    if not callable(lower):
        if args or kwargs:
            raise _no_arguments(value)
        return value
    if args or kwargs:
        return lower(*args, **kwargs)
    try:
        return lower()
    except TypeError as error:
        name = getattr(value, "__name__", None) or type(value).__name__
        raise InvalidArgumentError(
            f"{name} cannot be lowered without arguments: pass f.lower(…) or f.lower(…).compile(), ShapeDtypeStructs "
            f"will do; {error}",
            field="args",
        ) from error


def _lowered(lowered: Any) -> Document:
    """The module of a Lowered of JAX."""
    what = "this Lowered does not give its HLO"
    remedy = "pass what it compiles to: HloModule.of(lowered.compile())"
    if not callable(getattr(lowered, "compiler_ir", None)):
        raise InvalidArgumentError(_refusal(lowered), field="value")
    computation = _ask(lambda: lowered.compiler_ir("hlo"), what, remedy)
    serialize = getattr(computation, "as_serialized_hlo_module_proto", None)
    if not callable(serialize):
        raise InvalidArgumentError(f"{what}: {remedy}", field="value")
    module = cast("bytes", _ask(serialize, what, remedy))
    # JAX finds out the sizes within an Exported that is called when it compiles.
    return _of_mlir(lowered.compiler_ir()) if UNBOUNDED in module else decode(module)


def _compiled(compiled: Any) -> Document:
    """The module of a Compiled of JAX."""
    try:
        modules = compiled.runtime_executable().hlo_modules()
    except Exception as error:  # some runtimes give no modules, but text
        text = _ask(compiled.as_text, "this Compiled does not give its HLO")
        if not isinstance(text, str):
            raise InvalidArgumentError(
                "this Compiled does not give its HLO: dump it with XLA_FLAGS=--xla_dump_to=DIR and load the file",
                field="value",
            ) from error
        return decode(text.encode())
    return _only(modules)


def _of_mlir(module: Any) -> Document:
    """The module of a module of MLIR."""
    bytecode = io.BytesIO()
    _ask(lambda: module.operation.write_bytecode(bytecode), "the module of MLIR cannot be serialized")
    return decode(bytecode.getvalue())


def _exported(exported: Any) -> Document:
    """The module of an Exported of JAX."""
    symbolic = [aval.shape for aval in exported.in_avals if not all(isinstance(size, int) for size in aval.shape)]
    if symbolic:
        raise InvalidArgumentError(
            f"this Exported has sizes that are symbols, such as {symbolic[0]}: pass it with arguments, such as "
            "ShapeDtypeStructs",
            field="args",
        )
    return decode(exported.mlir_module_serialized)


def _only(values: Sequence[Any]) -> Document:
    """The module of the only member of a list. Raises InvalidArgumentError for a list of another length."""
    if len(values) == 1 and not isinstance(values[0], (list, tuple)):
        return document_of(values[0])
    names = [str(getattr(value, "name", type(value).__name__)) for value in values[:8]]
    held = f"{len(values)} values ({', '.join(names)}{', …' if len(values) > 8 else ''})" if values else "no module"
    remedy = ": HloModule.all_of gives the module of each" if values else f": {_TAKEN}"
    raise InvalidArgumentError(f"the list holds {held}{remedy}", field="value")


def _ask(question: Callable[[], _T], what: str, remedy: str = _TAKEN) -> _T:
    """Calls a function of another library. Any exception becomes an InvalidArgumentError of one sentence."""
    try:
        return question()
    except Exception as error:
        reason = str(error).strip().partition("\n")[0][:300] or type(error).__name__
        raise InvalidArgumentError(f"{what} ({reason}): {remedy}", field="value") from error


def _refusal(value: Any) -> str:
    """The message for an object that holds no HLO, which says what to pass instead."""
    name = type(value).__name__
    if hasattr(value, "eqns") or hasattr(value, "jaxpr"):
        return f"a {name} is not HLO yet: pass jax.jit(f).lower(…), or what that compiles to"
    if callable(value):
        return (
            f"a value of type {name} is a function that was not jitted: pass jax.jit(f).lower(…), or jax.jit(f) "
            "and its arguments"
        )
    return f"a value of type {name} holds no module: {_TAKEN}"
