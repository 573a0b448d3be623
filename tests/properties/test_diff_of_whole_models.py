"""diff on whole models: a regression in a random place is the first row, and a model that is written down otherwise is
the same. tests/unit/reports/diff has the same laws on small models."""

from __future__ import annotations

import random

import pytest
from neutral_rewrites import REWRITES
from optional import shared
from seeded_regressions import REGRESSIONS, check_first, seed

from xlashape.hlo import HloModule
from xlashape.proto import xla
from xlashape.reports.diff import diff

MODELS = {
    "mobilenet_v2": REGRESSIONS,
    "resnet50_keras_jax_f32": REGRESSIONS,
    "gemma2_2b_keras_jax": ("flipped_layout", "missing_alias", "new_fusion"),
    "hlo_llama31_8b_bf16_1x8": ("widened_type", "lost_donation", "other_groups"),
}
"""Whole models, and what is seeded into them."""

_LOADED: dict[str, tuple[HloModule, bytes]] = {}
"""The models that tests share, each with its bytes as it was loaded."""


def model(name: str) -> HloModule:
    """A whole model. Tests share it and do not change it: see `unchanged`."""
    if name not in _LOADED:
        module = HloModule.load(shared("hlo", "models", f"{name}.hlo"))
        _LOADED[name] = module, module.to_bytes()
    return _LOADED[name][0]


@pytest.fixture(scope="module", autouse=True)
def unchanged():
    """Fails where a test has changed a model that others share."""
    yield
    for name, (module, before) in _LOADED.items():
        assert module.to_proto() == xla.HloModuleProto.FromString(before), f"a test has changed {name}"


@pytest.mark.parametrize(("name", "regression"), [(name, each) for name, all_ in MODELS.items() for each in all_])
def test_a_regression_seeded_into_a_whole_model_is_the_first_row(name: str, regression: str):
    found = seed(model(name), REGRESSIONS[regression], random.Random(f"{name} {regression}"))
    if found is None:
        assert regression in ("split_fusion", "lost_donation")  # no fusions; every output of the entry is an input
        return
    a, b, done = found
    check_first(diff(a, b), done)


@pytest.mark.parametrize("name", MODELS)
def test_whole_models_written_down_otherwise_are_the_same(name: str):
    module = model(name)
    proto = module.to_proto()
    some = REWRITES if len(MODELS[name]) == len(REGRESSIONS) else ("all_at_once",)
    for each in some:
        again = HloModule.from_proto(REWRITES[each](proto, random.Random(each)))
        assert again.fingerprint() == module.fingerprint() and diff(module, again).same, each
