"""`HloModule.of`: files, text and bytes, and stand-ins with the attributes that JAX's objects have.

The objects of JAX itself are in tests/with_jax, which runs beside several versions of it.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from xlashape.errors import InvalidArgumentError, XlashapeError
from xlashape.hlo import HloModule
from xlashape.proto import xla

TEXT = "HloModule m\nENTRY e { p = f32[4] parameter(0)  ROOT n = f32[4] negate(p) }\n"
MODULE = HloModule.parse(TEXT)
DATA = MODULE.to_bytes()


def _raising(error: Exception) -> Callable[..., Any]:
    def call(*_: object) -> Any:
        raise error

    return call


THEIRS = SimpleNamespace(name="m", as_serialized_hlo_module_proto=lambda: DATA)
LOWERED = SimpleNamespace(compiler_ir=lambda dialect: THEIRS if dialect == "hlo" else object())
EXECUTABLE = SimpleNamespace(hlo_modules=lambda: [THEIRS])


@pytest.mark.parametrize(
    "value",
    [
        THEIRS,
        LOWERED,
        EXECUTABLE,
        SimpleNamespace(runtime_executable=lambda: EXECUTABLE),
        SimpleNamespace(runtime_executable=_raising(RuntimeError("UNIMPLEMENTED")), as_text=lambda: TEXT),
        SimpleNamespace(lower=lambda: LOWERED),
        [THEIRS],
        (LOWERED,),
        DATA,
        bytearray(DATA),
        memoryview(DATA),
        TEXT,
        TEXT.replace("\n", " "),
        TEXT.partition("\n")[2],
        MODULE.proto,
        xla.HloProto(hlo_module=MODULE.proto),
        io.StringIO(TEXT),
        io.BytesIO(TEXT.encode()),
        io.BytesIO(DATA),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_holds_a_module(value: object):
    module = HloModule.of(value)
    assert [instruction.name for instruction in module.entry.instructions] == ["p", "n"]


def test_modules_are_not_copied_and_messages_are():
    assert HloModule.of(MODULE) is MODULE
    proto = MODULE.proto
    module = HloModule.of(proto)
    proto.name = "other"
    assert (module.name, module.proto) == ("m", MODULE.proto)


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "HloModule {1} = 2.hlo.pb.gz"  # a file counts as one, whatever its name looks like
    MODULE.save(path)
    for value in (path, str(path), path.open("rb"), os.fdopen(os.open(path, os.O_RDONLY), "rb")):
        assert HloModule.of(value).to_text() == MODULE.to_text()
        getattr(value, "close", lambda: None)()
    monkeypatch.chdir(tmp_path)
    assert HloModule.of(path.name).name == "m"


def test_a_jitted_function_is_lowered_with_its_arguments():
    calls: list[tuple[object, ...]] = []

    def lower(*args: object, **kwargs: object) -> object:
        calls.append((args, kwargs))
        return LOWERED

    assert HloModule.of(SimpleNamespace(lower=lower), 1, flag=True).name == "m"
    assert calls == [((1,), {"flag": True})]
    with pytest.raises(ZeroDivisionError):  # a mistake of the function, in its own words
        HloModule.of(SimpleNamespace(lower=_raising(ZeroDivisionError())), 1)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "the text is empty: pass a Lowered or Compiled"),
        ("no such file.hlo", "there is no file 'no such file.hlo'"),
        ("f32[3,5]", r"there is no file 'f32\[3,5\]', and the text is a shape: `size` and `why` take shapes"),
        ("HloModule m {", "line 1, column 13"),
        ("module @jit_f {\n}\n", "this is (MLIR that jaxlib .* does not make HLO|StableHLO, which jaxlib makes HLO)"),
        (b"ML\xefR\x01", "this is (MLIR that jaxlib .* does not make HLO|StableHLO, which jaxlib makes HLO)"),
        ([], "the list holds no module: pass a Lowered"),
        ([THEIRS, THEIRS], r"the list holds 2 values \(m, m\): HloModule.all_of gives the module of each"),
        ([[THEIRS]], r"the list holds 1 values \(list\)"),
        (None, "a value of type NoneType holds no module: pass a Lowered"),
        (str, "the class str holds no module"),
        (len, r"a function that was not jitted: pass jax.jit\(f\).lower\(…\)"),
        (MODULE.entry.root, "<HloInstruction 'n': negate> is a part of module 'm': pass its module"),
        (MODULE.entry, "<HloComputation 'e': 2 instructions> is a part of module 'm'"),
        (SimpleNamespace(compiler_ir=lambda dialect: None), r"this Lowered does not give its HLO: pass what it compiles to: HloModule.of\(lowered.compile\(\)\)"),
        (SimpleNamespace(compiler_ir=_raising(RuntimeError("INTERNAL: no\nmore"))), r"this Lowered does not give its HLO \(INTERNAL: no\): pass what it compiles to"),
        (SimpleNamespace(runtime_executable=_raising(RuntimeError("x")), as_text=lambda: None), "this Compiled does not give its HLO: dump it with XLA_FLAGS"),
        (SimpleNamespace(runtime_executable=_raising(RuntimeError("x")), as_text=_raising(RuntimeError("UNIMPLEMENTED"))), r"this Compiled does not give its HLO \(UNIMPLEMENTED\)"),
        (SimpleNamespace(hlo_modules=_raising(RuntimeError())), r"the executable does not give its modules \(RuntimeError\)"),
        (SimpleNamespace(lower=_raising(TypeError("f() missing 1 required positional argument: 'x'"))), "cannot be lowered without arguments: pass f.lower"),
        (SimpleNamespace(lower=lambda: 3), "a value of type int holds no module"),
        (SimpleNamespace(operation=1, body=2), "the module of MLIR cannot be serialized"),
        (SimpleNamespace(mlir_module_serialized=b"", in_avals=[]), "the content is empty"),
        (SimpleNamespace(mlir_module_serialized=b"", in_avals=[SimpleNamespace(shape=("b", 8))]), "sizes that are symbols, such as .*: pass it with arguments"),
        (SimpleNamespace(jaxpr=1), r"is not HLO yet: pass jax.jit\(f\).lower\(…\)"),
        (SimpleNamespace(read=_raising(ValueError("I/O operation on closed file"))), "cannot read the file: I/O operation on closed file"),
        (io.TextIOWrapper(io.BytesIO(b"\x1f\x8b\xff"), encoding="utf-8"), "the file is not text: open it with mode 'rb'"),
    ],
)  # fmt: skip
def test_what_holds_none(value: object, message: str):
    with pytest.raises(XlashapeError, match=message):
        HloModule.of(value)


@pytest.mark.parametrize("value", [b"", bytearray(), io.BytesIO(), io.StringIO("")])
def test_empty_content_is_called_empty(value: object):
    with pytest.raises(XlashapeError, match=r"the content is empty$"):
        HloModule.of(value)


def test_an_empty_file_is_named(tmp_path: Path):
    (tmp_path / "empty.hlo").touch()
    with pytest.raises(XlashapeError, match=r"empty\.hlo is empty$"):
        HloModule.load(tmp_path / "empty.hlo")


def test_arguments_are_for_functions():
    for value in (MODULE, MODULE.proto, DATA, LOWERED):
        with pytest.raises(XlashapeError, match="takes no arguments: only a jitted function is lowered with some"):
            HloModule.of(value, 1)


def test_all_modules_of_what_holds_several(tmp_path: Path) -> None:
    text = "HloModule {} ENTRY e {{ ROOT p = f32[4] parameter(0) }}"
    ours = HloModule.parse(text.format("ours"))
    assert HloModule.of([ours]) is ours
    assert [module.name for module in HloModule.all_of([ours, text.format("b"), [THEIRS]])] == ["ours", "b", "m"]
    assert HloModule.all_of([]) == ()
    assert HloModule.all_of(ours) == (ours,)
    assert [module.name for module in HloModule.all_of(SimpleNamespace(hlo_modules=lambda: [THEIRS, THEIRS]))] == [
        "m",
        "m",
    ]
    executable = SimpleNamespace(hlo_modules=lambda: [THEIRS, THEIRS, THEIRS])
    compiled = SimpleNamespace(runtime_executable=lambda: executable, as_text=lambda: text.format("c"))
    assert len(HloModule.all_of(compiled)) == 3
    with pytest.raises(InvalidArgumentError, match="HloModule.all_of gives the module of each"):
        HloModule.of(compiled)
    for name in ("one", "two"):
        HloModule.parse(text.format(name)).save(tmp_path / f"{name}.hlo")
    (tmp_path / "notes.md").write_text("no module")
    assert sorted(module.name for module in HloModule.all_of(tmp_path)) == ["one", "two"]
    assert [module.name for module in HloModule.all_of(str(tmp_path / "one.hlo"))] == ["one"]
    with pytest.raises(InvalidArgumentError, match="takes no arguments"):
        HloModule.all_of(tmp_path, 3)


def test_an_empty_path_is_told() -> None:
    with pytest.raises(InvalidArgumentError, match="the path is empty: pass the name of a file"):
        HloModule.load("")
