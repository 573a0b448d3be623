"""Our verifier says of modules changed at random what XLA's says. `tests/support/verifier_mutants.py` tries as many as
one likes."""

from __future__ import annotations

import platform
from itertools import islice

import pytest

from tests.support.module_mutants import Mutator
from tests.support.verifier_mutants import corpus, difference
from tests.support.xla_verifier import JAXLIB, XlaVerifier

jaxlib = pytest.importorskip("jaxlib", reason="jaxlib is not installed")
if jaxlib.__version__ != JAXLIB or (platform.system(), platform.machine()) != ("Linux", "x86_64"):
    pytest.skip(f"XLA's verifier is called in jaxlib {JAXLIB} on Linux with x86-64", allow_module_level=True)

COUNT = 400


def test_mutants_have_problems_where_xla_refuses_them() -> None:
    with XlaVerifier() as xla:
        texts = corpus()[::9]
        said = {text: xla.verify(text) for text in texts}
        accepted = [text for text in texts if not said[text].by]
        assert len(accepted) > 200
        mutants = list(islice(Mutator(accepted, seed=22), COUNT))
        answers = [xla.verify(mutant.text) for mutant in mutants]
    assert sum(bool(answer.by) for answer in answers) > COUNT // 4, "mutants that XLA accepts test little"
    differences = [difference(mutant, answer) for mutant, answer in zip(mutants, answers, strict=True)]
    shown = [f"{each.rule}\n{each.ours}\n{each.mutant.text}" for each in differences if each is not None]
    assert not shown, "\n\n".join(shown)
