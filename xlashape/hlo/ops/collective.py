"""Table rows (`Operation`) of collectives, the operations by which replicas or partitions exchange data. Their rules
are in `collective_rules`.
"""

from __future__ import annotations

from typing import Final

from xlashape.hlo.ops import collective_rules as rules
from xlashape.hlo.ops import exchange as exchanges
from xlashape.hlo.ops.attributes import AttributeUse, CannotComplete, Written, optional, required, written_only
from xlashape.hlo.ops.calls import TO_APPLY, TO_APPLY_OR_CALLS
from xlashape.hlo.ops.exchange import ExchangeRule
from xlashape.hlo.ops.inference import exactly_one_dimension
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import Operation, ReadPattern, ResultSource, Same, Verify, at_least, exactly, rows
from xlashape.hlo.values import plain
from xlashape.hlo.values.attribute import FIELDS
from xlashape.hlo.values.enums import MODE
from xlashape.hlo.values.replica_groups import REPLICA_GROUPS, SOURCE_TARGET_PAIRS
from xlashape.hlo.values.window import PERMUTE_SLICE_SIZES


def _check_reduction(written: Written) -> None:
    if written.value("use_global_device_ids") and not written.has("channel_id"):
        raise CannotComplete("use_global_device_ids=true needs a channel_id")


def _check_permute(written: Written) -> None:
    count = len(written.operands)
    if written.has("slice_sizes") and count != 4:
        raise CannotComplete(f"with slice_sizes it needs 4 operands, found {count}")


def _dropped_dimension(written: Written, value: bytes | None) -> bytes:
    # XLA reads the attribute, and does not keep its value.
    exactly_one_dimension(written, value)
    return b""


# -- rows -----------------------------------------------------------------------------------

_ANY_COUNT = at_least(0)
_GROUPS = (optional(plain.CHANNEL_ID), optional(REPLICA_GROUPS, default=FIELDS.message("collective_device_list", b"")))
_GROUPS_AND_LAYOUT = (*_GROUPS, optional(plain.CONSTRAIN_LAYOUT))
_ALL_GATHER = (
    *_GROUPS_AND_LAYOUT,
    required(plain.DIMENSIONS, exactly_one_dimension),
    optional(plain.USE_GLOBAL_DEVICE_IDS),
)
_ALL_REDUCE = (*_GROUPS_AND_LAYOUT, optional(plain.USE_GLOBAL_DEVICE_IDS), optional(MODE))
_PERMUTE = (optional(plain.CHANNEL_ID), required(SOURCE_TARGET_PAIRS), optional(PERMUTE_SLICE_SIZES))


def _all_gather(
    opcode: Opcode, verify: Verify, repeated_operand: int | None = None, *, begins: bool = False
) -> Operation:
    return Operation(
        opcode,
        operands=_ANY_COUNT,
        attributes=_ALL_GATHER,
        verify=verify,
        exchange=exchanges.ALL_GATHER,
        repeated_operand=repeated_operand,
        begins_asynchronously=begins,
    )


def _all_reduce(opcode: Opcode, verify: Verify, *, begins: bool = False) -> Operation:
    return Operation(
        opcode,
        operands=_ANY_COUNT,
        attributes=_ALL_REDUCE,
        calls=TO_APPLY,
        check=_check_reduction,
        verify=verify,
        exchange=exchanges.ALL_REDUCE,
        reads=ReadPattern.ONE,
        begins_asynchronously=begins,
    )


def _collective_permute(
    opcode: Opcode, verify: Verify, repeated_operand: int | None = None, *, begins: bool = False
) -> Operation:
    return Operation(
        opcode,
        operands=_ANY_COUNT,
        attributes=_PERMUTE,
        check=_check_permute,
        verify=verify,
        exchange=exchanges.COLLECTIVE_PERMUTE,
        repeated_operand=repeated_operand,
        begins_asynchronously=begins,
        reads=ReadPattern.ONE,
        text_depends_on_operands=True,  # the list of slice sizes has an element for each dimension of the data
    )


def _groups_only(
    opcode: Opcode,
    exchange: ExchangeRule,
    *further: AttributeUse,
    arity: int | None = None,
    verify: Verify | None = None,
    one_precision: bool = False,
) -> Operation:
    return Operation(
        opcode,
        operands=_ANY_COUNT,
        arity=arity,
        attributes=(*_GROUPS, written_only(plain.CONSTRAIN_LAYOUT), *further),
        verify=verify,
        one_precision=one_precision,
        exchange=exchange,
    )


OPERATIONS: Final = (
    _all_gather(Opcode.ALL_GATHER, rules.check_all_gather),
    _all_gather(Opcode.ALL_GATHER_START, rules.check_all_gather_start, repeated_operand=0, begins=True),
    _all_reduce(Opcode.ALL_REDUCE, rules.check_all_reduce),
    _all_reduce(Opcode.ALL_REDUCE_START, rules.check_all_reduce, begins=True),
    Operation(
        Opcode.REDUCE_SCATTER,
        operands=_ANY_COUNT,
        attributes=(
            *_GROUPS_AND_LAYOUT,
            optional(plain.USE_GLOBAL_DEVICE_IDS),
            optional(MODE),
            required(plain.DIMENSIONS, exactly_one_dimension),
        ),
        calls=TO_APPLY_OR_CALLS,
        check=_check_reduction,
        verify=rules.check_reduce_scatter,
        one_precision=True,
        exchange=exchanges.REDUCE_SCATTER,
    ),
    Operation(
        Opcode.ALL_TO_ALL,
        operands=_ANY_COUNT,
        attributes=(*_GROUPS_AND_LAYOUT, optional(plain.DIMENSIONS_IF_ANY, exactly_one_dimension)),
        verify=rules.check_all_to_all,
        exchange=exchanges.ALL_TO_ALL,
    ),
    _groups_only(
        Opcode.RAGGED_ALL_TO_ALL,
        exchanges.RAGGED_ALL_TO_ALL,
        optional(plain.DIMENSIONS_READ_ONLY, _dropped_dimension),
        arity=6,
        verify=rules.check_ragged,
        one_precision=True,
    ),
    _groups_only(
        Opcode.COLLECTIVE_BROADCAST,
        exchanges.COLLECTIVE_BROADCAST,
        optional(plain.HAS_DYNAMIC_ROOT),
        verify=rules.check_broadcast,
        one_precision=True,
    ),
    Operation(
        Opcode.COLLECTIVE_REDUCE,
        operands=_ANY_COUNT,
        attributes=(*_GROUPS_AND_LAYOUT, optional(plain.USE_GLOBAL_DEVICE_IDS), optional(plain.HAS_DYNAMIC_ROOT)),
        calls=TO_APPLY,
        verify=rules.check_collective_reduce,
        one_precision=True,
        exchange=exchanges.COLLECTIVE_REDUCE,
    ),
    _collective_permute(Opcode.COLLECTIVE_PERMUTE, rules.check_permute),
    _collective_permute(Opcode.COLLECTIVE_PERMUTE_START, rules.check_permute_start, repeated_operand=0, begins=True),
    *rows(
        (Opcode.ALL_GATHER_DONE, Opcode.COLLECTIVE_PERMUTE_DONE),
        operands=exactly(1),
        verify=rules.check_second_element,
        source=ResultSource.OPERAND,
        same=Same((), (1,)),
        ends_a_start=True,
    ),
    Operation(
        Opcode.ALL_REDUCE_DONE,
        operands=exactly(1),
        verify=rules.check_first_operand,
        source=ResultSource.OPERAND,
        ends_a_start=True,
    ),
)
