"""The dashboard for Grafana and the alarms for Prometheus: their queries are valid PromQL, and name metrics and labels
that the server has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.optional import without
from xlashape_server.counts import METRICS

promql = pytest.importorskip("promql_parser", reason="promql-parser is not installed")
yaml = pytest.importorskip("yaml", reason="pyyaml is not installed")

DEPLOY = Path(__file__).resolve().parents[2] / "server" / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "xlashape.json").read_text(encoding="utf-8"))
RULES: dict[str, Any] = yaml.safe_load((DEPLOY / "monitoring" / "rules.yaml").read_text(encoding="utf-8"))

PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
ALARMS: list[dict[str, Any]] = [rule for group in RULES["spec"]["groups"] for rule in group["rules"]]
OPERATIONS = (DEPLOY.parents[1] / "docs" / "operations.md").read_text(encoding="utf-8")
QUESTIONS: list[str] = [target["expr"] for panel in PANELS for target in panel["targets"]]
OF_PROMETHEUS = {"job", "instance"}  # labels that Prometheus adds to all samples
FAULTS = {"INTERNAL", "UNKNOWN", "DATA_LOSS"}


def alarm(name: str) -> dict[str, Any]:
    [found] = [each for each in ALARMS if each["alert"] == name]
    return found


def parts(expression: Any) -> Iterator[Any]:
    """An expression, and all expressions within it."""
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
    """The labels of the samples of a metric."""
    if name == "up":  # Prometheus makes this metric itself
        return OF_PROMETHEUS
    about = METRICS.get(name) or METRICS[re.sub("_(bucket|sum|count)$", "", name)]
    if about.kind == "histogram":
        assert name != about.name, f"{name} has samples _bucket, _sum and _count only"
    return {*about.labels, *OF_PROMETHEUS} | ({"le"} if name.endswith("_bucket") else set())


@pytest.mark.parametrize("question", [*QUESTIONS, *(each["expr"] for each in ALARMS)])
def test_a_question_asks_for_what_there_is(question: str) -> None:
    asked: set[str] = set()
    for part in parts(parsed(question)):
        if isinstance(part, promql.VectorSelector):
            asked.add(part.name)
            for matcher in part.matchers.matchers:
                assert matcher.name in labels_of(part.name)
    names = set(re.findall(r"xlashape_\w+|^up\b", question))
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
    """A query over a range would make Grafana show the last number of a server that is gone."""
    for panel in PANELS:
        for target in panel["targets"]:
            assert target["instant"] is (panel["type"] in ("stat", "table")) is not target["range"], panel["title"]


def test_tables_have_a_row_for_each_server() -> None:
    """Grafana merges rows of several queries if all their labels are equal, so the metric's name may not be a label."""
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
    for each in ALARMS:
        assert re.fullmatch(r"Xlashape\w+", each["alert"])
        assert each["labels"]["severity"] in ("warning", "critical")
        assert each["annotations"]["summary"].endswith(".")


@pytest.mark.parametrize("name", [each["alert"] for each in ALARMS])
def test_the_page_on_operations_says_what_to_do(name: str) -> None:
    assert re.search(rf"^\| `{name}` \| [^|]+ \| [^|]+ \|$", OPERATIONS, re.MULTILINE)


def test_the_alarm_and_the_dashboard_count_the_same_faults() -> None:
    """UNAVAILABLE is not a fault: calls end with it where a worker ends or the store does not answer."""
    panels = {panel["title"]: panel for panel in PANELS}
    panel = panels["Faults of the server"]
    for question in (panel["targets"][0]["expr"], alarm("XlashapeFaults")["expr"]):
        [codes] = re.findall(r'code=~"([^"]*)"', question)
        assert set(codes.split("|")) == FAULTS
    for described in (panel, panels["Failed calls a second by code"]):
        sentence = described["description"].split("limit; ")[-1].partition("UNAVAILABLE")[0]
        assert set(re.findall(r"[A-Z]{2,}(?:_[A-Z]+)*", sentence)) == FAULTS


def test_the_alarm_about_one_server_knows_its_job() -> None:
    """The Prometheus Operator makes the name of the job from the namespace and the name of the PodMonitor, to which an
    overlay may add a prefix or a suffix."""
    [pattern] = re.findall(r'job=~"([^"]*)"', alarm("XlashapeDown")["expr"])
    monitor = yaml.safe_load((DEPLOY / "monitoring" / "podmonitor.yaml").read_text(encoding="utf-8"))
    assert "jobLabel" not in monitor["spec"]
    name = monitor["metadata"]["name"]
    [configured] = re.findall(r"job_name: (.+)", OPERATIONS)
    for job in (configured, f"team/{name}", f"team/test-{name}", f"team/{name}-test"):
        assert re.fullmatch(pattern, job), job
    for job in (f"{name}/redis", f"{name}-test/redis", "team/redis", f"team/no{name}"):
        assert not re.fullmatch(pattern, job), job


def promtool(*arguments: object) -> None:
    if shutil.which("promtool") is None:
        without("promtool is not installed: the package prometheus of Debian has it")
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": RULES["spec"]["groups"]}))
    return path


def test_promtool_takes_the_alarms(rules: Path) -> None:
    promtool("check", "rules", rules)


SAMPLES = {  # a minute apart: one server goes after three minutes, another one, with faults, after twenty
    'up{job="team/xlashape", instance="a"}': "1x3 0x40",
    'up{job="team/xlashape", instance="b"}': "1x20 0x20",
    'up{job="team/redis", instance="c"}': "0x40",
    'xlashape_workers{job="team/xlashape", instance="a"}': "2x3 stale",
    'xlashape_workers{job="team/xlashape", instance="b"}': "2x20 stale",
    'xlashape_calls_total{job="team/xlashape", instance="b", method="HloService/Verify", code="INTERNAL"}': "0+9x20",
    'xlashape_calls_total{job="team/xlashape", instance="b", method="HloService/Verify", code="UNAVAILABLE"}': "0+9x20",
}


@pytest.mark.parametrize(
    ("name", "minute", "labels"),
    [
        ("XlashapeDown", 3, []),
        ("XlashapeDown", 15, [{"job": "team/xlashape", "instance": "a"}]),
        ("XlashapeDown", 30, [{"job": "team/xlashape", "instance": each} for each in "ab"]),
        ("XlashapeGone", 20, []),
        ("XlashapeGone", 30, [{}]),
        ("XlashapeFaults", 15, [{"job": "team/xlashape", "method": "HloService/Verify", "code": "INTERNAL"}]),
    ],
)
def test_an_alarm_comes_when_it_should(rules: Path, name: str, minute: int, labels: list[dict[str, str]]) -> None:
    about = alarm(name)

    def expected(each: dict[str, str]) -> dict[str, Any]:
        summary = re.sub(r"{{ \$labels\.(\w+) }}", lambda found: each[found[1]], about["annotations"]["summary"])
        return {"exp_labels": {**about["labels"], **each}, "exp_annotations": {"summary": summary}}

    asked = {"eval_time": f"{minute}m", "alertname": name, "exp_alerts": [expected(each) for each in labels]}
    series = [{"series": series, "values": values} for series, values in SAMPLES.items()]
    test = {"interval": "1m", "input_series": series, "alert_rule_test": [asked]}
    path = rules.with_name("test.yaml")
    path.write_text(yaml.safe_dump({"rule_files": [rules.name], "tests": [test]}))
    promtool("test", "rules", path)
