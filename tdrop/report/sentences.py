"""Picks the numbers that the sentences of `templates/sentences.txt` are filled with.

Sentences are written last: from numbers that may already have passed disclosure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from tdrop.base import Feature
from tdrop.choose import HANDICAP, Choice, Trial
from tdrop.contracts import Contract
from tdrop.data import BETWEEN, features_of
from tdrop.disclosure import shown_mean
from tdrop.evaluate import ALL, Evaluation, LeftOut
from tdrop.forecast import Rehearsal
from tdrop.metrics import FEWEST_EVENTS, OUTCOME_KINDS
from tdrop.report.data import ReportData
from tdrop.report.text import count, in_sentence, method_label, number, say, share
from tdrop.shift import FeatureShift, Ground, Matching, Shift

SIMPLE = "logistic_regression"
#: A source's share below this is not named.
_SMALLEST_SHARE = 0.05
#: Changes of a patient's risk by leaving a source out that are worth a sentence.
_WORTH_SAYING = 0.02

#: A mean from which on decimals say nothing.
_LARGE = 1000
#: How many of the features that differ most are named.
_MOST_DIFFERENT = 2

#: By verdict, its word and its style; from go to stop.
VERDICTS: Mapping[str, tuple[str, str]] = {
    "go": ("Go", "go"),
    "caution": ("Caution", "caution"),
    "stop": ("Stop", "stop"),
    "too few to say": ("Too few to say", "unsure"),
}


def verdict_word(verdict: str) -> str:
    """Returns a verdict's word for people; one of another version stands as it is."""
    return VERDICTS.get(verdict, (verdict, ""))[0]


def verdict_words(verdict: str, grounds: Iterable[Ground] = ()) -> dict[str, str]:
    """Returns a verdict's word, its style and its sentence.

    The sentence is that of the grounds which decided it, where there are, and first of all that a model adds nothing.
    """
    word, style = VERDICTS.get(verdict, (verdict, "unsure"))
    against = [ground for ground in grounds if ground.verdict != "go"]
    useless = [ground for ground in against if ground.kind == "benefit" and verdict != "stop"]
    decided = [ground for ground in against if ground.verdict == verdict and ground not in useless]
    sentences = [say("ground", ground=ground) for ground in (*useless, *decided)]
    if not decided and verdict != "caution":
        sentences.append(say("verdict", verdict=verdict))
    return {"word": word, "style": style, "sentence": " ".join(sentences) or say("verdict", verdict=verdict)}


def report_verdict(data: ReportData) -> dict[str, str]:
    """Returns a report's verdict; one that the features alone decided names those that differ most."""
    words = verdict_words(data.verdict, data.shift.grounds)
    if by_features(data):
        words["sentence"] = f"{words['sentence']} {difference_sentence(data)}".strip()
    return words


def by_features(data: ReportData) -> bool:
    """Whether nothing but how different the patients are speaks against the model."""
    decided = any(ground.verdict == data.verdict for ground in data.shift.grounds)
    return data.verdict in ("caution", "stop") and not decided


def shift_sentence(shift: Shift) -> str:
    """Says what the verdict rests on: how alike the patients are, and what else speaks against "go"."""
    against = [say("ground", ground=ground) for ground in shift.grounds if ground.verdict != "go"]
    return " ".join([say("alike", shift=shift, verdict=shift.verdict), *against])


def shift_notes(shift: Shift) -> list[str]:
    """Says which rows stand behind the comparison."""
    fitted: dict[str, list[str]] = {}
    for auroc in shift.aurocs:
        fitted.setdefault(count(auroc.rows_fitted), []).append(auroc.kind)
    notes = [say("site_classifier", kinds=kinds, rows=rows) for rows, kinds in fitted.items()]
    return [*notes, say("permutation", test=shift.permutation)] if shift.permutation else notes


