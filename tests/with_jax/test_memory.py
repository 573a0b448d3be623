"""The memory of compiled functions of JAX: sizes as jaxlib says them."""

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
