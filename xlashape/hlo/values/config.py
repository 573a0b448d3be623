r"""The values of an operation's own attributes: windows, labels, paddings, slices, precision, aliasing, enumerations.

window      := '{' (('size' | 'stride' | 'lhs_dilate' | 'rhs_dilate' | 'rhs_reversal') '=' INT ('x' INT)*
                   | 'pad=' INT '_' INT ('x' INT '_' INT)*)* '}'
labels      := side '_' side '->' side         letters b f (input, output), i o (kernel), digits, '?'
padding     := INT '_' INT ('_' INT)? ('x' …)*
slice       := '{' ('[' INT ':' INT (':' INT)? ']' (',' …)*)? '}'
aliasing    := '{' (ints ':' '(' INT ',' ints ')' (',' …)*)? '}'
sparsity    := '{' (('lhs' | 'rhs') '=' '{' ('sparsity=' INT 'x' INT | 'dimension=' INT | 'stride=' INT)* '}')* '}'
"""

from __future__ import annotations

import re
from collections.abc import Callable

from xlashape.hlo.lex import HloCursor
from xlashape.proto import xla
from xlashape.proto.wire import Fields

__all__ = [
    "enum_words",
    "parse_algorithm",
    "parse_aliasing",
    "parse_dim_labels",
    "parse_padding",
    "parse_precision",
    "parse_result_accuracy",
    "parse_slice",
    "parse_sparsity",
    "parse_window",
]

_FIELDS = Fields(xla.HloInstructionProto)
_LIST_BY_X = re.compile(r"-?[0-9]{1,19}(?:x-?[0-9]{1,19})*(?![0-9A-Za-z_])")
_PADDING = re.compile(
    r"-?[0-9]{1,19}_-?[0-9]{1,19}(?:_-?[0-9]{1,19})?(?:x-?[0-9]{1,19}_-?[0-9]{1,19}(?:_-?[0-9]{1,19})?)*(?![0-9A-Za-z_])"
)
_LABELS = re.compile(r"([0-9bf?]{2,})_([0-9io?]{2,})->([0-9bf?]{2,})")
_PRECISIONS: dict[str, int] = {"default": 0, "high": 1, "highest": 2}
_ALGORITHMS: dict[str, int] = {
    name.removeprefix("ALG_").lower(): number for name, number in xla.PrecisionConfig.Algorithm.items()
} | {"unset": 0}
_MODES: dict[str, int] = {name.lower(): number for name, number in xla.ResultAccuracy.Mode.items()}


def enum_words(values: dict[str, int], shorten: Callable[[str], str]) -> dict[str, int]:
    """The words that text has for the values of an enum."""
    return {shorten(name): number for name, number in values.items()}


def _int64(cursor: HloCursor, at: int, digits: str) -> int:
    value = int(digits)
    if not -(1 << 63) <= value < 1 << 63:
        raise cursor.error(f"{digits} does not fit int64", at=at)
    return value


def parse_window(cursor: HloCursor) -> bytes:
    """A window, as wire bytes of its field."""
    cursor.expect("{")
    found: dict[str, list[int]] = {}
    pads: list[list[int]] | None = None
    start = cursor.at
    while not cursor.accept("}"):
        cursor.skip_space()
        at = cursor.at
        name = cursor.parse_attribute_name()
        if name in found or (name == "pad" and pads is not None):
            raise cursor.error(f"{name} stands there twice", at=at)
        if name == "pad":
            pads = _parse_paddings(cursor, 2)
        elif name in ("size", "stride", "lhs_dilate", "rhs_dilate", "rhs_reversal"):
            cursor.skip_space()
            match = _LIST_BY_X.match(cursor.text, cursor.at)
            if match is None:
                cursor.fail(f"numbers with 'x' between them for {name}")
            found[name] = [_int64(cursor, cursor.at, digits) for digits in match.group().split("x")]
            cursor.at = match.end()
        else:
            raise cursor.error(
                f"a window has no {name!r}; it has size, stride, pad, lhs_dilate, rhs_dilate, rhs_reversal",
                at=at,
                expected="a field of the window",
                found=name,
            )
    sizes = found.get("size", [])
    rank = len(sizes)
    for name, values in [*found.items(), ("pad", pads or [])]:
        if values and len(values) != rank:
            raise cursor.error(f"{name} has {len(values)} numbers where size has {rank}", at=start)
    ones = [1] * rank
    strides, base, window = (found.get(name, ones) for name in ("stride", "lhs_dilate", "rhs_dilate"))
    reversal = found.get("rhs_reversal", [0] * rank)
    padding = pads if pads is not None else [[0, 0]] * rank
    message = xla.Window()
    for place, size in enumerate(sizes):
        message.dimensions.add(
            size=size,
            stride=strides[place],
            padding_low=padding[place][0],
            padding_high=padding[place][1],
            window_dilation=window[place],
            base_dilation=base[place],
            # Anything but 1 is false.
            window_reversal=reversal[place] == 1,
        )
    return _FIELDS.message("window", message)


