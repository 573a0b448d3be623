"""A scene as a PNG image, rendered by resvg (the extra `png`), whose wheel needs no system libraries."""

from __future__ import annotations

import re
from typing import Final

from xlashape import extras, limits
from xlashape.drawing.marks.scene import Scene
from xlashape.drawing.writers.svg import svg_text
from xlashape.errors import InvalidArgumentError, UnavailableError, is_a

MAX_PIXELS: Final = 1 << 26
"""The most pixels of an image, which then takes 256 MiB while it is made."""

_SIZE: Final = re.compile(r' width="([0-9.]+)" height="([0-9.]+)"')

_MAX_SCALE: Final = 8
_FONTS: Final = ("DejaVu Sans Mono", "Liberation Mono", "Noto Sans Mono", "Menlo", "Consolas", "Courier New")
_PROBE: Final = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><text y="15" font-size="16" font-family="{}">{}</text></svg>'


def png_bytes(scene: Scene, theme: str = "light", scale: float = 2.0) -> bytes:
    """The scene as PNG. `auto` is light: an image cannot follow the reader's setting. Errors as those of `svg_as_png`."""
    return svg_as_png(svg_text(scene, "dark" if theme == "dark" else "light", tips="none"), scale)


def svg_as_png(text: str, scale: float = 2.0) -> bytes:
    """The text of an SVG file as PNG, `scale` pixels for each pixel of the SVG.

    UnavailableError where resvg is not installed, or the system has no font; InvalidArgumentError for a scale that is not above 0 and up to 8;
    LimitExceededError for an image of more than `MAX_PIXELS`.
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