def matching_sentence(matching: Matching | None, titles: Mapping[str, str], source_titles: Mapping[str, str]) -> str:
    """Says how many source patients were picked, and what was done instead where plain matching failed.

    Args:
        matching: Who was picked; nothing is said of None.
        titles: By feature, its name for people.
        source_titles: By source, its name for people.
    """
    if matching is None:
        return ""
    apart = [
        titles.get(item.feature, item.feature)
        for item in matching.balance
        if item.after is not None and abs(item.after) > max(0.1, abs(item.before or 0.0) / 2)
    ]
    drawn = [f"{source_titles.get(site, site)} ({count(drawn)})" for site, drawn in matching.drawn_from.items()]
    sentence = say("matching", matching=matching, apart=apart[:5])
    return f"{sentence} {say('drawn_from', drawn=drawn)}" if drawn else sentence


def choice_sentence(choice: Choice) -> str:
    """Says why this method, by its table."""
    losses = _candidate_losses(choice)
    if choice.method not in losses:
        return ""
    best = min(losses, key=losses.__getitem__)
    tied = sum(row.tied for row in choice.table if row.candidate)
    reason = say("choice", choice=choice, losses=losses, best=best, handicap=HANDICAP.get(best), tied=tied)
    return f"{reason} {say('little')}" if choice.rests_on_little else reason


def _candidate_losses(choice: Choice) -> dict[str, float]:
    return {row.method: row.log_loss for row in choice.table if row.candidate and row.log_loss is not None}


def method_title(choice: Choice) -> str:
    """Returns what the chosen method is called on a first page: several that are used together are an average."""
    return say("average_of", members=choice.members) if choice.members else method_label(choice.method)


def method_sentence(data: ReportData) -> str:
    """Says why this method, without jargon and no better than its table, and where the outcomes speak against it."""
    losses = _candidate_losses(data.choice)
    lowest = min(losses, key=losses.__getitem__, default="")
    reason = say(
        "method",
        choice=data.choice,
        chosen=data.method,
        better=_clearly_better(data),
        labelled=data.labelled,
        lowest_is_trees=lowest in HANDICAP,
        best=lowest == data.method,
        simple=next((row for row in data.choice.table if row.method == SIMPLE), None),
    )
    return f"{reason} {say('little')}" if data.choice.rests_on_little and not data.labelled else reason


def _clearly_better(data: ReportData) -> str:
    """Of the methods that could have been chosen, the best that by the outcomes beats the chosen one; empty without.

    All are compared with one reference on the same resamples, so intervals that do not meet tell two methods apart.
    """
    differences = {
        row.method: (row.value, row.low, row.high)
        for row in data.evaluation.rows
        if row.metric == "log_loss_difference" and (row.seed, row.group) == (ALL, ALL)
    }
    _, bound, _ = differences.get(data.method, (0.0, 0.0, 0.0))
    candidates = {row.method for row in data.choice.table if row.candidate}
    better = {
        name: value
        for name, (value, _, high) in differences.items()
        if name in candidates and value is not None and high is not None and bound is not None and high < bound
    }
    return min(better, key=better.__getitem__, default="")


def hindsight(data: ReportData) -> str:
    """Says whether the outcomes agree with a choice that was made without them."""
    values = {method: data.evaluation.value(method, "log_loss") for method in data.evaluation.methods}
    losses = {method: loss for method, loss in values.items() if loss is not None}
    if data.method not in losses or len(losses) < 2 or too_few(data.evaluation):
        return ""
    return say("hindsight", chosen=data.method, best=min(losses, key=losses.__getitem__), losses=losses)


def split_sentence(data: ReportData) -> str:
    """Says why the loss changed: other patients, or other outcomes for the same patients; nothing before an audit."""
    return "" if data.split is None or too_few(data.evaluation) else say("split", split=data.split)


def too_few(evaluation: Evaluation) -> bool:
    """Whether the known outcomes are too few to say which method is right, or how far; where hidden, they are."""
    labelled, outcomes = evaluation.labelled, evaluation.outcomes
    if "threshold" not in evaluation.decision:  # several classes, or a number: nothing happens or not
        return labelled is None or labelled < FEWEST_EVENTS
    return labelled is None or outcomes is None or min(outcomes, labelled - outcomes) < FEWEST_EVENTS


