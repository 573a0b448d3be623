"""Every attribute of xlashape.hlo.values writes what it reads."""

import importlib
import pkgutil
from collections.abc import Iterator, Sequence

import pytest

from xlashape.errors import ParseError, XlashapeError
from xlashape.hlo import values
from xlashape.hlo.tokens import HloCursor
from xlashape.hlo.values.attribute import Attribute, not_written
from xlashape.hlo.values.window import WINDOW, Window
from xlashape.proto import xla
from xlashape.shape import Shape

# A value of each attribute, as it is written. Several where the attribute has several forms.
VALUES = {
    "OUTPUT_TO_OPERAND_ALIASING": ["{{}: (0, {})}", "{{1}: (0, {2}), {0}: (1, {})}"],
    "COMPARISON_ORDER": ["TOTAL"],
    "DIRECTION": ["EQ", "LT"],
    "DIM_LABELS": ["b01f_01io->b01f", "bf_io->bf", "b0?f_0io->b0f"],
    "DIM_LABELS_IF_ANY": ["b01f_01io->b01f"],
    "API_VERSION": ["API_VERSION_TYPED_FFI", "unknown_77"],
    "CONVOLUTION_KIND": ["dgrad", "unknown_77"],
    "CUSTOM_CALL_SCHEDULE": ["SCHEDULE_EARLIEST", "unknown_77"],
    "DISTRIBUTION": ["rng_uniform", "unknown_77"],
    "FFT_TYPE": ["IRFFT", "unknown_77"],
    "IS_ASSOCIATIVE": ["true", "false", "unknown_77"],
    "PADDING_TYPE": ["PADDING_SAME", "unknown_77"],
    "RNG_ALGORITHM": ["rng_philox", "unknown_77"],
    "TRANSPOSE_A": ["NO_TRANSPOSE", "unknown_77"],
    "BACKEND_CONFIG": ['"a\\"b"', '{"a":{"b":"}"}}'],
    "FRONTEND_ATTRIBUTES": ['{a="x",b={"c":1}}'],
    "ORIGIN": ['{(),[""]}', '{{"a"},["f/g"]}', '{{"a"}}', '{({"a" {1,0}}, ({"b"}, {}))}'],
    "PADDING": ["0_1", "0_1_2x-3_4_0"],
    "CHANNEL_ID": ["7"],
    "CROSS_PROGRAM_PREFETCH_INDEX": ["0", "3"],
    "CUSTOM_CALL_TARGET": ['"t"', '"a\\n\\303\\251"'],
    "EPSILON": ["0.001", "1e-05"],
    "FUSION_KIND": ["kLoop", "kCustom"],
    "INFEED_CONFIG": ['"c"'],
    "OUTFEED_CONFIG": ['"\\000\\377"'],
    "LARGEST": ["true", "false"],
    "PARAMETER_REPLICATION": ["{true,false}"],
    "SCAN_DIMENSION": ["{1}"],
    "DIMENSIONS": ["{}", "{0,2}"],
    "DIMENSIONS_IF_ANY": ["{0,2}"],
    "FFT_LENGTH": ["{8,3}"],
    "DOT_ALGORITHM": ["dot_bf16_bf16_f32", "unknown_77"],
    "OPERAND_PRECISION": ["{highest,default}", "{default,unknown_77}", "{packed_nibble,default}"],
    "REPLICA_GROUPS": [
        "{{0,2},{1,3}}",
        "{}",
        "[2,4]<=[8]",
        "[2,4]<=[4,2]T(1,0)",
        "mesh['a'=2,'b'=4] {'b':(2)2,'a'}",
    ],
    "RESULT_ACCURACY": ["{mode=highest}", "{tolerance={atol=0.5,rtol=0,ulps=2}}", "{mode=unknown_77}"],
    "LITERAL": ["f32[2]{0} {1, 2}"],
    "OPERAND_LAYOUT_CONSTRAINTS": ["{f32[2,3]{0,1}, s32[]}", "{}"],
    "OUTFEED_SHAPE": ["(f32[2]{0}, s32[])"],
    "DOMAIN": ['{kind="sharding", entry={manual}, exit={replicated}}'],
    "SHARDING": [
        "{replicated}",
        "{maximal device=3}",
        "{{manual}, {replicated}}",
        "{devices=[2,1]<=[2]}",
        "{devices=[2,2]1,0,3,2 last_tile_dims={manual}}",
        '{unreduced shard_as 3 metadata={op_type="sdy::reduction_op" op_name="MAX"}}',
        '{manual metadata={op_name="n"}}',
        "{mesh['a'=2,'b'=4], [{'a'}, {'b':(1)2, ?}], manual={'b':(2)2}}",
        "{mesh['a'=4], device_ids=(3,2,1,0), replicated}",
        "{single_device[device_id=3]}",
        "{mesh['a'=2,'b'=4], manual}",
        "{mesh['a'=2,'b'=4], unreduced=max}",
        "{mesh['a'=2,'b'=4], [{}], unreduced=min{'b'}}",
        "{unknown_77}",
    ],
    "SHIFTS": ["{1,-2}", "{}"],
    "SHUFFLE_KIND": ["rotate"],
    "PERMUTE_SLICE_SIZES": ["{{1,2},{3,4}}"],
    "SLICE": ["{[0:2], [1:5]}", "{[0:2:1], [1:5:2]}"],
    "SOURCE_TARGET_PAIRS": ["{{0,1},{1,0}}", "{}"],
    "DOT_SPARSITY": ["L.1@2:4", "R.0@1:2", "L.1@2:4_R.0@1:2"],
    "BLOCK_SCALING_CONFIG": [
        "{lhs={scale_idx=1}}",
        "{lhs={scale_idx=1 zero_idx=3 strides=1x2 steps=2x4} rhs={scale_idx=2}}",
    ],
    "SPARSITY_CONFIG": [
        "{rhs={sparsity=3x4 dimension=0 stride=1 idx=2}}",
        "{lhs={sparsity=0x0 dimension=1 stride=0 idx=0} rhs={sparsity=2x4 dimension=0 stride=0 idx=3}}",
    ],
    "STATISTICS": ["{visualizing_index=1,a=0.5,b=2}"],
    "WINDOW_IF_ANY": ["{}", "{size=3}"],
    "WINDOW": ["{size=3}", "{size=3x2 stride=2x1 pad=1_1x0_-1 lhs_dilate=2x1 rhs_dilate=1x3 rhs_reversal=0x1}"],
}
VALUES |= {key: ["2", "-3"] for key in ("IOTA_DIMENSION", "INFERRED_DIMENSION")}
VALUES |= {key: ["true"] for key in ("CHOLESKY_LOWER", "LEFT_SIDE", "TRIANGULAR_LOWER", "UNIT_DIAGONAL")}
OF_KINDS = {
    "enum_attribute": ["unknown_77"],
    "flag": ["true"],
    "int32": ["2", "-3"],
    "integer": ["2", "-3"],
    "integer_of": ["1"],
    "integers": ["{}", "{0,2}"],
    "integers_of": ["{0,2}"],
}
"""The values of attributes that a constructor in `values/attribute.py` makes, by the name of the constructor."""


