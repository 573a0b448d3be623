"""ModuleConfig: what a module's text says about its compilation and HloModuleProto has no field for.

XLA keeps these values in the module's configuration: its parser reads them, its printer writes them, its protos lose them. Here an
HloModule made from text keeps them, so that it prints as XLA prints the module that it made from the same text.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ModuleConfig"]


class ModuleConfig(NamedTuple):
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
        """The attributes that a module's header has before entry_computation_layout."""
        return ", alias_passthrough_params=true" if self.alias_passthrough_params else ""

    @property
    def after_layout(self) -> str:
        """The attributes that a module's header has after entry_computation_layout."""
        text = ""
        for side in ("parameters", "output"):
            name = f"allow_spmd_sharding_propagation_to_{side}"
            flags: tuple[bool, ...] = getattr(self, name)
            if flags not in ((), (False,)):
                text += f", {name}={{{','.join(['true' if flag else 'false' for flag in flags])}}}"
        if self.replica_count != 1:
            text += f", replica_count={self.replica_count}"
        if self.num_partitions != 1:
            text += f", num_partitions={self.num_partitions}"
        return text
