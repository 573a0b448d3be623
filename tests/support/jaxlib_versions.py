"""jaxlib as it is installed: the newest version, whose answers the vectors hold, or an older one that some answers
differ from.
"""

import re
from types import ModuleType

from optional import needed_in_ci

from xlashape.proto import xla

_CHANGED_TEXT = re.compile(
    r"\btopk\(|collective-broadcast|unreduced|maximal_mesh|single_device|sharding=\{mesh|synthetic_call|origin_recovery_table|, type=|, order="
)


class Jaxlib:
    """jaxlib's HLO bindings, and what has changed between its version and the newest."""

    def __init__(self) -> None:
        self.hlo: ModuleType = needed_in_ci("jaxlib._hlo")
        version = needed_in_ci("jaxlib").__version__
        self.is_older = tuple(map(int, version.split(".")[:2])) < (0, 11)

    def differs(self, text: str) -> bool:
        """Whether this version may print the text otherwise than the newest: what jaxlib 0.11 changed is in it."""
        return self.is_older and _CHANGED_TEXT.search(text) is not None

    def newest_proto(self, module: xla.HloModuleProto) -> xla.HloModuleProto:
        """The proto that this version made of a text, as the newest version makes it."""
        if self.is_older:
            for computation in module.computations:
                for instruction in computation.instructions:
                    _update(instruction)
        return module

    def readable_text(self, text: str) -> str:
        """The text that the newest version prints, as this version reads it."""
        return re.sub(r"( topk\(.*), is_stable=(?:true|false)", r"\1", text) if self.is_older else text

    def newest_text(self, text: str) -> str:
        """The text that this version prints, as the newest version prints it."""
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
