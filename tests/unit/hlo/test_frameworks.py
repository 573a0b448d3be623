"""Which objects of other frameworks are asked for their HLO, and how, with stand-ins for them. The frameworks
themselves are in tests/with_frameworks."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

import xlashape as xs

TEXT = "HloModule m\nENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }"


def test_tensorflow_is_asked_for_the_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def function(value: Any, *, jit_compile: bool) -> Any:
        def ir(*args: Any, **kwargs: Any) -> Any:
            return lambda stage: (
                asked.append((value, jit_compile, args, kwargs, stage)) or xs.HloModule.parse(TEXT).to_bytes()
            )

        return SimpleNamespace(experimental_get_compiler_ir=ir)

    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(function=function))
    signed = SimpleNamespace(structured_input_signature=(("spec",), {"y": "other"}))
    plain = SimpleNamespace(experimental_get_compiler_ir=None, input_signature=None)
    assert xs.cost(signed).flops == xs.cost(plain, 3, y=4).flops == 8
    xs.copies(plain, 5)
    assert asked == [
        (signed, True, ("spec",), {"y": "other"}, "hlo_serialized"),
        (plain, True, (3,), {"y": 4}, "hlo_serialized"),
        (plain, True, (5,), {}, "optimized_hlo_proto_serialized"),
    ]


def test_keras_on_torch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = SimpleNamespace(backend=lambda: "torch")
    monkeypatch.setitem(sys.modules, "keras", SimpleNamespace(backend=backend))
    with pytest.raises(xs.errors.InvalidArgumentError, match="a model of Keras on torch has no HLO"):
        xs.HloModule.of(SimpleNamespace(stateless_call=len), 3)


def test_tensors_on_xla_are_asked_together(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs: list[Any] = []
    client = SimpleNamespace(_get_xla_tensors_hlo=lambda tensors: graphs.append(tensors) or TEXT)
    monkeypatch.setitem(sys.modules, "torch_xla", SimpleNamespace(_XLAC=client))
    one, two = (SimpleNamespace(device=SimpleNamespace(type="xla")) for _ in range(2))
    assert xs.cost(one).flops == xs.cost([one, two]).flops == xs.cost((two,)).flops == 8
    assert graphs == [[one], [one, two], [two]]
    with pytest.raises(xs.errors.InvalidArgumentError, match="holds no module"):
        xs.HloModule.of(SimpleNamespace(device=SimpleNamespace(type="cuda")))
