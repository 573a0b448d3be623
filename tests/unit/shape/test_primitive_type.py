"""Element types: numbers of the schema, spellings, widths, NumPy counterparts."""

from __future__ import annotations

import numpy as np
import pytest

from xlashape.errors import InvalidArgumentError, ParseError, UnavailableError
from xlashape.proto import xla
from xlashape.shape import PrimitiveType

ARRAYS = [kind for kind in PrimitiveType if kind.is_array_type]


def test_numbers_are_those_of_the_schema() -> None:
    ours, theirs = {(kind.name, int(kind)) for kind in PrimitiveType}, set(xla.PrimitiveType.items())
    assert theirs - ours == set(), "no row in xlashape/shape/parts/primitive_type.py has these names and numbers"
    assert ours - theirs == set(), "protos/xla/xla_data.proto does not have these"


def test_text() -> None:
    for kind in PrimitiveType:
        assert PrimitiveType.parse(kind.text) is kind
        assert str(kind) == f"{kind}" == kind.text
        assert PrimitiveType.of(kind) is PrimitiveType.of(kind.text) is PrimitiveType.of(int(kind)) is kind
    assert f"{PrimitiveType.F32:>5}" == "  f32"


def test_kinds() -> None:
    def spelled(name: str) -> str:
        return " ".join([kind.text for kind in PrimitiveType if getattr(kind, name)])

    assert spelled("is_signed_integral") == "s1 s2 s4 s8 s16 s32 s64"
    assert spelled("is_unsigned_integral") == "u1 u2 u4 u8 u16 u32 u64"
    assert spelled("is_integral") == spelled("is_signed_integral") + " " + spelled("is_unsigned_integral")
    assert spelled("is_complex") == "c64 c128"
    assert spelled("is_floating") == (
        "f16 f32 bf16 f64 f8e5m2 f8e4m3 f8e4m3fn f8e4m3b11fnuz f8e3m4 f8e5m2fnuz f8e4m3fnuz f4e2m1fn f8e8m0fnu "
        "f6e3m2fn f6e2m3fn"
    )
    assert spelled("is_signed") == spelled("is_signed_integral") + " " + spelled("is_floating")
    assert {kind.text for kind in PrimitiveType if not kind.is_array_type} == {
        "invalid",
        "tuple",
        "opaque",
        "token",
        "buffer",
    }


def test_rows_are_whole() -> None:
    """What a row of the table must have besides its number and spelling."""
    for kind in PrimitiveType:
        assert kind.is_array_type == bool(kind.bit_width) == bool(kind.numpy_name), f"{kind}: bits, and NumPy's type"
        is_float = kind.is_floating or kind.is_complex
        assert is_float == (kind.float_format is not None), f"{kind}: a float has a format, nothing else has"
        if kind.float_format is not None:
            assert kind.bit_width == max(8, kind.float_format.bits) * (1 + kind.is_complex) or kind.bit_width < 8
        if kind.is_array_type:
            assert f"{kind}s" in xla.LiteralProto.DESCRIPTOR.fields_by_name, f"{kind}: the field of LiteralProto"


def test_a_type_without_a_counterpart_in_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PrimitiveType.F8E3M4, "numpy_name", "")
    with pytest.raises(UnavailableError, match="f8e3m4 has no counterpart in NumPy"):
        PrimitiveType.F8E3M4.numpy_dtype()


def test_numpy_types() -> None:
    pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    for kind in ARRAYS:
        try:
            dtype = kind.numpy_dtype()
        except UnavailableError:
            assert kind.text in ("s1", "u1")  # newer than the oldest ml_dtypes that will do
            continue
        assert dtype.itemsize == max(1, kind.bit_width // 8)
        assert PrimitiveType.from_numpy(dtype) is kind
    assert PrimitiveType.from_numpy(np.float32) is PrimitiveType.F32
    assert PrimitiveType.from_numpy(bool) is PrimitiveType.PRED


@pytest.mark.parametrize("text", ["F32", "f33", "", "float32", "f32 ", "\0", "x" * 10_000, None, 11])
def test_what_is_no_spelling(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        PrimitiveType.parse(text)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("value", [99, -1, 2.5, None, object(), 10**30, []])
def test_what_is_no_type(value: int) -> None:
    with pytest.raises(InvalidArgumentError):
        PrimitiveType.of(value)


@pytest.mark.parametrize("dtype", ["datetime64[s]", "O", "S3", ">i4", "no type", object(), "float128"])
def test_what_is_no_numpy_type(dtype: object) -> None:
    with pytest.raises(InvalidArgumentError):
        PrimitiveType.from_numpy(dtype)


def test_what_has_no_numpy_type() -> None:
    with pytest.raises(InvalidArgumentError):
        PrimitiveType.TOKEN.numpy_dtype()
