"""ModuleConfig: the attributes of a module's text for which HloModuleProto has no field, such as `replica_count`.

XLA keeps these values in the configuration of a module: its parser reads them, its printer writes them, and its protos
lose them. Here an HloModule made from text keeps them, so that it prints as XLA prints a module made from the same
text.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class ModuleConfig(NamedTuple):
    """The values of a module's configuration that its text shows.

    >>> config = ModuleConfig(replica_count=2, allow_spmd_sharding_propagation_to_output=(True,))
    >>> config.before_layout, config.after_layout
    ('', ', allow_spmd_sharding_propagation_to_output={true}, replica_count=2')
    """

    replica_count: int = 1
    num_partitions: int = 1
    alias_passthrough_params: bool = False
    allow_spmd_sharding_propagation_to_parameters: tuple[bool, ...] = ()
    allow_spmd_sharding_propagation_to_output: tuple[bool, ...] = (False,)
    channels_0: tuple[str, ...] = ()
    """The names of instructions whose text has `channel_id=0`, which a proto cannot distinguish from no channel."""

    def names(self) -> tuple[str, ...]:
        """The names, as in HLO text, of the values that differ from those of a module made from a proto.

        >>> ModuleConfig(replica_count=2, channels_0=("ar",)).names()
        ('replica_count', 'channel_id=0')
        """
        differing = [name for name in self._fields if getattr(self, name) != self._field_defaults[name]]
        if self.allow_spmd_sharding_propagation_to_output == ():
            differing.remove("allow_spmd_sharding_propagation_to_output")
        return tuple("channel_id=0" if name == "channels_0" else name for name in differing)

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


UNSAID: Final = ModuleConfig()
"""The configuration of a module that was not read from text. It has the default values."""
