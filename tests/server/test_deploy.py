"""The files in server/deploy follow the schemas of Kubernetes and of the Prometheus Operator, the rules for Dockerfiles
and for units of systemd, and agree with each other."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import xlashape
from tests.support.server_processes import ServerProcess
from xlashape.cli.scanning import scan
from xlashape_server import Config
from xlashape_server.config import read_value, settings_of
from xlashape_server.grpc_services import NAMES

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "server" / "deploy"
KUBERNETES = DEPLOY / "kubernetes"

yaml = pytest.importorskip("yaml", reason="pyyaml is not installed")


def read_yaml(name: str) -> dict[str, Any]:
    return yaml.safe_load((KUBERNETES / name).read_text(encoding="utf-8"))


KUSTOMIZATION = read_yaml("kustomization.yaml")
DEPLOYMENT = read_yaml("deployment.yaml")
POD = DEPLOYMENT["spec"]["template"]["spec"]
[CONTAINER] = POD["containers"]
PORTS = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}


def settings(path: Path) -> Config:
    return settings_of(str(path), {}, {})


@pytest.mark.parametrize("name", KUSTOMIZATION["resources"])
def test_objects_fit_the_schemas_of_kubernetes(name: str) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for version in ("1.29", validate.latest_version()):
        validate.validate(read_yaml(name), version, strict=True)


def test_the_job_of_ray_fits_the_schemas_and_the_command_line() -> None:
    """Kubernetes has no schema of a RayJob, but has those of the pods in it."""
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    job = read_yaml("../ray/scan.yaml")
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    cluster = job["spec"]["rayClusterSpec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        assert "rayStartParams" in group
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": group["template"]["spec"]}
        validate.validate(pod, validate.latest_version(), strict=True)
    program, command, *arguments = shlex.split(job["spec"]["entrypoint"])
    assert (program, command) == ("xlashape", "scan")
    parsed = scan.make_context("scan", arguments)
    assert parsed.params["uri"] == ("s3://dumps/",)
    assert (parsed.params["engine"], parsed.params["ray_address"]) == ("ray", "auto")


def test_the_schemas_find_mistakes() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    wrong = read_yaml("deployment.yaml")
    wrong["spec"]["replicsa"] = 2
    with pytest.raises(validate.ValidationError):
        validate.validate(wrong, validate.latest_version(), strict=True)


def test_the_base_is_complete() -> None:
    files = {path.name for path in KUBERNETES.iterdir()}
    named = {*KUSTOMIZATION["resources"], *KUSTOMIZATION["configMapGenerator"][0]["files"], "kustomization.yaml"}
    assert files == named


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kustomize_builds_the_base() -> None:
    made = subprocess.run(
        ["kubectl", "kustomize", str(KUBERNETES)], capture_output=True, text=True, check=True, timeout=60
    )
    assert made.stderr == ""
    objects = {each["kind"]: each for each in yaml.safe_load_all(made.stdout)}
    assert objects.keys() == {
        "ConfigMap",
        "Deployment",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Service",
        "ServiceAccount",
    }
    volumes = objects["Deployment"]["spec"]["template"]["spec"]["volumes"]
    [settings_volume] = [volume for volume in volumes if volume["name"] == "settings"]
    assert settings_volume["configMap"]["name"] == objects["ConfigMap"]["metadata"]["name"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_an_overlay_takes_the_component_for_the_operator_of_prometheus(tmp_path: Path) -> None:
    for name in ("kubernetes", "monitoring"):
        shutil.copytree(DEPLOY / name, tmp_path / name)
    overlay = {"namespace": "compilers", "resources": ["../kubernetes"], "components": ["../monitoring"]}
    (tmp_path / "overlay").mkdir()
    (tmp_path / "overlay" / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    made = subprocess.run(
        ["kubectl", "kustomize", str(tmp_path / "overlay")], capture_output=True, text=True, check=True, timeout=60
    )
    assert made.stderr == ""
    objects = {each["kind"]: each for each in yaml.safe_load_all(made.stdout)}
    assert (
        objects["PodMonitor"]["metadata"]["namespace"] == objects["Deployment"]["metadata"]["namespace"] == "compilers"
    )
    assert len(objects["PrometheusRule"]["spec"]["groups"][0]["rules"]) >= 7


def strict(schema: Any) -> Any:
    """The schema for jsonschema, which refuses unknown fields: a cluster would drop them without a message."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: strict(value) for name, value in schema.items()}
    if isinstance(schema.get("pattern"), str):
        made["pattern"] = re.sub(r"^\^\(\?i\)", "(?i)^", schema["pattern"])  # Go allows the flag after the anchor
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    return made


