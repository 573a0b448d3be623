"""Arrays to buffers and back.

- `pack`: `pack`, `unpack` and `relayout`
- `strided_copy`: copies that follow the strides of array and buffer
- `packed_bits`: elements of fewer than 8 bits, which share bytes
"""
