"""Which columns of an unknown file are the outcome, what in them means that it happened, and what gives it away."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
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
#: Values of an event column that mean that nothing had happened when the patient was last seen.
_NO_EVENT = re.compile(
    r"^(0|no|none|alive|censored?|lost|lost to follow.?up|withdrawn?|event.?free|dropout|active)$", re.I
)
#: A number that is one and the same for more patients than this is hardly one.
MOSTLY_ONE = 0.5
_TIMES = ("days", "weeks", "months", "years")
#: Fewer patients with the outcome, or without, accuse no column.
FEWEST = 10
#: A column whose values alone rank the patients so well by their outcome is a copy of it; from the lower on, one asks.
COPY, NEARLY = 0.99, 0.95
#: A column that holds the time of follow-up itself for this share of the patients counts from the same day.
SAME_CLOCK = 0.2
#: Parts of the horizon for which is said of how many patients the outcome is known.
_PARTS = (1.0, 0.75, 0.5, 0.25)
#: Bins of a number, where its relation to the outcome need not rise or fall.
_BINS = 20
_FOLLOWED = re.compile(
    r"^(time|t?te|fu|futime|fuptime|followup\w*|survival|surv(ival)?(time|days|months|years)|"
    r"(os|pfs|rfs|dfs|efs)(time|days|months|years)?|[dr]time|eventtime|deathtime|lastcontact|lastseen)$"
    r"|followup|(time|days|weeks|months|years)to(death|event|relapse|recurr\w*|progress\w*|failure|last\w*|censor\w*)"
)
#: How the name of an outcome ends beside the time of the same name: srv.s, pgstat, os_event.
_STATE = re.compile(r"(s|stat|status|event|ind|cens|censor)$")
#: Words of what happens to a patient later, and of a stay that ends with the outcome.
_LATER = re.compile(
    r"^(los|lengthofstay|stay|discharge\w*|dischtime|censor\w*|died|death\w*|dead|deceased|alive|vital|vitalstatus|"
    r"cause|relapse\w*|recur\w*|progress\w*)$"
)


@dataclass(frozen=True)
class Asked:
    """What a person says about a file.

    Attributes:
        outcome: The column with the outcome, unless it is given by
        time: the column with the time of follow-up, and
        event: the column that says whether it happened by then.
        horizon: Within what time it is predicted.
        id_column: The column with the patient's id.
        level: The risk from which the site acts.
        left_out: Columns that must not predict, because they are known only afterwards.
        competing: Values of the event that rule the outcome out; guessed where it has more than two.
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
    """What is taken for the outcome.

    Attributes:
        header: The column that says whether it happened.
        positive: The table's label that means that it did, and why.
        written: The file's own word for it.
        known: The patients of whom it is said (rows,).
        happened: The patients of whom it is said that it did (rows,).
        time_header: The column with the time of follow-up, if there is one.
        time: The time of follow-up (rows,).
        unit: Unit of that time, and why.
        horizon: Within what time; "" where that was neither said nor is needed.
        guessed: Whether nobody said the horizon.
        competing: The table's labels that rule the outcome out.
        competing_guessed: Whether nobody named these.
        ruled_out: The patients of whom one of these is said (rows,).
        kind: "binary", "classes" or "continuous", and why; of the last two, who is of the commonest class or above the
            median stands for `happened`.
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
        """The table's lines about it; `names` gives a header's name in the table."""
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
        """What was taken for the outcome, for a person to contradict."""
        if self.kind[0] != "binary":
            why = self.kind[1].removeprefix("guess (likely): ").removeprefix("guess (possible): ")
            what = "one of several classes" if self.kind[0] == "classes" else "a number"
            known = f"of {int(self.known.sum()):,} patients"
            return f"Outcome '{clean(self.header)}' is {what}, known {known}: {why}."
        why = self.positive[1]
        counts = f"to {int(self.happened.sum()):,} of {int(self.known.sum()):,} patients"
        words = f"Outcome '{clean(self.header)}': '{clean(self.written)}' means that it happened, {counts}"
        words += f"; {why}." if why else "."
        if self.time_header is None:
            return words
        unit, reason = self.unit
        origin = "a guess: name the time you need with --horizon" if self.guessed else "as was asked"
        return (
            f"{words} Follow-up '{clean(self.time_header)}' is in {unit}; {reason}. "
            f"Predicted is whether it happens within {self.horizon}, {origin}. {self._kept} {self._doubtful_times}"
        ).rstrip()

    @property
    def _kept(self) -> str:
        """Of how many patients the outcome is known at the horizon, and at earlier ones."""
        assert self.time is not None
        number, horizon_unit = self.horizon.split()
        each = factor(horizon_unit, self.unit[0], where="--horizon")
        ended = self.happened if self.ruled_out is None else self.happened | self.ruled_out
        nobody, time = np.zeros(len(ended), dtype=np.bool_), np.where(self.time < 0, np.nan, self.time)
        tried = {part: float(f"{float(number) * part:.2g}") if part < 1 else float(number) for part in _PARTS}
        followed = {part: FollowUp(time, ended, nobody, horizon * each) for part, horizon in tried.items()}
        shares = [f"{tried[part]:g} {horizon_unit} {np.isfinite(one.y).mean():.0%}" for part, one in followed.items()]
        censored = int(followed[1.0].censored.sum())
        competing = f" Competing events: {', '.join(map(clean, self.competing))}." if self.competing else ""
        return (
            f"{censored:,} patients left before it without an event, for whom the others are weighted; the outcome is "
            f"known of so many within: {', '.join(shares)}.{competing}"
        )

    @property
    def _doubtful_times(self) -> str:
        """What to ask about times that are below or at 0."""
        assert self.time is not None
        below, zero = int((self.time < 0).sum()), int((self.time == 0).sum())
        words = []
        if below:
            words.append(f"{below:,} times are below 0: these rows are set aside; ask how they came about.")
        if zero:
            at_once = int(((self.time == 0) & self.happened).sum())
            words.append(
                f"{zero:,} times are 0, {at_once:,} of them with the event: ask whether it had happened already, which "
                "is nothing to predict."
            )
        return " ".join(words)


def propose_outcome(asked: Asked, raw: pd.DataFrame) -> ProposedOutcome:
    """What the file holds of the outcome that was asked for; it is there, and says one of two things."""
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
    """An outcome of several labels or of numbers; a sentence where it is neither."""
    labels = text.dropna()
    infinite = int(np.isinf(pd.to_numeric(labels, errors="coerce")).sum())
    if infinite:
        raise DataError(
            f"the outcome '{clean(header)}' holds {infinite:,} infinite values, which nobody can predict; ask how they "
            "came about, and correct them in the file, or leave them empty where the outcome is not known"
        )
    numbers, _ = read_numbers(raw[header], raw.attrs, guess_codes(raw[header], raw.attrs))
    finite = np.isfinite(numbers)
    readable, different = int(finite.sum()), labels.nunique()
    whole = bool(readable) and bool((numbers[finite] == np.round(numbers[finite])).all())
    if readable == len(labels) and not (whole and different <= MOST_CLASSES):
        commonest = float(labels.value_counts(normalize=True).iloc[0])
        why = f"guess (likely): {different:,} different numbers"
        if commonest > MOSTLY_ONE:
            why += f", {commonest:.0%} of them one and the same, which a model of a number learns above all"
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
            f"the outcome '{clean(header)}' holds {readable:,} numbers and {len(labels) - readable:,} texts that are "
            "none; correct these in the file, or leave them empty where the outcome is not known"
        )
    raise DataError(
        f"the outcome '{clean(header)}' holds {different:,} different labels, and at most {MOST_CLASSES} classes can "
        "be predicted; join rare ones, or name another column"
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
            "below 0; name another column with --time, or ask how they came about"
        )
    horizon = outcome.horizon or f"{max(1, round(float(np.nanmedian(numbers))))} {unit[0]}"
    guessed = not outcome.horizon
    return replace(outcome, time_header=header, time=numbers, unit=unit, horizon=horizon, guessed=guessed)


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
            known = did_you_mean(clean(header), list(map(clean, names))[:40]) if are_names(names, ()) else ""
            raise UsageError(f"the file has no column '{clean(header)}'{known}")
    header = str(asked.outcome or asked.event)
    values = _labels(header, raw).dropna().nunique()
    if values < 2 or (values > MOST_ENDS and asked.time is not None):
        held = "one value" if values == 1 else f"{values:,} different values"
        raise DataError(
            f"the outcome '{clean(header)}' holds {held}, and must hold two; name another column, or make one that is "
            "1 where it happened and 0 where not"
        )


def _kinds_of_end(asked: Asked, text: pd.Series, header: str) -> tuple[tuple[str, str], tuple[str, ...]]:
    """The value that means that it happened, and why; and the values that rule it out: those named, or all others."""
    labels = sorted(map(str, text.unique()))
    named = tuple(plain_label(label) for label in asked.competing)
    if not set(named) <= set(labels):
        raise UsageError(f"--competing: column '{clean(header)}' holds no such value; name one of its own")
    if len(labels) - len(named) == 2:
        return _positive(text[~text.isin(named)], header), named
    events = [label for label in labels if label not in named and not _NO_EVENT.match(label)]
    if not events or len(events) + len(named) == len(labels):
        raise DataError(
            f"the event '{clean(header)}' holds {len(labels)} different values, and which of them mean that nothing "
            "had happened cannot be told; name those that rule the outcome out with --competing VALUE"
        )
    # Code 1 by custom, else what happened most often.
    outcome = "1" if "1" in events else str(text[text.isin(events)].mode().iloc[0])
    why = "guess (possible): the first code" if outcome == "1" else "guess (possible): the most frequent event"
    return (outcome, why), named or tuple(label for label in events if label != outcome)


def _labels(header: str, raw: pd.DataFrame) -> pd.Series:
    return as_text(raw[header], guess_codes(raw[header], raw.attrs)).map(plain_label, na_action="ignore")


def _time_unit(header: str, numbers: Doubles) -> tuple[str, str]:
    unit, _ = unit_in(f"x_{header}")
    if unit in _TIMES:
        return str(unit), "guess (likely): by its name"
    longest = float(np.nanmax(numbers))
    unit = "days" if longest > 400 else "months" if longest > 40 else "years"
    # One digit: the longest follow-up is a patient's own.
    about = float(f"{longest:.1g}")
    why = f"guess (possible): follow-up of up to about {about:,.0f}; 40 could be years, 400 months, more are days"
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
    yes = [label for label, (to, _) in meanings.items() if to == "1"]
    no = [label for label, (to, _) in meanings.items() if to == "0"]
    if len(yes) == 1:
        return yes[0], meanings[yes[0]][1]
    if len(no) == 1:
        return next(label for label in labels if label != no[0]), "guess (likely): the other is a no"
    return labels[-1], "guess (possible): the rarer of the two"


def find_leak(
    header: str, values: pd.Series, numbers: Doubles | None, outcome: ProposedOutcome, clocks: Sequence[Doubles]
) -> tuple[str, bool] | None:
    """Why a column may be known only after the outcome, and whether it is to be left out for that.

    Args:
        header: Its name in the file.
        values: Its values as text, missing where they are (rows,).
        numbers: Its values as numbers (rows,), None where it holds labels.
        outcome: What is to be predicted.
        clocks: Times of follow-up that the file holds, each (rows,).
    """
    if numbers is not None and names_follow_up(header, outcome.header):
        command = f"--time {clean(header)} --event {clean(outcome.header)} --horizon TIME"
        advice = f"; to predict within a time, give {command}" if outcome.time_header is None else ""
        return f"a time of follow-up, known only afterwards{advice}", True
    if numbers is not None and any(_same_clock(numbers, clock) for clock in clocks):
        return "it is the time of follow-up itself for many patients, and so known only afterwards", True
    ranked = _rank_by(values, numbers, outcome)
    if ranked >= COPY:
        why = "by itself it tells the outcome of nearly every patient, as what is known only afterwards does"
        return why, True
    if ranked >= NEARLY:
        return "by itself it tells the outcome of most patients", False
    words = split_words(header)
    if any(_LATER.match(word) for word in (*words, "".join(words))):
        return "its name is that of something later than the outcome, or of the outcome itself", False
    return None


def names_follow_up(header: str, outcome: str) -> bool:
    """Whether a column is a time of follow-up by its name: futime, time_to_relapse, srv beside the outcome srv.s."""
    name, state = "".join(split_words(header)), "".join(split_words(outcome))
    stem = _STATE.sub("", state)
    return _FOLLOWED.search(name) is not None or (1 < len(stem) < len(state) and name in (stem, f"{stem}time"))


def names_outcome(header: str) -> bool:
    """Whether a column is an outcome by its name: died, death_30d, outcome, event."""
    words = split_words(header)
    return any(_LATER.match(word) or word in {"outcome", "event", "status", "label", "target"} for word in words)


def _same_clock(numbers: Doubles, time: Doubles) -> bool:
    both = np.isfinite(numbers) & np.isfinite(time)
    same = both & (numbers == time)
    # Small numbers agree by chance: it is many different times that must be the same.
    return len(np.unique(numbers[same])) > _BINS and int(same.sum()) >= SAME_CLOCK * int(both.sum())


def _rank_by(values: pd.Series, numbers: Doubles | None, outcome: ProposedOutcome) -> float:
    """How well a column alone ranks the patients by their outcome, being missing included: .5 not at all, 1 wholly."""
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