def mistakes(found: Any) -> list[str]:
    """The mistakes in an object, by the schema of the Prometheus Operator."""
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    definitions = json.loads((ROOT / "tests" / "support" / "prometheus_operator.json").read_text())["schemas"]
    schema = strict(definitions[f"{found['apiVersion']}/{found['kind']}"])
    jsonschema.Draft202012Validator.check_schema(schema)
    errors = jsonschema.Draft202012Validator(schema).iter_errors(found)
    return sorted(f"{error.json_path}: {error.message}" for error in errors)


def test_monitors_and_rules_fit_the_schemas_of_the_operator() -> None:
    component = yaml.safe_load((DEPLOY / "monitoring" / "kustomization.yaml").read_text())
    for name in component["resources"]:
        assert mistakes(yaml.safe_load((DEPLOY / "monitoring" / name).read_text())) == []


@pytest.mark.parametrize(
    ("name", "way", "value", "expected"),
    [
        (
            "podmonitor.yaml",
            ("podMetricsEndpoints", 0, "interval"),
            "15 s",
            "podMetricsEndpoints[0].interval: '15 s' does",
        ),
        ("podmonitor.yaml", ("selectors",), {}, ": Additional properties are not allowed ('selectors' was"),
        ("podmonitor.yaml", ("selector",), None, ": 'selector' is a required property"),
        ("rules.yaml", ("groups", 0, "rules", 0, "expr"), None, "groups[0].rules[0]: 'expr' is a required property"),
        ("rules.yaml", ("groups", 0, "rules", 0, "for"), "2 minutes", "groups[0].rules[0].for: '2 minutes' does"),
        ("rules.yaml", ("groups", 0, "rules", 1, "label"), {}, "groups[0].rules[1]: Additional properties are"),
    ],
)
def test_the_schemas_of_the_operator_find_mistakes(
    name: str, way: tuple[str | int, ...], value: object, expected: str
) -> None:
    found = yaml.safe_load((DEPLOY / "monitoring" / name).read_text())
    place = found["spec"]
    *path, last = way
    for step in path:
        place = place[step]
    if value is None:
        del place[last]
    else:
        place[last] = value
    [told] = mistakes(found)
    assert told.removeprefix("$.spec").lstrip(".").startswith(expected)


def test_what_selects_pods_selects_these() -> None:
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    assert DEPLOYMENT["spec"]["selector"]["matchLabels"] == labels
    assert read_yaml("service.yaml")["spec"]["selector"] == labels
    assert read_yaml("service.yaml")["spec"]["clusterIP"] == "None"
    assert read_yaml("disruption.yaml")["spec"]["selector"]["matchLabels"] == labels
    assert read_yaml("network.yaml")["spec"]["podSelector"]["matchLabels"] == labels
    assert POD["serviceAccountName"] == read_yaml("serviceaccount.yaml")["metadata"]["name"]


def test_there_is_one_pod_which_alone_knows_its_modules() -> None:
    assert DEPLOYMENT["spec"]["replicas"] == 1


def test_each_address_has_a_port_that_others_reach() -> None:
    config = settings(KUBERNETES / "xlashape.toml")
    found = {
        "grpc": config.host_and_port()[1],
        "http": config.host_and_port("http")[1],
        "metrics": config.host_and_port("metrics")[1],
    }
    assert found == PORTS
    served = {port["targetPort"]: port["port"] for port in read_yaml("service.yaml")["spec"]["ports"]}
    assert served == {name: port for name, port in PORTS.items() if name != "metrics"}
    allowed = [port["port"] for rule in read_yaml("network.yaml")["spec"]["ingress"] for port in rule["ports"]]
    assert sorted(allowed) == sorted(PORTS)


