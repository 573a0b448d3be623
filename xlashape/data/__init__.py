"""A small real module for `xlashape demo` and the examples: attention written in JAX, as XLA compiled it for a CPU."""