class Context:
    """What attributes ask about an instruction with two operands f32[2,3]."""

    operand_count = 2
    payloads: Sequence[bytes] = ()
    is_fingerprint = False
    show_ids = True
    show_metadata = True

    def operand_shape(self, number: int) -> Shape | None:
        return Shape.parse("f32[2,3]") if number < self.operand_count else None

    def shape_text(self, shape: xla.ShapeProto) -> str:
        return str(Shape.from_proto(shape))


def attributes() -> Iterator[tuple[str, Attribute]]:
    for module in pkgutil.iter_modules(values.__path__):
        for name, attribute in vars(importlib.import_module(f"{values.__name__}.{module.name}")).items():
            if isinstance(attribute, Attribute):
                yield f"{module.name}.{name}", attribute
            elif isinstance(attribute, tuple):
                for each in attribute:
                    if isinstance(each, Attribute):
                        yield f"{module.name}.{name}.{each.name}", each


WRITTEN = {name: attribute for name, attribute in attributes() if attribute.write is not not_written}


def samples(name: str) -> list[str]:
    """Values of an attribute as they are written: by its name, or as its constructor says."""
    read = WRITTEN[name].read
    found = VALUES.get(name.partition(".")[2]) or OF_KINDS.get(read.__qualname__.partition(".")[0])
    assert found, f"{name} needs a value in VALUES of tests/unit/hlo/test_attributes.py"
    return found


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_is_what_was_read(name):
    attribute = WRITTEN[name]
    assert attribute.read is not None
    for text in samples(name):
        cursor = HloCursor(text)
        data = attribute.read(cursor)
        cursor.expect_end()
        assert attribute.write(xla.HloInstructionProto.FromString(data), Context()) == f", {attribute.name}={text}"