def evaluation_warnings(evaluation: Evaluation, hide_below: int = 0, *, weighted: bool = False) -> list[str]:
    """Says what must be known before the numbers are read."""
    labelled, outcomes, patients = evaluation.labelled, evaluation.outcomes, evaluation.patients
    if labelled == 0:
        return []
    warnings = []
    if too_few(evaluation):
        few = max(FEWEST_EVENTS, hide_below)
        warnings.append(say("few_outcomes", labelled=labelled, outcomes=outcomes, few=few))
    if labelled is not None and patients is not None and labelled < patients:
        warnings.append(say("known_outcomes", labelled=labelled, patients=patients, weighted=weighted))
    return warnings


def left_out_sentence(left_out: LeftOut | None, contract: Contract | None) -> str:
    """Says which features a site does not record and what doing without them costs; nothing where it records all."""
    if left_out is None:
        return ""
    titles = {column.name: column.label for column in (contract.features if contract else ())}
    columns, indicators = (
        [titles.get(name, name) for name in names] for names in (left_out.columns, left_out.indicators)
    )
    sentences = [say("left_out", names=columns, cost=left_out)] if columns else []
    sentences += [say("left_out_indicators", names=indicators)] if indicators else []
    return " ".join(sentences)


def difference_sentence(data: ReportData) -> str:
    """Names what differs most between the sites, in natural units where the frames are there."""
    features = {feature.name: feature for feature in features_of(data.contract)}
    described: dict[str, dict[str, str | None]] = {}
    for row in data.shift.by_difference:
        feature = features.get(row.feature)
        if feature is not None and row.smd and feature.column not in described:
            described[feature.column] = _describe_feature(data, row, feature)
        if len(described) == _MOST_DIFFERENT:
            break
    return say("differences", features=list(described.values())) if described else ""


def _describe_feature(data: ReportData, row: FeatureShift, feature: Feature) -> dict[str, str | None]:
    """A feature's name with its mean or share here and at the source; None where they may not be shown."""
    if feature.kind == "continuous":
        there, here = (
            _mean(frame, feature.column, data.hide_below) for frame in (data.source_frame, data.target_frame)
        )
        name = in_sentence(data.contract.column(feature.column).label)
        if there is None or here is None:
            return {"name": name, "there": None, "here": None}
        digits = 0 if max(abs(there), abs(here)) >= _LARGE else 1
        unit = f" {feature.unit}" if feature.unit else ""
        return {"name": name, "there": number(there, digits), "here": f"{number(here, digits)}{unit}"}
    name = in_sentence(feature.label)
    if row.kind in ("level", "binary", "missing"):
        return {"name": name, "there": share(row.source_mean, 0), "here": share(row.target_mean, 0)}
    return {"name": f"{name} ({'higher' if (row.smd or 0.0) > 0 else 'lower'} here)", "there": None, "here": None}


def _mean(frame: pd.DataFrame | None, name: str, hide_below: int) -> float | None:
    if frame is None or name not in frame:
        return None
    values = pd.to_numeric(frame[name], errors="coerce").astype("float64").dropna()
    return shown_mean(values.to_numpy(), hide_below) if hide_below else float(values.mean())


def left_early_sentences(data: ReportData) -> list[str]:
    """Says, of the source and of this site, how many left before the horizon and what was done about it."""
    source, labels = data.censoring, data.labels
    left: list[tuple[Any, ...]] = []
    if source is not None and source.censored != 0:
        left.append(("Source", source.censored, source.handling, source))
    if labels is not None and labels.censoring and labels.horizon_not_reached != 0:
        left.append(("This site", labels.horizon_not_reached, labels.censoring, labels))
    names, horizon = ("where", "left", "handling", "known"), data.contract.outcome.horizon
    return [say("left_early", horizon=horizon, **dict(zip(names, values, strict=True))) for values in left]


