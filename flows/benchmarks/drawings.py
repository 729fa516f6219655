"""The benchmarks' own figures, drawn with the report's canvas and colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flows.benchmarks.results import Estimate
from tdrop.data import toy_truth
from tdrop.figures import INK, MUTED, SOURCE_COLOUR, TARGET_COLOUR, Canvas, look, styled

if TYPE_CHECKING:
    from flows.benchmarks.toy import Curve

#: Colours of a heat map stop changing beyond this difference in AUROC.
_STRONGEST = 0.15


@styled
def draw_toy(grid: NDArray[Any], runs: Mapping[str, Curve]) -> str:
    """Draws each run's mean, 95% interval, the true function and both sites' points; one panel a run."""
    canvas = Canvas(7.2, 3.0, 1, len(runs), sharex=True, sharey=True)
    for panel, (name, found) in zip(canvas.panels[0], runs.items(), strict=True):
        colour = look("transductive_dropout" if name.startswith("Transductive") else "mc_dropout").colour
        panel.fill_between(grid, found.low, found.high, color=colour, alpha=0.25, linewidth=0)
        panel.plot(grid, found.mean, color=colour, label="mean and 95% interval")
        panel.plot(grid, toy_truth(grid), color=INK, linewidth=1, linestyle=(0, (4, 2)), label="true function")
        panel.scatter(found.source_x, found.source_y, color=SOURCE_COLOUR, s=9, zorder=3, label="labelled source")
        panel.plot(
            found.target_x, np.full(len(found.target_x), -2.0), "|", color=TARGET_COLOUR, label="unlabelled target"
        )
        panel.set_title(name)
        panel.set(xlabel="x", ylim=(-2.2, 9.0))
    handles, names = canvas.panels[0][0].get_legend_handles_labels()
    canvas.figure.legend(handles, ["mean and 95% interval", *names[1:]], loc="outside upper center", ncols=4)
    return canvas.svg(
        "toy",
        "Simulated toy regression: intervals of two methods",
        "First draw. Where only unlabelled target points lie, an honest interval is wide enough to hold the truth.",
    )


@styled
def draw_heat_maps(
    maps: Mapping[str, NDArray[Any]], rows: Sequence[str], columns: Sequence[str], labels: tuple[str, str]
) -> str:
    """Draws one heat map a rival: error AUROC by sd of transductive dropout minus the rival's.

    Args:
        maps: By rival, mean differences (rows, columns); NaN where there is none.
        rows: What the rows are.
        columns: What the columns are.
        labels: Titles of the vertical and the horizontal axis.
    """
    canvas = Canvas(1.2 + 1.75 * len(maps), 2.9, 1, len(maps), sharex=True, sharey=True)
    for panel, (name, values) in zip(canvas.panels[0], maps.items(), strict=True):
        # Cells as shapes: an image would put a bitmap into the SVG.
        panel.pcolormesh(values, cmap="PuOr_r", vmin=-_STRONGEST, vmax=_STRONGEST)
        for row, column in np.ndindex(values.shape):
            known = np.isfinite(values[row, column])
            text = f"{values[row, column]:+.02f}" if known else "n/a"
            strong = known and abs(values[row, column]) > 0.7 * _STRONGEST
            panel.text(
                column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=8, color="white" if strong else INK
            )
        panel.set_title(f"minus {name}", fontsize=8.5)
        panel.set_xticks(np.arange(len(columns)) + 0.5, columns)
        panel.set_yticks(np.arange(len(rows)) + 0.5, rows)
        panel.grid(visible=False)
    canvas.panels[0][0].set_ylabel(labels[0])
    canvas.panels[0][0].invert_yaxis()
    canvas.figure.supxlabel(labels[1], fontsize=9)
    return canvas.svg(
        "heat",
        "Simulated extrapolation family: where transductive dropout knows its errors better",
        "Difference in error AUROC by sd; above zero (orange) transductive dropout ranks its errors better.",
    )


@styled
def draw_differences(rows: Sequence[tuple[str, Estimate]], title: str, axis: str) -> str | None:
    """Draws estimates with their intervals, one line each, zero marked."""
    known = [(name, each) for name, each in rows if each.value is not None][::-1]
    if not known:
        return None
    canvas = Canvas(6.4, 0.8 + 0.42 * len(known))
    panel = canvas.panels[0][0]
    panel.axvline(0, color=MUTED, linewidth=0.9)
    style = look("transductive_dropout")
    for height, (name, each) in enumerate(known):
        if each.low is not None and each.high is not None:
            panel.plot([each.low, each.high], [height, height], color=style.colour, linewidth=2)
        panel.plot([each.value], [height], color=style.colour, marker=style.marker, linestyle="")
        # Above its line: the names of pairs are sentences, and beside it they would leave no room to draw.
        panel.text(0, height + 0.3, name, transform=panel.get_yaxis_transform(), fontsize=7.5, color=INK)
    panel.set(yticks=[], ylim=(-0.5, len(known) - 0.2))
    panel.grid(axis="y", visible=False)
    panel.set_xlabel(axis)
    return canvas.svg("differences", title, "Points are estimates, bars their 95% intervals.")


@styled
def draw_memory(curve: Sequence[tuple[float, float]]) -> str:
    """Draws the memory after every site of a network: of the flow's process, and of those it started."""
    canvas = Canvas(6.0, 2.6)
    panel = canvas.panels[0][0]
    sites = np.arange(1, len(curve) + 1)
    for number, (name, colour) in enumerate((("flow", TARGET_COLOUR), ("server and workers", SOURCE_COLOUR))):
        panel.plot(sites, [each[number] for each in curve], color=colour, label=name)
    panel.set(xlabel="sites finished", ylabel="resident memory (MB)", ylim=(0, None))
    panel.legend()
    return canvas.svg(
        "memory",
        "Memory while sites go through one flow (simulated patients)",
        f"Resident memory after each of {len(curve)} sites; a flat line means that nothing piles up.",
    )
