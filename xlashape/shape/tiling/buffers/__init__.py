"""Whole arrays in and out of their buffers.

- `pack`: `pack`, `unpack` and `relayout`
- `strided_copy`: copies that follow the strides of array and buffer
- `packed_bits`: elements of fewer than 8 bits, which share bytes
"""
