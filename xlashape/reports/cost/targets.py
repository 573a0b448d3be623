"""Chips: their peak FLOP/s by element type, and the bandwidth of their memory, as their makers publish them.

A peak is that of one device as JAX and XLA see it, for dense arrays, without structured sparsity. Matrix products and
convolutions are taken to run at the peak of their element type, all other arithmetic at the peak of the vector units
for f32 (`vector`) where the maker publishes one. Real programs stay below these numbers, so a time that follows from
them is a lower bound.
"""

from __future__ import annotations

from math import inf
from typing import Final, NamedTuple

from xlashape.errors import InvalidArgumentError
from xlashape.reports.cost.links import LINKS, Links
from xlashape.shape import PrimitiveType
from xlashape.shape.parts.target import Target

_T: Final = 1e12


class Chip(NamedTuple):
    """A device and what it can do at most."""

    name: str
    matrix: dict[str, float]
    """FLOP/s of matrix products by the kind of element (`kind_of`): "f64", "f32", "bf16", "f8", "f4", "s8", "s4". Where
    a kind is missing, the first of its kinds in `_WIDER` that is there counts; without any, the largest peak.
    """
    vector: float | None
    """FLOP/s of f32 outside matrix units. None where it is not published: then `matrix` counts there too, whose peaks
    are no less.
    """
    bandwidth: float
    """Bytes/s of the main memory."""
    source: str
    """Who publishes the numbers, and what they are of."""

    def peak(self, kind: str, *, is_matrix: bool) -> float:
        """FLOP/s for a kind of element (`kind_of`), in matrix units or outside of them."""
        if not is_matrix and self.vector is not None:
            return self.vector
        for wider in _WIDER[kind]:
            if wider in self.matrix:
                return self.matrix[wider]
        return max(self.matrix.values())


_WIDER: Final = {
    "f64": ("f64", "f32"),
    "f32": ("f32", "bf16"),
    "bf16": ("bf16", "f32"),
    "f8": ("f8", "bf16", "f32"),
    "f4": ("f4", "f8", "bf16", "f32"),
    "s8": ("s8", "f8", "bf16", "f32"),
    "s4": ("s4", "s8", "f8", "bf16", "f32"),
}
"""Kind of element → the kinds whose peak counts for it, the best first: itself, then others if the chip lacks it."""

_H100: Final = {"f64": 67 * _T, "f32": 494.7 * _T, "bf16": 989.4 * _T, "f8": 1978.9 * _T, "s8": 1978.9 * _T}
_MI300X: Final = {
    "f64": 163.4 * _T,
    "f32": 653.7 * _T,
    "bf16": 1307.4 * _T,
    "f8": 2614.9 * _T,
    "s8": 2614.9 * _T,
}

_V2_AND_V3: Final = (
    "Jouppi et al., A domain-specific supercomputer for training deep neural networks; half of a chip, which JAX shows "
    "as two devices"
)

CHIPS: Final[dict[str, Chip]] = {
    chip.name: chip
    for chip in (
        Chip(
            "a100",
            {"f64": 19.5 * _T, "f32": 156 * _T, "bf16": 312 * _T, "s8": 624 * _T, "s4": 1248 * _T},
            19.5 * _T,
            2.039e12,
            "NVIDIA A100 Tensor Core GPU datasheet, SXM with 80 GB; f32 products in TF32",
        ),
        Chip("h100", _H100, 66.9 * _T, 3.35e12, "NVIDIA H100 Tensor Core GPU datasheet, SXM; f32 products in TF32"),
        Chip("h200", _H100, 66.9 * _T, 4.8e12, "NVIDIA H200 Tensor Core GPU datasheet, SXM; f32 products in TF32"),
        Chip(
            "b200",
            {
                "f64": 40 * _T,
                "f32": 1100 * _T,
                "bf16": 2250 * _T,
                "f8": 4500 * _T,
                "f4": 9000 * _T,
                "s8": 4500 * _T,
            },
            80 * _T,
            8e12,
            "NVIDIA Blackwell architecture technical brief, HGX B200; f32 products in TF32",
        ),
        Chip("mi300x", _MI300X, 163.4 * _T, 5.3e12, "AMD Instinct MI300X data sheet; f32 products in TF32"),
        Chip(
            "mi250",
            {
                "f64": 90.5 / 2 * _T,
                "f32": 90.5 / 2 * _T,
                "bf16": 362.1 / 2 * _T,
                "s8": 362.1 / 2 * _T,
                "s4": 362.1 / 2 * _T,
            },
            45.3 / 2 * _T,
            3.2768e12 / 2,
            "AMD Instinct MI250 data sheet; half of a card, which shows as two devices",
        ),
        Chip(
            "mi355x",
            {"f64": 78.6 * _T, "bf16": 2516.6 * _T, "f8": 5033.2 * _T, "f4": 10066.3 * _T, "s8": 5033.2 * _T},
            157.3 * _T,
            8e12,
            "AMD Instinct MI355X data sheet",
        ),
        Chip(
            "tpu-v2",
            {"bf16": 46 / 2 * _T},
            None,
            0.7e12 / 2,
            _V2_AND_V3,
        ),
        Chip(
            "tpu-v3",
            {"bf16": 123 / 2 * _T},
            None,
            0.9e12 / 2,
            _V2_AND_V3,
        ),
        Chip("tpu-v4", {"bf16": 275 * _T, "s8": 275 * _T}, None, 1.228e12, "Google Cloud TPU documentation, v4"),
        Chip("tpu-v5e", {"bf16": 197 * _T, "s8": 393 * _T}, None, 0.819e12, "Google Cloud TPU documentation, v5e"),
        Chip("tpu-v5p", {"bf16": 459 * _T, "s8": 918 * _T}, None, 2.765e12, "Google Cloud TPU documentation, v5p"),
        Chip("tpu-v6e", {"bf16": 918 * _T, "s8": 1836 * _T}, None, 1.64e12, "Google Cloud TPU documentation, v6e"),
        Chip(
            "tpu-7x",
            {"bf16": 2307 / 2 * _T, "f8": 4614 / 2 * _T},
            None,
            7.38e12 / 2,
            "Google Cloud TPU documentation, TPU7x (Ironwood); half of a chip, which JAX shows as two devices",
        ),
    )
}
"""Name of a target → the chip. `cpu`, `gpu` and `tpu` are no chips, and have no peaks."""


