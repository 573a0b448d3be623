"""Where an instruction comes from: the values of the columns `source`, a line of the user's program, and `op_name`, an
operation of it.
"""

from __future__ import annotations

from xlashape.hlo import HloInstruction
from xlashape.hlo.ops.calls import Arguments


def source_of(instruction: HloInstruction) -> tuple[str, str]:
    """The line and the operation in an instruction's metadata, each empty where it is not known.

    For a fusion, a call or an async-start that lacks one of them, it is that of the last instruction of the called
    computation that has one: mostly the one nearest to the result.

    >>> from xlashape.hlo import HloModule
    >>> text = '''HloModule m
    ... f { p = f32[4] parameter(0)
    ...   t = f32[4] tanh(p), metadata={op_name="jit(f)/tanh" source_file="a.py" source_line=7}
    ...   ROOT n = f32[4] negate(t) }
    ... ENTRY e { p = f32[4] parameter(0) ROOT x = f32[4] fusion(p), kind=kLoop, calls=f }'''
    >>> source_of(HloModule.parse(text).entry.root)
    ('a.py:7', 'jit(f)/tanh')
    """
    source = op_name = ""
    if instruction.said_metadata is not None:
        metadata = instruction.metadata
        source, op_name = metadata.source, metadata.op_name
    called = instruction.called_computations
    if called and not (source and op_name) and instruction.kind.row.calls.arguments is Arguments.OPERANDS:
        for each in reversed(called[0].instructions):
            if each.said_metadata is not None:
                source, op_name = source or each.metadata.source, op_name or each.metadata.op_name
                if source and op_name:
                    break
    return source, op_name
