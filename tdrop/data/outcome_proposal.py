"""Finds the outcome in an unknown file: its columns, the value that means it happened, and columns that leak it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.base import MOST_CLASSES, DataError, Doubles, UsageError, did_you_mean
from tdrop.contracts import Column, plain_label, require_horizon
from tdrop.data.censoring import FollowUp
from tdrop.data.columns import are_answers, guess_codes, read_numbers
from tdrop.data.hints import clean, guess_labels
from tdrop.data.names import are_names, split_words, title_of, unit_in
from tdrop.data.units import factor
from tdrop.data.values import YES, as_text

#: Above this share of negative values a column is no time of follow-up.
MOST_NEGATIVE = 0.02
#: An event has at most so many kinds of end.
MOST_ENDS = 12
#: Values of an event column that mean that no event had happened when the patient was last seen.
_NO_EVENT = re.compile(
    r"^(0|no|none|alive|censored?|lost|lost to follow.?up|withdrawn?|event.?free|dropout|active)$", re.I
)
#: A numeric outcome with the same value for more than this share of the patients gets a remark.
MOSTLY_ONE = 0.5
_TIMES = ("days", "weeks", "months", "years")
#: With fewer patients with the outcome, or without it, no column counts as a leak.
FEWEST = 10
#: AUROC of a single column from which it is left out as a copy of the outcome, and from which it is questioned.
COPY, NEARLY = 0.99, 0.95
#: A column that equals the time of follow-up for this share of the patients measures the same time.
SAME_CLOCK = 0.2
#: Parts of the horizon for which the share of known outcomes is shown.
_PARTS = (1.0, 0.75, 0.5, 0.25)
#: Bins of a number whose relation to the outcome may rise and fall.
_BINS = 20
_FOLLOWED = re.compile(
    r"^(time|t?te|fu|futime|fuptime|followup\w*|survival|surv(ival)?(time|days|months|years)|"
    r"(os|pfs|rfs|dfs|efs)(time|days|months|years)?|[dr]time|eventtime|deathtime|lastcontact|lastseen)$"
    r"|followup|(time|days|weeks|months|years)to(death|event|relapse|recurr\w*|progress\w*|failure|last\w*|censor\w*)"
)
#: Ends of an outcome's name next to a time with the same beginning: srv.s, pgstat, os_event.
_STATE = re.compile(r"(s|stat|status|event|ind|cens|censor)$")
#: Words for what happens to a patient later, and for a stay that ends with the outcome.
_LATER = re.compile(
    r"^(los|lengthofstay|stay|discharge\w*|dischtime|censor\w*|died|death\w*|dead|deceased|alive|vital|vitalstatus|"
    r"cause|relapse\w*|recur\w*|progress\w*)$"
)


@dataclass(frozen=True)
class Asked:
    """What a person states about a file.

    Attributes:
        outcome: The column with the outcome; or instead `time` and `event`.
        time: The column with the time of follow-up.
        event: The column that says whether the outcome happened by then.
        horizon: Within what time the outcome is predicted.
        id_column: The column with the patient's id.
        level: The risk from which the site acts.
        left_out: Columns that must not predict, because they are known only after the outcome.
        competing: Values of `event` that rule the outcome out; guessed where it has more than two values.
    """

    outcome: str | None = None
    time: str | None = None
    event: str | None = None
    horizon: str | None = None
    id_column: str | None = None
    level: float | None = None
    left_out: tuple[str, ...] = ()
    competing: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProposedOutcome:
    """The proposed outcome.

    Attributes:
        header: The column that says whether it happened.
        positive: The table's label that means that it happened, and why.
        written: The same label as the file writes it.
        known: Whose outcome is known (rows,).
        happened: To whom it happened (rows,); for classes and numbers, who is of the commonest class or above the
            median.
        time_header: The column with the time of follow-up, if there is one.
        time: The time of follow-up (rows,).
        unit: Unit of that time, and why.
        horizon: Within what time; "" where there is none.
        guessed: Whether the horizon is a guess.
        competing: The table's labels that rule the outcome out.
        competing_guessed: Whether these are a guess.
        ruled_out: Who has one of these labels (rows,).
        kind: "binary", "classes" or "continuous", and why.
    """

    header: str
    positive: tuple[str, str]
    written: str
    known: NDArray[np.bool_]
    happened: NDArray[np.bool_]
    time_header: str | None = None
    time: Doubles | None = None
    unit: tuple[str, str] = ("", "")
    horizon: str = ""
    guessed: bool = False
    competing: tuple[str, ...] = ()
    competing_guessed: bool = False
    ruled_out: NDArray[np.bool_] | None = None
    kind: tuple[str, str] = ("binary", "")

    @property
    def headers(self) -> tuple[str, ...]:
        """The headers that hold it."""
        return (self.header,) if self.time_header is None else (self.time_header, self.header)

    def lines(self, names: Mapping[str, str]) -> list[str]:
        """The lines of the table's YAML about it; `names` has the column's name by header."""
        name, (positive, why) = names[self.header], self.positive
        title = title_of(self.header) or self.header
        lines = ["outcome:", f"  name: {name}", f"  title: {json.dumps(title, ensure_ascii=False)}"]
        if self.kind[0] != "binary":
            return [*lines, f"  kind: {self.kind[0]}    # {self.kind[1]}", f"  column: {name}"]
        if self.time_header is None:
            lines.append(f"  column: {name}")
        else:
            lines += [f"  time: {names[self.time_header]}", f"  event: {name}"]
        if self.horizon:
            remark = "    # guess: half of the patients were followed for less; name the one you need"
            lines.append(f"  horizon: {self.horizon}" + (remark if self.guessed else ""))
        if self.competing:
            labels = json.dumps(list(self.competing), ensure_ascii=False)
            remark = "    # guess: events that rule the outcome out; it is then 0" if self.competing_guessed else ""
            lines.append(f"  competing: {labels}{remark}")
        return [*lines, f"  positive: {json.dumps(positive, ensure_ascii=False)}" + (f"    # {why}" if why else "")]

    @property
    def sentence(self) -> str:
        """The proposed outcome in words, so that a person can correct it."""
        if self.kind[0] != "binary":
            what = "one of several classes" if self.kind[0] == "classes" else "a number"
            known = f"known for {int(self.known.sum()):,} patients"
            return f"Outcome '{clean(self.header)}' is {what}, {known}: {without_guess(self.kind[1])}."
        why = self.positive[1]
        counts = f"to {int(self.happened.sum()):,} of {int(self.known.sum()):,} patients"
        words = f"Outcome '{clean(self.header)}': '{clean(self.written)}' means that it happened, {counts}"
        words += f"; {why}." if why else "."
        if self.time_header is None or self.time is None:
            return words
        unit, reason = self.unit
        origin = "a guess: set the time you need with --horizon" if self.guessed else "as you asked"
        return (
            f"{words} Follow-up '{clean(self.time_header)}' is in {unit}; {reason}. The prediction is whether it "
            f"happens within {self.horizon}, {origin}. {' '.join(self._describe_follow_up(self.time))}"
        )

    def _describe_follow_up(self, time: Doubles) -> Iterator[str]:
        """Yields sentences about who left early, the share of known outcomes by horizon, and times at or below 0."""
        number, horizon_unit = self.horizon.split()
        in_unit_of_time = factor(horizon_unit, self.unit[0], where="--horizon")
        ended = self.happened if self.ruled_out is None else self.happened | self.ruled_out
        nobody, valid_time = np.zeros(len(ended), dtype=np.bool_), np.where(time < 0, np.nan, time)
        horizons = [float(f"{float(number) * part:.2g}") if part < 1 else float(number) for part in _PARTS]
        follow_ups = [FollowUp(valid_time, ended, nobody, horizon * in_unit_of_time) for horizon in horizons]
        shares = [
            f"{np.isfinite(follow_up.y).mean():.0%} within {horizon:g} {horizon_unit}"
            for horizon, follow_up in zip(horizons, follow_ups, strict=True)
        ]
        yield (
            f"{int(follow_ups[0].censored.sum()):,} patients left before it without an event; the outcomes of the "
            f"others are weighted to represent them. The outcome is known for {', '.join(shares)}."
        )
        if self.competing:
            yield f"Competing events: {', '.join(map(clean, self.competing))}."
        if below := int((time < 0).sum()):
            yield f"{below:,} times are below 0: these rows are set aside; ask the site why."
        if zero := int((time == 0).sum()):
            happened = int(((time == 0) & self.happened).sum())
            yield (
                f"{zero:,} times are 0, {happened:,} of them with the event: ask whether it had already happened; then "
                "there is nothing to predict."
            )


def without_guess(why: str) -> str:
    """Removes the mark `guess (likely): ` from the evidence for a guess."""
    return re.sub(r"^guess \(\w+\): ", "", why)


def propose_outcome(asked: Asked, raw: pd.DataFrame) -> ProposedOutcome:
    """Returns the outcome in the columns that a person named; an error where they hold none."""
    _check(asked, raw)
    header = str(asked.outcome or asked.event)
    text = _labels(header, raw)
    if asked.time is None and text.dropna().nunique() > 2:
        return _other_kind(header, text, raw)
    positive, ends = _kinds_of_end(asked, text.dropna(), header)
    # 1 also stands for yes and true where those are read so.
    labels = {positive[0], *(label for label in text.dropna().unique() if positive[0] == "1" and label.lower() in YES)}
    known = text.notna().to_numpy(dtype=bool)
    happened = text.isin(labels).to_numpy(dtype=bool)
    written = str(text[happened].mode().iloc[0])
    ruled_out = text.isin(ends).to_numpy(dtype=bool)
    outcome = ProposedOutcome(
        *(header, positive, written, known, happened),
        horizon=asked.horizon or "",
        competing=ends,
        competing_guessed=not asked.competing,
        ruled_out=ruled_out,
    )
    return outcome if asked.time is None else _with_time(outcome, asked.time, raw)


def _other_kind(header: str, text: pd.Series, raw: pd.DataFrame) -> ProposedOutcome:
    """An outcome of several labels or of numbers; an error where it is neither."""
    labels = text.dropna()
    infinite = int(np.isinf(pd.to_numeric(labels, errors="coerce")).sum())
    if infinite:
        raise DataError(
            f"the outcome '{clean(header)}' holds {infinite:,} infinite values, which no model can predict; correct "
            "them in the file, or leave them empty where the outcome is not known"
        )
    numbers, _ = read_numbers(raw[header], raw.attrs, guess_codes(raw[header], raw.attrs))
    finite = np.isfinite(numbers)
    readable, different = int(finite.sum()), labels.nunique()
    whole = bool(readable) and bool((numbers[finite] == np.round(numbers[finite])).all())
    if readable == len(labels) and not (whole and different <= MOST_CLASSES):
        commonest = float(labels.value_counts(normalize=True).iloc[0])
        why = f"guess (likely): {different:,} different numbers"
        if commonest > MOSTLY_ONE:
            why += f"; {commonest:.0%} of the patients have the same one, which a model then mostly predicts"
        above = np.where(finite, numbers > np.nanmedian(numbers), False)
        return ProposedOutcome(header, ("", ""), "", finite, above, kind=("continuous", why))
    if different <= MOST_CLASSES:
        sure = "possible" if readable == len(labels) else "likely"
        why = f"guess ({sure}): {different} different {'whole numbers' if readable == len(labels) else 'labels'}"
        first = labels.mode().iloc[0]
        known = text.notna().to_numpy(dtype=bool)
        return ProposedOutcome(header, ("", ""), "", known, text.eq(first).to_numpy(), kind=("classes", why))
    if readable > len(labels) // 2:
        raise DataError(
            f"the outcome '{clean(header)}' holds {readable:,} numbers and {len(labels) - readable:,} other texts; "
            "correct these in the file, or leave them empty where the outcome is not known"
        )
    raise DataError(
        f"the outcome '{clean(header)}' holds {different:,} different labels, and at most {MOST_CLASSES} classes can "
        "be predicted; join rare labels, or name another column"
    )


def _with_time(outcome: ProposedOutcome, header: str, raw: pd.DataFrame) -> ProposedOutcome:
    numbers, _ = read_numbers(raw[header], raw.attrs, guess_codes(raw[header], raw.attrs))
    if not np.isfinite(numbers).any():
        raise DataError(f"column '{clean(header)}' holds no number: name the time of follow-up with --time")
    unit = _time_unit(header, numbers)
    if (numbers[np.isfinite(numbers)] < 0).mean() > MOST_NEGATIVE:
        below = int((numbers < 0).sum())
        raise DataError(
            f"column '{clean(header)}' should be a time of follow-up, but {below:,} of {len(numbers):,} values are "
            "below 0; name another column with --time, or ask the site why"
        )
    outcome = replace(outcome, time_header=header, time=numbers, unit=unit)
    if outcome.horizon:
        return outcome
    median = max(1, round(float(np.nanmedian(numbers))))
    return replace(outcome, horizon=f"{median} {unit[0]}", guessed=True)


def _check(asked: Asked, raw: pd.DataFrame) -> None:
    try:
        require_horizon(asked.horizon or "1 year")
    except ValueError as error:
        raise UsageError(f"--horizon cannot be used: {error}") from None
    if (asked.time is None) != (asked.event is None) or (asked.outcome is None) == (asked.time is None):
        raise UsageError("say which column is the outcome: --outcome COLUMN, or both --time COLUMN and --event COLUMN")
    for header in (asked.outcome, asked.time, asked.event, asked.id_column):
        if header is not None and header not in raw.columns:
            names = [str(name) for name in raw.columns]
            similar = did_you_mean(clean(header), list(map(clean, names))[:40]) if are_names(names, ()) else ""
            raise UsageError(f"the file has no column '{clean(header)}'{similar}")
    header = str(asked.outcome or asked.event)
    values = _labels(header, raw).dropna().nunique()
    if values < 2 or (values > MOST_ENDS and asked.time is not None):
        count = "one value" if values == 1 else f"{values:,} different values"
        raise DataError(
            f"the outcome '{clean(header)}' holds {count}, and must hold two; name another column, or make one that is "
            "1 where it happened and 0 where not"
        )


def _kinds_of_end(asked: Asked, text: pd.Series, header: str) -> tuple[tuple[str, str], tuple[str, ...]]:
    """Returns the value that means that it happened, and why; and the competing values, by default all other events."""
    labels = sorted(map(str, text.unique()))
    competing = tuple(plain_label(label) for label in asked.competing)
    if not set(competing) <= set(labels):
        raise UsageError(f"--competing: column '{clean(header)}' holds no such value; give one that it holds")
    if len(labels) - len(competing) == 2:
        return _positive(text[~text.isin(competing)], header), competing
    events = [label for label in labels if label not in competing and not _NO_EVENT.match(label)]
    if not events or len(events) + len(competing) == len(labels):
        raise DataError(
            f"the event '{clean(header)}' holds {len(labels)} different values, and it is not clear which of them mean "
            "that nothing had happened; give those that rule the outcome out with --competing VALUE"
        )
    # By custom code 1 is the event of interest; without it, take the most frequent event.
    outcome = "1" if "1" in events else str(text[text.isin(events)].mode().iloc[0])
    why = "guess (possible): the first code" if outcome == "1" else "guess (possible): the most frequent event"
    return (outcome, why), competing or tuple(label for label in events if label != outcome)


def _labels(header: str, raw: pd.DataFrame) -> pd.Series:
    return as_text(raw[header], guess_codes(raw[header], raw.attrs)).map(plain_label, na_action="ignore")


def _time_unit(header: str, numbers: Doubles) -> tuple[str, str]:
    unit, _ = unit_in(f"x_{header}")
    if unit in _TIMES:
        return str(unit), "guess (likely): by its name"
    longest = float(np.nanmax(numbers))
    unit = "days" if longest > 400 else "months" if longest > 40 else "years"
    # Rounded to one digit, because the longest follow-up is a patient's value.
    about = float(f"{longest:.1g}")
    why = f"guess (possible): follow-up of up to about {about:,.0f}; up to 40 would be years, up to 400 months"
    return unit, why


def _positive(text: pd.Series, header: str) -> tuple[str, str]:
    """Which of two labels means that it happened, and why."""
    if are_answers(text):
        return "1", ""
    labels = [str(label) for label in text.value_counts().index]
    if {label.lower() for label in labels} == {"a", "d"}:
        return next(label for label in labels if label.lower() == "d"), "guess (likely): A for alive, D for dead"
    binary = Column(name=re.sub(r"\W", "_", header)[:40] if re.match(r"[A-Za-z]", header) else "x", type="binary")
    meanings = guess_labels(labels, binary)
    yes = [label for label, (meaning, _) in meanings.items() if meaning == "1"]
    no = [label for label, (meaning, _) in meanings.items() if meaning == "0"]
    if len(yes) == 1:
        return yes[0], meanings[yes[0]][1]
    if len(no) == 1:
        return next(label for label in labels if label != no[0]), "guess (likely): the other is a no"
    return labels[-1], "guess (possible): the rarer of the two"


def find_leak(
    header: str, values: pd.Series, numbers: Doubles | None, outcome: ProposedOutcome, clocks: Sequence[Doubles]
) -> tuple[str, bool] | None:
    """Returns why a column may be known only after the outcome, and whether to leave it out; None if nothing says so.

    Args:
        header: Its name in the file.
        values: Its values as text, missing where they are missing in the file (rows,).
        numbers: Its values as numbers (rows,); None for labels.
        outcome: The proposed outcome.
        clocks: The file's times of follow-up, each (rows,).
    """
    if numbers is not None and is_follow_up_name(header, outcome.header):
        command = f"--time {clean(header)} --event {clean(outcome.header)} --horizon TIME"
        advice = f"; to predict within a time, give {command}" if outcome.time_header is None else ""
        return f"a time of follow-up, known only afterwards{advice}", True
    if numbers is not None and any(_same_clock(numbers, clock) for clock in clocks):
        return "it equals the time of follow-up for many patients, so it is known only afterwards", True
    auroc = _auroc_alone(values, numbers, outcome)
    if auroc >= COPY:
        return "by itself it predicts the outcome of nearly every patient, so it may be known only afterwards", True
    if auroc >= NEARLY:
        return "by itself it predicts the outcome of most patients", False
    words = split_words(header)
    if any(_LATER.match(word) for word in (*words, "".join(words))):
        return "by its name it is the outcome, or something later", False
    return None


def is_follow_up_name(header: str, outcome: str) -> bool:
    """Whether a column is a time of follow-up by its name: futime, time_to_relapse, srv next to the outcome srv.s."""
    name, state = "".join(split_words(header)), "".join(split_words(outcome))
    stem = _STATE.sub("", state)
    return _FOLLOWED.search(name) is not None or (1 < len(stem) < len(state) and name in (stem, f"{stem}time"))


def is_outcome_name(header: str) -> bool:
    """Whether a column is an outcome by its name: died, death_30d, outcome, event."""
    words = split_words(header)
    return any(_LATER.match(word) or word in {"outcome", "event", "status", "label", "target"} for word in words)


def _same_clock(numbers: Doubles, time: Doubles) -> bool:
    both = np.isfinite(numbers) & np.isfinite(time)
    same = both & (numbers == time)
    # Small numbers are equal by chance: require many different times.
    return len(np.unique(numbers[same])) > _BINS and int(same.sum()) >= SAME_CLOCK * int(both.sum())


def _auroc_alone(values: pd.Series, numbers: Doubles | None, outcome: ProposedOutcome) -> float:
    """The AUROC of a column by itself, missing values included."""
    from sklearn.metrics import roc_auc_score

    happened = outcome.happened[outcome.known]
    if min(int(happened.sum()), int((~happened).sum())) < FEWEST:
        return 0.5
    kinds = values[outcome.known].reset_index(drop=True)
    if numbers is not None:
        kinds = pd.qcut(pd.Series(numbers[outcome.known]), _BINS, labels=False, duplicates="drop")
    shares = pd.Series(happened, dtype=float).groupby(kinds, dropna=False).transform("mean")
    ranked = float(roc_auc_score(happened, shares))
    if numbers is None or not np.isfinite(numbers[outcome.known]).all():
        return ranked
    rising = float(roc_auc_score(happened, numbers[outcome.known]))
    return max(ranked, rising, 1.0 - rising)
