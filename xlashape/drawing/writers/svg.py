"""A scene as an SVG document, without hover texts if it would be too large with them, or as a PNG image.

PNG is rendered by resvg (the extra `png`), whose wheel needs no libraries of the system.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from html import escape
from typing import Final

from xlashape import limits
from xlashape.base import extras
from xlashape.drawing.marks import colours
from xlashape.drawing.marks.cells import Grid, Legend, Listing, Panel, Scene, Strip
from xlashape.drawing.writers.panels import CHARACTER, Pen, number, placed, style_sheet, text_width
from xlashape.errors import InvalidArgumentError, UnavailableError, is_a

MAX_BYTES: Final = 200_000
"""The size from which on an SVG file is too large. Then hover texts are left out; if that is not enough, `Picture`
draws less."""

# In pixels: the width at which panels and texts are broken, the margins, the gap between panels, the height of a line.
_WIDTH: Final = 1300
_MARGIN: Final = 20
_BETWEEN: Final = 36
_LINE: Final = 16
# What XML 1.0 does not allow, even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def svg_text(
    scene: Scene, theme: str = "auto", *, standalone: bool = True, tips: str = "title", bare: bool = False
) -> str:
    """The scene as SVG. `standalone`: with the name space that a file needs and an element in a page does not.

    `bare`: panels alone, without title, margins and background. `tips`: the form of hover texts: `title` for SVG's own,
    `data` for attributes that a script reads, `none` for none. Texts of the form `title` are left out if the SVG would
    have `MAX_BYTES` or more.
    """
    text = _document(scene, theme, standalone, tips, bare)
    if tips == "title" and len(text.encode()) >= MAX_BYTES:
        text = _document(scene, theme, standalone, "none", bare)
    return text


def _document(scene: Scene, theme: str, standalone: bool, tips: str, bare: bool) -> str:
    # Pictures in one page may not share ids, so ids contain a hash of the content.
    mark = blake2b(repr((scene, theme)).encode("utf-8", "replace"), digest_size=4).hexdigest()
    scope, pattern = f"xs-{mark}", f"xsP{mark}"
    pen = Pen(pattern, tips)
    body, width, height = _panels_alone(scene, pen) if bare else _body(scene, pen)
    name_space = ' xmlns="http://www.w3.org/2000/svg"' if standalone else ""
    size = f'width="{number(width)}" height="{number(height)}" viewBox="0 0 {number(width)} {number(height)}"'
    head = [
        f'<svg{name_space} class="{scope}" {size} role="img" aria-label="{escape(scene.title)}">',
        f"<style>{style_sheet(_fills(scene), theme, scope)}</style>",
        f'<defs><pattern id="{pattern}" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)">'
        f'<rect width="6" height="6" fill="{colours.hex_of(colours.PADDING)}"/>'
        '<path d="M0 0V6" stroke="#b3b3ab" stroke-width="2.4"/></pattern></defs>',
        "" if bare else '<rect width="100%" height="100%" class="xsl"/>',
    ]
    text = "\n".join([*[line for line in (*head, *body) if line], "</svg>"]) + "\n"
    return _FORBIDDEN.sub("�", text)


def _panels_alone(scene: Scene, pen: Pen) -> tuple[list[str], float, float]:
    parts: list[str] = []
    width = low = 1.0
    for panel in [panel for band in scene.bands for panel in band]:
        measured = placed(panel, pen)
        parts += measured.write(1, low)
        width, low = max(width, measured.width + 2), low + measured.height + 1
    return parts, width, low


def _body(scene: Scene, pen: Pen) -> tuple[list[str], float, float]:
    parts: list[str] = []
    right = 0.0
    y = _MARGIN + 14.0
    for i, line in enumerate(_wrapped(scene.title, 15)):
        parts.append(_text(_MARGIN, y, line, "xst xsw"))
        right = max(right, text_width(line, 15) * 1.04)
        y += 20 if i == 0 else 18
    for fact in scene.facts:
        for line in _wrapped(fact, 11):
            parts.append(_text(_MARGIN, y, line, "xsu"))
            right = max(right, text_width(line))
            y += _LINE
    y += 8
    for band in scene.bands:
        x, low = float(_MARGIN), y
        for panel in band:
            measured = placed(panel, pen)
            if x > _MARGIN and x + measured.width > _WIDTH:
                x, y = float(_MARGIN), low + 24
            parts += measured.write(x, y)
            low = max(low, y + measured.height)
            x += measured.width
            right = max(right, x - _MARGIN)
            x += _BETWEEN
        y = low + 26
    for legend in scene.legends:
        parts += _legend(legend, y, pen)
        right = max(right, 14 * len(legend.fills) + 12 + text_width(legend.text))
        y += 22
    if any(isinstance(panel, Grid) and panel.has_path for band in scene.bands for panel in band):
        parts += _path_legend(y)
        right = max(right, 60 + text_width(_PATH_TEXT))
        y += 20
    for note in scene.notes:
        for line in _wrapped(note, 11):
            parts.append(_text(_MARGIN, y + 10, line, "xsu"))
            right = max(right, text_width(line))
            y += _LINE
    return parts, right + 2 * _MARGIN, y + _MARGIN - 6


_PATH_TEXT: Final = "the order of memory; dashed where it jumps"


def _legend(legend: Legend, y: float, pen: Pen) -> Iterator[str]:
    width = 14 if len(legend.fills) > 1 else 24
    for i, fill in enumerate(legend.fills):
        ground = f'fill="url(#{pen.padding})"' if fill == colours.PADDING else f'class="xs{fill}"'
        yield f'<rect x="{_MARGIN + i * width}" y="{number(y)}" width="{width}" height="14" {ground}/>'
    yield _text(_MARGIN + len(legend.fills) * width + 8, y + 11, legend.text, "xst")


def _path_legend(y: float) -> Iterator[str]:
    x = _MARGIN
    # The colour of the path is made to be seen on cells: here, too, it runs over the fill of a cell.
    yield f'<rect x="{x}" y="{number(y)}" width="48" height="14" fill="{colours.hex_of(colours.BLANK)}"/>'
    yield f'<circle class="xso" cx="{x + 4}" cy="{number(y + 7)}" r="2.6"/>'
    yield (
        f'<path class="xsp" d="M{x + 4} {number(y + 7)}H{x + 26}M{x + 22} {number(y + 4)}L{x + 26} '
        f'{number(y + 7)}L{x + 22} {number(y + 10)}"/>'
    )
    yield f'<path class="xsj" d="M{x + 28} {number(y + 7)}H{x + 44}"/>'
    yield _text(x + 54, y + 11, _PATH_TEXT, "xst")


def _text(x: float, y: float, text: str, style: str) -> str:
    return f'<text x="{number(x)}" y="{number(y)}" class="{style}">{escape(text)}</text>'


def _wrapped(text: str, size: float) -> list[str]:
    """A text in lines that fit the width; words longer than a line are cut."""
    limit = int((_WIDTH - _MARGIN) / (CHARACTER * size / 11 * 1.04))
    lines: list[str] = []
    for word in text.split(" "):
        if lines and len(lines[-1]) + 1 + len(word) <= limit:
            lines[-1] += f" {word}"
            continue
        lines += [word[at : at + limit] for at in range(0, len(word), limit)] or [""]
    return lines


def _fills(scene: Scene) -> set[int]:
    found = {fill for legend in scene.legends for fill in legend.fills}
    for band in scene.bands:
        for panel in band:
            found |= _fills_of(panel)
    return found - {colours.PADDING}


def _fills_of(panel: Panel) -> set[int]:
    if isinstance(panel, Grid):
        return {cell.fill for row in panel.cells for cell in row if cell is not None}
    if isinstance(panel, Strip):
        return {cell.cell.fill for row in panel.rows for cell in row.cells}
    assert isinstance(panel, Listing)
    return {fill for row in panel.rows if row.thumbnail is not None for fill in _fills_of(row.thumbnail)}


# -- PNG ---------------------------------------------------------------------------------------


MAX_PIXELS: Final = 1 << 26
"""The most pixels of an image, which then takes 256 MiB while it is made."""

_SIZE: Final = re.compile(r' width="([0-9.]+)" height="([0-9.]+)"')

_MAX_SCALE: Final = 8
_FONTS: Final = ("DejaVu Sans Mono", "Liberation Mono", "Noto Sans Mono", "Menlo", "Consolas", "Courier New")
# An SVG that shows whether a font is installed: its image is then not that of an empty text.
_PROBE: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><text y="15" font-size="16" '
    'font-family="{}">{}</text></svg>'
)


def png_bytes(scene: Scene, theme: str = "light", scale: float = 2.0) -> bytes:
    """The scene as PNG. `auto` is light: an image cannot follow the reader's setting. Errors as those of
    `svg_as_png`."""
    return svg_as_png(svg_text(scene, "dark" if theme == "dark" else "light", tips="none"), scale)


def svg_as_png(text: str, scale: float = 2.0) -> bytes:
    """The text of an SVG file as PNG, `scale` pixels for each pixel of the SVG.

    UnavailableError if resvg is not installed, or none of the known monospace fonts; InvalidArgumentError for a scale
    that is not above 0 and up to 8; LimitExceededError for an image of more than `MAX_PIXELS`.
    """
    if isinstance(scale, bool) or not is_a(scale, (int, float)) or not 0 < scale <= _MAX_SCALE:
        raise InvalidArgumentError(
            f"scale: expected a number above 0 and up to {_MAX_SCALE}, found {str(scale)[:40]}", field="scale"
        )
    extras.require("png", "A PNG image")
    import resvg_py  # an optional package

    def render(text: str, zoom: float, family: str) -> bytes:
        return bytes(resvg_py.svg_to_bytes(svg_string=text, zoom=zoom, monospace_family=family))

    empty = render(_PROBE.format("monospace", ""), 1, _FONTS[0])
    for family in _FONTS:
        if render(_PROBE.format("monospace", "M"), 1, family) != empty:
            break
    else:
        raise UnavailableError(
            "a PNG image needs a monospace font, and none is installed: install DejaVu Sans Mono, or save an .svg"
        )
    width, height = [float(size) for size in _SIZE.search(text).groups()]  # pyright: ignore[reportOptionalMemberAccess]  # svg_text writes it
    limits.check("pixels of the image", int(width * height * scale * scale), MAX_PIXELS, field="scale")
    return render(text, float(scale), family)
