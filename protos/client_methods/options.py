"""The options of the clients: a row for each, with its name, type, default and meaning.

Options that are times or numbers mean the same in all languages. The code for them is written from the rows in Go,
Java, Rust and TypeScript, and by hand in C++ and Python, where each takes a line. All other options have a type of
their own in each language, and their code is written by hand. The table in docs/clients.md has all options.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field

from client_methods.emitter import GENERATOR, camel, pascal

LANGUAGES = {
    "python": "Python",
    "go": "Go",
    "rust": "Rust",
    "java": "Java",
    "cpp": "C++",
    "typescript": "TypeScript",
}
_COLUMNS = 120


@dataclass(frozen=True)
class Time:
    """The kind of an option that is a time. None stands for no bound."""

    default_seconds: int | None
    shown: str
    """The default in words."""


@dataclass(frozen=True)
class Number:
    """The kind of an option that is an integer between two bounds, both included. None: there is no upper bound."""

    default: int
    least: int
    most: int | None
    shown: str
    """The default in words."""

    @property
    def literal(self) -> str:
        """The default in code."""
        return f"{self.default >> 20} << 20" if self.default >= 1 << 20 else str(self.default)

    @property
    def expected(self) -> str:
        """The values that are allowed, in words for error messages."""
        return f"{self.least} or more" if self.most is None else f"a number from {self.least} to {self.most}"


@dataclass(frozen=True)
class Option:
    """An option of all clients."""

    name: str
    """The name in snake_case. The names in the languages follow from it unless `names` has another one."""
    subject: str
    """The subject of the option, in the words of the table in docs/clients.md."""
    kind: Time | Number | None = None
    """None: each language has a type of its own for the option, whose code is written by hand."""
    meaning: str = ""
    """Of a time or a number: the comment that says what it sets. In the comment `{unit}` stands for the unit in which
    the language counts times, `{none}` for the language's value for no bound, and `{default}` for the default.
    """
    names: dict[str, str] = field(default_factory=dict[str, str])
    """Language → the option's name there, where it does not follow from `name`. Empty: the language lacks it."""

    def named(self, language: str) -> str:
        """The option's name in a language; empty if the language has no such option."""
        is_of_milliseconds = isinstance(self.kind, Time) and language == "typescript"
        usual = {
            "go": f"With{pascal(self.name)}",
            "java": camel(self.name),
            "typescript": camel(self.name) + ("Ms" if is_of_milliseconds else ""),
        }
        return self.names.get(language, usual.get(language, self.name))


OPTIONS = [
    Option(
        "address",
        "several servers",
        names={"go": "WithAddresses", "java": "addAddress", "cpp": "addresses"},
    ),
    Option("tls", "TLS", names={"python": "root_certificates", "go": "WithTLS"}),
    Option("token", "token"),
    Option("token_source", "token that changes", names={"python": "token", "typescript": "token"}),
    Option(
        "timeout",
        "time of a call",
        Time(60, "a minute"),
        "How long a call without a stream may take{unit}, with all its attempts. The default is {default}; {none} "
        "stands for no bound.",
    ),
    Option(
        "stream_timeout",
        "time of a stream",
        Time(None, "no bound"),
        "How long a call with a stream may take{unit}. The default is {none}, no bound: a slow reader is not cut off.",
    ),
    Option(
        "attempts",
        "attempts",
        Number(4, 1, 5, "4"),
        "How often a call is sent in all while the server is unavailable, from 1 to 5, with growing, random pauses. "
        "The default is {default}. Calls with a stream, and those that a second one would change, are sent once.",
    ),
    Option(
        "keepalive",
        "keepalive",
        Time(None, "never"),
        "How long a call may be silent{unit}, at least ten seconds, before the server is asked for a sign of life. "
        "Without one within 20 seconds calls end as UNAVAILABLE. The default is {none}: the server is never asked.",
    ),
    Option(
        "max_answer",
        "bytes of an answer",
        Number(64 << 20, 1, None, "64 MiB"),
        "How many bytes one message from the server may have. The default is {default}.",
        names={"python": "", "java": "maxAnswerBytes", "cpp": "max_answer_bytes", "typescript": "maxAnswerBytes"},
    ),
    Option(
        "interceptors",
        "interceptors",
        names={"go": "WithDialOptions", "rust": "interceptor", "java": "channelOptions"},
    ),
]
"""All options, in the order of the table in docs/clients.md."""

SETTINGS = [(option, option.kind) for option in OPTIONS if option.kind]
"""The options that are times and numbers, each with its kind."""


