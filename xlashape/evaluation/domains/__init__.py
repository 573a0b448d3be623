"""What floats are in an evaluation. Integers and predicates are concrete numbers of their own width in all domains.

- `domain`: the operations that a domain has, and those that follow from others.
- `values`: NumPy's numbers of 64 bits, rounded to the declared type on request.
- `modular`: arithmetic modulo 2³¹ − 1 on NumPy arrays. `numbers`: constants as elements of the field.
- `field`: elements of the field with 2³¹ − 1 elements. `roundings`: as `field`, with a hash where an operation rounds.
"""
