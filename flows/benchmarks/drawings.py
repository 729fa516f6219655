"""The benchmarks' own figures, drawn with the report's canvas and colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tdrop.data import toy_truth
from tdrop.figures import INK, SOURCE_COLOUR, TARGET_COLOUR, Canvas, look, styled

if TYPE_CHECKING:
    from flows.benchmarks.toy import Curve


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
