"""Every number that leaves a site, and the rule by which it does: whoever adds one adds it here.

The tests read all that leaves (export, MLflow, Prefect) and refuse a number without a rule, or against its rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

#: By document and path, the rule of a number; `*` stands for any name.
#: count: a multiple of the threshold. share: of two such counts, or what follows from such shares. grid: on a round
#: step, with no more decimals than that. design: no patient's, such as a setting, a seed or the edge of a bar.
#: stays: never leaves.
PUBLISHED: Mapping[str, Mapping[str, str]] = {
    "validation.json": {
        **dict.fromkeys(("read", "used", "quarantined", "duplicates"), "count"),
        **dict.fromkeys(("findings[].count", "findings[].total", "findings[].others.*", "attrition[].count"), "count"),
        "form": "design",
    },
    "choice.json": {
        **dict.fromkeys(("table[].n", "table[].effective_n"), "count"),
        **dict.fromkeys(
            ("table[].log_loss", "table[].standard_error", "table[].behind", "table[].behind_error"), "grid"
        ),
        **dict.fromkeys(("table[].matched_log_loss", "table[].weighted_log_loss", "table[].plain_log_loss"), "grid"),
    },
    "shift.json": {
        **dict.fromkeys(("source_rows", "target_rows", "weights_effective_n"), "count"),
        **dict.fromkeys(("weights_capped_share", "outside_overlap", "features[].outside_range"), "share"),
        **dict.fromkeys(("domain_auroc.rows_fitted", "aurocs[].rows_fitted"), "count"),
        **{
            f"{where}.{name}": "grid"
            for where in ("domain_auroc", "aurocs[]")
            for name in ("value", "low", "high", "log_loss")
        },
        **dict.fromkeys(("permutation.source_rows", "permutation.target_rows"), "count"),
        **dict.fromkeys(("permutation.statistic", "permutation.p_value"), "grid"),
        "permutation.permutations": "design",
        **dict.fromkeys(("propensity.source[]", "propensity.target[]"), "count"),
        **dict.fromkeys(("features[].density.source[]", "features[].density.target[]"), "count"),
        **dict.fromkeys(("propensity.edges[]", "features[].density.edges[]"), "design"),
        # Of a share, what follows from the shares shown; else a grid.
        **{f"features[].{name}": "share" for name in ("source_mean", "target_mean", "pooled_sd", "smd", "distance")},
        "features[].missing_difference": "share",
        **dict.fromkeys(("drivers[].largest_smd", "drivers[].distance"), "share"),
        "drivers[].auroc_drop": "grid",
        **dict.fromkeys(("grounds[].count", "grounds[].of", "grounds[].expected"), "count"),
        **dict.fromkeys(("grounds[].low", "grounds[].high"), "stays"),
        **dict.fromkeys(("shares.pool[]", "shares.resembled[]"), "grid"),
    },
    "evaluation.json": {
        **dict.fromkeys(("patients", "labelled", "outcomes", "rows[].n", "rows[].events"), "count"),
        # A count, a share or a grid, by the metric.
        **{f"rows[].{name}": "share" for name in ("value", "low", "high", "seed_sd")},
        "rows[].estimable": "stays",
        **dict.fromkeys(("decision.*", "seeds[]", "rows[].seed", "form"), "design"),
    },
    "trials.csv": {
        **dict.fromkeys(("errors", "n", "matched_n"), "count"),
        **dict.fromkeys(("log_loss", "standard_error", "error_auroc", "auroc", "brier"), "grid"),
        **dict.fromkeys(("matched_log_loss", "site_log_loss"), "grid"),
        "*": "design",
    },
    "watch.json": {
        **dict.fromkeys(("patients", "outcomes", "rules[].patients"), "count"),
        **dict.fromkeys(("rules[].evidence", "rules[].line"), "grid"),
        **{f"numbers.{name}": "count" for name in ("patients", "outcomes", "events", "review", "findings.*")},
        **{f"numbers.{name}": "grid" for name in ("expected", "means.*[]", "evidence.*", "ranking[]")},
        "numbers.groups.*.patients": "count",
        **{f"numbers.groups.*.{name}": "grid" for name in ("mean", "low", "high")},
        # In natural units, of numbers on a grid or of shares.
        **{f"moved[].{name}": "share" for name in ("before", "now", "moved")},
        **{
            f"history[].{name}": "count"
            for name in ("patients", "outcomes", "review", "read", "filled_in", "set_aside")
        },
        **dict.fromkeys(("history[].evidence.*", "history[].means.*[]"), "grid"),
        "history[].number": "design",
        **{f"numbers.features.*.{name}": "stays" for name in ("before", "now", "spread")},
    },
    "model_card.json": {
        **{f"sections[].facts[].numbers.{name}": "count" for name in ("n", "patients")},
        # By the metric, of the evaluation and the forecast.
        **{f"sections[].facts[].numbers.{name}": "share" for name in ("value", "low", "high", "overall")},
        **{f"sections[].facts[].numbers.{name}": "design" for name in ("level", "setting")},
    },
    "metrics": {
        **dict.fromkeys(("watch/patients", "watch/outcomes"), "count"),
        **dict.fromkeys(("watch/evidence/*", "watch/mean/*"), "grid"),
        # The best in hindsight and what it was ahead by; of the rehearsal as a whole also how many sites.
        "rehearsal/*": "grid",
        "rows/*": "count",
        "shift/*": "grid",
        **dict.fromkeys(("forecast/*", "choice/*", "matched/*", "source/*", "training/*"), "grid"),
        # Of the evaluation, by the metric.
        "*": "share",
    },
}


def numbers_in(document: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a plain document with its path, in which the places of a list are all alike."""
    if isinstance(document, Mapping):
        for name, value in document.items():
            yield from numbers_in(value, f"{path}.{name}" if path else str(name))
    elif isinstance(document, list | tuple):
        for value in document:
            yield from numbers_in(value, f"{path}[]")
    elif isinstance(document, int | float) and not isinstance(document, bool):
        yield path, document


def rule_of(name: str, path: str) -> str | None:
    """The rule of a number in a document; None where nobody gave it one."""
    for pattern, rule in PUBLISHED.get(name, {}).items():
        if re.fullmatch(re.escape(pattern).replace(r"\*", r"[^\[\]/]*"), path):
            return rule
    return None


def against_the_rules(name: str, document: Any, threshold: int) -> list[str]:
    """The numbers of a document that have no rule, or are not by it."""
    problems = []
    for path, value in numbers_in(document):
        rule = rule_of(name, path)
        if rule is None or rule == "stays":
            problems.append(f"{name}: {path} has no rule by which it may leave")
        elif rule == "count" and value % threshold:
            problems.append(f"{name}: {path} is no multiple of {threshold}")
        elif rule == "grid" and round(value, 3) != value:
            problems.append(f"{name}: {path} has more than three decimals")
    return problems
