"""The dashboard for Grafana and the alarms for Prometheus: their questions are PromQL, and ask for metrics and labels that the server has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from xlashape_server.telemetry.catalogue import METRICS

promql = pytest.importorskip("promql_parser", reason="promql-parser is not installed")
yaml = pytest.importorskip("yaml", reason="pyyaml is not installed")

DEPLOY = Path(__file__).resolve().parents[2] / "server" / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "xlashape.json").read_text(encoding="utf-8"))
RULES: dict[str, Any] = yaml.safe_load((DEPLOY / "monitoring" / "rules.yaml").read_text(encoding="utf-8"))

PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
ALARMS: list[dict[str, Any]] = [rule for group in RULES["spec"]["groups"] for rule in group["rules"]]
QUESTIONS: list[str] = [target["expr"] for panel in PANELS for target in panel["targets"]]
OF_PROMETHEUS = {"job", "instance"}  # labels that it adds to all samples


def parts(expression: Any) -> Iterator[Any]:
    """An expression and those within it."""
    yield expression
    for name in ("expr", "lhs", "rhs", "param", "vector_selector", "vs"):
        inner = getattr(expression, name, None)
        if inner is not None:
            yield from parts(inner)
    for inner in getattr(expression, "args", None) or ():
        yield from parts(inner)


def parsed(question: str) -> Any:
    return promql.parse(question.replace("$__rate_interval", "5m"))


def labels_of(name: str) -> set[str]:
    """The labels of a sample by its name."""
    about = METRICS.get(name) or METRICS[re.sub("_(bucket|sum|count)$", "", name)]
    if about.kind == "histogram":
        assert name != about.name, f"{name} has samples _bucket, _sum and _count only"
    return {*about.labels, *OF_PROMETHEUS} | ({"le"} if name.endswith("_bucket") else set())


@pytest.mark.parametrize("question", [*QUESTIONS, *(alarm["expr"] for alarm in ALARMS)])
def test_a_question_asks_for_what_there_is(question: str) -> None:
    asked: set[str] = set()
    for part in parts(parsed(question)):
        if isinstance(part, promql.VectorSelector):
            asked.add(part.name)
            for matcher in part.matchers.matchers:
                assert matcher.name in labels_of(part.name)
    names = set(re.findall(r"xlashape_\w+", question))
    assert asked == names
    assert names
    for grouped in re.findall(r"\b(?:by|on) \(([^)]*)\)", question):
        for label in grouped.split(", "):
            assert all(label in labels_of(name) for name in names), label


@pytest.mark.parametrize("question", QUESTIONS)
def test_counters_are_asked_for_their_growth(question: str) -> None:
    for part in parts(parsed(question)):
        if isinstance(part, promql.MatrixSelector):
            continue
        for name in ("expr", "lhs", "rhs"):
            inner = getattr(part, name, None)
            if isinstance(inner, promql.VectorSelector):
                about = METRICS.get(inner.name)
                assert about is not None, inner.name
                assert about.kind == "gauge", inner.name


def test_the_parser_finds_mistakes() -> None:
    for wrong in ("sum(rate(xlashape_calls_total[5m])", "sum by (le rate(x[5m])", "rate(xlashape_calls_total)", "a{b}"):
        with pytest.raises(Exception, match="."):
            parsed(wrong)
    with pytest.raises(KeyError):
        labels_of("xlashape_calls")


def test_every_metric_has_a_panel() -> None:
    shown = {
        re.sub("_(bucket|sum|count)$", "", name) for each in QUESTIONS for name in re.findall(r"xlashape_\w+", each)
    }
    assert shown == set(METRICS)


def test_the_legends_name_labels_that_are_left() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            groups = re.findall(r"^\w+ by \(([^)]*)\)|quantile\([\d.]+, sum by \(([^)]*)\)", target["expr"])
            legend = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            if groups:
                assert legend <= {*", ".join(map("".join, groups)).split(", ")}, panel["title"]
            elif legend:
                [name, *_] = re.findall(r"xlashape_\w+", target["expr"])
                assert legend <= labels_of(name), panel["title"]


def test_every_panel_says_what_it_shows() -> None:
    for panel in PANELS:
        assert panel["description"].endswith("."), panel["title"]
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["unit"], panel["title"]
        # Grafana writes `noValue` on an axis where a number of the axis needs more decimals.
        assert panel["type"] != "timeseries" or not {"noValue", "decimals"} <= defaults.keys(), panel["title"]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_follows_the_variables(question: str) -> None:
    for part in parts(parsed(question)):
        if isinstance(part, promql.VectorSelector):
            asked = {(matcher.name, matcher.value) for matcher in part.matchers.matchers}
            assert asked >= {("job", "$job"), ("instance", "$instance")}


def test_single_numbers_are_those_of_now() -> None:
    """Over a range, Grafana shows the last number that there was, also of a server that is gone."""
    for panel in PANELS:
        for target in panel["targets"]:
            assert target["instant"] is (panel["type"] in ("stat", "table")) is not target["range"], panel["title"]


def test_tables_have_a_row_for_each_server() -> None:
    """Rows of several questions are merged where all labels are alike, so the name of the metric may not be among them."""
    for panel in PANELS:
        if panel["type"] == "table":
            for target in panel["targets"]:
                assert re.search(r"\b(sum|max) by \(job, instance\b", target["expr"]), panel["title"]


def test_panels_lie_side_by_side() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in taken, (panel["title"], taken[x, y])
                taken[x, y] = panel["title"]
    identities = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(identities) == len(set(identities))
    titles = [panel["title"] for panel in PANELS]
    assert len(titles) == len(set(titles))


def test_variables_are_all_used_and_defined() -> None:
    defined = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD))) - {"__rate_interval", "__all"}
    assert used == defined == {"datasource", "job", "instance"}


def test_alarms_say_what_happens() -> None:
    for alarm in ALARMS:
        assert re.fullmatch(r"Xlashape\w+", alarm["alert"])
        assert alarm["labels"]["severity"] in ("warning", "critical")
        assert alarm["annotations"]["summary"].endswith(".")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_takes_the_alarms(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": RULES["spec"]["groups"]}))
    done = subprocess.run(
        ["promtool", "check", "rules", str(path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
