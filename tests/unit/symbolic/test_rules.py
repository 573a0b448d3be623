"""Every rule of the simplifier by its own examples: the simplified text, and the same value at every point of the
example's box.
"""

from __future__ import annotations

import itertools
import re

import pytest

from xlashape.symbolic import IndexingMap
from xlashape.symbolic.simplify.constrained import ConstrainedSimplifier
from xlashape.symbolic.simplify.domain import MapDomain
from xlashape.symbolic.simplify.rules import floordiv, mod
from xlashape.symbolic.simplify.rules import sum as sum_rules
from xlashape.symbolic.simplify.rules.rule import DomainExample, Example
from xlashape.symbolic.simplify.simplifier import Simplifier

METHODS = [
    rule for cls in (Simplifier, ConstrainedSimplifier) for rule in vars(cls).values() if hasattr(rule, "examples")
]
OF_DOMAINS = {rule.__name__: rule for rule in vars(MapDomain).values() if hasattr(rule, "domain_examples")}
RULES = [
    *floordiv.RULES,
    *floordiv.RULES_WITHOUT_BOUNDS,
    *mod.RULES,
    *mod.RULES_WITHOUT_BOUNDS,
    *sum_rules.RULES,
    *sum_rules.RULES_WITHOUT_BOUNDS,
    sum_rules.fold,
    sum_rules.multiply_forms,
    *METHODS,
]
NAMED = {f"{rule.__module__.rsplit('.', 1)[1]}.{rule.__name__}": rule for rule in RULES}


def as_map(domain: str, expression: str) -> IndexingMap:
    count = 1 + max(int(number) for number in re.findall(r"d(\d+) in", domain))
    return IndexingMap.parse(f"({', '.join(f'd{i}' for i in range(count))}) -> ({expression}), domain: {domain}")


@pytest.mark.parametrize("name", NAMED)
def test_rule_has_a_law_and_examples(name):
    rule = NAMED[name]
    assert " = " in (rule.__doc__ or ""), "its docstring states no law"
    assert getattr(rule, "examples", ()), "its law has no examples: put @law(...) before it"


@pytest.mark.parametrize(
    ("name", "example"),
    [
        pytest.param(name, example, id=f"{name}: {example.source}")
        for name, rule in NAMED.items()
        for example in getattr(rule, "examples", ())
    ],
)
def test_example(name: str, example: Example):
    source, target = as_map(example.domain, example.source), as_map(example.domain, example.target)
    assert repr(source.simplify().results[0]) == example.target
    for point in itertools.product(*(range(low, high + 1) for (low, high), _ in source.dims)):
        assert source.evaluate(point) == target.evaluate(point), point


def test_rules_are_told_apart():
    assert len(NAMED) == len({id(rule) for rule in RULES})
    assert (len(METHODS), len(OF_DOMAINS)) == (10, 6)


@pytest.mark.parametrize("file", [floordiv, mod, sum_rules], ids=lambda file: file.__name__.rpartition(".")[2])
def test_a_rule_is_in_the_list_of_its_file(file):
    for name, rule in vars(file).items():
        if hasattr(rule, "examples") and rule.__module__ == file.__name__:
            assert rule in RULES, f"{name} has a law, and is not in RULES of {file.__name__}: it is never tried"


@pytest.mark.parametrize("name", OF_DOMAINS)
def test_rule_for_domains_has_a_law(name):
    assert " is " in OF_DOMAINS[name].__doc__


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(example, id=f"{name}: {example.domain}")
        for name, rule in OF_DOMAINS.items()
        for example in rule.domain_examples
    ],
)
def test_example_of_a_domain(example: DomainExample):
    source = as_map(example.domain, "0")
    found = source.simplify()
    assert str(found).partition("domain: ")[2] == example.target
    for point in itertools.product(*(range(low, high + 1) for (low, high), _ in source.dims)):
        assert (source.evaluate(point) is None) == (found.evaluate(point) is None), point
