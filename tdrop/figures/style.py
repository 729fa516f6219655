"""How every figure looks, and how it becomes an SVG file.

Colours are Okabe and Ito's, told apart by the colour-blind; twelve methods need more than eight, so each
method also has its own marker and dash. A method looks the same in every figure of every report.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from threading import RLock
from typing import Any, Literal, ParamSpec, TypeVar

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
FAINT = "#c3cad2"

#: Dashes of a line that stands for guessing, or for risks that are right.
REFERENCE: dict[str, Any] = {"color": MUTED, "linewidth": 0.9, "linestyle": (0, (3, 2))}


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
    "svg.hashsalt": "tdrop",
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

#: matplotlib measures text in the one font and a browser writes it in the reader's own, which is narrower.
_MEASURED_FONT, _READERS_FONT = "'DejaVu Sans', sans-serif", "system-ui, sans-serif"

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: matplotlib keeps its settings in one place for all threads.
_SETTINGS_LOCK = RLock()


def styled(draw: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Runs a drawing function under our settings and leaves the caller's as they were."""

    @wraps(draw)
    def run(*values: Parameters.args, **named: Parameters.kwargs) -> Result:
        with _SETTINGS_LOCK, rc_context(_SETTINGS):
            return draw(*values, **named)

    return run


def enough(y: NDArray[Any]) -> bool:
    """Whether there are events and non-events enough, among known outcomes (rows,), to draw a curve of them."""
    return bool(min(np.sum(y == 1), np.sum(y == 0)) >= FEWEST_EVENTS)


def look(method: str) -> Look:
    """Returns how a method is drawn; one that is not known is grey."""
    return LOOKS.get(method, _UNKNOWN)


@dataclass(frozen=True)
class Drawing:
    """A finished figure.

    Attributes:
        name: What it is called in a page and as a file.
        svg: The file: no outside reference, the same bytes for the same data.
        alternative: What it shows, for whoever does not see it.
    """

    name: str
    svg: str
    alternative: str


class Canvas:
    """A figure without pyplot's global state, used inside a `styled` function, that is written as SVG.

    Args:
        width: In inches.
        height: In inches.
        rows: Rows of panels.
        columns: Columns of panels.
    """

    def __init__(self, width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> None:
        self.figure = Figure(figsize=(width, height), layout="constrained")
        self.panels = self.figure.subplots(rows, columns, squeeze=False, **options)

    @property
    def panel(self) -> Any:
        """The first panel."""
        return self.panels[0][0]

    def blank_from(self, used: int) -> None:
        """Switches off the panels from number `used` on."""
        for panel in list(self.panels.flat)[used:]:
            panel.set_axis_off()

    def label(self, x: str = "", y: str = "", percent: str = "") -> None:
        """Names the axes below the lowest and beside the first panels; `percent` ("x", "xy") are shares."""
        for panel in self.panels[-1]:
            panel.set_xlabel(x)
        for panel in self.panels[:, 0]:
            panel.set_ylabel(y)
        for panel in self.panels.flat:
            for axis in percent:
                getattr(panel, f"{axis}axis").set_major_formatter(lambda value, _: f"{value:.0%}")

    def finish(
        self, name: str, title: str, description: str, legend: Literal["above", "below"] | None = None
    ) -> Drawing:
        """Returns the figure.

        Args:
            name: Unique in its page.
            title: What the figure is.
            description: What it shows.
            legend: Where the first panel's legend stands, which is for all panels; None for no legend.
        """
        if legend is not None:
            place, columns = ("outside upper center", 2) if legend == "above" else ("outside lower center", 1)
            self.figure.legend(*self.panel.get_legend_handles_labels(), loc=place, ncols=columns)
        stream = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        # Not savefig, which draws everything once more beforehand: half of a report's time.
        FigureCanvasSVG(self.figure).print_svg(stream, metadata={**nothing, "Title": title})
        return Drawing(name, stream.getvalue().replace(_MEASURED_FONT, _READERS_FONT), f"{title}. {description}")
