"""The canonical form of a module: what the module computes and how, without names, ids and other choices that do not
change it. A fingerprint is a hash of the canonical form.

form        instructions, computations and modules in canonical form, and their hashes
constants   constants by their elements
kernels     backend configurations, and the kernels in them

    fingerprint := version ':' 32 hexadecimal digits

What does not count: names of modules, computations, instructions and parameters; ids; the order of computations, and of
instructions unless the schedule is asked for; metadata, stack frames, origins, statistics; the numbers of channels,
except which instructions share a channel; the form of replica groups and of tiled shardings; defaults that are written
out, also in backend configurations; where the sources of a kernel were installed; what only HLO text can hold and the
proto cannot, such as the number of replicas.

What counts: opcodes, shapes with layouts, attributes, constants, backend configurations, data flow, control
dependencies, how often a value is computed, aliasing and donation, the layout of the entry computation. `Counted` has
the options that leave some of it out.

The version changes whenever a module would get another fingerprint than before. XLA has fingerprints too
(`HloModule::GetFingerprint128`), which are hashes of its text and differ from these.
"""

from xlashape.hlo.canonical.form import VERSION, Canonical, Counted, LocalParts, Locals
from xlashape.hlo.canonical.kernels import canonical_config, parsed_config

__all__ = ["VERSION", "Canonical", "Counted", "LocalParts", "Locals", "canonical_config", "parsed_config"]
