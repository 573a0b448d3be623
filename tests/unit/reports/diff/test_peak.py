"""What left and entered the peak of memory: the numbers add up to the difference of the peaks."""

from __future__ import annotations

import itertools
from pathlib import Path

import command_line
import pytest

import xlashape as xs

DUMPS = sorted((Path(__file__).parents[3] / "vectors" / "memory").glob("*.hlo.pb"))
PAIRS = [*itertools.islice(itertools.permutations(DUMPS, 2), 0, None, 7)]


def layers(count: int, size: int) -> str:
    """A program whose layers each keep an array of `size` numbers until the end."""
    lines = [f"  x = f32[{size}]{{0}} parameter(0)"]
    for n in range(count):
        name = f'metadata={{op_name="jit(step)/net/layer_{n}/tanh" source_file="net.py" source_line=3}}'
        lines.append(f"  t{n} = f32[{size}]{{0}} tanh({f't{n - 1}' if n else 'x'}), {name}")
    kept = ", ".join(f"t{n}" for n in range(count))
    shape = ", ".join([f"f32[{size}]{{0}}"] * count)
    return "\n".join(
        ["HloModule m, is_scheduled=true", "", "ENTRY e {", *lines, f"  ROOT r = ({shape}) tuple({kept})", "}"]
    )


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=lambda path: path.name.partition(".")[0])
def test_the_numbers_add_up(a: Path, b: Path) -> None:
    found = xs.diff(a, b)
    assert sum(each.delta_bytes for each in found.peak) == found.delta_peak_bytes
    assert all(each.delta_bytes == each.b_bytes - each.a_bytes != 0 for each in found.peak)
    for side, memory in (("a", xs.memory(a)), ("b", xs.memory(b))):
        held = sum(getattr(each, f"{side}_bytes") for each in found.peak)
        assert held <= memory.peak_bytes
    sizes = [abs(each.delta_bytes) for each in found.peak]
    assert sizes == sorted(sizes, reverse=True)


def test_layers_that_came_are_one_row() -> None:
    found = xs.diff(layers(2, 100), layers(6, 100))
    (row,) = found.peak
    assert (row.layer, row.source) == ("net/layer_*", "net.py:3")
    assert (row.delta_bytes, row.a_buffers, row.b_buffers) == (4 * (400 + 8), 3, 7)  # the table of the tuple is one
    assert "at the peak        +1.59 KiB: net/layer_* (net.py:3) grew, " in found.headline()
    (back,) = xs.diff(layers(6, 100), layers(2, 100)).peak
    assert back.delta_bytes == -row.delta_bytes


def test_what_left_is_named() -> None:
    text = layers(1, 100)
    more = text.replace("tuple(t0)", "tuple(t0)").replace(
        "  ROOT",
        '  u = f32[900]{0} iota(), iota_dimension=0, metadata={op_name="jit(step)/extra/iota"}\n  v = f32[900]{0} negate(u)\n  ROOT',
    )
    found = xs.diff(more, text)
    assert all(each.delta_bytes < 0 for each in found.peak)
    assert "extra left, u: f32[900]{0}" in found.headline()


def test_the_command_lists_all(tmp_path: Path) -> None:
    for name, text in (("a.hlo", layers(2, 100)), ("b.hlo", layers(6, 100))):
        (tmp_path / name).write_text(text)
    ran = command_line.run("diff", str(tmp_path / "a.hlo"), str(tmp_path / "b.hlo"), "--show", "peak")
    assert "net/layer_*" in ran.stdout.decode() and "+" not in ran.stderr.decode()
    assert xs.diff(layers(2, 4), layers(2, 4)).peak == ()


def test_a_file_with_another_name_and_lines_that_moved_change_nothing() -> None:
    text = layers(3, 100)
    moved = text.replace('source_file="net.py" source_line=3', 'source_file="model.py" source_line=5')
    assert moved != text and xs.diff(text, moved).peak == ()
    held = "  u = f32[900]{0} iota(), iota_dimension=0\n  v = f32[900]{0} negate(u)\n  ROOT"
    (row,) = xs.diff(text, moved.replace("  ROOT", held)).peak
    assert row.delta_bytes == 3600 and row.source is None
