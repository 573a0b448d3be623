"""The scene of a run: a server with its store and certificates, and all its callers."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import random
import shutil
import socket
import subprocess
import threading
import time
from datetime import timezone
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2
from server_processes import ServerProcess, children
from small_disk import SmallDisk
from stepped_clock import SteppedClock

from harness.async_callers import async_transports
from harness.callers import (
    Caller,
    GrpcTransport,
    Modules,
    PythonTransport,
    Transport,
    name_of,
    new_module,
    upload_requests,
)
from harness.history import History
from harness.http_callers import HTTP_TRANSPORTS
from harness.observers import Observers
from harness.prober import connect
from harness.questions import Question, library
from xlashape.proto import v1
from xlashape_server import Config

__all__ = ["MEMORY", "Scene"]

MEMORY = 640 << 20
"""The server's setting for the memory of a worker, in bytes."""
_DISK_BYTES = 96 << 20
_STORE_BYTES = 48 << 20
_SMALL = v1.ByteSizeRequest(shapes=[v1.ShapeInput(text="f32[3,5]{1,0:T(2,2)}")]).SerializeToString()
_HEALTH = ("", "ready", "live", "xlashape.v1.HloService", "xlashape.v1.ShapeService", "xlashape.v1.IndexingService")
_START_SECONDS = 90.0
_NEW = ("req", "-config", "openssl.cnf", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
# The certificate extensions that Python needs from 3.13 on.
_OPENSSL = """
[req]
distinguished_name = name
x509_extensions = authority
[name]
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = IP:127.0.0.1,IP:::1
"""
# The most time until all callers have ended their last call.
_LAST_CALLS_SECONDS = 60.0
# How long the reads at the end of a run are tried again after codes that faults may cause.
_LAST_READS_SECONDS = 30.0
# A thread sleeps for the first time again and again. If it wakes later than the second time, the machine stalled. A
# thread of the server that waits for a core for longer than the second time was stalled too.
_TICK_SECONDS, _STALL_SECONDS = 0.1, 0.75
# The number of callers that share an event loop.
_ASYNC_CALLERS = 3
# The most lines of the server's log that are shown after a violation.
_LOG_LINES = 40


class Scene(contextlib.ExitStack):
    """The server of a run and everything around it, as a context manager. `tls`: whether the server uses
    TLS."""

    def __init__(self, scratch: Path, history: History, seed: int, *, tls: bool) -> None:
        super().__init__()
        self.scratch = scratch
        self.history = history
        self.modules = Modules()
        self.disk: SmallDisk | None = None
        self.clock: SteppedClock | None = None
        self.no_clock = ""
        """Why `clock` is None."""
        self.memory_most = 0
        self.samples: list[tuple[float, int, int, int]] = []
        """A sample of all workers together: the time, bytes of memory, open files and threads."""
        self._tls = tls
        self._seed = seed
        self._certificates = 0
        self._stop = threading.Event()
        self._servers: list[ServerProcess] = []
        self._callers: list[Caller] = []
        self.observers = self.enter_context(Observers(history))
        self._config = Config(address="127.0.0.1:0")
        self._log: list[dict[str, Any]] = []
        self.stalls: list[tuple[float, float]] = []
        """Intervals in which this process did not run, or a thread of the server waited for a core."""
        # The threads of the server that are ready to run: how long they ran, and since when that has not changed.
        self._waiting: dict[Path, tuple[str, float]] = {}

    # -- server and storage ------------------------------------------------------------------------

    def prepare(self) -> None:
        """Makes store and certificates, and starts the server."""
        path = self.scratch / "disk"
        try:
            self.disk = SmallDisk(path, _DISK_BYTES)
            self.callback(self.disk.unmount)
        except (OSError, subprocess.CalledProcessError):
            path.mkdir(exist_ok=True)
        host = "[::]" if _has_ipv6() else "127.0.0.1"
        try:
            self.clock = SteppedClock(self.scratch)
        except (OSError, subprocess.CalledProcessError) as error:
            self.no_clock = str(error)
        values: dict[str, Any] = {
            "address": f"{host}:{_free_port()}",
            "workers": 2,
            "store_directory": str(self.store()),
            "store_bytes": _STORE_BYTES,
            "max_worker_memory": MEMORY,
            "max_receive_seconds": 4,
            "max_send_seconds": 4,
            "max_call_seconds": 20,
            "connection_age_seconds": 10,
            "grace_seconds": 3,
            "log_level": "warning",
        }
        if self._tls:
            self._make_authority()
            self.swap_certificate()
            values.update(tls_certificate=str(self.scratch / "server.pem"), tls_key=str(self.scratch / "server.key"))
        if find_spec("uvicorn") is not None:
            values["http"] = f"127.0.0.1:{_free_port()}"
        if find_spec("prometheus_client") is not None:
            values["metrics"] = f"127.0.0.1:{_free_port()}"
        self._config = Config(**values)
        self.store().mkdir(exist_ok=True)
        self.start_server()

    def start_server(self) -> None:
        """Starts the server. Repeats this while workers that are about to end still hold its address."""
        began = time.monotonic()
        while True:
            server = ServerProcess(self._config, env=self.clock.environment if self.clock is not None else None)
            if server.event:
                break
            if time.monotonic() > began + _START_SECONDS:
                raise RuntimeError(f"the server does not start: {server.raw_lines()}")
            time.sleep(0.1)
        self._servers.append(server)
        self.push(server)

    def pid(self) -> int:
        return self._servers[-1].process.pid

    def address(self) -> str:
        """The address that callers use."""
        return f"127.0.0.1:{self._servers[-1].address.rpartition(':')[2]}"

    def clock_offset(self) -> float:
        """How many seconds the server's clock is ahead of this process's, found by storing a module and reading its
        time of creation. RpcError if the server cannot store one."""
        content = new_module(random.Random())
        request = v1.PutModuleRequest(data=content).SerializeToString()
        with connect(self.address(), self.root()) as made:
            channel: Any = made
            answer = channel.unary_unary("/xlashape.v1.HloService/PutModule")(request, timeout=10)
        return (
            v1.PutModuleResponse.FromString(answer).module.create_time.ToDatetime(timezone.utc).timestamp()
            - time.time()
        )

    def target(self) -> tuple[str, str]:
        """The address that attackers call, and the file of root certificates. If the system allows it, connections to
        this address have another source address than those of callers."""
        port = self.address().rpartition(":")[2]
        return (f"[::1]:{port}" if _has_ipv6() else f"127.0.0.1:{port}"), self.root()

    def root(self) -> str:
        """The file of the authority's certificate; empty without TLS."""
        return str(self.scratch / "ca.pem") if self._tls else ""

    def store(self) -> Path:
        return self.scratch / "disk" / "store"

    def modules_removed(self) -> contextlib.AbstractContextManager[None]:
        return self.modules.removed()

    def modules_at_rest(self) -> contextlib.AbstractContextManager[None]:
        return self.modules.at_rest()

    def _make_authority(self) -> None:
        (self.scratch / "openssl.cnf").write_text(_OPENSSL)
        self._openssl(*_NEW, "-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.scratch, check=True, capture_output=True)

    def swap_certificate(self) -> None:
        """Makes a new key, and a certificate of the same authority."""
        self._certificates += 1
        self._openssl(*_NEW, "-subj", f"/CN=server {self._certificates}", "-keyout", "new.key", "-out", "new.csr")
        signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "openssl.cnf")
        self._openssl(
            "x509", "-req", "-days", "2", "-in", "new.csr", *signing, "-extensions", "server", "-out", "new.pem"
        )
        for kind in ("key", "pem"):
            (self.scratch / f"new.{kind}").rename(self.scratch / f"server.{kind}")

    # -- callers -----------------------------------------------------------------------------------

    def start_callers(self, asked: list[Question], pause: float) -> None:
        """Starts the callers, the observers, and the thread that measures the workers."""
        root = Path(self.root()).read_bytes() if self._tls else None
        transports: list[Transport] = [GrpcTransport(self.address(), root) for _ in range(2)]
        transports += [PythonTransport(self.address(), root) for _ in range(2)]
        transports += async_transports(self.address(), root, _ASYNC_CALLERS)
        http = self._http_address()
        if http:
            transports += [kind(http, root) for kind in HTTP_TRANSPORTS]
        self._callers = [
            Caller(
                f"{transport.name} {number} of seed {self._seed}",
                transport,
                asked,
                self.modules,
                self.history,
                self._stop,
                tells_deletions=True,
                pause=pause,
            )
            for number, transport in enumerate(transports)
        ]
        for caller in self._callers:
            caller.start()
        right = library()("ShapeService/ByteSize", (_SMALL,)).answers[0].hex()
        self.observers.probe(self.address(), self.root(), right)
        if self._config.metrics:
            self.observers.scrape(self._config.metrics)
        threading.Thread(target=self._sample, daemon=True).start()
        threading.Thread(target=self._notice_stalls, daemon=True).start()

    def _http_address(self) -> str:
        return str(self._servers[-1].event.get("http") or "")

    def _sample(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        while not self._stop.wait(0.2):
            total = [0, 0, 0]
            for pid in self.workers():
                with contextlib.suppress(OSError):
                    memory = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page
                    self.memory_most = max(self.memory_most, memory)
                    files = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
                    threads = sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
                    total = [total[0] + memory, total[1] + files, total[2] + threads]
            self.samples.append((time.monotonic(), total[0], total[1], total[2]))
            self._notice_waits()

    def workers(self) -> list[int]:
        try:
            return children(self.pid())
        except OSError:
            return []  # the server was killed

    def _notice_stalls(self) -> None:
        before = time.monotonic()
        while not self._stop.wait(_TICK_SECONDS):
            now = time.monotonic()
            if now - before > _STALL_SECONDS:
                self.stalls.append((before, now))
            before = now

    def _notice_waits(self) -> None:
        """Adds the interval in which a thread of the server was ready to run and did not get a core."""
        now, waiting = time.monotonic(), dict[Path, tuple[str, float]]()
        for task in (each for pid in (self.pid(), *self.workers()) for each in Path(f"/proc/{pid}/task").glob("*")):
            with contextlib.suppress(OSError):
                if task.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "R":
                    ran = task.joinpath("schedstat").read_text()  # changes whenever the thread runs
                    before = self._waiting.get(task)
                    waiting[task] = before if before is not None and before[0] == ran else (ran, now)
        self._waiting = waiting
        since = min((since for _, since in waiting.values()), default=now)
        if now - since > _STALL_SECONDS:
            if self.stalls and self.stalls[-1][0] == since:
                self.stalls.pop()
            self.stalls.append((since, now))

    # -- recovery ----------------------------------------------------------------------------------

    def is_normal(self) -> bool:
        """Whether on new connections health is SERVING, a small answer right, and a module can be stored and read."""
        content = new_module(random.Random())
        name = name_of(content)
        if len(self.workers()) != 2:
            return False
        for attempt in range(4):
            try:
                with connect(self.address(), self.root()) as made:
                    channel: Any = made
                    for service in _HEALTH:
                        request = health_pb2.HealthCheckRequest(service=service).SerializeToString()
                        if channel.unary_unary("/grpc.health.v1.Health/Check")(request, timeout=2) != b"\x08\x01":
                            return False
                    channel.unary_unary("/xlashape.v1.ShapeService/ByteSize")(_SMALL, timeout=2)
                    if attempt == 0:
                        upload = channel.stream_unary("/xlashape.v1.HloService/UploadModule")
                        upload(iter(upload_requests(content)), timeout=4)
                        self.modules.acknowledged(name, content)
                    get = channel.unary_unary("/xlashape.v1.HloService/GetModule")
                    get(v1.GetModuleRequest(name=name).SerializeToString(), timeout=4)
            except grpc.RpcError:
                return False
        return True

    def await_normal(self, seconds: float) -> float:
        """The time at which the server had recovered; 0 if that took too long."""
        end = time.monotonic() + seconds
        while True:
            began = time.monotonic()
            if self.is_normal():
                return began
            if began > end:
                return 0.0
            time.sleep(0.1)

    def stop_callers(self) -> None:
        """Ends the callers and observers, and reads all modules that the server must have. RuntimeError if a caller or
        observer ended by itself."""
        self.observers.check()
        self._stop.set()
        end = time.monotonic() + _LAST_CALLS_SECONDS
        for caller in self._callers:
            caller.join(max(0.0, end - time.monotonic()))
            if caller.is_alive():
                faulthandler.dump_traceback()  # where each thread waits
                raise RuntimeError(f"the caller {caller.name!r} does not end")
            if caller.failure is not None:
                raise RuntimeError(f"the caller {caller.name!r} failed") from caller.failure
        reader = Caller(
            "the end",
            GrpcTransport(self.address(), Path(self.root()).read_bytes() if self._tls else None),
            [],
            self.modules,
            self.history,
            self._stop,
            tells_deletions=False,
        )
        until = time.monotonic() + _LAST_READS_SECONDS
        for name, content in self.modules.kept().items():
            reader.read(name, content, "kept", until)
        self.observers.finish()

    def log_lines(self) -> list[dict[str, Any]]:
        """The log of all servers of the run. A line that is not JSON, such as the last line of a server that was
        killed, becomes the message of an entry."""
        for server in self._servers:
            self._log += [_log_line(line) for line in server.raw_lines()]
        return self._log

    def log_errors(self) -> list[str]:
        """Lines of the log about errors within the server. Lines with a `source` come from gRPC's core, whose errors
        any caller can provoke: these are left out."""
        return [
            ": ".join([line["message"], *line.get("exception", "").splitlines()[-1:]])
            for line in self.log_lines()
            if "source" not in line and ("failed" in line["message"] or "exception" in line)
        ]

    def log_end(self) -> list[str]:
        """The last lines of the log."""
        return [json.dumps(line) for line in self.log_lines()[-_LOG_LINES:]]

    def copy_to(self, folder: Path) -> None:
        """Copies the files of the run to a folder that is kept."""
        folder.mkdir(parents=True, exist_ok=True)
        for path in self.scratch.glob("*.jsonl"):
            shutil.copy(path, folder / path.name)


def _log_line(line: str) -> dict[str, Any]:
    try:
        told: dict[str, Any] = json.loads(line)
    except ValueError:
        told = {}
    return {"message": line.rstrip(), **told}


def _free_port() -> int:
    """A port outside the range from which the system chooses ports of connections, so that a server that is started
    again can have it."""
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        first = 32768
    ports = range(10_000, first) if first > 11_000 else range(1024, 1 << 16)
    for _ in range(1000):
        port = random.choice(ports)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("", port))
            return port
    raise RuntimeError(f"no port of {ports} is free")


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False
