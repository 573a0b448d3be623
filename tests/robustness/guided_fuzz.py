"""Fuzzing that is guided by coverage: the service's handlers in this process, behind their guard and without a
transport.

    python tests/robustness/guided_fuzz.py [--requests 20000 | --minutes 10] [--seed N] [--keep FOLDER] [--json]

A changed request that reaches a line or a branch that no request before it has reached is kept, and changed again.
The codes INTERNAL, UNKNOWN and DATA_LOSS are findings, and so is a call that ends long after its deadline. With --keep,
findings and kept requests are written to the folder; `fuzz.py --corpus` sends the kept requests over the wire. The exit
code is 1 if there are findings.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
import traceback
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from google.rpc import code_pb2
from harness.coverage import Coverage
from harness.http_fuzz import mutated_json
from harness.mutations import mutated
from harness.questions import questions

from xlashape.errors import XlashapeError
from xlashape.limits import set_checkpoint
from xlashape.proto import message_class
from xlashape_server.config import Config
from xlashape_server.conversions import json_to_proto, proto_to_json
from xlashape_server.guard import Call, Guard
from xlashape_server.handlers import Rpc, rpcs
from xlashape_server.modules import Modules
from xlashape_server.store import Store

# The deadline of a call.
_SECONDS = 2.0
# A call that takes longer was not ended by its deadline, even on a busy machine.
_LATE_SECONDS = 20.0
_FINDS = ("INTERNAL", "UNKNOWN", "DATA_LOSS", "LATE")
# The share of requests that are sent as JSON.
_JSON = 0.2
# The share of requests that are made from kept requests, which reached something new.
_NEW = 0.5


class Service:
    """The handlers behind a guard, as a worker has them."""

    def __init__(self) -> None:
        config = Config(max_call_seconds=60, log_level="error")
        folder = tempfile.mkdtemp(prefix="xlashape-fuzz-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        store = Store(folder, max_bytes=1 << 28, max_age=86_400)
        modules = Modules(config, store)
        self.guard = Guard(config)
        self.guard.start()
        self.rpcs: dict[str, Rpc] = {
            f"{rpc.method.containing_service.name}/{rpc.method.name}": rpc for rpc in rpcs(config, modules)
        }

    def ask(self, name: str, requests: tuple[bytes, ...], *, is_json: bool) -> tuple[str, str]:
        """The code and the message with which a call ends. The message of INTERNAL is the exception's trace."""
        guard, rpc = self.guard, self.rpcs[name]
        call = guard.begin(name, "fuzzer:1", _SECONDS, _cannot_be_cut_off)
        set_checkpoint(call.check)
        try:
            if rpc.method.client_streaming:
                handler: Any = rpc.handler
                request: Any = (guard.message(call, each) for each in requests)
            else:
                handler = self._with_json(rpc) if is_json else rpc.handler
                request = guard.message(call, requests[0] if requests else b"")
            answer = handler(request, call.deadline)
            if rpc.method.server_streaming:
                for _ in answer:
                    pass
        except Exception as error:  # callers see the status that the guard makes from it
            status = guard.refusal(name, call, error)
            code = code_pb2.Code.Name(status.code)
            return code, "".join(traceback.format_exception(error)) if code in _FINDS else status.message
        finally:
            set_checkpoint(None)
            call.work_ended()
            call.transport_ended()
        return "OK", ""

    def _with_json(self, rpc: Rpc) -> Callable[[bytes, float], Any]:
        asked, answered = (message_class(t.full_name) for t in (rpc.method.input_type, rpc.method.output_type))
        handler: Any = rpc.handler

        def one(data: bytes, deadline: float) -> bytes:
            answer = handler(json_to_proto(data, asked), deadline)
            return proto_to_json(answer, answered)

        def several(data: bytes, deadline: float) -> Iterable[bytes]:
            for answer in handler(json_to_proto(data, asked), deadline):
                yield proto_to_json(answer, answered)

        return several if rpc.method.server_streaming else one


def _cannot_be_cut_off(call: Call, error: XlashapeError) -> None:
    """Does nothing: a call without a transport has no connection to cut off."""


