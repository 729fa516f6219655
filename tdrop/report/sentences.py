"""Sentences about a site's records, written last: from numbers that may already have passed disclosure.

Every number of patients that a sentence holds comes through `count`, which writes what disclosure left of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tdrop.base import Count
from tdrop.choose import HANDICAP, Choice
from tdrop.contracts import Decision
from tdrop.evaluate import Evaluation
from tdrop.metrics import FEWEST_EVENTS
from tdrop.report.text import count, listed, method_label, share
from tdrop.shift import Balance, Ground, Matching, Shift

#: How each criterion is called.
MEASURES = {
    "importance_weighted": "importance-weighted log loss on out-of-fold source predictions",
    "matched_validation": "log loss on the matched validation set",
}


def shift_sentence(shift: Shift) -> str:
    """Says what the verdict rests on: how alike the patients are, and what else speaks against "go"."""
    against = [ground_sentence(one) for one in shift.grounds if one.verdict != "go"]
    return " ".join([_alike(shift), *against])


def ground_sentence(ground: Ground) -> str:
    """Says what one ground counted."""
    found, of = count(ground.count), count(ground.of)
    if ground.kind == "source_outcomes":
        return f"The rarer outcome was seen in {found} of {of} source patients: too few to learn from."
    if ground.kind == "shared_patients":
        return (
            f"{found} of the {of} patients here are the source's own (same ids, or the same values throughout): they "
            "say nothing about new patients."
        )
    if ground.kind == "known_ranking":
        return (
            f"Among the {of} patients with a known outcome, those who had it were given the lower risks: the risks "
            "rank patients here worse than guessing would."
        )
    known = ground.low is not None and ground.high is not None
    chance = f"; chance allows {count(ground.low)} to {count(ground.high)}" if known else ""
    return (
        f"The outcome was expected in {count(ground.expected)} of the {of} patients with a known outcome and happened "
        f"in {'none' if ground.count == 0 else found}{chance}."
    )


def _alike(shift: Shift) -> str:
    auroc, outside = shift.domain_auroc, shift.outside_overlap
    rows = f"{count(shift.source_rows)} source patients and {count(shift.target_rows)} here"
    if auroc is None:
        return f"With {rows} nothing can be said about how alike the sites are."
    told = (
        f"Among {rows}, a classifier that guesses a patient's site ranks two patients rightly "
        f"{100 * auroc.value:.0f} times in 100 ({100 * auroc.low:.0f} to {100 * auroc.high:.0f}; 50: the sites cannot "
        "be told apart)"
    )
    if outside is None:
        return f"{told}."
    if not outside:
        return f"{told}; every patient here has some like them at the source."
    return f"{told}; {share(outside)} of the patients here have hardly anyone like them at the source."


def shift_notes(shift: Shift) -> list[str]:
    """Says which rows stand behind the comparison."""
    fitted: dict[str, list[str]] = {}
    for auroc in shift.aurocs:
        fitted.setdefault(count(auroc.rows_fitted), []).append(auroc.kind)
    told = [
        f"What told the sites apart ({', '.join(kinds)}) was fitted on at most {rows} rows."
        for rows, kinds in fitted.items()
    ]
    test = shift.permutation
    if test:
        told.append(
            f"The permutation test used {count(test.source_rows)} source and {count(test.target_rows)} target rows and "
            f"{test.permutations} permutations."
        )
    return told


def matching_sentences(matching: Matching, titles: Mapping[str, str]) -> list[str]:
    """Says how many source patients were picked, and what was done instead where plain matching failed."""
    told = [f"{count(matching.retained)} source patients were picked to look like this site's."]
    if matching.fallback == "random":
        return [*told, "This site has too few patients to match on, so they were picked at random."]
    if matching.fallback == "most alike":
        within = "" if matching.within is None else f" ({count(matching.within)} of {count(matching.wanted)})"
        why = f"Too few source patients{within} lie within reach of this site's"
        return [*told, f"{why}, so the most similar ones were taken whatever their distance."]
    if not matching.balanced:
        apart = [titles.get(item.feature, item.feature) for item in matching.balance if _apart(item)]
        named = f" in {', '.join(apart[:5])}" if apart else ""
        told.append(f"They could not be made to resemble this site's patients{named}; the closest set was kept.")
    elif matching.fallback == "shorter":
        told.append(f"{count(matching.wanted)} were asked for; a larger set would resemble this site's patients less.")
    return told


def _apart(item: Balance) -> bool:
    return item.after is not None and abs(item.after) > max(0.1, abs(item.before or 0.0) / 2)


def choice_sentence(choice: Choice) -> str:
    """Says why this method, by its table."""
    losses = {row.method: row.log_loss for row in choice.table if row.candidate and row.log_loss is not None}
    if choice.method not in losses:
        return ""
    name, loss = method_label(choice.method), f"{losses[choice.method]:.4f}"
    if choice.members:
        return _committee_sentence(choice.members, losses, loss, MEASURES[choice.criterion])
    best = min(losses, key=losses.__getitem__)
    lowest = f"{method_label(best)} has the lowest {MEASURES[choice.criterion]} ({losses[best]:.4f})"
    if best == choice.method:
        other = choice.runner_up
        return f"{lowest}; {method_label(other)} follows with {losses[other]:.4f}." if other in losses else f"{lowest}."
    if best in HANDICAP:
        lead = f"must lead by more than chance and {HANDICAP[best]:g}"
        return f"{lowest}, but {lead} because trees do not extrapolate: {name} has {loss}."
    tied = sum(row.tied for row in choice.table if row.candidate)
    return (
        f"{lowest}; source patients cannot tell {name} ({loss}) from it, and of the {tied} methods of which that holds "
        "it comes first in the order that transfers best."
    )


def _committee_sentence(members: Sequence[str], losses: Mapping[str, float], loss: str, measure: str) -> str:
    """Says who is used together, and why."""
    told = [f"{method_label(name)} ({losses[name]:.4f})" for name in members if name in losses]
    return (
        f"{listed(told)} are so close in {measure} that source patients do not settle which of "
        f"them serves this site best. Their mean is used ({loss}): methods of different kinds err differently."
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


def referral_sentence(counts: Mapping[str, Count | None]) -> str:
    """Says how many are on the list, and who has a reason without a place on it."""
    told = f"Patients on the list: {count(counts.get('referred'))}, found without any outcome."
    left = counts.get("left_out")
    left_out = f" With a reason and no place within the capacity: {count(left)}." if left else ""
    return f"{told}{left_out} A patient can have several reasons:"


def referral_reasons(counts: Mapping[str, Count | None], decision: Decision) -> list[str]:
    """Says how many are referred for each reason."""
    level, interval = share(decision.risk_level, 0), share(decision.interval_level, 0)
    most = "the largest sd" if decision.rank_by == "sd" else "most to lose by acting on the risk (expected loss)"
    return [
        f"the risk is below {level} but its {interval} interval reaches it: {count(counts.get('referrals'))}",
        f"among the {share(decision.capacity, 0)} with {most}: {count(counts.get('capacity_referrals'))}",
        f"unlike anyone the model learned from: {count(counts.get('unlike_referrals'))}",
    ]
