"""A few hundred rounds of the fuzzing target, and what it has found so far."""

import importlib.util
from itertools import islice
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("fuzz_hlo_text", TESTS / "fuzz" / "hlo_text.py")
hlo_text = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(hlo_text)


def test_mutated_programs_give_a_module_or_an_error():
    for text in islice(hlo_text.rounds(seed=20261120), 250):
        assert hlo_text.attempt(text) is None, text


@pytest.mark.parametrize("path", sorted((TESTS / "vectors/hlo/fuzz").glob("*.hlo")), ids=lambda path: path.stem)
def test_earlier_finds_stay_fixed(path):
    assert hlo_text.attempt(path.read_text(errors="surrogatepass")) is None