class Fuzzer:
    """Sends requests and keeps those that reach something new. `kept`: RPC → these requests."""

    def __init__(self, seed: int) -> None:
        self._r = random.Random(seed)
        self._service = Service()
        self.coverage = Coverage()
        self.codes: Counter[str] = Counter()
        self.found: list[dict[str, Any]] = []
        self.kept: dict[str, list[tuple[bytes, ...]]] = {name: [] for name in self._service.rpcs}
        self._first: dict[str, list[tuple[bytes, ...]]] = {name: [] for name in self._service.rpcs}
        asked = questions(seed, 12)
        for question in asked:
            self._first[question.rpc].append(question.requests)
        modules = [each.requests[0] for each in asked if each.rpc == "HloService/ListInstructions"]
        for given in self._first.values():
            if not given:  # the RPCs of stored modules: the name or the content of a module in field 1
                given.extend((each,) for each in modules)
        self._pieces = [each for given in self._first.values() for requests in given for each in requests]
        self.asked = 0

    def run(self, requests: int, until: float) -> None:
        """Sends this many requests, or sends requests until a time of time.monotonic()."""
        with self.coverage.watching():
            for name, given in self._first.items():
                for each in given:
                    self._ask(name, each, is_json=False)
            while self.asked < requests and time.monotonic() < until:
                name = self._r.choice(list(self._first))
                kept, first = self.kept[name], self._first[name]
                # The newest of the kept requests reached code that has been tried least, so they are preferred.
                given = (
                    self._r.choice(kept[-50:] if self._r.random() < 0.5 else kept)
                    if kept and self._r.random() < _NEW
                    else self._r.choice(first)
                )
                other = self._r.choice(self._pieces)
                method = self._service.rpcs[name].method
                if not method.client_streaming and self._r.random() < _JSON:
                    text = mutated_json(given[0] if given else b"", method.input_type.full_name, self._r)
                    self._ask(name, (text,), is_json=True)
                else:
                    sent = tuple(mutated(each, other, self._r) for each in given)
                    if self._r.random() < 0.05:
                        sent = sent * self._r.choice((0, 2, 3))
                    self._ask(name, sent, is_json=False)

    def _ask(self, name: str, sent: tuple[bytes, ...], *, is_json: bool) -> None:
        before = len(self.coverage.seen)
        began = time.monotonic()
        code, details = self._service.ask(name, sent, is_json=is_json)
        seconds = time.monotonic() - began
        self.asked += 1
        self.codes[code] += 1
        if seconds > _LATE_SECONDS:
            code = "LATE"
        if code in _FINDS:
            find = {"rpc": name, "code": code, "details": details, "seconds": seconds, "json": is_json}
            self.found.append({**find, "hex": [each.hex() for each in sent]})
        elif len(self.coverage.seen) > before and not is_json:
            self.kept[name].append(sent)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--requests", type=int, default=20_000, help="How many requests.")
    parser.add_argument("--minutes", type=float, help="For so long, instead of a number of requests.")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="Default: another one each time.")
    parser.add_argument("--keep", type=Path, help="Folder for finds and for the requests that were kept.")
    parser.add_argument("--json", action="store_true", help="Print one line of JSON.")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", file=sys.stderr)
    fuzzer = Fuzzer(arguments.seed)
    until = time.monotonic() + 60 * (arguments.minutes or 60)
    fuzzer.run(1 << 60 if arguments.minutes else arguments.requests, until)
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        for number, find in enumerate(fuzzer.found):
            (arguments.keep / f"{arguments.seed}_{number}.json").write_text(json.dumps(find))
        with (arguments.keep / "corpus.jsonl").open("a") as file:
            for name, kept in fuzzer.kept.items():
                for sent in kept:
                    file.write(json.dumps({"rpc": name, "hex": [each.hex() for each in sent]}) + "\n")
    told = {
        "seed": arguments.seed,
        "asked": fuzzer.asked,
        "codes": fuzzer.codes,
        "kept": sum(len(kept) for kept in fuzzer.kept.values()),
        "lines_and_branches": len(fuzzer.coverage.seen),
        "finds": [{name: value for name, value in find.items() if name != "hex"} for find in fuzzer.found[:20]],
    }
    if arguments.json:
        print(json.dumps(told))
    else:
        for name, value in told.items():
            print(f"{name}: {value}")
    return 1 if fuzzer.found else 0


if __name__ == "__main__":
    sys.exit(main())
