"""Fuzzing of a server on the wire, over gRPC and HTTP: changed requests of every RPC must be answered or refused with a
reason, and no worker may die.

    python tests/robustness/fuzz.py [--requests 3000 | --minutes 10] [--corpus FILE] [--seed N] [--keep FOLDER] [--json]

The requests come from `harness/questions.py`, and from a file (--corpus) of requests that guided_fuzz.py has kept;
`harness/mutations.py` changes them. These are findings: the codes INTERNAL, UNKNOWN and DATA_LOSS, a request over HTTP
without an answer, a worker that ended, and a call that ends long after its deadline. Each is written to the folder of
--keep, with its requests in hex. The exit code is 1 if there are findings.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import grpc
from harness.http_fuzz import HttpFuzzer
from harness.mutations import mutated
from harness.questions import questions

from xlashape.proto import services
from xlashape_server import Config, Server

_CALLERS = 4
# The deadline of a call.
_SECONDS = 5.0
# A call that takes longer was not ended by its deadline, even on a busy machine.
_LATE_SECONDS = 30.0
_FINDS = ("INTERNAL", "UNKNOWN", "DATA_LOSS", "DROPPED")
_BY_PROTOCOL = "protocol error: sent compressed message without compression support"
"""The case in which the specifications of gRPC and Connect ask for INTERNAL: a message is marked as compressed, but no
algorithm is named."""
# The server's setting max_call_seconds. It is less than the callers' deadline, so the server ends long calls.
_MAX_CALL_SECONDS = 3.0


class Fuzzer:
    """Threads that send requests until they are stopped. `found` has the findings, `codes` counts the status codes of
    calls."""

    def __init__(self, address: str, http: str, seed: int, corpus: Path | None) -> None:
        self._address = address
        self._http = http
        self._seed = seed
        asked = [(question.rpc, question.requests) for question in questions(seed, 12)]
        for line in corpus.read_text().splitlines() if corpus is not None else ():
            kept = json.loads(line)
            asked.append((kept["rpc"], tuple(bytes.fromhex(each) for each in kept["hex"])))
        self._asked = [(rpc, requests) for rpc, requests in asked if requests]
        self._by_rpc: dict[str, list[tuple[bytes, ...]]] = {}
        for rpc, requests in self._asked:
            self._by_rpc.setdefault(rpc, []).append(requests)
        self._rpcs = sorted(self._by_rpc)
        self._lock = threading.Lock()
        self.codes: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.found: list[dict[str, Any]] = []

    def run(self, requests: int, until: float) -> None:
        """Sends this many requests, or sends requests until a time of time.monotonic()."""
        threads = [
            threading.Thread(target=self._ask, args=(number, requests // _CALLERS + 1, until))
            for number in range(_CALLERS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _ask(self, number: int, requests: int, until: float) -> None:
        """Every second caller uses HTTP, if the server offers it."""
        r = random.Random(f"{self._seed} {number}")
        with grpc.insecure_channel(self._address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            calls = {
                f"{service.name}/{method.name}": channel.stream_stream(f"/{service.full_name}/{method.name}")
                for service in services()
                for method in service.methods
            }
            http = HttpFuzzer(self._http) if self._http and number % 2 else None
            for _ in range(requests):
                if time.monotonic() > until:
                    break
                rpc, sent = self._request(r)
                began = time.monotonic()
                by_http = http if http is not None and http.takes(rpc) else None
                code, details = _called(calls[rpc], sent) if by_http is None else by_http.send(rpc, sent, r)
                self._note("grpc" if by_http is None else "http", rpc, sent, code, details, time.monotonic() - began)
            if http is not None:
                http.close()

    def _request(self, r: random.Random) -> tuple[str, tuple[bytes, ...]]:
        rpc = r.choice(self._rpcs)
        given = r.choice(self._by_rpc[rpc])
        other = r.choice(r.choice(self._asked)[1])
        if rpc == "HloService/ListInstructions" and r.random() < 0.5:
            # Requests of RPCs about stored modules are made here: they have a module's name or content in field 1.
            rpc = r.choice(
                ("HloService/GetModule", "HloService/DeleteModule", "HloService/PutModule", "HloService/UploadModule")
            )
        sent = [mutated(each, other, r) for each in given]
        if r.random() < 0.05:
            sent = sent * r.choice((0, 2, 3))
        return rpc, tuple(sent)

    def _note(self, transport: str, rpc: str, sent: tuple[bytes, ...], code: str, details: str, seconds: float) -> None:
        with self._lock:
            self.codes[f"{transport} {code}"] += 1
            self.asked[rpc] += 1
            if (code in _FINDS and _BY_PROTOCOL not in details) or seconds > _LATE_SECONDS:
                find = {"transport": transport, "rpc": rpc, "code": code, "details": details, "seconds": seconds}
                self.found.append({**find, "hex": [each.hex() for each in sent]})


def _called(call: Any, sent: tuple[bytes, ...]) -> tuple[str, str]:
    try:
        for _ in call(iter(sent), timeout=_SECONDS):
            pass
    except grpc.RpcError as error:
        answer: Any = error
        return answer.code().name, answer.details() or ""
    return "OK", ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--requests", type=int, default=3000, help="How many requests.")
    parser.add_argument("--minutes", type=float, help="For so long, instead of a number of requests.")
    parser.add_argument("--corpus", type=Path, metavar="FILE", help="Requests that guided_fuzz.py has kept.")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="Default: another one each time.")
    parser.add_argument("--keep", type=Path, help="Folder for finds.")
    parser.add_argument("--json", action="store_true", help="Print one line of JSON.")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", file=sys.stderr)
    until = time.monotonic() + 60 * (arguments.minutes or 60)
    config = Config(
        address="127.0.0.1:0",
        http="127.0.0.1:0" if find_spec("uvicorn") else "",
        workers=2,
        max_call_seconds=_MAX_CALL_SECONDS,
        log_level="error",
    )
    with Server(config) as server:
        workers = server.worker_pids
        fuzzer = Fuzzer(server.address, server.http_address, arguments.seed, arguments.corpus)
        fuzzer.run(1 << 60 if arguments.minutes else arguments.requests, until)
        died = sorted(set(workers) - set(server.worker_pids))
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        for number, find in enumerate(fuzzer.found):
            (arguments.keep / f"{arguments.seed}_{number}.json").write_text(json.dumps(find))
    told = {
        "seed": arguments.seed,
        "asked": fuzzer.asked.total(),
        "codes": fuzzer.codes,
        "rpcs": len(fuzzer.asked),
        "died": died,
        "finds": [{name: value for name, value in find.items() if name != "hex"} for find in fuzzer.found[:20]],
    }
    if arguments.json:
        print(json.dumps(told))
    else:
        for name, value in told.items():
            print(f"{name}: {value}")
    return 1 if died or fuzzer.found else 0


if __name__ == "__main__":
    sys.exit(main())
