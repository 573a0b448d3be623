"""The methods for reports about whole programs. Their results have the same features as the results of
the library's reports.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from google.protobuf.message import Message

from xlashape.base.tables import ColumnKind
from xlashape.errors import InvalidArgumentError, NotFoundError, is_a
from xlashape.proto import v1
from xlashape.reports.messages import MOST_ROWS, Received, arguments, remote_options, vocabulary_of
from xlashape.reports.report import Option, Report, report_of, rpc_of
from xlashape.reports.selection import bytes_of
from xlashape.reports.tiles import integers_of
from xlashape.shape import Shape
from xlashape_client import answers
from xlashape_client.faces import Methods, answer
from xlashape_client.inputs import AnyModule, AnyShape, message_of, shape_input


def _fields(options: Iterable[Option], values: dict[str, Any]) -> dict[str, Any]:
    """The fields of a request for the options that have a value. A flag that is off by default has none while off."""
    found: dict[str, Any] = {}
    for option in options:
        value = values.get(option.name)
        if value is None or value == "" or (option.default is False and not value):
            continue
        choices = vocabulary_of(option)
        if choices is not None:
            found[option.name] = choices.number(choices.check(value, option.name))
        elif option.kind is ColumnKind.INTEGERS:
            found[option.name] = integers_of(value, option.name)
        elif option.kind is ColumnKind.TEXTS:
            found[option.name] = list(value)
        elif option.unit == "bytes" and isinstance(value, str):
            found[option.name] = int(value) if value.isdecimal() else bytes_of(value, option.name)
        else:
            found[option.name] = value
    return found


def _content_of(profile: bytes | str | os.PathLike[str], field: str) -> bytes:
    """The content of a profile. For a directory, the content of the only file of its newest run."""
    if isinstance(profile, bytes):
        return profile
    from xlashape.reports.profile.sources import files_of

    paths = files_of(os.fspath(profile))
    if len(paths) > 1:
        message = f"{profile} has a run of {len(paths)} files: a server takes one, such as {paths[0]}"
        raise InvalidArgumentError(message, field=field)
    try:
        return paths[0].read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise NotFoundError(
            f"cannot read {str(paths[0])!r}: {reason}", kind="file", name=str(paths[0]), field=field
        ) from error


class ReportMethods(Methods):
    """The RPCs of ReportService as methods."""

    @answer
    async def memory(
        self,
        module: AnyModule,
        *,
        space: int | None = None,
        target: str | None = None,
        frames: str | None = None,
        strict: bool = False,
        sections: Iterable[str] = ("",),
        max_rows: int | None = None,
        argument: str | int = "",
        timeout: float | None = None,
    ) -> answers.ReceivedMemory:
        """The peak of a program's memory and the values that live at that time: the answer of `xlashape.memory`, with
        plain values.

        With `space`, XLA's number of a memory space, only the memory of that space counts. For a module without an
        assignment of buffers, `target` names the device whose sizes count, such as "tpu-v5e". With `frames="all"`,
        `source` names every frame that called an operation, and not the line of the user's own code alone. With
        `strict`, text that is no module as it stands is refused; otherwise `notes` says what was left out or assumed.
        `sections` are the tables whose rows are fetched: "" is the main table, others are those of the report, such as
        "timeline". `max_rows` bounds the rows that are fetched of each of them: `row_count` of the answer says how many
        there are. `argument` is the column by which "by" groups, the instruction of "at", or the limit of "fit" in
        bytes. `timeout` bounds each of the calls that fetch a part of the rows.

        >>> report = client.memory(MODULE, sections=("", "by"), argument="opcode")
        >>> report.peak_bytes, report.is_estimate, report[0].name
        (216, True, 'p')
        """
        return await self._report("memory", locals())

    @answer
    async def diff(
        self,
        a: AnyModule,
        b: AnyModule,
        *,
        ignore: Iterable[str] = (),
        schedule: bool = False,
        frames: str | None = None,
        sections: Iterable[str] = ("",),
        max_rows: int | None = None,
        argument: str | int = "",
        timeout: float | None = None,
    ) -> answers.ReceivedDiff:
        """What changed from one module to another: the answer of `xlashape.diff`, with plain values.

        `ignore` names what does not count, such as "layout" or "moved". With `schedule` a different schedule is a
        change. `frames` and `argument` are those of `memory`. The sections are "", "measures", "peak" and "by".

        >>> report = client.diff(MODULE, MODULE)
        >>> report.same, len(report)
        (True, 0)
        """
        return await self._report("diff", locals())

    @answer
    async def equivalent(
        self,
        a: AnyModule,
        b: AnyModule,
        *,
        seed: int = 0,
        frames: str | None = None,
        sections: Iterable[str] = ("",),
        max_rows: int | None = None,
        timeout: float | None = None,
    ) -> answers.ReceivedEquivalent:
        """Whether two modules compute the same: the answer of `xlashape.equivalent`, with plain values.

        `seed` draws other inputs. `frames` is that of `memory`. The only section is "", the stages of a directory,
        which has no rows here.

        >>> report = client.equivalent(MODULE, MODULE)
        >>> report.verdict
        'equal'
        """
        return await self._report("equivalent", locals())

    @answer
    async def summary(
        self,
        module: AnyModule,
        *,
        target: str = "",
        frames: str | None = None,
        strict: bool = False,
        sections: Iterable[str] = ("", "fine"),
        max_rows: int | None = None,
        timeout: float | None = None,
    ) -> answers.ReceivedSummary:
        """What stands out in a program, what mends it, and what is fine: the answer of `xlashape.summary`, with plain
        values.

        `target` is a device of the table of targets, whose peaks and links give least times. `frames` and `strict` are
        those of `memory`. The sections are "" and "fine".

        >>> report = client.summary(MODULE)
        >>> report.instructions, report.flops
        (3, 15)
        """
        return await self._report("summary", locals())

    @answer
    async def copies(
        self,
        module: AnyModule,
        *,
        frames: str | None = None,
        strict: bool = False,
        sections: Iterable[str] = ("",),
        max_rows: int | None = None,
        argument: str | int = "",
        timeout: float | None = None,
    ) -> answers.ReceivedCopies:
        """The instructions that only move data, and what forced each of them: the answer of `xlashape.copies`, with
        plain values.

        `frames`, `strict` and `argument` are those of `memory`. The sections are "", "causes", "by" and "suggestions".

        >>> report = client.copies(MODULE)
        >>> report[0].name, report[0].cause_kind, report[0].bytes
        ('t', 'transpose', 156)
        """
        return await self._report("copies", locals())

    @answer
    async def collectives(
        self,
        module: AnyModule,
        *,
        mesh: str = "",
        target: str = "",
        topology: str = "",
        frames: str | None = None,
        strict: bool = False,
        sections: Iterable[str] = ("",),
        max_rows: int | None = None,
        argument: str | int = "",
        timeout: float | None = None,
    ) -> answers.ReceivedCollectives:
        """What a program sends between devices: the answer of `xlashape.collectives`, with plain values.

        `mesh` names the axes of the mesh, as `data=4,model=2`. `target` is a device of the table of targets, whose
        links give least times, and `topology` says where the devices are, as `4x4`. `frames`, `strict` and `argument`
        are those of `memory`. The sections are "", "findings" and "by".

        >>> report = client.collectives(MODULE)
        >>> report.count, report.sent_bytes
        (0, 0)
        """
        return await self._report("collectives", locals())

    @answer
    async def cost(
        self,
        module: AnyModule,
        *,
        as_xla: bool = False,
        target: str = "",
        peak: float | None = None,
        bandwidth: float | None = None,
        frames: str | None = None,
        strict: bool = False,
        sections: Iterable[str] = ("",),
        max_rows: int | None = None,
        argument: str | int = "",
        timeout: float | None = None,
    ) -> answers.ReceivedCost:
        """The FLOPs and bytes of a program and of its instructions: the answer of `xlashape.cost`, with plain values.

        `as_xla` counts as XLA's HloCostAnalysis does. `target` is a device of the table of targets; `peak` in FLOP/s
        and `bandwidth` in bytes/s take the place of its numbers. `frames`, `strict` and `argument` are those of
        `memory`. The sections are "", "spaces" and "by".

        >>> report = client.cost(MODULE)
        >>> report.flops, report.bytes, report[0].name
        (15, 240, 't')
        """
        return await self._report("cost", locals())

    @answer
    async def why(
        self,
        module: AnyModule | Shape | None = None,
        *,
        shape: AnyShape | None = None,
        text: str = "",
        instruction: str = "",
        target: str = "",
        frames: str | None = None,
        strict: bool = False,
        sections: Iterable[str] = ("",),
        max_rows: int | None = None,
        timeout: float | None = None,
    ) -> answers.ReceivedWhy:
        """Why buffers are as large as they are, and what would make them smaller: the answer of `xlashape.why`, with
        plain values.

        The report is about a `module` or its `instruction`, about a `shape`, or about the shapes in a `text`, such as a
        report about memory that has run out. A `Shape` may also be the first argument. `target` is a device such as
        "tpu". `frames` and `strict` are those of `memory`. The sections are "", "causes", "suggestions", "donated" and
        "stated".

        >>> report = client.why(shape="f32[3,5]{1,0:T(2,2)}", sections=("", "causes"))
        >>> report[0].bytes, report.causes[0].text
        (96, 'tile (2,2) pads dimension 0 from 3 to 4: 33.3% more')
        >>> from xlashape import Shape
        >>> report = client.why(Shape.parse("f32[3,5]{1,0:T(2,2)}"))
        >>> report[0].bytes
        96
        """
        return await self._report("why", locals())

    @answer
    async def size(
        self,
        module: AnyModule | Shape | None = None,
        *,
        shape: AnyShape | None = None,
        computation: str = "",
        order: str = "",
        target: str = "",
        frames: str | None = None,
        strict: bool = False,
        sections: Iterable[str] = ("",),
        max_rows: int | None = None,
        argument: str | int = "",
        timeout: float | None = None,
    ) -> answers.ReceivedSize:
        """How many bytes a shape or the buffers of a module take: the answer of `xlashape size`, with plain values.

        `order` is "padding" (the default), "bytes" or "module"; `computation` selects the instructions of one
        computation; `target` is a device such as "tpu"; `frames`, `strict` and `argument`
        are those of `memory`. The sections are "" and "by".

        >>> report = client.size(MODULE)
        >>> report[0].name, report[0].bytes
        ('p', 96)
        """
        return await self._report("size", locals())

    @answer
    async def reads(
        self,
        module: AnyModule,
        instruction: str = "",
        *,
        computation: str = "",
        output: int | None = None,
        target: str = "",
        warp: int | None = None,
        segment_bytes: int | None = None,
        frames: str | None = None,
        strict: bool = False,
        structured: bool = False,
        sections: Iterable[str] = ("",),
        max_rows: int | None = None,
        argument: str | int = "",
        timeout: float | None = None,
    ) -> answers.ReceivedReads:
        """What instructions read, how efficiently, and how many bytes they fetch in vain: the answer of
        `xlashape.reads`, with plain values.

        `instruction`, `computation` and `output` select what is reported; `target` is a device such as "tpu"; `warp`
        and `segment_bytes` replace its numbers of outputs that read together and of bytes that are fetched together.
        `frames`, `strict` and `argument` are those of `memory`. The sections are "", "accesses", "writes" and "by".

        >>> report = client.reads(MODULE, "t")
        >>> report[0].operand_name, report[0].part_read, report[0].wasted_bytes
        ('p', 1.0, 0)
        """
        return await self._report("reads", locals())

    @answer
    async def profile(
        self,
        profile: bytes | str | os.PathLike[str],
        *,
        target: str = "",
        peak: float | None = None,
        bandwidth: float | None = None,
        frames: str | None = None,
        earlier: bytes | str | os.PathLike[str] | None = None,
        sections: Iterable[str] = ("",),
        max_rows: int | None = None,
        argument: str | int = "",
        timeout: float | None = None,
    ) -> answers.ReceivedProfile:
        """Where the time of a profile goes, by instruction: the answer of `xlashape.profile`, with plain values.

        `profile` is the content of an .xplane.pb or a .trace.json.gz, its path, or the directory that JAX's profiler
        wrote. `target`, `peak` and `bandwidth` are those of `cost`; `frames` and `argument` are those of `memory`. The
        sections are "", "by" and "against", which says what became slower since another profile, `earlier`.
        NotFoundError for a path that cannot be read.

        >>> try:
        ...     report = client.profile(b"no profile")
        ... except ValueError as error:
        ...     print(error.field)
        profile
        """
        return await self._report("profile", locals())

    @answer
    async def map(
        self,
        module: AnyModule,
        instruction: str = "",
        *,
        operand: int | None = None,
        output: int | None = None,
        direction: str = "",
        style: str = "",
        raw: bool = False,
        physical: bool = False,
        computation: str = "",
        strict: bool = False,
        structured: bool = False,
        sections: Iterable[str] = ("",),
        max_rows: int | None = None,
        timeout: float | None = None,
    ) -> answers.ReceivedMap:
        """What one instruction of the module reads, or each instruction, as the text of maps: the answer of
        `xlashape map`, with plain values.

        `operand` and `output` choose among the maps; `raw` maps are not simplified; `physical` maps are between
        positions in buffers; `direction` is "output_to_input" or "input_to_output"; `style` is "xla" or "affine".
        `strict` is that of `memory`. With `structured`, each row has `indexing` too: the map as an
        `xlashape.symbolic.IndexingMap`, and where the values of its variables come from.

        >>> report = client.map(MODULE, "t", structured=True)
        >>> report[0].operand_name, report[0].map
        ('p', '(d0, d1) -> (d1, d0), domain: d0 in [0, 4], d1 in [0, 2]')
        >>> report[0].indexing.map.evaluate((3, 1))
        (1, 3)
        """
        return await self._report("map", locals())

    @answer
    async def tile(
        self,
        module: AnyModule,
        instruction: str = "",
        sizes: str | Sequence[int] | None = None,
        *,
        at: str | Sequence[int] | None = None,
        strides: str | Sequence[int] | None = None,
        output: int = 0,
        style: str = "",
        computation: str = "",
        strict: bool = False,
        structured: bool = False,
        sections: Iterable[str] = ("",),
        max_rows: int | None = None,
        timeout: float | None = None,
    ) -> answers.ReceivedTile:
        """The tile of each operand that a tile of an instruction's output reads: the answer of `xlashape tile`, with
        plain values.

        `sizes`, `at` and `strides` are numbers, or text such as "16,32". `strict` is that of `memory`. With
        `structured`, each row has `indexing`, the map itself, and `tile`, the maps of the symbolic tile.

        >>> report = client.tile(MODULE, "t", (2, 3), at=(1, 0))
        >>> report[0].operand_name, report[0].offsets, report[0].sizes
        ('p', [0, 1], [3, 2])
        """
        return await self._report("tile", locals())

    @answer
    async def verify(
        self,
        module: AnyModule,
        *,
        replica_count: int | None = None,
        num_partitions: int | None = None,
        allow_unbounded: bool = False,
        allow_mixed_precision: bool | None = None,
        sections: Iterable[str] = ("",),
        max_rows: int | None = None,
        timeout: float | None = None,
    ) -> answers.ReceivedVerify:
        """The rules of XLA's verifier that a module breaks: the answer of `xlashape verify`, with plain values. The
        options are those of `xlashape.hlo.verify`.

        >>> report = client.verify(MODULE)
        >>> report.problem_count
        0
        """
        return await self._report("verify", locals())

    async def _report(self, name: str, given: dict[str, Any]) -> Any:
        """Asks for a report, page by page, and returns it. `given` are the arguments of the method by name: the
        subject, the options, and how much of which tables.
        """
        report, rpc, max_rows, timeout = report_of(name), rpc_of(name), given["max_rows"], given["timeout"]
        if max_rows is not None and (not is_a(max_rows, int) or max_rows < 0):
            raise InvalidArgumentError(f"expected a number from 0 on, found {max_rows!r:.60}", field="max_rows")
        kind: type[Message] = getattr(v1, f"{rpc}Request")
        response: type[Any] = getattr(v1, f"{rpc}Response")
        common = await self._subject(report, given) | _fields(remote_options(report), given)
        contents = {each.name: await self._profile(given, each.name) for each in arguments(report) if each.is_content}
        if given.get("structured"):
            common["structured"] = True
        if max_rows is not None:
            common["page_size"] = min(max(max_rows, 1), MOST_ROWS)
        found: dict[str, list[Any]] = {}
        for table in dict.fromkeys(given["sections"]):
            fields = dict(common)
            of = report.section(table).argument if table else None
            if table:
                fields["table"] = f"{name}_table_{table}".upper()
            if of is not None and of.is_content:
                fields |= contents
            elif of is not None:
                fields |= _fields(arguments(report), {table: given["argument"]})
            pages = [await self._transport.call(rpc, message_of(kind, **fields), response, timeout)]
            count = len(getattr(pages[0], table or report.rows))
            while pages[-1].next_page_token and (max_rows is None or count < max_rows):
                fields["page_token"] = pages[-1].next_page_token
                pages.append(await self._transport.call(rpc, message_of(kind, **fields), response, timeout))
                count += len(getattr(pages[-1], table or report.rows))
            found[table] = pages
        if not found:
            raise InvalidArgumentError("no table is asked for", field="sections")
        return Received(report, found, max_rows)

    async def _subject(self, report: Report, given: dict[str, Any]) -> dict[str, Any]:
        """The fields of a request that have the subject of the report."""
        timeout = given["timeout"]
        if report.inputs == ("profile",):
            return {"profile": await self._profile(given, "profile")}
        if "shape" not in report.inputs:
            return {name: await self._transport.module_input(given[name], timeout) for name in report.inputs}
        module, shape, text = given["module"], given["shape"], given.get("text", "")
        if isinstance(module, Shape) and shape is None:
            module, shape = None, module
        if (module is not None) + (shape is not None) + bool(text) != 1:
            raise InvalidArgumentError("expected one of a module, a shape and text", field="module")
        if module is not None and not isinstance(module, Shape):
            return {"module": await self._transport.module_input(module, timeout)}
        return {"text": text} if shape is None else {"shape": shape_input(shape)}

    async def _profile(self, given: dict[str, Any], name: str) -> bytes | None:
        """The content of a profile that is an argument."""
        profile = given[name]
        return None if profile is None else await self._transport.aside(partial(_content_of, profile, name))
