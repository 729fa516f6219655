"""Every noun of the grammar in one place."""

from __future__ import annotations

from tdrop.contracts.site import Decision, Disclosure, Extract, LabelFile, Reader, Site
from tdrop.contracts.table import (
    Column,
    Condition,
    Contract,
    Interval,
    Limits,
    Missing,
    Outcome,
    Rule,
    Severity,
    Subgroup,
    digest,
)

__all__ = [
    "Column",
    "Condition",
    "Contract",
    "Decision",
    "Disclosure",
    "Extract",
    "Interval",
    "LabelFile",
    "Limits",
    "Missing",
    "Outcome",
    "Reader",
    "Rule",
    "Severity",
    "Site",
    "Subgroup",
    "digest",
]
