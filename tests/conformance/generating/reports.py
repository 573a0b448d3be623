"""Cases of ReportService: the same questions of every report."""

from __future__ import annotations

import base64
from pathlib import Path

from generating.answered import Cases
from xlashape.proto import services
from xlashape.reports.report import report_of

_ARGUMENTS = {
    ("memory", "at"): ("ynn_fusion.4", "x.1"),
    ("memory", "fit"): ("100000", "2752512", "17179869184"),
}
"""Arguments of sections that have no choices, for the module `attention`."""
_OPTIONS: dict[str, list[dict[str, object]]] = {"memory": [{"space": "0"}, {"space": "1"}, {"target": "tpu-v5e"}]}
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
        both = {"profile": content, "section": "against", "earlier": earlier}
        cases.call(f"{name}/against/earlier", rpc, both, stored=[])
        cases.call(f"{name}/against/two_rows", rpc, both | {"firstRow": "1", "maxRows": 2}, stored=[])
        cases.call(f"{name}/against/no_earlier", rpc, {"profile": content, "section": "against"}, stored=[])
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
    cases.call(f"{name}/two_rows", rpc, of("attention", firstRow="1", maxRows=2), stored=["attention"])
    cases.call(f"{name}/behind_the_last_row", rpc, of("fused", firstRow="100000"), stored=["fused"])
    cases.call(f"{name}/negative_row", rpc, of("fused", firstRow="-1"), stored=["fused"])
    cases.call(f"{name}/negative_count", rpc, of("fused", maxRows=-1), stored=["fused"])
    cases.call(f"{name}/missing_module", rpc, of("fused"), stored=[])
    cases.call(f"{name}/no_module", rpc, {}, stored=[])
    cases.call(f"{name}/broken_text", rpc, {each: {"text": "HloModule m\n\nENTRY e {"} for each in inputs}, stored=[])
    cases.call(f"{name}/no_such_section", rpc, of("fused", section="nowhere"), stored=["fused"])
    for section in report.sections:
        if section.argument is None:
            cases.call(f"{name}/{section.name}", rpc, of("fused", section=section.name, maxRows=5), stored=["fused"])
            continue
        cases.call(f"{name}/{section.name}/no_argument", rpc, of("fused", section=section.name), stored=["fused"])
        for argument in _ARGUMENTS.get((name, section.name), ()):
            cases.call(
                f"{name}/{section.name}/{argument}",
                rpc,
                of("attention", section=section.name, argument=argument),
                stored=["attention"],
            )
        for argument in (*section.argument.choices[:2], "nothing"):
            cases.call(
                f"{name}/{section.name}/{argument}",
                rpc,
                of("fused", section=section.name, argument=argument, maxRows=5),
                stored=["fused"],
            )
    for options in _OPTIONS.get(name, []):
        about = "_".join([f"{option}_{value}" for option, value in options.items()])
        cases.call(f"{name}/{about}", rpc, of("attention", maxRows=5, **options), stored=["attention"])
