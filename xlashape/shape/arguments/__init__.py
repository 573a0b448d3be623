"""What the functions on shapes check of their arguments, and the errors for wrong ones.

- `arrays`: a shape that has to be an array
- `dimensions`: dimension numbers and permutations
- `indices`: indices of arrays and positions in buffers
- `types`: arguments of a wrong type
"""
