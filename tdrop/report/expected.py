"""What was forecast for a site before any outcome, in words; and once outcomes are known, whether it held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tdrop.forecast import Answer, Forecast, Observation, Quantity, TrackRecord
from tdrop.report.data import ReportData
from tdrop.report.tables import Cell, Table
from tdrop.report.text import NOTHING, count, method_label, number, share

#: What no forecast without outcomes can see.
CANNOT_KNOW = "It cannot know whether patients with the same findings fare otherwise here; only outcomes show that."


@dataclass(frozen=True)
class Expectation:
    """One number of the first screen.

    Attributes:
        title: What it is, in plain words.
        value: The forecast.
        interval: Its interval.
        observed: What the outcomes showed, and whether that lies inside; empty before they are known.
        about: What must be known to read it; empty where nothing must.
    """

    title: str
    value: str
    interval: str
    observed: str
    about: str = ""


def _hundredths(value: float) -> str:
    return f"{100 * value:.0f}"


def _decimals(value: float) -> str:
    return number(value, 2)


def _percent(value: float) -> str:
    return share(value, 0)


#: By number of the appendix, its title and how it is written: no finer than the page of a site that hides counts may.
_COLUMNS: dict[Quantity, tuple[str, Callable[[float], str]]] = {
    "auroc": ("AUROC", _decimals),
    "error_rate": ("Error rate", _percent),
    "net_benefit": ("Net benefit", _decimals),
    "brier": ("Brier score", _decimals),
    "outcomes": ("Patients with the outcome", _percent),
}


def expectations(data: ReportData) -> list[Expectation]:
    """Returns the chosen method's forecast for the first screen; nothing where there is none."""
    forecast = data.forecast
    if forecast is None:
        return []
    titles: dict[Quantity, str] = {
        "auroc": "Ranks two patients rightly",
        "error_rate": f"Wrong when acting from {share(forecast.threshold, 0)} risk",
        "outcomes": "Will have the outcome",
    }
    found = []
    for quantity, title in titles.items():
        answer = forecast.find(data.method, quantity)
        if answer is not None and answer.value is not None and answer.low is not None and answer.high is not None:
            interval = f"{_hundredths(answer.low)} to {_hundredths(answer.high)}"
            told = _observed(observation(data, data.method, quantity))
            about = in_vain(data) if quantity == "error_rate" else ""
            found.append(Expectation(title, f"{_hundredths(answer.value)} in 100", interval, told, about))
    return found


def in_vain(data: ReportData) -> str:
    """Says which errors a level makes, by the risks themselves: a low one acts on many without need."""
    level, risk = data.site.decision.threshold, data.predictions[data.method][0].mean.astype(float)
    vain, missed = float((1 - risk)[risk >= level].sum()), float(risk[risk < level].sum())
    if not vain + missed:
        return ""
    # To a twentieth: the risks do not know it better, and one patient more or less does not show.
    twentieths = round(20 * vain / (vain + missed))
    if twentieths in (0, 20):
        return f"nearly all of these {'acted on without need' if twentieths else 'missed'}"
    return f"about {5 * twentieths} in 100 of these acted on without need, the others missed"


def observation(data: ReportData, method: str, quantity: Quantity) -> Observation | None:
    """What outcomes showed of one sealed number; None before they came."""
    found = (one for one in data.observations if one.method == method and one.quantity == quantity)
    return next(found, None)


def _observed(one: Observation | None) -> str:
    if one is None:
        return ""
    return f"observed {_hundredths(one.observed)}: {'inside' if one.inside else 'outside'} the interval"


def forecast_sentence(data: ReportData) -> str:
    """Says where the forecast comes from and, in the same breath, what it cannot know; empty without one."""
    forecast = data.forecast
    if forecast is None:
        return ""
    made = (
        "Forecast before any outcome of this site was opened, from source patients weighed to resemble these "
        f"({share(forecast.level, 0)} intervals)."
    )
    return f"{made} {CANNOT_KNOW}"


def forecast_table(data: ReportData) -> Table | None:
    """Every method's forecast, and what was observed; None without a forecast."""
    forecast = data.forecast
    if forecast is None:
        return None
    methods = list(dict.fromkeys(answer.method for answer in forecast.answers))
    lines = tuple(_line(data, forecast, method) for method in methods)
    marked = methods.index(data.method) if data.method in methods else None
    head = ("Method", *(title for title, _ in _COLUMNS.values()))
    note = (
        f"Error rate and net benefit at the decision level of {share(forecast.threshold, 0)}. Below each number its "
        f"{share(forecast.level, 0)} interval and, where outcomes are known, what was observed."
    )
    return Table("forecast", "What was expected of each method before any outcome", head, lines, note, marked)


def _line(data: ReportData, forecast: Forecast, method: str) -> tuple[Cell, ...]:
    cells = [Cell(method_label(method))]
    for quantity, (_, write) in _COLUMNS.items():
        cells.append(_cell(forecast.find(method, quantity), observation(data, method, quantity), write))
    return tuple(cells)


def _cell(answer: Answer | None, seen: Observation | None, write: Callable[[float], str]) -> Cell:
    if answer is None or answer.value is None:
        return Cell(NOTHING)
    below = "" if answer.low is None or answer.high is None else f"{write(answer.low)} to {write(answer.high)}"
    if seen is not None:
        below += f"; observed {write(seen.observed)}, {'inside' if seen.inside else 'outside'}"
    return Cell(write(answer.value), below.removeprefix("; "))


def track_sentence(track: TrackRecord | None) -> str:
    """Says over all sites how often forecasts held; empty before any was sealed."""
    if track is None or not track.sealed:
        return ""
    one = track.sites == 1
    told = f"Forecasts are sealed for {count(track.sites)} {'site' if one else 'sites'} before outcomes are opened."
    if not track.opened or track.share_low is None or track.share_high is None or track.mean_error is None:
        return f"{told} How often they held is counted by audits, of which there was none yet."
    return (
        f"{told} Outcomes have come at {count(track.opened)}: the observed AUROC of the chosen method lay inside its "
        f"interval at {count(track.inside)} of {count(track.opened)} ({share(track.inside / track.opened, 0)}; 95% "
        f"interval {share(track.share_low, 0)} to {share(track.share_high, 0)}), on average "
        f"{number(track.mean_error, 2)} from the forecast."
    )
