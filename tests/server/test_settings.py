"""Settings from a file, from environment variables and from options: options win over variables, variables over the
file. Errors name the mistake and where it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import run

from xlashape.base.extras import require
from xlashape.errors import InvalidArgumentError
from xlashape_server import Config
from xlashape_server.config import FIELDS, read_value, settings_of

EXAMPLE = """
address = "unix:/run/xlashape/s"
workers = 1
pin = false
store_bytes = "4GiB"
store_age_seconds = "7d"
grace_seconds = 5
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "xlashape.toml"
    path.write_text(EXAMPLE)
    return path


def test_a_file_has_settings(file: Path) -> None:
    config = settings_of(str(file), {}, {})
    assert (config.address, config.workers, config.pin) == ("unix:/run/xlashape/s", 1, False)
    assert (config.store_bytes, config.store_age_seconds, config.grace_seconds) == (4 << 30, 7 * 86400.0, 5.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wrokers = 2", "there is no setting 'wrokers'"),
        ("[server]\nworkers = 2", "there is no setting 'server'"),
        ("workers = 1.5", "workers: expected a whole number, found 1.5"),
        ("workers = true", "workers: expected a whole number, found True"),
        ("workers = '2GiB'", "workers: expected a whole number, found '2GiB'"),
        ("store_bytes = '2 parsecs'", "store_bytes: expected bytes such as 64MiB, found '2 parsecs'"),
        ("store_bytes = '0.3B'", "store_bytes: expected bytes such as 64MiB"),
        ("grace_seconds = 'soon'", "grace_seconds: expected seconds such as 90"),
        ("grace_seconds = 1979-05-27", "grace_seconds: expected a number"),
        ("pin = 1", "pin: expected true or false, found 1"),
        ("address = 5", "address: expected a text, found 5"),
        ("address = [1, 2]", "address: expected a text"),
        ("workers = ", "not TOML: "),
        ("a = " + "[" * 20_000, "not TOML: "),
        ("workers = inf", "workers: expected a whole number"),
        ("workers = nan", "workers: expected a whole number"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(InvalidArgumentError) as caught:
        settings_of(str(path), {}, {})
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"address = '\xe9'")
    for name, reason in (("absent", "No such file"), ("latin", "it is not UTF-8"), (".", "Is a directory")):
        with pytest.raises(InvalidArgumentError, match=reason):
            settings_of(str(tmp_path / name), {}, {})


def test_variables() -> None:
    variables = {"XLASHAPE_STORE_BYTES": "1GiB", "XLASHAPE_PIN": "no", "XLASHAPE_PORT": "tcp://1.2.3.4:5"}
    assert settings_of(None, variables, {}) == Config(store_bytes=1 << 30, pin=False)
    with pytest.raises(InvalidArgumentError, match="XLASHAPE_WORKERS: workers: expected a whole number, found 'x'"):
        settings_of(None, {"XLASHAPE_WORKERS": "x"}, {})


@pytest.mark.parametrize("name", FIELDS)
def test_the_default_of_every_setting_is_read_from_text(name: str) -> None:
    default = FIELDS[name].default
    text = str(default).lower() if isinstance(default, bool) else str(default)
    assert read_value(name, text) == read_value(name, default) == default
    assert FIELDS[name].metadata["help"].endswith(".")


def test_the_command_line_wins_over_variables_and_these_over_the_file(file: Path) -> None:
    variables = {"XLASHAPE_GRACE_SECONDS": "6", "XLASHAPE_STORE_BYTES": "5GiB"}
    assert settings_of(str(file), variables, {"store_bytes": "6GiB", "workers": None}) == Config(
        address="unix:/run/xlashape/s",
        workers=1,
        pin=False,
        store_bytes=6 << 30,
        store_age_seconds=7 * 86400.0,
        grace_seconds=6.0,
    )


OTHER_VALUES = {
    "address": "127.0.0.1:7",
    "http": "127.0.0.1:8",
    "metrics": "127.0.0.1:9",
    "log_level": "error",
}
"""Values that are not the default, of settings that do not take any text or the next number."""


def test_every_setting_has_an_option_that_sets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: dict[str, Any] = {}
    options: list[str] = []
    for name, field in FIELDS.items():
        option = name.replace("_", "-")
        if isinstance(field.default, bool):
            wanted[name] = not field.default
            options.append(f"--no-{option}" if field.default else f"--{option}")
        else:
            other = f"/{name}" if isinstance(field.default, str) else field.default + (1 << 30)
            wanted[name] = OTHER_VALUES.get(name, other)
            options += [f"--{option}", str(wanted[name])]
    found: list[Config] = []
    monkeypatch.setattr("xlashape_server.app.check", found.append)
    ended = run("serve", *options, "--check")
    assert ended.returncode == 0, ended.stderr
    assert found == [Config(**wanted)]


def test_help_lists_every_setting() -> None:
    out = "".join(run("serve", "--help").stdout.decode().split())  # lines end anywhere between words, and after hyphens
    for setting in FIELDS.values():
        option = setting.name.replace("_", "-")
        assert f"--{option}" in out
        if isinstance(setting.default, bool):
            assert f"[default:{'' if setting.default else 'no-'}{option}]" in out


def test_a_server_starts_with_settings_from_a_file(tmp_path: Path) -> None:
    require("server", "a server")
    path = tmp_path / "xlashape.toml"
    path.write_text(f'address = "unix:{tmp_path}/s"\nstore_directory = "{tmp_path}/store"\n')
    process = subprocess.Popen(
        [sys.executable, "-m", "xlashape", "serve"],
        env={**os.environ, "XLASHAPE_CONFIG": str(path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    process.terminate()
    _, err = process.communicate(timeout=30)
    assert f'"unix:{tmp_path}/s"' in line, err
    assert process.returncode == 0


def test_settings_are_checked_without_a_start(tmp_path: Path) -> None:
    require("server", "a server")
    store = tmp_path / "store"
    good = run("serve", "--check", "--store-directory", store)
    assert (good.returncode, b"a server can start" in good.stderr) == (0, True)
    assert store.is_dir()
    (tmp_path / "file").touch()
    for options, text in (
        (("--workers", "many"), "workers: expected a whole number"),
        (("--store-directory", tmp_path / "file"), "the store cannot be used"),
        (("--store-directory", "/proc/store"), "the store cannot be used"),
        (("--auth", tmp_path / "absent"), "cannot be read"),
        (("--tls-certificate", tmp_path / "file", "--tls-key", tmp_path / "file"), "tls_certificate: "),
    ):
        ended = run("serve", "--check", *options)
        assert (ended.returncode, text in ended.stderr.decode()) == (1, True), ended.stderr


OPERATIONS = (Path(__file__).resolve().parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FIELDS)
def test_the_page_on_operations_names_every_setting(name: str) -> None:
    assert f"`{name}`" in OPERATIONS


def test_the_page_on_operations_has_the_defaults() -> None:
    """Rows of the table of limits give the default of each of their settings, or one default for all of them."""
    rows = re.findall(r"^\| (`[^|]*`) \|[^|]*\| ([^|]*) \|$", OPERATIONS, re.MULTILINE)
    checked: set[str] = set()
    for names, shown in rows:
        listed = re.findall(r"`(\w+)`", names)
        if any(name not in FIELDS for name in listed):
            continue  # the row of another table
        quantities = shown.split(", ")
        quantities *= len(listed) if len(quantities) == 1 else 1
        for name, quantity in zip(listed, quantities, strict=True):
            text = quantity.replace(",", "").replace(" million", "000000")
            assert read_value(name, text) == FIELDS[name].default, name
        checked.update(listed)
    assert {name for name in FIELDS if name.startswith("max_") or name.endswith(("_bytes", "_seconds"))} <= checked
