"""ModuleConfig: what a module's text says about its compilation and HloModuleProto has no room for.

XLA keeps these in the module's configuration: its parser reads them, its printer writes them, its protos lose them. Here an HloModule
made of text remembers them, so that it prints as XLA prints the module that it made of the same text.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ModuleConfig"]


@dataclass(frozen=True)
class ModuleConfig:
    """The parts of a module's configuration that its text shows.

    >>> config = ModuleConfig(replica_count=2, allow_spmd_sharding_propagation_to_output=(True,))
    >>> config.before_layout, config.after_layout
    ('', ', allow_spmd_sharding_propagation_to_output={true}, replica_count=2')
    """

    replica_count: int = 1
    num_partitions: int = 1
    alias_passthrough_params: bool = False
    allow_spmd_sharding_propagation_to_parameters: tuple[bool, ...] = ()
    allow_spmd_sharding_propagation_to_output: tuple[bool, ...] = (False,)

    @property
    def before_layout(self) -> str:
        """What a module's head says before its entry_computation_layout."""
        return ", alias_passthrough_params=true" if self.alias_passthrough_params else ""

    @property
    def after_layout(self) -> str:
        """What a module's head says behind its entry_computation_layout."""
        text = ""
        if self.allow_spmd_sharding_propagation_to_parameters not in ((), (False,)):
            text += f", allow_spmd_sharding_propagation_to_parameters={_bools(self.allow_spmd_sharding_propagation_to_parameters)}"
        if self.allow_spmd_sharding_propagation_to_output not in ((), (False,)):
            text += (
                f", allow_spmd_sharding_propagation_to_output={_bools(self.allow_spmd_sharding_propagation_to_output)}"
            )
        if self.replica_count != 1:
            text += f", replica_count={self.replica_count}"
        if self.num_partitions != 1:
            text += f", num_partitions={self.num_partitions}"
        return text


def _bools(values: tuple[bool, ...]) -> str:
    return "{" + ",".join("true" if value else "false" for value in values) + "}"
