"""Whether modules compute the same.

- `compare`: the verdict on two modules. `ledger`: their values, in which equal values are one. `draws`: the inputs.
"""
