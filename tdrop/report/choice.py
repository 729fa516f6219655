"""The tables behind the choice of a method: what was compared, and with which settings."""

from __future__ import annotations

from collections.abc import Sequence

from tdrop.choose import ChoiceRow, Trial
from tdrop.methods import COMMITTEE
from tdrop.report.data import ReportData
from tdrop.report.tables import Cell, Table, cells
from tdrop.report.text import NOTHING, count, listed, method_label, number, write_out


def choice_table(data: ReportData) -> Table:
    """How the method was chosen, without outcomes of this site."""
    rows = data.choice.table
    head = ("Method", "Log loss", "Behind the best", "Matched log loss", "Source AUROC", "Source error AUROC by sd",
            "Can be chosen")  # fmt: skip
    note = (
        "All of it on source patients who took no part in the fit; the first two columns weigh them to resemble this "
        "site's, “matched” ones were picked to look like these. A method that gives one number a patient, without an "
        "interval, is shown and cannot be chosen."
    )
    if any(row.behind is not None and row.behind < 0 for row in rows):
        note += " A method behind by less than 0 leads, though not by as much as it would have to."
    methods = [row.method for row in rows]
    marked = methods.index(data.method) if data.method in methods else None
    lines = tuple(_choice_line(row, picked_trial(data.tuning.get(row.method, ()))) for row in rows)
    return Table("choice", "How the method was chosen", head, lines, note, marked)


def _choice_line(row: ChoiceRow, trial: Trial | None) -> tuple[Cell, ...]:
    error = row.behind_error
    return cells(
        method_label(row.method),
        number(row.log_loss, 4),
        Cell(number(row.behind, 4), beside=f"± {number(error, 4)}" if error else ""),
        number(row.matched_log_loss, 4),
        Cell(number(trial.auroc), f"{count(trial.n)} patients") if trial else NOTHING,
        Cell(number(trial.error_auroc), f"{count(trial.errors)} errors") if trial else NOTHING,
        "yes" if row.candidate else "no",
    )


def settings_table(data: ReportData) -> Table | None:
    """The settings that each method was refitted with; None without trials."""
    picked = {method: picked_trial(trials) for method, trials in data.tuning.items()}
    lines = tuple(
        cells(method_label(method), *_settings_of(trial, len(data.tuning[method])))
        for method, trial in picked.items()
        if trial is not None
    )
    head = ("Method", "Trials", "Steps", "Settings")
    return Table("settings", "Settings of the winning trials", head, lines, prose=("Settings",)) if lines else None


def _settings_of(trial: Trial, trials: int) -> tuple[str, str, str]:
    """Trials, steps and settings; a committee has members instead."""
    if trial.method == COMMITTEE:
        return NOTHING, NOTHING, f"the mean of {listed([method_label(name) for name in trial.settings['members']])}"
    return count(trials), count(trial.steps), write_out(trial.settings)


def picked_trial(trials: Sequence[Trial]) -> Trial | None:
    """Returns the trial that the refit used: the one marked so, or else the one of lowest log loss; None without."""
    marked = [trial for trial in trials if trial.picked]
    scored = [(trial.log_loss, place) for place, trial in enumerate(trials) if trial.log_loss is not None]
    if marked or not scored:
        return marked[0] if marked else None
    return trials[min(scored)[1]]
