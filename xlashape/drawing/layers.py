"""A program as a picture for people: its layers as nested rows, in the order in which they run, with alike ones as one.

A layer is a scope of the names that the framework gives operations: `model/layers_0/attention`. Names of scopes come
from `op_name`, whose last part is the operation. Rows have the instructions, the FLOPs and the line of the program.
Layers beside each other are alike if their names differ in digits only and they have the same operations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html import escape
from typing import Any, Final, NamedTuple

from xlashape.base.display import printable
from xlashape.base.frozen import set_field
from xlashape.base.math import counted
from xlashape.base.tables import Column, ColumnKind
from xlashape.drawing.marks import colours
from xlashape.drawing.picture import AnswerPicture
from xlashape.drawing.writers.panels import CHARACTER
from xlashape.hlo import HloComputation, HloInstruction, HloModule, Opcode
from xlashape.limits import spend
from xlashape.reports.cost.program import costs_of
from xlashape.reports.text import cell_text, cut_middle

MOST_ROWS: Final = 60
"""The most rows. A program with more layers is shown to the depth that has no more rows."""
_DEEPEST: Final = 24
_MOST_CHARACTERS: Final = 2_000
"""How much of an op_name is read."""
_DIGITS: Final = re.compile(r"\d+")
_WITHOUT_SCOPE: Final = "(without scope)"
_FLOPS: Final = Column("flops", ColumnKind.NUMBER, "", "FLOPs")
# The widths of the columns in pixels, and the height of a row.
_NAMES, _OPERATIONS, _BARS, _LINES, _ROW, _LEFT = 400, 330, 130, 200, 20, 20
_WIDTH: Final = _LEFT * 2 + _NAMES + _OPERATIONS + _BARS + 80 + _LINES


class _Scope:
    """A scope of names, and what is in it."""

    def __init__(self) -> None:
        self.parts: dict[str, _Scope] = {}
        self.opcodes: Counter[str] = Counter()
        """The operations of the scope itself."""
        self.flops = 0
        self.is_complete = True
        """Whether all FLOPs are known. What is not known counts 0."""
        self.sources: Counter[str] = Counter()

    def everything(self) -> _Scope:
        """All of the scope and of the scopes in it, as one."""
        total = _Scope()
        for each in (self, *[part.everything() for part in self.parts.values()]):
            total.opcodes += each.opcodes
            total.flops += each.flops
            total.is_complete &= each.is_complete
            total.sources += each.sources
        return total

    def alike(self) -> Any:
        """What is equal for layers that are alike."""
        parts = [(_DIGITS.sub("#", name), part.alike()) for name, part in self.parts.items()]
        return frozenset(self.opcodes.items()), tuple(parts)


class LayerRow(NamedTuple):
    """A row of the picture: a layer, or several alike ones."""

    depth: int
    name: str
    times: int
    """How many alike layers it stands for."""
    instructions: int
    """The instructions of one of them that move or calculate something."""
    operations: str
    """The most frequent operations of one of them."""
    flops: int
    """The FLOPs of all of them in one run of the program; what is not known counts 0."""
    is_complete: bool
    """Whether all FLOPs are known."""
    source: str

    @property
    def flops_text(self) -> str:
        """The FLOPs as text, with `≥` where not all are known."""
        return f"{'' if self.is_complete else '≥'}{cell_text(_FLOPS, self.flops)}"


def layer_rows(module: HloModule) -> tuple[LayerRow, ...]:
    """The rows of the picture of a module."""
    root = _scopes(module)
    found: list[LayerRow] = []
    for depth in range(1, _DEEPEST):
        rows = list(_rows(root, 0, depth))
        if found and (len(rows) > MOST_ROWS or len(rows) == len(found)):
            break
        found = rows
    return tuple(found)


def _scopes(module: HloModule) -> _Scope:
    """The scopes of a module; the root has them as parts."""
    root = _Scope()
    costs = costs_of(module)
    for each in _in_order(module.entry):
        spend()
        opcode = str(each.opcode)
        if each.opcode == Opcode.PARAMETER or each.kind.row.moves_no_data:
            continue
        said = each.metadata
        names = _parts(said.op_name.partition(";")[0][:_MOST_CHARACTERS])[:-1]
        names = names or [_WITHOUT_SCOPE, said.source or opcode]
        scope = root
        for name in names[: _DEEPEST - 1]:
            scope = scope.parts.setdefault(name, _Scope())
        scope.opcodes[opcode] += 1
        known = costs.flops_of(each)
        scope.flops += known or 0
        scope.is_complete &= known is not None
        if said.source:
            scope.sources[said.source] += 1
    return root


def _parts(name: str) -> list[str]:
    """The parts of an op_name. A slash in parentheses ends none.

    >>> _parts("jit(f)/jvp(model/x)/add")
    ['jit(f)', 'jvp(model/x)', 'add']
    """
    found: list[str] = []
    opened = 0
    for part in name.split("/"):
        if opened > 0:
            found[-1] += f"/{part}"
        else:
            found.append(part)
        opened = max(0, opened + part.count("(") - part.count(")"))
    return found


def _in_order(entry: HloComputation) -> Iterator[HloInstruction]:
    """The instructions that a program executes or fuses, those that a computation calls where it is first called."""
    seen, stack = {entry}, [iter(entry.post_order())]
    while stack:
        for each in stack[-1]:
            yield each
            opens = each.kind.row.runs_called_instructions or str(each.opcode) == "fusion"
            called = [one for one in each.called_computations if opens and one not in seen]
            if called:
                seen.update(called)
                stack += [iter(one.post_order()) for one in reversed(called)]
                break
        else:
            stack.pop()


def _rows(scope: _Scope, depth: int, most: int) -> Iterator[LayerRow]:
    """The rows of the parts of a scope, to a depth of `most`."""
    groups: dict[Any, list[tuple[str, _Scope]]] = {}
    for name, part in scope.parts.items():
        groups.setdefault((_DIGITS.sub("#", name), part.alike()), []).append((name, part))
    for alike in groups.values():
        name, part = alike[0]
        while len(part.parts) == 1 and not part.opcodes:  # a scope that has one scope and nothing else
            inner, part = next(iter(part.parts.items()))
            name += f"/{inner}"
        if alike[1:]:
            name += f" … {alike[-1][0]}"
        whole = part.everything()
        frequent = ", ".join([f"{count} {opcode}" for opcode, count in whole.opcodes.most_common(4)])
        wholes = [each.everything() for _, each in alike]
        flops, is_complete = sum([each.flops for each in wholes]), all(each.is_complete for each in wholes)
        source = whole.sources.most_common(1)[0][0] if whole.sources else ""
        yield LayerRow(
            depth, printable(name), len(alike), whole.opcodes.total(), printable(frequent), flops, is_complete,
            printable(source),
        )  # fmt: skip
        if depth + 1 < most:
            yield from _rows(part, depth + 1, most)


class LayersPicture(AnswerPicture):
    """The picture of a module's layers. It is shown and saved like other pictures."""

    __slots__ = ("_name", "rows")
    _name: str
    rows: tuple[LayerRow, ...]
    """The rows, from the top."""

    def __init__(self, module: HloModule, theme: str = "auto") -> None:
        super().__init__(theme)
        set_field(self, "_name", module.name)
        set_field(self, "rows", layer_rows(module))

    @property
    def title(self) -> str:
        return printable(f"the layers of {self._name}")

    @property
    def facts(self) -> tuple[str, ...]:
        """What stands below the title."""
        top = [row for row in self.rows if not row.depth]
        count = sum([row.instructions * row.times for row in top])
        total = cell_text(_FLOPS, sum([row.flops for row in top]))
        return (
            f"{counted(count, 'instruction')} that move or calculate something, {total} FLOPs in one run",
            "Layers that are alike share a row: ×32 stands for 32 of them. The bar is the share of the FLOPs; "
            "≥ says that more are not known.",
        )

    def draw(self, theme: str, *, standalone: bool) -> str:
        top = 60 + 15 * len(self.facts)
        height = top + _ROW * len(self.rows) + 16
        parts = self.head("xsly", (_WIDTH, height), _LEFT, theme, _rules, standalone=standalone)
        operations = _LEFT + _NAMES
        bars = operations + _OPERATIONS
        numbers = bars + _BARS + 70
        headings = ((_LEFT, "layer"), (operations, "instructions"), (bars, "FLOPs"), (numbers + 12, "source"))
        parts += [f'<text class="u" x="{x}" y="{top - 8}">{heading}</text>' for x, heading in headings]
        total = sum([row.flops for row in self.rows if not row.depth]) or 1
        for number, row in enumerate(self.rows):
            y, inset = top + _ROW * number, 16 * row.depth
            times = f" ×{row.times}" if row.times > 1 else ""
            name = cut_middle(row.name, max(8, int((_NAMES - 30 - inset) / CHARACTER) - len(times))) + times
            inside = sum(1 for _ in self._within(number))
            said = cut_middle(f"{row.instructions:,}: {row.operations}", int((_OPERATIONS - 10) / CHARACTER))
            tip = f"{row.name}{times}\n{row.instructions:,} instructions: {row.operations}\n{row.source}"
            x, width = _LEFT + inset, _WIDTH - 2 * _LEFT - inset
            parts.append(
                f'<g><title>{escape(tip)}</title><rect class="b" x="{x}" y="{y}" width="{width}" '
                f'height="{_ROW * (inside + 1) - 2}" rx="3"/>'
                f'<text class="t" x="{x + 6}" y="{y + 13}">{escape(name)}</text>'
                f'<text class="u" x="{operations}" y="{y + 13}">{escape(said)}</text>'
                f'<rect class="k" x="{bars}" y="{y + 4}" width="{round(row.flops / total * _BARS, 2)}" height="10"/>'
                f'<text class="t e" x="{numbers}" y="{y + 13}">{row.flops_text}</text>'
                f'<text class="u" x="{numbers + 12}" y="{y + 13}">{escape(cut_middle(row.source, 28))}</text></g>'
            )
        return "".join(parts) + "</svg>"

    def _within(self, number: int) -> Iterator[LayerRow]:
        """The rows that are within a row."""
        for row in self.rows[number + 1 :]:
            if row.depth <= self.rows[number].depth:
                return
            yield row

    def text(self, color: str = "none", width: int = 100) -> str:
        """The rows as lines of `width` characters or fewer; `width` counts as 60 if it is less. `color` changes
        nothing."""
        del color  # rows have none
        width = max(60, min(width, 400))
        names = [f"{'  ' * row.depth}{row.name}" + (f" ×{row.times}" if row.times > 1 else "") for row in self.rows]
        room = min(max(map(len, names), default=0), width // 2)
        lines = [
            cut_middle(f"{cut_middle(name, room).ljust(room)}  {row.flops_text:>10}  {row.operations}", width)
            for name, row in zip(names, self.rows, strict=True)
        ]
        return "\n".join([self.title, self.facts[0], "", *lines]) + "\n"


def _rules(page: dict[str, str]) -> str:
    return (
        f".xsly .g{{fill:{page['ground']}}}.xsly .t{{fill:{page['text']}}}.xsly .u{{fill:{page['muted']}}}"
        f".xsly .e{{text-anchor:end}}.xsly .b{{fill:none;stroke:{page['rule']}}}"
        f".xsly .k{{fill:{colours.hex_of(23)}}}"
    )
