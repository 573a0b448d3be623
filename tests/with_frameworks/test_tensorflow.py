"""Functions of TensorFlow, models of Keras and tensors of PyTorch/XLA; each test is skipped without the framework."""

from __future__ import annotations

import numpy as np
import pytest

import xlashape as xs


def test_functions_of_tensorflow() -> None:
    tf = pytest.importorskip("tensorflow")
    x, y = tf.ones((4, 8)), tf.ones((8, 2))
    function = tf.function(lambda x, y: x @ y)
    concrete = function.get_concrete_function(x, y)
    specs = [tf.TensorSpec((4, 8)), tf.TensorSpec((8, 2))]
    signed = tf.function(lambda x, y: x @ y, input_signature=specs)
    for given in (
        (function, x, y),
        (function, *specs),
        (tf.function(lambda x, y: x @ y, jit_compile=True), x, y),
        (concrete,),
        (signed,),
    ):
        assert xs.cost(*given).flops == 2 * 4 * 8 * 2, given
        assert [str(each.shape.dimensions) for each in xs.HloModule.of(*given).entry.parameters] == ["(4, 8)", "(8, 2)"]
    assert len(xs.reads(function, x, y)) == 2
    with pytest.raises(xs.errors.InvalidArgumentError, match="TensorFlow gives no HLO of this function"):
        xs.cost(tf.function(lambda text: tf.strings.length(text)), tf.constant("a"))


def test_models_of_keras() -> None:
    keras = pytest.importorskip("keras")
    if keras.backend.backend() not in ("jax", "tensorflow"):
        pytest.skip("Keras runs on another backend")
    model = keras.Sequential([keras.layers.Dense(4, activation="relu"), keras.layers.Dense(2)])
    model.build((3, 8))
    products = 2 * 3 * (8 * 4 + 4 * 2)
    added = 3 * 4 * 2 + 3 * 2  # the biases, and relu
    assert xs.cost(model, np.ones((3, 8), np.float32)).flops == products + added
    assert len(xs.reads(model, np.ones((3, 8), np.float32))) > 2
    with pytest.raises(xs.errors.InvalidArgumentError, match="pass the model, and them"):
        xs.HloModule.of(model)


def test_tensors_of_torch_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    torch_xla = pytest.importorskip("torch_xla")
    x, y = (torch.ones(sizes, device=torch_xla.device()) for sizes in ((4, 8), (8, 2)))
    product = x @ y
    for given in (product, [product], (product, x)):
        assert xs.cost(given).flops == 2 * 4 * 8 * 2
