"""Sentences about a site's records, written last: from numbers that may already have passed disclosure.

Every number of patients that a sentence holds comes through `count`, which writes what disclosure left of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tdrop.choose.choice import TOLERANCE
from tdrop.evaluate import FEWEST_EVENTS, Evaluation
from tdrop.report.text import count, method_label, share

#: How each criterion is called.
MEASURES = {
    "importance_weighted": "importance-weighted log loss on out-of-fold source predictions",
    "matched_validation": "log loss on the matched validation set",
}


def shift_sentence(shift: Mapping[str, Any]) -> str:
    """Says what the verdict rests on: how alike the patients are, and what else speaks against "go"."""
    against = [ground_sentence(one) for one in shift.get("grounds", ()) if one["verdict"] != "go"]
    return " ".join([_alike(shift), *against])


def ground_sentence(ground: Mapping[str, Any]) -> str:
    """Says what one ground counted."""
    found, of = count(ground["count"]), count(ground["of"])
    if ground["kind"] == "source_outcomes":
        return f"The rarer outcome was seen in {found} of {of} source patients: too few to learn from."
    if ground["kind"] == "shared_patients":
        return (
            f"{found} of the {of} patients here are the source's own (same ids): they say nothing about new patients."
        )
    expected, low, high = (ground.get(name) for name in ("expected", "low", "high"))
    chance = "" if low is None or high is None else f"; chance allows {count(low)} to {count(high)}"
    return (
        f"The outcome was expected in {count(expected)} of the {of} patients with a known outcome and happened in "
        f"{'none' if ground['count'] == 0 else found}{chance}."
    )


def _alike(shift: Mapping[str, Any]) -> str:
    auroc, outside = shift.get("domain_auroc"), shift.get("outside_overlap")
    rows = f"{count(shift.get('source_rows'))} source patients and {count(shift.get('target_rows'))} here"
    if auroc is None:
        return f"With {rows} nothing can be said about how alike the sites are."
    told = (
        f"Among {rows}, a classifier that guesses a patient's site ranks two patients rightly "
        f"{100 * auroc['value']:.0f} times in 100 ({100 * auroc['low']:.0f} to {100 * auroc['high']:.0f}; 50: the "
        "sites cannot be told apart)"
    )
    if outside is None:
        return f"{told}."
    return f"{told}; {share(outside)} of the patients here have hardly anyone like them at the source."


def shift_notes(shift: Mapping[str, Any]) -> list[str]:
    """Says which rows stand behind the comparison."""
    told = [
        f"Each {auroc['kind']} classifier was fitted on at most {count(auroc['rows_fitted'])} rows."
        for auroc in shift.get("aurocs", ())
    ]
    test = shift.get("permutation")
    if test:
        told.append(
            f"The permutation test used {count(test['source_rows'])} source and {count(test['target_rows'])} target "
            f"rows and {test['permutations']} permutations."
        )
    return told


def matching_sentences(matching: Mapping[str, Any], titles: Mapping[str, str]) -> list[str]:
    """Says how many source patients were picked, and what was done instead where plain matching failed."""
    if not matching:
        return []
    told = [f"{count(matching.get('retained'))} source patients were picked to look like this site's."]
    if matching.get("caliper") is None:
        told.append(
            "Too few source patients lie within reach of this site's, so the most similar ones were taken whatever "
            "their distance."
        )
    elif not matching.get("balanced"):
        apart = [
            titles.get(item["feature"], item["feature"])
            for item in matching.get("balance", ())
            if item.get("after") is not None and abs(item["after"]) > max(0.1, abs(item.get("before") or 0.0) / 2)
        ]
        named = f" in {', '.join(apart[:5])}" if apart else ""
        told.append(f"They could not be made to resemble this site's patients{named}; the closest set was kept.")
    return told


def choice_sentence(choice: Mapping[str, Any]) -> str:
    """Says why this method, by its table."""
    table = {row["method"]: row for row in choice.get("table", ())}
    chosen = str(choice["method"])
    scored = [row for row in table.values() if row.get("candidate") and row.get("log_loss") is not None]
    if chosen not in table or not scored:
        return ""
    best = min(scored, key=lambda row: row["log_loss"])
    measure = MEASURES.get(str(choice.get("criterion")), "log loss")
    loss, name = f"{table[chosen]['log_loss']:.4f}", method_label(chosen)
    if best["method"] == chosen:
        other = str(choice.get("runner_up"))
        second = f"; {method_label(other)} follows with {table[other]['log_loss']:.4f}" if other in table else ""
        return f"{name} has the lowest {measure} ({loss}){second}."
    tied = sum(bool(row.get("tied")) for row in scored)
    return (
        f"{method_label(best['method'])} has the lowest {measure} ({best['log_loss']:.4f}); {name} ({loss}) is within "
        f"{TOLERANCE} of it, and of the {tied} methods that are it comes first in the order that transfers best."
    )


def evaluation_warnings(evaluation: Evaluation, hide_below: int = 0) -> list[str]:
    """Says what must be known before the numbers are read."""
    labelled, outcomes, patients = evaluation.labelled, evaluation.outcomes, evaluation.patients
    if labelled == 0:
        return []
    few = max(FEWEST_EVENTS, hide_below)
    told = []
    if outcomes is None or labelled is None:
        told.append(f"Fewer than {few} patients are known to have had the outcome, or not to: too few to judge by.")
    elif outcomes in (0, labelled):
        kind = "had" if outcomes else "did not have"
        told.append(f"All {count(labelled)} patients with a known outcome {kind} it, so ranking cannot be judged.")
    elif min(outcomes, labelled - outcomes) < FEWEST_EVENTS:
        side = (
            f"{count(outcomes)} had the outcome"
            if outcomes < labelled - outcomes
            else f"{count(labelled - outcomes)} did not have the outcome"
        )
        told.append(f"Only {side} of {count(labelled)} patients: too few to judge ranking or calibration.")
    if labelled is not None and patients is not None and labelled < patients:
        told.append(f"The outcome is known for {count(labelled)} of {count(patients)} patients; the rest is left out.")
    return told


def referral_sentence(counts: Mapping[str, Any]) -> str:
    """Says how many are referred for each reason; a patient can have several."""
    told = (
        f"{count(counts.get('referred'))} patients are on the list: the interval of "
        f"{count(counts.get('referrals'))} reaches the risk level, {count(counts.get('capacity_referrals'))} are among "
        f"those with most expected loss, {count(counts.get('unlike_referrals'))} are unlike anyone the model learned "
        "from; a patient can have several reasons."
    )
    left = counts.get("left_out")
    return f"{told} {count(left)} more have a reason and no place within the capacity." if left else told


#: What the counts of a label file are, in a sentence after the count.
_LABELS = {
    "known": "patients have a known outcome",
    "missing": "patients have none in the label file",
    "horizon_not_reached": "patients left before the horizon without the event",
    "unknown_ids": "patients of the label file are not among the patients used",
    "duplicates": "rows of the label file repeat a patient",
    "conflicting": "patients have contradicting outcomes, taken as unknown",
    "unreadable": "rows of the label file have no id or no readable outcome",
}


def label_sentences(labels: Mapping[str, Any] | None) -> list[str]:
    """Says what became of the rows of a label file."""
    found = labels or {}
    return [f"{count(found[name])} {words}." for name, words in _LABELS.items() if found.get(name)]
