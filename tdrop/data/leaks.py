"""Columns of an unknown file that are known only after the outcome: a model that saw them would predict the past."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.base import Doubles
from tdrop.data.hints import clean
from tdrop.data.names import split_words
from tdrop.data.propose_outcome import ProposedOutcome

#: Fewer patients with the outcome, or without, accuse no column.
FEWEST = 10
#: A column whose values alone rank the patients so well by their outcome is a copy of it; from the lower on, one asks.
COPY, NEARLY = 0.99, 0.95
#: A column that holds the time of follow-up itself for this share of the patients counts from the same day.
SAME_CLOCK = 0.2
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
class Leak:
    """Why a column may be known only afterwards, and whether it is to be left out."""

    why: str
    certain: bool


def find_leak(
    header: str, values: pd.Series, numbers: Doubles | None, outcome: ProposedOutcome, clocks: Sequence[Doubles]
) -> Leak | None:
    """What speaks against predicting with a column.

    Args:
        header: Its name in the file.
        values: Its values as text, missing where they are (rows,).
        numbers: Its values as numbers (rows,), None where it holds labels.
        outcome: What is to be predicted.
        clocks: Times of follow-up that the file holds, each (rows,).
    """
    words = split_words(header)
    if numbers is not None and names_follow_up(header, outcome.header):
        return Leak(f"a time of follow-up, known only afterwards{_advice(header, outcome)}", True)
    if numbers is not None and any(_same_clock(numbers, clock) for clock in clocks):
        return Leak("it is the time of follow-up itself for many patients, and so known only afterwards", True)
    told = _told(values, numbers, outcome)
    if told >= COPY:
        return Leak(
            "by itself it tells the outcome of nearly every patient, as what is known only afterwards does", True
        )
    if told >= NEARLY:
        return Leak("by itself it tells the outcome of most patients", False)
    if any(_LATER.match(word) for word in (*words, "".join(words))):
        return Leak("its name is that of something later than the outcome, or of the outcome itself", False)
    return None


def names_follow_up(header: str, outcome: str) -> bool:
    """Whether a column is a time of follow-up by its name: futime, time_to_relapse, srv beside the outcome srv.s."""
    name, state = "".join(split_words(header)), "".join(split_words(outcome))
    stem = _STATE.sub("", state)
    return _FOLLOWED.search(name) is not None or (1 < len(stem) < len(state) and name in (stem, f"{stem}time"))


def _advice(header: str, outcome: ProposedOutcome) -> str:
    if outcome.time_header is not None:
        return ""
    return f"; to predict within a time, give --time {clean(header)} --event {clean(outcome.header)} --horizon TIME"


def _same_clock(numbers: Doubles, time: Doubles) -> bool:
    both = np.isfinite(numbers) & np.isfinite(time)
    same = both & (numbers == time)
    # Small numbers agree by chance: it is many different times that must be the same.
    return len(np.unique(numbers[same])) > _BINS and int(same.sum()) >= SAME_CLOCK * int(both.sum())


def _told(values: pd.Series, numbers: Doubles | None, outcome: ProposedOutcome) -> float:
    """How well a column alone ranks the patients by their outcome, being missing included: .5 not at all, 1 wholly."""
    happened = outcome.happened[outcome.known]
    if min(int(happened.sum()), int((~happened).sum())) < FEWEST:
        return 0.5
    kinds = values[outcome.known].reset_index(drop=True)
    if numbers is not None:
        kinds = pd.qcut(pd.Series(numbers[outcome.known]), _BINS, duplicates="drop").astype("str")
    shares = pd.Series(happened, dtype=float).groupby(kinds.fillna("(missing)")).transform("mean")
    ranked = _area(shares.to_numpy(dtype=np.float64), happened)
    if numbers is None or not np.isfinite(numbers[outcome.known]).all():
        return ranked
    rising = _area(numbers[outcome.known], happened)
    return max(ranked, rising, 1.0 - rising)


def _area(scores: Doubles, happened: NDArray[np.bool_]) -> float:
    """The share of pairs of patients, one with the outcome and one without, that scores (rows,) rank rightly."""
    ranks = pd.Series(scores).rank().to_numpy(dtype=np.float64)
    positives = int(happened.sum())
    above = float(ranks[happened].sum()) - positives * (positives + 1) / 2
    return above / (positives * (len(happened) - positives))
