"""Fingerprints: equal for all spellings of a program, different for different programs, and the same in all
releases."""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from neutral_rewrites import REWRITES, Rewrite, with_listed_groups

from xlashape.errors import InvalidArgumentError, XlashapeError
from xlashape.hlo import HloModule
from xlashape.hlo.canonical import canonical_config
from xlashape.proto import xla

VECTORS = Path(__file__).resolve().parents[2] / "vectors"
MODELS = [
    "attention.after",
    "gather_scatter.after",
    "random_numbers.before",
    "sharded_matmul.after",
    "loops.after",
    "sorting.after",
]


def corpus() -> Iterator[tuple[str, str]]:
    """Texts of modules, by a name that says where they are: the vectors of HLO text, then dumps of several versions of
    jaxlib."""
    for name in ("corpus", "forms"):
        with gzip.open(VECTORS / "hlo" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                yield f"{name}:{number}", json.loads(line)["text"]
    for path in sorted((VECTORS / "hlo").glob("*.hlo")):
        yield path.name, path.read_text(encoding="utf-8")
    for path in sorted((VECTORS / "versions").glob("*.txt.gz")):
        yield path.name, gzip.decompress(path.read_bytes()).decode()


def model(name: str) -> HloModule:
    return HloModule.load(VECTORS / "hlo" / f"{name}.hlo.pb.gz")


@pytest.mark.parametrize("rewrite", REWRITES.values(), ids=REWRITES)
@pytest.mark.parametrize("name", MODELS)
def test_a_rewrite_leaves_the_fingerprint(name: str, rewrite: Rewrite):
    module = model(name)
    rewritten = HloModule.from_proto(rewrite(module.proto, random.Random(name)))
    assert rewritten.fingerprint() == module.fingerprint()


def test_releases_agree_on_fingerprints():
    """A change here changes what users have stored: it needs another VERSION."""
    texts = dict(corpus())
    recorded = [json.loads(line) for line in (VECTORS / "fingerprints.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(recorded) >= 200
    for line in recorded:
        assert HloModule.parse(texts[line["name"]]).fingerprint(**line.get("counted", {})) == line["fingerprint"], line


def test_processes_agree_on_fingerprints():
    """Hashes of Python's own, which each process seeds anew, are not part of it."""
    code = f"from xlashape import HloModule; print(HloModule.load({str(VECTORS / 'hlo' / 'loops.after.hlo')!r}).fingerprint())"
    made = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        made.add(run.stdout.strip())
    assert made == {HloModule.load(VECTORS / "hlo" / "loops.after.hlo").fingerprint()}


def _plain(module: HloModule) -> str:
    """The canonical text of XLA's printer, without what does not count in a fingerprint."""
    proto = with_listed_groups(module.proto, random.Random(0))
    proto.ClearField("original_value_recovery_table")
    proto.ClearField("debug_attributes")
    for computation in proto.computations:
        for instruction in computation.instructions:
            instruction.ClearField("original_value")
            instruction.ClearField("statistics_viz")
            for sharding in (instruction.sharding, *instruction.sharding.tuple_shardings):
                del sharding.metadata[:]
            if instruction.channel_id > 0:
                instruction.channel_id = 1
    text = HloModule.from_proto(proto).to_text("canonical", print_ids=False, canonicalize_computations=True)
    return text.split("\n", 1)[1]


# Programs that XLA prints differently.
SAME_PROGRAMS = {
    # a get-tuple-element in another place of the order
    tuple(f"jax-{version}.dump.cond_fn.cpu_after_optimizations.txt.gz" for version in ("0.10.2", "0.11.2")),
    # devices=[2,1]0,1 and devices=[2,1]<=[2]
    tuple(f"forms:{number}" for number in (439, 440, 465, 466, 489, 984)),
}


def test_no_two_programs_of_the_corpus_have_the_same_fingerprint():
    """Where two texts have the same fingerprint, XLA's canonical text of them is the same too."""
    groups: dict[str, list[tuple[str, HloModule]]] = defaultdict(list)
    for name, text in corpus():
        try:
            module = HloModule.parse(text)
        except XlashapeError:
            continue
        groups[module.fingerprint()].append((name, module))
    assert len(groups) > 700
    different = {
        tuple([name for name, _ in members]) for members in groups.values() if len({_plain(m) for _, m in members}) > 1
    }
    assert different == SAME_PROGRAMS


TWO_PARAMETERS = "p = f32[4,8] parameter(0) q = f32[4,8] parameter(1)"
PROGRAMS = {
    "add": f"{TWO_PARAMETERS} ROOT r = f32[4,8] add(p, q)",
    "swapped": f"{TWO_PARAMETERS} ROOT r = f32[4,8] add(q, p)",
    "subtract": f"{TWO_PARAMETERS} ROOT r = f32[4,8] subtract(p, q)",
    "layout": f"{TWO_PARAMETERS} ROOT r = f32[4,8]{{0,1}} add(p, q)",
    "memory space": f"{TWO_PARAMETERS} ROOT r = f32[4,8]{{1,0:S(5)}} add(p, q)",
    "tile": f"{TWO_PARAMETERS} ROOT r = f32[4,8]{{1,0:T(2,4)}} add(p, q)",
    "dead code": f"{TWO_PARAMETERS} d = f32[4,8] negate(p) ROOT r = f32[4,8] add(p, q)",
    "dead code twice": f"{TWO_PARAMETERS} d = f32[4,8] negate(p) e = f32[4,8] negate(p) ROOT r = f32[4,8] add(p, q)",
    "shared": "p = f32[4] parameter(0) n = f32[4] negate(p) ROOT r = f32[4] add(n, n)",
    "computed twice": "p = f32[4] parameter(0) n = f32[4] negate(p) m = f32[4] negate(p) ROOT r = f32[4] add(n, m)",
    "control": "p = f32[4] parameter(0) n = f32[4] negate(p) m = f32[4] abs(p), control-predecessors={n} ROOT r = f32[4] add(n, m)",
    "no control": "p = f32[4] parameter(0) n = f32[4] negate(p) m = f32[4] abs(p) ROOT r = f32[4] add(n, m)",
    "root elsewhere": "p = f32[4] parameter(0) n = f32[4] negate(p) ROOT m = f32[4] negate(n)",
    "root in the middle": "p = f32[4] parameter(0) ROOT n = f32[4] negate(p) m = f32[4] negate(n)",
    "constant": "p = f32[4] parameter(0) c = f32[] constant(1) b = f32[4] broadcast(c), dimensions={} ROOT r = f32[4] add(p, b)",
    "other constant": "p = f32[4] parameter(0) c = f32[] constant(1.5) b = f32[4] broadcast(c), dimensions={} ROOT r = f32[4] add(p, b)",
    "nan": "ROOT c = f32[] constant(nan)",
    "other nan": "ROOT c = f32[] constant(nan(0x1))",
    "zero": "ROOT c = f32[] constant(0)",
    "minus zero": "ROOT c = f32[] constant(-0.0)",
    "large constant": f"ROOT c = f32[12] constant({{{', '.join(map(str, range(12)))}}})",
    "other large constant": f"ROOT c = f32[12] constant({{{', '.join(map(str, range(1, 13)))}}})",
    "elided constant": "ROOT c = f32[12] constant({...})",
    "sharded": "ROOT p = f32[4] parameter(0), sharding={devices=[2]<=[2]}",
    "replicated": "ROOT p = f32[4] parameter(0), sharding={replicated}",
    "channel": "p = f32[4] parameter(0) ROOT r = f32[8] all-gather(p), channel_id=1, replica_groups={{0,1}}, dimensions={0}",
    "no channel": "p = f32[4] parameter(0) ROOT r = f32[8] all-gather(p), replica_groups={{0,1}}, dimensions={0}",
    "other groups": "p = f32[4] parameter(0) ROOT r = f32[8] all-gather(p), channel_id=1, replica_groups={{0,1},{2,3}}, dimensions={0}",
    "config": 'p = f32[4] parameter(0) ROOT r = f32[4] custom-call(p), custom_call_target="c", backend_config={"tile":["2"]}',
    "other config": 'p = f32[4] parameter(0) ROOT r = f32[4] custom-call(p), custom_call_target="c", backend_config={"tile":["4"]}',
    "two channels": "p = f32[4] parameter(0) a = f32[4] collective-permute(p), channel_id=1, source_target_pairs={{0,1}}"
    " ROOT b = f32[4] collective-permute(a), channel_id=2, source_target_pairs={{0,1}}",
    "one channel": "p = f32[4] parameter(0) a = f32[4] collective-permute(p), channel_id=1, source_target_pairs={{0,1}}"
    " ROOT b = f32[4] collective-permute(a), channel_id=1, source_target_pairs={{0,1}}",
}


def _module(body: str, header: str = "") -> HloModule:
    return HloModule.parse(f"HloModule m{header} ENTRY e {{ {body} }}")


def test_different_programs_have_different_fingerprints():
    fingerprints = {name: _module(body).fingerprint() for name, body in PROGRAMS.items()}
    fingerprints["donated"] = _module(PROGRAMS["add"], ", input_output_alias={ {}: (0, {}, may-alias) }").fingerprint()
    fingerprints["donor"] = _module(PROGRAMS["add"], ", buffer_donor={ (0, {}) }").fingerprint()
    layout = ", entry_computation_layout={(f32[4,8]{0,1}, f32[4,8]{1,0})->f32[4,8]{1,0}}"
    fingerprints["entry layout"] = _module(PROGRAMS["add"], layout).fingerprint()
    assert len(set(fingerprints.values())) == len(PROGRAMS) + 3


SPELLINGS = [
    (
        "p = f32[4] parameter(0) ROOT r = f32[8] all-gather(p), channel_id=1, replica_groups={{0,2},{1,3}}, "
        "dimensions={0}",
        "p = f32[4] parameter(0) ROOT r = f32[8] all-gather(p), channel_id=7, replica_groups=[2,2]<=[2,2]T(1,0), "
        "dimensions={0}",
        "p = f32[4] parameter(0) ROOT r = f32[8] all-gather(p), channel_id=7, replica_groups=mesh['a'=2,'b'=2] {'a'}, "
        "dimensions={0}",
    ),
    (
        "ROOT p = f32[4,2] parameter(0), sharding={devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}",
        "ROOT p = f32[4,2] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dims={replicated}}",
    ),
    (
        'p = f32[4] parameter(0) ROOT r = f32[4] custom-call(p), custom_call_target="c", '
        'backend_config={"a":1,"b":{"c":"2"},"d":[],"e":false}',
        'p = f32[4] parameter(0) ROOT r = f32[4] custom-call(p), custom_call_target="c", backend_config={ "b": {"c": '
        '"2", "f": "0"}, "a": 1}',
    ),
    (
        'p = f32[4] parameter(0) ROOT r = f32[4] custom-call(p), custom_call_target="c"',
        'p = f32[4] parameter(0) ROOT r = f32[4] custom-call(p), custom_call_target="c", '
        'backend_config={"operation_queue_id":"0"}',
    ),
    (
        "p = f32[4,8] parameter(0) ROOT d = f32[4,4] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        "p = f32[4,8]{1,0} parameter(0) ROOT d = f32[4,4]{1,0} dot(p, p), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={1},"
        " operand_precision={default,default}, frontend_attributes={}",
    ),
    (
        "c = f32[12] constant({...}) d = f32[16] constant({...}) ROOT t = (f32[12], f32[16]) tuple(c, d)",
        "d = f32[16] constant({...}) c = f32[12] constant({...}) ROOT t = (f32[12], f32[16]) tuple(c, d)",
    ),
]


@pytest.mark.parametrize("spellings", SPELLINGS, ids=range(len(SPELLINGS)))
def test_spellings_of_one_program_have_one_fingerprint(spellings: tuple[str, ...]):
    assert len({_module(body).fingerprint() for body in spellings}) == 1


@pytest.mark.parametrize(
    ("option", "first", "second"),
    [
        ("layouts", PROGRAMS["add"], PROGRAMS["layout"]),
        ("layouts", PROGRAMS["add"], PROGRAMS["tile"]),
        ("sharding", PROGRAMS["sharded"], PROGRAMS["replicated"]),
        ("constants", PROGRAMS["large constant"], PROGRAMS["other large constant"]),
        ("constants", PROGRAMS["large constant"], PROGRAMS["elided constant"]),
    ],
)
def test_options_say_what_does_not_count(option: str, first: str, second: str):
    one, two = _module(first), _module(second)
    assert one.fingerprint() != two.fingerprint()
    assert one.fingerprint(**{option: False}) == two.fingerprint(**{option: False})


def test_the_schedule_counts_on_request():
    parts = ["p = f32[4] parameter(0)", "n = f32[4] negate(p)", "a = f32[4] abs(p)", "ROOT r = f32[4] add(n, a)"]
    one = _module(" ".join(parts), ", is_scheduled=true")
    two = _module(" ".join([parts[0], parts[2], parts[1], parts[3]]), ", is_scheduled=true")
    none = _module(" ".join(parts))
    assert one.fingerprint() == two.fingerprint() == none.fingerprint()
    assert len({module.fingerprint(schedule=True) for module in (one, two, none)}) == 3


def test_computations_have_fingerprints():
    text = """HloModule m
f { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }
g { x = f32[4] parameter(0) ROOT y = f32[4] negate(x) }
h { p = f32[4] parameter(0) ROOT a = f32[4] abs(p) }
ENTRY e { p = f32[4] parameter(0) a = f32[4] call(p), to_apply=f b = f32[4] call(a), to_apply=g ROOT c = f32[4] call(b), to_apply=h }"""
    f, g, h, _ = (computation.fingerprint() for computation in HloModule.parse(text).computations)
    assert f == g != h
    assert f.startswith("1:") and len(f) == 34


def test_names_of_options_are_checked():
    module = _module(PROGRAMS["add"])
    with pytest.raises(InvalidArgumentError) as caught:
        module.fingerprint(layout=False)
    assert str(caught.value) == (
        "a fingerprint has no option 'layout'; it has layouts, sharding, schedule, constants: did you mean 'layouts'?"
    )
    with pytest.raises(InvalidArgumentError) as caught:
        module.fingerprint(layouts=1)  # pyright: ignore[reportArgumentType]
    assert str(caught.value) == "layouts is True or False, not 1"


# -- kernels ------------------------------------------------------------------------------


def _kernels() -> list[str]:
    """The Mosaic kernel of one Pallas program in base64, lowered by jax 0.7.1 from two directories; then that of
    another program."""
    return json.loads((VECTORS / "mosaic_kernels.json").read_text(encoding="utf-8"))


def test_paths_in_mosaic_kernels_do_not_count():
    one, elsewhere, other = [
        json.dumps({"custom_call_config": {"body": body, "needs_layout_passes": True}}).encode() for body in _kernels()
    ]
    assert one != elsewhere
    assert canonical_config(one) == canonical_config(elsewhere) != canonical_config(other)


@pytest.mark.parametrize("cut", range(4, 400, 7))
def test_kernels_that_are_cut_off_are_taken_as_they_are(cut: int):
    data = base64.b64decode(_kernels()[0])[:cut]
    body = base64.b64encode(data).decode()
    one, two = (canonical_config(json.dumps({"body": body, "n": number}).encode()) for number in (1, 2))
    assert one != two


def test_paths_in_text_of_kernels_do_not_count():
    configs = [
        f'{{grid_x = 1 : i32, ir = "module {{ func.func @f() loc(\\"{directory}/kernel.py\\":3:4) }}"}}'
        for directory in ("/usr/lib/python3/site-packages", "C:/venv/lib")
    ]
    plain = [text.replace('\\"', '"') for text in configs]
    assert len({canonical_config(text.encode()) for text in plain}) == 1
    assert canonical_config(plain[0].encode()) != canonical_config(plain[0].replace("kernel", "other").encode())


def test_deep_json_is_text():
    deep = "[" * 20_000 + "]" * 20_000
    assert canonical_config(f'{{"a": {deep}}}'.encode())


# -- size ---------------------------------------------------------------------------------


def _chain(length: int, opcode: str, twice: bool) -> HloModule:
    shape = xla.ShapeProto(element_type=xla.F32, dimensions=[4])
    computation = xla.HloComputationProto(name="e", id=1, root_id=length)
    computation.instructions.add(name="p", id=1, opcode="parameter", shape=shape)
    for number in range(2, length + 1):
        operands = [number - 1, number - 1] if twice else [number - 1]
        computation.instructions.add(name=f"i{number}", id=number, opcode=opcode, shape=shape, operand_ids=operands)
    return HloModule.from_proto(xla.HloModuleProto(name="m", computations=[computation], entry_computation_id=1))


def test_long_chains_and_shared_operands_are_linear():
    """A chain of 100,000 instructions; with two operands each, it has 2^99999 paths."""
    chain, doubled = _chain(100_000, "negate", twice=False), _chain(100_000, "add", twice=True)
    shorter = _chain(99_999, "negate", twice=False)
    assert len({chain.fingerprint(), doubled.fingerprint(), shorter.fingerprint()}) == 3


def test_calls_may_be_deep():
    shape = xla.ShapeProto(element_type=xla.F32, dimensions=[4])
    module = xla.HloModuleProto(name="m", entry_computation_id=20_000)
    for number in range(1, 20_001):
        computation = module.computations.add(name=f"c{number}", id=number, root_id=2)
        computation.instructions.add(name=f"p{number}", id=1, opcode="parameter", shape=shape)
        call = computation.instructions.add(name=f"i{number}", id=2, opcode="negate", shape=shape, operand_ids=[1])
        if number > 1:
            call.opcode = "call"
            call.called_computation_ids.append(number - 1)
    one = HloModule.from_proto(module).fingerprint()
    module.computations[0].instructions[1].opcode = "abs"
    assert one != HloModule.from_proto(module).fingerprint()
