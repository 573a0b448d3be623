"""Wrong arguments of `tiling.pack` and `tiling.unpack`."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import numpy as np
import pytest

from xlashape.errors import (
    InvalidArgumentError,
    InvalidIndexError,
    InvalidShapeError,
    LimitExceededError,
    SizeOverflowError,
    UnavailableError,
)
from xlashape.shape import Layout, Shape, tiling

pytest.importorskip("ml_dtypes", reason="element types that NumPy lacks come from ml_dtypes")


# -- what comes in --------------------------------------------------------------------------

SHAPE = Shape.parse("s32[3,5]{1,0:T(2,2)}")
VALUES = np.arange(15, dtype=np.int32).reshape(3, 5)


# -- wrong input ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (VALUES.T, "takes an array of its dimensions, found one of [5,3]"),
        (VALUES.ravel(), "takes an array of its dimensions, found one of [15]"),
        (np.int32(3), "takes an array of its dimensions, found one of []"),
        (None, "takes an array of its dimensions, found one of []"),
        ([[1, 2], [3]], "found rows of different lengths"),
        (VALUES.astype(np.int64), "takes values of int32, found int64"),
        (VALUES.astype(np.uint32), "takes values of int32, found uint32"),
        (VALUES.astype(np.float32), "takes values of int32, found float32"),
        (VALUES.astype(object), "takes values of int32, found object"),
        ([[0.5] * 5] * 3, "takes values of int32, found float64"),
        ([[1 << 31] * 5] * 3, "takes values of int32, found int64"),
        ([[1 << 80] * 5] * 3, "takes values of int32, found object"),
        ([[1j] * 5] * 3, "takes values of int32, found complex128"),
        ([["x"] * 5] * 3, "takes values of int32, found str"),
        ([[float("nan")] * 5] * 3, "takes values of int32, found float64"),
    ],
)
def test_wrong_arrays(values: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        tiling.pack(SHAPE, values)
    assert message in str(caught.value)
    assert caught.value.field == "array"


@pytest.mark.parametrize(
    ("text", "fill"),
    [
        ("u8[1]{0:T(2)}", 256),
        ("u8[1]{0:T(2)}", -1),
        ("u64[1]{0:T(2)}", -1),
        ("s4[1]{0:T(2)}", 8),
        ("s32[1]{0:T(2)}", 0.5),
        ("s32[1]{0:T(2)}", float("nan")),
        ("f32[1]{0:T(2)}", 1j),
        ("f32[1]{0:T(2)}", [1.0]),
        ("f32[1]{0:T(2)}", "1"),
        ("f32[1]{0:T(2)}", [[1], [1, 2]]),
        ("pred[1]{0:T(2)}", 2),
    ],
)
def test_wrong_fill(text: str, fill: Any) -> None:
    shape = Shape.parse(text)
    with pytest.raises(InvalidArgumentError, match=f"fill takes a value of {shape.element_type.text}, found"):
        tiling.pack(shape, np.zeros(1, shape.element_type.numpy_dtype()), fill=fill)


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        (b"", "has 96 bytes, found 0"),
        (bytes(95), "has 96 bytes, found 95"),
        (bytes(97), "has 96 bytes, found 97"),
        (np.zeros(96, np.int32), "has 96 bytes, found 384"),
        ("text", "expected the bytes of a buffer, found str"),
        (None, "expected the bytes of a buffer, found NoneType"),
        ([1, 2], "expected the bytes of a buffer, found list"),
        (np.zeros(12, object), "expected the bytes of a buffer, found ndarray"),
    ],
)
def test_wrong_buffers(buffer: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        tiling.unpack(SHAPE, buffer)
    assert message in str(caught.value)
    assert caught.value.field == "buffer"


def test_no_arrays_and_sizes_beyond_reason() -> None:
    for text in ("(f32[2])", "token[]"):
        with pytest.raises(InvalidShapeError, match="expected an array"):
            tiling.pack(Shape.parse(text), [])
        with pytest.raises(InvalidShapeError, match="expected an array"):
            tiling.unpack(Shape.parse(text), b"")
    with pytest.raises(InvalidShapeError, match="unbounded"):
        tiling.unpack(Shape.parse("f32[?]"), b"")
    with pytest.raises(LimitExceededError, match="does not fit in memory"):
        tiling.pack(Shape.array("f32", (1,), Layout((0,), [(1 << 60,)])), [1.0])
    with pytest.raises(SizeOverflowError):
        tiling.pack(Shape.array("f32", (1,), Layout((0,), [(1 << 62,)])), [1.0])
    assert issubclass(InvalidIndexError, IndexError)


def test_without_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **keywords: Any) -> Any:
        if name == "ml_dtypes":
            raise ImportError(name)
        return real(name, *arguments, **keywords)

    monkeypatch.delitem(sys.modules, "ml_dtypes", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UnavailableError, match=r"pip install .xlashape\[ml-dtypes\]"):
        tiling.unpack(Shape.parse("bf16[2]"), bytes(4))
    assert tiling.unpack(Shape.parse("f32[1]"), bytes(4)).tolist() == [0.0]
