"""A watch in words and as a page: where each rule stands, and what to do. Small counts are hidden.

Loading this module loads nothing that draws: `tdrop score` and `tdrop status` say a sentence only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tdrop.base import Count, counted, written
from tdrop.contracts import Disclosure, Site
from tdrop.disclosure import is_small, limit, shown_count
from tdrop.served import Promotion
from tdrop.watch import Moment, RuleStanding, WatchState, advise, is_concept_shift, rules_of, stand_of, together

#: In the place of a count of few patients.
HIDDEN_COUNT = -1
#: By rule, what it asks.
QUESTIONS: Mapping[str, str] = {
    "further": "Are new patients further from the source than those the model was made for?",
    "nearer": "Are they nearer to the source?",
    "harm": "Are more of them for review, or is the expected loss higher?",
    "outcomes": "Do known outcomes contradict the risks?",
    "ranking": "Do the risks still rank patients as was forecast?",
}
#: By action, what a person does.
_ACTIONS: Mapping[str, str] = {
    "go on": "Nothing to do: go on using the model and scoring batches.",
    "look into it": "Look into it before the next batch: read the page of the watch, and ask whoever sends the data.",
    "recalibrate": "Recalibrate the risks with the known outcomes: `tdrop recalibrate {site}`; then a person promotes.",
    "review": (
        "Review the patients concerned, and look up outcomes: `tdrop label-list {site}`, then "
        "`tdrop audit {site} LABELS`."
    ),
    "retrain": (
        "Retrain: put the new patients into the extract of the site and run `tdrop transfer {site}`; then a person "
        "promotes."
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
class WatchSummary:
    """How a site's watch stands, as it may be shown.

    Attributes:
        site: Name of the site.
        champion: Version in use.
        began: When its watch began.
        stand: The gravest of its rules: quiet, caution or alarm.
        patients: New patients who counted.
        outcomes: Known outcomes that counted.
        rules: Every rule.
        actions: What to do, by name.
        advice: The same in sentences.
        means: By quantity, its running mean and the ends of its confidence sequence.
        ranking: AUROC where outcomes are known, with its confidence sequence.
    """

    site: str
    champion: str
    began: str
    stand: str
    patients: Count
    outcomes: Count
    rules: tuple[RuleWords, ...]
    actions: tuple[str, ...]
    advice: tuple[str, ...]
    means: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    ranking: tuple[float, float, float] | None = None


def summarise_watch(state: WatchState, policy: Disclosure) -> WatchSummary:
    """Returns how a watch stands, small counts hidden."""
    threshold = limit(policy)
    rules = tuple(_words(state, rule, threshold) for rule in rules_of(state))
    actions = advise(state)
    advice = [_ACTIONS[action].format(site=state.site) for action in actions]
    if is_concept_shift(state):
        advice.insert(
            0,
            "Outcomes contradict the risks although patients are no further from the source than before: a concept "
            "shift, which new patients without outcomes cannot show and a new transfer does not mend.",
        )
    shown = state.patients and not is_small(state.patients, threshold)
    means = {"place": state.place_mean, "review": state.review_mean, "loss": state.loss_mean}
    known = state.outcomes.patients
    return WatchSummary(
        site=state.site,
        champion=state.champion,
        began=state.began,
        stand=stand_of(state),
        patients=_shown(state.patients, threshold),
        outcomes=_shown(known, threshold),
        rules=rules,
        actions=actions,
        advice=tuple(advice),
        means={name: (mean.mean, *mean.interval) for name, mean in means.items() if shown and mean.mean is not None},
        ranking=None if is_small(known, threshold) else state.ranking,
    )


def _shown(count: int, threshold: int) -> Count:
    return shown_count(count, threshold) if threshold else count


def _words(state: WatchState, rule: RuleStanding, threshold: int) -> RuleWords:
    few = is_small(rule.patients, threshold)
    patients = _shown(rule.patients, threshold)
    evidence = None if few else rule.evidence
    sentence = _sentence(state, rule, patients, few)
    return RuleWords(rule.rule, QUESTIONS[rule.rule], rule.stand, sentence, patients, evidence, rule.line)


def _sentence(state: WatchState, rule: RuleStanding, patients: Count, few: bool) -> str:
    if rule.stand == "not watched":
        return _why_not(state, rule.rule)
    if not rule.patients:
        return "No outcome is known yet." if rule.rule in ("outcomes", "ranking") else "No new patient was scored yet."
    if few and rule.stand == "quiet":
        return f"Too few patients so far ({written(patients)})."
    crossed = rule.stand != "quiet"
    if rule.rule == "further" and state.place_mean.mean is not None:
        mean, (low, high) = state.place_mean.mean, state.place_mean.interval
        start = "Yes: further" if crossed else "No sign of it: further"
        return (
            f"{start} from the source than {mean:.0%} of those the model was made for, on average over "
            f"{counted(patients, 'patient')} ({low:.0%} to {high:.0%}; 50% is as before)."
        )
    if rule.rule == "nearer":
        return (
            "Yes: different from those the model was made for, and not further away." if crossed else "No sign of it."
        )
    if rule.rule == "harm":
        review, loss = state.review_mean.mean or 0.0, state.loss_mean.mean or 0.0
        start = "Yes" if crossed else "No sign of it"
        limits = f"at most {state.review.limit:.0%}" if state.review is not None else ""
        losses = f"at most {state.loss.limit:.0%}" if state.loss is not None else ""
        return (
            f"{start}: the interval reaches the level for {review:.0%} of patients ({limits} was agreed), and the "
            f"expected loss is {loss:.0%} of the highest there is ({losses} was agreed)."
        )
    if rule.rule == "outcomes":
        test = state.outcomes
        observed, expected = test.events / test.patients, test.expected / test.patients
        start = f"Yes: risks are {test.direction}." if crossed else "No sign of it."
        return (
            f"{start} {observed:.0%} of {counted(patients, 'patient')} had the outcome; {expected:.0%} were expected."
        )
    assert state.ranking is not None
    value, low, high = state.ranking
    start = "No" if crossed else "Yes, as far as one can say"
    return (
        f"{start}: AUROC {value:.2f} ({low:.2f} to {high:.2f} at all times together); the forecast's lower end was "
        f"{state.forecast_low:.2f}."
    )


def _why_not(state: WatchState, rule: str) -> str:
    if rule == "ranking":
        return "Too few known outcomes of either kind." if state.forecast_low is not None else "No forecast was sealed."
    if state.loss is None:
        return "Not watched: the patients that the model was made for are not on this machine."
    return "Not watched: the model was made for too few patients to compare with."


def watch_in_short(state: WatchState, policy: Disclosure) -> str:
    """Returns a watch in one sentence."""
    summary = summarise_watch(state, policy)
    rests = f"{counted(summary.patients, 'new patient')} and {counted(summary.outcomes, 'outcome')}"
    if summary.stand == "quiet":
        return f"watch of version {summary.champion}: quiet after {rests}"
    raised = [rule.rule for rule in summary.rules if rule.stand in ("alarm", "caution")]
    stand = f"{summary.stand} ({', '.join(raised)}) after {rests}"
    return f"watch of version {summary.champion}: {stand}; `tdrop watch {state.site}` says what to do"


def watch_without_counts(state: WatchState) -> str:
    """Returns a watch in one sentence without a number of patients: what Prefect and its notifications may hold."""
    raised = [rule.rule for rule in rules_of(state) if rule.stand in ("alarm", "caution")]
    if not raised:
        return f"watch of version {state.champion}: quiet"
    shift = "; a concept shift: outcomes changed, patients did not" if is_concept_shift(state) else ""
    what = f"{stand_of(state)} ({', '.join(raised)}){shift}"
    return f"watch of version {state.champion}: {what}; `tdrop watch {state.site}` says what to do"


def shown_history(history: Sequence[Moment], policy: Disclosure) -> tuple[Moment, ...]:
    """Returns the moments with those of few patients put together with their neighbours, so that none shows a few."""
    threshold, shown = limit(policy), list[Moment]()
    waiting: Moment | None = None
    for moment in history:
        if moment.kind == "champion":
            # What is left of few patients before it is not shown.
            shown.append(moment)
            waiting = None
            continue
        merged = moment if waiting is None else together(waiting, moment)
        if any(is_small(count, threshold) for count in (merged.patients, merged.outcomes)):
            waiting = merged
            continue
        counts = ("review", "filled_in", "set_aside")
        few = (name for name in counts if is_small(getattr(merged, name), threshold))
        small: dict[str, Any] = dict.fromkeys(few, HIDDEN_COUNT)
        shown.append(replace(merged, **small))
        waiting = None
    return tuple(shown)


def render_watch(
    state: WatchState, site: Site, promotion: Promotion | None, moved: Sequence[tuple[str, str]] = ()
) -> str:
    """Returns the page of a watch.

    Args:
        state: The watch.
        site: The target site.
        promotion: Who promoted the champion, or None.
        moved: The features that moved most in the last batches: what, and how far.
    """
    from tdrop import figures
    from tdrop.report.pages import render_template

    history = shown_history(state.history, site.disclosure)
    return render_template(
        "watch.html",
        site=site,
        state=state,
        summary=summarise_watch(state, site.disclosure),
        promotion=promotion,
        moved=moved,
        history=history,
        hidden=limit(site.disclosure),
        drawings={
            "evidence": figures.draw_evidence(history),
            "means": figures.draw_running_means(history, state.further.limit if state.further else None),
            "batches": figures.draw_watched_batches(history),
        },
    )