def _parse_paddings(cursor: HloCursor, most: int) -> list[list[int]]:
    cursor.skip_space()
    match = _PADDING.match(cursor.text, cursor.at)
    if match is None:
        cursor.fail("paddings, such as '0_0x1_2'")
    paddings = [[_int64(cursor, cursor.at, digits) for digits in one.split("_")] for one in match.group().split("x")]
    if any(len(one) > most for one in paddings):
        raise cursor.error("a padding of a window has two numbers, low_high", expected="low_high")
    cursor.at = match.end()
    return paddings


def parse_padding(cursor: HloCursor) -> bytes:
    """low_high or low_high_interior a dimension; nothing for none."""
    if not cursor.at_end() and _PADDING.match(cursor.text, cursor.at) is None:
        cursor.fail("a padding, such as '0_0_0x3_3_1'")
    config = xla.PaddingConfig()
    for one in _parse_paddings(cursor, 3):
        config.dimensions.add(
            edge_padding_low=one[0], edge_padding_high=one[1], interior_padding=one[2] if len(one) > 2 else 0
        )
    return _FIELDS.message("padding_config", config)


def parse_slice(cursor: HloCursor) -> bytes:
    """start, limit and stride a dimension."""

    def one() -> bytes:
        cursor.expect("[")
        start = cursor.parse_int("where the slice starts")
        cursor.expect(":")
        limit = cursor.parse_int("where the slice ends")
        stride = cursor.parse_int("the stride of the slice") if cursor.accept(":") else 1
        cursor.expect("]")
        message = xla.HloInstructionProto.SliceDimensions(start=start, limit=limit, stride=stride)
        return _FIELDS.message("slice_dimensions", message)

    return b"".join(cursor.parse_list(one))


def parse_dim_labels(cursor: HloCursor) -> bytes:
    """The dimension numbers of a convolution."""
    cursor.skip_space()
    at = cursor.at
    match = _LABELS.match(cursor.text, at)
    if match is None:
        cursor.fail("dimension labels, such as 'b01f_01io->b01f'")
    message = xla.ConvolutionDimensionNumbers()
    spatial: list[int] = []
    for side, letters, which in zip(match.groups(), ("bf", "io", "bf"), ("input", "kernel", "output"), strict=True):
        named = [char for char in side if char != "?"]
        if len(set(named)) != len(named):
            raise cursor.error(f"a dimension of {side!r} stands there twice", at=at)
        rank = len(named) - 2
        # XLA takes a missing letter or number for dimension 0; a label that says nothing is a mistake here.
        if any(char not in named for char in letters) or any(str(number) not in named for number in range(rank)):
            raise cursor.error(
                f"the labels of the {which} are {' and '.join(letters)} and the numbers from 0, found {side!r}", at=at
            )
        spatial.append(rank)
        places = {char: place for place, char in enumerate(side)}
        first, second = places[letters[0]], places[letters[1]]
        numbers = [places[str(number)] for number in range(rank)]
        if which == "input":
            message.input_batch_dimension, message.input_feature_dimension = first, second
            message.input_spatial_dimensions.extend(numbers)
        elif which == "kernel":
            message.kernel_input_feature_dimension, message.kernel_output_feature_dimension = first, second
            message.kernel_spatial_dimensions.extend(numbers)
        else:
            message.output_batch_dimension, message.output_feature_dimension = first, second
            message.output_spatial_dimensions.extend(numbers)
    if len(set(spatial)) != 1:
        shown = ", ".join(map(str, spatial))
        raise cursor.error(f"input, kernel and output have different numbers of spatial dimensions: {shown}", at=at)
    cursor.at = match.end()
    return _FIELDS.message("convolution_dimension_numbers", message)


