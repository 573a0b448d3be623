"""Scans of folders: their rows are those of the modules one by one, whatever ends a scan in between."""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import io
import itertools
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import xlashape as xs
from tests.support import command_line
from tests.support.corpus import text_of, write_corpus
from tests.support.faulty_proxy import FaultyProxy
from tests.support.optional import needed_in_ci
from xlashape import scan
from xlashape.errors import DecodeError, InvalidArgumentError, NotFoundError, UnavailableError
from xlashape.hlo.files.inputs import inputs
from xlashape.scan import worker as worker_module
from xlashape.scan.corpus import _Target
from xlashape.scan.worker import Worker

pa = needed_in_ci("pyarrow")
pq = needed_in_ci("pyarrow.parquet")
needed_in_ci("obstore")


COUNT = 150


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dumps")
    write_corpus(folder, COUNT, seed=3)
    return folder


def rows_of(out: Path) -> dict[str, Counter[Any]]:
    """The rows of each data set, as a multiset."""
    found: dict[str, Counter[Any]] = {}
    for name, dataset in scan.open(out).items():
        rows = dataset.to_table().drop_columns(["hash"]).to_pylist()
        found[name] = Counter([repr(sorted(row.items(), key=lambda item: item[0])) for row in rows])
    return found


@pytest.fixture(scope="module")
def whole(dumps: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole")
    summary = scan.scan(str(dumps), out, jobs=1)
    assert summary.files == COUNT
    assert summary.skipped == 0
    return out


def test_rows_are_those_of_the_modules(dumps: Path, whole: Path) -> None:
    found = scan.open(whole)
    modules = {row["path"]: row for row in found["modules"].to_table().to_pylist()}
    instructions = Counter(found["instructions"].to_table()["path"].to_pylist())
    copied = found["copies"].to_table().to_pylist()
    refused = {row["path"] for row in found["errors"].to_table().to_pylist()}
    assert len(modules) + len(refused) == COUNT
    assert not set(modules) & refused
    for path in dumps.rglob("*.*"):
        try:
            module = xs.HloModule.load(path)
        except xs.XlashapeError:
            assert str(path) in refused
            continue
        row = modules[str(path)]
        assert row["module"] == module.name
        assert row["fingerprint"] == module.fingerprint()
        assert row["peak_bytes"] == xs.memory(module).peak_bytes
        assert row["flops"] == xs.cost(module).flops
        assert row["file_bytes"] == path.stat().st_size
        assert instructions[str(path)] == row["instructions"] == len(list(module.instructions()))
        assert [each["bytes"] for each in copied if each["path"] == str(path)] == [c.bytes for c in xs.copies(module)]


def test_errors_say_what_and_where(whole: Path) -> None:
    rows = scan.open(whole)["errors"].to_table().to_pylist()
    assert {row["step"] for row in rows} == {"read"}
    assert {"ParseError", "DecodeError"} <= {row["error"] for row in rows}
    assert all(row["message"] for row in rows)
    assert any(row["line"] and row["line"] > 1 for row in rows if row["error"] == "ParseError")


def test_more_jobs_and_a_second_scan_change_nothing(dumps: Path, whole: Path, tmp_path: Path) -> None:
    assert scan.scan(str(dumps), tmp_path, jobs=3).files == COUNT
    assert rows_of(tmp_path) == rows_of(whole)
    again = scan.scan(str(dumps), tmp_path, jobs=3)
    assert (again.files, again.skipped) == (0, COUNT)
    assert rows_of(tmp_path) == rows_of(whole)


def test_opening_makes_nothing(tmp_path: Path) -> None:
    for missing in (tmp_path / "missing", tmp_path / "one" / "two"):
        with pytest.raises(NotFoundError, match="missing|two"):
            scan.open(missing)
    with pytest.raises(NotFoundError, match="is not what a scan wrote: it has no"):
        scan.open(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="cannot"):
        scan.open(tmp_path / "file")


def test_other_data_sets_are_made_anew(dumps: Path, tmp_path: Path) -> None:
    scan.scan(str(dumps), tmp_path, jobs=2, datasets=["modules"])
    found = scan.open(tmp_path)
    assert found["modules"].count_rows() > 0
    assert found["instructions"].count_rows() == 0
    summary = scan.scan(str(dumps), tmp_path, jobs=2, datasets=["maps"])
    assert summary.files == COUNT
    found = scan.open(tmp_path)
    assert found["modules"].count_rows() == 0
    assert any("(d0, d1) -> (d0, d1)" in str(each) for each in found["maps"].to_table()["map"])


def test_rows_of_files_that_a_scan_does_not_name_are_not_lost(dumps: Path, tmp_path: Path) -> None:
    scan.scan(str(dumps / "team0"), tmp_path, jobs=2)
    before = rows_of(tmp_path)
    with pytest.raises(InvalidArgumentError, match="this scan does not name that file: name it, or write elsewhere"):
        scan.scan(str(dumps / "team1"), tmp_path, jobs=2, datasets=["modules"])
    assert rows_of(tmp_path) == before
    scan.scan(str(dumps / "team1"), tmp_path, jobs=2)
    assert rows_of(tmp_path)["modules"] > before["modules"]


def test_a_path_has_rows_of_its_present_content_alone(dumps: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "dumps", tmp_path / "out"
    shutil.copytree(dumps, folder)
    scan.scan(str(folder), out, jobs=2)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    changed = files[::7]
    for number, path in enumerate(changed):
        path.write_bytes(text_of(number + 500).encode())
    files[1].touch()
    assert scan.scan(str(folder), out, jobs=2).files == len(changed) + 1
    scan.scan(str(folder), tmp_path / "anew", jobs=2)
    assert rows_of(out) == rows_of(tmp_path / "anew")
    files[0].write_bytes(text_of(1).encode())
    gone = files[-1]
    gone.unlink()
    scan.scan(str(folder), out, jobs=2)
    paths = scan.open(out)["modules"].to_table(columns=["path"])["path"].to_pylist()
    errors = scan.open(out)["errors"].to_table(columns=["path"])["path"].to_pylist()
    assert str(gone) in {*paths, *errors}  # a scan knows nothing of files that it does not name


def test_links_that_lead_out_of_the_directory_are_not_followed(tmp_path: Path) -> None:
    tree, other = tmp_path / "tree", tmp_path / "other"
    for folder in (tree, other):
        folder.mkdir()
        (folder / "a.hlo").write_text(text_of(1))
    (tree / "within.hlo").symlink_to("a.hlo")
    (tree / "out.hlo").symlink_to(other / "a.hlo")
    (tree / "up.hlo").symlink_to("../other/a.hlo")
    (tree / "folder").symlink_to(other)
    (tree / "loop.hlo").symlink_to("loop.hlo")
    scan.scan(str(tree), tmp_path / "out", jobs=1)
    opened = scan.open(tmp_path / "out")
    paths = opened["modules"].to_table(columns=["path"])["path"].to_pylist()
    assert sorted(paths) == [str(tree / "a.hlo"), str(tree / "within.hlo")]
    assert not opened["errors"].count_rows()


@pytest.mark.parametrize("files_done", [0, 1, 3])
def test_old_rows_go_although_that_is_interrupted(
    files_done: int, dumps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = tmp_path / "dumps", tmp_path / "out"
    shutil.copytree(dumps, folder)
    scan.scan(str(folder), out, jobs=1)
    changed = next(path for path in folder.rglob("*.hlo") if path.is_file())
    changed.write_bytes(text_of(501).encode())
    write, count = _Target.write, 0

    def interrupted(target: _Target, name: str, data: bytes | Path) -> None:
        nonlocal count
        count += 1
        if count > files_done:
            raise KeyboardInterrupt
        write(target, name, data)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(_Target, "write", interrupted)
        scan.scan(str(folder), out, jobs=1)
    scan.scan(str(folder), out, jobs=1)
    scan.scan(str(folder), tmp_path / "anew", jobs=1)
    assert rows_of(out) == rows_of(tmp_path / "anew")


def test_a_prefix_of_a_bucket_is_listed_alone(tmp_path: Path) -> None:
    listed: list[str | None] = []

    class Store:
        def list(self, prefix: str | None = None) -> Any:
            listed.append(prefix)
            return stores.LocalStore(tmp_path).list(prefix)

    for name in ("run/a.hlo", "run2/b.hlo", "run/deep/c.hlo", "run/deep/topology.pb", "d.hlo"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text_of(1))
    stores = needed_in_ci("obstore.store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "from_url", lambda prefix: Store())
        names = [each.name for each in inputs(["s3://bucket/run"], "last")]
    assert names == ["s3://bucket/run/a.hlo", "s3://bucket/run/deep/c.hlo"]
    assert listed == ["run"]
    root = f"file://{tmp_path}"
    assert [each.name for each in inputs([f"{root}/d.hlo"], "last")] == [f"{root}/d.hlo"]
    assert len(list(inputs([f"{root}/"], "last"))) == 4
    with pytest.raises(NotFoundError):
        list(inputs([f"{root}/none"], "last"))


@pytest.mark.parametrize("after", [0, 2, 5])
def test_a_killed_scan_goes_on(dumps: Path, whole: Path, tmp_path: Path, after: int) -> None:
    code = "import sys; from xlashape import scan; scan.scan(sys.argv[1], sys.argv[2], jobs=2)"
    process = subprocess.Popen([sys.executable, "-c", code, str(dumps), str(tmp_path)], start_new_session=True)
    end = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end and len(list(tmp_path.glob("_done/*"))) < after:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    (tmp_path / "modules").mkdir(exist_ok=True)
    (tmp_path / "modules" / "0123456789abcdef01234567.parquet").write_bytes(b"the file of a unit that was interrupted")
    scan.scan(str(dumps), tmp_path, jobs=2)
    assert rows_of(tmp_path) == rows_of(whole)


def test_a_worker_that_somebody_kills_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(text_of(1))
    with Worker() as worker:
        first = worker.tables(str(path), None, ["modules", "errors"])
        process = worker._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        assert worker.tables(str(path), None, ["modules", "errors"]) == first


@pytest.mark.parametrize(("when", "few", "many"), [("_started", 20, 100), ("_write", 4, 6)])
def test_a_file_outlives_killed_processes(
    when: str, few: int, many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that are killed while they start, which may take longer than the file."""
    path = tmp_path / "m.hlo"
    path.write_text(text_of(1))
    kills = 0
    owner: Any = Worker if when == "_started" else worker_module
    real = getattr(owner, when)

    def then_killed(*arguments: Any) -> Any:
        nonlocal kills
        # A request is not sent before its process is killed: it might be answered.
        process: Any = real(*arguments) if when == "_started" else worker._process
        if kills > 0:
            kills -= 1
            process.kill()
            process.wait()
        return process if when == "_started" else real(*arguments)

    monkeypatch.setattr(owner, when, then_killed)
    with Worker() as worker:
        kills = few
        assert len(worker.tables(str(path), None, ["modules", "errors"])["modules"]) == 1
        worker.close()
        kills = many
        [error] = worker.tables(str(path), None, ["modules", "errors"])["errors"].to_pylist()
        assert error["message"].startswith("the process that read it was ended by signal 9")
        assert error["key"]


def test_a_file_that_takes_too_long_is_a_row() -> None:
    chain = "\n".join([f"n{i} = f32[4] negate({'p' if i == 0 else f'n{i - 1}'})" for i in range(150_000)])
    large = f"HloModule large ENTRY e {{ p = f32[4] parameter(0)\n{chain}\nROOT r = f32[4] negate(n149999) }}".encode()
    with Worker(seconds=1.0) as worker:
        error = worker.tables("large.hlo", large, ["modules", "errors"])["errors"].to_pylist()
        assert [(row["error"], row["message"]) for row in error] == [
            ("LimitExceededError", "took more than 1 s of the processor's time: larger `seconds` give it more")
        ]
        next_file = worker.tables("m.hlo", b"", ["errors"])["errors"].to_pylist()
        assert [row["error"] for row in next_file] == ["DecodeError"]


def test_errors_that_may_be_gone_are_tried_again(tmp_path: Path) -> None:
    """Those of bounds that are larger now, and of files that could not be read. Errors of the content stay."""
    folder, out = tmp_path / "dumps", tmp_path / "out"
    folder.mkdir()
    chain = "\n".join([f"n{i} = f32[4] negate({'p' if i == 0 else f'n{i - 1}'})" for i in range(20_000)])
    slow = f"HloModule slow ENTRY e {{ p = f32[4] parameter(0)\n{chain}\nROOT r = f32[4] negate(n19999) }}"
    (folder / "slow.hlo").write_text(slow)
    (folder / "m.hlo").write_text(text_of(1))
    (folder / "same.hlo").write_text(text_of(1))
    (folder / "broken.hlo").write_text(text_of(1)[:200])
    (folder / "absent.hlo").write_text(text_of(2))

    def scanned(**bounds: Any) -> tuple[int, int, int, Counter[str]]:
        found = scan.scan(str(folder), out, jobs=1, datasets=["modules"], **bounds)
        errors = scan.open(out)["errors"].to_table().to_pylist()
        modules = scan.open(out)["modules"].count_rows()
        return found.files, found.errors, modules, Counter([row["error"] for row in errors])

    real, message = Worker.streams, UnavailableError("the bucket does not answer")

    def streams(worker: Worker, path: str, *rest: Any) -> Any:
        if path.endswith("absent.hlo"):
            raise message
        return real(worker, path, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Worker, "streams", streams)
        assert scanned(seconds=0.2) == (
            5, 3, 2, {"LimitExceededError": 1, "ParseError": 1, "UnavailableError": 1}
        )  # fmt: skip
    assert scanned(seconds=0.2) == (1, 2, 3, {"LimitExceededError": 1, "ParseError": 1})
    assert scanned(seconds=0.2) == (0, 2, 3, {"LimitExceededError": 1, "ParseError": 1})
    assert scanned(seconds=60) == (1, 1, 4, {"ParseError": 1})
    assert scanned(seconds=60) == (0, 1, 4, {"ParseError": 1})
    # Those of files that a scan does not name are not its errors.
    found = scan.scan(str(folder / "m.hlo"), out, datasets=["modules"])
    assert (found.files, found.skipped, found.errors) == (0, 1, 0)


def test_the_exit_code_tells_of_errors_that_were_there(tmp_path: Path) -> None:
    (tmp_path / "good.hlo").write_text(text_of(1))
    (tmp_path / "bad.hlo").write_text(text_of(1)[:200])
    out = str(tmp_path / "out")
    assert command_line.run("scan", str(tmp_path / "good.hlo"), "-o", out).returncode == 0
    for already in (1, 2):
        found = command_line.run("scan", str(tmp_path / "*.hlo"), "-o", out)
        assert found.returncode == 1
        assert f"{already} are there already" in found.stdout.decode()
    assert found.stdout.decode().splitlines()[1].split() == [
        "errors",
        "1",
        "rows",
        "of",
        "files",
        "that",
        "were",
        "there",
        "already",
    ]
    assert found.stdout.decode().splitlines()[2].endswith(f"FROM '{out}/errors/**/*.parquet'")
    found = command_line.run("scan", str(tmp_path / "*.hlo"), "-o", out, "--json")
    assert (found.returncode, json.loads(found.stdout)["errors"]) == (1, 1)
    assert command_line.run("scan", str(tmp_path / "good.hlo"), "-o", out).returncode == 0
    (tmp_path / "bad.hlo").write_text(text_of(2))
    assert command_line.run("scan", str(tmp_path / "*.hlo"), "-o", out).returncode == 0


def written(out: Path, *command: Any) -> Any:
    """The corpus that a command writes, opened."""
    done = command_line.run(*command, "-o", out)
    assert done.returncode in (0, 1), done.stderr
    return scan.open(out)


def test_the_command_takes_data_sets_stages_and_jobs(tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    for stage, number in (("before_optimizations", 1), ("cpu_after_optimizations", 2)):
        (dumps / f"module_0001.jit_f.{stage}.txt").write_text(text_of(number))
    names = {number: xs.HloModule.parse(text_of(number)).name for number in (1, 2)}
    few = written(tmp_path / "few", "scan", dumps, "--datasets", "modules, copies")
    assert few["modules"].count_rows() == 1 and few["instructions"].count_rows() == 0
    for stage, wanted in (("before", {names[1]}), ("last", {names[2]}), ("all", set(names.values()))):
        found = written(tmp_path / stage, "scan", dumps, "--stage", stage)
        assert {row["module"] for row in found["modules"].to_table().to_pylist()} == wanted
    written(tmp_path / "alone", "scan", dumps, "--stage", "all", "--jobs", "1")
    assert rows_of(tmp_path / "alone") == rows_of(tmp_path / "all")


def test_the_command_bounds_time_and_memory(tmp_path: Path) -> None:
    chain = "\n".join([f"n{i} = f32[4] negate({'p' if i == 0 else f'n{i - 1}'})" for i in range(30_000)])
    slow, large = tmp_path / "slow.hlo", tmp_path / "large.hlo.gz"
    slow.write_text(f"HloModule m ENTRY e {{ p = f32[4] parameter(0)\n{chain}\nROOT r = f32[4] negate(n29999) }}")
    large.write_bytes(gzip.compress(b"HloModule m\n" + b" " * (300 << 20), 1, mtime=0))
    for path, option, bound, says in (
        (slow, "--seconds", "0.05", "took more than 0.05 s of the processor's time"),
        (large, "--memory", "150MiB", "needs more than 157,286,400 bytes (150.00 MiB) of memory"),
    ):
        found = written(tmp_path / option, "scan", path, option, bound)
        [row] = found["errors"].to_table().to_pylist()
        assert row["error"] == "LimitExceededError" and says in row["message"]


def test_a_file_that_takes_too_much_memory_is_a_row() -> None:
    large = gzip.compress(b"HloModule m\n" + b" " * (900 << 20), 1, mtime=0)
    with Worker(memory_bytes=300 << 20) as worker:
        rows = worker.tables("large.hlo.gz", large, ["modules", "errors"])["errors"].to_pylist()
        assert len(rows) == 1
        assert rows[0]["key"]
        assert rows[0]["error"] in ("LimitExceededError", "UnavailableError"), rows
        assert len(worker.tables("m.hlo", text_of(1).encode(), ["modules", "errors"])["modules"]) == 1


def test_batches_of_files_give_batches_of_rows(dumps: Path, whole: Path) -> None:
    """The function that engines run, with the bytes of the files and with their paths alone."""
    paths = sorted(str(path) for path in dumps.rglob("*.*"))[:40]
    contents = [None if number % 2 else Path(path).read_bytes() for number, path in enumerate(paths)]
    files = pa.record_batch({"path": paths, "bytes": pa.array(contents, pa.binary())})
    made = pa.Table.from_batches(list(scan.batches([files.slice(0, 10), files.slice(10)])), schema=scan.schema())
    assert set(made["path"].to_pylist()) <= set(paths)
    for name, dataset in scan.open(whole).items():
        if name == "maps":
            continue
        wanted = [row for row in dataset.to_table().drop_columns(["hash"]).to_pylist() if row["path"] in paths]
        found = scan.select(made, name).to_pylist()
        assert Counter(map(repr, found)) == Counter(map(repr, wanted))


def test_the_store_of_a_server_is_scanned(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="the extra `server` is not installed")
    from xlashape_server import Config, Server

    store = tmp_path / "store"
    with Server(Config(address="127.0.0.1:0", workers=1, log_level="error", store_directory=str(store))) as server:
        from xlashape_client import Client

        with Client(server.address) as client:
            client.upload_module(text_of(3).encode())
    scan.scan(f"file:{store}", tmp_path / "out")
    rows = scan.open(tmp_path / "out")["modules"].to_table().to_pylist()
    assert [row["module"] for row in rows] == ["jit_f3"]
    assert rows[0]["path"].endswith(rows[0]["key"])
    stored = Path(rows[0]["path"])
    stored.write_bytes(b"X" + stored.read_bytes()[1:])
    scan.scan(f"file:{store}", tmp_path / "damaged")
    [error] = scan.open(tmp_path / "damaged")["errors"].to_table().to_pylist()
    assert "is damaged: its content does not have the digest that is its name" in error["message"]


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    """A bucket of S3 behind a proxy that goes wrong on demand."""
    moto = needed_in_ci("moto.server")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    signed = {"Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request"}
    create = urllib.request.Request(f"http://{host}:{port}/bucket", method="PUT", headers=signed)
    urllib.request.urlopen(create, timeout=20).close()
    with FaultyProxy(host, port) as running:
        for name in list(os.environ):  # addresses and credentials of buckets
            if name.startswith(("AWS_", "AZURE_", "AZURITE_", "GOOGLE_")):
                monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        yield running
    server.stop()


def test_a_bucket_that_goes_wrong_now_and_then_is_scanned(proxy: FaultyProxy, tmp_path: Path) -> None:
    obstore = needed_in_ci("obstore")
    stores = needed_in_ci("obstore.store")
    bucket = stores.from_url("s3://bucket/dumps/")
    for number in range(24):
        obstore.put(bucket, f"m{number}.hlo", text_of(number).encode())
    over = threading.Event()

    def disturb() -> None:
        faults = itertools.cycle(["errors", "slow", "cut"])
        while not over.wait(1.0):  # the client tries again for some seconds
            proxy.fault = next(faults)
            time.sleep(0.1)
            proxy.fault = ""

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        summary = scan.scan("s3://bucket/dumps/", "s3://bucket/corpus", jobs=2)
    finally:
        over.set()
        thread.join()
        proxy.fault = ""
    assert (summary.files, summary.errors) == (24, 0)
    assert scan.scan("s3://bucket/dumps/", "s3://bucket/corpus", jobs=2).skipped == 24
    found = stores.from_url("s3://bucket/corpus/")
    tables = [
        pq.read_table(io.BytesIO(bytes(obstore.get(found, each["path"]).bytes())))
        for page in found.list("modules/")
        for each in page
    ]
    rows = [row for table in tables for row in table.to_pylist()]
    assert sorted(row["module"] for row in rows) == sorted(f"jit_f{number}" for number in range(24))
    assert all(row["path"].startswith("s3://bucket/dumps/m") for row in rows)


def test_mistakes_of_callers(tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(text_of(1))
    with pytest.raises(InvalidArgumentError, match="there is no data set 'modulse'.*did you mean 'modules'"):
        scan.scan(str(path), tmp_path / "out", datasets=["modulse"])
    with pytest.raises(InvalidArgumentError, match="there is no engine 'spark'; there are local, ray"):
        scan.scan(str(path), tmp_path / "out", engine="spark")
    with pytest.raises(NotFoundError, match="there is no such file"):
        scan.scan(str(tmp_path / "absent.hlo"), tmp_path / "out")
    with pytest.raises(NotFoundError, match=r"is not what a scan wrote: it has no scan\.json"):
        scan.open(tmp_path / "nothing")
    with pytest.raises(InvalidArgumentError, match="batches have the columns path and bytes, and this one has x"):
        list(scan.batches([pa.record_batch({"x": [1]})]))


@pytest.mark.parametrize(
    "bounds",
    [
        {"seconds": 0},
        {"seconds": float("nan")},
        {"seconds": float("inf")},
        {"memory_bytes": 0},
        {"memory_bytes": 1 << 80},
    ],
)
def test_bounds_that_no_file_could_be_held_to(bounds: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(text_of(1))
    with pytest.raises(InvalidArgumentError, match=f"{next(iter(bounds))} must be above 0 and at most"):
        scan.scan(str(tmp_path / "m.hlo"), tmp_path / "out", **bounds)
    assert not (tmp_path / "out").exists()


def test_files_that_no_scan_has_written_are_kept(tmp_path: Path) -> None:
    """The directory may have others of the same names, as the store of a server has `modules`."""
    (tmp_path / "m.hlo").write_text(text_of(1))
    others = [tmp_path / "out" / name for name in ("modules/ab/x", "copies/paper.pdf", "errors/own.parquet", "maps/a")]
    for other in others:
        other.parent.mkdir(parents=True)
        other.write_text("not of a scan")
    for datasets in (None, ["maps"]):
        scan.scan(str(tmp_path / "m.hlo"), tmp_path / "out", datasets=datasets)
    assert [other.read_text() for other in others] == ["not of a scan"] * len(others)
    assert scan.open(tmp_path / "out")["modules"].count_rows() == 0


@pytest.mark.parametrize("name", ["scan.json", "_done/x.json"])
@pytest.mark.parametrize("content", ["garbage", "[]", "{}", "1"])
def test_a_damaged_corpus(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(text_of(1))
    scan.scan(str(tmp_path / "m.hlo"), tmp_path / "out")
    (tmp_path / "out" / name).write_text(content)
    with pytest.raises(DecodeError, match="is damaged"):
        scan.scan(str(tmp_path / "m.hlo"), tmp_path / "out")


def test_numbers_beyond_int64_are_errors_of_their_data_set(tmp_path: Path) -> None:
    size = 2**63 - 1
    text = f"HloModule m ENTRY e {{ p = f32[{size}] parameter(0) ROOT n = f32[{size}] negate(p) }}"
    (tmp_path / "m.hlo").write_text(text)
    scan.scan(str(tmp_path / "m.hlo"), tmp_path / "out")
    found = scan.open(tmp_path / "out")
    assert found["instructions"].count_rows() == 2
    errors = {row["step"]: row for row in found["errors"].to_table().to_pylist()}
    assert errors["accesses"]["error"] == "SizeOverflowError"
    assert errors["accesses"]["module"] == "m"
    assert "read" not in errors


def test_the_file_names_may_be_any_bytes(tmp_path: Path) -> None:
    (tmp_path / "dumps").mkdir()
    Path(os.fsdecode(os.fsencode(tmp_path / "dumps") + b"/\xff.hlo")).write_text(text_of(1))
    scan.scan(str(tmp_path / "dumps"), tmp_path / "out")
    assert scan.open(tmp_path / "out")["modules"].to_table()["path"].to_pylist() == [f"{tmp_path}/dumps/\\udcff.hlo"]


def test_names_are_those_of_the_current_directory(dumps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for workers that were started in another one."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "m.hlo").write_text(text_of(1))
        monkeypatch.chdir(tmp_path / folder)
        assert scan.scan("m.hlo", "out").errors == 0
        paths = scan.open("out")["modules"].to_table()["path"].to_pylist()
        assert paths == [str(tmp_path / folder / "m.hlo")]
        files = pa.record_batch({"path": ["m.hlo"], "bytes": pa.array([None], pa.binary())})
        assert [batch["dataset"][0].as_py() for batch in scan.batches([files], datasets=["modules"])] == ["modules"]


def test_names_are_dictionary_encoded(whole: Path) -> None:
    path = next((whole / "instructions").rglob("*.parquet"))
    group = pq.ParquetFile(path).metadata.row_group(0)
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema in ("path", "key", "module", "opcode", "computation"):
            assert any("DICTIONARY" in each for each in column.encodings)


def test_the_documented_columns_are_those_of_the_data_sets() -> None:
    path = Path(__file__).resolve().parents[3] / "docs" / "generate_reports.py"
    spec = importlib.util.spec_from_file_location("generate_reports", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.datasets_page() == module.DATASETS_PAGE.read_text(encoding="utf-8"), "run docs/generate_reports.py"


def test_columns_of_parquet_say_their_meaning_and_unit(whole: Path) -> None:
    field = scan.open(whole)["modules"].schema.field("peak_bytes")
    assert field.metadata[b"unit"] == b"bytes"
    assert field.metadata[b"meaning"]
