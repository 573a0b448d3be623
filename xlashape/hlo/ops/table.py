"""Which attributes HLO text has for which opcode, and how many operands. What XLA's parser accepts, one row a group of opcodes.

Every instruction may carry the attributes of COMMON. A row names the operand count, the attributes that must be there and those that
may be. An operand count is exact, or the least one as 'N+'; what more an operation asks of its operands the parser checks.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COMMON", "OPERATIONS", "UNSET_ASYNC", "Operation"]

COMMON = frozenset(
    "backend_config control-predecessors frontend_attributes metadata origin parameter_replication sharding statistics".split()
)
"""Attributes that any instruction may have."""

UNSET_ASYNC = frozenset(("async_execution_thread", *COMMON))
"""What an async-update and an async-done may have whose start names the operation: `custom-call-done`."""


class Operation(NamedTuple):
    """What text may say about an opcode."""

    least: int
    """The least number of operands."""
    most: int
    """The greatest number of operands; a large number for no bound."""
    required: tuple[str, ...]
    """Attributes that must be there."""
    allowed: frozenset[str]
    """All attributes that may be there, COMMON included."""


_ANY = 1 << 30

_ROWS = """
1    | | | abs ceil copy floor negate round-nearest-afz round-nearest-even sign bitcast opt-barrier not popcnt count-leading-zeros
1    | | | bitcast-convert convert is-finite real imag all-gather-done all-reduce-done collective-permute-done copy-done
1    | | result_accuracy | acos acosh asin asinh atanh cbrt cosine cosh erf exponential exponential-minus-one log log-plus-one
1    | | result_accuracy | logistic rsqrt sine sinh sqrt tan tanh
2    | | | add atan2 divide maximum minimum multiply power remainder subtract and or xor shift-left shift-right-arithmetic
2    | | | shift-right-logical mulhi complex stochastic-convert add-dependency
3    | | | clamp select
0    | | | partition-id replica-id parameter constant
0+   | | | after-all tuple
1+   | | | dynamic-reshape
2+   | | | dynamic-update-slice
1    | | inferred_dimension | reshape
0+   | dimensions | channel_id replica_groups constrain_layout use_global_device_ids | all-gather all-gather-start
0+   | to_apply | channel_id replica_groups constrain_layout use_global_device_ids mode | all-reduce all-reduce-start
0+   | dimensions to_apply | channel_id replica_groups constrain_layout use_global_device_ids mode | reduce-scatter
0+   | | dimensions channel_id replica_groups constrain_layout | all-to-all
0+   | | dimensions channel_id replica_groups | ragged-all-to-all
0+   | | channel_id replica_groups | collective-broadcast
0+   | source_target_pairs | channel_id slice_sizes | collective-permute collective-permute-start
3    | epsilon feature_index | | batch-norm-training
5    | epsilon feature_index | | batch-norm-inference batch-norm-grad
1    | | dimensions | broadcast
1    | dimensions | | get-dimension-size reverse transpose
2    | dimensions | | set-dimension-size
0+   | dimensions | | concatenate
0+   | to_apply | is_composite | call
1    | | lower | cholesky
2    | direction | type | compare
1+   | | true_computation false_computation branch_computations | conditional
2    | dim_labels | window feature_group_count batch_group_count operand_precision sparsity_config convolution_kind | convolution
1    | | cross_program_prefetch_index | copy-start
1    | domain | | domain
2+   | | operand_precision algorithm lhs_contracting_dims rhs_contracting_dims lhs_batch_dims rhs_batch_dims | dot
4    | | operand_precision algorithm lhs_contracting_dims rhs_contracting_dims lhs_batch_dims rhs_batch_dims | scaled-dot
3    | | operand_precision lhs_contracting_dims rhs_contracting_dims lhs_batch_dims rhs_batch_dims lhs_ragged_dims rhs_group_dims | ragged-dot
1+   | dynamic_slice_sizes | | dynamic-slice
1    | fft_type fft_length | | fft
0+   | kind calls | output_to_operand_aliasing | fusion
2    | offset_dims collapsed_slice_dims start_index_map index_vector_dim slice_sizes | operand_batching_dims start_indices_batching_dims indices_are_sorted | gather
1+   | update_window_dims inserted_window_dims scatter_dims_to_operand_dims index_vector_dim to_apply | input_batching_dims scatter_indices_batching_dims indices_are_sorted unique_indices | scatter
1    | index | | get-tuple-element
1    | | infeed_config | infeed
2    | | outfeed_config outfeed_shape | outfeed
0    | iota_dimension | | iota
0+   | to_apply | dimensions | map
0+   | dimensions to_apply | | reduce
0+   | to_apply | window | reduce-window
0+   | dimensions to_apply num_carries | is_associative is_reverse | scan
0+   | dimensions to_apply | is_stable | sort
3    | select scatter | window | select-and-scatter
2    | padding | | pad
1    | | channel_id is_host_transfer | recv recv-done send-done
2    | | channel_id is_host_transfer | send
1    | exponent_bits mantissa_bits | | reduce-precision
0+   | distribution | | rng
1    | algorithm | | rng-bit-generator
0    | delta | | rng-get-and-update-state
1    | slice | | slice
1    | k | largest | topk
2    | | left_side lower unit_diagonal transpose_a | triangular-solve
1    | condition body | | while
0+   | custom_call_target | window dim_labels feature_group_count batch_group_count operand_precision operand_layout_constraints | custom-call
0+   | calls | async_execution_thread output_to_operand_aliasing | async-start
1    | | async_execution_thread calls | async-update async-done
"""

# The rest of a row that would be too long.
_MORE = {
    "custom-call": "custom_call_has_side_effect to_apply called_computations output_to_operand_aliasing schedule api_version "
    "padding_type literal",
}


def _operations() -> dict[str, Operation]:
    found: dict[str, Operation] = {}
    for row in _ROWS.strip().splitlines():
        count, required, optional, opcodes = (part.split() for part in row.split("|"))
        least = int(count[0].rstrip("+"))
        most = _ANY if count[0].endswith("+") else least
        for opcode in opcodes:
            allowed = COMMON.union(required, optional, _MORE.get(opcode, "").split())
            found[opcode] = Operation(least, most, tuple(required), allowed)
    return found


OPERATIONS = _operations()
"""The row of every opcode, by its name."""
