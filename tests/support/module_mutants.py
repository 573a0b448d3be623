"""HLO texts with a few random changes, most of which break one rule: mutants, for tests of readers and verifiers.

`Mutator` chooses an opcode at random, then a text with an instruction of that opcode, and changes this instruction or
its surroundings. So rare opcodes are changed as often as common ones.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple


class Mutant(NamedTuple):
    """A changed text, and the names of the changes, joined by `+`."""

    kind: str
    text: str


# -- mutations ------------------------------------------------------------------------------

_LINE = re.compile(r"^ *(?:ROOT )?%?([\w.-]+) = .*\)", re.MULTILINE)
_SHAPE = re.compile(r"\b(?:[a-z]+\d+\w*|pred|token)\[[\d,<=?]*\](?:\{[\d,]*(?::[\w(),*]+)?\})?")
_TYPES = ("pred", "s4", "s8", "s32", "u8", "u32", "u64", "s64", "bf16", "f16", "f32", "f64", "c64", "f8e4m3fn", "token")
_ATTRIBUTE = re.compile(r", ([a-z_-]+)=")
_INSTRUCTION = re.compile(
    r"^ +(?P<root>ROOT )?%?(?P<name>[\w.-]+) = (?P<shape>\S+(?:, \S+)*) (?P<opcode>[a-z][a-z0-9-]*)"
    r"\((?P<operands>[^\n()]*)\)(?P<attributes>[^\n]*)$",
    re.MULTILINE,
)
_COMPUTATION = re.compile(r"^(?!HloModule)%?[\w.-]+ (?:\([^\n]*)?\{\n.*?^\}", re.MULTILINE | re.DOTALL)
_COMPUTATION_NAME = re.compile(r"^(?!HloModule)%?([\w.-]+) [^\n=]*\{$", re.MULTILINE)
_SHAPES = ("f32[]", "s32[]", "f32[4]", "f32[2,4]", "token[]", "()", "pred[]", "(f32[4])", "u32[2]", "f32[<=4]")
_FURTHER_VALUES = {
    "window": (
        "{size=2}",
        "{size=2 stride=2}",
        "{size=1x2 pad=0_0x1_1}",
        "{size=2x2 stride=1x2}",
        "{size=3x3 pad=1_1x1_1}",
        "{size=3x3 pad=1_1x1_1 lhs_dilate=2x2}",
        "{size=3x3 rhs_dilate=2x1}",
        "{size=2x2 rhs_reversal=1x0}",
        "{size=0x1}",
        "{size=1x1x1}",
        "{}",
    ),
    "dim_labels": ("b01f_01io->b01f", "bf01_oi01->bf01", "b0f_0io->b0f", "f01b_i01o->01bf", "bf_io->bf"),
    "padding": ("0_0", "1_1", "0_0_1", "1_0x0_1", "-1_-1x0_0", "0_0_-1x0_0", "0_0x0_0x0_0"),
    "slice": ("{[0:2]}", "{[0:4:2]}", "{[2:1]}", "{[0:2], [0:2]}", "{[0:1], [1:2:2]}", "{[0:0]}"),
    "replica_groups": (
        "{}",
        "{{0}}",
        "{{0,1}}",
        "{{0,1},{2,3}}",
        "{{0},{1}}",
        "{{0,2},{1,3}}",
        "{{0,1,2,3}}",
        "{{1,0}}",
        "{{0,0}}",
        "{{0},{1,2}}",
        "[1,2]<=[2]",
        "[2,2]<=[4]",
        "[2,2]<=[2,2]T(1,0)",
    ),
    "source_target_pairs": ("{}", "{{0,1}}", "{{0,1},{1,0}}", "{{0,1},{0,2}}", "{{0,1},{2,1}}", "{{0,4}}", "{{0,-1}}"),
    "channel_id": ("0", "1", "2", "-1"),
    "feature_group_count": ("0", "1", "2", "3", "-1"),
    "batch_group_count": ("0", "1", "2", "3", "-1"),
    "convolution_kind": ("fprop", "dgrad", "wgrad", "unset"),
    "fft_length": ("{}", "{4}", "{4,4}", "{2,4}", "{1}", "{0}", "{2,2,2,2}"),
    "fft_type": ("FFT", "IFFT", "RFFT", "IRFFT"),
    "exponent_bits": ("0", "1", "5", "8", "11", "-1"),
    "mantissa_bits": ("0", "1", "10", "23", "-1"),
    "transpose_a": ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
    "direction": ("EQ", "NE", "GE", "GT", "LE", "LT"),
    "type": ("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"),
    "order": ("TOTAL", "PARTIAL"),
    "distribution": ("rng_uniform", "rng_normal", "rng_bernoulli"),
    "algorithm": ("rng_default", "rng_three_fry", "rng_philox", "dot_bf16_bf16_f32"),
    "kind": ("kLoop", "kInput", "kOutput", "kCustom"),
    "num_carries": ("0", "1", "2", "3", "-1"),
    "k": ("0", "1", "2", "5", "-1"),
    "output_to_operand_aliasing": (
        "{{}: (0, {})}",
        "{{0}: (0, {})}",
        "{{}: (1, {})}",
        "{{}: (0, {0})}",
        "{{0}: (0, {}), {1}: (1, {})}",
        "{{}: (0, {}), {}: (0, {})}",
    ),
    "frontend_attributes": (
        '{composite.name="n",composite.attributes="{}",composite.version="1"}',
        '{composite.name="n",composite.attributes=""}',
        '{composite.name=""}',
        '{_xla_send_recv_source_target_pairs="{{0,1},{1,0}}"}',
        '{_xla_send_recv_source_target_pairs="{{0,1}}"}',
    ),
    "sparsity_config": ("{lhs={idx=2}}", "{rhs={idx=3}}", "{lhs={dimension=1}}", "{}"),
    "block_scaling_config": ("{lhs={scale_idx=2}}", "{lhs={scale_idx=2 zero_idx=3}}", "{rhs={zero_idx=2}}"),
    "custom_call_target": (
        '"Pin"',
        '"Unpin"',
        '"CreateBuffer"',
        '"LayoutConstraint"',
        '"control_dep"',
        '"GetRngSeed"',
        '"Sharding"',
        '"TopK"',
        '"SliceToDynamic"',
        '"PadToStatic"',
        '"MoveToHost"',
        '"MoveToDevice"',
        '"AllocateBuffer"',
        '"annotate_device_placement"',
    ),
    "result_accuracy": ("{tolerance={atol=0,rtol=0,ulps=1}}", "{mode=default}", "{mode=highest}"),
}
"""Attribute → values to try in addition to those in the texts."""
_OPCODE = re.compile(r"(?<= )([a-z][a-z-]*)(?=\()")
_COMPUTATIONS = frozenset(
    ("body", "calls", "condition", "scatter", "select", "to_apply", "true_computation", "false_computation")
)
"""Attributes that name one computation."""
_LAYOUTS = (
    "{0}",
    "{1,0}",
    "{0,1}",
    "{0:S(1)}",
    "{1,0:S(5)}",
    "{0:T(128)}",
    "{1,0:T(8,128)}",
    "{0:E(4)}",
    "{0:#(u8)}",
    "",
)


class Mutator:
    """Makes mutants of the texts of a corpus."""

    def __init__(self, texts: Sequence[str], seed: int) -> None:
        self._random = random.Random(seed)
        self._focus = re.compile("")
        values: dict[str, set[str]] = defaultdict(set, {name: set(each) for name, each in _FURTHER_VALUES.items()})
        texts_of: dict[str, list[str]] = defaultdict(list)
        lines_of: dict[str, set[str]] = defaultdict(set)
        for text in texts:
            for name, value in _attributes(text):
                if len(value) < 200:
                    values[name].add(value)
            for opcode in sorted(set(_OPCODE.findall(text))):
                texts_of[opcode].append(text)
            for found in _INSTRUCTION.finditer(text):
                lines_of[found["opcode"]].add(found["attributes"])
        self._texts = texts_of
        self._opcodes = sorted(texts_of)
        self._values = {name: sorted(each) for name, each in sorted(values.items())}
        self._attributes_of = {opcode: sorted(each) for opcode, each in lines_of.items()}
        self._computations = [found[0] for text in texts for found in _COMPUTATION.finditer(text)]
        self._kinds: dict[str, Callable[[str], str | None]] = {
            name[1:]: getattr(self, name)
            for name in dir(self)
            if re.match(r"_(change|drop|add|swap|repeat|move|wrap|insert)_", name)
        }

    def __iter__(self) -> Iterator[Mutant]:
        """Makes mutants, without end."""
        names = sorted(self._kinds)
        while True:
            opcode = self._random.choice(self._opcodes)
            text = self._random.choice(self._texts[opcode])
            self._focus = re.compile(rf"^.* {re.escape(opcode)}\(.*$", re.MULTILINE)
            kinds = [self._random.choice(names) for _ in range(self._random.choice((1, 1, 1, 2, 2, 3)))]
            mutant: str | None = text
            for kind in kinds:
                mutant = None if mutant is None else self._kinds[kind](mutant)
            if mutant is not None and mutant != text:
                yield Mutant("+".join(kinds), mutant)

    def _one(self, pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
        """A random match; three times of four, if possible, it is in an instruction of the chosen opcode."""
        found = list(pattern.finditer(text))
        if self._random.randrange(4):
            lines = [line.span() for line in self._focus.finditer(text)]
            found = [each for each in found if any(begin <= each.start() < end for begin, end in lines)] or found
        return self._random.choice(found) if found else None

    def _changed(self, text: str, pattern: re.Pattern[str], new: Callable[[re.Match[str]], str]) -> str | None:
        found = self._one(pattern, text)
        return None if found is None else text[: found.start()] + new(found) + text[found.end() :]

    def _change_number(self, text: str) -> str | None:
        def near(found: re.Match[str]) -> str:
            number = int(found[0])
            near = (number + 1, max(0, number - 1), 2 * number, number // 2, -number or -1)
            return str(self._random.choice((0, 1, 2, 3, 4, 5, 8, -1, 2**31, *near)))

        return self._changed(text, re.compile(r"(?<![\w.])-?\d{1,9}(?![\w.])"), near)

    def _change_window_number(self, text: str) -> str | None:
        """Changes a number of a window or of paddings, such as the 3 of size=3x2."""
        pattern = re.compile(r"(?<=[=x_])-?\d+(?=[x_} ,\n]|$)", re.MULTILINE)
        return self._changed(text, pattern, lambda _: str(self._random.choice((0, 1, 2, 3, 4, 5, 7, -1, -2))))

    def _drop_window_part(self, text: str) -> str | None:
        return self._changed(
            text, re.compile(r" (?:stride|pad|lhs_dilate|rhs_dilate|rhs_reversal)=[\dx_-]+"), lambda _: ""
        )

    def _swap_labels(self, text: str) -> str | None:
        def swapped(found: re.Match[str]) -> str:
            labels = list(found[0])
            i, j = self._random.randrange(len(labels)), self._random.randrange(len(labels))
            labels[i], labels[j] = labels[j], labels[i]
            return "".join(labels)

        return self._changed(text, re.compile(r"(?<=dim_labels=)\w+->\w+"), swapped)

    def _change_list(self, text: str) -> str | None:
        """Changes a list of numbers: removes, adds or repeats a number, or changes their order."""

        def changed(found: re.Match[str]) -> str:
            items = found[0].split(",")
            at, kind = self._random.randrange(len(items)), self._random.randrange(5)
            if kind == 0:
                del items[at]
            elif kind == 1:
                items.insert(at, items[self._random.randrange(len(items))])
            elif kind == 2:
                items.insert(at, str(self._random.choice((0, 1, 2, 3, -1))))
            elif kind == 3:
                items[at] = items[self._random.randrange(len(items))]
            else:
                self._random.shuffle(items)
            return ",".join(items)

        return self._changed(text, re.compile(r"(?<=[{\[])-?\d+(?:,-?\d+)*(?=[}\]])"), changed)

    def _change_type_everywhere(self, text: str) -> str | None:
        found = self._one(re.compile(r"\b(?:[a-z]+\d+\w*|pred)(?=\[)"), text)
        return None if found is None else re.sub(rf"\b{found[0]}(?=\[)", self._random.choice(_TYPES), text)

    def _change_size_everywhere(self, text: str) -> str | None:
        found = self._one(re.compile(r"(?<=[\[,])\d+(?=[\],])"), text)
        if found is None:
            return None
        new = self._random.choice(("0", "1", "2", "3", "5", "6", "8", "<=4", "?"))
        return re.sub(rf"(?<=[\[,]){found[0]}(?=[\],])", new, text)

    def _change_shape_everywhere(self, text: str) -> str | None:
        found = self._one(_SHAPE, text)
        if found is None:
            return None
        new = self._random.choice([*_SHAPE.findall(text), *_SHAPES, f"b({found[0]})", f"({found[0]}, s32[])"])
        return text.replace(found[0], new)

    def _change_attributes(self, text: str) -> str | None:
        """Replaces all attributes of an instruction by those of another instruction of its opcode."""
        return self._changed(
            text,
            _INSTRUCTION,
            lambda found: (
                found[0][: found.start("attributes") - found.start()]
                + self._named(self._random.choice(self._attributes_of.get(found["opcode"], [""])), text)
            ),
        )

    def _named(self, attributes: str, text: str) -> str:
        """The attributes, with each named computation replaced by a computation of the text."""
        names = _COMPUTATION_NAME.findall(text) or ["c"]
        pattern = re.compile(rf"(?<=\b)({'|'.join(sorted(_COMPUTATIONS))})=%?[\w.-]+")
        return pattern.sub(lambda found: f"{found[1]}={self._random.choice(names)}", attributes)

    def _change_caller(self, text: str) -> str | None:
        """Changes how a computation is called."""
        forms = (
            "call({0}), to_apply={1}",
            "fusion({0}), kind=kLoop, calls={1}",
            'custom-call({0}), custom_call_target="f", called_computations={{{1}}}',
            "map({0}), to_apply={1}",
            "while({0}), condition={2}, body={1}",
            "while({0}), condition={1}, body={2}",
            "conditional({0}), true_computation={1}, false_computation={2}",
            "conditional({0}), branch_computations={{{1}, {2}}}",
            "conditional({0}), branch_computations={{{1}}}",
            "reduce({0}), dimensions={{0}}, to_apply={1}",
            "sort({0}), dimensions={{0}}, to_apply={1}",
            "all-reduce({0}), replica_groups={{}}, to_apply={1}",
            "reduce-scatter({0}), replica_groups={{}}, dimensions={{0}}, to_apply={1}",
            "scan({0}), dimensions={{0}}, num_carries=1, to_apply={1}",
            "async-start({0}), calls={1}",
            'call({0}), to_apply={1}, is_composite=true, frontend_attributes={{composite.name="n"}}',
        )
        names = _COMPUTATION_NAME.findall(text)
        if not names:
            return None
        pattern = re.compile(r"(?<= )[a-z-]+\((%?[\w.,% -]*)\), [^\n]*?=\{?(%?[\w.-]+)[^\n]*")
        form = self._random.choice(forms)

        def called(found: re.Match[str]) -> str:
            first = found[2] if found[2].lstrip("%") in {name.lstrip("%") for name in names} else names[0]
            return form.format(found[1], first, self._random.choice(names))

        return self._changed(text, pattern, called)

    def _add_computation(self, text: str) -> str | None:
        """Adds a computation of another text, and makes an instruction call it in place of its own."""
        added = self._random.choice(self._computations)
        name = f"added{self._random.randrange(1000)}"
        added = re.sub(r"^(?:ENTRY )?%?[\w.-]+", name, added, count=1)
        used = self._changed(
            text,
            re.compile(rf"(?<=\b)({'|'.join(sorted(_COMPUTATIONS))})=%?[\w.-]+"),
            lambda found: f"{found[1]}={name}",
        )
        begin = re.search(r"^(?:ENTRY )?%?[\w.-]+ .*\{$", used or "", re.MULTILINE)
        return None if used is None or begin is None else used[: begin.start()] + added + "\n\n" + used[begin.start() :]

    def _insert_instruction(self, text: str) -> str | None:
        """Inserts an instruction between an instruction and a user of it."""
        number = self._random.randrange(1000)
        forms = (
            "copy({0})",
            "opt-barrier({0})",
            "bitcast({0})",
            "convert({0})",
            'custom-call({0}), custom_call_target="f"',
            'custom-call({0}), custom_call_target="Pin", output_to_operand_aliasing={{{{}}: (0, {{}})}}',
            'custom-call({0}), custom_call_target="Unpin", output_to_operand_aliasing={{{{}}: (0, {{}})}}',
            "tuple({0}, {0})",
            'domain({0}), domain={{kind="sharding", entry={{}}, exit={{}}}}',
            "negate({0})",
            "after-all({0})",
        )
        lines = list(_INSTRUCTION.finditer(text))
        if not lines:
            return None
        line = self._one(_INSTRUCTION, text) or lines[0]
        shape, name = line["shape"], line["name"]
        end = text.find("\n}", line.start())
        after = re.sub(rf"(?<=[(, %]){re.escape(name)}(?=[,)])", f"new{number}", text[line.end() : end], count=1)
        form = self._random.choice(forms)
        if form.startswith("tuple") and self._random.randrange(2):
            first = f"\n  t{number} = ({shape}, {shape}) {form.format(name)}"
            new = first + f"\n  new{number} = {shape} get-tuple-element(t{number}), index={self._random.randrange(3)}"
        else:
            result = {"tuple": f"({shape}, {shape})", "after": "token[]"}.get(form[:5], shape)
            result = f"b({shape})" if '"Pin"' in form else result
            result = re.sub(r"^b\((.*)\)$", r"\1", shape) if '"Unpin"' in form else result
            new = f"\n  new{number} = {result} {form.format(name)}"
        return text[: line.end()] + new + after + text[end:]

    def _wrap_asynchronously(self, text: str) -> str | None:
        """Turns an instruction into an asynchronous start and end, with or without an update."""
        shapes = {found["name"]: found["shape"] for found in _INSTRUCTION.finditer(text)}

        def wrapped(found: re.Match[str]) -> str:
            operands = [shapes.get(each.strip().lstrip("%"), "f32[]") for each in found["operands"].split(",") if each]
            name, opcode = found["name"], found["opcode"]
            state = f"(({', '.join(operands)}), {found['shape']}, u32[])"
            new = f"  {name}-s = {state} {opcode}-start({found['operands']}){found['attributes']}\n"
            last = f"{name}-s"
            if self._random.randrange(2):
                new += f"  {name}-u = {state} {opcode}-update({last})\n"
                last = f"{name}-u"
            return new + f"  {found['root']}{name} = {found['shape']} {opcode}-done({last})"

        return self._changed(text, _INSTRUCTION, wrapped)

    def _add_entry_layout(self, text: str) -> str | None:
        """Adds the layout of the entry computation to the header, with one shape changed."""
        entry = re.search(r"^ENTRY .*?^\}", text, re.MULTILINE | re.DOTALL)
        if entry is None or "entry_computation_layout" in text:
            return None
        lines = list(_INSTRUCTION.finditer(entry[0]))
        parameters = [found for found in lines if found["opcode"] == "parameter"]
        parameters.sort(key=lambda found: found["operands"])
        roots = [found["shape"] for found in lines if found["root"]] or [found["shape"] for found in lines[-1:]]
        shapes = [*(found["shape"] for found in parameters), *roots]
        if not shapes:
            return None
        at = self._random.randrange(len(shapes))
        shapes[at] = self._random.choice(
            (
                shapes[at],
                re.sub(r"(?<=\])(\{.*?\})?$", self._random.choice(_LAYOUTS), shapes[at]),
                *shapes,
                *_SHAPES[:2],
            )
        )
        layout = f", entry_computation_layout={{({', '.join(shapes[:-1])})->{shapes[-1]}}}"
        return re.sub(r"^HloModule [\w.-]+", lambda found: found[0] + layout, text, count=1, flags=re.MULTILINE)

    def _change_type(self, text: str) -> str | None:
        return self._changed(text, re.compile(r"\b(?:[a-z]+\d+\w*|pred)(?=\[)"), lambda _: self._random.choice(_TYPES))

    def _change_shape(self, text: str) -> str | None:
        shapes = _SHAPE.findall(text) or ["f32[]"]
        return self._changed(text, _SHAPE, lambda _: self._random.choice(shapes))

    def _change_layout(self, text: str) -> str | None:
        pattern = re.compile(r"(?<=\])(\{[\d,]*(?::[\w(),*]+)?\})?(?= |,|\))")
        return self._changed(text, pattern, lambda _: self._random.choice(_LAYOUTS))

    def _change_dimensions(self, text: str) -> str | None:
        dims = ("", "1", "2", "4", "2,3", "<=4", "4,4", "?")
        return self._changed(text, re.compile(r"(?<=[a-z\d]\[)[\d,]*(?=\])"), lambda _: self._random.choice(dims))

    def _change_opcode(self, text: str) -> str | None:
        return self._changed(text, _OPCODE, lambda _: self._random.choice(self._opcodes))

    def _operands(self, text: str) -> re.Match[str] | None:
        return self._one(re.compile(r"(?<= [a-z])([a-z-]*\()((?:%?[\w.-]+(?:, ?)?)+)(?=\))"), text)

    def _change_operand(self, text: str) -> str | None:
        found, names = self._operands(text), _LINE.findall(text)
        if found is None or not names:
            return None
        operands = found[2].split(",")
        operands[self._random.randrange(len(operands))] = self._random.choice(names)
        return text[: found.start(2)] + ",".join(operands) + text[found.end(2) :]

    def _drop_operand(self, text: str) -> str | None:
        found = self._operands(text)
        if found is None:
            return None
        operands = found[2].split(",")
        del operands[self._random.randrange(len(operands))]
        return text[: found.start(2)] + ",".join(operands) + text[found.end(2) :]

    def _repeat_operand(self, text: str) -> str | None:
        found = self._operands(text)
        if found is None:
            return None
        operands = found[2].split(",")
        operands.insert(self._random.randrange(len(operands)), self._random.choice(operands))
        return text[: found.start(2)] + ",".join(operands) + text[found.end(2) :]

    def _swap_operands(self, text: str) -> str | None:
        found = self._operands(text)
        if found is None:
            return None
        operands = found[2].split(",")
        self._random.shuffle(operands)
        return text[: found.start(2)] + ",".join(operands) + text[found.end(2) :]

    def _drop_attribute(self, text: str) -> str | None:
        spans = list(_attribute_spans(text))
        if not spans:
            return None
        start, _, end = self._random.choice(spans)
        return text[:start] + text[end:]

    def _change_attribute(self, text: str) -> str | None:
        spans = [span for span in _attribute_spans(text) if _name_of(text, span) in self._values]
        if not spans:
            return None
        span = self._random.choice(spans)
        values = self._values[_name_of(text, span)]
        if "%" in "".join(values) or _name_of(text, span) in _COMPUTATIONS:
            values = re.findall(r"^(?:ENTRY )?(%?[\w.-]+) .*\{$", text, re.MULTILINE) or values
        return text[: span[1]] + self._random.choice(values) + text[span[2] :]

    def _add_attribute(self, text: str) -> str | None:
        name = self._random.choice(sorted(self._values))
        return self._changed(text, _LINE, lambda found: f"{found[0]}, {name}={self._random.choice(self._values[name])}")

    def _add_common_attribute(self, text: str) -> str | None:
        names = _LINE.findall(text) or ["p"]
        sharding = self._random.choice(
            [each for each in self._values.get("sharding", ()) if len(each) < 60] or ["{manual}"]
        )
        added = self._random.choice(
            (
                f"control-predecessors={{{self._random.choice(names)}}}",
                f"sharding={sharding}",
                "sharding={"
                + self._random.choice(("replicated", "maximal device=1", "devices=[2]<=[2]", "manual"))
                + "}",
                f'async_execution_thread="{self._random.choice(("a", "main", "b"))}"',
                "channel_id=1",
                "is_host_transfer=true",
                "output_to_operand_aliasing={{}: (0, {})}",
                'frontend_attributes={_xla_stream_annotation="1"}',
                'frontend_attributes={_collectives_group=""}',
                'frontend_attributes={composite.name="n",composite.version="-1"}',
                'frontend_attributes={xla_skip_custom_call_alias_shape_check="true"}',
                "result_accuracy={mode=highest}",
                "parameter_replication={true}",
                'origin={{"a"}}',
                'origin={({"a"}, {"b" {0}})}',
                "execution_thread=x",
                "operand_layout_constraints={f32[4]{0}}",
                'backend_config={"a":1}',
            )
        )
        return self._changed(text, re.compile(r"^ +.*\w+ = .*$", re.MULTILINE), lambda found: f"{found[0]}, {added}")

    def _add_thread(self, text: str) -> str | None:
        return self._changed(
            text, re.compile(r"^\}", re.MULTILINE), lambda _: f'}}, execution_thread="{self._random.choice("ab")}"'
        )

    def _add_header(self, text: str) -> str | None:
        added = self._random.choice(
            (
                "replica_count=2",
                "num_partitions=2",
                "is_scheduled=true",
                "input_output_alias={ {}: (0, {}, may-alias) }",
                "input_output_alias={ {0}: (0, {}, must-alias), {1}: (0, {}) }",
                "buffer_donor={ (0, {}) }",
                "buffer_donor={ (0, {0}), (1, {}) }",
                "input_output_alias={ {}: (0, {}, must-alias) }",
                "input_output_alias={ {0}: (0, {}, must-alias), {1}: (1, {}, must-alias) }",
                "input_output_alias={ {0}: (0, {0}, may-alias) }",
                "replica_count=4, num_partitions=2",
                "num_partitions=4",
                "replica_count=8",
                "entry_computation_layout={(f32[4]{0})->f32[4]{0}}",
            )
        )
        return self._changed(
            text, re.compile(r"^HloModule [\w.-]+", re.MULTILINE), lambda found: f"{found[0]}, {added}"
        )

    def _drop_line(self, text: str) -> str | None:
        return self._changed(text, re.compile(r"^  .* = .*\n", re.MULTILINE), lambda _: "")

    def _repeat_line(self, text: str) -> str | None:
        number = self._random.randrange(1000)
        pattern = re.compile(r"^(  )(?:ROOT )?(%?[\w.-]+)( = .*\n)", re.MULTILINE)
        return self._changed(text, pattern, lambda found: f"{found[0]}{found[1]}{found[2]}.{number}{found[3]}")

    def _swap_lines(self, text: str) -> str | None:
        pattern = re.compile(r"^(  .* = .*\n)(  .* = .*\n)", re.MULTILINE)
        return self._changed(text, pattern, lambda found: found[2] + found[1])

    def _move_root(self, text: str) -> str | None:
        found = self._one(re.compile(r"^  (?=%?[\w.-]+ = )", re.MULTILINE), text)
        if found is None:
            return None
        begin = text.rfind("{\n", 0, found.start())
        end = text.find("\n}", found.start())
        if begin < 0 or end < 0:
            return None
        body = text[begin : found.end()].replace("ROOT ", "") + "ROOT " + text[found.end() : end].replace("ROOT ", "")
        return text[:begin] + body + text[end:]

    def _drop_tuple(self, text: str) -> str | None:
        return self._changed(
            text,
            re.compile(r"\(([^()=%]*\[[^()=%]*), ?([^(),=%]*\[[^()=%,]*\][^()=%,]*)\)"),
            lambda found: f"({found[1]})",
        )

    def _add_tuple(self, text: str) -> str | None:
        return self._changed(
            text,
            _SHAPE,
            lambda found: self._random.choice((f"({found[0]})", f"{found[0]}, {found[0]}", f"b({found[0]})")),
        )


def _attribute_spans(text: str) -> Iterator[tuple[int, int, int]]:
    """For each attribute, the offsets where it begins, where its value begins, and where its value ends."""
    for found in _ATTRIBUTE.finditer(text):
        depth, at, quoted = 0, found.end(), False
        while at < len(text):
            character = text[at]
            if quoted:
                at += character == "\\"
                quoted = character != '"'
            elif character == '"':
                quoted = True
            elif character in "{[(":
                depth += 1
            elif character in "}])":
                if not depth:
                    break
                depth -= 1
            elif not depth and character in ",\n ":
                break
            at += 1
        yield found.start(), found.end(), at


def _name_of(text: str, span: tuple[int, int, int]) -> str:
    return text[span[0] + 2 : span[1] - 1]


def _attributes(text: str) -> Iterator[tuple[str, str]]:
    for span in _attribute_spans(text):
        yield _name_of(text, span), text[span[1] : span[2]]
