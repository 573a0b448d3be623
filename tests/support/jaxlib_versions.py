"""Adapts tests to the installed version of jaxlib. The vectors hold the answers of the newest version; an older version
prints and reads some texts differently.
"""

import re
from types import ModuleType

from optional import needed_in_ci

from xlashape.proto import xla

_CHANGED_TEXT = re.compile(
    r"\btopk\(|collective-broadcast|unreduced|maximal_mesh|single_device|sharding=\{mesh|synthetic_call|origin_recovery_table|, type=|, order="
)


class Jaxlib:
    """The HLO bindings of the installed jaxlib, and the differences between its version and the newest one."""

    def __init__(self) -> None:
        self.hlo: ModuleType = needed_in_ci("jaxlib._hlo")
        version = needed_in_ci("jaxlib").__version__
        self.is_older = tuple(map(int, version.split(".")[:2])) < (0, 11)

    def differs(self, text: str) -> bool:
        """Whether the installed version may print the text differently from the newest version, because the text has
        something whose form changed in jaxlib 0.11."""
        return self.is_older and _CHANGED_TEXT.search(text) is not None

    def newest_proto(self, module: xla.HloModuleProto) -> xla.HloModuleProto:
        """A proto that the installed version made from a text, turned into the one that the newest version makes."""
        if self.is_older:
            for computation in module.computations:
                for instruction in computation.instructions:
                    _update(instruction)
        return module

    def readable_text(self, text: str) -> str:
        """A text that the newest version prints, turned into one that the installed version reads."""
        return re.sub(r"( topk\(.*), is_stable=(?:true|false)", r"\1", text) if self.is_older else text

    def newest_text(self, text: str) -> str:
        """A text that the installed version prints, turned into the one that the newest version prints."""
        return text.replace(", type=TOTALORDER", ", order=TOTAL") if self.is_older else text


def _update(instruction: xla.HloInstructionProto) -> None:
    if instruction.opcode == "compare":
        is_partial = instruction.comparison_type == "FLOAT"
        instruction.comparison_order = "PARTIAL" if is_partial else "TOTAL"
        instruction.comparison_type = ""
    elif instruction.opcode in ("dot", "convolution"):
        instruction.sparsity_config.SetInParent()
        instruction.block_scaling_config.SetInParent()
    elif instruction.opcode == "topk":
        instruction.is_stable = True
