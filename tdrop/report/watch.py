"""A watch in words and as a page: where each rule stands, what moved, and what to do.

Sentences are written from numbers, which pass disclosure first where the page may leave. Loading this module loads
nothing that draws: `tdrop score` and `tdrop status` say a sentence only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tdrop.base import Count, Task, counted, plain
from tdrop.contracts import Site
from tdrop.data import Encoder
from tdrop.disclosure import disclose_moments, disclose_watch, limit, moment_counts
from tdrop.served import Promotion
from tdrop.watch import (
    WATCHED_KINDS,
    RuleStanding,
    WatchNumbers,
    WatchState,
    advise,
    is_concept_shift,
    rules_of,
    stand_of,
)

#: Features that are named, if their mean moved by so many standard deviations.
MOST_MOVED, WORTH_SAYING = 8, 0.1

#: By action, what a person does.
_ACTIONS: Mapping[str, str] = {
    "go on": "Nothing to do: go on using the model and scoring batches.",
    "look into it": "Look into it before the next batch: read the page of the watch, and ask whoever sends the data.",
    "recalibrate": (
        "Recalibrate the {predictions} with the known outcomes: `tdrop recalibrate {site}`; then a person promotes."
    ),
    "review": (
        "Review the patients concerned, and look up outcomes: `tdrop label-list {site}`, then "
        "`tdrop audit {site} LABELS`."
    ),
    "retrain": (
        "Retrain for the new patients: put them into the extract of the site and run `tdrop transfer {site}`; then a "
        "person promotes."
    ),
    "retrain from batches": (
        "Retrain for the new patients: `tdrop transfer {site} --new-patients`, or `retrain: propose` in the site's "
        "YAML; then a person promotes."
    ),
    "withdraw": (
        "Take the model out of use: go back with `tdrop rollback {site}`, or train a new one; a recalibration does not "
        "help."
    ),
}


@dataclass(frozen=True)
class RuleWords:
    """One rule for people.

    Attributes:
        rule: Its short name.
        question: What it asks.
        stand: quiet, caution, alarm or not watched.
        sentence: Where it stands.
        patients: Patients or outcomes that it rests on.
        evidence: log10 of its e-value; None where it has none or too few patients to show it.
        line: log10 of its line.
    """

    rule: str
    question: str
    stand: str
    sentence: str
    patients: Count
    evidence: float | None = None
    line: float | None = None


@dataclass(frozen=True)
class MovedFeature:
    """A feature that moved, in natural units.

    Attributes:
        title: What it is.
        before: Mean among those the model was made for; a share where `share` says so; of a logarithm the typical
            value.
        now: The same among the new patients.
        unit: Its unit, or empty.
        share: Whether both are shares.
        moved: By how many standard deviations.
    """

    title: str
    before: float
    now: float
    unit: str
    share: bool
    moved: float

    def __str__(self) -> str:
        """In words: "Age: 71.2 years instead of 65.3 (0.6 sd higher)"."""
        now, before = (f"{value:.0%}" if self.share else f"{value:.3g}" for value in (self.now, self.before))
        unit = f" {self.unit}" if self.unit else ""
        direction = "higher" if self.moved > 0 else "lower"
        return f"{self.title}: {now}{unit} instead of {before} ({abs(self.moved):.1f} sd {direction})"


@dataclass(frozen=True)
class WatchSummary:
    """How a site's watch stands, as it is shown.

    Attributes:
        site: Name of the site.
        champion: Version in use.
        began: When its watch began.
        stand: The gravest of its rules: quiet, caution or alarm.
        patients: New patients who counted.
        outcomes: Known outcomes that counted.
        concept_shift: Whether outcomes changed although patients did not.
        rules: Every rule.
        actions: What to do, by name.
        advice: The same in sentences.
        moved: The features that moved most.
        numbers: What the sentences rest on.
    """

    site: str
    champion: str
    began: str
    stand: str
    patients: Count
    outcomes: Count
    concept_shift: bool
    rules: tuple[RuleWords, ...]
    actions: tuple[str, ...]
    advice: tuple[str, ...]
    moved: tuple[MovedFeature, ...]
    numbers: WatchNumbers


def summarise_watch(
    state: WatchState, site: Site, encoder: Encoder | None = None, *, leaving: bool = False
) -> WatchSummary:
    """Returns how a watch stands.

    Args:
        state: The watch.
        site: The target site.
        encoder: What the champion reads patients by; with it features are named in natural units.
        leaving: Whether it may leave the site: then as it stood when the last patients came who were not few, in
            rounded numbers.
    """
    threshold = limit(site.disclosure) if leaving else 0
    numbers = state.numbers()
    if threshold:
        numbers = disclose_watch(state.left or WatchNumbers(), threshold, state.made_for)
    return WatchSummary(
        site=state.site,
        champion=state.champion,
        began=state.began,
        stand=stand_of(state),
        patients=numbers.patients,
        outcomes=numbers.outcomes,
        concept_shift=is_concept_shift(state),
        rules=tuple(_words(state, rule, numbers, leaving=bool(threshold)) for rule in rules_of(state)),
        actions=advise(state),
        advice=tuple(_advice(state, site)),
        moved=tuple(_moved_most(numbers, encoder)) if encoder is not None else (),
        numbers=replace(numbers, features={}),
    )


def questions(task: Task) -> dict[str, str]:
    """By rule, what it asks."""
    kind = WATCHED_KINDS[task]
    expected = "loss" if task == "binary" else "error"
    return {
        "further": "Are new patients further from the source than those the model was made for?",
        "nearer": "Are they nearer to the source?",
        "harm": f"Are more of them for review, or is the expected {expected} higher?",
        "outcomes": f"Do known outcomes contradict the {kind.predictions}?",
        "ranking": kind.quality_question,
    }


def _advice(state: WatchState, site: Site) -> Iterator[str]:
    kind = WATCHED_KINDS[state.task]
    if is_concept_shift(state):
        yield (
            f"A concept shift: outcomes contradict the {kind.predictions} although patients are no further from the "
            "source than before. New patients without outcomes cannot show it, and a new transfer does not mend it."
        )
    for action in advise(state):
        words = "retrain from batches" if action == "retrain" and site.batches is not None else action
        yield _ACTIONS[words].format(site=state.site, predictions=kind.predictions)


def _moved_most(numbers: WatchNumbers, encoder: Encoder) -> Iterator[MovedFeature]:
    """The features that moved most, in natural units."""
    features = {feature.name: feature for feature in encoder.features}
    codings = {coding.name: coding for coding in encoder.codings}
    moved = {name: mean for name, mean in numbers.features.items() if name in features and mean.moved is not None}
    for name, mean in sorted(moved.items(), key=lambda item: -abs(item[1].moved or 0.0))[:MOST_MOVED]:
        if mean.before is None or mean.now is None or abs(mean.moved or 0.0) < WORTH_SAYING:
            continue
        feature = features[name]
        coding, share = codings[feature.column], mean.kind in ("level", "binary", "missing")
        before, now = mean.before, mean.now
        if not share:
            before, now = (_natural(value + coding.offset, coding.log) for value in (before, now))
        title = feature.label if share else coding.title
        unit = "" if share else coding.unit or ""
        yield MovedFeature(title, _short(before), _short(now), unit, share, round(mean.moved or 0.0, 2))


def _natural(value: float, log: bool) -> float:
    return float(np.expm1(value)) if log else value


def _short(value: float) -> float:
    return float(f"{value:.3g}")


def _words(state: WatchState, rule: RuleStanding, numbers: WatchNumbers, *, leaving: bool) -> RuleWords:
    known = rule.rule in ("outcomes", "ranking")
    patients = 0 if rule.stand == "not watched" else numbers.outcomes if known else numbers.patients
    sentence = _sentence(state, rule, numbers, patients, leaving=leaving)
    line = None if rule.line is None else round(rule.line, 3)
    evidence = numbers.evidence.get(rule.rule)
    return RuleWords(rule.rule, questions(state.task)[rule.rule], rule.stand, sentence, patients, evidence, line)


def _sentence(state: WatchState, rule: RuleStanding, numbers: WatchNumbers, patients: Count, *, leaving: bool) -> str:
    crossed, kind = rule.stand != "quiet", WATCHED_KINDS[state.task]
    if rule.stand == "not watched":
        return _why_not(state, rule.rule)
    if not rule.patients:
        return "No outcome is known yet." if rule.rule in ("outcomes", "ranking") else "No new patient was scored yet."
    if rule.rule == "further" and "place" in numbers.means:
        mean, low, high = numbers.means["place"]
        return (
            f"{'Yes: further' if crossed else 'No sign of it: further'} from the source than {mean:.0%} of those the "
            f"model was made for, on average over {counted(patients, 'patient')} ({low:.0%} to {high:.0%}; 50% is as "
            "before)."
        )
    if rule.rule == "nearer":
        return (
            "Yes: different from those the model was made for, and not further away." if crossed else "No sign of it."
        )
    if rule.rule == "harm" and "loss" in numbers.means:
        return f"{'Yes' if crossed else 'No sign of it'}: {_harm(state, numbers, leaving=leaving)}."
    if rule.rule == "outcomes":
        direction = kind.too_low if state.outcomes.direction == "too low" else kind.too_high
        start = f"Yes: {direction}." if crossed else "No sign of it."
        shares = ""
        if numbers.observed is not None and numbers.expected is not None:
            of = counted(patients, "patient")
            shares = f" {numbers.observed:.0%} of {of} {kind.event}; {numbers.expected:.0%} were expected."
        return f"{start}{shares}"
    if rule.rule == "ranking" and numbers.ranking is not None and state.forecast_low is not None:
        value, low, high = numbers.ranking
        return (
            f"{'No' if crossed else 'Yes, as far as one can say'}: {kind.quality} {value:.2f} ({low:.2f} to "
            f"{high:.2f} at all times together); the forecast's lower end was {state.forecast_low:.2f}."
        )
    return "Yes." if crossed else "No sign of it; the patients are too few to say more."


def _harm(state: WatchState, numbers: WatchNumbers, *, leaving: bool) -> str:
    """The share for review and the expected loss; what was agreed stays at the site, where it tells of few patients."""
    limits = {} if leaving or state.review is None or state.loss is None else {
        "review": f" (at most {state.review.limit:.0%} was agreed)", "loss": f" (at most {state.loss.limit:.0%})"
    }  # fmt: skip
    kind = WATCHED_KINDS[state.task]
    loss = f"{kind.loss} is {numbers.means['loss'][0]:.0%}{limits.get('loss', '')}"
    if "review" not in numbers.means:
        return loss
    review = numbers.means["review"][0]
    return f"{kind.review} {review:.0%} of patients{limits.get('review', '')}, and {loss}"


def _why_not(state: WatchState, rule: str) -> str:
    if rule == "ranking":
        few = "Too few known outcomes of either kind." if state.task == "binary" else "Too few known outcomes."
        return few if state.forecast_low is not None else "No forecast was sealed."
    if state.loss is None:
        return "Not watched: the patients that the model was made for are not on this machine."
    return "Not watched: the model was made for too few patients to compare with."


def watch_in_short(state: WatchState) -> str:
    """Returns a watch in one sentence, for the site itself."""
    rests = f"{counted(state.patients, 'new patient')} and {counted(state.outcomes.patients, 'outcome')}"
    stand, raised = stand_of(state), _raised(state)
    if stand == "quiet":
        return f"watch of version {state.champion}: quiet after {rests}"
    what = f"{stand} ({', '.join(raised)}) after {rests}"
    return f"watch of version {state.champion}: {what}; `tdrop watch {state.site}` says what to do"


def _raised(state: WatchState) -> list[str]:
    shift = ["a concept shift"] if is_concept_shift(state) else []
    return [*(rule.rule for rule in rules_of(state) if rule.stand in ("alarm", "caution")), *shift]


def watch_without_counts(state: WatchState) -> str:
    """Returns a watch in one sentence without a number of patients: what Prefect and its notifications may hold."""
    raised = _raised(state)
    if not raised:
        return f"watch of version {state.champion}: quiet"
    what = f"{stand_of(state)} ({', '.join(raised)})"
    return f"watch of version {state.champion}: {what}; `tdrop watch {state.site}` says what to do"


def watch_document(state: WatchState, site: Site, encoder: Encoder | None) -> dict[str, Any]:
    """Returns what leaves of a watch as one document: its summary and its history."""
    threshold = limit(site.disclosure)
    moments = disclose_moments(state.history, threshold) if threshold else state.history
    history = [
        {
            "number": moment.number,
            "promoted": moment.champion == state.champion and moment.when >= state.began,
            "when": moment.when,
            "kind": moment.kind,
            "champion": moment.champion,
            **moment_counts(moment),
            "evidence": {rule: round(value / float(np.log(10)), 3) for rule, value in moment.log_wealth.items()},
            "means": {name: list(values) for name, values in moment.means.items()},
        }
        for moment in moments
    ]
    return {**plain(summarise_watch(state, site, encoder, leaving=True)), "history": history}


def render_watch(
    state: WatchState,
    site: Site,
    promotion: Promotion | None,
    encoder: Encoder | None = None,
    *,
    leaving: bool = False,
    links: Mapping[str, str] | None = None,
) -> str:
    """Returns the page of a watch.

    Args:
        state: The watch.
        site: The target site.
        promotion: Who promoted the champion, or None.
        encoder: What the champion reads patients by; with it features are named in natural units.
        leaving: Whether the page may leave the site.
        links: By title, pages beside this one.
    """
    from tdrop import figures
    from tdrop.report.pages import render_template

    threshold = limit(site.disclosure) if leaving else 0
    history: Sequence[Any] = disclose_moments(state.history, threshold) if threshold else state.history
    place_limit = None if state.further is None else round(state.further.limit, 2)
    kind = WATCHED_KINDS[state.task]
    titles = {"place": "Place among those it was made for", "review": kind.review_title, "loss": kind.loss_title}
    return render_template(
        "watch.html",
        site=site,
        simulated=site.simulated,
        summary=summarise_watch(state, site, encoder, leaving=leaving),
        promotion=promotion,
        hidden=threshold,
        links=links or {},
        kind=kind,
        drawings={
            "evidence": figures.draw_evidence(history),
            "means": figures.draw_running_means(history, titles, place_limit),
            "batches": figures.draw_watched_batches(history, kind.review_title),
        },
    )
