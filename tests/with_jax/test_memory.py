"""The memory of compiled functions of JAX: sizes as jaxlib says them, and donations proved by compiling again."""

import sys
from pathlib import Path

import pytest

import xlashape as xs

jax = pytest.importorskip("jax", reason="JAX is not installed")
sys.path.append(str(Path(__file__).parents[1] / "support"))
PROGRAMS = ["attention", "adam", "bf16_mm", "fft2", "scatter_donated", "deep_sgd_kept"]


@pytest.fixture(scope="module")
def programs():
    import memory_programs  # it imports JAX

    return memory_programs


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_are_those_of_memory_analysis(programs, name):
    compiled = programs.compiled(name)
    answer = xs.memory(compiled)
    stats = compiled.memory_analysis()
    assert answer.argument_bytes == stats.argument_size_in_bytes
    assert answer.output_bytes == stats.output_size_in_bytes
    if hasattr(stats, "serialized_buffer_assignment_proto"):
        assert answer.alias_bytes == stats.alias_size_in_bytes
        assert answer.temp_bytes == stats.temp_size_in_bytes
        assert answer.said_peak is None or answer.peak_bytes >= answer.said_peak


@pytest.mark.parametrize("name", PROGRAMS)
def test_donations_are_exact_or_within_their_bounds(programs, name):
    function, shapes, donated = programs.PROGRAMS[name]
    if donated:
        pytest.skip("its arguments are donated already")
    if not hasattr(programs.compiled(name).memory_analysis(), "serialized_buffer_assignment_proto"):
        pytest.skip(
            "executables of this jaxlib keep no assignment of buffers: the peak after donation would be an estimate, too"
        )
    flat, tree = jax.tree.flatten(tuple(shapes))

    def call(*arguments):
        return function(*jax.tree.unflatten(tree, arguments))

    for each in xs.memory(jax.jit(call).lower(*flat).compile()).suggest():
        if each.change == "donate":
            number = int(each.text.partition("(parameter ")[2].partition(")")[0])
            changed = xs.memory(jax.jit(call, donate_argnums=number).lower(*flat).compile())
            assert each.lower_bytes <= changed.peak_bytes <= each.upper_bytes
