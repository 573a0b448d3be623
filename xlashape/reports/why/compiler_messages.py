"""Messages of compilers that state what a kernel or a change of sharding takes: XLA's for TPUs and of its partitioner,
ptxas and Triton for GPUs. The shapes in such a message are not what ran out, so they are not explained. And messages
about memory that are not XLA's, in texts that hold nothing of XLA.

    scoped memory      "Scoped allocation with size SIZE and limit SIZE exceeded scoped vmem limit by SIZE" (E1001), also
                       where the text ends before the sizes
    without sizes      "Ran out of memory in memory space vmem", and labels without sizes
    partitioner        "Involuntary full rematerialization", in both wordings
    shared memory      ptxas: "uses too much shared data (0x1a000 bytes, 0xc000 max)"; Triton: "out of resource: shared
                       memory, Required: 131072, Hardware limit: 101376"; XLA: "Shared memory size limit exceeded:
                       requested 98304, available: 49152"
    PyTorch            "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.15 GiB of which
                       1.02 GiB is free", and its older wording "(GPU 0; 79.15 GiB total capacity; …; 1.02 GiB free; …)"
    NumPy              "Unable to allocate 3.00 GiB for an array with shape (1024, 786432) and data type float32"
    C++                "std::bad_alloc"
    a killed process   "Killed", "exit code 137", "OOMKilled", "Out of memory: Killed process 12"
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from xlashape.base.math import byte_text, ceil_div, counted
from xlashape.errors import XlashapeError
from xlashape.limits import spend
from xlashape.reports.oom_text import (
    SIZE_PATTERN,
    ReportedAmount,
    ReportedTotals,
    is_report,
    most_size,
    parse_size,
    read_report,
    read_totals,
)
from xlashape.reports.text import cut_middle
from xlashape.shape import Shape, Target

if TYPE_CHECKING:
    from xlashape.indexing.sharding.resharding import Reshard

_MOST_MESSAGES: Final = 100
_SHOWN: Final = 5
_NAME_LENGTH: Final = 80
_AMOUNT: Final = r"\d{1,15}(?:\.\d{0,15})?\s?(?:[KMGTPE]i?B|bytes)"
_PYTORCH: Final = re.compile(
    rf"\b(?:CUDA|HIP|XPU|MPS)\s+out\s+of\s+memory\.\s+Tried\s+to\s+allocate\s+(?P<needed>{_AMOUNT})"
    rf"(?:\.\s+GPU\s+(?P<gpu>\d+)\s+has\s+a\s+total\s+capacity\s+of\s+(?P<whole>{_AMOUNT})\s+of\s+which\s+(?P<free>{_AMOUNT})"
    rf"\s+is\s+free|\s+\(GPU\s+(?P<gpu_>\d+);\s+(?P<whole_>{_AMOUNT})\s+total\s+capacity;[^)\n]{{0,200}}?(?P<free_>{_AMOUNT}) free)?"
)
_NUMPY: Final = re.compile(
    rf"Unable\s+to\s+allocate\s+(?P<needed>{_AMOUNT})\s+for\s+an\s+array\s+with\s+shape\s+(?P<shape>\([\d,\s]{{0,400}}\))"
    r"\s+and\s+data\s+type\s+(?P<type>[^\s'\"]{1,40})"
)
_BAD_ALLOC: Final = re.compile(r"\bstd::bad_alloc\b")
_KILLED: Final = re.compile(
    r"^[^\n]{0,200}\bKilled(?:$|:? 9\b|\s+python)|\bexit(?:ed)?\s+(?:with\s+)?(?:code|status)[\s:]{1,9}137\b|\bOOMKilled\b|\bSIGKILL\b"
    r"|\boom-kill|[Oo]ut\s+of\s+memory:\s+Kill(?:ed)?\s+process",
    re.MULTILINE,
)
_OF_XLA: Final = re.compile(r"\b(?:pred|[sufc]\d{1,3}|bf16|f8\w{1,12})\[[\d,<=?]*\]|\bHLO\b|HloModule")
_VMEM: Final = {
    "v2": 16 << 20,
    "v3": 16 << 20,
    "v4": 16 << 20,
    "v5e": 128 << 20,
    "v5p": 64 << 20,
    "v6e": 128 << 20,
    "7x": 64 << 20,
}
"""The generation of a TPU → the bytes of VMEM of a core."""
_SCOPED: Final = re.compile(
    rf"Scoped\s+allocation\s+with\s+size\s+(?P<needed>{SIZE_PATTERN})\s+and\s+limit\s+(?P<limit>{SIZE_PATTERN})\s+exceeded"
    rf"\s+scoped\s+(?P<space>\w{{1,20}})\s+limit\s+by\s+(?P<excess>{SIZE_PATTERN})(?<=[A-Z])"
)
_SCOPED_BEGINS: Final = re.compile(
    r"\bE1001\b|[Rr]an\s+out\s+of\s+memory\s+in\s+memory\s+space\s+vmem\s+while\s+allocating\s+on\s+stack\s+for"
    r"|Scoped\s+allocation\s+with\s+size"
)
_SCOPED_SIZES: Final = re.compile(
    rf"Scoped\s+allocation\s+with\s+size\s+(?P<needed>{SIZE_PATTERN})\s+and\b(?:\s+limit\s+(?P<limit>{SIZE_PATTERN})\s+ex)?"
)
_STACK: Final = re.compile(r"\bstack\s+for\s+%?([\w.\-]{1,200})\s*=\s*")
_OPCODE: Final = re.compile(r"[ )}\]](custom-call|[a-z][a-z\-]{1,40})\(")
_SPACE: Final = re.compile(r"[Rr]an\s+out\s+of\s+memory\s+in\s+memory\s+space\s+(\w{1,20})")
_LABEL: Final = re.compile(r"XLA\s+[Ll]abel:[ \t]*([^\n]{1,2000})")
_REMAT: Final = re.compile(r"[Ii]nvoluntary\s+full\s+rematerialization")
_FROM: Final = re.compile(r"from\s+sharding\s+(?=\{)")
_TO: Final = re.compile(r"\s+to\s+(?=\{)")
_OPERATION: Final = re.compile(r"HLO\s+operation:?\s+%?([\w.\-]{1,200})\s*=\s*(?=[a-z])")
_SHAPE: Final = re.compile(r"[a-z]\w{0,20}\[[\d,]{0,400}\](?:\{[^{}]{0,400}\})?")
_SHARED: Final = (
    re.compile(r"uses\s+too\s+much\s+shared\s+data\s+\((?P<needed>0x[0-9a-f]{1,16})\s+bytes,\s+(?P<limit>0x[0-9a-f]{1,16})\s+max\)"),
    re.compile(r"out\s+of\s+resource:\s+shared\s+memory,\s+Required:\s+(?P<needed>\d{1,18}),\s+Hardware\s+limit:\s+(?P<limit>\d{1,18})"),
    re.compile(r"Shared\s+memory\s+size\s+limit\s+exceeded:\s+requested\s+(?P<needed>\d{1,18}),\s+available:\s+(?P<limit>\d{1,18})"),
)  # fmt: skip


class Messages(NamedTuple):
    """The messages in a text, of the first kind that it has."""

    said: tuple[str, ...]
    """What they say, in sentences."""
    amounts: tuple[ReportedAmount, ...]
    """The bytes that they state or that follow."""
    totals: ReportedTotals | None = None


def read_messages(cleaned: str, target: Target | None = None) -> Messages | None:
    """The messages in a cleaned text; None where it has none of these kinds. `target`: the device that they are of.

    >>> found = read_messages(
    ...     "Ran out of memory in memory space vmem while allocating on stack for %k.3 = f32[8] custom-call(%a). "
    ...     "Scoped allocation with size 21.50M and limit 16.00M exceeded scoped vmem limit by 5.50M."
    ... )
    >>> found.said[0]
    'k.3 (custom-call) needs 21.50 MiB of scoped VMEM; the limit is 16.00 MiB, 5.50 MiB too little.'
    """
    scoped = _scoped(cleaned, _VMEM.get(target.generation) if target is not None else None)
    return (
        scoped
        or _scoped_cut(cleaned)
        or _remats(cleaned)
        or _shared(cleaned)
        or _without_sizes(cleaned)
        or _of_others(cleaned)
    )


def _scoped(cleaned: str, vmem: int | None) -> Messages | None:
    """The messages about scoped memory. `vmem`: the bytes of VMEM of the chip; None where it is not known."""
    said: list[str] = []
    amounts: list[ReportedAmount] = []
    totals: ReportedTotals | None = None
    is_kernel = False
    most = least_limit = 0
    at = 0
    for match in _first(_SCOPED, cleaned):
        name = opcode = ""
        for head in _STACK.finditer(cleaned, at, match.start()):  # the last one before it
            found = _OPCODE.search(cleaned, head.end() - 1, match.start())
            name, opcode = head[1], found[1] if found else ""
        at = match.end()
        is_kernel |= opcode == "custom-call"
        needed, limit, excess = [parse_size(match[each]) or 0 for each in ("needed", "limit", "excess")]
        space = match["space"].upper()
        about = f"{name} ({opcode})" if opcode else name or "A kernel"
        said.append(
            f"{about} needs {binary_text(needed)} of scoped {space}; the limit is {binary_text(limit)}, {binary_text(excess)} too little."
        )
        for what, size in (("needed", needed), ("limit", limit), ("excess", excess)):
            amounts.append(ReportedAmount(f"scoped {space.lower()}", what, match[what], size, name))
        if needed > most:
            texts = match["needed"], match["limit"], match["excess"]
            most, least_limit, totals = (
                needed,
                most_size(match["needed"]),
                ReportedTotals(f"scoped {space.lower()}", *texts),
            )
    if totals is None:
        return None
    said.append(
        "It stopped at the first array of its blocks and scratch that does not fit, so all of it may need more; arrays "
        "in its line lie elsewhere, and are not what ran out."
    )
    if totals.memory_space == "scoped vmem":
        flag = f"--xla_tpu_scoped_vmem_limit_kib={ceil_div(least_limit, 1024)}"
        kernel = f"pltpu.CompilerParams(vmem_limit_bytes={least_limit}) of a Pallas kernel, or " if is_kernel else ""
        if vmem is not None and most > vmem:
            said.append(f"No limit helps: the chip has {binary_text(vmem)} of VMEM. Smaller blocks take less.")
        else:
            there = "if the chip has as much" if vmem is None else f"up to the {binary_text(vmem)} of the chip"
            said.append(
                f"Smaller blocks take less; {kernel}{flag} raises the limit, {there}. That is the least: the next "
                "message may name more."
            )
    return Messages(tuple(said), tuple(amounts), totals)


def _scoped_cut(cleaned: str) -> Messages | None:
    """A message about scoped VMEM that ends before all of its sizes are told."""
    begins = _SCOPED_BEGINS.search(cleaned)
    whole = read_totals(cleaned)
    if begins is None or (whole is not None and whole.used):  # it goes on with the sizes of another kind of report
        return None
    head, sizes = _STACK.search(cleaned, begins.start()), _SCOPED_SIZES.search(cleaned, begins.start())
    opcode = _OPCODE.search(cleaned, head.end() - 1) if head is not None else None
    about = f"{head[1]}{f' ({opcode[1]})' if opcode else ''}" if head is not None else "A kernel"
    texts = (sizes["needed"], sizes["limit"] or "") if sizes is not None else ("", "")
    needs = f"needs {binary_text(parse_size(texts[0]) or 0)} of" if texts[0] else "does not fit in"
    limit = f"; the limit is {binary_text(parse_size(texts[1]) or 0)}" if texts[1] else ""
    said = (
        f"{about} {needs} scoped VMEM{limit}. The text ends before the message does.",
        "Smaller blocks or less scratch take less; a higher limit may help: the whole message says how much is needed. "
        "The shapes in it are operands and results, and not what ran out.",
    )
    name = head[1] if head is not None else ""
    rows = [
        ReportedAmount("scoped vmem", what, text, parse_size(text), name)
        for what, text in zip(("needed", "limit"), texts, strict=True)
        if text
    ]
    return Messages(said, tuple(rows), ReportedTotals("scoped vmem", *texts, ""))


class _Change(NamedTuple):
    """A change of sharding in a message."""

    whole: Shape
    """The array. The message has the shape of the part that one device holds."""
    made: Reshard
    advice: str
    """The shardings on the way that need no full rematerialization, in a sentence; empty where none are known."""

    @staticmethod
    def of(part: Shape, one: str, other: str) -> _Change:
        # start-up time: it loads maps, and few messages are about shardings
        from xlashape.hlo.collectives.meshes import DeviceMesh
        from xlashape.indexing.sharding.resharding import reshard
        from xlashape.indexing.sharding.spelled import of, spec_of

        before = of(one)
        counts = before.counts_for(part)
        whole = part.replace(dimensions=[size * count for size, count in zip(part.dimensions, counts, strict=True)])
        made = reshard(whole, before, other)
        steps = made.steps or ()
        total = sum([step.received_bytes for step in steps])
        if len(steps) < 2 or total >= made.gathered_bytes:
            return _Change(whole, made, "")
        mesh = DeviceMesh.of(one[1:].partition("], ")[0] + "]") if one.startswith("{mesh[") else None
        shown = [
            (spec_of(step.sharding, mesh) if mesh is not None else None) or str(step.sharding) for step in steps[:-1]
        ]
        kinds = ", ".join([step.kind for step in steps])
        advice = f" Constrained to {', then '.join(shown)} in between, it takes {kinds}, {binary_text(total)}."
        return _Change(whole, made, advice)


def _remats(cleaned: str) -> Messages | None:
    said: list[str] = []
    amounts: list[ReportedAmount] = []
    for match in _first(_REMAT, cleaned):
        before = _FROM.search(cleaned, match.end(), match.end() + 200)
        if before is None:
            continue
        end = _brace_end(cleaned, before.end())
        after = _TO.match(cleaned, end)
        stop = _brace_end(cleaned, after.end()) if after is not None else end
        operation = _OPERATION.search(cleaned, stop, stop + 400)
        shape = _SHAPE.match(cleaned, operation.end()) if operation is not None else None
        if after is None or operation is None or shape is None:
            continue
        one, other = cleaned[before.end() : end], cleaned[after.end() : stop]
        name = operation[1]
        try:
            change = _Change.of(Shape.parse(shape[0]), one, other)
        except XlashapeError as error:
            said.append(
                f"{name} goes from sharding {one} to {other} by way of the whole array on each device: {error.message}"
            )
            continue
        sizes = change.made
        said.append(
            f"{name}, {change.whole} in all, is {binary_text(sizes.before_bytes)} on each device before and "
            f"{binary_text(sizes.after_bytes)} after, and between them the whole {binary_text(sizes.whole_bytes)} on each: the "
            f"partitioner gathers it to go from {one} to {other}. A device receives {binary_text(sizes.gathered_bytes)}, and "
            f"lacks {binary_text(sizes.received_bytes)}.{change.advice}"
        )
        for what, size in (
            ("before", sizes.before_bytes),
            ("between", sizes.whole_bytes),
            ("after", sizes.after_bytes),
            ("gathered", sizes.gathered_bytes),
            ("lacked", sizes.received_bytes),
        ):
            amounts.append(ReportedAmount("bytes on each device", what, byte_text(size), size, name))
    if not said:
        return None
    more = [f"And {len(said) - _SHOWN} more of these."] if len(said) > _SHOWN else []
    return Messages((*said[:_SHOWN], *more), tuple(amounts))


def _shared(cleaned: str) -> Messages | None:
    for pattern in _SHARED:
        match = pattern.search(cleaned)
        if match is not None:
            needed, limit = int(match["needed"], 0), int(match["limit"], 0)
            said = (
                f"A kernel needs {byte_text(needed)} of shared memory for a block; the GPU gives {byte_text(limit)}.",
                "Smaller tiles or fewer stages take less. While XLA tunes kernels, it takes another choice instead.",
            )
            rows = (("needed", needed), ("limit", limit), ("excess", needed - limit))
            amounts = [ReportedAmount("shared memory", what, byte_text(size), size) for what, size in rows]
            return Messages(said, tuple(amounts), ReportedTotals("shared memory", f"{needed}B", f"{limit}B", ""))
    return None


def _without_sizes(cleaned: str) -> Messages | None:
    space = _SPACE.search(cleaned)
    labels = [" ".join(match[1].split()) for match in _first(_LABEL, cleaned)]
    if space is None or not labels:
        return None
    read = read_report(cleaned)
    if read.allocations or read.amounts or (read.totals is not None and read.totals.used):
        return None
    said = [f"The compiler ran out of {space[1].upper()}; the report states no size."]
    rows: list[ReportedAmount] = []
    for label in labels:
        name, is_instruction, _ = label.partition(" = ")
        opcode = _OPCODE.search(label) if is_instruction else None
        name = cut_middle(name.removeprefix("%"), _NAME_LENGTH)
        rows.append(ReportedAmount(f"allocations in {space[1]}", name, "", None, opcode[1] if opcode else ""))
    shown = ", ".join([f"{row.name} ({row.detail})" if row.detail else row.name for row in rows[:_SHOWN]])
    more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    said.append(f"It lists {counted(len(rows), 'allocation')}: {shown}{more}.")
    if any(row.detail for row in rows):
        said.append("The shapes in a label are those of operands and results, not of what was allocated.")
    return Messages(tuple(said), tuple(rows), ReportedTotals(space[1], "", "", ""))


def _of_others(cleaned: str) -> Messages | None:
    """The message of another program about memory, where nothing in the text is of XLA."""
    torch, numpy = _PYTORCH.search(cleaned), _NUMPY.search(cleaned)
    is_bad, is_killed = _BAD_ALLOC.search(cleaned) is not None, _KILLED.search(cleaned) is not None
    if not (torch or numpy or is_bad or is_killed) or _OF_XLA.search(cleaned) or is_report(cleaned):
        return None
    if torch is not None:
        texts = [torch[name] or torch[f"{name}_"] or "" for name in ("whole", "free")]
        needed, whole, free = [_size_of(text) for text in (torch["needed"], *texts)]
        there = "" if free is None or whole is None else f": {binary_text(free)} of {binary_text(whole)} were free"
        said = (
            f"PyTorch asked GPU {torch['gpu'] or torch['gpu_'] or ''} for {binary_text(needed or 0)}{there}.".replace(
                "  ", " "
            ),
            "The message is PyTorch's and names no array: torch.cuda.memory_summary() says what holds the memory.",
        )
        stated = (("requested", torch["needed"], needed), ("capacity", texts[0], whole), ("free", texts[1], free))
        rows = [ReportedAmount("GPU memory", what, text, size) for what, text, size in stated if text]
        return Messages(said, tuple(rows))
    if numpy is not None:
        size = _size_of(numpy["needed"])
        shape = " ".join(numpy["shape"].split())
        said = (
            f"NumPy asked for {binary_text(size or 0)}, for an array of shape {shape} and type {numpy['type'].rstrip('.')}.",
            "It is the host's own memory that ran out, not a device's.",
        )
        return Messages(said, (ReportedAmount("host memory", "requested", numpy["needed"], size),))
    if is_bad:
        return Messages(
            (
                "A C++ program got no memory from the host (std::bad_alloc); the text does not say how much it asked for.",
                "It is the host's own memory that ran out, not a device's.",
            ),
            (),
        )
    return Messages(
        (
            "The process was killed (signal 9), as Linux and container systems do where the host's memory runs out; the "
            "text states no size.",
            "A device that runs out of memory does not end a process so. The kernel's log, or the limit of the container, "
            "tells whether it was memory.",
        ),
        (),
    )


def _size_of(text: str) -> int | None:
    """The bytes of a size such as `2.50 GiB` or `144. MiB`; None for no text."""
    number, unit = (*text.replace("bytes", "B").split(), "")[:2] if " " in text else (text, "")
    return parse_size(number.removesuffix(".") + unit) if text else None


def _first(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    for number, match in enumerate(pattern.finditer(text)):
        spend(16)
        if number >= _MOST_MESSAGES:
            return
        yield match


def _brace_end(text: str, at: int) -> int:
    """The offset behind the brace that closes the one at an offset."""
    depth = 0
    for end in range(at, min(len(text), at + 10_000)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if not depth:
            return end + 1
    return at


def binary_text(size: int) -> str:
    """A number of bytes in a binary unit, with two decimals.

    >>> binary_text(96), binary_text(34_359_738_368)
    ('96 bytes', '32.00 GiB')
    """
    return byte_text(size).partition(" (")[2].rstrip(")") or byte_text(size)