class Roof(NamedTuple):
    """The peak and the bandwidth from which least times are computed: those of a chip, or numbers of the caller, which
    replace them.
    """

    chip: Chip | None
    own_peak: float | None
    """FLOP/s for all element types."""
    own_bandwidth: float | None
    """Bytes/s of the main memory."""
    target: Target | None = None
    """The target that was asked for, which need not be a chip."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not known of the target, in sentences."""
        if self.target is None or self.is_known:
            return ()
        names = [name for name in CHIPS if CHIPS[name].name.startswith("tpu") == self.target.is_tpu]
        chips = "" if self.target.kind == "cpu" else f", or name a chip: {', '.join(names)}"
        return (f"Peaks of {self.target.name} are not known, so there are no times: pass peak and bandwidth{chips}.",)

    @property
    def is_known(self) -> bool:
        """Whether there is a peak and a bandwidth."""
        return self.bandwidth is not None and (self.chip is not None or self.own_peak is not None)

    @property
    def bandwidth(self) -> float | None:
        """Bytes/s of the main memory; None where neither a bandwidth nor a chip is given."""
        return self.own_bandwidth if self.own_bandwidth is not None else self.chip.bandwidth if self.chip else None

    @property
    def links(self) -> Links | None:
        """The links to other devices; None without a chip, and for a chip whose links are not known."""
        return LINKS.get(self.chip.name) if self.chip is not None else None

    def peak(self, kind: PrimitiveType, *, is_matrix: bool) -> float | None:
        """FLOP/s for an element type; None where neither a peak nor a chip is given."""
        if self.own_peak is not None:
            return self.own_peak
        return None if self.chip is None else self.chip.peak(kind_of(kind), is_matrix=is_matrix)


def kind_of(element_type: PrimitiveType) -> str:
    """The kind of element in `Chip.matrix` whose peak counts for an element type. Complex numbers count as floats of
    half the bits, booleans as bytes, integers of 9 to 32 bits as f32, larger ones as f64, and f16 as bf16.

    >>> (
    ...     kind_of(PrimitiveType.F8E4M3FN),
    ...     kind_of(PrimitiveType.C64),
    ...     kind_of(PrimitiveType.PRED),
    ...     kind_of(PrimitiveType.S32),
    ... )
    ('f8', 'f32', 's8', 'f32')
    """
    text = element_type.text
    bits = element_type.bit_width
    if text.startswith("f"):
        return {64: "f64", 32: "f32", 16: "bf16", 8: "f8"}.get(bits, "f4" if bits <= 4 else "f8")
    if text.startswith("c"):
        return "f64" if bits == 128 else "f32"
    if text == "bf16":
        return "bf16"
    if bits <= 4 and text != "pred":
        return "s4"
    return "s8" if bits <= 8 else "f32" if bits <= 32 else "f64"


def roof_of(target: Target | str | None = None, peak: float | None = None, bandwidth: float | None = None) -> Roof:
    """The peaks of a target; `peak` (FLOP/s) and `bandwidth` (bytes/s) replace them where they are
    given.

    Raises InvalidArgumentError for a name that no target has, and for a number that is not positive or is infinite.
    """
    for name, value in (("peak", peak), ("bandwidth", bandwidth)):
        # Comparisons with NaN are false.
        if value is not None and not 0 < value < inf:
            raise InvalidArgumentError(f"{name} takes a positive finite number, not {value}", field=name)
    device = None if target is None else Target.of(target)
    return Roof(None if device is None else CHIPS.get(device.name), peak, bandwidth, device)