def test_the_image_has_a_version() -> None:
    name, _, version = CONTAINER["image"].partition(":")
    assert (name, version) == ("xlashape", xlashape.__version__)
    assert "latest" not in (KUBERNETES / "kustomization.yaml").read_text()


def test_probes_under_tls_need_no_tls() -> None:
    component = read_yaml("../tls/kustomization.yaml")
    patches = yaml.safe_load(component["patches"][0]["patch"])
    for name, patch in zip(("startupProbe", "livenessProbe", "readinessProbe"), patches, strict=True):
        assert (patch["op"], patch["path"]) == ("replace", f"/spec/template/spec/containers/0/{name}")
        expected = {key: value for key, value in CONTAINER[name].items() if key != "grpc"}
        assert patch["value"] == {"tcpSocket": {"port": "grpc"}, **expected}


def test_probes_ask_for_names_that_the_server_knows() -> None:
    config = settings(KUBERNETES / "xlashape.toml")
    port = config.host_and_port()[1]
    probes = {name: CONTAINER[name]["grpc"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {probe["port"] for probe in probes.values()} == {port, PORTS["grpc"]}
    assert {probe["service"] for probe in probes.values()} <= set(NAMES)
    assert (probes["livenessProbe"]["service"], probes["readinessProbe"]["service"]) == ("live", "ready")


def test_prometheus_finds_the_address_of_metrics() -> None:
    port = settings(KUBERNETES / "xlashape.toml").host_and_port("metrics")[1]
    annotations = DEPLOYMENT["spec"]["template"]["metadata"]["annotations"]
    assert (annotations["prometheus.io/scrape"], annotations["prometheus.io/path"]) == ("true", "/metrics")
    assert int(annotations["prometheus.io/port"]) == PORTS["metrics"] == port
    monitor = yaml.safe_load((DEPLOY / "monitoring" / "podmonitor.yaml").read_text())["spec"]
    assert monitor["selector"]["matchLabels"] == DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    [endpoint] = monitor["podMetricsEndpoints"]
    assert (PORTS[endpoint["port"]], endpoint["path"]) == (port, "/metrics")
    component = yaml.safe_load((DEPLOY / "monitoring" / "kustomization.yaml").read_text())
    files = {path.name for path in (DEPLOY / "monitoring").iterdir()}
    assert files == {*component["resources"], "kustomization.yaml"}


def test_the_image_asks_its_server_for_health() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    [command] = re.findall(r"^HEALTHCHECK .* CMD (\[.*\])$", text, re.MULTILINE)
    program, *arguments = json.loads(command)
    [entry] = re.findall(r"^ENTRYPOINT (\[.*\])$", text, re.MULTILINE)
    assert json.loads(entry) == [program]
    assert arguments[0] == "health"
    assert arguments[arguments.index("--service") + 1] in NAMES
    with ServerProcess(Config(address="127.0.0.1:0", workers=1)) as server:
        port = server.address.rpartition(":")[2]
        environment = {**os.environ, "XLASHAPE_ADDRESS": f"0.0.0.0:{port}"}
        asked = [sys.executable, "-m", "xlashape", *arguments]
        assert subprocess.run(asked, env=environment, check=False, timeout=60).returncode == 0
        server.stop()
        assert subprocess.run(asked, env=environment, check=False, timeout=60, capture_output=True).returncode == 1


def test_pods_have_the_time_and_the_room_that_the_settings_need() -> None:
    config = settings(KUBERNETES / "xlashape.toml")
    [_, drained] = CONTAINER["lifecycle"]["preStop"]["exec"]["command"]
    assert int(drained) + config.grace_seconds < POD["terminationGracePeriodSeconds"]
    limits = CONTAINER["resources"]["limits"]
    assert (config.workers, config.max_worker_memory) == (0, 0)  # they follow the limits of the container
    assert _quantity(limits["memory"]) * 0.75 / int(limits["cpu"]) >= 1 << 30
    [store] = [volume for volume in POD["volumes"] if volume["name"] == "store"]
    assert config.store_bytes < _quantity(store["emptyDir"]["sizeLimit"])
    mounts = {mount["name"]: mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert config.store_directory.startswith(mounts["store"])
    assert CONTAINER["args"] == ["serve", "--config", f"{mounts['settings']}/xlashape.toml"]


def _quantity(text: str) -> int:
    return read_value("store_bytes", text + "B")


def test_pods_have_no_rights() -> None:
    context = CONTAINER["securityContext"]
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"]["drop"] == ["ALL"]
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert POD["automountServiceAccountToken"] is False
    assert f"USER {POD['securityContext']['runAsUser']}:" in (DEPLOY / "Dockerfile").read_text()


HADOLINT = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")


@pytest.mark.skipif(HADOLINT is None, reason="hadolint is not installed")
def test_the_dockerfile_follows_the_rules() -> None:
    found = subprocess.run(
        [str(HADOLINT), "--failure-threshold", "style", str(DEPLOY / "Dockerfile")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (found.returncode, found.stdout) == (0, "")


def test_the_dockerfile_copies_what_exists() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE):
        *sources, _ = line.split()
        assert all((ROOT / source).exists() for source in sources), line
    allowed = re.findall(r"^!(.*)$", (DEPLOY / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert all((ROOT / name).exists() for name in allowed)
    variables = re.findall(r"XLASHAPE_(\w+)=(\S+)", text)
    config = Config(**{name.lower(): read_value(name.lower(), value) for name, value in variables})
    assert f"EXPOSE {config.host_and_port()[1]} {config.host_and_port('http')[1]}\n" in text


def locked(name: str) -> dict[str, list[str]]:
    """Package==version → its hashes."""
    entries = (DEPLOY / name).read_text().replace("\\\n", " ").splitlines()
    return {
        entry.split()[0]: re.findall(r"--hash=sha256:([0-9a-f]{64})\b", entry) for entry in entries if entry.strip()
    }


@pytest.mark.parametrize("name", ["constraints.txt", "build-constraints.txt"])
def test_every_package_is_locked_with_its_hashes(name: str) -> None:
    found = locked(name)
    for package, hashes in found.items():
        assert re.fullmatch(r"[\w.-]+==[\w.]+", package)
        assert hashes, package


def test_the_locks_hold_what_the_package_needs() -> None:
    versions = {
        canonicalize_name(Requirement(package).name): next(iter(Requirement(package).specifier)).version
        for package in locked("constraints.txt")
    }
    text = (ROOT / "pyproject.toml").read_text()
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    project = tomllib.loads(text)["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"]]
    for extra in ("client", "server", "store", "web", "telemetry", "png"):
        needed += extras[extra]
    image = {"python_version": "3.13", "extra": ""}
    for requirement in map(Requirement, needed):
        if requirement.name == "xlashape" or (requirement.marker and not requirement.marker.evaluate(image)):
            continue
        assert requirement.specifier.contains(Version(versions[canonicalize_name(requirement.name)])), requirement


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(DEPLOY / "systemd" / "xlashape.service")
    return parser


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_reads_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / "xlashape.service").read_text()
    path = tmp_path / "xlashape.service"
    path.write_text(text.replace("/opt/xlashape/bin/xlashape", "/bin/true"))
    found = subprocess.run(
        ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (found.returncode, found.stderr) == (0, "")


def test_the_unit_and_its_settings_fit() -> None:
    service = unit()["Service"]
    config = settings(DEPLOY / "systemd" / "xlashape.toml")
    assert int(service["TimeoutStopSec"]) > config.grace_seconds
    assert config.is_loopback()
    assert config.store_directory.startswith(f"/var/lib/{service['StateDirectory']}/")
    assert service["Type"] == "notify"
    threads = 2 * config.max_concurrent_calls + 512
    assert int(service["TasksMax"]) >= 8 * threads
    assert int(service["LimitNOFILE"]) >= 2 * config.max_connections
    assert service["MemoryMax"].endswith("%")


def test_systemd_is_told(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}
        with ServerProcess(Config(address="127.0.0.1:0", workers=1), env=environment) as server:
            told = []
            while "WATCHDOG=1" not in told or not any(each.startswith("READY=1") for each in told):
                told.append(manager.recv(4096).decode())
            assert f"READY=1\nSTATUS=Serving at {server.address}" in told
            server.process.terminate()
            while told[-1] != "STOPPING=1":
                told.append(manager.recv(4096).decode())
            assert server.process.wait(30) == 0
