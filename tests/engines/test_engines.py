"""Engines give the rows that processes of this machine give: Ray, Daft. DuckDB answers questions as a walk over the
modules does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import xlashape as xs
from tests.support import command_line
from tests.support.corpus import write_corpus
from xlashape import scan

pa = pytest.importorskip("pyarrow", reason="the extra `scan` is not installed")
ray = pytest.importorskip("ray", reason="Ray is not installed")
daft = pytest.importorskip("daft", reason="Daft is not installed")
duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")

COUNT = 200
NAMES = ("modules", "computations", "instructions", "buffers", "copies", "errors")


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dumps")
    write_corpus(folder, COUNT, seed=5)
    return folder


@pytest.fixture(scope="module")
def out(dumps: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("out")
    scan.scan(str(dumps), folder, jobs=2)
    return folder


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)
    yield
    ray.shutdown()


def rows_of(out: Path) -> dict[str, Counter[str]]:
    opened = scan.open(out)
    return {name: Counter(map(repr, opened[name].to_table().drop_columns(["hash"]).to_pylist())) for name in NAMES}


def selected(rows: Any) -> dict[str, Counter[str]]:
    return {name: Counter(map(repr, scan.select(rows, name).to_pylist())) for name in NAMES}


def processes(*pattern: str) -> list[int]:
    """Those that pgrep finds."""
    found = subprocess.run(["pgrep", *pattern], capture_output=True, text=True, check=False).stdout
    return [int(pid) for pid in found.split()]


@pytest.mark.usefixtures("cluster")
def test_ray_data_gives_the_rows_of_the_pool(dumps: Path, out: Path) -> None:
    dataset = scan.on_ray(str(dumps))
    rows = pa.concat_tables(ray.get(dataset.to_arrow_refs()))
    assert selected(rows) == rows_of(out)


@pytest.mark.usefixtures("cluster")
def test_the_command_scans_on_a_cluster(dumps: Path, out: Path, tmp_path: Path) -> None:
    done = command_line.run("scan", dumps, "-o", tmp_path / "found", "--engine", "ray")
    assert done.returncode in (0, 1), done.stderr
    assert rows_of(tmp_path / "found") == rows_of(out)


def test_the_command_names_the_cluster(dumps: Path, out: Path, tmp_path: Path) -> None:
    """The variable names a cluster that is not there: the option wins."""
    command = ["scan", str(dumps), "-o", str(tmp_path / "found"), "--engine", "ray", "--ray-address", "local"]
    subprocess.run(
        [sys.executable, "-m", "xlashape", *command],
        env={**os.environ, "RAY_ADDRESS": "127.0.0.1:1"},
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert rows_of(tmp_path / "found") == rows_of(out)


@pytest.mark.usefixtures("cluster")
def test_a_scan_on_ray_survives_workers_that_are_killed(dumps: Path, out: Path, tmp_path: Path) -> None:
    killed: list[int] = []
    over = threading.Event()
    [raylet] = processes("-P", str(os.getpid()), "raylet")

    def kill() -> None:
        while not over.wait(0.05) and len(killed) < 3:
            for pid in processes("-P", str(raylet), "-f", "^ray::_do")[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    thread = threading.Thread(target=kill)
    thread.start()
    scan.scan(str(dumps), tmp_path, jobs=2, engine="ray")
    over.set()
    thread.join()
    assert killed
    assert rows_of(tmp_path) == rows_of(out)


def test_daft_gives_the_rows_of_the_pool(dumps: Path, out: Path) -> None:
    row = daft.DataType.from_arrow_type(pa.list_(pa.struct(list(scan.schema()))))

    @daft.func.batch(return_dtype=row)
    def answered(paths: Any, contents: Any) -> list[list[dict[str, Any]]]:
        found: list[list[dict[str, Any]]] = []
        for path, content in zip(paths.to_pylist(), contents.to_pylist(), strict=True):
            files = pa.record_batch({"path": [path], "bytes": pa.array([content], pa.binary())})
            found.append([row for batch in scan.batches([files]) for row in batch.to_pylist()])
        return found

    files = daft.from_glob_path(f"{dumps}/**/*.*").with_column("bytes", daft.col("path").download())
    rows = files.select(answered(daft.col("path"), daft.col("bytes")).alias("row")).explode("row").to_arrow()
    flat = pa.Table.from_pylist(
        [{**row, "path": row["path"].removeprefix("file://")} for row in rows["row"].to_pylist()], schema=scan.schema()
    )
    assert selected(flat) == rows_of(out)


@pytest.fixture(scope="module")
def modules(dumps: Path) -> dict[str, xs.HloModule]:
    found: dict[str, xs.HloModule] = {}
    for path in sorted(dumps.rglob("*.*")):
        try:
            found[str(path)] = xs.HloModule.load(path)
        except xs.XlashapeError:
            continue
    return found


def asked(out: Path, question: str) -> list[tuple[Any, ...]]:
    """What DuckDB answers; `{name}` stands for a data set."""
    tables = {name: f"read_parquet('{out}/{name}/**/*.parquet')" for name in NAMES}
    return duckdb.sql(question.format(**tables)).fetchall()


def test_copies_over_a_size_by_cause(out: Path, modules: dict[str, xs.HloModule]) -> None:
    wanted: Counter[str] = Counter()
    for module in modules.values():
        wanted.update({copy.cause_kind: 1 for copy in xs.copies(module) if copy.bytes > 16_384})
    found = asked(out, "SELECT cause_kind, count(*) FROM {copies} WHERE bytes > 16384 GROUP BY 1")
    assert dict(found) == dict(wanted)
    assert wanted


def test_the_largest_peak_of_each_team(out: Path, modules: dict[str, xs.HloModule]) -> None:
    wanted: dict[str, int] = {}
    for path, module in modules.items():
        team = Path(path).parent.name
        wanted[team] = max(wanted.get(team, 0), xs.memory(module).peak_bytes)
    question = "SELECT regexp_extract(path, 'team[0-9]+'), max(peak_bytes) FROM {modules} GROUP BY 1"
    assert dict(asked(out, question)) == wanted


def test_modules_that_are_the_same_but_for_names(out: Path, modules: dict[str, xs.HloModule]) -> None:
    groups: dict[str, int] = defaultdict(int)
    for module in modules.values():
        groups[module.fingerprint()] += 1
    wanted = {name: count for name, count in groups.items() if count > 1}
    question = "SELECT fingerprint, count(*) FROM {modules} GROUP BY 1 HAVING count(*) > 1"
    assert dict(asked(out, question)) == wanted
    assert wanted


def test_computations_that_several_modules_share(out: Path, modules: dict[str, xs.HloModule]) -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for path, module in modules.items():
        for computation in module.computations:
            found[computation.fingerprint()].add(path)
    wanted = {name: len(paths) for name, paths in found.items() if len(paths) > 1}
    question = "SELECT fingerprint, count(DISTINCT path) FROM {computations} GROUP BY 1 HAVING count(DISTINCT path) > 1"
    assert dict(asked(out, question)) == wanted


def test_padding_by_layout(out: Path, modules: dict[str, xs.HloModule]) -> None:
    wanted: Counter[str] = Counter()
    for module in modules.values():
        for buffer in xs.reports.report_of("size").run(module).buffers:
            wanted[str(buffer.shape)] += buffer.bytes
    assert dict(asked(out, "SELECT shape, sum(bytes)::BIGINT FROM {buffers} GROUP BY 1")) == dict(wanted)


@pytest.mark.usefixtures("cluster")
def test_time_of_the_cluster_is_given_back() -> None:
    """No task of a scan is left when it has ended."""
    end = time.monotonic() + 20
    while ray.available_resources().get("CPU", 0) < 2 and time.monotonic() < end:
        time.sleep(0.2)
    assert ray.available_resources()["CPU"] == 2


PAGE = (Path(__file__).resolve().parents[2] / "docs" / "corpora.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The code of this language on the page."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def beside_a_corpus(dumps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with `dumps`, of two days and two versions of jaxlib, and their `corpus`: what the page asks
    about."""
    for day, version in (("2026-11-22", "0.11.0"), ("2026-11-23", "0.12.0")):
        below = tmp_path / "dumps" / "vision" / day / f"jaxlib-{version}"
        below.mkdir(parents=True)
        for path in sorted(dumps.rglob("*.*"))[: 40 if version == "0.12.0" else 25]:
            (below / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    scan.scan("dumps", "corpus", jobs=2)
    return tmp_path


@pytest.mark.usefixtures("beside_a_corpus")
def test_the_questions_of_the_page_have_answers() -> None:
    questions = [each.strip() for block in blocks("sql") for each in block.split(";") if each.strip()]
    assert len(questions) == 6
    answers = {each.splitlines()[0]: duckdb.sql(each).fetchall() for each in questions}
    assert all(answers[head] for head in answers if "over 1 MiB" not in head), answers
    versions = next(rows for head, rows in answers.items() if "version of jaxlib" in head)
    assert {row[0] for row in versions} == {"0.11.0", "0.12.0"}
    new = next(rows for head, rows in answers.items() if "since a day" in head)
    old = {
        copy["module"] for copy in scan.open("corpus")["copies"].to_table().to_pylist() if "2026-11-22" in copy["path"]
    }
    assert {row[2] for row in new}.isdisjoint(old)


@pytest.mark.usefixtures("beside_a_corpus")
def test_polars_reads_a_corpus_as_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("polars", reason="polars is not installed")
    [code] = [each for each in blocks("python") if "polars" in each]
    exec(compile(code, "docs/corpora.md", "exec"), {})
    assert "peak_bytes" in capsys.readouterr().out


def test_spark_gives_the_rows_of_the_pool(dumps: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    sql = pytest.importorskip("pyspark.sql", reason="Spark is not installed")
    from pyspark.sql.pandas.types import from_arrow_schema

    spark = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        read = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(str(dumps))
        files = read.selectExpr("replace(path, 'file:', '') AS path", "content AS bytes")
        rows = files.mapInArrow(scan.batches, from_arrow_schema(scan.schema())).toArrow()
        found, wanted = selected(rows.cast(scan.schema())), rows_of(out)
        # Spark does not read files without bytes.
        wanted["errors"] = Counter({row: n for row, n in wanted["errors"].items() if "is empty" not in row})
        assert found == wanted
    finally:
        spark.stop()
