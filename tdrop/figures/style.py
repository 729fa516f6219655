"""How every figure looks, and how it becomes SVG that may stand inside a page.

Colours are Okabe and Ito's, told apart by the colour-blind; twelve methods need more than eight, so each
method also has its own marker and dash. A method looks the same in every figure of every report.
"""

from __future__ import annotations

import hashlib
import html
import io
import pickle
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from threading import RLock
from typing import Any, ParamSpec, TypeVar

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tdrop.metrics import FEWEST_EVENTS

SOURCE_COLOUR = "#56606b"
TARGET_COLOUR = "#0072b2"
HIGHLIGHT = "#d55e00"
GRID = "#dfe3e8"
INK = "#1f2933"
MUTED = "#5b6672"


@dataclass(frozen=True)
class Look:
    """How one method is drawn."""

    colour: str
    marker: str
    dash: str | tuple[int, tuple[int, ...]]


LOOKS: dict[str, Look] = {
    "mlp": Look("#8a8f98", "x", (0, (1, 1))),
    "mc_dropout": Look("#e69f00", "s", (0, (5, 2))),
    "concrete_dropout": Look("#56b4e9", "D", (0, (5, 2))),
    "ensemble": Look("#009e73", "^", "-"),
    "mixmatch": Look("#b8a800", "v", (0, (3, 1, 1, 1))),
    "last_layer": Look("#cc79a7", "P", (0, (3, 1, 1, 1))),
    "tdnr": Look("#7a4fa3", "h", (0, (5, 2))),
    "transductive_dropout": Look("#d55e00", "o", "-"),
    "transductive_ensemble": Look("#8c3a00", "p", "-"),
    "logistic_regression": Look("#1f2933", "*", "-"),
    "gradient_boosting": Look("#0072b2", "X", "-"),
    "committee": Look("#3d3d8f", "8", "-"),
}

_UNKNOWN = Look("#5b6672", "o", "-")

_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#9aa5b1",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "axes.titlesize": 9.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "lines.linewidth": 1.7,
    "path.simplify": True,
    "path.simplify_threshold": 0.4,
}

#: Inches: as wide as a phone, so that no figure has to shrink its text or scroll; wider pages set two side by side.
WIDTH = 3.6

#: Pixels a point on a wide page, so that text in figures is about as large as text around them.
_SCALE = 1.6

#: The page decides the font; the figure only reserves room for it.
_PAGE_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: matplotlib keeps its settings in one place for all threads.
_SETTINGS_LOCK = RLock()


#: What was drawn last, by the digest of what it shows: a site's page, the one that leaves and the record share figures.
_DRAWN: OrderedDict[bytes, Any] = OrderedDict()
_MOST_DRAWN = 100


def styled(draw: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Runs a drawing function under our settings and leaves the caller's as they were; once for the same content."""

    @wraps(draw)
    def drawn(*values: Parameters.args, **named: Parameters.kwargs) -> Result:
        content = _digest_of((draw.__module__, draw.__qualname__, values, named))
        with _SETTINGS_LOCK:
            if content is None or content not in _DRAWN:
                with rc_context(_SETTINGS):
                    figure = draw(*values, **named)
                if content is None:
                    return figure
                _DRAWN[content] = figure
            _DRAWN.move_to_end(content)
            if len(_DRAWN) > _MOST_DRAWN:
                _DRAWN.popitem(last=False)
            found: Result = _DRAWN[content]
            return found

    return drawn


def _digest_of(content: Any) -> bytes | None:
    """A digest of what a figure is drawn from; None where it holds something that cannot be written down."""
    try:
        return hashlib.sha256(pickle.dumps(content)).digest()
    except (pickle.PicklingError, TypeError, AttributeError):
        return None


def enough(y: NDArray[Any]) -> bool:
    """Whether there are events and non-events enough, among known outcomes (rows,), to draw a curve of them."""
    return bool(min(np.sum(y == 1), np.sum(y == 0)) >= FEWEST_EVENTS)


def look(method: str) -> Look:
    """Returns how a method is drawn; one that is not known is grey."""
    return LOOKS.get(method, _UNKNOWN)


class Canvas:
    """A figure without pyplot's global state, used inside a `styled` function, that leaves as SVG.

    Args:
        width: In inches.
        height: In inches.
        rows: Rows of panels.
        columns: Columns of panels.
    """

    def __init__(self, width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> None:
        self.figure = Figure(figsize=(width, height), layout="constrained")
        self.panels = self.figure.subplots(rows, columns, squeeze=False, **options)

    def blank_from(self, used: int) -> None:
        """Switches off the panels from number `used` on."""
        for panel in list(self.panels.flat)[used:]:
            panel.set_axis_off()

    def svg(self, name: str, title: str, description: str) -> str:
        """Returns the figure as inline SVG.

        Args:
            name: Unique in its page; prefixes every id.
            title: What the figure is, read out by a screen reader.
            description: What it shows.
        """
        stream = io.StringIO()
        with rc_context({"svg.hashsalt": name}):
            # Not savefig, which draws everything once more beforehand: half of a report's time.
            FigureCanvasSVG(self.figure).print_svg(stream, metadata={"Date": None, "Creator": None})
        return clean_svg(stream.getvalue(), name, title, description)


def clean_svg(text: str, name: str, title: str, description: str) -> str:
    """Makes matplotlib's file fit for a page: no styles, no outside names, its own ids, a title.

    A page with a strict content-security policy ignores style attributes, so they become plain ones.
    """
    body = text[text.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.S)
    body = re.sub(r"<style.*?</style>", "", body, flags=re.S)
    body = re.sub(r"<!--.*?-->", "", body, flags=re.S)
    body = re.sub(r' style="([^"]*)"', lambda found: _as_attributes(found.group(1)), body)
    body = re.sub(r' transform="rotate\(-0 [^"]*"', "", body)
    # A tenth of a point is finer than a screen shows.
    body = re.sub(r"<[^>]*>", lambda tag: _LONG_NUMBER.sub(_shortened, tag.group()), body)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', body))
    body = re.sub(
        r' id="([^"]+)"', lambda found: f' id="{name}-{found.group(1)}"' if found.group(1) in used else "", body
    )
    body = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", body).replace("xlink:href", "href")
    inside = body[body.index(">", body.index("<svg")) + 1 :]
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', body)[0]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{_SCALE * float(width):.0f}" '
        f'viewBox="0 0 {width} {height}" '
        f'aria-labelledby="{name}-title {name}-description" font-family="{_PAGE_FONT}" '
        f'stroke-linejoin="round" stroke-linecap="butt">'
        f'<title id="{name}-title">{html.escape(title)}</title>'
        f'<desc id="{name}-description">{html.escape(description)}</desc>'
    )
    return head + re.sub(r"\n\s*", "\n", inside).strip()


#: Of a place or a size; what a figure says stands between tags and is left as it is.
_LONG_NUMBER = re.compile(r"-?\d+\.\d{2,}")


def _shortened(number: re.Match[str]) -> str:
    return f"{float(number.group()):.1f}".removesuffix(".0")


def _as_attributes(style: str) -> str:
    """Turns `fill: red; stroke: none` into presentation attributes; the page's font is inherited."""
    pairs = (part.split(":", 1) for part in style.split(";") if ":" in part)
    kept = [(key.strip(), value.strip()) for key, value in pairs if key.strip() != "font-family"]
    return "".join(f' {key}="{value}"' for key, value in kept)
