"""A picture, which notebooks and terminals display, and which is saved as .svg, .html, .png or .txt."""

from __future__ import annotations

import os
from collections.abc import Callable
from difflib import get_close_matches
from html import escape
from pathlib import Path
from typing import Any, BinaryIO

from xlashape.base.frozen import Frozen, set_field
from xlashape.base.whole_file import replace_file
from xlashape.drawing.marks.cells import SCREEN, PictureSpace, Scene
from xlashape.drawing.writers.html import html_text
from xlashape.drawing.writers.panels import DARK, FONT, LIGHT, THEMES
from xlashape.drawing.writers.svg import MAX_BYTES, png_bytes, svg_as_png, svg_text
from xlashape.drawing.writers.terminal import DEPTHS, space_of, terminal_text
from xlashape.errors import InvalidArgumentError, UnsupportedError
from xlashape.reports.text import cut_middle
from xlashape.shape.parts.checks import integer

# The most characters of a line.
_WIDEST = 10_000
_SMALLER = (
    SCREEN._replace(rows=12, columns=12, tile_rows=5, tile_columns=5, slices=3, leaves=30),
    SCREEN._replace(rows=8, columns=8, tile_rows=4, tile_columns=4, slices=2, leaves=20),
    SCREEN._replace(rows=5, columns=5, characters=60, tile_rows=3, tile_columns=3, slices=1, leaves=10),
)
"""Spaces for less content than `SCREEN`, tried in this order if the SVG file of a picture would be too large."""

FORMATS = {".svg": "svg", ".html": "html", ".htm": "html", ".png": "png", ".txt": "txt"}
"""The formats of files by their extension."""


def format_of(path: str | os.PathLike[str]) -> str:
    """The format of a file by its extension. InvalidArgumentError for any other extension.

    >>> format_of("layout.PNG")
    'png'
    >>> format_of("layout.pngg")
    Traceback (most recent call last):
    xlashape.errors.InvalidArgumentError: expected the extension .svg, .html, .png or .txt, found '.pngg': did you mean '.png'?
    """  # noqa: E501 - an error is one line
    suffix = Path(path).suffix.lower()
    if suffix in FORMATS:
        return FORMATS[suffix]
    close = get_close_matches(suffix[:20], FORMATS, 1)
    hint = f": did you mean {close[0]!r}?" if close else ""
    found = f"{suffix[:20]!r}" if suffix else f"a file without an extension, {str(path)[-60:]!r}"
    raise InvalidArgumentError(f"expected the extension .svg, .html, .png or .txt, found {found}{hint}", field="path")


def _checked_theme(theme: str) -> str:
    if theme not in THEMES:
        raise InvalidArgumentError(f"theme: expected auto, light or dark, found {str(theme)[:40]!r}", field="theme")
    return theme


class Picture(Frozen):
    """A picture of a layout, a map or an instruction; `xs.draw` makes it.

    A notebook shows it as HTML, `print` as text. `save` writes a file.

    >>> from xlashape.drawing import draw
    >>> picture = draw("f32[3,5]{1,0:T(2,2)}")
    >>> picture
    <Picture of f32[3,5]{1,0:T(2,2)}>
    >>> picture.svg().startswith("<svg ")
    True
    """

    __slots__ = ("_build", "_scene", "theme")
    theme: str
    _build: Callable[[PictureSpace], Scene]
    _scene: Scene

    def __init__(self, build: Callable[[PictureSpace], Scene], theme: str = "auto") -> None:
        set_field(self, "theme", _checked_theme(theme))
        set_field(self, "_build", build)
        set_field(self, "_scene", build(SCREEN))

    @property
    def title(self) -> str:
        """What the picture shows."""
        return self._scene.title

    @property
    def facts(self) -> tuple[str, ...]:
        """Facts about the picture, which stand below its title."""
        return self._scene.facts

    @property
    def scene(self) -> Scene:
        """The content of the picture, as large as on a screen. UnsupportedError for a picture of memory or of a
        profile, which has no scene.
        """
        return self._scene

    def svg(self, *, data: bool = False) -> str:
        """The picture as the text of an SVG file, of less than 200,000 bytes. If it would have more, hover texts are
        left out, and then less of the array, or of the window that `rows` and `columns` name, is drawn.

        `data`: attributes instead of hover texts, for scripts. A cell has `data-t`, its hover text, `data-i`, the index
        of its element (none for padding), `data-p`, its position in memory, and `data-k`, which cells of the same
        element share. The group of a panel has `data-panel`, which is `elements`, `tiles` or `memory`, and
        `data-array`: 0 for the array or the output, the number of the operand plus 1; of two layouts 0 and 1.

        >>> from xlashape.drawing import draw
        >>> 'data-i="2,3" data-p="17"' in draw("f32[3,5]{1,0:T(2,2)}").svg(data=True)
        True
        """
        return svg_text(self._small_scene("data"), self.theme, tips="data") if data else self._svg(standalone=True)

    def _svg(self, *, standalone: bool) -> str:
        return svg_text(self._small_scene(), self.theme, standalone=standalone)

    def _small_scene(self, tips: str = "title") -> Scene:
        """The scene for a screen, or the first with less content whose file is not too large, or the smallest."""
        scene = self._scene
        for space in _SMALLER:
            if len(svg_text(scene, self.theme, tips=tips).encode()) < MAX_BYTES:
                break
            scene = self._build(space)
        return scene

    def html(self) -> str:
        """The picture as a self-contained HTML page that shows the index and position of the cell under the pointer."""
        return html_text(self._small_scene(), self.theme)

    def png(self, scale: float = 2.0) -> bytes:
        """The picture as a PNG image with `scale` pixels for each pixel of the SVG, at most 8. UnavailableError without
        the extra `png`, or without a known monospace font.
        """
        return png_bytes(self._small_scene(), self.theme, scale)

    def text(self, color: str = "none", width: int = 100) -> str:
        """The picture as text for a terminal with lines of `width` characters. `color` is `none`, `256` or `full` (24
        bits): the colours of the terminal.

        >>> from xlashape.drawing import draw
        >>> for line in draw("f32[2,3]{1,0:T(2,2)}").text().splitlines()[5:9]:
        ...     print(line)
        positions               memory: the index at each position
        d0↓   0  1  2  · →d1       byte  +0  +4  +8  +12
          0   0  1│ 4 ░░         byte 0 │0,0│0,1│1,0│1,1│
          1   2  3│ 6 ░░        byte 16 │0,2│░░░│1,2│░░░│
        """
        if color not in DEPTHS:
            raise InvalidArgumentError(f"color: expected none, 256 or full, found {str(color)[:40]!r}", field="color")
        width = max(1, min(integer(width, "width"), _WIDEST))
        return terminal_text(self._build(space_of(width)), color, width)

    def save(self, path: str | os.PathLike[str], *, scale: float = 2.0) -> None:
        """Writes a file in the format of its extension: .svg, .html, .png or .txt. `scale` is for PNG: the pixels of
        the image for each pixel of the SVG.

        InvalidArgumentError for another extension, and if the file cannot be written, in which case an old file stays.
        UnavailableError as for `png`.
        """
        content = self.to_bytes(format_of(path), scale=scale)

        def write(stream: BinaryIO) -> None:
            stream.write(content)

        try:
            replace_file(path, write)
        except (OSError, ValueError) as error:  # a name with a null character
            reason = getattr(error, "strerror", None) or error
            raise InvalidArgumentError(f"cannot write {os.fspath(path)!r}: {reason}", field="path") from error

    def to_bytes(self, form: str, *, scale: float = 2.0) -> bytes:
        """The content of a file of a format: `svg`, `html`, `png` or `txt`."""
        if form == "png":
            return self.png(scale)
        if form not in FORMATS.values():
            raise InvalidArgumentError(f"form: expected svg, html, png or txt, found {str(form)[:40]!r}", field="form")
        text = self.svg() if form == "svg" else self.html() if form == "html" else self.text()
        return text.encode("utf-8", "replace")

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x:auto">{self._svg(standalone=False)}</div>'

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        del include, exclude  # the notebook chooses
        return {"text/html": self._repr_html_(), "image/svg+xml": self.svg(), "text/plain": repr(self)}

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Picture of {self.title}>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a picture cannot be pickled: pickle the object that it shows, and draw it again")


