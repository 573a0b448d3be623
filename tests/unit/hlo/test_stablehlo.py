"""StableHLO by way of jaxlib, and what is said where jaxlib does not convert it or is not there."""

from __future__ import annotations

import io
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import xlashape as xs
from xlashape.cli import main
from xlashape.errors import DecodeError, LimitExceededError
from xlashape.hlo.files import stablehlo


def _product(
    rows: int, inner: int, columns: int, head: str = "module @jit_f attributes {mhlo.num_replicas = 1 : i32}"
) -> str:
    x, y, z = (f"tensor<{a}x{b}xf32>" for a, b in ((rows, inner), (inner, columns), (rows, columns)))
    return f"""{head} {{
  func.func public @main(%arg0: {x}, %arg1: {y}) -> {z} {{
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : ({x}, {y}) -> {z}
    return %0 : {z}
  }}
}}
"""


def _bytecode(text: str) -> bytes:
    jax = pytest.importorskip("jaxlib._jax", reason="it makes bytecode of StableHLO")
    return jax.mlir.serialize_portable_artifact(text, "1.9.0")


def test_text_and_bytecode_are_converted(tmp_path: Path) -> None:
    pytest.importorskip("jaxlib")
    heads = ("module", "#loc1 = loc(unknown)\n// a note\nmodule @jit_f attributes {}")
    texts = [_product(*sizes, head) for sizes, head in zip(((2, 3, 5), (70, 11, 13)), heads, strict=True)]
    path = tmp_path / "bytecode"
    path.write_bytes(_bytecode(texts[1]))
    given = [(texts[0], 60), (io.BytesIO(texts[0].encode()), 60), (texts[1].encode(), 20_020), (path, 20_020)]
    for value, flops in given:
        module = xs.HloModule.of(value)
        assert xs.cost(module).flops == flops
        assert module.notes[0].startswith("The module is what jaxlib ") and module.notes[0].endswith(" of StableHLO.")
    for ask in (xs.memory, xs.why):  # these two look into a file themselves
        assert module.notes[0] in ask(path).notes
    assert "f32[70,13]" in CliRunner().invoke(main, ["convert", str(path), "-"]).stdout


def test_what_jaxlib_does_not_convert_is_refused() -> None:
    pytest.importorskip("jaxlib")
    whole = _bytecode(_product(2, 3, 4))
    deep = _product(2, 3, 4).replace("tensor<2x3xf32>", "tuple<" * 300_000 + "tensor<2x3xf32>", 1)  # ends its process
    for given in (deep, "module {\n  foo.bar\n}\n", whole[:-7], b"ML\xefR" + bytes(50)):
        with pytest.raises(DecodeError, match="MLIR that jaxlib .* does not make HLO: "):
            xs.HloModule.of(given)


def test_without_jaxlib_it_is_said_how(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(stablehlo, "version", missing)
    asked: tuple[Any, ...] = (xs.HloModule.of, xs.memory, xs.cost, xs.why, xs.reads, xs.copies)
    for ask in asked:
        with pytest.raises(DecodeError, match=r"pip install jaxlib, .*\.mlir_module_to_xla_computation\(stablehlo\)"):
            ask(_product(2, 3, 4))


def test_it_has_a_bound_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jaxlib")
    monkeypatch.setattr(stablehlo, "_MOST_SECONDS", 0.001)
    with pytest.raises(LimitExceededError, match=r"takes more than 0.001 s to make HLO"):
        xs.HloModule.of(_product(2, 3, 4))


def test_an_exported_in_a_file_is_found() -> None:
    mlir = b"ML\xefR\rStableHLO_v1.0.0\0" + bytes(range(200))
    buffer = b"\x40\0\0\0" + bytes(300) + len(mlir).to_bytes(4, "little") + mlir + bytes(40)
    assert stablehlo.stablehlo_in(buffer) == mlir
    assert stablehlo.stablehlo_in(b"\x0a\x03m.1" + mlir) is None
