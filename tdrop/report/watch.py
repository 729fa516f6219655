"""A watch in words and as a page: where each rule stands, what moved, and what to do.

Sentences are written from numbers, which pass disclosure first where the page may leave. Loading this module loads
nothing that draws: `tdrop score` and `tdrop status` say a sentence only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tdrop.base import Count, counted, plain
from tdrop.contracts import Site
from tdrop.data import Encoder
from tdrop.disclosure import disclose_moments, disclose_watch, limit, moment_counts
from tdrop.served import Promotion
from tdrop.watch import (
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


def _say(sentence: str, **values: Any) -> str:
    """Says a sentence of `templates/sentences.txt`, which is loaded when one is first asked for."""
    from tdrop.report.text import say

    return say(sentence, **values)


def _advice(state: WatchState, site: Site) -> list[str]:
    """A concept shift by its name, and what to do, one sentence per action."""
    from_batches = site.batches is not None
    shift = [_say("watch_concept_shift", state=state)] if is_concept_shift(state) else []
    actions = (_say("watch_action", action=name, state=state, from_batches=from_batches) for name in advise(state))
    return [*shift, *actions]


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
            before, now = before + coding.offset, now + coding.offset
        if coding.log and not share:
            before, now = float(np.expm1(before)), float(np.expm1(now))
        title = feature.label if share else coding.title
        unit = "" if share else coding.unit or ""
        before, now = (float(f"{value:.3g}") for value in (before, now))
        yield MovedFeature(title, before, now, unit, share, round(mean.moved or 0.0, 2))


def _words(state: WatchState, rule: RuleStanding, numbers: WatchNumbers, *, leaving: bool) -> RuleWords:
    known = rule.rule in ("outcomes", "ranking")
    patients = 0 if rule.stand == "not watched" else numbers.outcomes if known else numbers.patients
    # What was agreed stays at the site, where it tells of few patients.
    limits = not leaving and state.review is not None and state.loss is not None
    about = {"rule": rule, "state": state, "numbers": numbers, "patients": patients}
    sentence = _say("watch_rule", **about, known=known, crossed=rule.stand != "quiet", limits=limits)
    question = _say("watch_question", rule=rule.rule, state=state)
    line = None if rule.line is None else round(rule.line, 3)
    return RuleWords(rule.rule, question, rule.stand, sentence, patients, numbers.evidence.get(rule.rule), line)


def watch_in_short(state: WatchState) -> str:
    """Returns a watch in one sentence, for the site itself."""
    rests = f"{counted(state.patients, 'new patient')} and {counted(state.outcomes.patients, 'outcome')}"
    return _in_short(state, f" after {rests}")


def watch_without_counts(state: WatchState) -> str:
    """Returns a watch in one sentence without a number of patients: what Prefect and its notifications may hold."""
    return _in_short(state, "")


def _in_short(state: WatchState, rests: str) -> str:
    about, stand = f"watch of version {state.champion}", stand_of(state)
    if stand == "quiet":
        return f"{about}: quiet{rests}"
    raised = [rule.rule for rule in rules_of(state) if rule.stand in ("alarm", "caution")]
    raised += ["a concept shift"] if is_concept_shift(state) else []
    return f"{about}: {stand} ({', '.join(raised)}){rests}; `tdrop watch {state.site}` says what to do"


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
    # What was agreed follows from how many patients the model was made for.
    place_limit = None if threshold or state.further is None else round(state.further.limit, 2)
    review, loss = (_say("watched", task=state.task, word=f"{name} title") for name in ("review", "loss"))
    titles = {"place": "Place among those it was made for", "review": review, "loss": loss}
    return render_template(
        "watch.html",
        site=site,
        simulated=site.simulated,
        summary=summarise_watch(state, site, encoder, leaving=leaving),
        promotion=promotion,
        hidden=threshold,
        links=links or {},
        task=state.task,
        tolerated=state.outcomes.tolerated,
        drawings={
            "evidence": figures.draw_evidence(history),
            "means": figures.draw_running_means(history, titles, place_limit),
            "batches": figures.draw_watched_batches(history, review),
        },
    )
