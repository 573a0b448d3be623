"""Indexing maps of whole models, an instruction at a time, beside XLA's own analysis of the same instructions.

    python tests/benchmarks/bench_indexing.py [MODULE …]

Without arguments: the whole models in the folder of shared data, where there are any, and the modules committed as
vectors. With XLA at hand (see `xla_peer`) both sides take turns, the best of all rounds counts, seconds are of the
thread; without it there are the library's own times.

*Cold*: the module is loaded and its views have decoded shapes and operands (XLA has its HloModule in memory too), but
the analysis knows nothing: all of its caches are empty. *Warm*: the same again with the caches full, in a new
`Analysis`. *Loading views* is cold on a new `HloModule` of the message, which decodes everything anew.

XLA answers output 0 of an instruction for one call, and leaves some opcodes out (tuple, call, all-reduce, custom-call,
…; general gather aborts it). So the two sides are compared

- *output 0* of every instruction that XLA answers for, one question each,
- *each output* of the same instructions,

and `module_indexing` of everything, which answers for the other opcodes too, stands beside them. Results of XLA are
freed, as ours are (not with jaxlib 0.12, which has no function for it); `kept` is
its time when they are left lying, and both hold what it takes to call a C function from Python, which is told apart.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from xla_peer import ROOT, SHARED, Peer

from xlashape import indexing
from xlashape.base import caches
from xlashape.hlo import HloInstruction, HloModule
from xlashape.indexing import Analysis
from xlashape.indexing.answers.leaves import leaves

ROUNDS = 7
Question = tuple[HloInstruction, int]


def forget() -> None:
    """No answer is known."""
    caches.clear("xlashape.indexing")
    caches.clear("xlashape.symbolic")


def seconds(run: Callable[[], object]) -> float:
    start = time.thread_time()
    run()
    return time.thread_time() - start


def all_maps(module: HloModule) -> int:
    return sum(1 for _ in indexing.module_indexing(module))


def ask(questions: list[Question]) -> None:
    analyse = Analysis()
    for instruction, output in questions:
        analyse.output_to_input(instruction, output)


class Best:
    """The least seconds of each named step."""

    def __init__(self) -> None:
        self.of: dict[str, float] = {}

    def take(self, name: str, taken: float) -> None:
        self.of[name] = min(taken, self.of.get(name, taken))

    def micros(self, name: str, count: int) -> float:
        return self.of[name] / count * 1e6


def whole_model(path: Path, module: HloModule, peer: Peer | None) -> None:
    count, best = all_maps(module), Best()
    print(f"{path.name}: {count} maps of all instructions with operands")
    answered: list[HloInstruction] = []
    if peer is not None:
        answered = [module.computation(c).instruction(name) for c, name, _ in peer.ask("load", str(path))]
    lists = {
        "output 0": [(one, 0) for one in answered],
        "each output": [(one, k) for one in answered for k in range(len(leaves(one.shape)))],
    }
    if len(lists["output 0"]) == len(lists["each output"]):
        del lists["each output"]
    for name, questions in lists.items():
        if peer is None:
            continue
        if not peer.ask("choose", [(one.computation.name, one.name, k) for one, k in questions]):
            print(f"  {name}: XLA does not answer all of it")
            continue
        for _ in range(ROUNDS):
            for of_xla in ("freed", "kept", "calling"):
                best.take(name + of_xla, peer.ask(of_xla))
            forget()
            best.take(name + "cold", seconds(lambda questions=questions: ask(questions)))
            best.take(name + "warm", seconds(lambda questions=questions: ask(questions)))
        n = len(questions)
        freed, cold, warm = (best.micros(name + what, n) for what in ("freed", "cold", "warm"))
        print(
            f"  {name:12} {n:6} questions: cold {cold:6.2f} µs, warm {warm:5.2f}, XLA {freed:5.2f} "
            f"(kept {best.micros(name + 'kept', n):.2f}, calling alone {best.micros(name + 'calling', n):.2f}); "
            f"cold ÷ XLA {cold / freed:5.2f}, warm ÷ XLA {warm / freed:5.2f}"
        )
    for _ in range(ROUNDS):
        forget()
        best.take("cold", seconds(lambda: all_maps(module)))
        best.take("warm", seconds(lambda: all_maps(module)))
        forget()
        best.take("views", seconds(lambda: all_maps(HloModule.from_proto(module.to_bytes()))))
    cold, warm, views = (best.micros(what, count) for what in ("cold", "warm", "views"))
    print(f"  {'everything':12} {count:6} maps     : cold {cold:6.2f} µs, warm {warm:5.2f}, loading views {views:5.2f}")


def one_of_each(module: HloModule) -> dict[str, HloInstruction]:
    found: dict[str, HloInstruction] = {}
    for instruction in module.instructions():
        if instruction.operands:
            found.setdefault(str(instruction.opcode), instruction)
    return found


def single_maps(files: list[tuple[Path, HloModule]], peer: Peer | None) -> None:
    """One instruction alone with nothing known before, a question for each opcode and model; code and data are in the
    processor's caches."""
    rows: dict[str, list[tuple[float, float | None]]] = {}
    for path, module in files:
        chosen = one_of_each(module)
        known: dict[str, int] = {}
        if peer is not None:
            answers = {(c, name) for c, name, _ in peer.ask("load", str(path))}
            with_xla = [one for one in chosen.values() if (one.computation.name, one.name) in answers]
            peer.ask("choose", [(one.computation.name, one.name, 0) for one in with_xla])
            known = {str(one.opcode): i for i, one in enumerate(with_xla)}
        for opcode, instruction in chosen.items():
            ours, theirs = [], []
            for _ in range(ROUNDS):
                for _ in range(20):
                    forget()
                    ours.append(seconds(lambda instruction=instruction: indexing.output_to_input(instruction)))
                if peer is not None and opcode in known:
                    theirs.append(peer.ask("one", known[opcode], 20))
            rows.setdefault(opcode, []).append((min(ours) * 1e6, min(theirs) * 1e6 if theirs else None))
    print(
        "\none instruction alone, nothing known before: µs, XLA's µs, ratio; the largest ratio (or time) of all modules"
    )
    worst = {
        opcode: max(found, key=lambda row: row[0] / row[1] if row[1] else row[0]) for opcode, found in rows.items()
    }
    for opcode, (ours, xla) in sorted(worst.items(), key=lambda row: -(row[1][0] / row[1][1] if row[1][1] else 0)):
        print(f"  {opcode:24} {ours:7.1f} " + (f"{xla:7.2f} {ours / xla:6.1f}" if xla else "      –      –"))


def main(paths: list[str]) -> None:
    named = [Path(path) for path in paths] or [
        *sorted((SHARED / "hlo" / "models").glob("*.hlo")),
        *sorted((ROOT / "tests" / "vectors" / "hlo").glob("*.hlo")),
    ]
    files = [(path, HloModule.load(path)) for path in named]
    files = [(path, module) for path, module in files if all_maps(module)]
    peer = Peer.find()
    for path, module in files:
        whole_model(path, module, peer)
    single_maps(files, peer)


if __name__ == "__main__":
    main(sys.argv[1:])
