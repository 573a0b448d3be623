"""Cases of ReportService: the same questions of every report."""

from __future__ import annotations

import base64
from pathlib import Path

from generating.answered import Cases
from xlashape.base.tables import ColumnKind
from xlashape.proto import services
from xlashape.reports.messages import remote_options, tables, vocabulary_of
from xlashape.reports.report import STRICT, report_of

_ARGUMENTS = {
    ("memory", "at"): ("ynn_fusion.4", "x.1", "nothing"),
    ("memory", "fit"): ("100000", "2752512", "17179869184"),
}
"""Arguments of sections that have no choices, for the module `attention`."""
_OPTIONS: dict[str, list[dict[str, object]]] = {
    "memory": [{"space": "0"}, {"space": "1"}, {"target": "TARGET_TPU_V5E"}]
}
"""Options, with which reports of the module `attention` are asked for."""
_VECTORS = Path(__file__).resolve().parents[2] / "vectors"


def reports() -> Cases:
    """ReportService."""
    cases = Cases("reports")
    [service] = [each for each in services() if each.name == "ReportService"]
    for method in service.methods:
        _cases_of(cases, method)
    return cases


def _cases_of(cases: Cases, method) -> None:
    name = method.name.lower()
    report = report_of(name)
    rpc = f"ReportService/{method.name}"
    inputs = [
        field.name
        for field in method.input_type.fields
        if field.message_type is not None and field.message_type.name == "ModuleInput"
    ]

    def of(module: str, **more: object) -> dict[str, object]:
        return {each: {"name": f"$name:{module}"} for each in inputs} | more

    if report.inputs == ("profile",):
        traces = _VECTORS / "profiles"
        content = base64.b64encode((traces / "conv_grad.trace.json.gz").read_bytes()).decode()
        cases.call(f"{name}/trace", rpc, {"profile": content}, stored=[])
        earlier = base64.b64encode((traces / "scan_grad.trace.json.gz").read_bytes()).decode()
        against = "PROFILE_TABLE_AGAINST"
        both = {"profile": content, "table": against, "earlier": earlier}
        cases.call(f"{name}/against/earlier", rpc, both, stored=[])
        cases.call(f"{name}/against/two_rows", rpc, both | {"pageSize": 2}, stored=[])
        cases.call(f"{name}/against/no_earlier", rpc, {"profile": content, "table": against}, stored=[])
        broken = base64.b64encode(b"no profile").decode()
        cases.call(f"{name}/against/broken", rpc, both | {"earlier": broken}, stored=[])
        cases.call(f"{name}/broken", rpc, {"profile": base64.b64encode(b"no profile").decode()}, stored=[])
    for module in ("attention", "fused", "loops"):
        cases.call(f"{name}/{module}", rpc, of(module), stored=[module])
    cases.call(
        f"{name}/text",
        rpc,
        {
            each: {"text": "HloModule m ENTRY e { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }"}
            for each in inputs
        },
        stored=[],
    )
    if STRICT in report.options:
        lines = {"module": {"text": "[rank0]: %a.2 = f32[4]{0} add(f32[4]{0} %x, f32[4]{0} %x)\n"}}
        cases.call(f"{name}/in_hand", rpc, lines, stored=[])
        cases.call(f"{name}/in_hand/strict", rpc, lines | {"strict": True}, stored=[])
    cases.call(f"{name}/two_rows", rpc, of("attention", pageSize=2), stored=["attention"])
    cases.call(f"{name}/other_token", rpc, of("fused", pageToken="AAAA"), stored=["fused"])
    cases.call(f"{name}/negative_count", rpc, of("fused", pageSize=-1), stored=["fused"])
    cases.call(f"{name}/missing_module", rpc, of("fused"), stored=[])
    cases.call(f"{name}/no_module", rpc, {}, stored=[])
    cases.call(f"{name}/broken_text", rpc, {each: {"text": "HloModule m\n\nENTRY e {"} for each in inputs}, stored=[])
    for option in remote_options(report):
        if vocabulary_of(option) is not None and option.kind is ColumnKind.TEXT:
            cases.call(f"{name}/{option.name}/unknown", rpc, of("fused", **{option.name: 99}), stored=["fused"])
    known = tables(report)
    if known is None:
        return
    cases.call(f"{name}/no_such_table", rpc, of("fused", table=99), stored=["fused"])
    for section in report.sections:
        table = known.member(section.name)
        if section.argument is None:
            cases.call(f"{name}/{section.name}", rpc, of("fused", table=table, pageSize=5), stored=["fused"])
            continue
        cases.call(f"{name}/{section.name}/no_argument", rpc, of("fused", table=table), stored=["fused"])
        if section.argument.is_content:
            continue
        choices = vocabulary_of(section.argument)
        given = [(each, choices.member(each)) for each in section.argument.choices[:2]] if choices else []
        for about, argument in (*given, *[(each, each) for each in _ARGUMENTS.get((name, section.name), ())]):
            cases.call(
                f"{name}/{section.name}/{about}",
                rpc,
                of("attention", table=table, pageSize=5, **{section.name: argument}),
                stored=["attention"],
            )
            cases.call(
                f"{name}/{section.name}/{about}/of_no_table",
                rpc,
                of("fused", **{section.name: argument}),
                stored=["fused"],
            )
    for options in _OPTIONS.get(name, []):
        about = "_".join([f"{option}_{value}" for option, value in options.items()])
        cases.call(f"{name}/{about}", rpc, of("attention", pageSize=5, **options), stored=["attention"])
