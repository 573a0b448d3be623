"""Ledger: the values of the instructions of several modules, in which equal values are one.

A value is found by what computes it from which values, so that an instruction which two modules share is evaluated
once. What was evaluated is found by a digest of its elements in all draws: a part of a program that was rewritten, but
computes the same, makes no difference from there on. Tuples, calls and copies are followed, not evaluated.
"""

# NumPy's stubs leave the types of many results unknown.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple, cast

import numpy as np

from xlashape.errors import LimitExceededError, UnsupportedError
from xlashape.evaluation.domains.field import Field
from xlashape.evaluation.domains.modular import P, mixed
from xlashape.evaluation.elementwise import is_real
from xlashape.evaluation.machine import Array, Machine, Spread, Value, at, dtype_of, unsupported
from xlashape.evaluation.run_module import DeviceCount
from xlashape.hlo import HloInstruction
from xlashape.limits import budget
from xlashape.reports.equivalent.terms import Term, Terms, leaves_of
from xlashape.shape import PrimitiveType, Shape

_STEPS: Final = 60_000
"""The most instructions that an instruction runs in a draw: iterations of loops times instructions."""


class Evaluated(NamedTuple):
    """A value in all draws."""

    spreads: list[Spread]
    digest: bytes


class Ledger(Terms):
    """Values in one domain."""

    def __init__(self, domains: Sequence[Field], devices: DeviceCount) -> None:
        """`domains` has that of each draw."""
        super().__init__()
        self._domains = domains
        self.values: list[Evaluated] = []
        self.reasons: dict[str, None] = {}
        """What could not be evaluated, and is the same only for the same operands."""
        self._by_digest: dict[bytes, int] = {}
        self._machines = [
            Machine(d, devices.number, partitioned=devices.are_partitions, outside=self._outside(d)) for d in domains
        ]
        self._devices = devices.number

    def domain(self, draw: int) -> Field:
        """The domain of a draw."""
        return self._domains[draw]

    def digest(self, x: Array, draw: int) -> bytes:
        """A digest of the elements of an array."""
        return digest_of(self._domains[draw], x)

    # -- values --------------------------------------------------------------------------------

    def put(self, spreads: list[Spread], kind: PrimitiveType) -> int:
        """The number of a value of an element type. An array of int64 may hold integers, elements or pairs of elements,
        so that values are one only where their types are: all types of real numbers count as one."""
        digest = blake2b(b"" if is_real(kind) else kind.text.encode(), digest_size=16)
        kept: dict[int, Spread] = {}
        digests: dict[int, bytes] = {}
        for domain, spread in zip(self._domains, spreads, strict=True):
            if id(spread) not in kept:
                parts = [digest_of(domain, x) for x in spread]
                is_one = len(set(parts)) == 1
                kept[id(spread)] = spread[:1] if is_one else spread
                digests[id(spread)] = parts[0] if is_one else b"".join(parts)
            digest.update(digests[id(spread)])
        found = digest.digest()
        number = self._by_digest.setdefault(found, len(self.values))
        if number == len(self.values):
            self.values.append(Evaluated([kept[id(spread)] for spread in spreads], found))
        return number

    def leaf(self, key: Any, kind: PrimitiveType, make: Callable[[int], Spread]) -> int:
        """The value of a key, such as a parameter; `make` gives it for each draw."""
        found = self._by_key.get(key)
        if found is None:
            found = self._by_key[key] = self.put([make(draw) for draw in range(len(self._machines))], kind)
        return found

    def spread(self, term: Term, draw: int) -> Spread:
        """A term's value in a draw."""
        if not isinstance(term, tuple):
            return self.values[term].spreads[draw]
        parts = [self.spread(part, draw) for part in cast("tuple[Term, ...]", term)]
        count = max([len(part) for part in parts], default=1)
        return [tuple([at(part, device) for part in parts]) for device in range(count)]

    def made(self, instruction: HloInstruction, operands: list[Term]) -> Term:
        spreads: list[Spread] = []
        # Draws that have the same operands have the same result.
        done: dict[tuple[int, ...], Spread] = {}
        leaves = [leaf for term in operands for leaf in leaves_of(term)]
        for draw, machine in enumerate(self._machines):
            key = (id(machine.domain), *[id(self.values[leaf].spreads[draw]) for leaf in leaves])
            if key in done:
                spreads.append(done[key])
                continue
            given = [self.spread(term, draw) for term in operands]
            try:
                with np.errstate(all="ignore"), budget(steps=_STEPS):
                    spread = machine.apply(instruction, given)
            except (UnsupportedError, LimitExceededError) as error:
                self.reasons.setdefault(error.message)
                spread = self._outside(machine.domain)(instruction, given)
            done[key] = spread
            spreads.append(spread)
        return self._split(instruction.shape, spreads)

    def _split(self, shape: Shape, spreads: list[Spread]) -> Term:
        if not shape.is_tuple:
            return self.put(spreads, shape.element_type)
        found: list[Term] = []
        for i, part in enumerate(shape.tuple_shapes):
            # One list for equal spreads.
            parts = {id(spread): [value[i] for value in spread] for spread in spreads}
            found.append(self._split(part, [parts[id(spread)] for spread in spreads]))
        return tuple(found)

    def _outside(self, domain: Any) -> Callable[[HloInstruction, list[Spread]], Spread]:
        """What stands for results that are not known: the same for the same instruction of the same operands."""

        def made(instruction: HloInstruction, operands: list[Spread]) -> Spread:
            self.reasons.setdefault(unsupported(instruction, "is not known").message)
            found: Spread = []
            for device in range(max([len(spread) for spread in operands], default=1)):
                digest = blake2b(self.signature(instruction), digest_size=8)
                for spread in operands:
                    _add(digest, domain, at(spread, device))
                found.append(_random(domain, instruction.shape, int.from_bytes(digest.digest(), "little") >> 1))
            return found

        return made


def digest_of(domain: Field, x: Array) -> bytes:
    """A digest of the elements of an array."""
    x = np.asarray(x)
    if x.dtype.kind in "fc" and x.dtype.itemsize >= 8:
        x = domain.lift(x)
    digest = blake2b(f"{x.dtype.kind}{x.shape}".encode(), digest_size=16)
    digest.update(np.ascontiguousarray(x).view(np.uint8).data if x.ndim and x.size else x.tobytes())
    return digest.digest()


def _add(digest: Any, domain: Any, value: Value) -> None:
    if isinstance(value, tuple):
        for part in cast("tuple[Value, ...]", value):
            _add(digest, domain, part)
    else:
        digest.update(digest_of(domain, value))


def _random(domain: Any, shape: Shape, seed: int) -> Value:
    if shape.is_tuple:
        return tuple([_random(domain, part, seed + 1 + i) for i, part in enumerate(shape.tuple_shapes)])
    if shape.is_token:
        return np.asarray(float(seed % (1 << 40)))
    places = np.arange(np.prod(shape.dimensions, dtype=np.int64)).reshape(shape.dimensions)
    return random(shape, places, seed)


def random(shape: Shape, places: Array, seed: int) -> Array:
    """What stands for the elements of an array at places, which are counted through the whole array."""
    drawn, kind = mixed(places, seed), shape.element_type
    if is_real(kind) or kind.is_complex:
        elements: Array = (drawn % np.uint64(P)).astype(np.int64)
        return elements << 32 | elements if kind.is_complex else elements
    if kind.text == "pred":
        return (drawn & np.uint64(1)).astype(bool)
    return (drawn & np.uint64(7 if kind.bit_width >= 8 else 1)).astype(dtype_of(shape))