def texts() -> dict[str, str]:
    """Path of a file, from the root of the checkout → its text."""
    return {
        "clients/go/settings.go": _go(),
        "clients/rust/src/settings.rs": _rust(),
        "clients/java/client/src/main/java/io/github/xlashape/Settings.java": _java(),
        "clients/typescript/src/settings.ts": _typescript(),
    }


def with_table(text: str) -> str:
    """The text of docs/clients.md with the table of the options."""
    rows = [["option", "default", *LANGUAGES.values()], ["---"] * (len(LANGUAGES) + 2)]
    for option in OPTIONS:
        names = (option.named(language) for language in LANGUAGES)
        shown = option.kind.shown if option.kind else "–"
        rows.append([option.subject, shown, *(f"`{name}`" if name else "–" for name in names)])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows).replace("| --- ", "|---").replace("--- |", "---|")
    return re.sub(r"(?s)(\n## Options\n.*?\n\n)\|.*?(\n\n)", lambda found: found[1] + table + found[2], text, count=1)


def _meaning(option: Option, none: str, unit: str = "", milliseconds: bool = False) -> str:
    shown = option.kind.shown if option.kind else ""
    if milliseconds and isinstance(option.kind, Time) and option.kind.default_seconds:
        shown = f"{option.kind.default_seconds * 1000:,}"
    return option.meaning.format(unit=unit, none=none, default=shown)


def _comment(text: str, prefix: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in textwrap.wrap(text, _COLUMNS - len(prefix.expandtabs(4))))


def _inside(text: str) -> str:
    """The text with its first letter in lower case, to stand within a sentence."""
    return text[0].lower() + text[1:]


def _go() -> str:
    fields, defaults, checks, functions = "", "", "", ""
    longest = max(len(camel(option.name)) for option, _ in SETTINGS)
    for option, kind in SETTINGS:
        name = camel(option.name)
        parameter = f"{name} {'time.Duration' if isinstance(kind, Time) else 'int'}"
        fields += f"\t{name:{longest}} {'time.Duration' if isinstance(kind, Time) else 'int'}\n"
        if isinstance(kind, Time):
            defaults += f"{name}: {kind.default_seconds} * time.Second, " if kind.default_seconds else ""
        else:
            defaults += f"{name}: {kind.literal}, "
            above = "" if kind.most is None else f" || s.{name} > {kind.most}"
            checks += (
                f"\tif s.{name} < {kind.least}{above} {{\n"
                f'\t\treturn mistake("INVALID_ARGUMENT", "{option.name}", "expected {kind.expected}, found %d", '
                f"s.{name})\n\t}}\n"
            )
        says = f"{option.named('go')} sets {_inside(_meaning(option, '0'))}"
        functions += (
            f"\n{_comment(says, '// ')}func {option.named('go')}({parameter}) Option {{\n"
            f"\treturn func(o *options) {{ o.{name} = {name} }}\n}}\n"
        )
    return (
        f"// Code generated by {GENERATOR}. DO NOT EDIT.\n\npackage xlashape\n\n"
        'import "time"\n\n// settings are the options that are times and numbers.\n'
        f"type settings struct {{\n{fields}}}\n\n"
        f"func defaultSettings() settings {{\n\treturn settings{{{defaults.removesuffix(', ')}}}\n}}\n\n"
        f"func (s *settings) check() error {{\n{checks}\treturn nil\n}}\n{functions}"
    )


def _rust() -> str:
    fields, defaults, checks, functions = "", "", "", ""
    for option, kind in SETTINGS:
        name = option.name
        comment = _comment(_meaning(option, "`None`"), "    /// ")
        if isinstance(kind, Time):
            fields += f"    pub(crate) {name}: Option<Duration>,\n"
            seconds = kind.default_seconds
            defaults += f"            {name}: {f'Some(Duration::from_secs({seconds}))' if seconds else 'None'},\n"
            taken, value = "impl Into<Option<Duration>>", f"{name}.into()"
        else:
            rust = "usize" if kind.most is None else "u32"
            fields += f"    pub(crate) {name}: {rust},\n"
            defaults += f"            {name}: {kind.literal},\n"
            holds = f"self.{name} < {kind.least}"
            if kind.most is not None:
                holds = f"!({kind.least}..={kind.most}).contains(&self.{name})"
            checks += (
                f"        if {holds} {{\n"
                f'            let message = format!("expected {kind.expected}, found {{}}", self.{name});\n'
                f'            return Err(Error::mistake("INVALID_ARGUMENT", "{name}", message));\n        }}\n'
            )
            taken, value = rust, name
        functions += (
            f"\n{comment}    pub fn {name}(mut self, {name}: {taken}) -> Self {{\n"
            f"        self.settings.{name} = {value};\n        self\n    }}\n"
        )
    return (
        f"// @generated by {GENERATOR}. Do not edit.\n\nuse std::time::Duration;\n\n"
        "use crate::{Builder, Error, Result};\n\n/// The options that are times and numbers.\n"
        f"#[derive(Clone, Debug)]\npub(crate) struct Settings {{\n{fields}}}\n\n"
        f"impl Default for Settings {{\n    fn default() -> Settings {{\n        Settings {{\n{defaults}        }}\n"
        "    }\n}\n\n"
        f"impl Settings {{\n    pub(crate) fn check(&self) -> Result<()> {{\n{checks}        Ok(())\n    }}\n}}\n\n"
        f"impl Builder {{{functions[:1]}{functions.removeprefix(chr(10))}}}\n"
    )


