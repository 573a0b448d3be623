"""ComparedProgram: a module that is compared, with what it takes and gives."""

from __future__ import annotations

from xlashape.evaluation.domains.field import Field
from xlashape.evaluation.run_module import input_shapes, output_shapes, shardings_of
from xlashape.hlo import HloModule
from xlashape.reports.equivalent.terms import Ran, Term


class ComparedProgram:
    """A module with what it takes and gives."""

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.inputs = input_shapes(module)
        self.outputs = output_shapes(module)
        self.input_shardings = shardings_of(module.entry.parameters)
        self.output_shardings = shardings_of([module.entry.root])
        self.outline: list[int] | None = None
        self.ran: list[Ran] = []
        """What ran for `outline`."""
        self.named: dict[tuple[str, int], int] = {}
        self.terms: dict[type[Field], tuple[list[Term], list[Ran]]] = {}
