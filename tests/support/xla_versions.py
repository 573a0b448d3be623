"""Checks how well modules of many XLA versions are read, written and analysed. Each case is compared with the newest
jaxlib's result for the same module.

A case is the text and the proto of a module, as some XLA version wrote them. Each check passes, or fails with a reason:

    text            the text is read (where jaxlib reads it)
    proto           the module that was read is the one that jaxlib reads, field by field
    print of text   its text is the one that jaxlib prints
    print of proto  the proto's text is the one that jaxlib prints
    round trip      the proto is written back with all that it holds, unknown fields included
    maps            every instruction has its indexing maps
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import DecodeError

from xlashape import HloModule, XlashapeError, indexing
from xlashape.proto import xla

VECTORS = Path(__file__).resolve().parents[1] / "vectors" / "versions"
NEWEST = "0.12.0.1"
CHECKS = ("text", "proto", "print of text", "print of proto", "round trip", "maps")

_IOTA_GROUPS = re.compile(r", replica_groups=(?:\{\}|\[[0-9,]+\]<=\[[0-9,]+\](?:T\([0-9,]+\))?)")
_ORIGIN = re.compile(r", origin=\{.*\}$", re.MULTILINE)
_SPARSITY = re.compile(r", sparsity=[^,\n]+")

LOST_BY_NEWEST = {
    "jax-0.6.2.gspmd.post": _IOTA_GROUPS,
    "jax-0.8.3.gspmd.post": _IOTA_GROUPS,
    "parsed-by-jax-0.6.2.iota_groups": _IOTA_GROUPS,
    "parsed-by-jax-0.8.3.iota_groups": _IOTA_GROUPS,
    "parsed-by-jax-0.8.3.iota_groups_ag": _IOTA_GROUPS,
    "parsed-by-jax-0.6.2.origin_tuple": _ORIGIN,
    "parsed-by-jax-0.6.2.sparse_dot": _SPARSITY,
}
"""Attributes that the newest jaxlib loses of some protos, because its schema has no field for them. Such an attribute
is compared with the text that the proto's own version of XLA printed, all else with that of the newest jaxlib.
"""


@dataclass(frozen=True)
class Case:
    """One module, and the newest jaxlib's results for it; None where that jaxlib refuses the module."""

    name: str
    text: str
    data: bytes
    proto_of_text: bytes | None
    print_of_text: str | None
    print_of_proto: str | None

    @property
    def version(self) -> str:
        """The version of the program that wrote the module: "jax-0.4.13", "tf-2.6.5", "tpu-jax-0.5.3", …"""
        match = re.match(r"(?:parsed-by-)?((?:tpu-)?(?:jax|tf)-[0-9.]*[0-9])", self.name)
        assert match is not None, self.name
        return match.group(1)


def cases() -> list[Case]:
    """All cases, in the order of their names."""
    with gzip.open(VECTORS / f"jaxlib_{NEWEST}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [
        Case(
            row["name"],
            gzip.decompress((VECTORS / f"{row['name']}.txt.gz").read_bytes()).decode(),
            gzip.decompress((VECTORS / f"{row['name']}.pb.gz").read_bytes()),
            base64.b64decode(row["proto_of_text"]) if "proto_of_text" in row else None,
            row.get("print_of_text"),
            row.get("print_of_proto"),
        )
        for row in rows
    ]


def _first_difference(ours: str, theirs: str) -> str:
    for number, (left, right) in enumerate(zip(ours.split("\n"), theirs.split("\n"), strict=False), 1):
        if left != right:
            at = next(
                (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
            )
            start = max(0, at - 40)
            return f"line {number}: {left[start : at + 60]!r}, jaxlib {right[start : at + 60]!r}"
    return f"{ours.count(chr(10))} lines, jaxlib {theirs.count(chr(10))}"


def _text(case: Case) -> str | None:
    HloModule.parse(case.text)
    return None


def _proto(case: Case) -> str | None:
    ours = HloModule.parse(case.text).to_proto()
    theirs = xla.HloModuleProto.FromString(case.proto_of_text or b"")
    return None if ours == theirs else _first_difference(str(ours), str(theirs))


def _print_of_text(case: Case) -> str | None:
    ours = HloModule.parse(case.text).to_text()
    return None if ours == case.print_of_text else _first_difference(ours, case.print_of_text or "")


def _print_of_proto(case: Case) -> str | None:
    ours = HloModule.from_proto(case.data).to_text()
    theirs = case.print_of_proto or ""
    lost = LOST_BY_NEWEST.get(case.name)
    if lost is not None:
        own = lost.findall(case.text)
        assert own, f"{case.name} has nothing that jaxlib {NEWEST} loses"
        if lost.findall(ours) != own:
            return f"{lost.findall(ours)}, the text has {own}"
        ours, theirs = lost.sub("", ours), lost.sub("", theirs)
    return None if ours == theirs else _first_difference(ours, theirs)


def _round_trip(case: Case) -> str | None:
    if HloModule.from_bytes(case.data).to_bytes() == case.data:
        return None
    ours = HloModule.from_proto(case.data).to_proto().SerializeToString(deterministic=True)
    theirs = _module_of(case.data).SerializeToString(deterministic=True)
    return None if ours == theirs else f"{len(ours)} bytes, the file has {len(theirs)}, or others"


def _module_of(data: bytes) -> xla.HloModuleProto:
    """The module in a file that is an HloModuleProto, or an HloProto with one. Unknown fields are kept."""
    try:
        module = xla.HloModuleProto.FromString(data)
    except DecodeError:
        module = xla.HloModuleProto()
    return module if module.computations else xla.HloProto.FromString(data).hlo_module


def _maps(case: Case) -> str | None:
    errors = [found.error for found in indexing.module_indexing(HloModule.from_proto(case.data)) if found.error]
    return errors[0].message if errors else None


_FUNCTIONS: dict[str, Callable[[Case], str | None]] = {
    "text": _text,
    "proto": _proto,
    "print of text": _print_of_text,
    "print of proto": _print_of_proto,
    "round trip": _round_trip,
    "maps": _maps,
}


def applies(case: Case, check: str) -> bool:
    """Whether the newest jaxlib has a result to compare with."""
    if check in ("text", "proto", "print of text"):
        return case.proto_of_text is not None
    return check != "print of proto" or case.print_of_proto is not None


def failure(case: Case, check: str) -> str | None:
    """Why the case fails the check, or None."""
    try:
        return _FUNCTIONS[check](case)
    except XlashapeError as error:
        return f"{type(error).__name__}: {error.message}"
