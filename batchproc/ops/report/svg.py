"""Drawing with matplotlib for a page: SVG whose texts are text and whose colours are the page's own.

matplotlib wants real colours. Each colour of the page has a stand-in that nothing else has, and is put in its place
afterwards as a CSS variable, so that one drawing serves light and dark.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, FAINT = "#010101", "#020202"
"""The page's colours of text, and of lines that only guide the eye."""
SERIES = ("#030301", "#030302", "#030303", "#030304", "#030305", "#030306")
"""Colours that tell kinds apart."""
BAD = "#040404"
"""The colour of failures."""
_VARIABLES = {
    INK: "--ink",
    FAINT: "--faint",
    BAD: "--bad",
    **{color: f"--series-{number}" for number, color in enumerate(SERIES, 1)},
}
_STAND_IN = re.compile("|".join(_VARIABLES))
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_FONT_FAMILY = re.compile(r"font-family: [^;\"]*;? ?")
_FONT_SIZE = 9.0
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": _FONT_SIZE,
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlesize": _FONT_SIZE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.5,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": _FONT_SIZE,
    "figure.constrained_layout.use": True,
}


def drawn(draw: Callable[[Figure], None], name: str, label: str, size: tuple[float, float]) -> Markup:
    """What ``draw`` draws on a figure of that size, in inches, as an ``<svg>`` element to stand in a page.

    Args:
        name: unlike that of any other drawing of the page: its elements' ids come from it.
        label: what a screen reader says of it.
    """
    # It takes half a second to import, which only who draws should wait for. Of its cache that it cannot write, and of
    # fonts, it would speak on stderr.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE | {"svg.hashsalt": name}):
        figure = Figure(figsize=size)
        figure.patch.set_alpha(0)
        draw(figure)
        for axes in figure.axes:
            axes.patch.set_alpha(0)
        target = io.StringIO()
        figure.savefig(target, format="svg", metadata={"Date": None})
    return _for_page(target.getvalue(), name, label)


def _for_page(document: str, name: str, label: str) -> Markup:
    element = _METADATA.sub("", document[document.index("<svg") :])
    element = _STAND_IN.sub(lambda color: f"var({_VARIABLES[color[0]]})", element)
    element = _FONT_FAMILY.sub("", element)  # that of the page
    # matplotlib calls the groups of every drawing the same.
    element = re.sub(r'(id="|href="#|url\(#)', lambda found: f"{found[1]}{name}-", element)
    opening, rest = element.split(">", 1)
    opening = re.sub(r' (?:width|height|version|xmlns(?::\w+)?)="[^"]*"', "", opening)
    opening = opening.replace("<svg", Markup('<svg role="img" aria-label="{}"').format(label), 1)
    return Markup(f"{opening}>{rest}".replace("xlink:href", "href").strip())  # noqa: S704 - matplotlib escapes texts