def unlabelled_sentences(data: ReportData) -> list[str]:
    """Says for every method that could use unlabelled patients whether it did, and why not or to what effect."""
    moved = {item.method: item for item in data.moved}
    sentences = []
    for method, trials in data.tuning.items():
        picked = data.picked_trial(method)
        if not picked or not any(_lambda_of(trial) for trial in trials):
            continue
        strength = _lambda_of(picked)
        if strength > 0:
            sentences.append(say("unlabelled_used", method=method, strength=strength, moved=moved.get(method)))
        else:
            sentences.append(_unused_sentence(method, trials))
    return sentences


def _unused_sentence(method: str, trials: Sequence[Trial]) -> str:
    """Says why lambda is 0, from what left-out source patients said about the settings that were tried."""
    scored = [(trial.log_loss, trial) for trial in trials if trial.log_loss is not None]
    most = max(trial.folds for _, trial in scored)
    whole = [(loss, trial) for loss, trial in scored if trial.folds == most]
    using = [loss for loss, trial in whole if _lambda_of(trial)]
    if not using:
        tried = sum(_lambda_of(trial) > 0 for trial in trials)
        return say("unlabelled_unused", method=method, tried=tried, loss=None, best=None)
    best = min(loss for loss, _ in whole)
    return say("unlabelled_unused", method=method, tried=0, loss=min(using), best=best)


def _lambda_of(trial: Trial) -> float:
    return float(trial.settings.get("lambda_") or 0.0)


# Several sources ----------------------------------------------------------------------------------


def odd_sources(data: ReportData) -> list[str]:
    """Says which sources were left out, contradict the others, or look as if they were written in another way."""
    titles = data.source_titles
    sentences = [say("small_source", name=titles.get(name, name)) for name in data.small_sources]
    sites = () if data.forecast is None else data.forecast.held_out.get(data.method, ())
    for site in sites:
        if site.auroc is not None and site.ends("auroc")[1] < 0.5:
            sentences.append(say("source_contradicts", name=titles.get(site.site, site.site), site=site))
    between = [finding for finding in data.source_validation.findings if finding.rule.startswith(BETWEEN)]
    return [*sentences, *(f"{finding.sentence[:1].upper()}{finding.sentence[1:]}." for finding in between)]


def site_sentences(data: ReportData) -> list[str]:
    """Says which sources the patients resemble, what held-out sites decided and what the interval allows for."""
    sentences, shares, forecast = [], data.shift.shares, data.forecast
    if shares is not None and len(shares.sites) > 1:
        known = sorted(zip(shares.resembled, shares.sites, strict=True), reverse=True)
        named = [(value, data.source_titles.get(site, site)) for value, site in known if value >= _SMALLEST_SHARE][:3]
        sentences += [say("resemblance", shares=named)] if named else []
    kind = OUTCOME_KINDS[data.contract.task]
    expected = None if forecast is None else forecast.next_site.get(data.method, {}).get(kind.headline)
    if expected is not None:
        used = {name for name, trials in data.tuning.items() for trial in trials if trial.picked and trial.knows_site}
        knowing = [method_label(method) for method in data.tuning if method in used]
        sentences.append(say("held_out", expected=expected, kind=kind, knowing=knowing, committee=data.choice.members))
    moved = [source for source in (forecast.influence if forecast else ()) if source.moved >= _WORTH_SAYING]
    if moved:
        most = max(moved, key=lambda source: source.moved)
        sentences.append(say("influence", name=data.source_titles.get(most.site, most.site), influence=most))
    return sentences


def describe_rehearsal(rehearsal: Rehearsal) -> list[str]:
    """Says what a rehearsal found; the first sentence is the one that reports quote."""
    expected, odd = rehearsal.next_site(), rehearsal.odd_site()
    headline, level = expected.get(rehearsal.kind.headline), expected.get("observed_expected")
    return [
        say("rehearsed", rehearsal=rehearsal),
        *([say("rehearsed_choice", rehearsal=rehearsal)] if rehearsal.sites else []),
        *([say("rehearsed_next", rehearsal=rehearsal, expected=headline)] if headline is not None else []),
        *([say("rehearsed_level", rehearsal=rehearsal, level=level)] if level is not None else []),
        *([say("rehearsed_odd", site=odd)] if odd is not None else []),
    ]
