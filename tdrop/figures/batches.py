"""The figure of a site's batches over time: one small panel a quantity, all of them on the same order of batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap

from tdrop.figures.style import HIGHLIGHT, INK, SOURCE_COLOUR, TARGET_COLOUR, WIDTH, Canvas, styled
from tdrop.served import Batch

COLUMNS = 3
#: Features that are drawn: those that moved most.
FEATURES = 7
#: Standard deviations within which means are usually called balanced.
BALANCED = 0.1
#: Characters of a feature's name that fit on one of two lines above a panel.
LONGEST = 15


@styled
def draw_batches(batches: Sequence[Batch], titles: Mapping[str, str]) -> str | None:
    """Draws risk, referrals and the features that moved most, batch by batch; None where there are not several.

    Args:
        batches: In the order in which they were scored.
        titles: By feature, its name for people.
    """
    if len(batches) < 2:
        return None
    moved = _moved_most(batches)
    shares: list[tuple[str, list[float]]] = [
        ("Mean risk, %", [100 * batch.risk for batch in batches]),
        ("To refer, %", [100 * batch.referred / batch.patients for batch in batches]),
    ]
    panels = len(shares) + len(moved)
    rows = -(-panels // COLUMNS)
    canvas = Canvas(WIDTH, 0.4 + 1.15 * rows, rows, COLUMNS, sharex=True)
    order = range(1, len(batches) + 1)
    axes = list(canvas.panels.flat)
    for panel, (title, values) in zip(axes, shares, strict=False):
        panel.plot(order, values, marker="o", markersize=2.5, color=TARGET_COLOUR, linewidth=1.2)
        panel.set_title(title, fontsize=6.5)
        panel.set_ylim(0, max(10.0, 1.25 * max(values)))
    most = max([1.2 * abs(batch.differences[name]) for batch in batches for name in moved], default=0.0)
    for panel, name in zip(axes[len(shares) :], moved, strict=False):
        values = [batch.differences[name] for batch in batches]
        panel.axhspan(-BALANCED, BALANCED, color=SOURCE_COLOUR, alpha=0.15, linewidth=0)
        panel.axhline(0, color=INK, linewidth=0.7)
        far = abs(values[-1]) > BALANCED
        panel.plot(order, values, marker="o", markersize=2.5, color=HIGHLIGHT if far else TARGET_COLOUR, linewidth=1.2)
        panel.set_title(_in_two_lines(titles.get(name, name)), fontsize=6.5)
        panel.set_ylim(-max(most, 3 * BALANCED), max(most, 3 * BALANCED))
    for panel in axes[:panels]:
        panel.tick_params(labelsize=6.5)
        panel.locator_params(axis="y", nbins=3)
        panel.set_xticks([order[0], order[-1]])
    canvas.blank_from(panels)
    canvas.figure.supxlabel("batch, in the order scored", fontsize=7.5)
    told = "; ".join(f"{titles.get(name, name)} last {batches[-1].differences[name]:+.2f}" for name in moved)
    return canvas.svg("batches", "Batches that were scored", f"{len(batches)} batches. {told}.")


def _moved_most(batches: Sequence[Batch]) -> list[str]:
    """The features of every batch, those first that were furthest away in any."""
    shared = [name for name in batches[0].differences if all(name in batch.differences for batch in batches)]
    return sorted(shared, key=lambda name: -max(abs(batch.differences[name]) for batch in batches))[:FEATURES]


def _in_two_lines(title: str) -> str:
    """A title that fits above a panel; of a category, the category, which tells it from its sisters."""
    return "\n".join(wrap(title.rpartition(": ")[2], LONGEST, max_lines=2, placeholder=" …"))
