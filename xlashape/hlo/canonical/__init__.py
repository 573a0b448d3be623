"""The canonical form of a module: what it computes and how, without the choices of whoever wrote it down. Fingerprints
are hashes of it.

form        instructions, computations and modules in canonical form, and their hashes
constants   constants by their elements
kernels     backend configurations, and the kernels in them

    fingerprint := version ':' 32 hexadecimal digits

What does not count: names of modules, computations, instructions and parameters; ids; the order of computations, and of
instructions unless the schedule is asked for; metadata, stack frames, origins, statistics; the numbers of channels,
other than which instructions share one; the form of replica groups and of tiled shardings; defaults that are written
out, those of backend configurations included; where the sources of a kernel were installed; what a module's text says
and its proto cannot hold, such as the number of replicas.

What counts: opcodes, shapes with layouts, attributes, constants, backend configurations, data flow, control
dependencies, how often a value is computed, aliasing and donation, the layout of the entry computation. `Counted` says
what is left out on request.

The version is another one as soon as equal modules would get other fingerprints than before. XLA's own are of its text
(`HloModule::GetFingerprint128`), and differ from these.
"""

from xlashape.hlo.canonical.form import VERSION, Canonical, CanonicalComputation, Counted
from xlashape.hlo.canonical.kernels import canonical_config, parsed_config

__all__ = ["VERSION", "Canonical", "CanonicalComputation", "Counted", "canonical_config", "parsed_config"]