class AnswerPicture(Picture):
    """A picture of a report's answer. It has no scene: the class of each report writes its SVG directly."""

    __slots__ = ()

    def __init__(self, theme: str) -> None:
        set_field(self, "theme", _checked_theme(theme))

    @property
    def scene(self) -> Scene:
        """Raises UnsupportedError."""
        raise UnsupportedError(f"the picture of {self.title} has no scene: it is an SVG alone")

    def draw(self, theme: str, *, standalone: bool) -> str:
        """The text of an SVG file, or of an SVG within a page if not `standalone`."""
        raise NotImplementedError

    def svg(self, *, data: bool = False) -> str:  # noqa: ARG002 - the same picture for scripts
        """The picture as the text of an SVG file."""
        return self._svg(standalone=True)

    def _svg(self, *, standalone: bool) -> str:
        return self.draw(self.theme, standalone=standalone)

    def png(self, scale: float = 2.0) -> bytes:
        """The picture as a PNG image. Errors as for other pictures."""
        return svg_as_png(self.draw("dark" if self.theme == "dark" else "light", standalone=True), scale)

    def html(self) -> str:
        """The picture as a self-contained page, which needs no network. What is drawn has hover texts."""
        page = DARK if self.theme == "dark" else LIGHT
        dark = (
            f"@media (prefers-color-scheme:dark){{body{{background:{DARK['ground']}}}}}" if self.theme == "auto" else ""
        )
        scheme = "light dark" if self.theme == "auto" else self.theme
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width">\n<meta name="color-scheme" content="{scheme}">\n'
            f"<title>{escape(self.title)}</title>\n<style>body{{margin:0;overflow-x:auto;background:{page['ground']}}}"
            f"svg{{display:block}}{dark}</style>\n</head>\n<body>\n{self._svg(standalone=False)}\n</body>\n</html>\n"
        )

    def head(
        self, name: str, size: tuple[int, int], left: int, theme: str, rules: Callable[[dict[str, str]], str],
        *, standalone: bool,
    ) -> list[str]:  # fmt: skip
        """The beginning of the SVG: its style, its background, its title and its facts. `name` is its class in CSS,
        `size` its width and height, `left` the x of the title; `rules` gives the style in the colours of a page.
        """
        page = DARK if theme == "dark" else LIGHT
        dark = f"@media (prefers-color-scheme:dark){{{rules(DARK)}}}" if theme == "auto" else ""
        xmlns = ' xmlns="http://www.w3.org/2000/svg"' if standalone else ""
        width, height = size
        return [
            f'<svg{xmlns} class="{name}" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escape(self.title)}</title><style>.{name} text{{font:11px {FONT}}}"
            f".{name} .h{{font-size:15px;font-weight:bold}}{rules(page)}{dark}</style>",
            f'<rect class="g" width="{width}" height="{height}"/>',
            f'<text class="t h" x="{left}" y="24">{escape(cut_middle(self.title, 110))}</text>',
            *[
                f'<text class="u" x="{left}" y="{42 + 15 * number}">{escape(fact)}</text>'
                for number, fact in enumerate(self.facts)
            ],
        ]