def _java() -> str:
    fields, methods = "", ""
    components: list[str] = []
    for option, kind in SETTINGS:
        name = option.named("java")
        java = "Duration" if isinstance(kind, Time) else "int"
        components.append(f"{java} {name}")
        if isinstance(kind, Time):
            default = f"Duration.ofSeconds({kind.default_seconds})" if kind.default_seconds else "Duration.ZERO"
            check, expected, describes = f"!{name}.isNegative()", "a time of 0 or more", "the time"
        else:
            default, expected, describes = kind.literal, kind.expected, kind.expected
            check = f"{name} >= {kind.least}" + ("" if kind.most is None else f" && {name} <= {kind.most}")
        fields += f"    private {java} {name} = {default};\n"
        meaning = _meaning(option, "zero").replace("UNAVAILABLE", "{@code UNAVAILABLE}")
        methods += (
            f"\n    /**\n{_comment(f'Sets {_inside(meaning)}', '     * ')}"
            f"     *\n     * @param {name} {describes}\n     * @return this builder\n"
            "     * @throws XlashapeException if it is another one; the reason is INVALID_ARGUMENT\n     */\n"
            f"    public ConnectionOptions.Builder {name}({java} {name}) {{\n"
            f'      XlashapeException.check(\n          {check}, "INVALID_ARGUMENT", "{name}",\n'
            f'          "expected {expected}, found " + {name});\n'
            f"      this.{name} = {name};\n      return self();\n    }}\n"
        )
    return (
        f"// Code generated by {GENERATOR}. DO NOT EDIT.\n\npackage io.github.xlashape;\n\n"
        "import java.time.Duration;\n\n"
        "/** The options that are times and numbers. */\n"
        f"record Settings({', '.join(components)}) {{\n"
        "  /** What sets them: a part of {@link ConnectionOptions.Builder}. */\n  abstract static class Builder {\n"
        f"{fields}\n    abstract ConnectionOptions.Builder self();\n\n    Settings settings() {{\n"
        f"      return new Settings({', '.join(option.named('java') for option, _ in SETTINGS)});\n    }}\n"
        f"{methods}  }}\n}}\n"
    )


_CHECKED_INTEGER = """\
function checkedInteger(field: string, value: number | undefined, fallback: number, least: number, most: number): number {
  const given = value ?? fallback;
  const holds = Number.isInteger(given) && given >= least && given <= most;
  check(holds, "INVALID_ARGUMENT", field, `expected an integer from ${least} to ${most}, found ${String(given)}`);
  return given;
}
"""


def _typescript() -> str:
    fields, values = "", ""
    for option, kind in SETTINGS:
        name = option.named("typescript")
        comment = _meaning(option, "0", " in milliseconds" if isinstance(kind, Time) else "", milliseconds=True)
        one = f"  /** {comment} */\n"
        fields += one if len(one) <= _COLUMNS else f"  /**\n{_comment(comment, '   * ')}   */\n"
        fields += f"  {name}?: number;\n"
        if isinstance(kind, Time):
            bounds = f"{(kind.default_seconds or 0) * 1000:_}, 0, 2 ** 31 - 1"
        else:
            bounds = f"{kind.literal}, {kind.least}, {kind.most or '2 ** 32 - 1'}"
        values += f'    {name}: checkedInteger("{name}", options.{name}, {bounds}),\n'
    return (
        f"// @generated by {GENERATOR}. Do not edit.\n\n"
        'import { check } from "./errors.js";\n\n/** The options that are times and numbers. */\n'
        f"export interface Settings {{\n{fields}}}\n\n"
        "/** All of them, with their defaults. Throws an error for one that is out of bounds. */\n"
        "export function settingsOf(options: Settings): Required<Settings> {\n"
        f"  return {{\n{values}  }};\n}}\n\n{_CHECKED_INTEGER}"
    )
