"""Text as people paste it out of logs, mails and issues."""

from __future__ import annotations

import re
from typing import Final

from xlashape.limits import MAX_TEXT_CHARACTERS, check, spend

# Where logs are pasted, the escape character before a colour is often lost.
_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])|\[\d{1,3}(?:;\d{1,3})*m")
_QUOTES: Final = re.compile(r"^(?:[ \t]*>)+ ?")
_MOST_PREFIXES: Final = 12
_HEADER: Final = re.compile(r"HloModule [\w.\-]+(?:,|\r?\n)")
_MOST_SEARCHED: Final = 1 << 24
_MOST_OF_MODULE: Final = 1 << 28
_PREFIX: Final = re.compile(
    "|".join(
        (
            # 2024-05-04T09:05:40.1234567Z, as CI prints it, and the time of docker and kubectl
            r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)? ?",
            # 2020-05-04 09:05:40.719745: E    1578 tensorflow/compiler/xla/xla_client/xla_util.cc:76]
            # 2024-05-04 09:05:40,123 ERROR train.py:88:
            r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?:? (?:[A-Z]+ +)?(?:\d+ )?(?:[\w./\-]+:\d+[\]:] ?)?",
            # I0309 12:51:51.376826 140505975940928 run_docker.py:247], without the thread, or the letter alone
            r"^[IWEF](?:\d{4,8} \d\d:\d\d:\d\d(?:\.\d+)?(?: +\d+)?)? +[\w./\-<>]+:\d+\] ?",
            # ERROR 06-03 07:41:11 [core.py:1184], 2024-05-04 09:05:40,123 - train - ERROR -, [core.py:1184]
            r"^(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)(?: +\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?)? +\[[\w./<>\-]+:\d+\] ?",
            r"^ ?- [\w.\-]+ - (?:DEBUG|INFO|WARNING|ERROR|CRITICAL) - ",
            # ERROR:absl:, ERROR:2024-05-04 09:05:40,123:jax._src.compiler:590:, as JAX's own logger prints it
            r"^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?:)?[\w.]+:(?:\d+:)? ?",
            # [2024-05-04 09:05:40,123], [2024-05-04 09:05:40,123][train][ERROR] -
            r"^\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?\](?: ?\[[\w./:\-]+\])*(?: - | ?)",
            r"^\[[\w./<>\-]+\.(?:py|cc|h|rs|go):\d+\] ?",
            # (train pid=12, ip=10.0.0.1), perhaps behind the number of the line;
            # [rank0]:, [1,0]<stderr>:, worker-0:, service_1  |
            r"^\d{0,6}\([\w ./:=,\-]*pid=[^)]*\) ?",
            r"^\[[\w ,./:\-]+\](?:<\w+>)?: ?",
            r"^(?:worker|host|rank|task|process|w)[-_ ]?\d+: ?",
            r"^[\w.\-]+ +\| ?",
        )
    )
)
# Prefixes in the middle of a line, where a log was joined into one line. A time, and a file with its line number,
# distinguish them from other text.
_INLINE_PREFIX: Final = re.compile(
    r"\s(?:\([\w ./:=,\-]{0,60}pid=[^)]{0,60}\) )?(?:[IWEF]\d{4,8} \d\d:\d\d:\d\d(?:\.\d+)? +\d+ +"
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?:? +[A-Z]+ +(?:\d+ +)?"
    r"|[A-Z]+ +\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? +)\[?[\w./<>\-]+:\d+\]"
)


def searched(text: str) -> tuple[str, tuple[str, ...]]:
    r"""The part of a text that is read where the whole is no module, and a note if it is not all. Of a log of
    gigabytes, it is 256 MiB from the header of a module on, or the last 16 MiB, where programs say why they end.

    >>> found, (note,) = searched("a line of a log\n" * 2_000_000)
    >>> len(found), note
    (16777216, 'Of 32,000,000 characters, 16,777,216 were read, from line 951,425 on.')
    """
    if len(text) <= _MOST_SEARCHED:
        return text, ()
    header = _HEADER.search(text)
    end = len(text) - _MOST_SEARCHED
    begin = text.find("\n", end - 1) + 1 or end if header is None else text.rfind("\n", 0, header.start()) + 1
    found = text[begin : begin + (_MOST_SEARCHED if header is None else _MOST_OF_MODULE)]
    if len(found) == len(text):
        return text, ()
    line = text.count("\n", 0, begin) + 1
    return found, (f"Of {len(text):,} characters, {len(found):,} were read, from line {line:,} on.",)


def clean(text: str) -> str:
    r"""The text without colours, log prefixes and the marks `>` of quoted lines; `\n` in a quoted string becomes a line
    end.

    >>> clean("\x1b[31m> I0309 12:51:51.376826 140505975940928 run_docker.py:247] Size: 2.63GiB\x1b[0m")
    'Size: 2.63GiB'
    """
    check("text characters", len(text), MAX_TEXT_CHARACTERS)
    text = _ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n").replace("\xa0", " ")
    if text.count("\\n") > 3 + text.count("\n"):
        text = text.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'")
    return _INLINE_PREFIX.sub("\n", "\n".join([_without_prefixes(line) for line in text.split("\n")]))


def _without_prefixes(line: str) -> str:
    spend()
    # Quotes and log prefixes may be nested in any order.
    for _ in range(_MOST_PREFIXES):
        before = line
        line = _PREFIX.sub("", _QUOTES.sub("", line), count=1)
        if line == before:
            break
    return line