@pytest.mark.parametrize("name", WRITTEN)
def test_values_of_protos(name):
    """The value of what was read gives the same proto, alone and beside another value; no value gives none."""
    attribute = WRITTEN[name]
    assert attribute.read is not None
    assert attribute.value is not None
    for text in samples(name):
        said = xla.HloInstructionProto.FromString(attribute.read(HloCursor(text)))
        value = attribute.of(said)
        made = xla.HloInstructionProto()
        attribute.value.put(made, value)
        assert attribute.of(made) == value
        assert attribute.write(made, Context()) == f", {attribute.name}={text}"
        for other in samples(name):
            changed = xla.HloInstructionProto.FromString(attribute.read(HloCursor(other)))
            attribute.value.put(changed, value)
            assert attribute.of(changed) == value
        with pytest.raises((TypeError, ValueError, AttributeError, XlashapeError)):
            attribute.value.put(made, object())
        assert attribute.of(made) == value
        if not name.endswith(".DOMAIN"):  # an attribute that a domain must have
            attribute.value.put(made, None)
            assert attribute.of(made) == attribute.of(xla.HloInstructionProto())


def kind_of(name: str) -> type | None:
    """The frozen type of an attribute's value, or of the elements of its value; None for numbers and text."""
    try:
        data = WRITTEN[name].read(HloCursor(samples(name)[0]))
    except KeyError as error:
        step = "declare it in protos/xla/service/hlo.proto and run python protos/schema_compiler.py"
        raise AssertionError(f"{name}: the schema has no field {error}: {step}") from None
    value = WRITTEN[name].of(xla.HloInstructionProto.FromString(data))
    first = value[:1] if isinstance(value, tuple) else ()
    return next((type(each) for each in (value, *first) if hasattr(each, "of_proto")), None)


STRUCTURED = {name: kind for name in WRITTEN if (kind := kind_of(name)) is not None}
"""Attributes whose values have a structure of their own, with the types."""


@pytest.mark.parametrize("name", STRUCTURED)
def test_frozen_values_write_what_they_read(name):
    kind = STRUCTURED[name]
    attribute = WRITTEN[name]
    for text in samples(name):
        value = attribute.of(xla.HloInstructionProto.FromString(attribute.read(HloCursor(text))))
        for each in value if isinstance(value, tuple) and not isinstance(value, kind) else (value,):
            assert isinstance(each, kind)
            assert kind.parse(each.write()) == each
            assert kind.of_proto(each.to_proto()) == each
            assert hash(each) == hash(kind.parse(each.write()))
        if isinstance(value, kind):
            assert str(value) == value.write() == text
    with pytest.raises(ParseError):
        kind.parse("{" + samples(name)[0])


def test_fields_that_the_schema_does_not_know_stay():
    window = xla.Window.FromString(Window.parse("{size=3}").to_proto().SerializeToString() + b"\x9a\x06\x01x")
    instruction = xla.HloInstructionProto(window=window)
    WINDOW.value.put(instruction, Window.parse("{size=2x2}"))
    assert WINDOW.of(instruction) == Window.parse("{size=2x2}")
    assert b"\x9a\x06\x01x" in instruction.SerializeToString()


@pytest.mark.parametrize("name", WRITTEN)
def test_a_value_that_is_cut_off_is_an_error_or_another_value(name):
    """Reading stops with ParseError or at the end of a value, and writes that value again; nothing else is raised."""
    attribute = WRITTEN[name]
    assert attribute.read is not None
    for text in samples(name):
        for end in range(len(text)):
            try:
                data = attribute.read(HloCursor(text[:end]))
            except XlashapeError:
                continue
            written = attribute.write(xla.HloInstructionProto.FromString(data), Context())
            assert not written or attribute.read(HloCursor(written.partition("=")[2])) == data


def test_attributes_that_are_only_read():
    names = sorted(name for name, attribute in attributes() if attribute.write is not_written)
    assert names == [
        "enums.COMPARISON_TYPE",
        "enums.MODE",
        "plain.DIMENSIONS_READ_ONLY",
    ]
