"""The style sheet of pictures, for light and dark pages.

All names begin with `xs`, since a picture shares the names of classes with the rest of the notebook or page.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from xlashape.drawing.marks import colours

THEMES: Final = ("auto", "light", "dark")
"""`auto` follows the reader's setting."""

FONT: Final = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"

CHARACTER: Final = 6.65
"""The width of a character of 11 pixels."""

LIGHT: Final = {"ground": "#ffffff", "text": "#1b1b1b", "muted": "#595959", "rule": "#8a8a8a", "mark": "#b3003c"}
DARK: Final = {"ground": "#15171c", "text": "#ededed", "muted": "#b4b4b4", "rule": "#9a9a9a", "mark": "#ff8fab"}
PAGE_NAMES: Final = tuple(LIGHT)

_CELL_TEXT: Final = "#000"
_PADDING_TEXT: Final = "#333"
_CELL_LINE: Final = "#fff"
_BLOCK_LINE: Final = "#1b1b1b"
_PATH: Final = "#7a1fa2"


def style_sheet(fills: Iterable[int], theme: str, scope: str) -> str:
    """The rules for these fills. `scope` is the class of the picture's root."""
    rules = [
        f".{scope} text{{font:11px {FONT}}}",
        f".{scope} .xsw{{font-size:15px;font-weight:bold}}",
        f".{scope} .xsf{{font-weight:bold}}",
        f".{scope} .xsn{{font-size:9px}}",
        f".{scope} .xsk{{fill:{_CELL_TEXT};text-anchor:middle}}",
        f".{scope} .xsq{{fill:{_PADDING_TEXT};text-anchor:middle}}",
        f".{scope} .xsh{{text-anchor:middle}}",
        f".{scope} .xse{{text-anchor:end}}",
        f".{scope} .xsc{{stroke:{_CELL_LINE};stroke-width:1}}",
        f".{scope} .xsb{{stroke:{_BLOCK_LINE};stroke-width:2;fill:none;stroke-linecap:square}}",
        f".{scope} .xsg{{stroke:{_BLOCK_LINE};stroke-width:.8}}",
        f".{scope} .xsp{{stroke:{_PATH};stroke-width:1.4;fill:none}}",
        f".{scope} .xsj{{stroke:{_PATH};stroke-width:.9;stroke-dasharray:2 2.5;fill:none;opacity:.75}}",
        f".{scope} .xso{{fill:{_PATH}}}",
        f".{scope} .xsm{{fill:none;stroke-width:3}}",
    ]
    rules += [f".{scope} .xs{fill}{{fill:{colours.hex_of(fill)}}}" for fill in sorted(set(fills))]
    page = DARK if theme == "dark" else LIGHT
    rules += _page_rules(page, scope)
    if theme == "auto":
        rules.append("@media (prefers-color-scheme:dark){" + "".join(_page_rules(DARK, scope)) + "}")
    return "".join(rules)


def _page_rules(page: dict[str, str], scope: str) -> list[str]:
    return [
        f".{scope} .xsl{{fill:{page['ground']}}}",
        f".{scope} .xst{{fill:{page['text']}}}",
        f".{scope} .xsu{{fill:{page['muted']}}}",
        f".{scope} .xsr{{stroke:{page['rule']};fill:none}}",
        f".{scope} .xsm{{stroke:{page['mark']}}}",
    ]