def parse_precision(cursor: HloCursor) -> bytes:
    """operand_precision: default, high or highest an operand."""
    values = cursor.parse_list(lambda: cursor.parse_word_of(_PRECISIONS, "a precision", any_case=True))
    message = xla.PrecisionConfig(operand_precision=values)
    return _FIELDS.message("precision_config", message)


def parse_algorithm(cursor: HloCursor) -> bytes:
    """The algorithm of a dot."""
    value = cursor.parse_word_of(_ALGORITHMS, "an algorithm", any_case=True)
    return _FIELDS.message("precision_config", xla.PrecisionConfig(algorithm=value))


def parse_aliasing(cursor: HloCursor) -> bytes:
    """output_to_operand_aliasing."""

    def one() -> bytes:
        message = xla.OutputOperandAliasing(output_shape_index=cursor.parse_ints())
        cursor.expect(":")
        cursor.expect("(")
        message.operand_index = cursor.parse_int("an operand's number")
        cursor.expect(",")
        message.operand_shape_index.extend(cursor.parse_ints())
        cursor.expect(")")
        return _FIELDS.message("output_operand_aliasing", message)

    return b"".join(cursor.parse_list(one))


def parse_result_accuracy(cursor: HloCursor) -> bytes:
    """'{mode=' word '}' or '{tolerance={atol=…, rtol=…, ulps=…}}'."""
    cursor.expect("{")
    cursor.skip_space()
    at = cursor.at
    name = cursor.parse_attribute_name()
    message = xla.ResultAccuracy()
    if name == "mode":
        cursor.skip_space()
        word = cursor.parse_word("default or highest").lower()
        if word not in ("default", "highest"):
            raise cursor.error(
                f"expected default or highest, found {word!r}", expected="default or highest", found=word
            )
        if word == "highest":
            message.mode = xla.ResultAccuracy.HIGHEST
    elif name == "tolerance":
        message.tolerance.SetInParent()
        seen: set[str] = set()

        def one() -> None:
            cursor.skip_space()
            here = cursor.at
            part = cursor.parse_attribute_name()
            if part in seen or part not in ("atol", "rtol", "ulps"):
                raise cursor.error("expected atol, rtol and ulps, each at most once", at=here)
            seen.add(part)
            if part == "ulps":
                message.tolerance.ulps = cursor.parse_int(part)
            else:
                setattr(message.tolerance, part, cursor.parse_double(part))

        cursor.parse_list(one)
    else:
        raise cursor.error(
            f"expected mode or tolerance, found {name!r}", at=at, expected="mode or tolerance", found=name
        )
    cursor.expect("}")
    return _FIELDS.message("result_accuracy", message) if message.WhichOneof("specs") else b""


def parse_sparsity(cursor: HloCursor) -> bytes:
    """sparsity_config: which operand of a convolution is sparse, and how."""
    message = xla.SparsityConfig()
    cursor.expect("{")
    while not cursor.accept("}"):
        cursor.skip_space()
        at = cursor.at
        side = cursor.parse_attribute_name()
        if side not in ("lhs", "rhs"):
            raise cursor.error(f"expected lhs or rhs, found {side!r}", at=at, expected="lhs or rhs", found=side)
        target = message.lhs if side == "lhs" else message.rhs
        target.SetInParent()
        cursor.expect("{")
        while not cursor.accept("}"):
            cursor.skip_space()
            at = cursor.at
            name = cursor.parse_attribute_name()
            if name == "sparsity":
                match = _LIST_BY_X.match(cursor.text, cursor.at)
                pair = match.group().split("x") if match is not None else []
                if match is None or len(pair) != 2:
                    cursor.fail("the non-zeros of a block and its size, such as '2x4'")
                target.num_non_zero, target.block_size = (_int64(cursor, at, digits) for digits in pair)
                cursor.at = match.end()
            elif name == "dimension":
                target.dimension = cursor.parse_int(name)
            elif name == "stride":
                target.stride = cursor.parse_int(name)
            else:
                raise cursor.error(f"expected sparsity, dimension or stride, found {name!r}", at=at, found=name)
    return _FIELDS.message("sparsity_config", message)
