"""Columns of an unknown file that are known only after the outcome: a model that saw them would predict the past."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.data.hints import clean
from tdrop.data.names import split_words
from tdrop.data.propose_outcome import ProposedOutcome
from tdrop.types import Doubles

#: Fewer patients with the outcome, or without, accuse no column.
FEWEST = 10
#: A column whose values alone rank the patients so well by their outcome is a copy of it; from the lower on, one asks.
COPY, NEARLY = 0.99, 0.95
#: A column that holds the time of follow-up itself for this share of the patients counts from the same day.
SAME_CLOCK = 0.2
#: Bins of a number, where its relation to the outcome need not rise or fall.
_BINS = 20
_FOLLOWED = re.compile(
    r"^(time|t?te|fu|futime|fuptime|followup\w*|survival|surv(ival)?(time|days|months|years)|ostime|pfs(time)?|"
    r"rfs(time)?|dfs(time)?|efs(time)?|[dr]time|eventtime|deathtime|lastcontact|lastseen)$"
    r"|followup|(time|days|weeks|months|years)to(death|event|relapse|recurr\w*|progress\w*|failure|last\w*|censor\w*)"
)
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


def find_leak(header: str, values: pd.Series, numbers: Doubles | None, outcome: ProposedOutcome) -> Leak | None:
    """What speaks against predicting with a column.

    Args:
        header: Its name in the file.
        values: Its values as text, missing where they are (rows,).
        numbers: Its values as numbers (rows,), None where it holds labels.
        outcome: What is to be predicted.
    """
    if numbers is not None and outcome.time is not None and _same_clock(numbers, outcome.time):
        return Leak("it is the time of follow-up itself for many patients, and so known only afterwards", True)
    words = split_words(header)
    if numbers is not None and _FOLLOWED.search("".join(words)):
        return Leak(f"a time of follow-up, known only afterwards{_advice(header, outcome)}", True)
    told = _told(values, numbers, outcome)
    if told >= COPY:
        return Leak(
            "by itself it tells the outcome of nearly every patient, as what is known only afterwards does", True
        )
    if told >= NEARLY:
        return Leak("by itself it tells the outcome of most patients: is it known before?", False)
    if any(_LATER.match(word) for word in (*words, "".join(words))):
        return Leak("by its name it may be known only after the outcome", False)
    return None


def _advice(header: str, outcome: ProposedOutcome) -> str:
    if outcome.time_header is not None:
        return ""
    return f"; to predict within a time, give --time {clean(header)} --event {clean(outcome.header)} --horizon TIME"


def _same_clock(numbers: Doubles, time: Doubles) -> bool:
    both = np.isfinite(numbers) & np.isfinite(time)
    return len(np.unique(numbers[both])) > FEWEST and float((numbers[both] == time[both]).mean()) >= SAME_CLOCK


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
